"""A bound plan without what nobody reads: columns that no node above uses, projections that could be one.

The rows stay the same. Spark would find most of this by itself; the delta rules and EXPLAIN would not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from icestream.functions.expressions import ColumnRef, Expr, Literal, columns_used
from icestream.plan.logical import (
    Aggregate,
    Distinct,
    Expand,
    Item,
    Join,
    Node,
    Project,
    Scan,
    SetOperation,
    Unnest,
    Values,
    Window,
    WindowTable,
)
from icestream.plan.rewrite import kept, substitute

Needed = frozenset[str] | None  # None: every column


def tidy(node: Node) -> Node:
    """The same relation with the same columns."""
    return _merged(_pruned(node, None))


# -- columns that nobody reads --------------------------------------------------------------------


def _pruned(node: Node, needed: Needed) -> Node:
    """The node with at least the needed columns, and few others."""
    match node:
        case Scan():
            return replace(node, items=_needed(node.items, needed))
        case Project():
            items = _needed(node.items, needed)
            return Project(_pruned(node.input, _read(i.expr for i in items)), items)
        case Aggregate():
            calls = tuple(i for i in node.aggregates if needed is None or i.name in needed)
            exprs = [i.expr for i in (*node.groups, *calls)]
            return Aggregate(_pruned(node.input, _read(exprs)), node.groups, calls)
        case Window():
            calls = tuple(i for i in node.calls if needed is None or i.name in needed)
            below = _pruned(node.input, _below(node, calls, needed))
            return Window(below, calls) if calls else below
        case Join():
            return _join(node, needed)
        case Distinct() | SetOperation() | Values():
            return node.with_inputs([_pruned(i, None) for i in node.inputs])
        case Unnest() | WindowTable() | Expand():
            below = node.inputs[0]
            added = {c.name for c in node.columns} - set(below.names)
            wanted = None if needed is None else (needed - added) | _read(node.exprs)
            return node.with_inputs([_pruned(below, wanted)])
        case _:  # Filter, Order, Limit, DistinctOn: the columns of their input, and what they read
            wanted = None if needed is None else needed | _read(node.exprs)
            return node.with_inputs([_pruned(i, wanted) for i in node.inputs])


def _join(node: Join, needed: Needed) -> Node:
    read = _read(node.exprs)
    sides: list[Node] = []
    for side in node.inputs:
        only_tested = side is node.right and node.kind in ("semi", "anti")
        wanted = frozenset() if only_tested else needed
        mine = None if wanted is None else (wanted | read) & set(side.names)
        sides.append(_pruned(side, mine))
    return node.with_inputs(sides)


def _below(node: Window, calls: tuple[Item, ...], needed: Needed) -> Needed:
    if needed is None:
        return None
    own = {i.name for i in node.calls}
    return (needed - own) | _read(i.expr for i in calls)


def _needed(items: tuple[Item, ...], needed: Needed) -> tuple[Item, ...]:
    if needed is None:
        return items
    return tuple(i for i in items if i.name in needed) or items[:1]


def _read(exprs: Iterable[Expr]) -> frozenset[str]:
    return frozenset(c.name for e in exprs for c in columns_used(e))


# -- projections that could be one ----------------------------------------------------------------


def _merged(node: Node) -> Node:
    node = node.with_inputs([_merged(i) for i in node.inputs])
    if not isinstance(node, Project):
        return node
    below = node.input
    if isinstance(below, Project) and not _repeats(node, below):
        exprs = {i.name: i.expr for i in below.items}
        node = Project(below.input, tuple(substitute(i, exprs) for i in node.items))
        below = node.input
    if isinstance(below, Scan) and _renames(node):
        stored = {i.name: i.expr for i in below.items}
        return replace(below, items=tuple(substitute(i, stored) for i in node.items))
    return below if node.items == kept(below) else node


def _repeats(node: Project, below: Project) -> bool:
    """Whether an expression of the lower projection would be computed more than once."""
    uses = Counter(c.name for i in node.items for c in _columns(i.expr))
    heavy = {i.name for i in below.items if not isinstance(i.expr, ColumnRef | Literal)}
    return any(uses[name] > 1 for name in heavy)


def _columns(expr: Expr) -> Iterable[ColumnRef]:
    if isinstance(expr, ColumnRef):
        yield expr
    for child in expr.children():
        yield from _columns(child)


def _renames(node: Project) -> bool:
    """Whether the projection only picks and names columns, each once."""
    refs = [i.expr for i in node.items]
    once = len(set(refs)) == len(refs) == len({i.name for i in node.items})
    return once and all(isinstance(e, ColumnRef) for e in refs)
