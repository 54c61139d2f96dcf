"""What plans look like: which nodes a query becomes, and that nothing is read that nobody needs."""

from __future__ import annotations

import textwrap

import pytest

from icestream import types as t
from icestream.plan.logical import Aggregate, Join, Node, Project, Scan, Window, walk
from icestream.plan.query import Relation
from tests.unit.plan.tables import bind, shape

SHAPES = [
    (
        "SELECT id, price * 2 AS twice FROM orders WHERE item = 'tea' AND id > 1",
        """
        Project id, price * 2 AS twice
          Filter item = 'tea' AND id > 1
            Scan orders (id, item, price)
        """,
    ),
    (
        "SELECT item, count(*) AS n FROM orders GROUP BY item HAVING sum(price) > 5 ORDER BY n DESC LIMIT 2",
        """
        Project item, count AS n
          Limit 2
            Order by count DESC
              Project item, count
                Filter sum > 5
                  Aggregate by item: count(*) AS count, sum(price) AS sum
                    Scan orders (item, price)
        """,
    ),
    (
        "SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.id",
        """
        Project id, name
          Left join on customer = id_2
            Scan orders (id, customer)
            Scan customers (id AS id_2, name)
        """,
    ),
    (
        "SELECT name FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id)",
        """
        Project name
          Anti join on customer = id
            Scan customers (id, name)
            Scan orders (customer)
        """,
    ),
    (
        "SELECT id FROM orders WHERE customer NOT IN (SELECT id FROM customers)",
        """
        Project id
          Anti join on customer = id_2 OR (customer = id_2) IS NULL
            Scan orders (id, customer)
            Scan customers (id AS id_2)
        """,
    ),
    (
        "SELECT name, (SELECT count(*) FROM orders o WHERE o.customer = c.id) AS n FROM customers c",
        """
        Project name, CASE WHEN found IS NOT NULL THEN count ELSE 0 END AS n
          Left join on customer = id
            Scan customers (id, name)
            Project count, customer, TRUE AS found
              Aggregate by customer: count(*) AS count
                Scan orders (customer)
        """,
    ),
    (
        "SELECT id FROM orders WHERE price = (SELECT max(price) FROM orders)",
        """
        Project id
          Filter price = max_2
            Cross join
              Scan orders (id, price)
              Project max AS max_2
                Aggregate over all rows: max(price_2) AS max
                  Scan orders (price AS price_2)
        """,
    ),
    (
        "SELECT id FROM orders UNION ALL SELECT id FROM customers UNION ALL SELECT 1::bigint",
        """
        Project id_4 AS id
          Union all (id_4)
            Project id::bigint AS id
              Scan orders (id)
            Scan customers (id AS id_2)
            Project 1::bigint AS int8
              Values (one row without columns)
        """,
    ),
    (
        "SELECT window_start, count(*) FROM hop(orders, at, INTERVAL '5 minutes', INTERVAL '1 hour') GROUP BY 1",
        """
        Aggregate by window_start: count(*) AS count
          Project window_start
            Hop at by 1 hour every 5 minutes (window_start, window_end)
              Scan orders (at)
        """,
    ),
    (
        "SELECT id, row_number() OVER (PARTITION BY customer ORDER BY at DESC) AS place FROM orders",
        """
        Project id, row_number AS place
          Window row_number() OVER (PARTITION BY customer ORDER BY at DESC) AS row_number
            Scan orders (id, customer, at)
        """,
    ),
    (
        "SELECT item, customer, count(*) FROM orders GROUP BY ROLLUP (item, customer)",
        """
        Union all (item, customer, count)
          Project item, customer, count
            Aggregate by item_2 AS item, customer_2 AS customer, grouping: count(*) AS count
              Expand item AS item_2, customer AS customer_2 into sets (item_2, customer_2), (item_2)
                Scan orders (customer, item)
          Project NULL AS item, NULL AS customer, count
            Aggregate over all rows: count(*) AS count
              Scan orders (id)
        """,
    ),
]


@pytest.mark.parametrize(("sql", "expected"), SHAPES, ids=[s[0] for s in SHAPES])
def test_a_query_becomes_a_plan(sql: str, expected: str) -> None:
    assert shape(sql) == textwrap.dedent(expected).strip()


def kinds(node: Node) -> list[str]:
    return [n.kind for n in walk(node) if isinstance(n, Join)]


def test_a_view_is_read_through_its_plan() -> None:
    query = bind("SELECT item, count(*) AS n FROM orders GROUP BY item")
    view = Relation("v#9", "v", (("item", t.VARCHAR), ("n", t.BIGINT)), query)
    node = bind("SELECT a.item, b.n FROM v a JOIN v b ON a.item = b.item", {"v": view})
    assert [n.relation for n in walk(node) if isinstance(n, Scan)] == ["orders#1", "orders#1"]
    assert [c.name for c in node.columns] == ["item", "n"]


@pytest.mark.parametrize("sql", [s for s, _ in SHAPES])
def test_names_are_unique_wherever_they_meet(sql: str) -> None:
    for node in walk(bind(sql)):
        for child in node.inputs:
            assert len(set(child.names)) == len(child.names)
        if isinstance(node, Join):
            assert not set(node.left.names) & set(node.right.names)


def test_partitions_are_kept_apart() -> None:
    sql = """SELECT count(*) OVER (PARTITION BY item), sum(id) OVER (PARTITION BY item),
                    count(*) OVER (PARTITION BY customer) FROM orders"""
    windows = [n for n in walk(bind(sql)) if isinstance(n, Window)]
    assert sorted(len(w.calls) for w in windows) == [1, 2]


def test_equal_aggregates_are_computed_once() -> None:
    sql = "SELECT sum(id), sum(id) + 1 FROM orders HAVING sum(id) > 2 ORDER BY sum(id)"
    (aggregate,) = [n for n in walk(bind(sql)) if isinstance(n, Aggregate)]
    assert len(aggregate.aggregates) == 1


def test_a_subquery_that_may_have_many_rows_is_counted() -> None:
    assert "only value" in shape("SELECT (SELECT id FROM customers) FROM orders")
    assert "only value" not in shape("SELECT (SELECT max(id) FROM customers) FROM orders")


def test_conditions_that_are_not_equalities_read_the_outer_rows_twice() -> None:
    sql = "SELECT id, (SELECT count(*) FROM customers c WHERE c.id > o.customer) FROM orders o"
    scans = [n.name for n in walk(bind(sql)) if isinstance(n, Scan)]
    assert scans == ["orders", "orders", "customers"]


def test_inputs_can_be_put_in_place() -> None:
    node = bind("SELECT o.id FROM orders o JOIN customers c ON o.id = c.id")
    (join,) = [n for n in walk(node) if isinstance(n, Join)]
    swapped = join.with_inputs([Project(join.left, ()), join.right])
    assert isinstance(swapped, Join)
    assert swapped.left == Project(join.left, ())
    assert node.with_inputs(node.inputs) == node
