"""Expressions that the planner writes itself, with the types and conversions that a user's would have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from icestream import types as t
from icestream.functions import Scope
from icestream.functions.bind import Binder, Subquery
from icestream.functions.conversions import PlaceOf, result_type
from icestream.functions.expressions import (
    AggregateCall,
    Call,
    Case,
    Cast,
    Expr,
    Literal,
    Sort,
    WindowCall,
)
from icestream.functions.registry import REGISTRY
from icestream.types import Type

_NOWHERE = exp.Null()


def binder_of(
    scope: Scope,
    place_of: PlaceOf,
    subquery: Subquery | None = None,
    windows: Mapping[str, exp.Expression] | None = None,
) -> Binder:
    """The binder of expressions over those columns. `subquery` is asked for the queries inside them."""
    return Binder(scope=scope, place_of=place_of, subquery=subquery, windows=windows or {})


def call(name: str, *args: Expr) -> Expr:
    """A scalar function or operator."""
    return binder_of(Scope(), lambda _: None).call(name, args, _NOWHERE)


def both(conditions: Iterable[Expr]) -> Expr | None:
    """All conditions as one; None if there are none."""
    whole: Expr | None = None
    for condition in conditions:
        whole = condition if whole is None else call("and", whole, condition)
    return whole


def count(where: Expr | None = None) -> AggregateCall:
    """count(*) [FILTER (WHERE …)]"""
    function = next(f for f in REGISTRY["count"] if not f.args)
    return AggregateCall(result_type(function, ()), function, (), filter=where)


def numbered(name: str, partition: tuple[Expr, ...], order: tuple[Sort, ...]) -> WindowCall:
    """row_number() or rank() OVER (…)"""
    function = REGISTRY[name][0]
    made = Call(result_type(function, ()), function, ())
    return WindowCall(made.type, made, partition, order)


def whole(value: int, type: Type = t.BIGINT) -> Literal:
    """A whole number."""
    return Literal(type, value)


def null(type: Type) -> Literal:
    """A NULL of that type."""
    return Literal(type, None)


def choose(condition: Expr, then: Expr, otherwise: Expr) -> Case:
    """CASE WHEN condition THEN … ELSE … END, both of the same type."""
    return Case(then.type, ((condition, then),), otherwise)


def converted(expr: Expr, type: Type) -> Expr:
    """The expression as that type."""
    if expr.type == type:
        return expr
    if isinstance(expr, Literal) and expr.value is None:
        return null(type)
    return Cast(type, expr, implicit=True)
