"""Floats that are equal in PostgreSQL, with equal bits: one zero and one NaN.

Spark compares floats as PostgreSQL does in `=`, joins, groups and orders. It compares bits in the hash join that it makes of
NOT IN, in collect_set of structs, and in mode.
"""

from __future__ import annotations

from icestream import types as t
from icestream.functions import fragments as f
from icestream.functions.expressions import Call, Expr
from icestream.functions.function import ANY, Function
from icestream.types import ArrayType, StructType, Type, backtick


def has_float(type: Type) -> bool:
    """Whether values of the type are or contain floats."""
    if isinstance(type, ArrayType):
        return has_float(type.element)
    if isinstance(type, StructType):
        return any(has_float(field.type) for field in type.fields)
    return type in t.FLOATS


def unify_bits(text: str, type: Type) -> str:
    """The value with -0.0 as 0.0 and every NaN as the same NaN, in arrays and structs too."""
    if not has_float(type):
        return text
    if isinstance(type, ArrayType):
        return f.each(text, lambda v: unify_bits(v, type.element))
    if isinstance(type, StructType):
        return f.let(text, lambda v: _unify_fields(v, type))
    kind = "float" if type == t.REAL else "double"
    return f"nanvl({text} + {kind}(0), {kind}('NaN'))"


def _unify_fields(text: str, type: StructType) -> str:
    fields = ", ".join(
        f"{f.string(c.name)}, {unify_bits(f'{text}.{backtick(c.name)}', c.type)}"
        for c in type.fields
    )
    return f"IF({text} IS NULL, NULL, named_struct({fields}))"


def unify_operand(expr: Expr) -> Expr:
    """An expression that gives the value of `expr` with unified bits."""
    return Call(expr.type, _UNIFY, (expr,)) if has_float(expr.type) else expr


_UNIFY = Function("unify_bits", (ANY,), lambda ts: ts[0], lambda a, e: unify_bits(a[0], e[0].type))
"""Written by the renderer only: it has no name in SQL."""
