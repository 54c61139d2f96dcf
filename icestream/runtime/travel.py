"""What a query reads beside relations as they are now: versions of the past, and the metadata of Iceberg tables."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import DataFrame

from icestream import types as t
from icestream.catalog.catalog import Catalog
from icestream.catalog.graph import Feed
from icestream.catalog.names import in_iceberg
from icestream.catalog.objects import Object, Sink, Source
from icestream.connectors.iceberg import SnapshotRanges, iceberg_table
from icestream.errors import SqlError
from icestream.functions.expression_errors import RAISE
from icestream.functions.expressions import ColumnRef, Expr, Literal
from icestream.lake.catalogs import Lake
from icestream.lake.java_types import JavaTable
from icestream.lake.jvm import iterate
from icestream.lake.metadata import metadata_text, split_key
from icestream.lake.pins import Pin
from icestream.lake.position import Range
from icestream.lake.stamp import Record
from icestream.lake.table import LakeTable, Snapshot, snapshot_of
from icestream.plan.logical import ONE_ROW, AsOf, Item, Node, Project, Scan, walk
from icestream.plan.spark import render
from icestream.runtime.feeds import OpenFeed
from icestream.runtime.spark_jobs import raising_sql_errors
from icestream.runtime.temp_views import TempViews
from icestream.types import Type, backtick, stored_spark_type


def special_inputs(
    node: Node, catalog: Catalog, lake: Lake, record: Record | None, pin: Pin, views: TempViews
) -> dict[str, str]:
    """What to read, in Spark SQL, for the scans of versions and of metadata, by the relations they name. Versions are
    pinned."""
    reader = _Reader(catalog, lake, record)
    found: dict[str, str] = {}
    columns: dict[str, dict[str, Type]] = {}
    scans = [n for n in walk(node) if isinstance(n, Scan)]
    for scan in scans:
        refs = (i.expr for i in scan.items)
        read = {ref.name: ref.type for ref in refs if isinstance(ref, ColumnRef)}
        columns.setdefault(scan.relation, {}).update(read)
    for scan in {s.relation: s for s in scans}.values():
        if scan.at is not None:
            read = columns[scan.relation]
            found[scan.relation], snapshot = reader.version(scan.name, scan.at, read, views)
            pin.add([snapshot])
        elif (of := split_key(scan.relation)) is not None:
            found[scan.relation] = metadata_text(reader.table(scan.name, of[0]), of[1])
    return found


def iceberg_tables(
    catalog: Catalog, lake: Lake, record: Record
) -> Iterator[tuple[Object, LakeTable]]:
    """The Iceberg tables behind objects, as far as there are some yet."""
    reader = _Reader(catalog, lake, record)
    for object in catalog:
        if in_iceberg(object) and (isinstance(object, Source) or object.key in record.objects):
            yield object, reader.table(object.name, object.key)


class _Reader:
    """Finds tables and their snapshots for one query."""

    def __init__(self, catalog: Catalog, lake: Lake, record: Record | None) -> None:
        self.objects: Mapping[str, Object] = {o.key: o for o in catalog}
        self.lake = lake
        self.record = record
        self._values: dict[Expr, int | None] = {}

    def table(self, name: str, key: str) -> LakeTable:
        """The Iceberg table behind an object."""
        object = self.objects.get(key)
        if isinstance(object, Source):
            return iceberg_table(self.lake, object.ingest.settings)
        if isinstance(object, Sink):
            return iceberg_table(self.lake, object.settings)
        at = self.record.objects.get(key) if self.record else None
        if at is None or at.table is None:
            raise SqlError(f"{name} has no snapshots yet", remedy="icestream run")
        return self.lake.table(*at.table.split(".", 2), owned=True)

    def version(
        self, name: str, at: AsOf, columns: Mapping[str, Type], views: TempViews
    ) -> tuple[str, int]:
        """A relation as it was, with the columns that it has now, and the snapshot it is read from."""
        table = self.table(name, at.relation)
        java = table.load()
        snapshot = self._snapshot(name, at, table, java)
        object = self.objects.get(at.relation)
        if isinstance(object, Source):
            return views.add(self._source(object, snapshot)), snapshot
        return under_columns_of_now(table, java, snapshot, columns), snapshot

    def _snapshot(self, name: str, at: AsOf, table: LakeTable, java: JavaTable) -> int:
        """The snapshot that is asked for, if it is there still."""
        value = self._value(at)
        if at.expr.type == t.BIGINT:
            if java.snapshot(value) is not None:
                return value
            raise _gone(f"{name} has no snapshot {value}", at, list(table.ancestry(java)))
        stands = self.record.objects.get(at.relation) if self.record else None
        newest = stands.snapshot if stands else None
        reached = newest is None  # what an unfinished epoch has committed is not there yet
        kept: list[Snapshot] = []
        for snapshot in table.ancestry(java):
            reached = reached or snapshot.id == newest
            if reached and snapshot.moment <= value:
                return snapshot.id
            kept.append(snapshot)
        raise _gone(f"{name} has no version of {_time(value)}", at, kept)

    def _value(self, at: AsOf) -> int:
        """What the constant of a version is: an id, or milliseconds; each computed once a query."""
        expr = at.expr
        if expr not in self._values:
            self._values[expr] = self._compute(expr)
        value = self._values[expr]
        if value is None:
            what = "the id of a snapshot" if expr.type == t.BIGINT else "a moment"
            raise SqlError(f"what stands after AS OF is not {what}", place=at.place)
        return value

    def _compute(self, expr: Expr) -> int | None:
        if isinstance(expr, Literal) and isinstance(expr.value, int):
            return expr.value
        shown = "`at`" if expr.type == t.BIGINT else "unix_millis(`at`)"
        text = render(Project(ONE_ROW, (Item("at", expr),)), {}, failures=RAISE)
        with raising_sql_errors():
            (row,) = self.lake.spark.sql(f"SELECT {shown} FROM ({text})").collect()
        return None if row[0] is None else int(row[0])

    def _source(self, source: Source, snapshot: int) -> DataFrame:
        feed = OpenFeed(Feed(source), self.lake)
        try:
            assert isinstance(feed.source, SnapshotRanges)
            range = Range({"snapshot": None}, {"snapshot": snapshot})
            return feed.rows(range, "current_timestamp()").frame
        finally:
            feed.close()


def under_columns_of_now(
    table: LakeTable, java: JavaTable, snapshot: int, columns: Mapping[str, Type]
) -> str:
    """The rows of a snapshot under the columns of now: those that it did not have are NULL, others keep their identity."""
    version = f"{table.sql} VERSION AS OF {snapshot}"
    then = snapshot_of(java, snapshot).schemaId()
    if then is None or then == java.schema().schemaId():
        return version
    schema = java.schemas().get(then)
    ids = {str(field.name()): field.fieldId() for field in iterate(java.schema().columns())}
    shown = []
    for name, type in columns.items():
        field = schema.findField(ids[name]) if name in ids else None
        stored = "NULL" if field is None else backtick(str(field.name()))
        shown.append(f"CAST({stored} AS {stored_spark_type(type)}) AS {backtick(name)}")
    return f"(SELECT {', '.join(shown)} FROM {version})"


def _gone(message: str, at: AsOf, kept: Sequence[Snapshot]) -> SqlError:
    if kept:
        oldest = kept[-1]
        message += f"; the oldest that is kept is {oldest.id} of {_time(oldest.moment)}"
    return SqlError(message, place=at.place, remedy='"…$snapshots" lists those that are there')


def _time(millis: int) -> str:
    moment = dt.datetime.fromtimestamp(millis / 1000, dt.UTC)
    return moment.isoformat(" ", "milliseconds")
