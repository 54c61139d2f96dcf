"""One SELECT → a plan. The clauses are bound in the order in which they are evaluated:

FROM, WHERE, GROUP BY, HAVING, OVER, set-returning functions, the select list, DISTINCT, ORDER BY, LIMIT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from icestream import types as t
from icestream.errors import NotSupportedError, SqlError, did_you_mean
from icestream.functions.expressions import (
    AggregateCall,
    Call,
    ColumnRef,
    Expr,
    Literal,
    Sort,
    WindowCall,
    has_aggregate,
    is_set_returning,
    walk,
)
from icestream.plan.clauses import parts, refuse, refuse_windows
from icestream.plan.grouping import Groups, grouping_sets
from icestream.plan.limits import limited
from icestream.plan.logical import (
    Distinct,
    DistinctOn,
    Filter,
    Item,
    Node,
    Order,
    Project,
    Unnest,
    Window,
)
from icestream.plan.naming import NAMELESS, column_name
from icestream.plan.rewrite import transform
from icestream.plan.scope import HIDDEN, Context, FromScope, Output
from icestream.plan.sessions import gap_of, with_sessions
from icestream.plan.subqueries import Pending, Subqueries, attach
from icestream.plan.tables import bind_from

_CLAUSES = {
    "expressions", "from_", "joins", "where", "group", "having", "windows", "distinct", "order",
    "limit", "offset", "with_", "kind", "operation_modifiers",
}  # fmt: skip


@dataclass
class Chosen:
    """An item of the select list."""

    name: str
    expr: Expr
    tree: exp.Expression


@dataclass
class Key:
    """A key of ORDER BY or DISTINCT ON: an item of the select list, or an expression of its own."""

    tree: exp.Expression
    expr: Expr
    output: int | None = None
    descending: bool = False
    nulls_first: bool = False


def bind_select(tree: exp.Select, ctx: Context, row_by_row: str | None = None) -> Output:
    """A SELECT with everything that belongs to it but WITH.

    `row_by_row`: its items are computed for each row alone, as the clause of that name asks (UPDATE, RETURNING).
    """
    for clause, value in tree.args.items():
        if value and clause not in _CLAUSES:
            raise NotSupportedError(clause.strip("_").upper(), place=ctx.place_of(tree))
    source = bind_from(tree, ctx)
    return _Select(tree, ctx, source.scope, row_by_row).bind(source.node)


@dataclass
class _Select:
    tree: exp.Select
    ctx: Context
    scope: FromScope
    row_by_row: str | None = None
    values: Subqueries = field(init=False)
    chosen: list[Chosen] = field(default_factory=list)

    def __post_init__(self) -> None:
        windows: dict[str, exp.Expression] = {}
        for window in self.tree.args.get("windows") or ():
            if window.this.name in windows:
                raise SqlError(
                    f'window "{window.this.name}" is already defined',
                    place=self.ctx.place_of(window),
                    code="42P20",
                )
            windows[window.this.name] = window
        self.values = Subqueries(self.ctx, self.scope, windows)

    def bind(self, node: Node) -> Output:
        """The whole query over its FROM."""
        if where := self.tree.args.get("where"):
            node = self.values.filtered(node, where.this, "WHERE")
        self.chosen = [c for item in self.tree.expressions for c in self.choose(item)]
        if self.row_by_row is not None:
            for chosen in self.chosen:
                refuse(chosen.expr, self.row_by_row, chosen.tree, self.ctx)
            for held in self.values.held_aggregates():
                refuse(held, self.row_by_row, self.tree, self.ctx)
        distinct = self.distinct_keys()
        order = self.order_keys()
        having = self.having()
        node = self.grouped(node, [*distinct, *order], having)
        exprs = _Exprs([c.expr for c in self.chosen], [k.expr for k in (*distinct, *order)])
        node = self.windowed(node, exprs)
        node = self.unnested(node, exprs)
        for key, expr in zip((*distinct, *order), exprs.keys, strict=True):
            key.expr = expr
        return self.finished(node, exprs.chosen, distinct, order)

    # -- the select list --------------------------------------------------------------------------

    def choose(self, tree: exp.Expression) -> Iterator[Chosen]:
        if isinstance(tree, exp.Star):
            yield from self.star(None, tree)
        elif isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star):
            yield from self.star(tree.table, tree)
        else:
            yield Chosen(column_name(tree), self.values.bind(tree.unalias()), tree.unalias())

    def star(self, qualifier: str | None, tree: exp.Expression) -> Iterator[Chosen]:
        star = tree.this if isinstance(tree, exp.Column) else tree
        if any(star.args.get(k) for k in ("except_", "replace", "rename", "except")):
            raise NotSupportedError("EXCEPT and REPLACE after *", place=self.ctx.place_of(tree))
        entries = self.scope.entries
        if qualifier and not self.scope.has_own(qualifier):
            known = {e.qualifier for e in entries if e.qualifier}
            raise SqlError(
                f'missing FROM-clause entry for table "{qualifier}"',
                place=self.ctx.place_of(tree),
                remedy=did_you_mean(qualifier, known),
            )
        if not entries and not self.tree.args.get("from_"):
            raise SqlError(
                "SELECT * with no tables specified is not valid", place=self.ctx.place_of(tree)
            )
        for e in entries:
            wanted = e.qualifier == qualifier if qualifier else e.bare
            if wanted and not e.name.startswith(HIDDEN):
                yield Chosen(e.name, e.ref, _column(e.name, e.qualifier, tree))

    # -- ORDER BY and DISTINCT ON -----------------------------------------------------------------

    def order_keys(self) -> list[Key]:
        order = self.tree.args.get("order")
        return [self.key(o, "ORDER BY") for o in order.expressions] if order else []

    def distinct_keys(self) -> list[Key]:
        distinct = self.tree.args.get("distinct")
        on = distinct.args.get("on") if distinct else None
        return [self.key(e, "SELECT DISTINCT ON") for e in on.expressions] if on else []

    def key(self, tree: exp.Expression, what: str) -> Key:
        inner = tree.this if isinstance(tree, exp.Ordered) else tree
        descending, nulls_first = direction(tree)
        output = self.output(inner, what)
        expr = self.chosen[output].expr if output is not None else self.values.bind(inner)
        return Key(inner, expr, output, descending, nulls_first)

    def output(self, tree: exp.Expression, what: str) -> int | None:
        """The item of the select list that a key names, by number or by name."""
        if (found := ordinal(tree, len(self.chosen), what, self.ctx)) is not None:
            return found
        if not (isinstance(tree, exp.Column) and not tree.table):
            return None
        named = [i for i, c in enumerate(self.chosen) if c.name == tree.name]
        if len({self.chosen[i].expr for i in named}) > 1:
            raise SqlError(f'{what} "{tree.name}" is ambiguous', place=self.ctx.place_of(tree))
        return named[0] if named else None

    # -- GROUP BY and HAVING ----------------------------------------------------------------------

    def having(self) -> tuple[Expr, exp.Expression] | None:
        having = self.tree.args.get("having")
        if having is None:
            return None
        expr = self.values.boolean(having.this, "HAVING")
        refuse_windows(expr, "HAVING", having.this, self.ctx.place_of)
        return expr, having.this

    def grouped(
        self, node: Node, keys: Sequence[Key], having: tuple[Expr, exp.Expression] | None
    ) -> Node:
        """The aggregation, if there is one; all later expressions are rewritten to read its columns."""
        sets = grouping_sets(self.tree.args.get("group"))
        exprs = [*(c.expr for c in self.chosen), *(k.expr for k in keys)]
        aggregated = any(has_aggregate(e) for e in exprs) or self.values.holds_aggregate
        if sets is None and having is None and not aggregated:
            return attach(node, self.values.take(), self.ctx)
        groups = Groups(self.ctx, self.scope)
        for keys_of_set in sets or [()]:
            groups.add_set([self.group_key(k) for k in keys_of_set])
        every = [*exprs, *([having[0]] if having else [])]
        before, after = _split(self.values.take(), groups, every)
        if any(p.aggregates for p in before):
            raise SqlError(
                "aggregate function calls cannot be nested", place=self.ctx.place_of(self.tree)
            )
        groups.values = {r.name: p for p in after for r in p.refs}
        for chosen in self.chosen:
            chosen.expr = groups.lift(chosen.expr, chosen.tree)
        for key in keys:
            key.expr = groups.lift(key.expr, key.tree)
        condition = groups.lift(*having) if having else None
        after = [groups.lift_pending(p, self.tree) for p in after]
        node = attach(groups.node(attach(node, before, self.ctx)), after, self.ctx)
        return Filter(node, condition) if condition is not None else node

    def group_key(self, tree: exp.Expression) -> tuple[Expr, str, exp.Expression]:
        """A key: an input column, else a number or name in the select list, else any expression."""
        found = ordinal(tree, len(self.chosen), "GROUP BY", self.ctx)
        bare = isinstance(tree, exp.Column) and not tree.table
        if found is None and bare and not self.scope.find(tree.name):
            found = self.output(tree, "GROUP BY")
        if found is not None:
            chosen = self.chosen[found]
            return chosen.expr, chosen.name, chosen.tree
        expr = self.values.bind(tree)
        name = column_name(tree)
        return _typed(expr), name if name != NAMELESS else "key", tree

    # -- windows and set-returning functions ------------------------------------------------------

    def windowed(self, node: Node, exprs: _Exprs) -> Node:
        found: list[Item] = []

        def step(e: Expr) -> Expr | None:
            if not isinstance(e, WindowCall):
                return None
            if any(isinstance(p, WindowCall) for part in parts(e) for p in walk(part)):
                raise SqlError(
                    "window function calls cannot be nested",
                    place=self.ctx.place_of(_innermost_window(self.tree)),
                )
            return self.shared(found, e, _function_name(e)).ref

        exprs.change(lambda e: transform(e, step))
        plain = [i for i in found if gap_of(i) is None]
        for partition in dict.fromkeys(_partition(i) for i in plain):
            node = Window(node, tuple(i for i in plain if _partition(i) == partition))
        sessions = [i for i in found if gap_of(i) is not None]
        return with_sessions(node, sessions, self.ctx.names)

    def unnested(self, node: Node, exprs: _Exprs) -> Node:
        found: list[Item] = []

        def step(e: Expr) -> Expr | None:
            if not (isinstance(e, Call) and e.function.set_returning):
                return None
            if any(is_set_returning(a) for a in e.args):
                raise NotSupportedError(
                    "a set-returning function of another", place=self.ctx.place_of(self.tree)
                )
            return self.shared(found, e, e.function.name).ref

        exprs.change(lambda e: transform(e, step))
        return Unnest(node, tuple(found)) if found else node

    def shared(self, found: list[Item], expr: Expr, name: str) -> Item:
        """The column of a call; equal calls share one."""
        for item in found:
            if item.expr == expr:
                return item
        found.append(Item(self.ctx.names.fresh(name), expr))
        return found[-1]

    # -- the end ----------------------------------------------------------------------------------

    def finished(
        self, node: Node, exprs: Sequence[Expr], distinct: Sequence[Key], order: Sequence[Key]
    ) -> Output:
        """The select list, DISTINCT, ORDER BY and LIMIT."""
        items = self.items(exprs)
        visible = len(items)
        columns = [self.column(k, items) for k in (*distinct, *order)]
        plan: Node = Project(node, tuple(items))
        on, by = columns[: len(distinct)], columns[len(distinct) :]
        sorts = tuple(Sort(c, k.descending, k.nulls_first) for c, k in zip(by, order, strict=True))
        plan = self.deduplicated(plan, on, sorts, visible, order)
        if sorts:
            plan = Order(plan, sorts)
        plan = limited(plan, self.tree, self.ctx)
        if len(items) > visible:
            plan = Project(plan, tuple(Item(i.name, i.ref) for i in items[:visible]))
        return Output(plan, tuple(c.name for c in self.chosen))

    def items(self, exprs: Sequence[Expr]) -> list[Item]:
        items: list[Item] = []
        compared = self.tree.args.get("distinct") or self.tree.args.get("order")
        for chosen, expr in zip(self.chosen, exprs, strict=True):
            self.add(items, _typed(expr) if compared else expr, chosen.name)
        return items

    def add(self, items: list[Item], expr: Expr, name: str) -> Item:
        """A further item. A column that is passed on keeps the name it has, if that is still free."""
        passed = expr.name if type(expr) is ColumnRef else None
        free = passed is not None and all(i.name != passed for i in items)
        items.append(Item(passed if passed and free else self.ctx.names.fresh(name), expr))
        return items[-1]

    def column(self, key: Key, items: list[Item]) -> ColumnRef:
        """The column that a key is, added to the projection if it is not chosen."""
        if key.output is not None:
            return items[key.output].ref
        for item in items:
            if item.expr == key.expr:
                return item.ref
        name = column_name(key.tree)
        return self.add(items, _typed(key.expr), name if name != NAMELESS else "key").ref

    def deduplicated(
        self,
        plan: Node,
        on: Sequence[ColumnRef],
        sorts: tuple[Sort, ...],
        visible: int,
        order: Sequence[Key],
    ) -> Node:
        if on:
            leading = [s.expr for s in sorts[: len(set(on))]]
            if not set(leading) <= set(on):
                raise SqlError(
                    "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
                    place=self.ctx.place_of(self.tree.args["distinct"]),
                )
            return DistinctOn(plan, tuple(on), sorts)
        if not self.tree.args.get("distinct"):
            return plan
        if len(plan.columns) > visible:
            extra = next(k for k in order if k.output is None)
            raise SqlError(
                "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
                place=self.ctx.place_of(extra.tree),
            )
        return Distinct(plan)


@dataclass
class _Exprs:
    """The expressions of the select list and of the keys, changed together."""

    chosen: list[Expr]
    keys: list[Expr]

    def change(self, change: Callable[[Expr], Expr]) -> None:
        self.chosen = [change(e) for e in self.chosen]
        self.keys = [change(e) for e in self.keys]


def direction(tree: exp.Expression) -> tuple[bool, bool]:
    """Descending, and NULLs first: by default NULL is the largest value."""
    if not isinstance(tree, exp.Ordered):
        return False, False
    descending = bool(tree.args.get("desc"))
    nulls = tree.args.get("nulls_first")
    return descending, descending if nulls is None else bool(nulls)


def ordinal(tree: exp.Expression, count: int, what: str, ctx: Context) -> int | None:
    """The index that a bare number names in a select list of `count` items."""
    tree = tree.unnest()  # brackets around a number change nothing
    if not isinstance(tree, exp.Literal):
        return None
    if tree.is_string or not tree.name.isdigit():
        raise SqlError(f"non-integer constant in {what}", place=ctx.place_of(tree))
    index = int(tree.name[:9]) - 1
    if not 0 <= index < count or len(tree.name) > 9:
        raise SqlError(
            f"{what} position {tree.name[:9]} is not in select list",
            place=ctx.place_of(tree),
            code="42P10",
        )
    return index


def _split(
    pending: Sequence[Pending], groups: Groups, exprs: Sequence[Expr]
) -> tuple[list[Pending], list[Pending]]:
    """The subqueries that grouping keys and aggregates read, and the others."""
    inside: set[str] = set()
    for expr in (*(k.expr for k in groups.keys), *_aggregates(exprs)):
        inside |= {e.name for e in walk(expr) if isinstance(e, ColumnRef)}
    before = [p for p in pending if any(r.name in inside for r in p.refs)]
    return before, [p for p in pending if p not in before]


def _aggregates(exprs: Sequence[Expr]) -> Iterator[Expr]:
    return (e for expr in exprs for e in walk(expr) if isinstance(e, AggregateCall))


def _partition(item: Item) -> tuple[Expr, ...]:
    return item.expr.partition_by if isinstance(item.expr, WindowCall) else ()


def _innermost_window(tree: exp.Expression) -> exp.Expression:
    nested = (w for w in tree.find_all(exp.Window) if w.find_ancestor(exp.Window))
    return next(nested, tree)


def _function_name(call: WindowCall) -> str:
    return call.call.function.name if isinstance(call.call, Call | AggregateCall) else "window"


def _typed(expr: Expr) -> Expr:
    """An untyped literal that nothing gives a type to is a text."""
    if expr.type != t.NULL:
        return expr
    value = expr.value if isinstance(expr, Literal) else None
    return Literal(t.VARCHAR, value)


def _column(name: str, qualifier: str | None, at: exp.Expression) -> exp.Expression:
    column = exp.column(exp.to_identifier(name, quoted=True), qualifier)
    column.meta.update(at.meta)
    for part in at.find_all(exp.Star, exp.Identifier):
        if "start" in part.meta:
            column.meta.setdefault("start", part.meta["start"])
    return column
