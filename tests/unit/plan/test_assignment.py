"""What INSERT and UPDATE put into columns: values by position, converted, and marked where they may be lost."""

from __future__ import annotations

from decimal import Decimal

import pytest

from icestream import types as t
from icestream.errors import SqlError
from icestream.functions.expressions import Literal
from icestream.plan.assignment import LOST, Target, bind_assigned
from icestream.plan.logical import Node, Values
from icestream.plan.query import Relation
from icestream.sql import parse
from icestream.sql import statements as st
from icestream.types import Type

COLUMNS = (("a", t.INTEGER), ("b", t.DOUBLE), ("c", t.VARCHAR), ("d", t.array(t.BIGINT)))


def assigned(sql: str, *types: Type, every: bool = True) -> Node:
    (statement,) = parse(sql, env={})
    assert isinstance(statement, st.Select)
    targets = [Target(f"new {i}", f"c{i}", type) for i, type in enumerate(types)]
    return bind_assigned(
        statement.query, lambda name: Relation("t#1", "t", COLUMNS), targets, every=every
    )


def refused(sql: str, *types: Type) -> SqlError:
    with pytest.raises(SqlError) as caught:
        assigned(sql, *types)
    return caught.value


def marks(node: Node) -> list[str]:
    return [name.removeprefix(LOST) for name in node.names if name.startswith(LOST)]


def test_names_do_not_matter() -> None:
    node = assigned("SELECT a + 1, a + 2, a AS x, a AS x FROM t", *[t.INTEGER] * 4)
    assert node.names == ("new 0", "new 1", "new 2", "new 3")


def test_the_first_columns_may_be_enough() -> None:
    assert assigned("SELECT a FROM t", t.BIGINT, t.VARCHAR, every=False).names[0] == "new 0"
    assert "fewer values" in refused("SELECT a FROM t", t.BIGINT, t.VARCHAR).message
    assert "more values" in refused("VALUES (1, 2)", t.BIGINT).message


def test_values_are_converted_each_by_itself() -> None:
    node = assigned("VALUES (1, NULL), ('NaN', 2), (1e300, 3.5)", t.DOUBLE, t.SMALLINT)
    assert isinstance(node, Values)
    assert [c.type for c in node.columns[:2]] == [t.DOUBLE, t.SMALLINT]
    assert marks(node) == ["new 1"]  # 3.5 is rounded when the rows are made


def test_a_number_at_the_end_of_its_type_is_not_lost() -> None:
    largest = f"{'9' * 28}.99"
    node = assigned(f"VALUES ({largest}), (-{largest})", t.numeric(30, 2))
    assert isinstance(node, Values)
    values = [row[0].value for row in node.rows if isinstance(row[0], Literal)]
    assert values == [Decimal(largest), Decimal(f"-{largest}")]


def test_only_what_can_be_lost_is_marked() -> None:
    node = assigned("SELECT a, a, b, d FROM t", t.INTEGER, t.VARCHAR, t.SMALLINT, t.array(t.BIGINT))
    assert marks(node) == ["new 2"]
    node = assigned("SELECT NULL, 'x', '7'", t.DATE, t.VARCHAR, t.INTEGER)
    assert not marks(node)


def test_a_text_that_is_no_value_names_its_column() -> None:
    for sql in ("VALUES ('x')", "SELECT 'x'", "SELECT 'x' FROM t"):
        error = refused(sql, t.INTEGER)
        assert error.message == 'invalid input syntax for type integer: "x", in column "c0"'
        assert error.code == "22P02"
        assert error.place is not None
    error = refused("VALUES ('{1,40000}')", t.array(t.SMALLINT))
    assert error.message == 'value "40000" is out of range for type smallint, in column "c0"'


def test_constants_stay_constants() -> None:
    node = assigned(
        "VALUES (1.005, 1, -2.5, '2024-01-31', 99999999999, 1000)",
        t.numeric(8, 2), t.NUMERIC, t.DOUBLE, t.DATE, t.INTEGER, t.numeric(3, 0),
    )  # fmt: skip
    assert isinstance(node, Values)
    values = [e.value for e in node.rows[0][:4] if isinstance(e, Literal)]
    assert values == [Decimal("1.01"), 1, -2.5, "2024-01-31"]
    assert marks(node) == ["new 4", "new 5"]


def test_elements_of_arrays_may_be_lost() -> None:
    small = t.array(t.SMALLINT)
    for written in ("ARRAY[1, 40000]", "ARRAY[1, 2.5]"):
        for sql in (f"VALUES ({written})", f"SELECT {written}"):
            assert marks(assigned(sql, small)) == ["new 0"], sql
    assert not marks(assigned("VALUES (ARRAY[1, 2], '{3,NULL}')", small, small))
    assert not marks(assigned("SELECT ARRAY[1, 2], '{3,NULL}'", small, small))


def test_a_literal_takes_the_type_of_its_column() -> None:
    for sql in ("SELECT '7' FROM t", "VALUES ('7') LIMIT 1", "VALUES ('7')"):
        for type in (t.INTEGER, t.NUMERIC, t.JSONB):
            assert assigned(sql, type).columns[0].type == type
    assert refused("SELECT '7' UNION SELECT '8'", t.INTEGER).code == "42804"


@pytest.mark.parametrize("sql", ["VALUES (1), (true)", "SELECT a > 1 FROM t", "SELECT c FROM t"])
def test_a_value_of_another_kind_is_refused(sql: str) -> None:
    error = refused(sql, t.INTEGER)
    assert error.code == "42804"
    assert error.message.startswith('column "c0" is of type integer but expression is of type')
    assert error.place is not None


@pytest.mark.parametrize(
    ("item", "code"),
    [
        ("unnest(d)", "0A000"),
        ("1 + generate_series(1, a)", "0A000"),
        ("count(*)", "42803"),
        ("CASE WHEN max(a) IN (SELECT u.a FROM t AS u) THEN 1 END", "42803"),
        ("row_number() OVER ()", "42P20"),
    ],
)
def test_what_is_computed_row_by_row_multiplies_no_rows(item: str, code: str) -> None:
    (statement,) = parse(f"SELECT a, {item} FROM t", env={})
    assert isinstance(statement, st.Select)
    targets = [Target("old a", "a", t.INTEGER), Target("new a", "a", t.INTEGER)]
    known = Relation("t#1", "t", COLUMNS)
    for clause in ("UPDATE", "RETURNING"):
        with pytest.raises(SqlError) as caught:
            bind_assigned(statement.query, lambda _: known, targets, row_by_row=clause)
        assert caught.value.code == code
        assert f"not allowed in {clause}" in caught.value.message
