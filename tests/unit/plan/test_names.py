"""Which columns a query gives, and what they are called: as PostgreSQL does."""

from __future__ import annotations

import pytest

from tests.unit.plan.tables import bind, columns


@pytest.mark.parametrize(
    ("item", "name"),
    [
        ("id", "id"),
        ("orders.id", "id"),
        ("id AS x", "x"),
        ('id AS "X y"', "X y"),
        ("id + 1", "?column?"),
        ("-id", "?column?"),
        ("NULL", "?column?"),
        ("'text'", "?column?"),
        ("TRUE", "?column?"),
        ("upper(item)", "upper"),
        ("count(*)", "count"),
        ("sum(id) FILTER (WHERE id > 1)", "sum"),
        ("row_number() OVER (ORDER BY id)", "row_number"),
        ("coalesce(item, 'x')", "coalesce"),
        ("id::text", "id"),
        ("1::int", "int4"),
        ("'1'::bigint", "int8"),
        ("'x'::text", "text"),
        ("CASE WHEN id > 1 THEN 2 END", "case"),
        ("CASE WHEN id > 1 THEN 2 ELSE id END", "id"),
        ("EXISTS (SELECT 1)", "exists"),
        ("(SELECT max(level) AS top FROM customers)", "top"),
        ("(SELECT max(level) FROM customers)", "max"),
        ("ARRAY[id]", "array"),
        ("tags[1]", "tags"),
        ("id IS NULL", "?column?"),
        ("id IN (1, 2)", "?column?"),
        ("INTERVAL '1 day'", "interval"),
        ("date '2024-01-01'", "date"),
        ("now()", "now"),
    ],
)
def test_a_column_without_an_alias_gets_its_name(item: str, name: str) -> None:
    group = " GROUP BY id" if any(f in item for f in ("count", "sum(")) else ""
    assert [n for n, _ in columns(f"SELECT {item} FROM orders{group}")] == [name]


def test_a_star_shows_everything_but_the_columns_of_the_engine() -> None:
    names = [n for n, _ in columns("SELECT * FROM orders")]
    assert names == ["id", "customer", "item", "price", "at", "tags"]
    assert columns("SELECT _icestream_offset FROM orders") == [("_icestream_offset", "bigint")]


def test_stars_keep_the_order_of_from() -> None:
    sql = "SELECT c.*, o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id"
    assert [n for n, _ in columns(sql)] == ["id", "name", "level", "id", "name"]


def test_using_shows_a_shared_column_once_and_first() -> None:
    sql = "SELECT * FROM (SELECT price, id FROM orders) o JOIN customers USING (id)"
    assert columns(sql) == [
        ("id", "bigint"),
        ("price", "numeric(38,10)"),
        ("name", "varchar"),
        ("level", "smallint"),
    ]


def test_equal_names_are_fine_until_somebody_asks() -> None:
    assert columns("SELECT id, id FROM orders") == [("id", "integer"), ("id", "integer")]
    assert len(bind("SELECT x.a FROM (SELECT 1 AS a, 2 AS b, 3 AS b) x").columns) == 1


@pytest.mark.parametrize(
    ("sql", "types"),
    [
        ("SELECT NULL, 'x'", ["varchar", "varchar"]),
        ("SELECT 1 UNION ALL SELECT 2.5", ["numeric(38,10)"]),
        ("SELECT NULL UNION ALL SELECT 1", ["integer"]),
        ("SELECT '7' UNION ALL SELECT 1", ["integer"]),
        ("SELECT NULL UNION ALL SELECT NULL", ["varchar"]),
        ("SELECT id FROM orders UNION SELECT id FROM customers", ["bigint"]),
        ("VALUES (1, NULL), (2.5, 'x')", ["numeric(38,10)", "varchar"]),
        ("SELECT count(*), sum(id), avg(id) FROM orders", ["bigint", "bigint", "numeric(38,10)"]),
        ("SELECT unnest(tags) FROM orders", ["varchar"]),
        ("SELECT window_start FROM tumble(orders, at, INTERVAL '1 hour')", ["timestamp"]),
        ("SELECT (SELECT 1)", ["integer"]),
        ("SELECT id IN (SELECT id FROM customers) FROM orders", ["boolean"]),
    ],
)
def test_types(sql: str, types: list[str]) -> None:
    assert [x for _, x in columns(sql)] == types


def test_aliases_of_columns() -> None:
    assert columns("SELECT * FROM (VALUES (1, 2)) AS v (a)") == [
        ("a", "integer"),
        ("column2", "integer"),
    ]
    assert columns("WITH w (x) AS (SELECT id FROM orders) SELECT * FROM w") == [("x", "integer")]
    assert columns("SELECT * FROM generate_series(1, 3) AS g") == [("g", "integer")]
    assert columns("SELECT * FROM generate_series(1, 3) AS g (i)") == [("i", "integer")]
    assert columns("SELECT u.* FROM orders, unnest(tags) WITH ORDINALITY AS u (tag, place)") == [
        ("tag", "varchar"),
        ("place", "bigint"),
    ]
