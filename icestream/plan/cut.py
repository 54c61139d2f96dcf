"""Where plans are cut so that those of epochs stay small: a part that is stored is read as a table.

The delta of a join reads the content and the delta of both inputs, and each look-up repeats the plan of its keys, so that
each join over another multiplies the plan of an epoch. An input that is stored is read as a table: with it, plans stay
small, at the price of a stored table for every part.

What is estimated here decides on the tables of a view, which is planned again from its text at every start. So a change
of any number or formula in this module is a new layout: objects that exist keep the one that they were made with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from icestream.functions.expressions import ColumnRef
from icestream.plan.linear import moving_in
from icestream.plan.logical import (
    Aggregate,
    Distinct,
    Filter,
    Item,
    Join,
    Node,
    Scan,
    Values,
    Window,
)
from icestream.plan.maintain import equal_columns

FIRST_LAYOUT = 1
"""Joins are cut before normal form, by an estimate that takes all but full joins for inner ones."""
LAYOUT = 2
"""Full joins of full joins are cut before normal form, everything else in normal form, by `size_of`."""

MAX_DELTA = 1_500
"""Estimated nodes of an epoch's plan. It leaves five inner or left joins in one stage."""
MAX_FULL = 2
"""Full joins in full joins of one stage."""
SMALL = 40
"""Inputs of fewer nodes are not worth a table."""


# -- sizes ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """About how many nodes the delta rules make of a plan in normal form (see `plan.maintain`)."""

    delta: int
    """Of its changes, when everything that it reads has changed."""
    all: int
    """Of its content."""
    own: int
    lookups: int
    """Of the content for some keys: `own`, and `lookups` times the plan of the keys."""

    def within(self, keys: int | None) -> int:
        """Its content for keys whose plan has so many nodes; None: there are none."""
        return self.all if keys is None else self.own + self.lookups * keys


def size_of(node: Node) -> Size:
    """The size of a plan in normal form, whose aggregates are stages of their own."""
    match node:
        case Scan() | Aggregate():
            return Size(1, 1, 1, 1)
        case Values():
            return Size(1, 1, 1, 0)
        case Join():
            return _join_size(node, size_of(node.left), size_of(node.right))
        case Window():
            return _window_size(node, size_of(node.input))
    below = [size_of(i) for i in node.inputs]
    delta, everything = (1 + sum(s.delta for s in below), 1 + sum(s.all for s in below))
    if isinstance(node, Filter) and moving_in(node.condition):
        delta += 3 + 2 * everything
    own, lookups = 1 + sum(s.own for s in below), sum(s.lookups for s in below)
    return Size(delta, everything, own, lookups)


def groups_size(below: Size, *, keyed: bool, again: bool) -> int:
    """Nodes of the changes of groups. `keyed`: they are looked up, `again`: they may be read again."""
    merged = (2 if keyed else 1) * below.delta + 8
    if not again:
        return merged + 3
    keys = merged + 2 if keyed else None
    return (2 if keyed else 1) * merged + below.within(keys) + 5


def best_size(below: Size) -> int:
    """Nodes of the changes of the first rows of each partition."""
    return 3 * below.delta + 12


def _join_size(node: Join, left: Size, right: Size) -> Size:
    paired = bool(equal_columns(node))
    mine, theirs = ((d + 1 if paired else None) for d in (left.delta, right.delta))
    first = left.delta + right.within(mine) + 2
    if node.temporal:
        delta = first
    elif node.kind == "inner":
        delta = first + left.within(theirs) + right.delta + 3
    else:
        touched = left.within(theirs) + right.delta + 1
        delta = first + 2 * (touched + right.within(theirs) + 2) + 1
    everything = left.all + right.all + 1
    if not paired:
        return Size(delta, everything, left.own + right.all + 1, left.lookups)
    sides = [(left, right), (right, left)] if node.kind == "inner" else [(left, right)]
    own = max(a.own + b.within(a.own + 1) + 1 for a, b in sides)
    lookups = max(a.lookups * (1 + b.lookups) for a, b in sides)
    return Size(delta, everything, own, lookups)


def _window_size(node: Window, below: Size) -> Size:
    keyed = any(isinstance(e, ColumnRef) for e in node.partition_by)
    delta = 1 + 2 * (below.within(below.delta + 1 if keyed else None) + 2)
    if not keyed:
        return Size(delta, below.all + 1, below.all + 1, 0)
    return Size(delta, below.all + 1, below.own + 1, below.lookups)


# -- before normal form ---------------------------------------------------------------------------------

Store = Callable[[Node], Node]
"""Gets each part, the lower ones first, and gives the scan of the relation that holds its rows."""


def cut_joins(node: Node, store: Store, layout: int) -> Node:
    """The plan with scans in the place of inputs that normal form would repeat too often."""
    return _cut_large(node, store) if layout == FIRST_LAYOUT else _cut_full(node, store)[0]


def scan_of(node: Node, relation: str, names: tuple[str, ...]) -> Scan:
    """What gives the rows of a node out of a table, in which its columns have these names."""
    columns = zip(node.columns, names, strict=True)
    return Scan(relation, relation, tuple(Item(c.name, ColumnRef(c.type, n)) for c, n in columns))


def _cut_full(node: Node, store: Store) -> tuple[Node, int]:
    """Full joins read their inputs twice in normal form, those below them four times. The number: how many are nested."""
    found = [_cut_full(i, store) for i in node.inputs]
    if not (isinstance(node, Join) and node.kind == "full"):
        return node.with_inputs([n for n, _ in found]), max((n for _, n in found), default=0)
    inputs = [(store(n), 0) if nested >= MAX_FULL else (n, nested) for n, nested in found]
    return node.with_inputs([n for n, _ in inputs]), 1 + max(nested for _, nested in inputs)


# -- the first layout -----------------------------------------------------------------------------------

_FIRST_MAX_DELTA = 800


@dataclass(frozen=True)
class _FirstSize:
    scans: int
    """Tables that its content is read from. Each is looked up by the keys of the other side's delta."""
    delta: int
    """Nodes of the plan of its delta."""


_TABLE = _FirstSize(1, 1)


def _cut_large(node: Node, store: Store) -> Node:
    def visit(node: Node) -> tuple[Node, _FirstSize]:
        found = [visit(i) for i in node.inputs]
        inputs, sizes = [n for n, _ in found], [size for _, size in found]
        if isinstance(node, Join) and not node.temporal:
            if _first_join_size(node, *sizes).delta > _FIRST_MAX_DELTA:
                large = [size.delta > SMALL for size in sizes]
                inputs = [store(n) if cut else n for n, cut in zip(inputs, large, strict=True)]
                sizes = [_TABLE if cut else size for size, cut in zip(sizes, large, strict=True)]
            return node.with_inputs(inputs), _first_join_size(node, *sizes)
        if not inputs or isinstance(
            node, Aggregate | Distinct
        ):  # an aggregate is a stage in any case
            return node.with_inputs(inputs), _TABLE
        total = _FirstSize(sum(s.scans for s in sizes), 1 + sum(s.delta for s in sizes))
        return node.with_inputs(inputs), total

    return visit(node)[0]


def _first_join_size(join: Join, left: _FirstSize, right: _FirstSize) -> _FirstSize:
    scans = left.scans + right.scans
    delta = left.delta * (1 + right.scans) + right.delta * (1 + left.scans)
    if join.kind == "full":
        return _FirstSize(2 * scans, 4 * delta + 30)
    return _FirstSize(scans, delta + 8)
