"""SELECT through the engine: every table at the newest complete record, so one epoch for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from icestream.catalog.catalog import Catalog
from icestream.catalog.graph import Feed
from icestream.catalog.objects import Source, Table
from icestream.config import Home
from icestream.errors import SqlError
from icestream.lake.catalogs import LAKE, SYSTEM, Lake
from icestream.lake.log import EpochLog
from icestream.lake.stamp import Range, Record
from icestream.plan.linear import relations_read
from icestream.plan.query import bind_query
from icestream.plan.spark import render
from icestream.result import Result
from icestream.runtime.feeds import OpenFeed
from icestream.sql.statements import Query
from icestream.types import backtick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def select(query: Query, catalog: Catalog, spark: SparkSession, home: Home) -> Result:
    """Run a query and collect its rows."""
    frame = frame_of(query, catalog, spark)
    rows = [tuple(row) for row in frame.collect()]
    return Result(columns=tuple(frame.columns), rows=rows)


def frame_of(query: Query, catalog: Catalog, spark: SparkSession) -> DataFrame:
    """The query as a Spark frame over the newest record's snapshots."""
    node = bind_query(query, catalog.names().relation)
    lake = Lake(spark)
    log = EpochLog(lake.table(LAKE, SYSTEM, "epochs", owned=True))
    record = log.newest() if lake.exists(log.table) else None
    inputs = {key: _input(key, catalog, lake, record) for key in relations_read(node)}
    return spark.sql(render(node, inputs))


def _input(key: str, catalog: Catalog, lake: Lake, record: Record | None) -> str:
    at = record.objects.get(key) if record else None
    if at is not None and at.table is not None:
        name = ".".join(map(backtick, at.table.split(".", 2)))  # an object's name may hold dots
        return f"{name} VERSION AS OF {at.snapshot}"
    object = next((o for o in catalog if o.key == key), None)
    if isinstance(object, Source):
        return _whole_source(object, lake)
    name = key.partition("#")[0]
    raise (
        SqlError(
            f"{name} has no rows yet: the pipeline has not run since it was created",
            remedy="icestream run … --once",
        )
        if not isinstance(object, Table)
        else SqlError(f"{name} has not been filled yet", remedy="icestream run")
    )


def _whole_source(source: Source, lake: Lake) -> str:
    """A source that is not stored is read from its start to its present end."""
    feed = OpenFeed(Feed(source), lake)
    try:
        start = feed.source.start()
        rows = feed.rows(Range(start, feed.source.latest(start)), "current_timestamp()")
    finally:
        feed.close()
    name = f"icestream_source_{source.id}"
    rows.frame.createOrReplaceTempView(name)
    return name
