"""The logical plan: frozen nodes, each a bag of rows with named and typed columns.

Names inside a plan are unique where they meet: the columns of a node differ from one another, and those of the two
sides of a join as well, so that a `ColumnRef` without a qualifier says everything. Only the last projection of a
plan may repeat a name, because that is what the user sees. A node knows nothing of how it is run: `plan.spark`
writes it as a batch query, the delta rules maintain it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, TypeVar
from typing import Literal as Choice

from icestream import interrupts
from icestream import types as t
from icestream.errors import Place
from icestream.functions.expressions import (
    AggregateCall,
    Call,
    ColumnRef,
    Expr,
    Interval,
    Sort,
    WindowCall,
)
from icestream.types import Type


@dataclass(frozen=True)
class OutColumn:
    """A column that a node gives."""

    name: str
    type: Type


@dataclass(frozen=True)
class Item:
    """An expression over the columns of a node's input, and the name of its result."""

    name: str
    expr: Expr

    @property
    def column(self) -> OutColumn:
        """The column it makes."""
        return OutColumn(self.name, self.expr.type)

    @property
    def ref(self) -> ColumnRef:
        """That column, as the nodes above read it."""
        return ColumnRef(self.expr.type, self.name)


@dataclass(frozen=True)
class Node:
    """A relation: the base of all nodes.

    The fields of a node say everything: nodes among them (`input`, `left` and `right`, `branches`) are its inputs.
    """

    @cached_property
    def columns(self) -> tuple[OutColumn, ...]:
        """What it gives, in order."""
        interrupts.check()  # every step of planning makes nodes and asks them for this
        return self._columns()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(c.name for c in self.columns)

    @cached_property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes it reads."""
        return tuple(_inside(tuple(getattr(self, f.name) for f in fields(self)), Node))

    @cached_property
    def exprs(self) -> tuple[Expr, ...]:
        """The expressions that stand in the node itself."""
        return tuple(_inside(tuple(getattr(self, f.name) for f in fields(self)), Expr))

    @cached_property
    def node_count(self) -> int:
        """The nodes of the plan. An input that several nodes share counts for each of them."""
        return 1 + sum(i.node_count for i in self.inputs)

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        """The same node over other inputs, which must give columns of the same names and types."""
        left = iter(inputs)
        changes: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Node):
                changes[f.name] = next(left)
            elif f.name == "branches":
                changes[f.name] = tuple(left)
        return replace(self, **changes) if changes else self

    def _columns(self) -> tuple[OutColumn, ...]:
        raise NotImplementedError


T = TypeVar("T")


def _inside(value: Any, kind: type[T]) -> Iterator[T]:
    """The values of that kind in a field, also inside tuples, items and sort keys."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _inside(part, kind)
    elif isinstance(value, Item | Sort | AsOf):
        yield from _inside(value.expr, kind)


@dataclass(frozen=True)
class AsOf:
    """The version of a relation that is read: of type bigint the id of a snapshot, of type timestamptz a moment."""

    relation: str
    expr: Expr
    """Reads no columns."""
    place: Place = field(compare=False, repr=False)


@dataclass(frozen=True)
class Scan(Node):
    """All rows of a relation. Each item names a stored column, and what it is called in the plan."""

    relation: str
    """Its key; for a version of it, one that no other version has."""
    name: str
    items: tuple[Item, ...]
    at: AsOf | None = None
    """None: as it is now."""

    def _columns(self) -> tuple[OutColumn, ...]:
        return tuple(i.column for i in self.items)


@dataclass(frozen=True)
class Values(Node):
    """Constant rows. One row without columns is what a SELECT without FROM reads."""

    rows: tuple[tuple[Expr, ...], ...]
    outputs: tuple[OutColumn, ...]

    def _columns(self) -> tuple[OutColumn, ...]:
        return self.outputs


ONE_ROW = Values(((),), ())


@dataclass(frozen=True)
class Filter(Node):
    """The rows for which the condition is true."""

    input: Node
    condition: Expr

    def _columns(self) -> tuple[OutColumn, ...]:
        return self.input.columns


@dataclass(frozen=True)
class Project(Node):
    """One row for each row; no aggregate, window or set-returning call stands in the items."""

    input: Node
    items: tuple[Item, ...]

    def _columns(self) -> tuple[OutColumn, ...]:
        return tuple(i.column for i in self.items)


@dataclass(frozen=True)
class Aggregate(Node):
    """One row a group, or exactly one row if there are no group expressions. `aggregates` are AggregateCalls."""

    input: Node
    groups: tuple[Item, ...]
    aggregates: tuple[Item, ...]

    def _columns(self) -> tuple[OutColumn, ...]:
        return tuple(i.column for i in (*self.groups, *self.aggregates))

    @property
    def calls(self) -> tuple[tuple[str, AggregateCall], ...]:
        """The aggregates with their types known."""
        return tuple((i.name, i.expr) for i in self.aggregates if isinstance(i.expr, AggregateCall))


@dataclass(frozen=True)
class Expand(Node):
    """GROUPING SETS: each row once for every set, with the keys that are not in the set NULL, and the set's number."""

    input: Node
    keys: tuple[Item, ...]
    sets: tuple[tuple[str, ...], ...]
    number: str

    def _columns(self) -> tuple[OutColumn, ...]:
        keys = tuple(i.column for i in self.keys)
        return (*self.input.columns, *keys, OutColumn(self.number, t.INTEGER))


JoinKind = Choice["inner", "left", "right", "full", "cross", "semi", "anti"]


@dataclass(frozen=True)
class Join(Node):
    """Pairs of rows under a condition (None: all of them). Semi and anti joins give the columns of the left alone.

    NOT IN is an anti join whose condition is `x = y OR (x = y) IS NULL`.
    """

    kind: JoinKind
    left: Node
    right: Node
    condition: Expr | None = None
    temporal: bool = False
    """FOR SYSTEM_TIME AS OF PROCTIME(): a row of the left is joined once, when it comes, with the right as it is then."""

    def _columns(self) -> tuple[OutColumn, ...]:
        if self.kind in ("semi", "anti"):
            return self.left.columns
        return (*self.left.columns, *self.right.columns)


SetKind = Choice["union", "intersect", "except"]


@dataclass(frozen=True)
class SetOperation(Node):
    """UNION, INTERSECT, EXCEPT [ALL] of branches with equal types. Only UNION ALL has more than two branches."""

    kind: SetKind
    all: bool
    branches: tuple[Node, ...]
    outputs: tuple[OutColumn, ...]

    def _columns(self) -> tuple[OutColumn, ...]:
        return self.outputs


@dataclass(frozen=True)
class Distinct(Node):
    """Every different row once; NULLs are equal."""

    input: Node

    def _columns(self) -> tuple[OutColumn, ...]:
        return self.input.columns


@dataclass(frozen=True)
class DistinctOn(Node):
    """For each value of the keys, the first row in that order."""

    input: Node
    keys: tuple[Expr, ...]
    order: tuple[Sort, ...]

    def _columns(self) -> tuple[OutColumn, ...]:
        return self.input.columns


@dataclass(frozen=True)
class Order(Node):
    """The rows in an order. It matters to a `Limit` above it, and at the very end of a query."""

    input: Node
    keys: tuple[Sort, ...]

    def _columns(self) -> tuple[OutColumn, ...]:
        return self.input.columns


@dataclass(frozen=True)
class Limit(Node):
    """At most `count` rows (None: all) after leaving out `offset`; `with_ties` also those equal to the last one."""

    input: Node
    count: int | None
    offset: int = 0
    with_ties: bool = False

    def _columns(self) -> tuple[OutColumn, ...]:
        return self.input.columns

    @property
    def order(self) -> tuple[Sort, ...]:
        """The order in which rows count: that of an `Order` right below."""
        return self.input.keys if isinstance(self.input, Order) else ()


@dataclass(frozen=True)
class Window(Node):
    """The input with window calls beside it, all over the same partitions. `calls` are WindowCalls."""

    input: Node
    calls: tuple[Item, ...]

    def _columns(self) -> tuple[OutColumn, ...]:
        return (*self.input.columns, *(i.column for i in self.calls))

    @property
    def partition_by(self) -> tuple[Expr, ...]:
        """What the partitions are made of."""
        first = self.calls[0].expr
        return first.partition_by if isinstance(first, WindowCall) else ()


@dataclass(frozen=True)
class Unnest(Node):
    """Each input row beside every row of the set-returning calls: unnest, generate_series and their like.

    Several calls run side by side, the shorter ones padded with NULL. `ordinality` names a column that counts from
    1; `outer` keeps an input row for which there is nothing, with NULLs.
    """

    input: Node
    calls: tuple[Item, ...]
    ordinality: str | None = None
    outer: bool = False

    def _columns(self) -> tuple[OutColumn, ...]:
        numbers = (OutColumn(self.ordinality, t.BIGINT),) if self.ordinality else ()
        return (*self.input.columns, *(i.column for i in self.calls), *numbers)

    @property
    def functions(self) -> tuple[tuple[str, Call], ...]:
        """The set-returning calls with their types known."""
        return tuple((i.name, i.expr) for i in self.calls if isinstance(i.expr, Call))


@dataclass(frozen=True)
class WindowTable(Node):
    """TUMBLE (slide = size) or HOP: each row once for every window that its time is in, with the window's bounds.

    A row without a time is in no hopping window, and in a tumbling one whose bounds are NULL.
    """

    input: Node
    kind: Choice["tumble", "hop"]
    time: Expr
    size: Interval
    slide: Interval
    offset: Interval
    start: str
    end: str

    def _columns(self) -> tuple[OutColumn, ...]:
        type = self.bound_type
        return (*self.input.columns, OutColumn(self.start, type), OutColumn(self.end, type))

    @property
    def bound_type(self) -> Type:
        """The type of window_start and window_end: a date counts as a timestamp."""
        return t.TIMESTAMP if self.time.type == t.DATE else self.time.type


@dataclass(frozen=True)
class Lookup(Node):
    """The rows of a stored relation whose columns `on` (their stored names) equal a row of `keys`, NULL equal to NULL.

    `keys` has as many columns, in that order; a row is given once, however often its key is there.
    """

    keys: Node
    relation: str
    name: str
    items: tuple[Item, ...]
    on: tuple[str, ...]

    def _columns(self) -> tuple[OutColumn, ...]:
        return tuple(i.column for i in self.items)


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, parents first."""
    interrupts.check()
    yield node
    for child in node.inputs:
        yield from walk(child)
