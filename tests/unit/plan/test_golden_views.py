"""The golden cases without a JVM: DuckDB gives what they expect, for the plans and through the delta rules."""

from __future__ import annotations

from collections import Counter

import pytest

from icestream.plan.logical import Node, OutColumn
from icestream.plan.query import Relation, bind_query
from icestream.plan.stages import Known
from icestream.sql import parse
from icestream.sql.statements import Name, Select
from tests.duck import bag, quoted, render_duckdb
from tests.golden_views import GoldenCase, Row, cases
from tests.maintained import Lake, View

CASES = cases()


def test_names_are_unique() -> None:
    names = Counter(n for c in CASES for n in (*(x.name for x in c.tables), *dict(c.views)))
    assert [name for name, count in names.items() if count > 1] == []
    assert len(CASES) >= 16


def plans(case: GoldenCase) -> dict[str, Node]:
    """The views' plans over the case's tables."""
    relations = {x.name: Relation(x.name, x.name, x.columns) for x in case.tables}

    def relation(name: Name) -> Relation:
        return relations[name.name]

    found: dict[str, Node] = {}
    for name, text in case.views:
        (statement,) = parse(text, env={})
        assert isinstance(statement, Select)
        node = found[name] = bind_query(statement.query, relation)
        relations[name] = Relation(name, name, tuple((c.name, c.type) for c in node.columns), node)
    return found


def weights(case: GoldenCase, table: str, part: int, epochs: int) -> list[tuple[Row, int]]:
    rows: list[tuple[Row, int]] = []
    for name, (before, after) in case.cut(epochs)[part]:
        if name == table:
            rows += [(before, -1)] if before is not None else []
            rows += [(after, 1)] if after is not None else []
    return rows


@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_views_end_as_expected(case: GoldenCase, epochs: int) -> None:
    lake = Lake(seed=1)
    for table in case.tables:
        lake.create(table.name, [OutColumn(*column) for column in table.columns])
    facts = {x.name: Known(x.columns[0][:1] if x.keyed else None, not x.keyed) for x in case.tables}
    nodes = plans(case)
    assert not set(case.expected) - set(nodes), "rows of a view that is not there"
    views = {name: View(lake, node, facts, name) for name, node in nodes.items()}
    for epoch in range(epochs):
        for table in case.tables:
            lake.feed(table.name, weights(case, table.name, epoch, epochs))
        for view in views.values():
            view.advance()
            view.verify()
        for name, rows in case.always.items():
            inputs = {x.name: lake.table(x.name) for x in case.tables}
            assert bag(lake.run(render_duckdb(nodes[name], inputs)).fetchall()) == rows
    for name, rows in case.expected.items():
        names = ", ".join(quoted(c.name) for c in nodes[name].columns)
        assert bag(lake.run(f"SELECT {names} FROM {lake.table(name)}").fetchall()) == rows, name
