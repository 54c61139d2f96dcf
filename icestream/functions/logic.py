"""Comparison, three-valued logic and choice: operators that exist for every type."""

from __future__ import annotations

from collections.abc import Sequence

from icestream import types as t
from icestream.functions import fragments as f
from icestream.functions.coercion import common_type, general
from icestream.functions.equality import key_text as key
from icestream.functions.expressions import Expr
from icestream.functions.function import (
    ANY,
    ANYARRAY,
    ANYELEMENT,
    ANYMAP,
    ANYSTRUCT,
    Function,
    Param,
    Rows,
)
from icestream.types import Type

_ORDERED = (
    t.BOOLEAN, t.SMALLINT, t.INTEGER, t.BIGINT, t.NUMERIC, t.REAL, t.DOUBLE, t.VARCHAR, t.BYTEA,
    t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ, t.INTERVAL,
)  # fmt: skip
_MIXED = ((t.REAL, t.DOUBLE), (t.DOUBLE, t.REAL))
_PAIRS: tuple[tuple[Param, Param], ...] = (*((x, x) for x in _ORDERED), *_MIXED)

ONE_ROW = Function("one row", (t.BOOLEAN,), t.BOOLEAN, "nullif({0}, FALSE)", fallible=True)
"""Refuses a subquery that has several rows and is used as a value. It has no name in SQL."""


def _compare(symbol: str) -> Rows:
    def template(a: Sequence[str], e: Sequence[Expr]) -> str:
        return f"({key(a[0], e[0].type)} {symbol} {key(a[1], e[1].type)})"

    rows = [Function(symbol, pair, t.BOOLEAN, template) for pair in _PAIRS]
    if symbol in ("=", "<>"):
        rows.append(Function(symbol, (ANYARRAY, ANYARRAY), t.BOOLEAN, template))
        rows.append(Function(symbol, (t.JSONB, t.JSONB), t.BOOLEAN, template))
        rows.append(Function(symbol, (ANYSTRUCT, ANYSTRUCT), t.BOOLEAN, template))
    return tuple(rows)


def _distinct(negated: bool) -> Rows:
    name = "is not distinct from" if negated else "is distinct from"

    def template(a: Sequence[str], e: Sequence[Expr]) -> str:
        same = f"({key(a[0], e[0].type)} <=> {key(a[1], e[1].type)})"
        return same if negated else f"(NOT {same})"

    pairs: tuple[tuple[Param, Param], ...] = (
        *_PAIRS,
        (t.JSONB, t.JSONB),
        (ANYARRAY, ANYARRAY),
        (ANYSTRUCT, ANYSTRUCT),
    )
    return tuple(Function(name, pair, t.BOOLEAN, template, strict=False) for pair in pairs)


def common(types: Sequence[Type]) -> Type:
    """The result of a function that gives one of its arguments."""
    return common_type(types) or t.VARCHAR


def _extreme(name: str) -> Function:
    def template(a: Sequence[str], e: Sequence[Expr]) -> str:
        if len(a) == 1:
            return a[0]
        if e[0].type == t.INTERVAL:
            order = "1" if name == "least" else "-1"
            rows = ", ".join(
                f"named_struct('k', {order} * {f.interval_key(x)}, 'v', {x})" for x in a
            )
            return f"array_min(filter(array({rows}), _v9 -> _v9.k IS NOT NULL)).v"
        return f"{name}({', '.join(a)})"

    return Function(name, (ANYELEMENT,), common, template, variadic=True, strict=False)


def _in(a: Sequence[str], e: Sequence[Expr]) -> str:
    keys = [key(x, y.type) for x, y in zip(a, e, strict=True)]
    return f"({keys[0]} IN ({', '.join(keys[1:])}))"


def _nullif(a: Sequence[str], e: Sequence[Expr]) -> str:
    return f"IF({key(a[0], e[0].type)} = {key(a[1], e[1].type)}, NULL, {a[0]})"


def _first(types: Sequence[Type]) -> Type:
    return types[0]


def _num_nulls(a: Sequence[str], e: Sequence[Expr]) -> str:
    return "(" + " + ".join(f"IF({x} IS NULL, 1, 0)" for x in a) + ")"


def _num_nonnulls(a: Sequence[str], e: Sequence[Expr]) -> str:
    return "(" + " + ".join(f"IF({x} IS NULL, 0, 1)" for x in a) + ")"


def _is(name: str, text: str) -> Function:
    return Function(name, (t.BOOLEAN,), t.BOOLEAN, text, strict=False)


ROWS: Rows = (
    *(row for symbol in ("=", "<>", "<", "<=", ">", ">=") for row in _compare(symbol)),
    *_distinct(False),
    *_distinct(True),
    Function("and", (t.BOOLEAN, t.BOOLEAN), t.BOOLEAN, "({0} AND {1})", strict=False),
    Function("or", (t.BOOLEAN, t.BOOLEAN), t.BOOLEAN, "({0} OR {1})", strict=False),
    Function("not", (t.BOOLEAN,), t.BOOLEAN, "(NOT {0})"),
    Function("is null", (ANY,), t.BOOLEAN, "({0} IS NULL)", strict=False),
    Function("is not null", (ANY,), t.BOOLEAN, "({0} IS NOT NULL)", strict=False),
    _is("is true", "({0} <=> TRUE)"),
    _is("is not true", "(NOT ({0} <=> TRUE))"),
    _is("is false", "({0} <=> FALSE)"),
    _is("is not false", "(NOT ({0} <=> FALSE))"),
    Function("in", (ANYELEMENT,), t.BOOLEAN, _in, variadic=True, strict=False),
    Function("coalesce", (ANYELEMENT,), common, lambda a, e: f"coalesce({', '.join(a)})",
             variadic=True, strict=False),
    Function("nullif", (ANYELEMENT, ANYELEMENT), _first, _nullif, strict=False),
    _extreme("greatest"),
    _extreme("least"),
    Function("num_nulls", (ANY,), t.INTEGER, _num_nulls, variadic=True, strict=False),
    Function("num_nonnulls", (ANY,), t.INTEGER, _num_nonnulls, variadic=True, strict=False),
    Function("subscript", (ANYMAP, ANY), lambda ts: getattr(ts[0], "value", t.VARCHAR),
             "try_element_at({0}, {1})"),
)  # fmt: skip

__all__ = ["ROWS", "common", "general"]
