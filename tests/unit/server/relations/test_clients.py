"""What clients send, answered as PostgreSQL answered it."""

from __future__ import annotations

import pytest

from icestream.server.relations import SystemRelations, is_about_the_system
from tests.unit.server.relations.cases import Case, cases, golden, in_order
from tests.unit.server.relations.world import MODEL

GOLDEN = golden()


@pytest.fixture(scope="module")
def relations() -> SystemRelations:
    return SystemRelations(lambda: MODEL)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_answers_are_those_of_postgresql(case: Case, relations: SystemRelations) -> None:
    assert is_about_the_system(case.sql)
    result = relations.query(case.sql, case.parameters)
    expected = GOLDEN[case.name]
    assert [[column.name, column.oid] for column in result.columns] == expected["columns"]
    if case.same_rows:
        assert in_order(result.rows) == in_order(expected["rows"])


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_description_needs_no_values(case: Case, relations: SystemRelations) -> None:
    described = relations.describe(case.sql)
    assert len(described.parameters) == len(case.parameters)
    assert [[column.name, column.oid] for column in described.columns] == GOLDEN[case.name][
        "columns"
    ]
