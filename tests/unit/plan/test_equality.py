"""Values that are equal and written differently are grouped, counted and looked up by their keys, in every kind of plan."""

from __future__ import annotations

import pytest

from icestream import types as t
from icestream.functions.expressions import AggregateCall, WindowCall
from icestream.plan.duckdb import render
from icestream.plan.logical import (
    Aggregate,
    Distinct,
    DistinctOn,
    Join,
    Node,
    SetOperation,
    Window,
    walk,
)
from icestream.plan.maintain import equal_columns
from icestream.plan.normal import normal
from icestream.plan.query import Relation
from icestream.plan.split import stages
from icestream.plan.stages import Known
from tests.unit.plan.tables import bind

DIFFERENT = ("interval", "jsonb", "interval[]")
SPANS = {
    "spans": Relation(
        "spans#9",
        "spans",
        (
            ("id", t.INTEGER),
            ("i", t.INTERVAL),
            ("j", t.JSONB),
            ("a", t.array(t.INTERVAL)),
            ("s", t.struct(("x", t.INTERVAL), ("y", t.INTEGER))),
        ),
    )
}
GROUPING = (
    "SELECT {c}, count(*) FROM spans GROUP BY {c}",
    "SELECT id, {c}, sum(id) FROM spans GROUP BY GROUPING SETS ((id), ({c}))",
    "SELECT DISTINCT {c}, id FROM spans",
    "SELECT DISTINCT ON ({c}) id FROM spans ORDER BY {c}, id",
    "SELECT count(DISTINCT {c}) FROM spans",
    "SELECT id, row_number() OVER (PARTITION BY {c} ORDER BY id) FROM spans",
    "SELECT {c} FROM spans UNION SELECT {c} FROM spans",
    "SELECT {c} FROM spans EXCEPT SELECT {c} FROM spans",
    "SELECT {c} FROM spans INTERSECT ALL SELECT {c} FROM spans",
    "SELECT id, (SELECT max(y.id) FROM spans y WHERE y.{c} = x.{c}) FROM spans x",
    "SELECT id, (SELECT count(*) FROM spans y WHERE x.{c} IS NULL OR y.id < x.id) FROM spans x",
)


def compared_types(node: Node) -> list[t.Type]:
    """The types of what the nodes of a plan group by."""
    found: list[t.Type] = []
    for n in walk(node):
        match n:
            case Aggregate():
                found += [i.expr.type for i in n.groups]
                distinct = [c for _, c in n.calls if isinstance(c, AggregateCall) and c.distinct]
                found += [a.type for c in distinct for a in c.args]
            case Distinct():
                found += [c.type for c in n.columns]
            case DistinctOn():
                found += [k.type for k in n.keys]
            case Window():
                calls = [i.expr for i in n.calls if isinstance(i.expr, WindowCall)]
                found += [p.type for c in calls for p in c.partition_by]
            case SetOperation(kind=kind, all=all) if kind != "union" or not all:
                found += [c.type for c in n.columns]
    return found


def spells_differently(type: t.Type) -> bool:
    return str(type).startswith(DIFFERENT) or "interval" in str(type)


@pytest.mark.parametrize("column", ["i", "j", "a", "s"])
@pytest.mark.parametrize("query", GROUPING)
def test_groups_are_made_of_keys(query: str, column: str) -> None:
    node = bind(query.format(c=column), SPANS)
    types = compared_types(node)
    assert types
    assert not [x for x in types if spells_differently(x)]
    assert not [x for x in compared_types(normal(node)) if spells_differently(x)]
    for stage in stages(node, "v#1", {"spans#9": Known(("id",), grows=False)}):
        key = stage.key or ()
        kept = {c.name: c.type for c in stage.columns}
        assert not [k for k in key if spells_differently(kept[k])]


@pytest.mark.parametrize("query", GROUPING)
def test_other_columns_are_grouped_as_they_are(query: str) -> None:
    from icestream.functions.expressions import walk as parts
    from icestream.plan.rewrite import all_exprs

    node = bind(query.format(c="id"), SPANS)
    names = {getattr(p, "function", None) for e in all_exprs(node) for p in parts(e)}
    assert not {"key", "one of equals"} & {f.name for f in names if f is not None}


@pytest.mark.parametrize("column", ["i", "j", "a"])
def test_a_join_by_such_values_does_not_look_up_what_is_stored_alike(column: str) -> None:
    node = bind(f"SELECT x.id FROM spans x JOIN spans y ON x.{column} = y.{column} AND x.id = y.id", SPANS)  # fmt: skip
    (join,) = (n for n in walk(node) if isinstance(n, Join))
    ((left, right),) = equal_columns(join)
    assert left.startswith("id")
    assert right.startswith("id")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM spans GROUP BY j",
        "SELECT DISTINCT j FROM spans",
        "SELECT id FROM spans WHERE j = '1'",
        "SELECT id FROM spans WHERE j IN ('1', '2')",
        "SELECT id FROM spans WHERE j IS DISTINCT FROM '1'",
        "SELECT nullif(j, '1') FROM spans",
        "SELECT x.id FROM spans x JOIN spans y ON x.j = y.j",
        "SELECT id FROM spans ORDER BY j",
    ],
)
def test_duckdb_does_not_compare_the_texts_of_jsonb(query: str) -> None:
    assert render(bind(query, SPANS), {"spans#9": "spans"}, 0) is None
    assert render(bind("SELECT j FROM spans", SPANS), {"spans#9": "spans"}, 0)
