"""jsonb: stored as text in one canonical form, worked on as Spark's variant.

The canonical form has its keys in alphabetical order and one space after each colon and comma, which is what Python's
`json.dumps(value, sort_keys=True, ensure_ascii=False)` writes: equal documents are equal texts. Numbers are written as
the variant holds them (1.10 is 1.1).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal

from icestream import types as t
from icestream.functions import casts
from icestream.functions import fragments as f
from icestream.functions.coercion import general
from icestream.functions.expressions import Expr, Literal
from icestream.functions.function import ANY, Function, Rows, Template
from icestream.functions.strings import constant, required
from icestream.types import ArrayType, MapType, StructType, Type, backtick

TEXT, JSON, I4, BOOL = t.VARCHAR, t.JSONB, t.INTEGER, t.BOOLEAN
_ENTRY = t.struct(("key", TEXT), ("value", JSON))
_TEXT_ENTRY = t.struct(("key", TEXT), ("value", TEXT))


def variant(x: str) -> str:
    """The parsed document; of a text just written from a variant, that variant."""
    before, after = casts.spaced_json("to_json(<>)").split("<>")
    if x.startswith(before) and x.endswith(after) and x.count(after) == x.count(before) == 1:
        return x[len(before) : -len(after)]
    return f"try_parse_json({x})"


def written(v: str) -> str:
    """A variant back as canonical text."""
    return casts.spaced_json(f"to_json({v})")


def _as_text(v: str) -> str:
    """A variant as ->> shows it: a string without its quotes, JSON null as NULL."""
    return f.let(
        v, lambda x: f"IF(to_json({x}) RLIKE '^[\\\\[{{]', {written(x)}, CAST({x} AS STRING))"
    )


def _object(v: str) -> str:
    return f"try_variant_get({v}, '$', 'map<string,variant>')"


def _items(v: str) -> str:
    return f"try_variant_get({v}, '$', 'array<variant>')"


def _member(v: str, key: str) -> str:
    return f"try_element_at({_object(v)}, {key})"


def _item(v: str, index: str) -> str:
    return f.let(_items(v), lambda a: f"get({a}, IF({index} < 0, size({a}) + {index}, {index}))")


def _step(a: Sequence[str], e: Sequence[Expr]) -> str:
    """The variant below one key or index; constants become a path that Spark reads while parsing."""
    key, index = constant(e[1]), e[1]
    v = variant(a[0])
    if key is not None and re.fullmatch(r"[\w \-.$:/@]+", key):
        path = f.string(f'$["{key}"]')
        return f"try_variant_get({v}, {path}, 'variant')"
    if e[1].type == TEXT:
        return _member(v, a[1])
    if isinstance(index, Literal) and isinstance(index.value, int) and index.value >= 0:
        return f"try_variant_get({v}, '$[{index.value}]', 'variant')"
    return _item(v, a[1])


def _path(x: str, keys: str) -> str:
    """The variant at the end of a path of keys and indexes."""
    acc, key = f.fresh(2, x, keys)
    index = f"try_cast({key} AS INT)"
    step = f"coalesce({_member(acc, key)}, {_item(acc, index)})"
    return f"aggregate({keys}, {variant(x)}, ({acc}, {key}) -> {step})"


def _get(a: Sequence[str], e: Sequence[Expr]) -> str:
    return written(_step(a, e))


def _get_text(a: Sequence[str], e: Sequence[Expr]) -> str:
    return _as_text(_step(a, e))


def _extract_path(a: Sequence[str], e: Sequence[Expr]) -> str:
    return written(_path(a[0], f"array({', '.join(a[1:])})"))


def _extract_path_text(a: Sequence[str], e: Sequence[Expr]) -> str:
    return _as_text(_path(a[0], f"array({', '.join(a[1:])})"))


# -- questions ------------------------------------------------------------------------------------


def _has_key(x: str, key: str) -> str:
    strings = f.each(
        _items(variant(x)), lambda v: f"IF(to_json({v}) LIKE '\"%', CAST({v} AS STRING), NULL)"
    )
    return (
        f"CASE WHEN {x} LIKE '{{%' THEN map_contains_key({_object(variant(x))}, {key}) "
        f"WHEN {x} LIKE '[%' THEN coalesce(array_contains({strings}, {key}), FALSE) "
        f"WHEN {x} LIKE '\"%' THEN CAST({variant(x)} AS STRING) = {key} WHEN {x} IS NOT NULL THEN FALSE END"
    )


def _has_any(a: Sequence[str], e: Sequence[Expr]) -> str:
    return f"IF({a[0]} IS NULL, NULL, {f.each(a[1], lambda k: _has_key(a[0], k), 'exists')})"


def _has_all(a: Sequence[str], e: Sequence[Expr]) -> str:
    return f"IF({a[0]} IS NULL, NULL, {f.each(a[1], lambda k: _has_key(a[0], k), 'forall')})"


def _parsed(e: Expr) -> object:
    text = required(e, "@> and <@ with a document")
    try:
        return json.loads(text, parse_float=Decimal)
    except json.JSONDecodeError:
        raise ValueError(f"@> with a document that is not JSON: {text}") from None


def _contains(v: str, value: object, top: bool = False) -> str:
    """Whether the variant `v` contains a constant document; recursion over the constant."""
    if isinstance(value, dict):
        tests = [f"to_json({v}) LIKE '{{%'"]
        tests += [_contains(_member(v, f.string(k)), x) for k, x in value.items()]
        return f"({' AND '.join(tests)})"
    if isinstance(value, list):
        tests = [f"to_json({v}) LIKE '[%'"]
        tests += [f.each(_items(v), lambda i, x=x: _contains(i, x), "exists") for x in value]  # type: ignore[misc]
        return f"({' AND '.join(tests)})"
    text = str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)
    same = f"to_json({v}) = to_json(parse_json({f.string(text)}))"
    if top:
        inside = f.each(
            _items(v), lambda i: same.replace(f"to_json({v})", f"to_json({i})", 1), "exists"
        )
        return f"({same} OR coalesce({inside}, FALSE))"
    return same


def _holds(a: Sequence[str], e: Sequence[Expr]) -> str:
    value = _parsed(e[1])
    return f"IF({a[0]} IS NULL, NULL, coalesce({_contains(variant(a[0]), value, top=True)}, FALSE))"


def _is_held(a: Sequence[str], e: Sequence[Expr]) -> str:
    return _holds((a[1], a[0]), (e[1], e[0]))


_TYPEOF = (
    "CASE WHEN {0} LIKE '{{%' THEN 'object' WHEN {0} LIKE '[%' THEN 'array' WHEN {0} LIKE '\"%' THEN 'string' "
    "WHEN {0} IN ('true', 'false') THEN 'boolean' WHEN {0} = 'null' THEN 'null' WHEN {0} IS NOT NULL THEN 'number' END"
)


# -- building -------------------------------------------------------------------------------------


def quoted(x: str) -> str:
    """A text as a JSON string."""
    return f"to_json(CAST({x} AS VARIANT))"


def to_json(x: str, type: Type) -> str:
    """Any value as JSON text; NULL as JSON's null."""
    return f"coalesce({_value(x, type)}, 'null')"


def _value(x: str, type: Type) -> str:
    base = general(type)
    if base == JSON:
        return x
    if base == t.BOOLEAN or base in t.INTEGERS or base == t.NUMERIC:
        return casts.to_text(x, type) or x
    if base in t.FLOATS:
        text = casts.to_text(x, type) or x
        return f.let(text, lambda v: f"IF({v} RLIKE '[yN]', concat('\"', {v}, '\"'), {v})")
    if base == t.TIMESTAMP:
        return f"concat('\"', replace({casts.to_text(x, type)}, ' ', 'T'), '\"')"
    if base == t.TIMESTAMPTZ:
        return f"concat('\"', replace({casts.to_text(x, type)}, ' ', 'T'), ':00\"')"
    if isinstance(type, ArrayType):
        return (
            f"concat('[', array_join({f.each(x, lambda v: to_json(v, type.element))}, ', '), ']')"
        )
    if isinstance(type, StructType):
        fields = ", ', ', ".join(
            f"{f.string(json.dumps(c.name, ensure_ascii=False) + ': ')}, {to_json(f'{x}.{backtick(c.name)}', c.type)}"
            for c in sorted(type.fields, key=lambda c: c.name)
        )
        return f"IF({x} IS NULL, NULL, concat('{{', {fields}, '}}'))"
    if isinstance(type, MapType):
        raise ValueError("a map as jsonb")
    return quoted(casts.to_text(x, type) or x)


def _build_object(a: Sequence[str], e: Sequence[Expr]) -> str:
    if len(a) % 2:
        raise ValueError("jsonb_build_object with an odd number of arguments")
    pairs = [
        f"concat({quoted(casts.output(a[i], e[i].type))}, ': ', {to_json(a[i + 1], e[i + 1].type)})"
        for i in range(0, len(a), 2)
    ]
    if not pairs:
        return "'{}'"
    joined = ", ', ', ".join(pairs)
    return casts.canonical_json(f"concat('{{', {joined}, '}}')")


def _build_array(a: Sequence[str], e: Sequence[Expr]) -> str:
    if not a:
        return "'[]'"
    items = ", ', ', ".join(to_json(x, y.type) for x, y in zip(a, e, strict=True))
    return f"concat('[', {items}, ']')"


def _sorted_object(entries: str) -> str:
    """Canonical text of a map<string, string> whose values are JSON already."""
    pair = "concat(to_json(CAST(_v8.key AS VARIANT)), ': ', _v8.value)"
    return f"concat('{{', array_join(transform(array_sort(map_entries({entries})), _v8 -> {pair}), ', '), '}}')"


def _texts(v: str) -> str:
    return f"transform_values({_object(v)}, (_v6, _v7) -> {written('_v7')})"


def _join(a: Sequence[str], e: Sequence[Expr]) -> str:
    """jsonb || jsonb: objects merge, anything else becomes one array."""
    left, right = _texts(variant(a[0])), _texts(variant(a[1]))
    kept = f"map_filter({left}, (_v4, _v5) -> NOT map_contains_key({_object(variant(a[1]))}, _v4))"
    merged = _sorted_object(f"map_concat({kept}, {right})")

    def inner(x: str) -> str:
        return f"IF({x} LIKE '[%', substr({x}, 2, length({x}) - 2), {x})"

    parts = f"concat_ws(', ', nullif({inner(a[0])}, ''), nullif({inner(a[1])}, ''))"
    both = f"{a[0]} LIKE '{{%' AND {a[1]} LIKE '{{%'"
    return f"CASE WHEN {both} THEN {merged} WHEN {a[0]} IS NOT NULL AND {a[1]} IS NOT NULL THEN concat('[', {parts}, ']') END"


def _without(a: Sequence[str], e: Sequence[Expr]) -> str:
    """jsonb - text: without the key, or without the strings equal to it."""
    kept = _sorted_object(f"map_filter({_texts(variant(a[0]))}, (_v4, _v5) -> _v4 <> {a[1]})")
    string = f"to_json(CAST({a[1]} AS VARIANT))"
    rest = f"filter({_items(variant(a[0]))}, _v4 -> to_json(_v4) <> {string})"
    listed = f"concat('[', array_join(transform({rest}, _v5 -> {written('_v5')}), ', '), ']')"
    return f"CASE WHEN {a[1]} IS NULL THEN NULL WHEN {a[0]} LIKE '{{%' THEN {kept} WHEN {a[0]} LIKE '[%' THEN {listed} END"


def _rows(how: str) -> Template:
    """What a set-returning function gives, as the array that the planner explodes."""

    def template(a: Sequence[str], e: Sequence[Expr]) -> str:
        v = variant(a[0])
        if how == "elements":
            return f.each(_items(v), written)
        if how == "elements_text":
            return f.each(_items(v), _as_text)
        if how == "keys":
            return f"array_sort(map_keys({_object(v)}))"
        value = written("_v7") if how == "each" else _as_text("_v7")
        entries = f"map_entries(transform_values({_object(v)}, (_v6, _v7) -> {value}))"
        return f"array_sort({entries})"

    return template


def _row(
    name: str, args: tuple[Type, ...], result: Type, spark: Template, variadic: bool = False
) -> Function:
    return Function(name, args, result, spark, variadic=variadic)


ROWS: Rows = (
    _row("->", (JSON, TEXT), JSON, _get),
    _row("->", (JSON, I4), JSON, _get),
    _row("->>", (JSON, TEXT), TEXT, _get_text),
    _row("->>", (JSON, I4), TEXT, _get_text),
    _row("#>", (JSON, t.array(TEXT)), JSON, lambda a, e: written(_path(a[0], a[1]))),
    _row("#>>", (JSON, t.array(TEXT)), TEXT, lambda a, e: _as_text(_path(a[0], a[1]))),
    _row("jsonb_extract_path", (JSON, TEXT), JSON, _extract_path, variadic=True),
    _row("jsonb_extract_path_text", (JSON, TEXT), TEXT, _extract_path_text, variadic=True),
    _row("?", (JSON, TEXT), BOOL, lambda a, e: _has_key(a[0], a[1])),
    _row("?|", (JSON, t.array(TEXT)), BOOL, _has_any),
    _row("?&", (JSON, t.array(TEXT)), BOOL, _has_all),
    _row("@>", (JSON, JSON), BOOL, _holds),
    _row("<@", (JSON, JSON), BOOL, _is_held),
    _row("||", (JSON, JSON), JSON, _join),
    Function("-", (JSON, TEXT), JSON, _without, fallible=True),
    _row("jsonb_typeof", (JSON,), TEXT, _TYPEOF),
    Function("jsonb_array_length", (JSON,), I4, lambda a, e: f"size({_items(variant(a[0]))})", fallible=True),
    Function("jsonb_build_object", (), JSON, _build_object, strict=False),
    Function("jsonb_build_object", (ANY,), JSON, _build_object, variadic=True, strict=False),
    Function("jsonb_build_array", (), JSON, _build_array, strict=False),
    Function("jsonb_build_array", (ANY,), JSON, _build_array, variadic=True, strict=False),
    Function("to_jsonb", (ANY,), JSON, lambda a, e: _value(a[0], e[0].type)),
    Function("jsonb_array_elements", (JSON,), JSON, _rows("elements"), set_returning=True),
    Function("jsonb_array_elements_text", (JSON,), TEXT, _rows("elements_text"), set_returning=True),
    Function("jsonb_object_keys", (JSON,), TEXT, _rows("keys"), set_returning=True),
    Function("jsonb_each", (JSON,), _ENTRY, _rows("each"), set_returning=True),
    Function("jsonb_each_text", (JSON,), _TEXT_ENTRY, _rows("each_text"), set_returning=True),
)  # fmt: skip
