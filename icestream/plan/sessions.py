"""Session windows, made of plain window calls, so that whoever runs or maintains a plan need not know them.

A row begins a session if it comes at the gap or later after the row before it. That is a `lag` over the partition and a
flag; a running sum of the flags numbers the sessions, and what is asked of a session is asked of the partition
and that number. Rows of equal times are in one session whatever their order; rows without a time are one of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from icestream import types as t
from icestream.functions import Scope
from icestream.functions.conversions import result_type
from icestream.functions.expressions import (
    AggregateCall,
    Bound,
    Call,
    Case,
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


@dataclass(frozen=True)
class Session:
    """What a window over sessions is about: the column of times, the gap, and the calls that give the last time."""

    time: str
    gap: Expr
    last: tuple[str, ...]


def session_of(node: Window) -> Session | None:
    """The sessions that a window looks at, if they are numbered as `numbered` does, along a column of times."""
    below = node.input
    if not isinstance(below, Window) or not isinstance(below.input, Project):
        return None
    before = below.input.input
    session, partition = below.calls[0], below.partition_by
    if not isinstance(session.expr, WindowCall) or not isinstance(before, Window):
        return None
    if len(session.expr.order_by) != 1 or set(node.partition_by) != {*partition, session.ref}:
        return None
    order, begins = session.expr.order_by[0], below.input.items[-1]
    gap = _gap(begins.expr)
    if gap is None or not isinstance(order.expr, ColumnRef) or order.descending:
        return None
    made = _numbering(partition, order, gap, before.calls[0].name, begins.name, session.name)
    if made != (before.calls[0], begins, session):
        return None
    last = tuple(i.name for i in node.calls if _is_last(i.expr, order.expr))
    return Session(order.expr.name, gap, last)


def _gap(flag: Expr) -> Expr | None:
    """The interval in CASE WHEN time < previous + interval …"""
    near = flag.whens[0][0] if isinstance(flag, Case) else None
    later = near.args[1] if isinstance(near, Call) and len(near.args) == 2 else None
    gap = later.args[1] if isinstance(later, Call) and len(later.args) == 2 else None
    return gap if gap is not None and gap.type == t.INTERVAL else None


def _is_last(expr: Expr, time: ColumnRef) -> bool:
    """Whether a call gives the time of the session's last row."""
    if not isinstance(expr, WindowCall) or not isinstance(expr.call, Call | AggregateCall):
        return False
    inner = expr.call
    filtered = isinstance(inner, AggregateCall) and inner.filter is not None
    if inner.args != (time,) or filtered:
        return False
    if inner.function.name == "max":
        return expr.frame == WHOLE or (expr.frame is None and not expr.order_by)
    return inner.function.name == "last_value" and expr.frame == WHOLE


def numbered(
    node: Node, partition: tuple[Expr, ...], order: Sort, gap: Expr, names: Names
) -> tuple[Node, ColumnRef]:
    """The rows of a node with the number of their session inside the partition, and that column."""
    fresh = (names.fresh(n) for n in ("previous", "begins", "session"))
    previous, begins, session = _numbering(partition, order, gap, *fresh)
    node = Window(node, (previous,))
    node = Project(node, (*kept(node)[:-1], begins))
    return Window(node, (session,)), session.ref


def _numbering(
    partition: tuple[Expr, ...], order: Sort, gap: Expr, previous: str, begins: str, session: str
) -> tuple[Item, Item, Item]:
    """The time of the row before, whether the row begins a session, and the number of its session."""
    before = Item(previous, over("lag", order.expr, partition, (order,)))
    near = call("<", order.expr, call("+", before.ref, gap))
    one, none = calls.whole(1, t.INTEGER), calls.whole(0, t.INTEGER)
    flag = Item(begins, calls.choose(near, none, one))
    return before, flag, Item(session, over("sum", flag.ref, partition, (order,)))


def over(
    name: str, arg: Expr, partition: tuple[Expr, ...], order: tuple[Sort, ...] = ()
) -> WindowCall:
    """An aggregate or window function of one argument OVER (PARTITION BY … ORDER BY …)."""
    binder = binder_of(Scope(), lambda _: None)
    function, args = binder.resolve(REGISTRY[name], name, [arg], exp.Null())
    made = AggregateCall if function.kind == "aggregate" else Call
    inner = made(result_type(function, args), function, args)
    return WindowCall(inner.type, inner, partition, order)
