"""Rows of constants are what they say, in the types of their columns."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

from icestream import types as t
from icestream.functions.expressions import Literal
from icestream.plan.assignment import Target, bind_assigned
from icestream.plan.logical import Item, Node
from icestream.plan.query import Relation
from icestream.runtime.constants import constant_rows, with_items
from icestream.sql import parse
from icestream.sql import statements as st
from icestream.types import Type, arrow_type


def rows_of(sql: str, *types: Type) -> Node:
    (statement,) = parse(sql, env={})
    assert isinstance(statement, st.Select)
    targets = [Target(f"c{i}", f"c{i}", type) for i, type in enumerate(types)]
    return bind_assigned(
        statement.query, lambda name: Relation("t#1", "t", (("a", t.INTEGER),)), targets
    )


def test_every_type() -> None:
    values = {
        t.BOOLEAN: ("true", True),
        t.SMALLINT: ("-32768", -32768),
        t.INTEGER: ("'7'", 7),
        t.BIGINT: ("-9223372036854775807", -9223372036854775807),
        t.REAL: ("3", 3.0),
        t.DOUBLE: ("-1.7976931348623157e308", -1.7976931348623157e308),
        t.NUMERIC: ("5", Decimal(5)),
        t.numeric(8, 2): ("1.005", Decimal("1.01")),
        t.numeric(38, 10): ("-0.5", Decimal("-0.5")),
        t.VARCHAR: ("'it''s 🧊'", "it's 🧊"),
        t.DATE: ("'2024-02-29'", date(2024, 2, 29)),
        t.TIMESTAMP: ("'2024-02-29 01:02:03.000004'", datetime(2024, 2, 29, 1, 2, 3, 4)),
        t.TIMESTAMPTZ: ("'2024-02-29 01:00:00+02'", datetime(2024, 2, 28, 23, tzinfo=UTC)),
        t.INTERVAL: ("'1 month -2 days'", {"months": 1, "days": -2, "microseconds": 0}),
    }
    given = ", ".join(text for text, _ in values.values())
    nothing = ", ".join("NULL" for _ in values)
    found = constant_rows(rows_of(f"VALUES ({given}), ({nothing})", *values))
    assert found is not None
    assert found.schema.types == [arrow_type(type) for type in values]
    assert [c.to_pylist() for c in found.columns] == [[value, None] for _, value in values.values()]


def test_texts_of_every_type() -> None:
    values = {
        t.BYTEA: ("'\\xDEAD'", b"\xde\xad"),
        t.TIME: ("'04:05 PM'", 57_900_000_000),
        t.JSONB: ("""'{"b":1,"a":[]}'""", '{"a": [], "b": 1}'),
        t.DOUBLE: ("'-inf'", float("-inf")),
        t.array(t.array(t.DATE)): ("'{{2024-02-29,NULL},{}}'", [[date(2024, 2, 29), None], []]),
    }
    given = ", ".join(text for text, _ in values.values())
    found = constant_rows(rows_of(f"VALUES ({given})", *values))
    assert found is not None
    assert [c.to_pylist() for c in found.columns] == [[value] for _, value in values.values()]


def test_years_that_python_does_not_have() -> None:
    sql = "VALUES ('0044-03-15 BC', '12345-01-02 03:04:05', '4714-11-24 00:00 BC')"
    found = constant_rows(rows_of(sql, t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ))
    assert found is not None
    numbers = [c.cast(pa.int32() if i == 0 else pa.int64()) for i, c in enumerate(found.columns)]
    assert [c.to_pylist() for c in numbers] == [
        [-735_160], [327_403_479_845_000_000], [-210_866_803_200_000_000],
    ]  # fmt: skip


def test_columns_are_added() -> None:
    more = [Item("more", Literal(t.INTEGER, 9))]
    found = constant_rows(with_items(rows_of("VALUES (1), (2)", t.INTEGER), more))
    assert found is not None
    assert found.to_pydict() == {"c0": [1, 2], "more": [9, 9]}
    node = with_items(rows_of("SELECT a FROM t", t.INTEGER), more)
    assert node.names == ("c0", "more")


def test_what_is_lost_is_marked() -> None:
    found = constant_rows(rows_of("VALUES (1), (99999999999)", t.INTEGER))
    assert found is None or found.column(1).type == pa.bool_()
    found = constant_rows(rows_of("VALUES (1.5), (1000.5)", t.numeric(3, 0)))
    assert found is not None
    assert found.column(1).to_pylist() == [False, True]


def test_queries_are_left_to_others() -> None:
    assert constant_rows(rows_of("SELECT a FROM t", t.INTEGER)) is None
    assert constant_rows(rows_of("VALUES (now())", t.TIMESTAMPTZ)) is None
    assert constant_rows(rows_of("VALUES ('x' || 'y')", t.VARCHAR)) is None
