"""A subquery that looks at the query around it becomes one that does not, to be joined with it.

Two ways. *Pulling up*: conditions such as `inner = outer` leave the subquery and become the join's condition; groups,
limits and windows then work per value of `inner`. That is cheap, and fits most queries. *Spreading*: the different
values of the outer columns are joined with the innermost relation that looks at them, and carried up as keys; it
fits every query, at the price of reading the outer query twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from icestream import types as t
from icestream.errors import SignalError
from icestream.functions import expressions
from icestream.functions.equality import as_stored, from_stored
from icestream.functions.expressions import Call, Cast, ColumnRef, Expr, Literal, WindowCall
from icestream.plan import calls
from icestream.plan.calls import both, call
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
    Values,
    Window,
    WindowTable,
)
from icestream.plan.rewrite import (
    all_exprs,
    conjuncts,
    kept,
    refs,
    substitute,
    transform,
    transform_plan,
)
from icestream.plan.scope import Names, OuterRef
from icestream.types import NumericType


@dataclass(frozen=True)
class Freed:
    """A subquery that no longer looks outside.

    Joined with the outer plan under `conditions`, it gives for every outer row the rows that the subquery had.
    `lifted` are columns to be computed after the join; `defaults` the values of a row that the subquery has (a global
    aggregate over nothing) where the join finds none.
    """

    node: Node
    conditions: tuple[Expr, ...] = ()
    lifted: Mapping[str, Expr] = field(default_factory=dict)
    defaults: Mapping[str, Expr] = field(default_factory=dict)


def decorrelate(node: Node, outer: Node, names: Names) -> Freed:
    """The subquery `node`, which stands in a query that reads `outer`."""
    if not any(isinstance(e, OuterRef) for e in all_exprs(node)):
        return Freed(node)
    if not any(is_outer(e) for e in all_exprs(node)):
        return Freed(transform_plan(node, _inward))
    try:
        freed = _Pull(names).visit(node)
    except _NotPullableError:
        return _spread(node, outer, names)
    return Freed(
        transform_plan(freed.node, _inward),
        tuple(transform(c, _inward) for c in freed.conditions),
        {n: transform(e, _inward) for n, e in freed.lifted.items()},
        {n: transform(e, _inward) for n, e in freed.defaults.items()},
    )


def is_outer(expr: Expr) -> bool:
    """Whether it is a column of the next query out."""
    return isinstance(expr, OuterRef) and expr.depth == 1


def _inward(expr: Expr) -> Expr | None:
    """A reference to an outer column, seen from one query further out."""
    if not isinstance(expr, OuterRef):
        return None
    if expr.depth == 1:
        return ColumnRef(expr.type, expr.name)
    return replace(expr, depth=expr.depth - 1)


def _looks_out(expr: Expr) -> bool:
    return any(is_outer(e) for e in expressions.walk(expr))


def _depends(node: Node) -> bool:
    return any(is_outer(e) for e in all_exprs(node))


# -- pulling up -----------------------------------------------------------------------------------


class _NotPullableError(SignalError):
    """The subquery needs the other way."""


@dataclass(frozen=True)
class _Pull:
    names: Names

    def visit(self, node: Node) -> Freed:
        if not _depends(node):
            return Freed(node)
        match node:
            case Filter():
                return self.filter(node)
            case Project():
                return self.project(node)
            case Aggregate():
                return self.aggregate(node)
            case Join(kind="inner" | "cross"):
                return self.join(node)
            case Order():
                return self.visit(node.input)
            case Limit() | Distinct() | Window() | DistinctOn():
                return self.by_key(node)
        raise _NotPullableError

    def plain(self, node: Node) -> Freed:
        """Below a node that needs the rows as they are: nothing may be lifted or missing."""
        freed = self.visit(node)
        if freed.lifted or freed.defaults:
            raise _NotPullableError
        return freed

    def filter(self, node: Filter) -> Freed:
        below = self.visit(node.input)
        if below.defaults:
            raise _NotPullableError
        whole = substitute(node.condition, below.lifted)
        mine = [c for c in conjuncts(whole) if not _looks_out(c)]
        theirs = [c for c in conjuncts(whole) if _looks_out(c)]
        rest = both(mine)
        inner = Filter(below.node, rest) if rest else below.node
        return replace(below, node=inner, conditions=(*below.conditions, *theirs))

    def project(self, node: Project) -> Freed:
        below = self.visit(node.input)
        items = [substitute(i, below.lifted) for i in node.items]
        lifted = {i.name: i.expr for i in items if _looks_out(i.expr)}
        stay = [i for i in items if i.name not in lifted]
        needed = [*below.conditions, *lifted.values()]
        stay += self.missing(needed, stay)
        defaults = (
            {i.name: substitute(i.expr, below.defaults) for i in items} if below.defaults else {}
        )
        return Freed(Project(below.node, tuple(stay)), below.conditions, lifted, defaults)

    def missing(self, needed: Sequence[Expr], items: Sequence[Item]) -> list[Item]:
        """The inner columns that the conditions read and the items do not pass on as they are."""
        found: dict[str, Item] = {}
        passed = {i.name for i in items if i.expr == i.ref}
        for expr in needed:
            for ref in expressions.columns_used(expr):
                if not isinstance(ref, OuterRef) and ref.name not in passed:
                    found[ref.name] = Item(ref.name, ref)
        if {i.name for i in items} & found.keys():
            raise _NotPullableError
        return list(found.values())

    def keys(self, freed: Freed) -> tuple[Freed, tuple[Item, ...]]:
        """Conditions `inner = outer` with the inner sides as columns of their own."""
        items: dict[Expr, Item] = {}
        conditions: list[Expr] = []
        for condition in freed.conditions:
            inner, outer = self.sides(condition)
            key = _without_widening(inner)
            if key not in items:
                passed = key.name if isinstance(key, ColumnRef) else None
                items[key] = Item(passed or self.names.fresh("key"), key)
            same = {key: items[key].ref}
            conditions.append(call("=", transform(inner, same.get), outer))
        added = tuple(i for i in items.values() if i.expr != i.ref)
        node = Project(freed.node, (*kept(freed.node), *added)) if added else freed.node
        return Freed(node, tuple(conditions)), tuple(Item(i.name, i.ref) for i in items.values())

    def sides(self, condition: Expr) -> tuple[Expr, Expr]:
        if isinstance(condition, Call) and condition.function.name == "=":
            for a, b in (condition.args, condition.args[::-1]):
                alone = all(is_outer(c) for c in expressions.columns_used(b))
                if alone and _looks_out(b) and not _looks_out(a) and expressions.columns_used(a):
                    return a, b
        raise _NotPullableError

    def aggregate(self, node: Aggregate) -> Freed:
        if any(_looks_out(e) for e in node.exprs):
            raise _NotPullableError
        freed, keys = self.keys(self.plain(node.input))
        mapping = {g.expr.name: g.ref for g in node.groups if isinstance(g.expr, ColumnRef)}
        added = tuple(k for k in keys if k.name not in mapping)
        conditions = tuple(substitute(c, mapping) for c in freed.conditions)
        grouped = Aggregate(freed.node, (*node.groups, *added), node.aggregates)
        defaults = {} if node.groups else empty_values(node)
        return Freed(grouped, conditions, {}, defaults)

    def join(self, node: Join) -> Freed:
        left, right = self.visit(node.left), self.visit(node.right)
        if left.defaults or right.defaults:
            raise _NotPullableError
        lifted = {**left.lifted, **right.lifted}
        parts = [substitute(c, lifted) for c in conjuncts(node.condition)]
        mine = both(c for c in parts if not _looks_out(c))
        theirs = tuple(c for c in parts if _looks_out(c))
        inner = Join("inner" if mine else "cross", left.node, right.node, mine)
        return Freed(inner, (*left.conditions, *right.conditions, *theirs), lifted)

    def by_key(self, node: Limit | Distinct | DistinctOn | Window) -> Freed:
        if any(_looks_out(e) for e in node.exprs):
            raise _NotPullableError
        if isinstance(node, Limit) and any(_looks_out(s.expr) for s in node.order):
            raise _NotPullableError
        freed, keys = self.keys(self.plain(node.input))
        return replace(
            freed, node=per_key(node, freed.node, tuple(k.ref for k in keys), self.names)
        )


def _without_widening(expr: Expr) -> Expr:
    """The column below a conversion that keeps different values different."""
    if isinstance(expr, Cast) and expr.implicit and expr.arg.type in t.INTEGERS:
        wider = expr.type in t.INTEGERS or isinstance(expr.type, NumericType)
        return expr.arg if wider and isinstance(expr.arg, ColumnRef) else expr
    return expr


def empty_values(node: Aggregate) -> dict[str, Expr]:
    """What each aggregate gives over no rows: 0 for counts, NULL for all others."""
    found: dict[str, Expr] = {}
    for name, aggregate in node.calls:
        zero = aggregate.function.name in ("count", "approx_count_distinct", "regr_count")
        found[name] = Literal(aggregate.type, 0 if zero else None)
    return found


def per_key(
    node: Limit | Distinct | DistinctOn | Window, below: Node, keys: tuple[Expr, ...], names: Names
) -> Node:
    """The node over `below`, done for each value of the keys by itself."""
    match node:
        case Distinct():
            return Distinct(below)
        case DistinctOn():
            return DistinctOn(below, (*node.keys, *keys), node.order)
        case Window():
            return Window(below, tuple(replace(i, expr=_within(i.expr, keys)) for i in node.calls))
        case Limit():
            return _limit(node, below, keys, names)


def _within(expr: Expr, keys: tuple[Expr, ...]) -> Expr:
    if isinstance(expr, WindowCall):
        return replace(expr, partition_by=(*expr.partition_by, *keys))
    return expr


def _limit(node: Limit, below: Node, keys: tuple[Expr, ...], names: Names) -> Node:
    place = Item(names.fresh("row"), calls.numbered("row_number", keys, node.order))
    items = [place]
    checks = [call(">", place.ref, calls.whole(node.offset))] if node.offset else []
    if node.count is not None:
        last = place
        if node.with_ties:
            last = Item(names.fresh("rank"), calls.numbered("rank", keys, node.order))
            items.append(last)
        checks.append(call("<=", last.ref, calls.whole(node.offset + node.count)))
    condition = both(checks)
    return Filter(Window(below, tuple(items)), condition) if condition else below


# -- spreading ------------------------------------------------------------------------------------


def _spread(node: Node, outer: Node, names: Names) -> Freed:
    found = dict.fromkeys(e for e in all_exprs(node) if is_outer(e) and isinstance(e, OuterRef))
    # Equal intervals are told apart here: the subquery may give something else for each of them.
    items = tuple(Item(names.fresh(r.name), as_stored(ColumnRef(r.type, r.name))) for r in found)
    renamed: dict[Expr, Expr] = {
        r: from_stored(i.ref, r.type) for r, i in zip(found, items, strict=True)
    }
    inside = transform_plan(node, lambda e: renamed.get(e) or _inward(e))
    domain = Distinct(Project(outer, items))
    whole, empty = _Spread(domain, tuple(i.ref for i in items), names).top(inside)
    fresh = tuple(Item(names.fresh(i.name), i.ref) for i in items)
    plain = {c.name for c in node.columns}
    rest = tuple(i for i in kept(whole) if i.name in plain)
    conditions = tuple(
        call("is not distinct from", i.expr, f.ref) for i, f in zip(items, fresh, strict=True)
    )
    outside: dict[str, Expr] = {i.name: i.expr for i in items}
    defaults = {n: substitute(e, outside) for n, e in empty.items()}
    return Freed(Project(whole, (*rest, *fresh)), conditions, {}, defaults)


@dataclass(frozen=True)
class _Spread:
    """`visit` gives the node for every row of `domain`, whose columns it then has beside its own."""

    domain: Node
    keys: tuple[ColumnRef, ...]
    names: Names

    def needed(self, node: Node) -> bool:
        return any(self.reads(e) for n in _closed(node) for e in n.exprs)

    def reads(self, expr: Expr | None) -> bool:
        mine = {k.name for k in self.keys}
        return expr is not None and any(c.name in mine for c in expressions.columns_used(expr))

    def top(self, node: Node) -> tuple[Node, Mapping[str, Expr]]:
        """The whole subquery. If it is a global aggregate, also the row that it has over nothing."""
        keys = tuple(Item(k.name, k) for k in self.keys)
        match node:
            case Aggregate(groups=()):
                return Aggregate(self.visit(node.input), keys, node.aggregates), empty_values(node)
            case Project():
                below, empty = self.top(node.input)
                defaults = {i.name: substitute(i.expr, empty) for i in node.items}
                return Project(below, (*node.items, *keys)), defaults if empty else {}
        return self.visit(node), {}

    def visit(self, node: Node) -> Node:
        if not self.needed(node):
            return Join("cross", self.domain, node)
        match node:
            case Filter() | Order() | Unnest() | WindowTable() | Expand():
                return node.with_inputs([self.visit(node.input)])
            case Project():
                items = tuple(Item(k.name, k) for k in self.keys)
                return Project(self.visit(node.input), (*node.items, *items))
            case Aggregate():
                return self.aggregate(node)
            case Limit(input=Order() as order):
                return per_key(node, self.visit(order.input), self.keys, self.names)
            case Limit() | Distinct() | DistinctOn() | Window():
                return per_key(node, self.visit(node.input), self.keys, self.names)
            case Join():
                return self.join(node)
            case SetOperation():
                return self.set_operation(node)
            case Values():
                return self.values(node)
        raise AssertionError(f"cannot spread {type(node).__name__}")

    def aggregate(self, node: Aggregate) -> Node:
        groups = tuple(Item(k.name, k) for k in self.keys)
        grouped = Aggregate(self.visit(node.input), (*node.groups, *groups), node.aggregates)
        if node.groups:
            return grouped
        found = Item(self.names.fresh("found"), Literal(t.BOOLEAN, True))
        right, copies = self.copied(Project(grouped, (*kept(grouped), found)))
        joined = Join("left", self.domain, right, self.same(copies))
        present, empty = call("is not null", found.ref), empty_values(node)
        items = [Item(a.name, calls.choose(present, a.ref, empty[a.name])) for a in node.aggregates]
        return Project(joined, (*items, *groups))

    def copied(self, node: Node) -> tuple[Node, tuple[ColumnRef, ...]]:
        """The node with the domain's columns under other names."""
        mine = {k.name for k in self.keys}
        copies = tuple(Item(self.names.fresh(k.name), k) for k in self.keys)
        rest = tuple(i for i in kept(node) if i.name not in mine)
        return Project(node, (*rest, *copies)), tuple(c.ref for c in copies)

    def same(self, copies: Sequence[ColumnRef]) -> Expr | None:
        pairs = zip(self.keys, copies, strict=True)
        return both(call("is not distinct from", k, c) for k, c in pairs)

    def join(self, node: Join) -> Node:
        left, right = self.needed(node.left), self.needed(node.right)
        if node.kind in ("right", "full"):
            return self.outer_join(node)
        if node.kind in ("inner", "cross") and right and not left:
            return replace(node, right=self.visit(node.right))
        first = self.visit(node.left)
        if not right:
            return replace(node, left=first)
        second, copies = self.copied(self.visit(node.right))
        condition = both([*conjuncts(self.same(copies)), *conjuncts(node.condition)])
        kind = "inner" if node.kind == "cross" else node.kind
        joined: Node = Join(kind, first, second, condition)
        return joined

    def outer_join(self, node: Join) -> Node:
        """RIGHT and FULL: the domain's columns come from whichever side has them."""
        first, mine = self.copied(self.visit(node.left))
        second, theirs = self.copied(self.visit(node.right))
        pairs = list(zip(self.keys, mine, theirs, strict=True))
        here = {k.name: a for k, a, _ in pairs}
        same = [call("is not distinct from", a, b) for _, a, b in pairs]
        own = [substitute(c, here) for c in conjuncts(node.condition)]
        joined = Join(node.kind, first, second, both([*same, *own]))
        # A row of one side only has NULLs in the other side's columns: the first that is there counts.
        items = tuple(Item(k.name, call("coalesce", a, b)) for k, a, b in pairs)
        columns = {c.name for c in (*mine, *theirs)}
        rest = tuple(i for i in kept(joined) if i.name not in columns)
        return Project(joined, (*rest, *items))

    def set_operation(self, node: SetOperation) -> Node:
        branches = []
        for branch in node.branches:
            whole = self.visit(branch)
            keys = tuple(Item(k.name, k) for k in self.keys)
            items = tuple(Item(r.name, r) for r in refs(branch))
            branches.append(Project(whole, (*items, *keys)))
        outputs = (*node.outputs, *(OutColumn(k.name, k.type) for k in self.keys))
        return replace(node, branches=tuple(branches), outputs=outputs)

    def values(self, node: Values) -> Node:
        keys = tuple(Item(k.name, k) for k in self.keys)
        branches: list[Node] = []
        for row in node.rows:
            items = (Item(c.name, e) for c, e in zip(node.outputs, row, strict=True))
            branches.append(Project(self.domain, (*items, *keys)))
        outputs = (*node.outputs, *(OutColumn(k.name, k.type) for k in self.keys))
        return (
            branches[0]
            if len(branches) == 1
            else SetOperation("union", True, tuple(branches), outputs)
        )


def _closed(node: Node) -> Sequence[Node]:
    found = [node]
    for child in node.inputs:
        found.extend(_closed(child))
    return found
