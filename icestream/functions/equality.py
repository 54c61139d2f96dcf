"""Values that are equal in PostgreSQL although they are written differently.

`interval '1 day'` equals `'24 hours'`, and the jsonb `1` equals `1.0`. Spark compares what is stored: the parts of an interval,
the text of a jsonb. So everything that compares such values compares their *keys*: numbers and texts that are equal exactly if
the values are. Floats need no key, because Spark takes 0.0 and -0.0 for equal (but see `functions.floats`).

The functions here have no names in SQL.
"""

from __future__ import annotations

from collections.abc import Sequence

from icestream import types as t
from icestream.functions import fragments as f
from icestream.functions.expressions import AggregateCall, Call, Expr
from icestream.functions.floats import unify_bits
from icestream.functions.function import ANY, ANYELEMENT, Function
from icestream.types import ArrayType, Field, StructType, Type, backtick

_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_JSON_PARTS = rf"({_STRING})|(-?\d++\.\d*[1-9])0++(?!\d)|(-?\d++)\.0++(?!\d)|(-?\d++(?:\.\d++)?)"
"""Strings and numbers of a JSON text; groups hold each of them without the zeros at the end of a fraction. A number is
always matched as a whole, so that the time is linear."""


def has_variants(type: Type) -> bool:
    """Whether equal values of the type may be written differently."""
    if isinstance(type, ArrayType):
        return has_variants(type.element)
    if isinstance(type, StructType):
        return any(has_variants(field.type) for field in type.fields)
    return type in (t.INTERVAL, t.JSONB)


def key_text(text: str, type: Type) -> str:
    """What Spark must compare so that values of the type compare as in PostgreSQL."""
    if not has_variants(type):
        return text
    if isinstance(type, ArrayType):
        return f.each(text, lambda v: key_text(v, type.element))
    if isinstance(type, StructType):
        return f.let(text, lambda v: _field_keys(v, type))
    if type == t.JSONB:
        return f"regexp_replace({text}, {f.string(_JSON_PARTS)}, '$1$2$3$4')"
    return f.let(text, lambda v: f"CAST({f.interval_key(v)} AS DECIMAL(38,0))")


def hash_text(text: str, type: Type) -> str:
    """The key with equal bits for equal values, for what compares hashes or bits."""
    return unify_bits(key_text(text, type), key_type(type))


def _field_keys(text: str, type: StructType) -> str:
    fields = ", ".join(
        f"{f.string(c.name)}, {key_text(f'{text}.{backtick(c.name)}', c.type)}" for c in type.fields
    )
    return f"IF({text} IS NULL, NULL, named_struct({fields}))"


def key_type(type: Type) -> Type:
    """The type of the key of values of a type."""
    if not has_variants(type):
        return type
    if isinstance(type, ArrayType):
        return t.array(key_type(type.element))
    if isinstance(type, StructType):
        return StructType(type.name, tuple(Field(c.name, key_type(c.type)) for c in type.fields))
    return t.VARCHAR if type == t.JSONB else t.numeric(38)


def stored_type(type: Type) -> Type:
    """The type whose values are stored in the same way, and equal only if they are written alike."""
    if not has_variants(type):
        return type
    if isinstance(type, ArrayType):
        return t.array(stored_type(type.element))
    if isinstance(type, StructType):
        return StructType(type.name, tuple(Field(c.name, stored_type(c.type)) for c in type.fields))
    return t.VARCHAR if type == t.JSONB else _PARTS


def key_of_value(expr: Expr) -> Expr:
    """An expression that gives the key of a value; the value itself if it needs none."""
    return Call(key_type(expr.type), _KEY, (expr,)) if has_variants(expr.type) else expr


def as_stored(expr: Expr) -> Expr:
    """The value as one that equals only what is written alike."""
    return Call(stored_type(expr.type), _STORED, (expr,)) if has_variants(expr.type) else expr


def from_stored(expr: Expr, type: Type) -> Expr:
    """The value of a type that was given to `as_stored`."""
    if not has_variants(type):
        return expr
    back = Function(f"{type} from stored", (ANY,), type, "{0}", strict=False)
    return Call(type, back, (expr,))


def one_of_equals(expr: Expr, where: Expr | None = None) -> AggregateCall:
    """The value that stands for a group of equal ones: always the same one of those that are there."""
    return AggregateCall(expr.type, ONE, (expr,), filter=where)


def _same(types: Sequence[Type]) -> Type:
    return types[0]


def _keyed(types: Sequence[Type]) -> Type:
    return key_type(types[0])


_PARTS = t.struct(("months", t.INTEGER), ("days", t.INTEGER), ("microseconds", t.BIGINT))
_KEY = Function("key", (ANY,), _keyed, lambda a, e: key_text(a[0], e[0].type), strict=False)
_STORED = Function("stored", (ANY,), lambda ts: stored_type(ts[0]), "{0}", strict=False)
ONE = Function("one of equals", (ANYELEMENT,), _same, "min({0})", kind="aggregate", strict=False)
