"""Where a task's rows go: an Iceberg table (the engine's own or a shared one) or a sink outside."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructType
from pyspark.sql.types import _parse_datatype_string as parse_type

from icestream.catalog.graph import ConnectorTask, SinkTask, StageTask, Task
from icestream.catalog.named_files import check_files
from icestream.catalog.objects import Sink, hidden_table
from icestream.connectors.base import Column, Context
from icestream.connectors.base import Sink as OutsideSink
from icestream.connectors.iceberg import iceberg_table
from icestream.connectors.iceberg_sink import order_clause, partition_clause
from icestream.connectors.registry import sink_connector
from icestream.errors import SqlError
from icestream.lake.access import access_of
from icestream.lake.catalogs import LAKE, OWNER, SYSTEM, Lake, owner_of
from icestream.lake.table import LakeTable
from icestream.runtime.destinations import check_destination, destination_table
from icestream.runtime.follow import clear
from icestream.types import backtick, stored_spark_type

Target = LakeTable | OutsideSink

WIDER = {("int", "bigint"), ("float", "double"), ("smallint", "int"), ("smallint", "bigint")}


def open_target(task: Task, lake: Lake) -> Target:
    """The place a task writes to; nothing is created or checked yet."""
    object = task.object
    check_files(object, access_of(lake.spark))
    if isinstance(task, ConnectorTask):
        return destination_table(task.object, task.destination, lake)
    if isinstance(task, StageTask) and task.hidden:
        return lake.table(LAKE, SYSTEM, hidden_table(object, task.key), owned=True)
    if not isinstance(object, Sink):
        return lake.table(LAKE, object.schema, object.name, owned=True)
    if object.connector == "iceberg":
        return iceberg_table(lake, object.settings)
    connector = sink_connector(object.connector)
    assert connector.open is not None
    return connector.open(
        Context(lake.spark, lake, object.key, object.name, object.settings, object.columns)
    )


def prepare(task: Task, target: Target, lake: Lake) -> None:
    """Make sure that the table is there and takes the task's columns. Called when the object is new; repeatable."""
    if not isinstance(target, LakeTable):
        return
    match task:
        case ConnectorTask():
            check_destination(task.object, task.destination, target, lake)
        case SinkTask():
            _prepare_sink(task.object, target, lake)
        case _:
            _prepare_own(task, target, lake)


def _prepare_sink(sink: Sink, target: LakeTable, lake: Lake) -> None:
    """Make or widen a table of others."""
    if lake.exists(target):
        _evolve(sink, target, lake)
        return
    if not sink.settings.boolean("create_table_if_not_exists"):
        raise SqlError(
            f"sink {sink.name}: table {'.'.join(target.parts[1:])} does not exist",
            place=sink.settings.place("table.name"),
            remedy="create it, or set create_table_if_not_exists = 'true'",
        )
    columns = {c.name: c.type for c in sink.columns}
    settings = sink.settings
    partitions, order = settings.optional("partition_by"), settings.optional("order_key")
    lake.create(
        target,
        list(columns.items()),
        partition_by=partitions
        and partition_clause(partitions, columns, settings.place("partition_by")),
        order_key=order and order_clause(order, columns, settings.place("order_key")),
        format_version=settings.integer("format_version"),
    )


def _prepare_own(task: Task, target: LakeTable, lake: Lake) -> None:
    """Make a table of the embedded lake."""
    owner = task.object.key
    if lake.exists(target):
        if owner_of(target) == owner and target.head() is None:
            return
        clear(lake, target)
    upsert = None if isinstance(task, StageTask) else task.upsert
    key = upsert.key if upsert is not None and upsert.keyed else ()
    lake.create(target, task.columns, properties={OWNER: owner}, required=key, identifier=key)


def _evolve(sink: Sink, table: LakeTable, lake: Lake) -> None:
    """Add the columns that the table lacks, widen the types that are too narrow, refuse everything else."""
    have = {f.name: f.dataType for f in lake.spark.table(table.sql).schema.fields}
    for statement in _alterations(sink, sink.columns, have, table):
        try:
            lake.spark.sql(statement)
        except PySparkException as error:
            raise lake.unreachable(table, error) from error
    required = [str(f.name()) for f in table.load().schema().columns() if f.isRequired()]
    missing = [n for n in required if n not in {c.name for c in sink.columns}]
    if missing:
        raise SqlError(
            f"sink {sink.name}: {'.'.join(table.parts[1:])} has a required column {missing[0]!r} "
            "that the sink does not write"
        )


def _alterations(
    sink: Sink, columns: Sequence[Column], have: dict[str, DataType], table: LakeTable
) -> list[str]:
    statements = []
    for column in columns:
        wanted = parse_type(stored_spark_type(column.type))
        present = have.get(column.name)
        if present is None:
            twin = next((n for n in have if n.lower() == column.name.lower()), None)
            if twin is not None:
                raise SqlError(
                    f"sink {sink.name}: column {column.name!r} differs only by case from the table's {twin!r}",
                    remedy=f'name it "{twin}" in the query',
                )
            statements.append(
                f"ALTER TABLE {table.sql} ADD COLUMN {backtick(column.name)} {wanted.simpleString()}"
            )
        elif _holds(present, wanted):
            continue
        elif _holds(wanted, present) and not isinstance(present, StructType | ArrayType | MapType):
            statements.append(
                f"ALTER TABLE {table.sql} ALTER COLUMN {backtick(column.name)} TYPE {wanted.simpleString()}"
            )
        else:
            raise SqlError(
                f"sink {sink.name}: column {column.name!r} is {wanted.simpleString()}, "
                f"but the table has {present.simpleString()}",
                remedy="cast it in the sink's query",
            )
    return statements


def _holds(present: DataType, wanted: DataType) -> bool:
    """Whether every value of the wanted type fits the present one without loss."""
    if present.simpleString() == wanted.simpleString():
        return True
    if isinstance(present, DecimalType) and isinstance(wanted, DecimalType):
        return bool(present.scale == wanted.scale and present.precision >= wanted.precision)
    return (wanted.simpleString(), present.simpleString()) in WIDER
