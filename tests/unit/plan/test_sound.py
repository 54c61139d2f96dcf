"""Every golden query makes a sound plan: what a node reads, its inputs give, under one name and type."""

from __future__ import annotations

import pytest

from icestream.functions import expressions
from icestream.functions.expressions import ColumnRef
from icestream.plan.logical import Join, Scan, walk
from icestream.plan.scope import OuterRef
from icestream.plan.spark import render
from tests.spark.golden import TABLES, plan, queries


@pytest.mark.parametrize("sql", [pytest.param(sql, id=name) for name, sql in queries()])
def test_a_plan_reads_what_is_there(sql: str) -> None:
    root = plan(sql)
    for node in walk(root):
        given = {c.name: c.type for i in node.inputs for c in i.columns}
        for names in [i.names for i in node.inputs]:
            assert len(set(names)) == len(names)
        if isinstance(node, Scan):
            stored, _ = TABLES[node.name]
            given = dict(stored)
        for part in (e for expr in node.exprs for e in expressions.walk(expr)):
            assert not isinstance(part, OuterRef)
            if isinstance(part, ColumnRef):
                assert given.get(part.name) == part.type
        if isinstance(node, Join):
            assert not set(node.left.names) & set(node.right.names)
            assert node.kind != "cross" or node.condition is None
    assert render(root, {f"{name}#1": name for name in TABLES}).startswith("SELECT ")
