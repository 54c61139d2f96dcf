"""A linear plan over changes: the same query, whose rows also say what happened to them and where it stood.

A relation's changes have its columns and, beside them, the `carried` ones. Filters and projections apply to a
row that goes as to one that comes, so what the plan gives are the changes of its result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from icestream.functions.expressions import ColumnRef
from icestream.plan.linear import is_constant
from icestream.plan.logical import (
    Expand,
    Filter,
    Item,
    Join,
    Node,
    Order,
    OutColumn,
    Project,
    Scan,
    SetOperation,
    Unnest,
    WindowTable,
)
from icestream.types import Type


def changes_of(node: Node, carried: Mapping[str, Type]) -> Node:
    """The plan over changes of its relations: its own columns, then the carried ones. It must be linear."""
    return _Carrier(carried).arranged(node)


class _Carrier:
    def __init__(self, carried: Mapping[str, Type]) -> None:
        self.items = tuple(Item(n, ColumnRef(t, n)) for n, t in carried.items())

    def arranged(self, node: Node) -> Node:
        """The node with what it carries at the end."""
        found = self.carry(node)
        names = (*node.names, *(i.name for i in self.items))
        return found if found.names == names else Project(found, _chosen(found, names))

    def carry(self, node: Node) -> Node:
        """The node with what it carries somewhere among its columns."""
        match node:
            case Scan(items=items):
                return replace(node, items=(*items, *self.items))
            case Project(input=below, items=items):
                return Project(self.carry(below), (*items, *self.items))
            case Filter() | Order() | Unnest() | WindowTable() | Expand():
                return node.with_inputs([self.carry(i) for i in node.inputs])
            case SetOperation(kind="union", all=True):
                outputs = (*node.outputs, *(OutColumn(i.name, i.expr.type) for i in self.items))
                branches = tuple(self.arranged(b) for b in node.branches)
                return replace(node, branches=branches, outputs=outputs)
            case Join(left=left, right=right):
                if is_constant(right):
                    return node.with_inputs([self.carry(left), right])
                return node.with_inputs([left, self.carry(right)])
        raise AssertionError(f"{type(node).__name__} is not linear")


def _chosen(node: Node, names: Sequence[str]) -> tuple[Item, ...]:
    types = {c.name: c.type for c in node.columns}
    return tuple(Item(n, ColumnRef(types[n], n)) for n in names)
