"""Linear plans over changes: what they carry, and that they give the changes of their result."""

from __future__ import annotations

from collections import Counter

import pytest

from icestream import types as t
from icestream.dev.duck import open_duckdb
from icestream.functions import expressions
from icestream.functions.expressions import ColumnRef
from icestream.plan.delta import changes_of
from icestream.plan.explain import explain_node
from icestream.plan.linear import linear
from icestream.plan.logical import Scan, walk
from icestream.plan.spark import render
from tests.unit.plan.tables import bind
from tests.unit.plan.test_linear import LINEAR

CARRIED = {"_op": t.INTEGER, "_at": t.BIGINT}
INPUTS = {"orders#1": "orders", "customers#2": "customers"}


@pytest.mark.parametrize("sql", LINEAR)
def test_the_result_and_then_what_it_carries(sql: str) -> None:
    plan = bind(sql)
    made = changes_of(plan, CARRIED)
    assert made.names == (*plan.names, "_op", "_at")
    assert [c.type for c in made.columns[:-2]] == [c.type for c in plan.columns]
    assert linear(made) is None
    for node in walk(made):
        if isinstance(node, Scan):
            continue
        given = {c.name: c.type for i in node.inputs for c in i.columns}
        for part in (e for expr in node.exprs for e in expressions.walk(expr)):
            assert not isinstance(part, ColumnRef) or given[part.name] == part.type
    assert render(made, INPUTS).startswith("SELECT ")


def test_conditions_and_projections_stay() -> None:
    made = changes_of(bind("SELECT id + 1 AS next, item FROM orders WHERE id > 1"), CARRIED)
    assert render(made, INPUTS) == (
        "SELECT try_add(`id`, 1) AS `next`, `item`, `_op`, `_at` FROM orders WHERE (`id` > 1)"
    )


def test_rows_made_of_one_carry_what_it_carries() -> None:
    made = changes_of(bind("SELECT id, tag FROM orders, unnest(tags) AS u (tag)"), CARRIED)
    assert explain_node(made).splitlines()[0] == "Project id, unnest AS tag, _op, _at"


def test_a_branch_puts_it_last() -> None:
    sql = "SELECT * FROM orders o CROSS JOIN (VALUES (1)) v (k) UNION ALL SELECT *, 2 FROM orders"
    made = changes_of(bind(sql), CARRIED)
    assert [b.names[-2:] for n in walk(made) for b in getattr(n, "branches", ())] == [
        ("_op", "_at")
    ] * 2


LAW = [
    "SELECT id, item FROM orders WHERE customer > 1",
    "SELECT customer AS c FROM orders",
    "SELECT id FROM orders WHERE item = 'a' UNION ALL SELECT customer FROM orders WHERE id > 1",
    "SELECT o.id, v.k FROM orders o CROSS JOIN (VALUES (1), (2)) v (k) WHERE v.k <> o.customer",
    "SELECT id FROM orders WHERE item NOT IN (VALUES ('a'), ('b'))",
]
OLD = [(1, 1, "a"), (2, 2, "b"), (3, 2, "c"), (4, 3, "a")]
NEW = [(1, 2, "b"), (3, 2, "a"), (4, 3, "a"), (5, 2, "c")]


def test_what_comes_and_goes_is_what_differs() -> None:
    import sqlglot

    def rows(sql: str) -> list[tuple[object, ...]]:
        return base.sql(sqlglot.transpile(sql, "spark", "duckdb")[0]).fetchall()

    def relation(name: str, values: list[tuple[object, ...]]) -> str:
        shown = ", ".join(repr(v) for v in values)
        names = "id, customer, item" + (", _op, _at" if name == "delta" else "")
        return f"(VALUES {shown}) AS {name} ({names})"

    delta = [(*row, -1, 0) for row in OLD if row not in NEW]
    delta += [(*row, 1, 0) for row in NEW if row not in OLD]
    with open_duckdb() as base:
        for sql in LAW:
            plan = bind(sql)
            before, after = (
                Counter(rows(render(plan, {"orders#1": relation("t", values)})))
                for values in (OLD, NEW)
            )
            for *row, op, _ in rows(
                render(changes_of(plan, CARRIED), {"orders#1": relation("delta", delta)})
            ):
                before[tuple(row)] += op
            assert +before == after
            assert min(before.values()) >= 0
