"""A plan in the few forms that the delta rules know.

The same rows, said with scans, values, filters, projections, UNION ALL, table functions, inner, left, semi and anti joins,
plain aggregates and window calls. DISTINCT and the set operations become aggregates, DISTINCT ON and LIMIT window calls,
right and full joins left and anti ones, DISTINCT aggregates plain ones over an aggregate. What PostgreSQL leaves
open, the choice among equals, is settled here by the row itself, so that every epoch settles it alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from icestream import types as t
from icestream.functions.expressions import (
    AggregateCall,
    Call,
    Case,
    ColumnRef,
    Expr,
    Sort,
    WindowCall,
    columns_used,
)
from icestream.plan.calls import both, call, choose, count, null, numbered, whole
from icestream.plan.complexity import check_size
from icestream.plan.linear import moving_in
from icestream.plan.logical import (
    Aggregate,
    Distinct,
    DistinctOn,
    Expand,
    Filter,
    Item,
    Join,
    Limit,
    Node,
    Order,
    OutColumn,
    Project,
    SetOperation,
    Unnest,
    Window,
    walk,
)
from icestream.plan.rewrite import conjuncts, kept, refs, substitute
from icestream.plan.sessions import WHOLE
from icestream.plan.tidy import tidy

MADE = "_icestream_"
"""Begins the names of columns that no user has written."""

_BY_PLACE = {"row_number", "ntile", "lag", "lead"}
"""Window functions that tell rows apart which their ORDER BY does not."""
_BY_RANK = {"rank", "dense_rank", "percent_rank", "cume_dist"}
"""Window functions that rows which are equal in their ORDER BY share the result of."""
_ANY_ORDER = {"count", "bool_and", "bool_or", "every", "bit_and", "bit_or", "bit_xor"}
"""Aggregates whose result is the same to the last bit in whatever order they see their rows."""
_IN_ORDER = {"array_agg", "string_agg", "jsonb_agg", "jsonb_object_agg", "first_value", "last_value"}  # fmt: skip
"""Aggregates whose result depends on the order in which they see their rows."""
_WHOLE = {*_IN_ORDER, "mode", "percentile_cont", "percentile_disc", "approx_count_distinct"}
"""Aggregates that keep their DISTINCT: they see the whole group anyway."""


def normal(node: Node) -> Node:
    """The same relation, with the same columns."""
    made = _Normal(node).visit(node)
    check_size(made)
    return tidy(made)


class FreshNames:
    """Names of columns that a plan does not have yet."""

    def __init__(self, node: Node) -> None:
        self._taken = {name for n in walk(node) for name in n.names}
        self._next = 0

    def __call__(self, what: str) -> str:
        """The next name."""
        while True:
            self._next += 1
            name = f"{MADE}{what}{self._next}"
            if name not in self._taken:
                return name


class _Normal:
    def __init__(self, node: Node) -> None:
        self.fresh = FreshNames(node)

    def visit(self, node: Node) -> Node:
        if isinstance(node, Limit):
            return self.limited(node)
        node = node.with_inputs([self.visit(i) for i in node.inputs])
        match node:
            case Order():
                return node.input
            case Distinct():
                return Aggregate(node.input, kept(node.input), ())
            case SetOperation(kind="union", all=False):
                united = replace(node, all=True)
                return Aggregate(united, kept(united), ())
            case SetOperation(kind="intersect" | "except"):
                return count_sides(node, self.fresh)
            case DistinctOn():
                return self.first_of_each(node)
            case Join(kind="right"):
                return self.right(node)
            case Join(kind="full"):
                return self.full(node)
            case Join(kind="cross"):
                return replace(node, kind="inner")
            case Join(kind="inner") if node.condition is not None and moving_in(node.condition):
                return Filter(replace(node, condition=None), node.condition)
            case Join(kind="left" | "semi" | "anti") if not node.temporal:
                return _below_join(node)
            case Aggregate():
                return self.aggregate(node)
            case Window():
                return self.window(node)
            case Filter(input=Project()):
                return _below_projection(node)
        return node

    # -- the first rows -----------------------------------------------------------------------------

    def first_of_each(self, node: DistinctOn) -> Node:
        below, keys = self.computed(node.input, node.keys)
        number = Item(
            self.fresh("row"), numbered("row_number", keys, self.total(node.order, below))
        )
        first = call("=", number.ref, whole(1))
        return Project(Filter(Window(below, (number,)), first), kept(node.input))

    def limited(self, node: Limit) -> Node:
        below = self.visit(node.input.input if isinstance(node.input, Order) else node.input)
        number = Item(self.fresh("row"), numbered("row_number", (), self.total(node.order, below)))
        calls, tests = [number], []
        if node.offset:
            tests.append(call(">", number.ref, whole(node.offset)))
        if node.count is not None:
            last = number
            if node.with_ties:
                last = Item(self.fresh("rank"), numbered("rank", (), node.order))
                calls.append(last)
            tests.append(call("<=", last.ref, whole(node.offset + node.count)))
        if not tests:
            return below
        return Project(Filter(Window(below, tuple(calls)), _all(tests)), kept(below))

    # -- joins --------------------------------------------------------------------------------------

    def right(self, node: Join) -> Node:
        made = _below_join(Join("left", node.right, node.left, node.condition))
        return Project(made, _columns(node))

    def full(self, node: Join) -> Node:
        """The left join, and what of the right has no partner."""
        alone = _below_join(Join("anti", node.right, node.left, node.condition))
        padded = (*(Item(c.name, null(c.type)) for c in node.left.columns), *kept(node.right))
        joined = _below_join(Join("left", node.left, node.right, node.condition))
        branches = (joined, Project(alone, padded))
        names = [self.fresh("c") for _ in node.columns]
        outputs = tuple(OutColumn(n, c.type) for n, c in zip(names, node.columns, strict=True))
        both_sides = SetOperation("union", True, branches, outputs)
        items = tuple(Item(c.name, r) for c, r in zip(node.columns, refs(both_sides), strict=True))
        return Project(both_sides, items)

    # -- aggregates ---------------------------------------------------------------------------------

    def aggregate(self, node: Aggregate) -> Node:
        """Groups are columns. DISTINCT aggregates read another aggregate that has every value of a group once."""
        below, groups = self.named(node.input, node.groups)
        calls = tuple(
            Item(i.name, self.settled(i.expr, below))
            for i in node.aggregates
            if isinstance(i.expr, AggregateCall)
        )
        if not any(_counts_once(i.expr) for i in calls):
            return Aggregate(below, groups, calls)
        return self.counted_once(below, groups, calls)

    def settled(self, call: AggregateCall, below: Node) -> AggregateCall:
        """The call with nothing left open, and without a DISTINCT that changes nothing."""
        if call.distinct and call.function.name in ("min", "max", "bool_and", "bool_or", "every"):
            return replace(call, distinct=False)
        if call.function.name in _IN_ORDER and not call.distinct:
            return replace(call, order_by=self.total(call.order_by, below))
        return call

    def counted_once(self, below: Node, groups: tuple[Item, ...], calls: tuple[Item, ...]) -> Node:
        once = [i for i in calls if _counts_once(i.expr)]
        tag = self.fresh("tag")
        here = ColumnRef(t.INTEGER, tag)
        types = list(dict.fromkeys(_call(i).args[0].type for i in once))
        slots = {x: self.fresh("value") for x in types}  # one column for all values of a type
        keys = tuple(Item(g.name, g.expr) for g in groups)

        # every value once: (group, which aggregate, value)
        expanded = Expand(below, (), ((),) * len(once), tag)
        values: list[Item] = []
        for type, slot in slots.items():
            whens: list[tuple[Expr, Expr]] = []
            for number, item in enumerate(once):
                (value,) = _call(item).args
                if value.type == type:
                    where = _call(item).filter
                    shown = value if where is None else choose(where, value, null(type))
                    whens.append((call("=", here, whole(number, t.INTEGER)), shown))
            values.append(Item(slot, Case(type, tuple(whens), null(type))))
        each = Project(expanded, (*keys, Item(tag, here), *values))
        present = call("is not null", values[0].ref)
        for other in values[1:]:
            present = call("or", present, call("is not null", other.ref))
        each_once = Filter(each, present)
        values_once = Aggregate(each_once, kept(each_once), ())

        # beside the rows themselves, which the other aggregates read
        others = [i for i in calls if i not in once]
        used = dict.fromkeys(c for i in others for c in columns_used(i.expr))
        passed = [Item(self.fresh("arg"), c) for c in used]
        rows = Project(
            below,
            (*keys, Item(tag, whole(-1, t.INTEGER)), *(Item(n, null(x)) for x, n in slots.items()), *passed),
        )  # fmt: skip
        again = Project(
            values_once,
            (*(Item(c.name, ColumnRef(c.type, c.name)) for c in values_once.columns),
             *(Item(p.name, null(p.expr.type)) for p in passed)),
        )  # fmt: skip
        names = [self.fresh("c") for _ in rows.columns]
        outputs = tuple(OutColumn(n, c.type) for n, c in zip(names, rows.columns, strict=True))
        whole_input = SetOperation("union", True, (rows, again), outputs)
        renamed = dict(zip(rows.names, refs(whole_input), strict=True))
        tagged = renamed[here.name]

        made: list[Item] = []
        columns = {p.expr.name: renamed[p.name] for p in passed if isinstance(p.expr, ColumnRef)}
        for item in calls:
            if item in once:
                number = once.index(item)
                only = call("=", tagged, whole(number, t.INTEGER))
                value = renamed[slots[_call(item).args[0].type]]
                made.append(
                    Item(
                        item.name, replace(_call(item), args=(value,), distinct=False, filter=only)
                    )
                )
            else:
                moved = substitute(_call(item), columns)
                only = call("=", tagged, whole(-1, t.INTEGER))
                where = only if moved.filter is None else call("and", only, moved.filter)
                made.append(Item(item.name, replace(moved, filter=where)))
        outer = tuple(Item(g.name, renamed[g.name]) for g in groups)
        return Aggregate(whole_input, outer, tuple(made))

    # -- windows ------------------------------------------------------------------------------------

    def window(self, node: Window) -> Node:
        below, partition = self.computed(node.input, node.partition_by)
        calls = tuple(
            Item(i.name, self.settled_window(i.expr, partition, below))
            for i in node.calls
            if isinstance(i.expr, WindowCall)
        )
        made = Window(below, calls)
        return made if below is node.input else Project(made, _columns(node))

    def settled_window(
        self, call: WindowCall, partition: tuple[Expr, ...], below: Node
    ) -> WindowCall:
        if _is_whole(call):
            call = replace(call, frame=WHOLE)
        order = self.total(call.order_by, below) if _takes_total_order(call) else call.order_by
        return replace(call, partition_by=partition, order_by=order)

    # -- what all of them need ----------------------------------------------------------------------

    def total(self, order: Sequence[Sort], below: Node) -> tuple[Sort, ...]:
        """The order with the whole row as the last resort."""
        known = {s.expr for s in order}
        rest = [r for r in refs(below) if r not in known and has_total_order(r.type)]
        return (*order, *(Sort(r, False, False) for r in rest))

    def computed(self, below: Node, exprs: Iterable[Expr]) -> tuple[Node, tuple[Expr, ...]]:
        """The input with a column for every expression that is not one yet."""
        items = [Item("", e) for e in exprs]
        node, named = self.named(below, tuple(items))
        return node, tuple(i.expr for i in named)

    def named(self, below: Node, items: tuple[Item, ...]) -> tuple[Node, tuple[Item, ...]]:
        added: list[Item] = []
        made: list[Item] = []
        for item in items:
            if isinstance(item.expr, ColumnRef):
                made.append(item)
                continue
            column = Item(self.fresh("key"), item.expr)
            added.append(column)
            made.append(Item(item.name, column.ref))
        if not added:
            return below, items
        return Project(below, (*kept(below), *added)), tuple(made)


def count_sides(
    node: SetOperation,
    fresh: FreshNames,
    grouped: Callable[[Aggregate, Expr], Node] = lambda counted, _: counted,
) -> Node:
    """INTERSECT and EXCEPT: count each row on both sides. `grouped` gets the counts, and the condition under which a
    row is of the left side."""
    side = fresh("side")
    branches = tuple(
        Project(b, (*kept(b), Item(side, whole(n, t.INTEGER)))) for n, b in enumerate(node.branches)
    )
    outputs = (*node.outputs, OutColumn(side, t.INTEGER))
    united = SetOperation("union", True, branches, outputs)
    here = ColumnRef(t.INTEGER, side)
    left, right = (
        Item(fresh("count"), count(call("=", here, whole(n, t.INTEGER)))) for n in (0, 1)
    )
    groups = tuple(Item(c.name, ColumnRef(c.type, c.name)) for c in node.outputs)
    of_left = call("=", here, whole(0, t.INTEGER))
    counted = grouped(Aggregate(united, groups, (left, right)), of_left)
    zero = whole(0)
    if not node.all:
        other = call(">" if node.kind == "intersect" else "=", right.ref, zero)
        test = call("and", call(">", left.ref, zero), other)
        return Project(Filter(counted, test), groups)
    more = call(">", left.ref, right.ref)
    if node.kind == "intersect":
        copies: Expr = choose(more, right.ref, left.ref)
    else:
        copies = choose(more, call("-", left.ref, right.ref), zero)
    return Project(_repeated(counted, copies, fresh), groups)


def _repeated(node: Node, copies: Expr, fresh: FreshNames) -> Node:
    """Each row as often as an expression over it says."""
    series = call("generate_series", whole(1), copies)
    return Unnest(node, (Item(fresh("copy"), series),))


def _takes_total_order(call: WindowCall) -> bool:
    """Whether a total order gives a window call one result, and one that its own order allows.

    More sort keys split groups of peers, so they must not move the bounds of a RANGE or GROUPS frame that the
    result depends on.
    """
    name = call.call.function.name if isinstance(call.call, Call | AggregateCall) else ""
    if name in _BY_PLACE or _is_by_rows(call):
        return True
    if call.frame is None or name not in ("first_value", "last_value"):
        return name == "first_value" and not call.ignore_nulls
    start, end = call.frame.start.side, call.frame.end.side
    here, there = (start, end) if name == "first_value" else (end, start)
    if here not in ("unbounded preceding", "unbounded following"):
        return False
    return there.startswith("unbounded") or (there == "current row" and not call.ignore_nulls)


def is_settled(call: WindowCall, total: bool = True) -> bool:
    """Whether a window call in normal form, computed again over the same rows, surely gives the same.

    `total`: whether an order by all columns of its input tells all different rows apart.
    """
    inner = call.call
    assert isinstance(inner, Call | AggregateCall)
    name = inner.function.name
    if _takes_total_order(call):
        return total
    if isinstance(inner, Call):
        return name in _BY_RANK
    inexact = any(not has_total_order(a.type) or a.type in (t.REAL, t.DOUBLE) for a in inner.args)
    if name in ("min", "max"):
        return all(has_total_order(a.type) for a in inner.args)
    return name in _ANY_ORDER or (name in ("sum", "avg") and not inexact)


def _is_whole(call: WindowCall) -> bool:
    """Whether a call picks a row of its whole partition, so that its frame may be said in rows."""
    name = call.call.function.name if isinstance(call.call, Call) else ""
    if name not in ("first_value", "last_value", "nth_value"):
        return False
    if call.frame is None or not call.order_by:
        return not call.order_by and (call.frame is None or not _is_by_rows(call))
    sides = (call.frame.start.side, call.frame.end.side)
    return sides == ("unbounded preceding", "unbounded following")


def _is_by_rows(call: WindowCall) -> bool:
    return call.frame is not None and call.frame.unit.upper() == "ROWS"


def has_total_order(type: t.Type) -> bool:
    """Whether values of a type that are equal in an ORDER BY are one value. A month is as long as 30 days."""
    match type:
        case t.ArrayType(element=element):
            return has_total_order(element)
        case t.StructType(fields=fields):
            return all(has_total_order(f.type) for f in fields)
    return not isinstance(type, t.MapType) and type != t.INTERVAL


def _below_join(node: Join) -> Node:
    """Conditions on the time stand in filters, where their rule is: below the join where they read one side only."""
    moving = [c for c in conjuncts(node.condition) if moving_in(c)]
    left, right = set(node.left.names), set(node.right.names)
    theirs = [c for c in moving if {r.name for r in columns_used(c)} <= right]
    mine = [c for c in moving if node.kind == "semi" and {r.name for r in columns_used(c)} <= left]
    mine = [c for c in mine if c not in theirs]
    if not theirs and not mine:
        return node
    rest = both(c for c in conjuncts(node.condition) if c not in (*theirs, *mine))
    sides = [
        Filter(side, _all(tests)) if tests else side
        for side, tests in zip(node.inputs, (mine, theirs), strict=True)
    ]
    return replace(node, left=sides[0], right=sides[1], condition=rest)


def _below_projection(node: Filter) -> Node:
    """A filter that reads columns which the projection below it only passes on can stand below it."""
    project = node.input
    assert isinstance(project, Project)
    passed = {i.name: i.expr for i in project.items if isinstance(i.expr, ColumnRef)}
    if any(c.name not in passed for c in columns_used(node.condition)):
        return node
    return Project(Filter(project.input, substitute(node.condition, passed)), project.items)


def _counts_once(expr: Expr) -> bool:
    """Whether a DISTINCT aggregate is to read each value once instead of telling them apart itself."""
    return isinstance(expr, AggregateCall) and expr.distinct and expr.function.name not in _WHOLE


def _call(item: Item) -> AggregateCall:
    assert isinstance(item.expr, AggregateCall)
    return item.expr


def _columns(node: Node) -> tuple[Item, ...]:
    return tuple(Item(c.name, ColumnRef(c.type, c.name)) for c in node.columns)


def _all(tests: Sequence[Expr]) -> Expr:
    whole_test = both(tests)
    assert whole_test is not None
    return whole_test
