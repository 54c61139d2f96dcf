"""Changing bound expressions and plans: replace what a function knows, keep the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from icestream.functions import expressions
from icestream.functions.expressions import Bound, Call, ColumnRef, Expr, Frame, Literal, Sort
from icestream.plan.logical import Item, Node, OutColumn, Scan, walk

T = TypeVar("T")
Step = Callable[[Expr], Expr | None]


def transform(expr: Expr, step: Step) -> Expr:
    """The expression with every part replaced for which `step` gives something; that is not looked into again."""
    found = step(expr)
    if found is None and isinstance(expr, Literal | ColumnRef):
        return expr  # nothing below: lists have 100,000 of them
    return found if found is not None else below(expr, lambda e: transform(e, step))


def below(value: T, change: Callable[[Expr], Expr]) -> T:
    """The value with `change` applied to the expressions directly inside it. Nodes inside a node stay."""
    updates: dict[str, Any] = {}
    for field in fields(value):  # type: ignore[arg-type]
        old = getattr(value, field.name)
        new = _changed(old, change)
        if new is not old:
            updates[field.name] = new
    return replace(value, **updates) if updates else value  # type: ignore[type-var]


def _changed(value: Any, change: Callable[[Expr], Expr]) -> Any:
    if isinstance(value, Expr):
        return change(value)
    if isinstance(value, Sort | Frame | Bound | Item):
        return below(value, change)
    if isinstance(value, tuple):
        new = tuple(_changed(v, change) for v in value)
        return new if any(a is not b for a, b in zip(new, value, strict=True)) else value
    return value


def transform_plan(node: Node, step: Step) -> Node:
    """The plan with `step` applied to all of its expressions."""
    own = below(node, lambda e: transform(e, step))
    return own.with_inputs([transform_plan(i, step) for i in node.inputs])


def substitute(value: T, columns: Mapping[str, Expr]) -> T:
    """An expression, sort key or item with columns replaced by name."""

    def step(e: Expr) -> Expr | None:
        return columns.get(e.name) if isinstance(e, ColumnRef) else None

    if isinstance(value, Expr):
        return transform(value, step)  # type: ignore[return-value]
    return below(value, lambda e: transform(e, step))


def refs(node: Node) -> tuple[ColumnRef, ...]:
    """The columns of a node, to be read by one above it."""
    return tuple(ColumnRef(c.type, c.name) for c in node.columns)


def kept(node: Node) -> tuple[Item, ...]:
    """The items of a projection that leaves everything as it is."""
    return tuple(Item(r.name, r) for r in refs(node))


def conjuncts(expr: Expr | None) -> Iterator[Expr]:
    """The conditions that an AND of them all was made of."""
    if isinstance(expr, Call) and expr.function.name == "and":
        for arg in expr.args:
            yield from conjuncts(arg)
    elif expr is not None:
        yield expr


def all_exprs(node: Node) -> Iterator[Expr]:
    """Every expression anywhere in the plan, with all of its parts."""
    for n in walk(node):
        for e in n.exprs:
            yield from expressions.walk(e)


def canonical(node: Node) -> Node:
    """The plan with its columns named by their order alone: equal for plans that differ in nothing but names."""
    names: dict[str, str] = {}

    def collect(n: Node) -> None:
        for child in n.inputs:
            collect(child)
        for column in n.columns:
            names.setdefault(column.name, f"@{len(names)}")

    collect(node)
    return _named(node, names)  # type: ignore[no-any-return]


def _named(value: Any, names: Mapping[str, str]) -> Any:
    """A part of a plan under other names. What a scan reads keeps its own."""
    if isinstance(value, Scan):
        return replace(value, items=tuple(Item(names[i.name], i.expr) for i in value.items))
    if isinstance(value, tuple):
        return tuple(_named(v, names) for v in value)
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, Node | Item | OutColumn | Expr | Sort | Frame | Bound):
        changes = {
            f.name: new
            for f in fields(value)
            if _holds_names(old := getattr(value, f.name)) and (new := _named(old, names)) != old
        }
        return replace(value, **changes) if changes else value
    return value


def _holds_names(value: Any) -> bool:
    kinds = (str, tuple, Node, Item, OutColumn, Expr, Sort, Frame, Bound)
    return isinstance(value, kinds) and not isinstance(value, Literal)
