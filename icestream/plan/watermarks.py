"""When a row of a plan is final: what EMIT ON WINDOW CLOSE waits for.

A watermark promises that no row with a lesser time comes any more. `closing` follows that promise up through a plan: a
column and a bound such that no row on the lower side of the bound is added, changed or taken back once the watermarks
are there. Where several relations have one, the bound holds for the least of them. A row without a time is never final.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from icestream import types as t
from icestream.functions.expressions import (
    AggregateCall,
    Call,
    Cast,
    ColumnRef,
    Expr,
    Frame,
    Interval,
    Literal,
    Sort,
    WindowCall,
    columns_used,
    is_pure,
    walk,
)
from icestream.plan.calls import call, converted
from icestream.plan.linear import is_constant
from icestream.plan.logical import (
    Aggregate,
    Distinct,
    DistinctOn,
    Filter,
    Item,
    Join,
    Node,
    Order,
    Project,
    Scan,
    SetOperation,
    Unnest,
    Window,
    WindowTable,
)
from icestream.plan.rewrite import conjuncts, refs, transform
from icestream.plan.sessions import session_of
from icestream.plan.table_functions import micros
from icestream.plan.text import text
from icestream.types import quote

WATERMARK = "_icestream_watermark"
"""The column that stands for the watermark in a bound."""

_TIMES = (t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ)
_LATER = ("lead", "ntile", "percent_rank", "cume_dist")
"""Functions that rows after the current one change, whatever the frame."""


@dataclass(frozen=True)
class Closing:
    """A row is final once `column < bound`, or `column <= bound` if it is `inclusive`.

    The bound is an expression over one column, `WATERMARK`, which has the type of the watermark's own column.
    """

    column: str
    bound: Expr
    inclusive: bool
    group: str = field(default="", compare=False)
    """Columns of one group are final together: what one says of a row, the others say at the same watermark."""
    derived: bool = field(default=False, compare=False)
    """Whether the column is made of one of its group such that it may say so later, but never earlier."""

    def __str__(self) -> str:
        relation = "<=" if self.inclusive else "<"
        return f"{quote(self.column)} {relation} the watermark ({text(self.bound)})"


Closings = dict[str, Closing]
Marks = Mapping[str, str | Closings]
"""By relation: the column that a watermark is declared for; of a view, when its rows are final, by column."""


def closing(node: Node, marks: Marks) -> Closing | None:
    """When the rows of a plan are final, or None if they never are.

    `marks` has every relation with a watermark by its key, and only relations whose late rows are dropped. The end of
    a window goes before other columns that say the same.
    """
    found = closings(node, marks).values()
    return min(found, key=lambda c: (not c.inclusive, _size(c.bound)), default=None)


def is_final(closing: Closing, node: Node, mark: int) -> Expr:
    """Whether a row of a node is final once the watermark is there (microseconds since 1970)."""
    (column,) = [r for r in refs(node) if r.name == closing.column]
    bound = transform(
        closing.bound,
        lambda e: _moment(mark, e.type) if e == ColumnRef(e.type, WATERMARK) else None,
    )
    return call("<=" if closing.inclusive else "<", column, bound)


def _moment(micros: int, type: t.Type) -> Expr:
    """A time as a constant."""
    at = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros)
    shown = at.strftime("%Y-%m-%d %H:%M:%S.%f") + ("+00:00" if type == t.TIMESTAMPTZ else "")
    return Cast(type, Literal(t.VARCHAR, shown[:10] if type == t.DATE else shown))


def shown_closings(node: Node, marks: Marks) -> Closings:
    """When the rows are final of a view that shows what is final, by column.

    The view shows a row by one column. Another column may call a row final before it is shown, so it says nothing of
    the view's rows, unless it is final together with that one or later.
    """
    shown = closing(node, marks)
    if shown is None:
        return {}
    found = closings(node, marks)
    return {
        name: c
        for name, c in found.items()
        if name == shown.column or (c.group == shown.group and not shown.derived)
    }


def watermarks_read(node: Node, marks: Marks) -> tuple[str, ...]:
    """The relations whose watermarks a plan waits for, each once; not those that a temporal join looks up."""
    return tuple(key for key in relations_waited(node) if key in marks)


def relations_waited(node: Node) -> tuple[str, ...]:
    """The relations that a plan reads, each once, without those that only a temporal join looks up."""
    return tuple(dict.fromkeys(_relations(node)))


def _relations(node: Node) -> Iterator[str]:
    if isinstance(node, Scan):
        yield node.relation
    waited = node.inputs[:1] if isinstance(node, Join) and node.temporal else node.inputs
    for child in waited:
        yield from _relations(child)


def _size(expr: Expr) -> int:
    return sum(1 for _ in walk(expr))


# -- one node -------------------------------------------------------------------------------------


def closings(node: Node, marks: Marks, given: Sequence[Expr] = ()) -> Closings:
    """All columns of the node that say when its rows are final; only those count for which what is `given` is true."""
    match node:
        case Scan():
            return _named(_scanned(node, marks.get(node.relation, {})))
        case Filter() | Unnest() if not all(is_pure(e) for e in node.exprs):
            return {}  # what it gives for an old row changes as time passes
        case Filter():
            return closings(node.input, marks, (*given, *conjuncts(node.condition)))
        case Order() | Distinct() | Unnest():
            return closings(node.inputs[0], marks)
        case Project():
            return _items(node.items, closings(node.input, marks))
        case Aggregate():
            return _items(node.groups, closings(node.input, marks))
        case DistinctOn():
            return _among(node.keys, closings(node.input, marks))
        case Window():
            return _window(node, closings(node.input, marks))
        case WindowTable():
            return _window_table(node, closings(node.input, marks))
        case SetOperation():
            return _set_operation(node, marks)
        case Join():
            return _join(node, marks, given)
    return {}


def _scanned(node: Scan, mark: str | Closings) -> Iterator[Closing]:
    for item in node.items:
        if isinstance(item.expr, ColumnRef):
            if item.expr.name == mark:
                group = f"{node.relation}.{mark}"
                yield Closing(item.name, ColumnRef(item.expr.type, WATERMARK), False, group)
            elif not isinstance(mark, str) and item.expr.name in mark:
                yield replace(mark[item.expr.name], column=item.name)


def _named(found: Iterable[Closing]) -> Closings:
    return {c.column: c for c in found}


def _items(items: Iterable[Item], below: Closings) -> Closings:
    """Columns made of those below: a column itself, or something that never decreases in it."""
    made = ((i.name, _followed(i.expr, below)) for i in items)
    return _named(replace(c, column=name) for name, c in made if c is not None)


def _among(exprs: Sequence[Expr], below: Closings) -> Closings:
    """Those of the columns below that are among the expressions."""
    names = {e.name for e in exprs if isinstance(e, ColumnRef)}
    return {name: c for name, c in below.items() if name in names}


def _followed(expr: Expr, below: Closings) -> Closing | None:
    """An expression that follows a column upwards. Equal values may come from several of the column, so it is final
    strictly below the bound, unless every value comes from one."""
    match expr:
        case ColumnRef():
            return below.get(expr.name)
        case Cast(arg=arg, length=None) if expr.type in _TIMES and arg.type in _TIMES:
            inner = _followed(arg, below)
            if inner is None:
                return None
            exact = expr.type != t.DATE or arg.type == t.DATE
            return replace(
                inner,
                bound=replace(expr, arg=inner.bound),
                inclusive=inner.inclusive and exact,
                derived=inner.derived or not exact,
            )
        case Call(function=function, args=args) if function.monotone is not None:
            place = function.monotone
            others = [a for i, a in enumerate(args) if i != place]
            if any(columns_used(a) or not is_pure(a) for a in others):
                return None
            inner = _followed(args[place], below)
            if inner is None:
                return None
            exact = function.name in ("+", "-") and _micros(others[0]) is not None
            return replace(
                inner,
                bound=_moved(expr, inner.bound, place),
                inclusive=inner.inclusive and exact,
                derived=inner.derived or not exact,
            )
    return None


def _moved(expr: Call, bound: Expr, place: int) -> Expr:
    """The call on a bound; adding what was taken away gives what there was."""
    args = (*expr.args[:place], bound, *expr.args[place + 1 :])
    undone = isinstance(bound, Call) and {expr.function.name, bound.function.name} == {"+", "-"}
    if undone and isinstance(bound, Call) and place == 0 and bound.args[1] == args[1]:
        return bound.args[0] if bound.args[0].type == expr.type else replace(expr, args=args)
    return replace(expr, args=args)


def _micros(expr: Expr) -> int | None:
    """A constant interval in microseconds; None for anything else, and for months, which differ in length."""
    if isinstance(expr, Literal) and isinstance(expr.value, Interval) and not expr.value.months:
        return micros(expr.value)
    return None


# -- windows --------------------------------------------------------------------------------------


def _window_table(node: WindowTable, below: Closings) -> Closings:
    """A window is final once its end is reached: all of its rows are before that."""
    time = _followed(node.time, below)
    if time is None:
        return below
    reached = converted(time.bound, node.bound_type)
    begun = call("-", reached, Literal(t.INTERVAL, node.size))
    group = f"{time.group} {node.kind} {node.size} {node.slide} {node.offset}"
    bounds = (Closing(node.end, reached, True, group), Closing(node.start, begun, True, group))
    return {**below, **_named(bounds)}


def _window(node: Window, below: Closings) -> Closings:
    """Calls over partitions that close as a whole, over sessions, or only over rows before the current one."""
    found = _among(node.partition_by, below)
    calls = [i.expr for i in node.calls if isinstance(i.expr, WindowCall)]
    for name, mark in below.items():
        if all(_looks_back(c, name) for c in calls):
            found.setdefault(name, mark)
    return {**_sessions(node, below), **found}


def _looks_back(window: WindowCall, column: str) -> bool:
    """Whether rows that come later, in the order of that column, leave the call as it is."""
    if not window.order_by or not _ascends(window.order_by[0], column):
        return False
    inner = window.call
    name = inner.function.name if isinstance(inner, Call | AggregateCall) else ""
    if name == "lag":
        places = inner.children()[1:2]
        return all(isinstance(p, Literal) and isinstance(p.value, int) and p.value >= 0 for p in places)  # fmt: skip
    return name not in _LATER and _ends(window.frame)


def _ascends(sort: Sort, column: str) -> bool:
    named = isinstance(sort.expr, ColumnRef) and sort.expr.name == column
    return named and not sort.descending and not sort.nulls_first


def _ends(frame: Frame | None) -> bool:
    return frame is None or frame.end.side in ("current row", "preceding")


def _sessions(node: Window, below: Closings) -> Closings:
    """A session is final once the gap after its last row has passed."""
    session = session_of(node)
    mark = below.get(session.time) if session else None
    if session is None or mark is None or _micros(session.gap) is None:
        return {}
    bound = call("-", mark.bound, session.gap)
    group = f"{mark.group} session {session.gap}"
    return _named(Closing(name, bound, True, group) for name in session.last)


# -- several inputs -------------------------------------------------------------------------------


def _set_operation(node: SetOperation, marks: Marks) -> Closings:
    """A column that closes alike in every branch whose rows change at all."""
    moving = [b for b in node.branches if not is_constant(b)]
    branches = [(b.names, closings(b, marks)) for b in moving]
    found: list[Closing] = []
    for place, column in enumerate(node.outputs):
        each = [known.get(names[place]) for names, known in branches]
        alike = [c for c in each if c is not None]
        if alike and len(alike) == len(each) and len({c.bound for c in alike}) == 1:
            inclusive = all(c.inclusive for c in alike)
            group = " | ".join(c.group for c in alike)
            derived = any(c.derived for c in alike)
            found.append(Closing(column.name, alike[0].bound, inclusive, group, derived))
    return _named(found)


def _join(node: Join, marks: Marks, given: Sequence[Expr]) -> Closings:
    """A pair is final once both of its rows are: the condition must say that the one follows from the other."""
    pairs = node.kind in ("inner", "cross")
    tests = (*(given if pairs else ()), *conjuncts(node.condition))
    left, right = (closings(side, marks, tests if pairs else ()) for side in node.inputs)
    if node.temporal or (is_constant(node.right) and node.kind not in ("right", "full")):
        return left
    if is_constant(node.left) and pairs:
        return right
    if node.kind in ("right", "full") or not all(is_pure(e) for e in node.exprs):
        return {}
    found: Closings = {}
    sides = [(left, right), (right, left)] if pairs else [(left, right)]
    for less, more, gap in _bounded(tests):
        for ahead, behind in sides:
            one, other = ahead.get(more), behind.get(less)
            if one is None or other is None or one.bound != other.bound:
                continue
            apart = Literal(t.INTERVAL, Interval(0, 0, gap))
            bound = call("-", one.bound, apart) if gap > 0 else one.bound
            inclusive = one.inclusive and other.inclusive
            group = f"{more} {gap}"
            found.setdefault(more, Closing(more, bound, inclusive, group))
    return found


def _bounded(tests: Iterable[Expr]) -> Iterator[tuple[str, str, int]]:
    """What conditions say of two columns: the first is at most the second and so many microseconds."""
    for test in tests:
        if not isinstance(test, Call) or test.function.name not in ("=", "<", "<=", ">", ">="):
            continue
        a, b = (_shifted(arg) for arg in test.args)
        if a is None or b is None:
            continue
        if test.function.name in ("=", "<", "<="):
            yield a[0], b[0], b[1] - a[1]
        if test.function.name in ("=", ">", ">="):
            yield b[0], a[0], a[1] - b[1]


def _shifted(expr: Expr) -> tuple[str, int] | None:
    """A column of times, moved by so many microseconds."""
    if isinstance(expr, ColumnRef):
        return expr.name, 0
    if not isinstance(expr, Call) or expr.function.name not in ("+", "-") or len(expr.args) != 2:
        return None
    column, length = expr.args
    if not isinstance(column, ColumnRef) or expr.type not in (t.TIMESTAMP, t.TIMESTAMPTZ):
        return None
    moved = _micros(length)
    if moved is None:
        return None
    return column.name, moved if expr.function.name == "+" else -moved
