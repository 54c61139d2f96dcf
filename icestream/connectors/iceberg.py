"""An Iceberg table as a source: its snapshots are the positions, the rows between two of them the range.

An offset is {"snapshot": id}, or null for "before the first". The first range gives the table as it is at its
end; later ones the rows appended since. A snapshot that changes or deletes rows stops the source.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from icestream.connectors.base import Context, Source, SourceConnector
from icestream.connectors.iceberg_options import (
    CATALOG_OPTIONS,
    TABLE_OPTIONS,
    catalog_properties,
    catalog_type,
    check_catalog,
    named_files,
)
from icestream.errors import ConnectorError, RangeLostError, did_you_mean
from icestream.lake.catalogs import LAKE, CatalogSpec, Lake
from icestream.lake.changes import changes
from icestream.lake.jvm import system_properties
from icestream.lake.position import Offset
from icestream.lake.table import LakeTable, Snapshot
from icestream.secrecy import HIDDEN
from icestream.sql.options import OptionSpec, Settings
from icestream.types import Type, backtick, spark_type

GLUE_KEYS = {
    "s3.access-key-id": "aws.accessKeyId",
    "s3.secret-access-key": "aws.secretAccessKey",
}


def catalog_spec(settings: Settings) -> CatalogSpec | None:
    """The catalog that the options name, as Spark will know it; None is the embedded lake.

    A JDBC catalog keeps its tables under its name, so Spark must call it by just that.
    """
    properties = catalog_properties(settings)
    if not properties:
        return None
    if catalog_type(settings) == "jdbc":
        return CatalogSpec(settings.string("catalog.name"), properties)
    return CatalogSpec.foreign(properties)


def use_catalog(lake: Lake, settings: Settings) -> str:
    """Make the catalog that the options name known to the session, and give its name there."""
    spec = catalog_spec(settings)
    return LAKE if spec is None else use_spec(lake, spec, settings.what)


def use_spec(lake: Lake, spec: CatalogSpec, what: str) -> str:
    """Make a catalog known to the session, and give its name there. `what` names its user in errors.

    Glue's client takes keys only from where the AWS SDK looks by itself, so they become system properties of the
    driver's JVM; a second Glue catalog with other keys is refused.
    """
    for key, value in spec.spark_conf().items():
        # A session that is made later begins with what the application has: hidden values.
        if lake.spark.conf.get(key, value) not in (value, HIDDEN):
            raise ConnectorError(
                f"{what}: two different catalogs are called {spec.name!r}",
                remedy="give one of them another name",
            )
    if spec.properties["type"] == "glue" and "s3.access-key-id" in spec.properties:
        system = system_properties(lake.spark)
        for property, name in GLUE_KEYS.items():
            value = spec.properties[property]
            if system.getProperty(name) not in (None, value):
                raise ConnectorError(
                    f"{what}: another Glue catalog is in use with other keys",
                    remedy="use one set of keys for all Glue catalogs of a home",
                )
            system.setProperty(name, value)
    lake.use(spec)
    return spec.name


def iceberg_table(lake: Lake, settings: Settings) -> LakeTable:
    """The table that the options name, in a catalog that is made known to the session; it need not exist yet."""
    catalog = use_catalog(lake, settings)
    namespace = settings.string("database.name").split(".")
    return lake.table(catalog, *namespace, settings.string("table.name"), owned=False)


class SnapshotRanges(Source):
    """The ranges between the snapshots of a table that is only appended to."""

    raw = False

    def __init__(
        self,
        name: str,
        table: LakeTable,
        columns: Sequence[tuple[str, Type]],
        mode: str = "earliest",
    ) -> None:
        self.name = name
        self.table = table
        self.columns = dict(columns)
        self.mode = mode
        self._known: list[Snapshot] = []

    def start(self) -> Offset:
        """Before the first snapshot, or at the newest, as scan.startup.mode says."""
        if self.mode == "earliest":
            return {"snapshot": None}
        head = self.table.head()
        return {"snapshot": head.id if head else None}

    def latest(self, since: Offset) -> Offset:
        """The table's newest snapshot; checks that `since` is still in its history."""
        known: list[Snapshot] = []
        for snapshot in self.table.ancestry():
            known.append(snapshot)
            if snapshot.id == since["snapshot"]:
                break
        else:
            if since["snapshot"] is not None:
                raise RangeLostError(
                    f"source {self.name}: snapshot {since['snapshot']} is no longer in the history of "
                    f"{'.'.join(self.table.parts[1:])}",
                    object=self.name,
                    remedy="it was expired, rolled back or the table made anew; ALTER SOURCE … RESET goes on "
                    "with what comes next; to start over, drop and create the source again",
                )
        self._known = known[::-1]
        return {"snapshot": known[0].id} if known else since

    def reset(self, since: Offset) -> Offset:
        """The newest snapshot, if `since` is no longer in the table's history: rows in between are skipped."""
        known = list(self.table.ancestry())
        if since["snapshot"] is None or any(s.id == since["snapshot"] for s in known):
            return since
        return {"snapshot": known[0].id if known else None}

    def advance(self, since: Offset, end: Offset, limit: int | None) -> Offset:
        """Whole snapshots, at least one; the first range is the table as it is, so it is not cut."""
        between = self._between(since, end)
        if limit is None or since["snapshot"] is None or not between:
            return end
        total = 0
        for index, snapshot in enumerate(between):
            total += _number(snapshot, "added-records")
            if total > limit:
                return {"snapshot": between[max(index - 1, 0)].id}
        return end

    def count(self, start: Offset, end: Offset) -> int | None:
        """The rows that the snapshots say they added."""
        if start == end:
            return 0
        between = self._between(start, end)
        if not between:
            return None
        if start["snapshot"] is None:
            return _number(between[-1], "total-records")
        return sum(_number(s, "added-records") for s in between if s.operation != "replace")

    def _between(self, start: Offset, end: Offset) -> list[Snapshot]:
        """The snapshots of (start, end], oldest first, as the last `latest` saw them; empty if it did not."""
        ids = [s.id for s in self._known]
        if end["snapshot"] not in ids:
            return []
        stop = ids.index(end["snapshot"]) + 1
        if start["snapshot"] is None:
            return self._known[:stop]
        return (
            self._known[ids.index(start["snapshot"]) + 1 : stop] if start["snapshot"] in ids else []
        )

    def read(self, start: Offset, end: Offset, columns: Sequence[str]) -> DataFrame:
        """The rows that the snapshots of (start, end] appended."""
        frame = changes(self.table, start["snapshot"], end["snapshot"])
        if frame is None:
            schema = ", ".join(f"{backtick(c)} {spark_type(self.columns[c])}" for c in columns)
            return self.table.jvm.spark.createDataFrame([], schema)
        return frame.select(*[self._column(frame, c) for c in columns])

    def _column(self, frame: DataFrame, name: str) -> SparkColumn:
        """A declared column: the table's of that name, in the declared type; NULL before the table had it."""
        type = spark_type(self.columns[name])
        found = _match(name, frame.columns)
        if found is not None:
            return F.col(backtick(found)).cast(type).alias(name)
        known = [str(field.name()) for field in self.table.load().schema().columns()]
        if _match(name, known) is None:
            raise ConnectorError(
                f"source {self.name}: table {'.'.join(self.table.parts[1:])} has no column {name!r}",
                object=self.name,
                remedy=did_you_mean(name, known) or "its columns are " + ", ".join(known),
            )
        return F.lit(None).cast(type).alias(name)


def _match(name: str, known: Sequence[str]) -> str | None:
    """The known name that equals it, else one that differs in case alone."""
    return name if name in known else {k.lower(): k for k in known}.get(name.lower())


def _number(snapshot: Snapshot, key: str) -> int:
    return int(snapshot.summary.get(key, "0"))


class IcebergSource(SnapshotRanges):
    """A table of a foreign catalog. It is looked for when the source is created, not each time it is opened."""

    asks_only = True

    def __init__(self, context: Context) -> None:
        self.lake = context.lake
        columns = [(c.name, c.type) for c in context.columns if c.generated is None]
        table = iceberg_table(context.lake, context.settings)
        mode = context.settings.string("scan.startup.mode")
        super().__init__(context.name, table, columns, mode)

    def start(self) -> Offset:
        """See SnapshotRanges; the table must exist."""
        if not self.lake.exists(self.table):
            raise ConnectorError(
                f"source {self.name}: table {'.'.join(self.table.parts[1:])} does not exist",
                object=self.name,
                remedy="check database.name, table.name and the catalog's options",
            )
        return super().start()


SOURCE = SourceConnector(
    name="iceberg",
    options=(
        *TABLE_OPTIONS,
        *CATALOG_OPTIONS,
        OptionSpec(
            "scan.startup.mode",
            choices=("earliest", "latest"),
            default="earliest",
            help="begin with the rows that are there, or with those that come",
        ),
        OptionSpec(
            "source_rate_limit", "int", help="rows a second that are taken at most", least=1
        ),
    ),
    open=IcebergSource,
    check=check_catalog,
    named_files=named_files,
)
