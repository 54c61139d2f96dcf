"""The key of a query's rows, where it is simply that of the one relation it reads."""

from __future__ import annotations

from collections.abc import Mapping

from icestream.functions.expressions import ColumnRef
from icestream.plan.logical import Filter, Item, Node, Order, Project, Scan


def key_of(node: Node, keys: Mapping[str, tuple[str, ...]]) -> tuple[str, ...] | None:
    """What the key of the relation is called in the result; None if it is not passed on unchanged.

    `keys` has the key's columns of every relation that has one.
    """
    match node:
        case Scan(relation=relation, items=items) if relation in keys:
            return _named(keys[relation], items)
        case Filter(input=below) | Order(input=below):
            return key_of(below, keys)
        case Project(input=below, items=items):
            key = key_of(below, keys)
            return None if key is None else _named(key, items)
    return None


def _named(key: tuple[str, ...], items: tuple[Item, ...]) -> tuple[str, ...] | None:
    """The first names under which the items give the columns of a key."""
    names = {i.expr.name: i.name for i in reversed(items) if isinstance(i.expr, ColumnRef)}
    return tuple(names[k] for k in key) if all(k in names for k in key) else None
