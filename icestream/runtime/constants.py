"""Rows of constants → Arrow, without a query: what most INSERTs write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from decimal import Decimal
from typing import Any

import pyarrow as pa

from icestream import types as t
from icestream.functions.datetime_input import days_of, micros_of
from icestream.functions.expressions import Call, Expr, Interval, Literal
from icestream.plan.logical import Item, Node, Project, Values
from icestream.plan.rewrite import kept
from icestream.types import arrow_type


def with_items(node: Node, items: Sequence[Item]) -> Node:
    """The rows with more columns, which read none of theirs."""
    if not items:
        return node
    if not isinstance(node, Values):
        return Project(node, (*kept(node), *items))
    rows = ((*row, *(i.expr for i in items)) for row in node.rows)
    return Values(tuple(rows), (*node.outputs, *(i.column for i in items)))


def constant_rows(node: Node) -> pa.Table | None:
    """The rows of VALUES that are constants; None for any other query."""
    if not isinstance(node, Values):
        return None
    if not all(_is_constant(expr) for expr in node.exprs):
        return None
    columns = [
        pa.array([_value(e) for e in column], arrow_type(out.type))
        for out, column in zip(node.outputs, zip(*node.rows, strict=True), strict=True)
    ]
    return pa.table(columns, names=list(node.names))


def _is_constant(expr: Expr) -> bool:
    if isinstance(expr, Call) and expr.function.name == "array":
        return all(_is_constant(element) for element in expr.args)
    return isinstance(expr, Literal)


def _value(expr: Expr) -> Any:
    if isinstance(expr, Call):
        return [_value(element) for element in expr.args]
    assert isinstance(expr, Literal)
    value, type = expr.value, expr.type
    match value:
        case None | bool():
            return value
        case Interval():
            return asdict(value)
        case int() if isinstance(type, t.NumericType):
            return Decimal(value)
        case int() if type in t.FLOATS:
            return float(value)
        case str() if type == t.DATE:
            return days_of(value)
        case str() if type in (t.TIMESTAMP, t.TIMESTAMPTZ):
            return micros_of(value)
    return value
