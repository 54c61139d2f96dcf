"""Whole queries on Spark against a real PostgreSQL: the same SQL, the same rows, and the types that were bound."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from decimal import Context, Decimal
from typing import Any

import duckdb
import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from icestream import types as t
from icestream.dev.duck import open_duckdb
from icestream.plan.duckdb import render as local_text
from icestream.plan.linear import linear
from icestream.plan.logical import Node, Order, walk
from icestream.plan.spark import render
from icestream.types import backtick, spark_type
from tests.duck import duck_type
from tests.services.postgres import PostgresServer, postgres
from tests.spark.golden import TABLES, plan, queries
from tests.spark_session import spark
from tests.tricks import TRICKS

__all__ = ["postgres", "spark"]
pytestmark = [pytest.mark.spark, pytest.mark.services]

WIDE = Context(prec=80)
POSTGRES = {t.VARCHAR: "text", t.array(t.INTEGER): "integer[]", t.NUMERIC: "numeric"}


@pytest.fixture(scope="module")
def tables(spark: SparkSession, postgres: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        for name, (columns, rows) in TABLES.items():
            declared = ", ".join(f'"{c}" {POSTGRES.get(x, str(x))}' for c, x in columns.items())
            connection.execute(f"DROP TABLE IF EXISTS {name}")
            connection.execute(f"CREATE TABLE {name} ({declared})")
            if rows:
                connection.execute(f"INSERT INTO {name} VALUES {rows}")
            found = connection.execute(f"SELECT * FROM {name}").fetchall()
            schema = ", ".join(f"{backtick(c)} {spark_type(x)}" for c, x in columns.items())
            spark.createDataFrame(found, schema).createOrReplaceTempView(f"data_{name}")
        yield connection


@pytest.fixture(scope="module")
def local(tables: psycopg.Connection[Any]) -> duckdb.DuckDBPyConnection:
    """The same rows for the texts that are answered without Spark."""
    made = open_duckdb()
    for name, (columns, _) in TABLES.items():
        declared = ", ".join(f'"{c}" {duck_type(x)}' for c, x in columns.items())
        made.execute(f"CREATE TABLE {name} ({declared})")
        marks = ", ".join("?" * len(columns))
        for row in tables.execute(f"SELECT * FROM {name}"):
            made.execute(f"INSERT INTO {name} VALUES ({marks})", row)
    return made


def plain(value: Any) -> Any:
    """A value as both sides can be compared: exact numbers to ten digits, floats by their digits."""
    match value:
        case bool() | None | str() | datetime.date():
            return value
        case int() | Decimal():
            exact = Decimal(value).quantize(Decimal("1e-10"), context=WIDE)
            return format(exact.normalize(WIDE), "f")
        case float():
            return f"{value + 0.0:.9g}"  # -0.0 and 0.0 are equal: either may be given
        case list() | tuple():
            return [plain(v) for v in value]
    return value


def rows(found: list[Any], ordered: bool) -> list[list[Any]]:
    made = [[plain(v) for v in row] for row in found]
    return made if ordered else sorted(made, key=repr)


def on_spark(spark: SparkSession, node: Node, prefix: str = "data") -> DataFrame:
    return spark.sql(render(node, {f"{name}#1": f"{prefix}_{name}" for name in TABLES}))


@pytest.mark.parametrize("sql", [pytest.param(sql, id=name) for name, sql in queries()])
def test_rows_are_those_of_postgres(
    sql: str,
    spark: SparkSession,
    tables: psycopg.Connection[Any],
    local: duckdb.DuckDBPyConnection,
) -> None:
    node = plan(sql)
    frame = on_spark(spark, node)
    cursor = tables.execute(sql)
    assert cursor.description is not None
    assert frame.columns == [c.name for c in node.columns] == [d.name for d in cursor.description]
    declared = ", ".join(f"c{i} {spark_type(c.type)}" for i, c in enumerate(node.columns))
    wanted = [f.dataType.simpleString() for f in StructType.fromDDL(declared).fields]
    assert [f.dataType.simpleString() for f in frame.schema.fields] == wanted
    ordered = bool(re.search(r"ORDER BY [^)]*$", sql)) and any(
        isinstance(n, Order) for n in walk(node)
    )
    wanted_rows = rows(cursor.fetchall(), ordered)
    assert rows(frame.collect(), ordered) == wanted_rows
    text = local_text(node, {f"{name}#1": name for name in TABLES}, 0)
    if text is not None:
        try:
            found = local.execute(text).fetchall()
        except (duckdb.OutOfRangeException, duckdb.ConversionException):
            return  # an overflow: Spark answers
        assert rows(found, ordered) == wanted_rows


def test_literals_and_names_are_data(
    spark: SparkSession,
    tables: psycopg.Connection[Any],
    local: duckdb.DuckDBPyConnection,
) -> None:
    """No text that a user writes is taken for a placeholder, a variable or an escape: neither as a value nor as a name."""
    forms = (
        "{0}", "{0} || {0}", "upper({0}) || now()::text = {0}", "{0} = ANY (ARRAY['x', {0}])", "{0} <> ALL (ARRAY['x'])",
        "replace({0}, {0}, 'y')", "starts_with({0}, {0})", "CASE WHEN {0} = 'q' THEN now()::text ELSE {0} END", "length({0})",
        "split_part({0} || '|' || {0}, '|', 2)", "ARRAY[{0}, {0}]", "position({0} in 'a' || {0})",
        "concat({0}, (SELECT {0}))", "coalesce(nullif({0}, 'q'), {0} || 'z')",
    )  # fmt: skip
    tricks = [trick for trick in TRICKS if trick not in ("", "|")]
    literals = ["'" + trick.replace("'", "''") + "'" for trick in tricks]
    names = ['"' + trick.replace('"', '""') + '"' for trick in tricks if "${" not in trick]
    values = [form.format(literal) for literal in literals for form in forms]
    aggregates = [f"string_agg(id || {x}, {x} ORDER BY id)" for x in literals]
    queries = (
        "SELECT " + ", ".join(f"{value} AS c{n}" for n, value in enumerate(values)),
        "SELECT " + ", ".join(f"{x} AS c{n}" for n, x in enumerate(aggregates)) + " FROM orders",
        *(f"SELECT {n}.{n} || {n}.{n} AS {n} FROM (SELECT item AS {n} FROM orders) {n} WHERE {n}.{n} = ANY (ARRAY[{n}, {n} || 'x'])"
          for n in names[::4]),
    )  # fmt: skip
    for sql in queries:
        node = plan(sql)
        frame = on_spark(spark, node)
        cursor = tables.execute(sql.encode())
        assert cursor.description is not None
        assert (
            frame.columns == [c.name for c in node.columns] == [d.name for d in cursor.description]
        )
        wanted = rows(cursor.fetchall(), False)
        assert rows(frame.collect(), False) == wanted
        text = local_text(node, {f"{name}#1": name for name in TABLES}, 0)
        if text is not None:
            assert rows(local.execute(text).fetchall(), False) == wanted


# what PostgreSQL has no table function for, and how it says the same
WINDOWS = [
    (
        "SELECT id, window_start, window_end FROM tumble(orders, at, INTERVAL '5 minutes')",
        """SELECT id, date_bin('5 minutes', at, '1970-01-01'),
                  date_bin('5 minutes', at, '1970-01-01') + INTERVAL '5 minutes' FROM orders""",
    ),
    (
        "SELECT id, window_start FROM tumble(orders, at, INTERVAL '1 day', INTERVAL '6 hours')",
        "SELECT id, date_bin('1 day', at, '1970-01-01 06:00') FROM orders",
    ),
    (
        "SELECT window_start, sum(quantity) FROM hop(orders, at, INTERVAL '1 hour', INTERVAL '3 hours') GROUP BY 1",
        """SELECT date_bin('1 hour', at, '1970-01-01') - n * INTERVAL '1 hour', sum(quantity)
           FROM orders, generate_series(0, 2) AS n WHERE at IS NOT NULL GROUP BY 1""",
    ),
    (
        "SELECT id, window_start FROM tumble(customers, since, INTERVAL '1 week')",
        "SELECT id, date_bin('7 days', since::timestamp, '1970-01-01') FROM customers",
    ),
]


@pytest.mark.parametrize(("sql", "theirs"), WINDOWS)
def test_time_windows(
    sql: str, theirs: str, spark: SparkSession, tables: psycopg.Connection[Any]
) -> None:
    found = on_spark(spark, plan(sql)).collect()
    assert rows(found, False) == rows(tables.execute(theirs).fetchall(), False)


def test_a_linear_plan_over_the_parts_is_the_plan_over_the_whole(
    spark: SparkSession, tables: psycopg.Connection[Any]
) -> None:
    """Δf(R) = f(ΔR): rows that come in two epochs give what they give in one."""
    for name in TABLES:
        for part in range(2):
            half = spark.table(f"data_{name}").where(f"pmod(hash(*), 2) = {part}")
            half.createOrReplaceTempView(f"part{part}_{name}")
    nodes = [node for _, sql in queries() if linear(node := plan(sql)) is None]
    assert len(nodes) > 15
    for node in nodes:
        parts = [row for part in range(2) for row in on_spark(spark, node, f"part{part}").collect()]
        assert rows(parts, False) == rows(on_spark(spark, node).collect(), False)
