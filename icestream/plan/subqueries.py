"""Queries inside expressions: scalar, EXISTS, IN, op ANY and op ALL become joins.

In a condition that must hold, EXISTS and IN are semi joins and their negations anti joins. Everywhere else a
subquery is a value: the expression gets a column in its place, and `attach` joins the plan that computes it.
A scalar subquery that has several rows is an error where its value is used: 21000, or a counted NULL in a view.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from icestream import types as t
from icestream.errors import NotSupportedError, SqlError
from icestream.functions.aggregates import ONLY_VALUE
from icestream.functions.bind import Binder
from icestream.functions.conversions import result_type
from icestream.functions.datatypes import written
from icestream.functions.expressions import (
    AggregateCall,
    Call,
    ColumnRef,
    Expr,
    Literal,
    Row,
    has_window,
)
from icestream.functions.logic import ONE_ROW
from icestream.functions.trees import OPERATORS
from icestream.plan import calls
from icestream.plan.calls import binder_of, both, call
from icestream.plan.clauses import conditions, refuse
from icestream.plan.decorrelate import decorrelate
from icestream.plan.logical import (
    Aggregate,
    Filter,
    Item,
    Join,
    JoinKind,
    Limit,
    Node,
    Order,
    Project,
    Values,
    Window,
)
from icestream.plan.rewrite import kept, refs, transform
from icestream.plan.scope import Context, FromScope, OuterRef, Output, further

_MATCH = Callable[[tuple[ColumnRef, ...]], Expr]


@dataclass(frozen=True)
class Pending:
    """What an expression reads of a subquery: the columns that stand for those of the subquery's plan.

    `aggregates` are those of the query around that the subquery's rows are compared with, by the name of the outer
    column that stands for each in the plan.
    """

    refs: tuple[ColumnRef, ...]
    node: Node
    aggregates: Mapping[str, AggregateCall] = field(default_factory=dict)


@dataclass
class Subqueries:
    """Binds the expressions of one SELECT; the subqueries in them wait until they are attached to a plan."""

    ctx: Context
    scope: FromScope
    windows: Mapping[str, exp.Expression] = field(default_factory=dict)
    pending: list[Pending] = field(default_factory=list)

    # -- expressions ------------------------------------------------------------------------------

    @property
    def binder(self) -> Binder:
        """The binder of expressions, which asks here for the subqueries in them."""
        return binder_of(self.scope, self.ctx.place_of, self.value, self.windows)

    def bind(self, tree: exp.Expression) -> Expr:
        """An expression. A bare string literal or NULL stays of unknown type."""
        return self.binder.visit(tree)

    def boolean(self, tree: exp.Expression, what: str) -> Expr:
        """A condition."""
        return self.binder.boolean(tree, what)

    def take(self) -> list[Pending]:
        """What waits, handed over."""
        found, self.pending = self.pending, []
        return found

    # -- conditions -------------------------------------------------------------------------------

    def filtered(self, node: Node, tree: exp.Expression, what: str) -> Node:
        """The rows of `node` for which the condition is true."""
        plain: list[Expr] = []
        joins: list[Callable[[Node], Node]] = []
        for part in conditions(tree):
            if (join := self._semi(part, what)) is not None:
                joins.append(join)
                continue
            bound = self.boolean(part, what)
            for compared in (bound, *self.held_aggregates()):
                refuse(compared, _place_of_clause(what), part, self.ctx)
            plain.append(bound)
        width = node.columns
        whole = attach(node, self.take(), self.ctx)
        if (condition := both(plain)) is not None:
            whole = Filter(whole, condition)
        if whole.columns != width:
            whole = Project(whole, kept(node))
        for join in joins:
            whole = join(whole)
        return whole

    @property
    def holds_aggregate(self) -> bool:
        """Whether what waits is compared with an aggregate of this query."""
        return bool(self.held_aggregates())

    def held_aggregates(self) -> list[Expr]:
        """The aggregates that subqueries are compared with."""
        return [a for p in self.pending for a in p.aggregates.values()]

    def _semi(self, tree: exp.Expression, what: str) -> Callable[[Node], Node] | None:
        """The semi or anti join that a condition is, if it is one."""
        waiting = len(self.pending)
        negated = isinstance(tree, exp.Not)
        inner = tree.this.unnest() if negated else tree.unnest()
        if isinstance(inner, exp.Exists):
            output = self._inside(inner.this)
            node = _first_rows(output.node)
            return lambda left: self._half_join(left, node, None, negated)
        if isinstance(inner, exp.In) and inner.args.get("query") is not None:
            output, match, compared = self._membership(inner)
        elif not negated and isinstance(inner, exp.EQ) and isinstance(inner.expression, exp.Any):
            if not isinstance(inner.expression.this.unnest(), exp.Query):
                return None
            output, match, compared = self._quantified(inner)
        else:
            return None
        refuse(compared, _place_of_clause(what), inner, self.ctx)
        if len(self.pending) > waiting:  # a subquery on the left side: the general way
            del self.pending[waiting:]
            return None
        return lambda left: self._half_join(left, output.node, match, negated)

    def _half_join(self, left: Node, right: Node, match: _MATCH | None, negated: bool) -> Node:
        freed = decorrelate(right, left, self.ctx.names)
        if freed.defaults:
            return (
                self._always(left, negated)
                if match is None
                else self._by_value(left, right, match, negated)
            )
        tests = list(freed.conditions)
        if match is not None:
            columns = tuple(freed.lifted.get(r.name, r) for r in refs(right))
            test = match(columns)  # type: ignore[arg-type]
            tests.append(call("or", test, call("is null", test)) if negated else test)
        kind: JoinKind = "anti" if negated else "semi"
        return Join(kind, left, freed.node, both(tests))

    def _always(self, left: Node, negated: bool) -> Node:
        return Filter(left, Literal(t.BOOLEAN, False)) if negated else left

    def _by_value(self, left: Node, right: Node, match: _MATCH, negated: bool) -> Node:
        """IN over a global aggregate, which always has its one row: compare with its value."""
        (value,) = self._add(right)
        test = match((value,))
        whole = Filter(attach(left, self.take(), self.ctx), call("not", test) if negated else test)
        return Project(whole, kept(left))

    # -- values -----------------------------------------------------------------------------------

    def value(self, tree: exp.Expression) -> Expr:
        """The expression that stands for a subquery: what `Binder` asks for."""
        match tree:
            case exp.Exists():
                return self._counted(self._inside(tree.this).node)
            case exp.In():
                output, match, compared = self._membership(tree)
                self._refuse_window(compared, tree)
                return self._tested(output.node, match, every=False)
            case exp.Array():
                raise NotSupportedError(
                    "ARRAY(SELECT …)", place=self.ctx.place_of(tree), remedy="use array_agg"
                )
            case exp.Subquery() | exp.Query():
                return self._scalar(tree)
        output, match, compared = self._quantified(tree)
        self._refuse_window(compared, tree)
        word = type(tree.expression).__name__.lower()
        return self._tested(output.node, match, every=word == "all")

    def _scalar(self, tree: exp.Expression) -> Expr:
        output = self._inside(tree)
        if len(output.names) != 1:
            raise SqlError("subquery must return only one column", place=self.ctx.place_of(tree))
        node = output.node
        if has_one_row_at_most(node):
            return self._add(node)[0]
        value, single = self._add(self._only(node))
        # Where the value is used, not where it is computed: nobody may ask for that of several rows.
        return calls.choose(Call(t.BOOLEAN, ONE_ROW, (single,)), value, calls.null(value.type))

    def _only(self, node: Node) -> Node:
        """The value of the only row, NULL if there are several, and whether there are not."""
        (column,) = refs(node)
        made = AggregateCall(result_type(ONLY_VALUE, (column,)), ONLY_VALUE, (column,))
        only = Item(self.ctx.names.fresh(column.name), made)
        rows = Item(self.ctx.names.fresh("rows"), calls.count())
        single = Item(self.ctx.names.fresh("single"), call("<=", rows.ref, calls.whole(1)))
        counted = Aggregate(node, (), (only, rows))
        return Project(counted, (Item(only.name, only.ref), single))

    def _counted(self, node: Node) -> Expr:
        total = Item(self.ctx.names.fresh("count"), calls.count())
        (found,) = self._add(Aggregate(_first_rows(node), (), (total,)))
        return call(">", found, calls.whole(0))

    def _tested(self, node: Node, match: _MATCH, every: bool) -> Expr:
        """x op ANY (…): true if one is, else NULL if one is unknown, else false. ALL is the other way round."""
        aggregates: dict[str, AggregateCall] = {}

        def outside(expr: Expr) -> Expr | None:
            """The columns and aggregates of the query around, seen from inside the subquery."""
            if isinstance(expr, AggregateCall):
                name = self.ctx.names.fresh(expr.function.name)
                aggregates[name] = expr
                return OuterRef(expr.type, name)
            if isinstance(expr, ColumnRef) and expr not in refs(node):
                return further(expr)
            return None

        test = transform(match(refs(node)), outside)
        decisive = call("not", test) if every else test
        names = self.ctx.names
        hits = Item(names.fresh("hits"), calls.count(decisive))
        unknown = Item(names.fresh("unknown"), calls.count(call("is null", test)))
        counted = Aggregate(node, (), (hits, unknown))
        some = call(">", hits.ref, calls.whole(0))
        doubt = call(">", unknown.ref, calls.whole(0))
        no, yes = Literal(t.BOOLEAN, every), Literal(t.BOOLEAN, not every)
        verdict = calls.choose(some, yes, calls.choose(doubt, calls.null(t.BOOLEAN), no))
        item = Item(names.fresh("in"), verdict)
        return self._add(Project(counted, (item,)), aggregates)[0]

    def _refuse_window(self, expr: Expr, tree: exp.Expression) -> None:
        if has_window(expr):
            raise NotSupportedError(
                "a window function compared with a subquery",
                place=self.ctx.place_of(tree),
                remedy="compute it in a subquery in FROM and compare its column",
            )

    def _add(
        self, node: Node, aggregates: Mapping[str, AggregateCall] | None = None
    ) -> tuple[ColumnRef, ...]:
        made = tuple(ColumnRef(c.type, self.ctx.names.fresh(c.name)) for c in refs(node))
        self.pending.append(Pending(made, node, aggregates or {}))
        return made

    # -- parts ------------------------------------------------------------------------------------

    def _inside(self, tree: exp.Expression) -> Output:
        return self.ctx.bind(tree, self.ctx.inner(self.scope))

    def _membership(self, tree: exp.In) -> tuple[Output, _MATCH, Expr]:
        return self._compared(tree, tree.this, tree.args["query"], "=")

    def _quantified(self, tree: exp.Expression) -> tuple[Output, _MATCH, Expr]:
        symbol = OPERATORS.get(type(tree))
        if symbol is None:
            raise NotSupportedError(f"{written(tree)}", place=self.ctx.place_of(tree))
        right = tree.expression
        source = right.expressions[0] if isinstance(right, exp.Anonymous) else right.this
        return self._compared(tree, tree.this, source, symbol)

    def _compared(
        self, tree: exp.Expression, left: exp.Expression, query: exp.Expression, symbol: str
    ) -> tuple[Output, _MATCH, Expr]:
        """The subquery, the test of its row against the left side, and that side."""
        bound = self.bind(left)
        values = bound.args if isinstance(bound, Row) else (bound,)
        output = self._inside(query)
        if len(output.names) != len(values):
            few = "few" if len(output.names) < len(values) else "many"
            raise SqlError(f"subquery has too {few} columns", place=self.ctx.place_of(query))
        if len(values) > 1 and symbol not in ("=", "<>"):
            raise NotSupportedError("an order between rows", place=self.ctx.place_of(tree))

        def match(columns: tuple[ColumnRef, ...]) -> Expr:
            tests = [
                self.binder.call(symbol, [v, c], tree)
                for v, c in zip(values, columns, strict=False)
            ]
            whole = tests[0]
            for test in tests[1:]:
                whole = call("and" if symbol == "=" else "or", whole, test)
            return whole

        match(refs(output.node))  # types that cannot be compared are an error now
        return output, match, bound


def _place_of_clause(what: str) -> str:
    return "JOIN conditions" if what == "JOIN/ON" else what


def _first_rows(node: Node) -> Node:
    """What EXISTS looks at: neither columns nor order matter, nor a limit unless it is 0."""
    match node:
        case Order():
            return _first_rows(node.input)
        case Limit(count=count, offset=0) if count is None or count > 0:
            return _first_rows(node.input)
        case Project(input=inner) if inner.columns:
            return _first_rows(inner)
    return node


def has_one_row_at_most(node: Node) -> bool:
    """Whether the plan's shape alone proves that there are no two rows."""
    match node:
        case Aggregate(groups=()):
            return True
        case Limit(count=count, with_ties=False) if count is not None and count <= 1:
            return True
        case Values(rows=rows):
            return len(rows) <= 1
        case Join(kind="semi" | "anti"):
            return has_one_row_at_most(node.left)
        case Join(kind="cross"):
            return has_one_row_at_most(node.left) and has_one_row_at_most(node.right)
        case Project(input=inner) | Filter(input=inner) | Order(input=inner) | Window(input=inner):
            return has_one_row_at_most(inner)
    return False


def has_one_row(node: Node) -> bool:
    """Whether there is always exactly one row."""
    match node:
        case Aggregate(groups=()):
            return True
        case Values(rows=rows):
            return len(rows) == 1
        case Project(input=inner) | Order(input=inner) | Window(input=inner):
            return has_one_row(inner)
    return False


def attach(node: Node, pending: list[Pending], ctx: Context) -> Node:
    """The plan with the columns of the subqueries beside its own."""
    for found in pending:
        node = _attached(node, found, ctx)
    return node


def _attached(left: Node, found: Pending, ctx: Context) -> Node:
    freed = decorrelate(found.node, left, ctx.names)
    pairs = list(zip(found.refs, refs(found.node), strict=True))
    if not freed.lifted and not freed.defaults:
        values = tuple(Item(ref.name, column) for ref, column in pairs)
        if not freed.conditions and has_one_row(freed.node):
            return Join("cross", left, Project(freed.node, values))
        right = Project(freed.node, (*kept(freed.node), *values))
        joined = Join("left", left, right, both(freed.conditions))
        return Project(joined, (*kept(left), *(Item(r.name, r) for r in found.refs)))
    marker = Item(ctx.names.fresh("found"), Literal(t.BOOLEAN, True))
    right = Project(freed.node, (*kept(freed.node), marker))
    joined = Join("left", left, right, both(freed.conditions))
    chosen = []
    for ref, column in pairs:
        computed = freed.lifted.get(column.name, column)
        empty = freed.defaults.get(column.name, calls.null(column.type))
        value = calls.choose(call("is not null", marker.ref), computed, empty)
        chosen.append(Item(ref.name, value))
    return Project(joined, (*kept(left), *chosen))
