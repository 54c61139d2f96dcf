"""Which plans can run on new rows alone, and what stands in the way of the others."""

from __future__ import annotations

import pytest

from icestream.plan.linear import linear, relations_read
from tests.unit.plan.tables import bind

LINEAR = [
    "SELECT * FROM orders",
    "SELECT id + 1 AS x, upper(item) FROM orders WHERE price > 5",
    "SELECT id FROM orders UNION ALL SELECT id FROM customers",
    "SELECT window_start, id FROM tumble(orders, at, INTERVAL '1 hour')",
    "SELECT * FROM hop(orders, at, INTERVAL '1 hour', INTERVAL '2 hours') WHERE price > 1",
    "SELECT id, unnest(tags) FROM orders",
    "SELECT o.id, u FROM orders o LEFT JOIN unnest(o.tags) AS u ON TRUE",
    "SELECT * FROM (SELECT id FROM orders WHERE id > 1) x WHERE x.id < 5",
    "WITH w AS (SELECT id FROM orders) SELECT * FROM w UNION ALL SELECT * FROM w",
    "SELECT o.id, v.k FROM orders o CROSS JOIN (VALUES (1), (2)) v (k)",
    "SELECT o.id, v.k FROM orders o LEFT JOIN (VALUES (1), (2)) v (k) ON v.k = o.id",
    "SELECT id FROM orders WHERE item NOT IN (VALUES ('a'), ('b'))",
    "SELECT id FROM orders ORDER BY id",
    "SELECT id, random() FROM orders",
]

BLOCKED = [
    ("SELECT count(*) FROM orders", "Aggregate"),
    ("SELECT item FROM orders GROUP BY item", "Aggregate"),
    ("SELECT DISTINCT item FROM orders", "Distinct"),
    ("SELECT DISTINCT ON (item) * FROM orders", "DistinctOn"),
    ("SELECT id FROM orders LIMIT 1", "Limit"),
    ("SELECT rank() OVER (ORDER BY id) FROM orders", "Window"),
    ("SELECT 1 FROM orders o JOIN customers c ON o.id = c.id", "Join"),
    ("SELECT 1 FROM orders o LEFT JOIN customers c ON o.id = c.id", "Join"),
    ("SELECT id FROM orders WHERE id IN (SELECT id FROM customers)", "Join"),
    ("SELECT id FROM orders UNION SELECT id FROM customers", "SetOperation"),
    ("SELECT id FROM orders EXCEPT ALL SELECT id FROM customers", "SetOperation"),
    ("SELECT 1", "Values"),
    ("SELECT id FROM orders UNION ALL SELECT 1", "Values"),
    ("SELECT v.k FROM (VALUES (1)) v (k) LEFT JOIN orders o ON o.id = v.k", "Join"),
    ("SELECT id FROM orders WHERE at > now() - INTERVAL '1 day'", "Clock"),
    ("SELECT x FROM (SELECT max(id) AS x FROM orders) m WHERE x > 1", "Aggregate"),
]


@pytest.mark.parametrize("sql", LINEAR)
def test_these_run_on_a_delta_alone(sql: str) -> None:
    assert linear(bind(sql)) is None


@pytest.mark.parametrize(("sql", "kind"), BLOCKED)
def test_these_need_more_than_the_new_rows(sql: str, kind: str) -> None:
    blocker = linear(bind(sql))
    assert blocker is not None
    assert blocker.kind == kind
    assert blocker.reason


def test_relations_are_read_once_each() -> None:
    sql = "SELECT id FROM orders UNION ALL SELECT c.id FROM customers c, orders o"
    assert relations_read(bind(sql)) == ("orders#1", "customers#2")
    assert relations_read(bind("SELECT 1")) == ()
