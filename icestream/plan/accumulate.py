"""Aggregates that are brought up to date: what is kept of a group, and how a delta changes it.

Each aggregate keeps *parts*, which are aggregates themselves (avg keeps a sum and a count). A part of the rows that came
and one of those that went are merged with the part that is stored. Where that does not tell the new value (the least
value went; a float sum would not be exact; a list of all values) the group is *stale* and read again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from icestream import types as t
from icestream.functions.aggregates import HIGH, JOINED, LOW, is_wide
from icestream.functions.conversions import result_type
from icestream.functions.equality import ONE
from icestream.functions.expressions import AggregateCall, Call, ColumnRef, Expr
from icestream.functions.function import Function
from icestream.functions.registry import REGISTRY
from icestream.plan.calls import call, choose, converted, count, null, whole
from icestream.plan.logical import Item
from icestream.plan.normal import MADE

_EXACT = ("smallint", "integer", "bigint", "numeric")


@dataclass(frozen=True)
class Part:
    """A column that is kept, and the aggregate that makes it out of the rows of a group."""

    name: str
    made: AggregateCall
    kind: str
    """How it changes: count, sum, least, greatest, or whole (only by reading the group again)."""
    exact: bool = True
    """Whether what went can be taken off again."""

    @property
    def type(self) -> t.Type:
        """The type of the column."""
        return self.made.type


@dataclass(frozen=True)
class Kept:
    """One aggregate: its parts, and the result as an expression over their columns."""

    name: str
    parts: tuple[Part, ...]
    result: Expr
    counted_by: str | None = None
    """The part that counts the values of a sum, whose result is NULL when there are none."""


def kept_of(item: Item, grows: bool) -> Kept:
    """What is kept of an aggregate. `grows`: no row ever goes."""
    made = item.expr
    assert isinstance(made, AggregateCall)
    function, name = made.function.name, item.name
    if made.distinct or made.order_by:
        return _alone(item, made, "whole")
    match function:
        case "count":
            return _alone(item, made, "count")
        case "sum":
            return _sum(item, made, grows)
        case "avg":
            number = Part(f"{MADE}{name}_count", _like(made, "count"), "count")
            if is_wide(made.args[0].type):
                parts = _digits(item, made)
                mean = _mean(_join(parts), number, made)
                return Kept(name, (*parts, number), mean)
            total = Part(f"{MADE}{name}_sum", _like(made, "sum"), "sum", _is_exact(made))
            mean = _mean(ColumnRef(total.type, total.name), number, made)
            return Kept(name, (total, number), mean, number.name)
        case "min" | "max" if made.args[0].type != t.INTERVAL:
            return _alone(item, made, "least" if function == "min" else "greatest")
        case "bool_and" | "bool_or" | "every":
            return _truth(item, made)
        case ONE.name if grows:
            return _alone(item, made, "least")
    return _alone(item, made, "whole")


def _alone(item: Item, made: AggregateCall, kind: str) -> Kept:
    return Kept(item.name, (Part(item.name, made, kind),), item.ref)


def _sum(item: Item, made: AggregateCall, grows: bool) -> Kept:
    exact = _is_exact(made)
    if made.args[0].type == t.REAL:  # kept as a double, or small values would get lost
        total = Part(f"{MADE}{item.name}_sum", _like(made, "sum"), "sum", exact)
        return Kept(item.name, (total,), converted(ColumnRef(t.DOUBLE, total.name), made.type))
    if is_wide(made.args[0].type):
        return _wide_sum(item, made, grows)
    part = Part(item.name, made, "sum", exact)
    if grows or not exact:
        return Kept(item.name, (part,), item.ref)
    number = Part(f"{MADE}{item.name}_count", _like(made, "count"), "count")
    return Kept(item.name, (part, number), item.ref, number.name)


def _digits(item: Item, made: AggregateCall) -> tuple[Part, Part]:
    """The parts of a sum that may have more than 38 digits on the way. Neither of them overflows."""

    def part(function: Function, suffix: str) -> Part:
        type = result_type(function, made.args)
        total = AggregateCall(type, function, made.args, filter=made.filter)
        return Part(f"{MADE}{item.name}_{suffix}", total, "sum")

    return part(HIGH, "high"), part(LOW, "low")


def _join(parts: tuple[Part, Part]) -> Expr:
    args = tuple(ColumnRef(p.type, p.name) for p in parts)
    return Call(result_type(JOINED, args), JOINED, args)


def _wide_sum(item: Item, made: AggregateCall, grows: bool) -> Kept:
    parts = _digits(item, made)
    total = converted(_join(parts), made.type)
    if grows:
        return Kept(item.name, parts, total)
    number = Part(f"{MADE}{item.name}_count", _like(made, "count"), "count")
    there = call(">", ColumnRef(t.BIGINT, number.name), whole(0))
    return Kept(item.name, (*parts, number), choose(there, total, null(made.type)))


def _truth(item: Item, made: AggregateCall) -> Kept:
    """bool_and: as many are true as there are; bool_or: one is."""
    (value,) = made.args
    true = value if made.filter is None else call("and", made.filter, value)
    known = Part(f"{MADE}{item.name}_count", _like(made, "count"), "count")
    hits = Part(f"{MADE}{item.name}_true", count(true), "count")
    n, k = (Item(p.name, p.made).ref for p in (known, hits))
    either = call(">", k, whole(0)) if made.function.name == "bool_or" else call("=", k, n)
    return Kept(item.name, (known, hits), choose(call(">", n, whole(0)), either, null(t.BOOLEAN)))


def _mean(total: Expr, counted: Part, made: AggregateCall) -> Expr:
    number = ColumnRef(counted.type, counted.name)
    if _is_exact(made):
        divided = call("/", converted(total, made.type), converted(number, made.type))
    else:
        divided = call("/", converted(total, t.DOUBLE), converted(number, t.DOUBLE))
    there = call(">", number, whole(0))
    return choose(there, converted(divided, made.type), null(made.type))


def _like(made: AggregateCall, function: str) -> AggregateCall:
    """Another aggregate over the same values."""
    if function == "count":
        (found,) = [f for f in REGISTRY["count"] if f.args]
        return AggregateCall(t.BIGINT, found, made.args, filter=made.filter)
    arg = made.args[0]
    kind = t.NUMERIC if isinstance(arg.type, t.NumericType) else arg.type
    if arg.type == t.REAL:  # the mean of floats is that of doubles
        arg, kind = converted(arg, t.DOUBLE), t.DOUBLE
    found = next(f for f in REGISTRY["sum"] if f.args == (kind,))
    return AggregateCall(result_type(found, (arg,)), found, (arg,), filter=made.filter)


def _is_exact(made: AggregateCall) -> bool:
    return made.args[0].type not in (t.REAL, t.DOUBLE)


# -- merging --------------------------------------------------------------------------------------------


def only(made: AggregateCall, where: Expr) -> AggregateCall:
    """The aggregate over some of its rows."""
    return replace(made, filter=where if made.filter is None else call("and", made.filter, where))


def merged(part: Part, old: Expr, came: Expr, went: Expr | None) -> Expr:
    """The part after the epoch, if it is not stale."""
    match part.kind:
        case "count":
            total = call("+", call("coalesce", old, whole(0)), call("coalesce", came, whole(0)))
            return total if went is None else call("-", total, call("coalesce", went, whole(0)))
        case "sum":
            if went is None or not part.exact:  # an inexact one is stale as soon as a value went
                added = converted(call("+", old, came), part.type)
                return choose(call("is null", came), old, choose(call("is null", old), came, added))
            zero = converted(whole(0, t.INTEGER), part.type)
            total = call("+", call("coalesce", old, zero), call("coalesce", came, zero))
            return converted(call("-", total, call("coalesce", went, zero)), part.type)
        case "least" | "greatest":
            return call(part.kind, old, came)
    return old


def stale(part: Part, old: Expr, came: Expr, went: Expr | None) -> Expr | None:
    """When merging does not tell the new value; None: it always does."""
    if part.kind == "whole":
        return call("=", whole(1), whole(1))
    if went is None:
        return None
    if part.kind == "sum" and not part.exact:
        return call("is not null", went)
    if part.kind in ("least", "greatest"):
        beyond = call(">" if part.kind == "least" else "<", went, call(part.kind, old, came))
        return call("and", call("is not null", went), call("is distinct from", beyond, _true()))
    return None


def _true() -> Expr:
    return call("=", whole(1), whole(1))
