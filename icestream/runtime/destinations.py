"""A connector at work: the raw records of its feed, and the tables that are made, widened and filled from them.

Every table gets the same raw records and decodes them with its own columns, so that a table can change between two
epochs. What is done to a table's schema can be done again: an epoch that is repeated finds it done.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from icestream.catalog.graph import Feed
from icestream.catalog.objects import DEAD_LETTER_COLUMNS, Connector
from icestream.connectors.base import RAW
from icestream.connectors.formats import FieldSpec
from icestream.connectors.iceberg import use_spec
from icestream.connectors.iceberg_sink import partition_clause
from icestream.errors import LakeError, SqlError
from icestream.kafka_connect.config import ConnectorConfig, Destination
from icestream.kafka_connect.inference import (
    Alteration,
    Description,
    alterations,
    columns_of,
    describe,
    merged,
)
from icestream.kafka_connect.records import Reading, RecordReader
from icestream.kafka_connect.tables import table_columns
from icestream.lake.catalogs import LAKE, CatalogSpec, Lake
from icestream.lake.position import Range
from icestream.lake.table import LakeTable
from icestream.runtime.decode import binary, count_large, ddl, letters_of
from icestream.runtime.feeds import OpenFeed, Rows
from icestream.types import backtick, stored_spark_type

if TYPE_CHECKING:
    from pyspark import Accumulator


def destination_table(connector: Connector, destination: Destination, lake: Lake) -> LakeTable:
    """The table, in the connector's catalog; it need not exist yet."""
    config, catalog = connector.config, LAKE
    if config.catalog is not None:
        spec = CatalogSpec.foreign(config.catalog)
        if config.catalog["type"] == "jdbc":  # it keeps its tables under its name
            spec = CatalogSpec(config.catalog_name, config.catalog)
        catalog = use_spec(lake, spec, f"connector {connector.name}")
    return lake.table(catalog, *destination.parts, owned=False)


def check_destination(
    connector: Connector, destination: Destination, table: LakeTable, lake: Lake
) -> None:
    """Called when the connector is new: the table is there with columns that can be written, or may be created."""
    if lake.exists(table):
        columns_in(connector, table)
    elif not connector.config.auto_create:
        raise SqlError(
            f"connector {connector.name}: table {destination.table} does not exist",
            remedy="create it, or set iceberg.tables.auto-create-enabled to true",
        )


def columns_in(connector: Connector, table: LakeTable) -> tuple[FieldSpec, ...]:
    """The columns that the table has now."""
    try:
        return table_columns(str(table.jvm.iceberg.SchemaParser.toJson(table.load().schema())))
    except ValueError as error:
        raise LakeError(
            f"connector {connector.name}: table {'.'.join(table.parts[1:])}: {error}",
            object=connector.name,
        ) from None


class ConnectorFeed(OpenFeed):
    """The feed of a connector: raw records, for each table to decode."""

    object: Connector

    def __init__(self, feed: Feed, lake: Lake) -> None:
        super().__init__(feed, lake)
        self.lake = lake

    @property
    def config(self) -> ConnectorConfig:
        """What the connector does."""
        return self.object.config

    def rows(self, range: Range, now: str) -> Rows:
        """The values of a range, undecoded and without tombstones."""
        raw = self.read_raw(range, ["value"])
        counter = raw.sparkSession.sparkContext.accumulator
        return Rows(raw.filter(F.col("value").isNotNull()), counter(0), large=counter(0))

    def frame(
        self, destination: Destination, table: LakeTable, rows: Rows, *, known: bool
    ) -> DataFrame | None:
        """The rows for one table, which is created or widened first where the records ask for it.

        `known`: the table was there before this epoch. None: there is no table, and nothing to make one from.
        """
        exists = known or self.lake.exists(table)
        if not exists or self.config.evolve:
            seen = self._look(destination, rows)
            if exists:
                self._evolve(table, seen)
            elif not self._create(destination, table, seen):
                return None
        reader = RecordReader(columns_in(self.object, table), self._reading(destination))
        assert rows.bad is not None
        assert rows.large is not None
        return _good(reader, rows.frame, rows.bad, rows.large)

    def letters(self, range: Range) -> DataFrame:
        """The records that some table they are for cannot take, once each."""
        readers: list[tuple[str, RecordReader]] = []
        for destination in self.config.destinations:
            table = destination_table(self.object, destination, self.lake)
            columns = columns_in(self.object, table) if self.lake.exists(table) else ()
            readers.append((destination.table, RecordReader(columns, self._reading(destination))))
        raw = self.read_raw(range, list(RAW))
        return _bad(readers, raw.filter(F.col("value").isNotNull()))

    def may_have_letters(self, rows: Rows) -> bool:
        """Whether a record failed somewhere."""
        return rows.bad is None or bool(rows.bad.value)

    def _reading(self, destination: Destination) -> Reading:
        config = self.config
        return Reading(
            config.schemas, config.route_field, destination.route, config.case_insensitive
        )

    # -- the table's schema ----------------------------------------------------------------------

    def _look(self, destination: Destination, rows: Rows) -> Description:
        """What the records for the table look like."""
        reading = self._reading(destination)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                seen = describe(binary(batch.column("value")), reading)
                text = json.dumps(seen.records.to_json())
                yield pa.RecordBatch.from_pydict({"seen": [text], "bad": [seen.bad]})

        found = rows.frame.mapInArrow(run, "seen STRING, bad BIGINT").collect()
        if rows.bad is not None:
            rows.bad.add(sum(row.bad for row in found))
        descriptions = [json.loads(row.seen) for row in found]
        return merged(descriptions, fold=self.config.case_insensitive)

    def _create(self, destination: Destination, table: LakeTable, seen: Description) -> bool:
        """Create the table for these records; False if they do not say anything yet."""
        columns = columns_of(seen)
        if not columns:
            return False
        partition_by = None
        if destination.partition_by:
            try:
                partition_by = partition_clause(
                    destination.partition_by, {c.name: c.type for c in columns}
                )
            except SqlError as error:
                raise SqlError(
                    f"connector {self.object.name}: {destination.table} cannot be created: {error.message}",
                    object=self.object.name,
                    remedy="create the table yourself, or drop the connector and change its partition-by",
                ) from None
        self.lake.create(
            table,
            [(c.name, c.type) for c in columns],
            partition_by=partition_by,
            properties=self.config.properties,
            required=() if self.config.force_optional else {c.name for c in columns if c.required},
        )
        return True

    def _evolve(self, table: LakeTable, seen: Description) -> None:
        """Widen the table for these records."""
        columns = [(c.name, c.type) for c in columns_in(self.object, table)]
        changes = alterations(columns, seen, fold=self.config.case_insensitive)
        for change in changes:
            try:
                self.lake.spark.sql(f"ALTER TABLE {table.sql} {_clause(change)}")
            except (Py4JJavaError, PySparkException) as error:
                raise self.lake.unreachable(table, error) from error


def _clause(change: Alteration) -> str:
    path = ".".join(map(backtick, change.path))
    type = stored_spark_type(change.type)
    return f"ADD COLUMN {path} {type}" if change.add else f"ALTER COLUMN {path} TYPE {type}"


def open_feed(feed: Feed, lake: Lake) -> OpenFeed:
    """The feed at work. Nothing outside is asked yet."""
    return (ConnectorFeed if isinstance(feed.object, Connector) else OpenFeed)(feed, lake)


# -- on the executors --------------------------------------------------------------------------------


def _good(
    reader: RecordReader, raw: DataFrame, bad: Accumulator[int], large: Accumulator[int]
) -> DataFrame:
    """The rows that a table takes; records that it should take and cannot are counted in `bad`."""
    names = [f.name for f in reader.fields]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in count_large(batches, large):
            rows = reader.read(binary(batch.column("value")))
            if rows.errors is not None:
                bad.add(len(rows.errors) - rows.errors.null_count)
            yield pa.RecordBatch.from_arrays(rows.columns, names=names).filter(rows.good)

    return raw.mapInArrow(run, ddl(reader.fields))


def _bad(readers: Sequence[tuple[str, RecordReader]], raw: DataFrame) -> DataFrame:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = binary(batch.column("value"))
            found = {
                table: errors.to_pylist()
                for table, reader in readers
                if (errors := reader.read(values).errors) is not None
            }
            if found:
                reasons = [
                    _reason(dict(zip(found, row, strict=True)), len(readers))
                    for row in zip(*found.values(), strict=True)
                ]
                yield letters_of(batch, pa.array(reasons, pa.string()))

    return raw.mapInArrow(run, ddl(FieldSpec(n, t) for n, t in DEAD_LETTER_COLUMNS))


def _reason(by_table: dict[str, str | None], tables: int) -> str | None:
    """One reason for a record: with the tables' names where they do not all say the same."""
    reasons = {table: reason for table, reason in by_table.items() if reason is not None}
    if not reasons:
        return None
    if len(reasons) == tables and len(set(reasons.values())) == 1:
        return next(iter(reasons.values()))
    return "; ".join(f"{table}: {reason}" for table, reason in reasons.items())
