"""SELECT through the engine: every table at the newest complete record, so one epoch for all."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException

from icestream import types as t
from icestream.catalog.catalog import Catalog
from icestream.catalog.graph import Feed
from icestream.catalog.objects import Source, Table
from icestream.errors import SqlError
from icestream.functions.datetime_decoder import DAY
from icestream.functions.expression_errors import RAISE
from icestream.functions.expressions import Interval
from icestream.functions.far_dates import date_of, timestamp_of
from icestream.home_log import log_failure
from icestream.identity import object_name
from icestream.lake.catalogs import Lake
from icestream.lake.log import EpochLog
from icestream.lake.position import Range
from icestream.lake.stamp import Record
from icestream.plan.linear import relations_read
from icestream.plan.logical import Node
from icestream.plan.query import bind_query
from icestream.plan.spark import render
from icestream.result import Result
from icestream.runtime.feeds import OpenFeed
from icestream.runtime.spark_functions import has_functions
from icestream.runtime.spark_jobs import raising_sql_errors
from icestream.runtime.temp_views import TempViews
from icestream.runtime.travel import special_inputs
from icestream.sql.statements import Query
from icestream.types import Type, backtick

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from icestream.runtime.transaction import Transaction

_LOG = logging.getLogger(__name__)

_EXACT = Context(prec=t.NUMERIC.precision)
"""Python's own context rounds to 28 digits."""


def select(query: Query, catalog: Catalog, rows: Callable[[Node], pa.Table]) -> Result:
    """Run a query and collect its rows, as values that mean the same in every time zone."""
    node = bind_query(query, catalog.names().relation)
    table = rows(node)
    values = [values_of(x, c.type) for c, x in zip(node.columns, table.columns, strict=True)]
    types = tuple(c.type for c in node.columns)
    return Result(None, node.names, list(zip(*values, strict=True)), types)


def values_of(column: pa.Array | pa.ChunkedArray, type: Type) -> list[Any]:
    """The values of a column, as `shown` has them."""
    try:
        found = column.to_pylist()
    except (OverflowError, ValueError):  # a year that Python does not have
        found = _read(column, type)
    return [None if v is None else shown(v, type) for v in found]


def _read(column: pa.Array | pa.ChunkedArray, type: Type) -> list[Any]:
    """`to_pylist`, where dates and timestamps may be in any year."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in _read(chunk, type)]
    match type:
        case t.DATE:
            days = column.cast(pa.int32()).to_pylist()
            return [None if v is None else date_of(v) for v in days]
        case t.TIMESTAMP | t.TIMESTAMPTZ:
            zoned = type == t.TIMESTAMPTZ
            micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
            return [None if v is None else timestamp_of(v, zoned) for v in micros]
        case t.ArrayType(element=element):
            lists = (column[at].values for at in range(len(column)))
            return [None if inner is None else _read(inner, element) for inner in lists]
        case t.StructType(fields=fields):
            columns = [_read(column.field(f.name), f.type) for f in fields]
            valid = column.is_valid().to_pylist()
            rows = zip(valid, *columns, strict=True)
            names = [f.name for f in fields]
            return [dict(zip(names, row, strict=True)) if there else None for there, *row in rows]
    return list(column.to_pylist())


def shown(value: Any, type: Type) -> Any:
    """A value as Python has it; plain numerics without the zeros at their end."""
    match type:
        case t.TIME if value == DAY:
            return value  # 24:00:00, which Python does not have
        case t.TIME:
            return (dt.datetime.min + dt.timedelta(microseconds=value)).time()
        case t.INTERVAL:
            return Interval(**value)
        case t.NumericType(scale=t.NUMERIC.scale):
            whole = value == value.to_integral_value()
            return value.quantize(Decimal(1), context=_EXACT) if whole else value.normalize(_EXACT)
        case t.ArrayType(element=element):
            return [None if v is None else shown(v, element) for v in value]
        case t.StructType(fields=fields):
            kinds = {f.name: f.type for f in fields}
            return {n: None if v is None else shown(v, kinds[n]) for n, v in value.items()}
    return value


def collected(node: Node, catalog: Catalog, spark: SparkSession) -> pa.Table:
    """All rows of a query, by Spark. Names may repeat."""
    frame = frame_of(node, catalog, spark)
    with raising_sql_errors():
        table: pa.Table = frame.toDF(*[f"c{i}" for i in range(len(node.columns))]).toArrow()
    return table.rename_columns(list(node.names))


def frame_of(
    node: Node, catalog: Catalog, spark: SparkSession, transaction: Transaction | None = None
) -> DataFrame:
    """A query's plan as a Spark frame over the newest record's snapshots, with the changes of a transaction. The
    snapshots are kept as long as the frame is referred to. A table that was renamed at this very moment has its new name
    in the next record."""
    try:
        return _frame_of(node, catalog, spark, transaction)
    except AnalysisException as error:
        if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
            raise
        log_failure(_LOG, "a query is planned again: a table was renamed", level=logging.DEBUG)
        return _frame_of(node, catalog, spark, transaction)


def _frame_of(
    node: Node, catalog: Catalog, spark: SparkSession, transaction: Transaction | None
) -> DataFrame:
    lake = Lake(spark)
    log = EpochLog.of(lake)
    pin = catalog.pins.begin()
    try:
        with TempViews(spark) as views:
            record = log.newest() if lake.exists(log.table) else None
            inputs = special_inputs(node, catalog, lake, record, pin, views)
            for key in relations_read(node):
                if key not in inputs:
                    inputs[key] = _input(key, catalog, lake, record, views)
                    if transaction is not None and key in transaction.changed:
                        inputs[key] = views.add(transaction.overlay(spark, key, inputs[key]))
            pin.add(at.snapshot for at in (record.objects.values() if record else ()))
            checked = has_functions(spark)
            frame = spark.sql(render(node, inputs, failures=RAISE, cancellable=checked))
    except BaseException:
        pin.release()
        raise
    pin.tie_to(frame)
    return frame


def _input(key: str, catalog: Catalog, lake: Lake, record: Record | None, views: TempViews) -> str:
    at = record.objects.get(key) if record else None
    if at is not None and at.table is not None:
        name = ".".join(map(backtick, at.table.split(".", 2)))  # an object's name may hold dots
        return f"{name} VERSION AS OF {at.snapshot}"
    object = next((o for o in catalog if o.key == key), None)
    if isinstance(object, Source):
        return _whole_source(object, lake, views)
    name = object_name(key)
    raise (
        SqlError(
            f"{name} has no rows yet: the pipeline has not run since it was created",
            remedy="icestream run … --once",
        )
        if not isinstance(object, Table)
        else SqlError(f"{name} has not been filled yet", remedy="icestream run")
    )


def _whole_source(source: Source, lake: Lake, views: TempViews) -> str:
    """A source that is not stored is read from its start to its present end."""
    feed = OpenFeed(Feed(source), lake)
    feed.expects_small = False
    try:
        start = feed.source.start()
        rows = feed.rows(Range(start, feed.source.latest(start)), "current_timestamp()")
    finally:
        feed.close()
    return views.add(rows.frame)
