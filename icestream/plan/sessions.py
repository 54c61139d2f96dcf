"""Session windows, made of plain window calls, so that whoever runs or maintains a plan need not know them.

A row begins a session if it comes at the gap or later after the row before it. That is a `lag` over the partition and a
flag; a running sum of the flags numbers the sessions, and what is asked of a session is asked of the partition
and that number. Rows of equal times are in one session whatever their order; rows without a time are one of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from icestream import types as t
from icestream.functions import Scope
from icestream.functions.conversions import result_type
from icestream.functions.expressions import (
    AggregateCall,
    Bound,
    Call,
    ColumnRef,
    Expr,
    Frame,
    Sort,
    WindowCall,
)
from icestream.functions.groups import SESSION
from icestream.functions.registry import REGISTRY
from icestream.plan import calls
from icestream.plan.calls import binder_of, call
from icestream.plan.logical import Item, Node, Project, Window
from icestream.plan.rewrite import kept
from icestream.plan.scope import Names

WHOLE = Frame("ROWS", Bound("unbounded preceding"), Bound("unbounded following"))


def gap_of(item: Item) -> Expr | None:
    """The gap of a call OVER (… SESSION WITH GAP …); None for any other."""
    if not isinstance(item.expr, WindowCall) or item.expr.frame is None:
        return None
    return item.expr.frame.start.offset if item.expr.frame.unit == SESSION else None


def with_sessions(node: Node, items: Sequence[Item], names: Names) -> Node:
    """The input with those calls beside it, each over the rows of its session."""
    made: dict[tuple[tuple[Expr, ...], Sort, Expr], list[Item]] = {}
    for item in items:
        gap = gap_of(item)
        assert isinstance(item.expr, WindowCall)
        assert gap is not None
        made.setdefault((item.expr.partition_by, item.expr.order_by[0], gap), []).append(item)
    for (partition, order, gap), asked in made.items():
        node, session = numbered(node, partition, order, gap, names)
        over = (*partition, session)
        node = Window(node, tuple(Item(i.name, _whole(i.expr, over)) for i in asked))
    return node


def _whole(expr: Expr, partition: tuple[Expr, ...]) -> Expr:
    assert isinstance(expr, WindowCall)
    return WindowCall(expr.type, expr.call, partition, expr.order_by, WHOLE, expr.ignore_nulls)


def numbered(
    node: Node, partition: tuple[Expr, ...], order: Sort, gap: Expr, names: Names
) -> tuple[Node, ColumnRef]:
    """The rows of a node with the number of their session inside the partition, and that column."""
    previous = Item(names.fresh("previous"), over("lag", order.expr, partition, (order,)))
    near = call("<", order.expr, call("+", previous.ref, gap))
    one, none = calls.whole(1, t.INTEGER), calls.whole(0, t.INTEGER)
    begins = Item(names.fresh("begins"), calls.choose(near, none, one))
    node = Window(node, (previous,))
    node = Project(node, (*kept(node)[:-1], begins))
    session = Item(names.fresh("session"), over("sum", begins.ref, partition, (order,)))
    return Window(node, (session,)), session.ref


def over(
    name: str, arg: Expr, partition: tuple[Expr, ...], order: tuple[Sort, ...] = ()
) -> WindowCall:
    """An aggregate or window function of one argument OVER (PARTITION BY … ORDER BY …)."""
    binder = binder_of(Scope(), lambda _: None)
    function, args = binder.resolve(REGISTRY[name], name, [arg], exp.Null())
    made = AggregateCall if function.kind == "aggregate" else Call
    inner = made(result_type(function, args), function, args)
    return WindowCall(inner.type, inner, partition, order)
