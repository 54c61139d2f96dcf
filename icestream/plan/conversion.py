"""The columns of a plan as other types: for the branches of a UNION, and for literals that never got a type."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from icestream import types as t
from icestream.functions import Scope
from icestream.functions.expressions import Expr, Literal
from icestream.plan.calls import binder_of, converted
from icestream.plan.logical import Item, Node, Project
from icestream.plan.rewrite import refs
from icestream.types import Type


def convert(node: Node, types: Sequence[Type]) -> Node:
    """The plan with its columns converted to those types."""
    if tuple(c.type for c in node.columns) == tuple(types):
        return node
    if isinstance(node, Project):
        items = (
            Item(i.name, converted(_adapted(i.expr, x), x))
            for i, x in zip(node.items, types, strict=True)
        )
        return Project(node.input, tuple(items))
    pairs = zip(refs(node), types, strict=True)
    return Project(node, tuple(Item(r.name, converted(r, x)) for r, x in pairs))


def _adapted(expr: Expr, type: Type) -> Expr:
    """An untyped literal reads as the type that its place has."""
    if isinstance(expr, Literal) and expr.type == t.NULL:
        return binder_of(Scope(), lambda _: None).coerce(expr, type, exp.Null())
    return expr


def as_texts(node: Node) -> Node:
    """Columns that never got a type are texts."""
    return convert(node, [t.VARCHAR if c.type == t.NULL else c.type for c in node.columns])
