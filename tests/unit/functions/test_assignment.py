"""What may be put into a column of another type: what pg_cast says of PostgreSQL's types."""

from __future__ import annotations

import pytest

from icestream import types as t
from icestream.functions.casts import is_known
from icestream.functions.coercion import is_assignable, is_implicit
from icestream.types import Type, scalar

NUMBERS = "int2 int4 int8 numeric float4 float8"
CASTS = {
    "int2": {"i": "int4 int8 numeric float4 float8"},
    "int4": {"i": "int8 numeric float4 float8", "a": "int2", "e": "bool"},
    "int8": {"i": "numeric float4 float8", "a": "int2 int4"},
    "numeric": {"i": "float4 float8", "a": "int2 int4 int8"},
    "float4": {"i": "float8", "a": "int2 int4 int8 numeric"},
    "float8": {"a": "int2 int4 int8 numeric float4"},
    "bool": {"e": "int4"},
    "date": {"i": "timestamp timestamptz"},
    "time": {"i": "interval"},
    "timestamp": {"i": "timestamptz", "a": "date time"},
    "timestamptz": {"a": "date time timestamp"},
    "interval": {"a": "time"},
    "jsonb": {"e": f"bool {NUMBERS}"},
    "bytea": {},
}
"""pg_cast of PostgreSQL 15: source, then targets by context (implicit, assignment, explicit). What is not in it:
every type becomes a text in an assignment; a text becomes another type only where a cast is written."""
TYPES = (*CASTS, "varchar")


def of(name: str) -> Type:
    found = scalar(name)
    assert found is not None
    return found


def context(source: str, target: str) -> str | None:
    """How a value becomes one of the other type, if it does."""
    if source == target:
        return "i"
    if target == "varchar":
        return "a"
    if source == "varchar":
        return "e"
    return next((c for c, names in CASTS[source].items() if target in names.split()), None)


@pytest.mark.parametrize("source", TYPES)
def test_casts(source: str) -> None:
    a = of(source)
    for target in TYPES:
        b, wanted = of(target), context(source, target)
        assert is_assignable(a, b) == (wanted in ("i", "a")), target
        assert is_implicit(a, b) == (wanted == "i"), target
        assert is_known(a, b) == bool(wanted), target


def test_inside_arrays_and_rows() -> None:
    assert is_assignable(t.array(t.BIGINT), t.array(t.SMALLINT))
    assert not is_assignable(t.array(t.BOOLEAN), t.array(t.INTEGER))
    assert not is_assignable(t.INTEGER, t.array(t.INTEGER))
    row = t.struct(("f1", t.INTEGER), ("f2", t.VARCHAR))
    assert is_assignable(row, t.struct(("a", t.SMALLINT), ("b", t.VARCHAR)))
    assert not is_assignable(row, t.struct(("a", t.SMALLINT)))
    assert not is_assignable(row, t.struct(("a", t.BOOLEAN), ("b", t.VARCHAR)))
    assert is_assignable(row, t.VARCHAR)
    assert is_assignable(t.numeric(8, 2), t.numeric(4, 0))
