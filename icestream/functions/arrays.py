"""Arrays and the functions that turn one row into several.

A set-returning function renders as the array of its rows: the planner explodes it.
"""

from __future__ import annotations

from collections.abc import Sequence

from icestream import types as t
from icestream.functions import casts
from icestream.functions import fragments as f
from icestream.functions.equality import has_variants, hash_text, key_text
from icestream.functions.expressions import Expr
from icestream.functions.function import (
    ANYARRAY,
    ANYELEMENT,
    Function,
    Param,
    Result,
    Rows,
    Template,
)
from icestream.types import ArrayType, Type, spark_type

TEXT, I4, I8, N = t.VARCHAR, t.INTEGER, t.BIGINT, t.NUMERIC


def _same(types: Sequence[Type]) -> Type:
    return types[0]


def _second(types: Sequence[Type]) -> Type:
    return types[1]


def _element(types: Sequence[Type]) -> Type:
    assert isinstance(types[0], ArrayType)
    return types[0].element


def _built(a: Sequence[str], e: Sequence[Expr]) -> str:
    return f"array({', '.join(a)})"


def _slice(a: Sequence[str], e: Sequence[Expr]) -> str:
    first = f"IF({a[1]} < 1, 1, {a[1]})"
    last = f"IF({a[2]} > size({a[0]}), size({a[0]}), {a[2]})"
    count = f"IF({last} < {first}, 0, {last} - {first} + 1)"
    return f"IF({a[2]} IS NULL, NULL, slice({a[0]}, {first}, {count}))"


def _empty(e: Expr) -> str:
    return f"CAST(array() AS {spark_type(e.type)})"


def _append(a: Sequence[str], e: Sequence[Expr]) -> str:
    return f"array_append(coalesce({a[0]}, {_empty(e[0])}), {a[1]})"


def _prepend(a: Sequence[str], e: Sequence[Expr]) -> str:
    return f"array_prepend(coalesce({a[1]}, {_empty(e[1])}), {a[0]})"


def _cat(a: Sequence[str], e: Sequence[Expr]) -> str:
    return f"coalesce(concat({a[0]}, {a[1]}), {a[0]}, {a[1]})"


def _joined(a: Sequence[str], e: Sequence[Expr]) -> str:
    array = e[0].type
    assert isinstance(array, ArrayType)
    texts = f.each(a[0], lambda v: casts.output(v, array.element))
    if len(a) == 2:
        return f"array_join({texts}, {a[1]})"
    return f"IF({a[2]} IS NULL, array_join({texts}, {a[1]}), array_join({texts}, {a[1]}, coalesce({a[2]}, '')))"


def _length(a: Sequence[str], e: Sequence[Expr]) -> str:
    array, inner = e[0].type, "NULL"
    if isinstance(array, ArrayType) and isinstance(array.element, ArrayType):
        inner = f"nullif(size(get({a[0]}, 0)), 0)"
    return f"CASE {a[1]} WHEN 1 THEN nullif(size({a[0]}), 0) WHEN 2 THEN {inner} END"


def _covers(a: Sequence[str], e: Sequence[Expr]) -> str:
    x, y = f.fresh(2, a[0], a[1])
    whole, part = (key_text(v, w.type) for v, w in zip(a, e, strict=True))
    every = f"forall({part}, {x} -> coalesce(exists({whole}, {y} -> {y} = {x}), FALSE))"
    return f"IF({a[0]} IS NULL, NULL, {every})"


def _overlap(a: Sequence[str], e: Sequence[Expr]) -> str:
    left, right = (hash_text(v, w.type) for v, w in zip(a, e, strict=True))
    none = f"IF({a[0]} IS NULL OR {a[1]} IS NULL, NULL, FALSE)"
    return f"coalesce(arrays_overlap({left}, {right}), {none})"


def _same_as(value: str, wanted: str, array: Expr) -> str:
    """Whether an element of an array equals a value; NULL equals NULL."""
    type = _element((array.type,))
    return f"({key_text(value, type)} <=> {key_text(wanted, type)})"


def _remove(a: Sequence[str], e: Sequence[Expr]) -> str:
    return f.each(a[0], lambda v: f"NOT {_same_as(v, a[1], e[0])}", "filter")


def _replace(a: Sequence[str], e: Sequence[Expr]) -> str:
    return f.each(a[0], lambda v: f"IF({_same_as(v, a[1], e[0])}, {a[2]}, {v})")


def _distinct(a: Sequence[str], e: Sequence[Expr]) -> str:
    type = _element((e[0].type,))
    if not has_variants(type):
        return f"array_distinct({hash_text(a[0], e[0].type)})"

    def first(rows: str) -> str:
        row, place = f.fresh(2, rows)
        keys = f.each(rows, lambda v: f"{v}.k")
        found = f"IF({row}.k IS NULL, array_position({f.each(keys, lambda v: f'{v} IS NULL')}, TRUE), array_position({keys}, {row}.k))"
        kept = f"filter({rows}, ({row}, {place}) -> {found} = {place} + 1)"
        return f.each(kept, lambda v: f"{v}.v")

    return f.let(_with_keys(a[0], type), first)


def _with_keys(array: str, type: Type) -> str:
    """The elements beside what they are compared by."""
    return f.each(array, lambda v: f"named_struct('k', {hash_text(v, type)}, 'v', {v})")


def _in_order(name: str) -> Template:
    """array_min and its like: NULLs are left out, or last."""

    def template(a: Sequence[str], e: Sequence[Expr]) -> str:
        type = _element((e[0].type,))
        if not has_variants(type):
            return f"{name}({a[0]})"
        rows = f.each(_with_keys(a[0], type), lambda v: f"IF({v}.v IS NULL, NULL, {v})")
        found = f"{name}({rows})"
        return f.each(found, lambda v: f"{v}.v") if name == "array_sort" else f"{found}.v"

    return template


def _position(a: Sequence[str], e: Sequence[Expr]) -> str:
    hits = f.each(a[0], lambda v: _same_as(v, a[1], e[0]))
    return f"CAST(nullif(array_position({hits}, TRUE), 0) AS INT)"


LONGEST_SERIES = 1 << 26
"""Rows of generate_series: Spark holds them in memory."""


def _series(a: Sequence[str], e: Sequence[Expr]) -> str:
    step = a[2] if len(a) > 2 else "1"
    long = f"abs(CAST({a[1]} AS DOUBLE) - {a[0]}) >= abs(CAST({step} AS DOUBLE)) * {LONGEST_SERIES}"
    whole = f"sequence({a[0]}, {a[1]}, CAST({step} AS {spark_type(e[0].type)}))"
    kind = f"ARRAY<{spark_type(e[0].type)}>"
    runs = f"{step} > 0 AND {a[0]} <= {a[1]} OR {step} < 0 AND {a[0]} >= {a[1]}"
    return f"CASE WHEN ({runs}) AND {long} THEN NULL WHEN {runs} THEN {whole} WHEN {step} <> 0 THEN CAST(array() AS {kind}) END"


def _moments(a: Sequence[str], e: Sequence[Expr]) -> str:
    step = f"({a[2]}.months * 2592000000000L + {a[2]}.days * {f.DAY_MICROS} + {a[2]}.microseconds)"
    whole = f"sequence({a[0]}, {a[1]}, {f.calendar(a[2])})"
    long = f"abs({f.micros(a[1])} - {f.micros(a[0])}) >= abs({step}) * {LONGEST_SERIES}D"
    kind = f"ARRAY<{spark_type(e[0].type)}>"
    runs = f"{step} > 0 AND {a[0]} <= {a[1]} OR {step} < 0 AND {a[0]} >= {a[1]}"
    return f"CASE WHEN ({runs}) AND {long} THEN NULL WHEN {runs} THEN {whole} WHEN {step} <> 0 THEN CAST(array() AS {kind}) END"


def _row(
    name: str, args: tuple[Param, ...], result: Result, spark: Template, strict: bool = True
) -> Function:
    return Function(name, args, result, spark, strict=strict)


def _set(name: str, args: tuple[Param, ...], result: Result, spark: Template) -> Function:
    fallible = name == "generate_series"  # of a step that is zero
    return Function(name, args, result, spark, set_returning=True, fallible=fallible)


ROWS: Rows = (
    Function("array", (ANYELEMENT,), lambda ts: t.array(ts[0]), _built, variadic=True, strict=False),
    _row("subscript", (ANYARRAY, I4), _element, "get({0}, try_subtract({1}, 1))"),
    _row("slice", (ANYARRAY, I4, I4), _same, _slice),
    _row("||", (ANYARRAY, ANYARRAY), _same, _cat, strict=False),
    _row("||", (ANYARRAY, ANYELEMENT), _same, _append, strict=False),
    _row("||", (ANYELEMENT, ANYARRAY), _second, _prepend, strict=False),
    _row("array_cat", (ANYARRAY, ANYARRAY), _same, _cat, strict=False),
    _row("array_append", (ANYARRAY, ANYELEMENT), _same, _append, strict=False),
    _row("array_prepend", (ANYELEMENT, ANYARRAY), _second, _prepend, strict=False),
    _row("array_remove", (ANYARRAY, ANYELEMENT), _same, _remove, strict=False),
    _row("array_replace", (ANYARRAY, ANYELEMENT, ANYELEMENT), _same, _replace, strict=False),
    _row("array_position", (ANYARRAY, ANYELEMENT), I4, _position, strict=False),
    _row("array_to_string", (ANYARRAY, TEXT), TEXT, _joined),
    _row("array_to_string", (ANYARRAY, TEXT, TEXT), TEXT, _joined, strict=False),
    _row("cardinality", (ANYARRAY,), I4, "size({0})"),
    _row("array_length", (ANYARRAY, I4), I4, _length),
    _row("array_upper", (ANYARRAY, I4), I4, _length),
    _row("array_lower", (ANYARRAY, I4), I4, lambda a, e: f"IF({_length(a, e)} IS NULL, NULL, 1)"),
    Function("trim_array", (ANYARRAY, I4), _same, "IF({1} BETWEEN 0 AND size({0}), slice({0}, 1, greatest(size({0}) - {1}, 0)), NULL)", fallible=True),
    _row("@>", (ANYARRAY, ANYARRAY), t.BOOLEAN, _covers),
    _row("<@", (ANYARRAY, ANYARRAY), t.BOOLEAN, lambda a, e: _covers(a[::-1], e[::-1])),
    _row("&&", (ANYARRAY, ANYARRAY), t.BOOLEAN, _overlap),
    _row("array_max", (ANYARRAY,), _element, _in_order("array_max")),
    _row("array_min", (ANYARRAY,), _element, _in_order("array_min")),
    _row("array_distinct", (ANYARRAY,), _same, _distinct),
    _row("array_sort", (ANYARRAY,), _same, _in_order("array_sort")),
    _row("array_contains", (ANYARRAY, ANYARRAY), t.BOOLEAN, _covers),
    _set("unnest", (ANYARRAY,), _element, "{0}"),
    *(_set("generate_series", (k, k), k, _series) for k in (I4, I8)),
    *(_set("generate_series", (k, k, k), k, _series) for k in (I4, I8)),
    *(_set("generate_series", (k, k, t.INTERVAL), k, _moments) for k in (t.TIMESTAMP, t.TIMESTAMPTZ)),
)  # fmt: skip
