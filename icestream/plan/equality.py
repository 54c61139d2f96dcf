"""A plan that groups values by their keys where equal values may be written differently (see `functions.equality`).

GROUP BY, DISTINCT, UNION, INTERSECT, EXCEPT, PARTITION BY, DISTINCT ON and count(DISTINCT) of intervals and jsonb become those of
their keys. A group shows one of its values, always the same one, so that a view shows what its query gives.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from icestream.functions.equality import has_variants, key_of_value, one_of_equals
from icestream.functions.expressions import AggregateCall, Expr, WindowCall
from icestream.plan.logical import (
    Aggregate,
    Distinct,
    DistinctOn,
    Item,
    Node,
    Project,
    SetOperation,
    Window,
)
from icestream.plan.normal import FreshNames, count_sides
from icestream.plan.rewrite import all_exprs, kept, refs

_COUNTS = ("count", "approx_count_distinct")
"""Aggregates that compare their values and do not show them."""


def group_by_keys(node: Node) -> Node:
    """The same relation, with the same columns."""
    if not any(has_variants(e.type) for e in all_exprs(node)):
        return node
    return _Grouping(node).visit(node)


class _Grouping:
    def __init__(self, node: Node) -> None:
        self.fresh = FreshNames(node)

    def visit(self, node: Node) -> Node:
        node = node.with_inputs([self.visit(i) for i in node.inputs])
        match node:
            case Aggregate():
                return self.aggregate(node)
            case Window():
                return replace(node, calls=tuple(Item(i.name, _by_key(i.expr)) for i in node.calls))
            case DistinctOn():
                return replace(node, keys=tuple(map(key_of_value, node.keys)))
            case Distinct() if _have_variants(refs(node)):
                return self.aggregate(Aggregate(node.input, kept(node.input), ()))
            case SetOperation(kind="union", all=False) if _have_variants(refs(node)):
                united = replace(node, all=True)
                return self.aggregate(Aggregate(united, kept(united), ()))
            case SetOperation(kind="intersect" | "except") if _have_variants(refs(node)):
                return count_sides(node, self.fresh, self.aggregate)
        return node

    def aggregate(self, node: Aggregate, shown: Expr | None = None) -> Node:
        """Groups of keys. `shown` says which rows a group takes its own values from; None: all of them."""
        aggregates = tuple(Item(i.name, _count_keys(i.expr)) for i in node.aggregates)
        node = replace(node, aggregates=aggregates)
        if not _have_variants(i.expr for i in node.groups):
            return node
        groups: list[Item] = []
        values: list[Item] = []
        for item in node.groups:
            if has_variants(item.expr.type):
                groups.append(Item(self.fresh("equal"), key_of_value(item.expr)))
                values.append(Item(item.name, one_of_equals(item.expr, shown)))
            else:
                groups.append(item)
        return Project(Aggregate(node.input, tuple(groups), (*values, *aggregates)), kept(node))


def _have_variants(exprs: Iterable[Expr]) -> bool:
    return any(has_variants(e.type) for e in exprs)


def _count_keys(expr: Expr) -> Expr:
    if not isinstance(expr, AggregateCall) or expr.function.name not in _COUNTS:
        return expr
    if expr.function.name == "count" and not expr.distinct:
        return expr
    return replace(expr, args=tuple(map(key_of_value, expr.args)))


def _by_key(expr: Expr) -> Expr:
    if not isinstance(expr, WindowCall):
        return expr
    return replace(expr, partition_by=tuple(map(key_of_value, expr.partition_by)))
