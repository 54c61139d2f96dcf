"""Which type becomes which: PostgreSQL's implicit conversions, common types and the types of numeric results.

`numeric` without a precision is decimal(38, 10): 28 digits before the point and 10 after. Every numeric
operation gives the exact value rounded half away from zero to that scale, where PostgreSQL keeps more digits of a
quotient; a result that does not fit is NULL. Operands with a larger scale give decimal(38, s), s the largest scale. Sums of
operands with more than 28 digits before the point keep the largest scale of the operands, even if it is below 10.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from icestream import types as t
from icestream.types import ArrayType, MapType, NumericType, StructType, Type

LADDER = (t.SMALLINT, t.INTEGER, t.BIGINT, t.NUMERIC, t.REAL, t.DOUBLE)
TIMES = (t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ)
_DIGITS = {t.SMALLINT: 5, t.INTEGER: 10, t.BIGINT: 19}
_ASSIGNED = ((LADDER, LADDER), (TIMES, TIMES), ((*TIMES[1:], t.INTERVAL), (t.TIME,)))
"""What an assignment converts beyond the implicit conversions: from any of these to any of those."""
_PREFERRED = (t.DOUBLE, t.VARCHAR, t.BOOLEAN, t.TIMESTAMPTZ, t.INTERVAL)


def general(type: Type) -> Type:
    """The type without its precision, to compare types as overload resolution does."""
    return t.NUMERIC if isinstance(type, NumericType) else type


def category(type: Type) -> str:
    """PostgreSQL's type category, as far as the rules look at it."""
    base = general(type)
    if base in LADDER:
        return "number"
    if base in TIMES or base == t.TIME:
        return "time"
    return {t.VARCHAR: "string", t.NULL: "unknown"}.get(base, str(base))


def is_preferred(type: Type) -> bool:
    """Whether a type is its category's favourite."""
    return type in _PREFERRED


def is_implicit(source: Type, target: Type) -> bool:
    """Whether a value of `source` may stand where `target` is wanted, without a written cast."""
    a, b = general(source), general(target)
    if a == b or a == t.NULL:
        return True
    for order in (LADDER, TIMES):
        if a in order and b in order:
            return order.index(a) < order.index(b)
    if isinstance(a, ArrayType) and isinstance(b, ArrayType):
        return is_implicit(a.element, b.element)
    if isinstance(a, StructType) and isinstance(b, StructType):
        pairs = zip(a.fields, b.fields, strict=False)
        return len(a.fields) == len(b.fields) and all(is_implicit(x.type, y.type) for x, y in pairs)
    return a == t.TIME and b == t.INTERVAL


def is_assignable(source: Type, target: Type) -> bool:
    """Whether a value of `source` may be put into a column of `target`, without a written cast."""
    a, b = general(source), general(target)
    if isinstance(a, ArrayType) and isinstance(b, ArrayType):
        return is_assignable(a.element, b.element)
    if isinstance(a, StructType) and isinstance(b, StructType):
        pairs = zip(a.fields, b.fields, strict=False)
        fit = all(is_assignable(x.type, y.type) for x, y in pairs)
        return fit and len(a.fields) == len(b.fields)
    return is_implicit(a, b) or b == t.VARCHAR or any(a in f and b in to for f, to in _ASSIGNED)


def common_type(types: Sequence[Type]) -> Type | None:
    """The type that CASE, COALESCE, IN, ARRAY and UNION give their branches, or None if there is none."""
    known = [x for x in types if x != t.NULL]
    if not known:
        return t.VARCHAR if types else None
    best = known[0]
    for other in known[1:]:
        if other is best:  # long lists are of one type
            continue
        if general(best) == general(other):
            best = _merge(best, other)
        elif is_implicit(best, other):
            best = other if not isinstance(other, NumericType) else numeric_result(best, other)
        elif not is_implicit(other, best):
            return None
        elif isinstance(best, NumericType):
            best = numeric_result(best, other)
    return best


def _merge(a: Type, b: Type) -> Type:
    if a == b:
        return a
    if isinstance(a, NumericType) and isinstance(b, NumericType):
        return numeric_result(a, b)
    if isinstance(a, ArrayType) and isinstance(b, ArrayType):
        return replace(a, element=_merge(a.element, b.element))
    return a


def as_numeric(type: Type) -> NumericType:
    """The decimal that holds every value of a number type exactly (floats: the general one)."""
    if isinstance(type, NumericType):
        return type
    return t.numeric(_DIGITS[type]) if type in _DIGITS else t.NUMERIC


def numeric_result(*types: Type) -> NumericType:
    """The numeric type of a result over those operands: see the module's text."""
    scales = [as_numeric(x).scale for x in types if general(x) in LADDER]
    return t.numeric(t.NUMERIC.precision, max(t.NUMERIC.scale, *scales, 0))


def sum_result(*types: Type) -> NumericType:
    """The numeric type of a sum or difference: as `numeric_result`, but no digit before the point is lost."""
    result = numeric_result(*types)
    sizes = [as_numeric(x) for x in types if general(x) in LADDER]
    if any(s.precision - s.scale > result.precision - result.scale for s in sizes):
        return t.numeric(result.precision, max(s.scale for s in sizes))
    return result


def describe(type: Type) -> str:
    """The type as PostgreSQL names it in messages."""
    names = {
        t.VARCHAR: "text",
        t.TIMESTAMP: "timestamp without time zone",
        t.TIMESTAMPTZ: "timestamp with time zone",
        t.TIME: "time without time zone",
        t.NUMERIC: "numeric",
    }
    if isinstance(type, ArrayType):
        return f"{describe(type.element)}[]"
    if isinstance(type, StructType):
        return "record"
    if isinstance(type, MapType):
        return str(type)
    return names.get(general(type), str(type))
