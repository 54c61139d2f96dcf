"""The text for DuckDB, where there is one, gives the rows of the plan and exactly the types it names."""

from __future__ import annotations

import os
import random
from typing import Any

import duckdb
import pytest

from icestream.dev.duck import open_duckdb
from icestream.functions.duckdb import duck_type
from icestream.plan.duckdb import multiplies, render
from tests.duck import UnknownToDuckDBError, bag, connect, render_duckdb
from tests.duck import duck_type as stored_type
from tests.duck import quoted as name
from tests.seeds import draw_seed
from tests.shapes import FORMS, Contents, random_history, random_query, random_schema
from tests.spark.golden import TABLES, plan, queries

INPUTS = {f"{name}#1": name for name in TABLES}


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    connection = connect()
    for table, (columns, rows) in TABLES.items():
        declared = ", ".join(f"{name(c)} {stored_type(x)}" for c, x in columns.items())
        connection.execute(f"CREATE TABLE {table} ({declared})")
        if rows:
            rows = rows.replace("{", "[").replace("}", "]")
            connection.execute(f"INSERT INTO {table} VALUES {rows}")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def test_golden_queries(database: duckdb.DuckDBPyConnection) -> None:
    answered = 0
    for _, sql in queries():
        node = plan(sql)
        text = render(node, INPUTS, 0)
        if text is None:
            continue
        try:
            answer = database.execute(text)
        except (duckdb.OutOfRangeException, duckdb.ConversionException):
            continue  # an overflow: Spark answers
        assert [str(d[1]) for d in answer.description] == [
            duck_type(c.type).replace("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE")
            for c in node.columns
        ], sql
        found = answer.fetchall()
        try:
            expected = database.execute(render_duckdb(node, INPUTS)).fetchall()
        except UnknownToDuckDBError:
            continue
        assert bag(found) == bag(expected), sql
        answered += 1
    assert answered > 110


def test_random_queries() -> None:
    seed = draw_seed("local queries")
    r, connection = random.Random(seed), connect()
    answered = 0
    for _ in range(int(os.environ.get("COUNT", "3"))):
        schema = random_schema(r)
        contents = Contents(schema)
        contents.apply(random_history(r, schema, 60))
        contents.load(connection)
        inputs = {table.name: table.name for table in schema.tables}
        for form in FORMS:
            query = random_query(r, schema, form=form, depth=r.randint(0, 1))
            text = render(query.node, inputs, 0)
            if text is None:
                continue
            try:
                found = connection.execute(text).fetchall()
            except (duckdb.OutOfRangeException, duckdb.ConversionException):
                continue  # an overflow: Spark answers
            except duckdb.InvalidInputException as error:
                if "several rows" not in str(error):  # of a subquery that is a value: Spark raises
                    raise
                continue
            except duckdb.InternalException:
                continue  # DuckDB's own errors: it happens to deeply nested texts
            expected = connection.execute(render_duckdb(query.node, inputs)).fetchall()
            assert bag(found) == bag(expected), f"{schema}\n{query.text}"
            answered += 1
    assert answered > 5


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT 'it''s \"x\" -- \\' || ';'", [('it\'s "x" -- \\;',)]),
        ("SELECT -9223372036854775808, (-32768)::smallint", [(-(2**63), -(2**15))]),
        ("SELECT '\\x0027ff'::bytea = '\\x0027ff'::bytea WHERE 'a\\' LIKE '%\\\\'", [(True,)]),
        ('SELECT 1 AS "a""b", 2 AS "A\'B" ORDER BY "a""b"', [(1, 2)]),
    ],
)
def test_what_users_write_stays_what_it_is(
    database: duckdb.DuckDBPyConnection, sql: str, rows: list[tuple[Any, ...]]
) -> None:
    text = render(plan(sql), INPUTS, 0)
    if text is not None:
        assert database.execute(text).fetchall() == rows
    else:
        assert "bytea" in sql


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(x) FROM numbers",
        "SELECT avg(x) FROM numbers",
        "SELECT max(x) FROM numbers",
        "SELECT x FROM numbers GROUP BY x",
        "SELECT DISTINCT x FROM numbers",
        "SELECT x FROM numbers UNION SELECT x FROM numbers",
        "SELECT count(DISTINCT x) FROM numbers",
        "SELECT tags FROM orders",
        "SELECT upper(item) FROM orders",
        "SELECT item::int FROM orders",
        "SELECT price::float8 FROM orders",
        "SELECT x::int FROM numbers",
        "SELECT random()",
        "SELECT at - at FROM orders",
        "SELECT item ~ 'a' FROM orders",
        "SELECT id, sum(quantity) OVER (ORDER BY id) FROM orders",
        'SELECT "a" FROM (SELECT id AS "a", customer AS "A" FROM orders) s WHERE "A" = 1',
    ],
)
def test_what_is_not_sure_is_left_to_spark(sql: str) -> None:
    assert render(plan(sql), INPUTS, 0) is None


def test_joins_that_compare_every_row_with_every_other() -> None:
    head = "SELECT o.id FROM orders o JOIN customers c ON "
    assert multiplies(plan(head + "o.id < c.id"))
    assert multiplies(plan("SELECT 1 FROM orders, customers"))
    assert not multiplies(plan(head + "o.id < c.id AND c.id = o.customer + 1"))
    assert not multiplies(
        plan("SELECT id FROM orders WHERE customer IN (SELECT id FROM customers)")
    )


@pytest.mark.parametrize("test", ["= 1", "<= 1", "<= 2", "< 3"])
@pytest.mark.parametrize("call", ["row_number()", "rank()"])
def test_ranks_over_no_rows_give_no_rows(call: str, test: str) -> None:
    """DuckDB 1.5 gives one row of NULLs for the first of them, unless an optimizer is off."""
    sql = f"SELECT a FROM (SELECT a, {call} OVER (ORDER BY a) AS r FROM nothing) s WHERE r {test}"
    text = render(plan(sql), INPUTS, 0)
    assert text is not None
    for made in (connect(), open_duckdb()):
        made.execute("CREATE TABLE nothing (a INTEGER, b VARCHAR)")
        assert made.execute(text).fetchall() == []
