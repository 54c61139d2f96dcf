"""What tells a query's rows apart: columns that no two rows have alike."""

from __future__ import annotations

from collections.abc import Mapping

from icestream.functions.expressions import Call, ColumnRef, Expr, Literal, WindowCall
from icestream.plan.logical import (
    Aggregate,
    Distinct,
    DistinctOn,
    Expand,
    Filter,
    Item,
    Join,
    Limit,
    Node,
    Order,
    Project,
    Scan,
    Unnest,
    Window,
    WindowTable,
)
from icestream.plan.rewrite import conjuncts

Key = tuple[str, ...]


def key_of(node: Node, keys: Mapping[str, Key]) -> Key | None:
    """The names of columns that are a key of the result; None if none is known.

    `keys` has the key's columns of every relation that has one. A result of one row has the key ().
    """
    match node:
        case Scan(relation=relation, items=items):
            return _named(keys[relation], items) if relation in keys else None
        case Project(input=below, items=items):
            key = key_of(below, keys)
            return None if key is None else _named(key, items)
        case Filter(input=below):
            return _first_of(node) or key_of(below, keys)
        case Order(input=below) | Limit(input=below) | Window(input=below):
            return key_of(below, keys)
        case Aggregate(groups=groups):
            return tuple(i.name for i in groups)
        case Distinct():
            return node.names
        case DistinctOn(keys=exprs):
            names = [e.name for e in exprs if isinstance(e, ColumnRef)]
            return tuple(names) if len(names) == len(exprs) else key_of(node.input, keys)
        case Join():
            return _joined(node, keys)
        case Expand(input=below, number=number):
            key = key_of(below, keys)
            return None if key is None else (*key, number)
        case WindowTable(input=below, kind=kind, start=start):
            key = key_of(below, keys)
            return None if key is None else (*key, start) if kind == "hop" else key
        case Unnest(input=below, ordinality=number):
            key = key_of(below, keys)
            return None if key is None or number is None else (*key, number)
    return None


def _joined(node: Join, keys: Mapping[str, Key]) -> Key | None:
    left = key_of(node.left, keys)
    if left is None or node.kind in ("semi", "anti"):
        return left
    right = key_of(node.right, keys)
    if right is None:
        return None
    if node.kind in ("inner", "left", "cross"):
        from icestream.plan.maintain import equal_columns

        told = {r for _, r in equal_columns(node)}
        if set(right) <= told:  # at most one partner for each row of the left
            return left
    return (*left, *right)


def _first_of(node: Filter) -> Key | None:
    """WHERE row_number = 1: the partition is a key."""
    if not isinstance(node.input, Window):
        return None
    numbers = {
        i.name: i.expr
        for i in node.input.calls
        if isinstance(i.expr, WindowCall)
        and isinstance(i.expr.call, Call)
        and i.expr.call.function.name == "row_number"
    }
    for test in conjuncts(node.condition):
        if isinstance(test, Call) and test.function.name in ("=", "<=") and _one(test.args[1]):
            column = test.args[0]
            if isinstance(column, ColumnRef) and column.name in numbers:
                names = [e.name for e in node.input.partition_by if isinstance(e, ColumnRef)]
                if len(names) == len(node.input.partition_by):
                    return tuple(names)
    return None


def _one(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value == 1


def _named(key: Key, items: tuple[Item, ...]) -> Key | None:
    """The first names under which the items give the columns of a key."""
    names = {i.expr.name: i.name for i in reversed(items) if isinstance(i.expr, ColumnRef)}
    return tuple(names[k] for k in key) if all(k in names for k in key) else None
