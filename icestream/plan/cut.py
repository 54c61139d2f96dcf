"""Joins of many relations, cut into parts that are each a stage of its own.

The delta of a join reads the content and the delta of both inputs, so that each join over another doubles the plan of
an epoch (a full join, which reads its inputs twice, multiplies it by eight and more). An input that is stored is read as a
table: with it, plans stay small, at the price of a stored table for every part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from icestream.functions.expressions import ColumnRef
from icestream.plan.logical import Aggregate, Distinct, Item, Join, Node, Scan

MAX_DELTA = 800
"""Estimated nodes of an epoch's plan. It leaves six inner or left joins, or two full ones, in one stage."""
SMALL = 40
"""Inputs of fewer nodes are not worth a table."""


@dataclass(frozen=True)
class _Size:
    """About how much the delta rules make of a plan."""

    scans: int
    """Tables that its content is read from. Each is looked up by the keys of the other side's delta."""
    delta: int
    """Nodes of the plan of its delta."""


_TABLE = _Size(1, 1)


def cut_joins(node: Node, store: Callable[[Node], str]) -> Node:
    """The plan with scans in the place of large inputs of joins. `store` gets each input, the lower ones first, and
    gives the relation that holds its rows."""

    def visit(node: Node) -> tuple[Node, _Size]:
        found = [visit(i) for i in node.inputs]
        inputs, sizes = [n for n, _ in found], [size for _, size in found]
        if isinstance(node, Join) and not node.temporal:
            if _join_size(node, *sizes).delta > MAX_DELTA:
                large = [size.delta > SMALL for size in sizes]
                inputs = [
                    _scan(n, store(n)) if cut else n for n, cut in zip(inputs, large, strict=True)
                ]
                sizes = [_TABLE if cut else size for size, cut in zip(sizes, large, strict=True)]
            return node.with_inputs(inputs), _join_size(node, *sizes)
        if not inputs or isinstance(
            node, Aggregate | Distinct
        ):  # an aggregate is a stage in any case
            return node.with_inputs(inputs), _TABLE
        total = _Size(sum(s.scans for s in sizes), 1 + sum(s.delta for s in sizes))
        return node.with_inputs(inputs), total

    return visit(node)[0]


def _join_size(join: Join, left: _Size, right: _Size) -> _Size:
    scans = left.scans + right.scans
    delta = left.delta * (1 + right.scans) + right.delta * (1 + left.scans)
    return _Size(2 * scans, 4 * delta + 30) if join.kind == "full" else _Size(scans, delta + 8)


def _scan(node: Node, relation: str) -> Node:
    items = tuple(Item(c.name, ColumnRef(c.type, c.name)) for c in node.columns)
    return Scan(relation, relation, items)
