"""The DuckDB text of a plan gives what DuckDB gives for the query's own text, and what PostgreSQL means by it."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from icestream import types as t
from icestream.plan.duckdb import render as render_local
from icestream.plan.query import Relation
from tests.duck import UnknownToDuckDBError, bag, connect, duck_type, quoted, render_duckdb
from tests.seeds import draw_seed
from tests.shapes import FORMS, Contents, random_history, random_query, random_schema
from tests.spark.golden import TABLES, plan
from tests.unit.plan.tables import bind

INPUTS = {f"{name}#1": name for name in TABLES}


@pytest.fixture
def seed() -> int:
    return draw_seed("duckdb")


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    connection = connect()
    for name, (columns, rows) in TABLES.items():
        declared = ", ".join(f"{quoted(c)} {duck_type(x)}" for c, x in columns.items())
        connection.execute(f"CREATE TABLE {name} ({declared})")
        if rows:
            for find, put in (("{", "["), ("}", "]")):
                rows = rows.replace(find, put)
            connection.execute(f"INSERT INTO {name} VALUES {rows}")
    return connection


SAME = """
SELECT id, customer AS who, price * quantity AS total FROM orders
SELECT 7 / 2 AS whole, 7 / 2.0 AS part, -7 % 3 AS rest
SELECT id FROM orders WHERE customer IN (1, 2, NULL)
SELECT id FROM orders WHERE customer IS DISTINCT FROM 1 AND NOT (price > 5 AND item IS NULL)
SELECT id, CASE WHEN price > 10 THEN 'dear' WHEN price > 2 THEN 'fair' END AS kind FROM orders
SELECT customer, count(*), count(price), sum(quantity), avg(quantity), min(price), max(item) FROM orders GROUP BY customer
SELECT sum(n), avg(x), min(x), max(x), bool_and(flag), bool_or(flag) FROM numbers
SELECT count(*), sum(a), max(b) FROM nothing
SELECT avg(price), avg(id) * 3, sum(price) / 7 FROM orders
SELECT count(DISTINCT customer), sum(DISTINCT quantity), count(*) FILTER (WHERE price > 5) FROM orders
SELECT customer, string_agg(item, '-' ORDER BY id, item), array_agg(quantity ORDER BY id DESC, quantity) FROM orders GROUP BY customer
SELECT item, customer, count(*) FROM orders GROUP BY ROLLUP (item, customer)
SELECT item, customer, sum(quantity) FROM orders GROUP BY GROUPING SETS ((item), (customer), ())
SELECT item FROM orders GROUP BY item HAVING sum(quantity) > 3 OR item IS NULL
SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id
SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.id
SELECT o.id, c.name FROM orders o RIGHT JOIN customers c ON o.customer = c.id AND o.price > 3
SELECT o.id, c.name FROM orders o FULL JOIN customers c ON o.customer = c.id
SELECT o.id, c.name FROM orders o CROSS JOIN customers c
SELECT o.id, c.id FROM orders o JOIN customers c ON o.customer < c.id
SELECT a.x, b.n FROM numbers a JOIN numbers b ON a.x = b.x
SELECT name FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id)
SELECT name FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id)
SELECT id FROM orders WHERE customer IN (SELECT id FROM customers)
SELECT id FROM orders WHERE customer NOT IN (SELECT id FROM customers)
SELECT id FROM orders WHERE quantity NOT IN (SELECT n FROM numbers)
SELECT name, (SELECT count(*) FROM orders o WHERE o.customer = c.id) AS n FROM customers c
SELECT id FROM orders WHERE price = (SELECT max(price) FROM orders)
SELECT id, (SELECT count(*) FROM customers c WHERE c.id > o.customer) FROM orders o
SELECT id FROM orders UNION SELECT id FROM customers
SELECT id FROM orders UNION ALL SELECT id FROM customers UNION ALL SELECT 1
SELECT id FROM orders INTERSECT SELECT id FROM customers
SELECT id FROM orders INTERSECT ALL SELECT id FROM customers
SELECT customer FROM orders EXCEPT SELECT id FROM customers
SELECT customer FROM orders EXCEPT ALL SELECT id FROM customers
SELECT DISTINCT customer, item FROM orders
SELECT DISTINCT x, -x FROM numbers
SELECT DISTINCT ON (customer) customer, id, price FROM orders ORDER BY customer, price DESC, id
SELECT id, price FROM orders ORDER BY price DESC NULLS LAST, id LIMIT 3
SELECT id, price FROM orders ORDER BY price, id LIMIT 2 OFFSET 2
SELECT id, row_number() OVER (PARTITION BY customer ORDER BY price, id, quantity) FROM orders
SELECT id, rank() OVER (ORDER BY price), dense_rank() OVER (ORDER BY price DESC) FROM orders
SELECT id, lag(price) OVER (ORDER BY id, price), lead(id, 2, 0) OVER (ORDER BY id, price) FROM orders
SELECT id, sum(quantity) OVER (PARTITION BY customer ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM orders
SELECT id, avg(quantity) OVER (PARTITION BY item), count(*) OVER () FROM orders
SELECT id, max(price) OVER (ORDER BY id RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM orders
WITH big AS (SELECT * FROM orders WHERE price > 3), few AS (SELECT customer, count(*) AS n FROM big GROUP BY customer) SELECT b.id, f.n FROM big b JOIN few f ON b.customer = f.customer
SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS v(n, s)
SELECT o.id, tag FROM orders o, unnest(o.tags) AS u(tag)
SELECT n, coalesce(x, 0), nullif(n, 2), greatest(n, 2), least(n, NULL) FROM numbers
SELECT n, x IS NOT NULL, flag IS TRUE, flag IS NOT FALSE, n IS NOT DISTINCT FROM 3 FROM numbers
SELECT id::bigint, price::integer, quantity::varchar, "at"::date, item || '!' FROM orders
SELECT id, "at" + INTERVAL '5 minutes', date_trunc('hour', "at"), loud FROM (SELECT id, "at", upper(item) AS loud FROM orders) s
SELECT id, g FROM orders, generate_series(1, 3) AS s(g)
""".strip().splitlines()


@pytest.mark.parametrize("sql", SAME)
def test_a_rendered_plan_gives_the_rows_of_its_text(
    sql: str, database: duckdb.DuckDBPyConnection
) -> None:
    expected = database.execute(sql).fetchall()
    assert bag(database.execute(render_duckdb(plan(sql), INPUTS)).fetchall()) == bag(expected)


# What DuckDB has no words for: (query, the rows that PostgreSQL or RisingWave give)
KNOWN: list[tuple[str, list[tuple[Any, ...]]]] = [
    (
        "SELECT id, count(*) FROM tumble(orders, at, INTERVAL '5 minutes') WHERE at < '2024-01-01 10:05:00' GROUP BY id, window_start",
        [(1, 1), (2, 1)],
    ),
    (
        "SELECT count(*) FROM hop(orders, at, INTERVAL '5 minutes', INTERVAL '15 minutes')",
        [(21,)],
    ),
    (
        "SELECT count(*) FROM tumble(orders, at, INTERVAL '1 day') WHERE window_start IS NULL",
        [(1,)],
    ),
    ("SELECT id, tag FROM orders LEFT JOIN unnest(tags) AS u(tag) ON TRUE WHERE id IN (2, 3, 4)", [(2, 2), (3, None), (4, None)]),
    ("SELECT tag, o FROM orders, unnest(tags) WITH ORDINALITY AS u(tag, o) WHERE id = 5", [(3, 1), (None, 2)]),
    ("SELECT 2147483647 + n AS big FROM numbers WHERE n = 1", [(None,)]),
    ("SELECT n / 0 AS none FROM numbers WHERE n = 1", [(None,)]),
    ("SELECT id FROM orders ORDER BY price DESC NULLS LAST FETCH FIRST 1 ROWS WITH TIES", [(2,), (7,), (7,)]),
    ("SELECT avg(v) FROM (VALUES (1), (1), (2)) AS s(v)", [(Decimal("1.3333333333"),)]),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "expected"), KNOWN, ids=[sql for sql, _ in KNOWN])
def test_what_duckdb_has_no_words_for(
    sql: str, expected: list[tuple[Any, ...]], database: duckdb.DuckDBPyConnection
) -> None:
    assert bag(database.execute(render_duckdb(plan(sql), INPUTS)).fetchall()) == bag(expected)


def test_results_have_the_bound_types(database: duckdb.DuckDBPyConnection) -> None:
    sql = (
        "SELECT sum(id), sum(id::bigint), avg(id), sum(price), count(*), avg(price / 2) FROM orders"
    )
    node = plan(sql)
    answer = database.execute(render_duckdb(node, INPUTS))
    assert [str(d[1]) for d in answer.description] == [duck_type(c.type) for c in node.columns]


def test_an_unknown_function_is_an_error() -> None:
    with pytest.raises(UnknownToDuckDBError, match="stddev"):
        render_duckdb(plan("SELECT stddev(price) FROM orders"), INPUTS)
    with pytest.raises(UnknownToDuckDBError, match="as text"):
        render_duckdb(plan("SELECT price::varchar FROM orders"), INPUTS)


def test_the_oracle_does_not_lose_rows_of_exists() -> None:
    """SEED=139619330: DuckDB's optimizer `deliminator` does."""
    connection = connect()
    connection.execute("CREATE TABLE a AS SELECT 0 AS i, NULL::bigint AS b UNION ALL SELECT 3, 5")
    connection.execute("CREATE TABLE c AS SELECT 2 AS k, 1::bigint AS b UNION ALL SELECT 3, NULL")
    text = "SELECT i FROM a WHERE EXISTS (SELECT 1 FROM c WHERE c.k >= a.i AND a.b IS DISTINCT FROM c.b)"
    assert bag(connection.execute(text).fetchall()) == bag([(0,), (3,)])


@pytest.mark.parametrize("renders", [render_duckdb, render_local], ids=["oracle", "local"])
def test_anti_joins_over_nothing(renders: Callable[..., str | None]) -> None:
    """SEED=1192553398: DuckDB's optimizer `statistics_propagation` takes them for empty if their condition is true for all
    values, though the right side has no rows."""
    connection = connect()
    connection.execute("CREATE TABLE a AS SELECT 0 AS k")
    connection.execute("CREATE TABLE b AS SELECT 0 AS k, 'x' AS s UNION ALL SELECT 1, 'y'")
    relations = {
        "a": Relation("a", "a", (("k", t.INTEGER),)),
        "b": Relation("b", "b", (("k", t.INTEGER), ("s", t.VARCHAR))),
    }
    for condition in ("b.k >= a.k", "b.k >= a.k AND b.k >= 0", "b.k + 1 > a.k"):
        text = f"SELECT k FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE s = '' AND {condition})"
        rendered = renders(
            bind(text, relations), {"a": "a", "b": "b"}, *((0,) if renders is render_local else ())
        )
        assert rendered is not None
        assert "ANTI JOIN" in rendered
        assert connection.execute(rendered).fetchall() == [(0,)], condition


def test_random_queries_give_the_rows_of_their_texts(seed: int) -> None:
    """Every form of query over random tables. COUNT=… for more schemas."""
    r, connection = random.Random(seed), connect()
    for _ in range(int(os.environ.get("COUNT", "2"))):
        schema = random_schema(r)
        contents = Contents(schema)
        contents.apply(random_history(r, schema, 60))
        contents.load(connection)
        inputs = {table.name: table.name for table in schema.tables}
        for form in FORMS:
            query = random_query(r, schema, form=form, depth=r.randint(0, 2))
            found = bag(connection.execute(render_duckdb(query.node, inputs)).fetchall())
            try:
                expected = bag(connection.execute(query.theirs).fetchall())
            except duckdb.InternalException:
                continue  # DuckDB's own errors: it happens to deeply nested texts
            assert found == expected, f"{schema}\n{query.text}"
