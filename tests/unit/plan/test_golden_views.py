"""The golden cases say what their queries mean: DuckDB gives the same rows for the plans. And their names are unique."""

from __future__ import annotations

from collections import Counter

import pytest

from icestream.plan.query import Relation, bind_query
from icestream.sql import parse
from icestream.sql.statements import Name, Select
from tests.duck import bag, connect, duck_type, quoted, render_duckdb
from tests.golden_views import GoldenCase, Row, cases

CASES = cases()


def test_names_are_unique() -> None:
    names = Counter(n for c in CASES for n in (*(x.name for x in c.tables), *dict(c.views)))
    assert [name for name, count in names.items() if count > 1] == []
    assert len(CASES) >= 16


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_what_a_case_expects_is_what_its_queries_give(case: GoldenCase) -> None:
    database, relations = connect(), {}
    inputs = {}
    for table in case.tables:
        rows: list[Row] = []
        for name, (before, after) in case.history:
            if name == table.name:
                if before is not None:
                    del rows[[repr(r) for r in rows].index(repr(before))]
                if after is not None:
                    rows.append(after)
        declared = ", ".join(f"{quoted(c)} {duck_type(x)}" for c, x in table.columns)
        database.execute(f"CREATE TABLE {table.name} ({declared})")
        places = ", ".join("?" for _ in table.columns)
        for row in rows:
            database.execute(f"INSERT INTO {table.name} VALUES ({places})", list(row))
        relations[table.name] = Relation(table.name, table.name, table.columns)
        inputs[table.name] = table.name

    def relation(name: Name) -> Relation:
        return relations[name.name]

    assert not set(case.expected) - set(dict(case.views)), "rows of a view that is not there"
    for name, text in case.views:
        (statement,) = parse(text, env={})
        assert isinstance(statement, Select)
        node = bind_query(statement.query, relation)
        relations[name] = Relation(name, name, tuple((c.name, c.type) for c in node.columns), node)
        found = bag(database.execute(render_duckdb(node, inputs)).fetchall())
        assert found == case.expected[name], name
        if name in case.always:
            assert found == case.always[name], name
