"""GROUP BY: keys, grouping sets, and expressions over groups instead of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from math import prod

from sqlglot import exp

from icestream.errors import SqlError
from icestream.functions.expressions import (
    AggregateCall,
    ColumnRef,
    Expr,
    WindowCall,
    columns_used,
)
from icestream.plan.calls import null
from icestream.plan.clauses import refuse, refuse_outer
from icestream.plan.complexity import STATEMENT_TOO_COMPLEX
from icestream.plan.logical import Aggregate, Expand, Item, Node, Project, SetOperation
from icestream.plan.rewrite import below, kept, transform, transform_plan
from icestream.plan.scope import Context, FromScope, OuterRef, further
from icestream.plan.subqueries import Pending

Keys = tuple[exp.Expression, ...]
MAX_GROUPING_SETS = 1024
MAX_SET_KEYS = 20_000
"""Grouping sets times keys: a row becomes as many values."""


def grouping_sets(group: exp.Expression | None) -> list[Keys] | None:
    """The grouping sets as written; one of them for a plain GROUP BY, None without one."""
    if group is None:
        return None
    parts = [[_members(e)] if _is_plain(e) else _sets(e) for e in group.expressions]
    _check_number(prod(len(part) for part in parts))
    sets = [tuple(k for keys in chosen for k in keys) for chosen in product(*parts)]
    if len(sets) > 1:
        _check_keys(sum(len(keys) for keys in sets))
    return sets


def _check_keys(keys: int) -> None:
    if keys > MAX_SET_KEYS:
        raise SqlError(
            f"the statement is too complex: its grouping sets have more than {MAX_SET_KEYS} keys together",
            remedy="group by fewer expressions, or unite queries with fewer grouping sets each",
            code=STATEMENT_TOO_COMPLEX,
        )


def _check_number(sets: int) -> None:
    if sets > MAX_GROUPING_SETS:
        raise SqlError(
            f"too many grouping sets present (maximum {MAX_GROUPING_SETS})",
            code=STATEMENT_TOO_COMPLEX,
        )


def _is_plain(tree: exp.Expression) -> bool:
    return not isinstance(tree, exp.Rollup | exp.Cube | exp.GroupingSets)


def _sets(tree: exp.Expression) -> list[Keys]:
    parts = [_members(e) for e in tree.expressions]
    if isinstance(tree, exp.Rollup):
        return [_flat(parts[:n]) for n in range(len(parts), -1, -1)]
    if isinstance(tree, exp.Cube):
        _check_number(1 << len(parts))
        sizes = range(len(parts), -1, -1)
        return [_flat(chosen) for n in sizes for chosen in combinations(parts, n)]
    inner: list[Keys] = []
    for e, members in zip(tree.expressions, parts, strict=True):
        inner += [members] if _is_plain(e) else _sets(e)
    return inner


def _members(tree: exp.Expression) -> Keys:
    if isinstance(tree, exp.Tuple):
        return tuple(tree.expressions)
    return (tree.this,) if isinstance(tree, exp.Paren) else (tree,)


def _flat(parts: Sequence[Keys]) -> Keys:
    return tuple(k for keys in parts for k in keys)


@dataclass
class Groups:
    """Collects what a grouped query computes, and rewrites its expressions to read that."""

    ctx: Context
    scope: FromScope
    keys: list[Item] = field(default_factory=list)
    sets: list[tuple[Expr, ...]] = field(default_factory=list)
    aggregates: list[Item] = field(default_factory=list)
    values: Mapping[str, Pending] = field(default_factory=dict)
    """Subqueries that may be joined after the grouping."""

    def add_set(self, keys: Sequence[tuple[Expr, str, exp.Expression]]) -> None:
        """One grouping set: expressions, names, and where they stand."""
        for expr, name, tree in keys:
            refuse(expr, "GROUP BY", tree, self.ctx)
            if all(k.expr != expr for k in self.keys):
                passed = expr.name if type(expr) is ColumnRef else None
                self.keys.append(Item(passed or self.ctx.names.fresh(name), expr))
        self.sets.append(tuple(expr for expr, _, _ in keys))
        if len(self.sets) > 1:
            _check_keys(len(self.sets) * len(self.keys))

    def lift(self, expr: Expr, tree: exp.Expression) -> Expr:
        """The expression over groups: keys and aggregates become columns."""

        def step(e: Expr) -> Expr | None:
            for key in self.keys:
                if key.expr == e:
                    return key.ref
            if isinstance(e, WindowCall):
                call = below(e.call, lambda a: transform(a, step))
                rest = below(e, lambda a: a if a is e.call else transform(a, step))
                return WindowCall(
                    e.type, call, rest.partition_by, rest.order_by, rest.frame, e.ignore_nulls
                )
            if isinstance(e, AggregateCall):
                return self.aggregate(e, tree).ref
            if isinstance(e, OuterRef) or not isinstance(e, ColumnRef) or e.name in self.values:
                return e if isinstance(e, ColumnRef) else None
            raise self.ungrouped(e, tree)

        return transform(expr, step)

    def aggregate(self, call: AggregateCall, tree: exp.Expression) -> Item:
        """The column of an aggregate; equal calls share one."""
        for item in self.aggregates:
            if item.expr == call:
                return item
        refuse_outer(call, tree, self.ctx.place_of)
        item = Item(self.ctx.names.fresh(call.function.name), call)
        self.aggregates.append(item)
        return item

    def ungrouped(self, ref: ColumnRef, tree: exp.Expression, inside: str = "") -> SqlError:
        """The error for a column that has many values in a group."""
        shown = self.scope.named(ref)
        relation, _, name = shown.rpartition(".")
        columns = (
            c
            for c in tree.find_all(exp.Column)
            if c.name == name and (c.table == relation or not (c.table or inside))
        )
        place = self.ctx.place_of(next(columns, tree))
        if inside:
            return SqlError(
                f'subquery uses ungrouped column "{shown}" from outer query', place=place
            )
        return SqlError(
            f'column "{shown}" must appear in the GROUP BY clause or be used in an aggregate function',
            place=place,
        )

    def lift_pending(self, pending: Pending, tree: exp.Expression) -> Pending:
        """A subquery that stands beside groups: the outer columns it reads must be keys."""

        made = {n: self.aggregate(call, tree).ref for n, call in pending.aggregates.items()}

        def step(e: Expr) -> Expr | None:
            for key in self.keys:
                if columns_used(key.expr) and _seen_inside(key.expr) == e:
                    return OuterRef(e.type, key.name)
            if not isinstance(e, OuterRef) or e.depth != 1:
                return None
            if e.name in made:
                return OuterRef(e.type, made[e.name].name)
            raise self.ungrouped(e, tree, "subquery")

        return Pending(pending.refs, transform_plan(pending.node, step))

    def node(self, below: Node) -> Node:
        """The aggregation of `below`."""
        if len(self.sets) <= 1:
            return Aggregate(below, tuple(self.keys), tuple(self.aggregates))
        every = [s for s in self.sets if s]
        if len(every) < len(self.sets):
            return self.with_totals(below, every)
        number = self.ctx.names.fresh("grouping")
        names = {k.expr: k.name for k in self.keys}
        inner = tuple(Item(self.ctx.names.fresh(k.name), k.expr) for k in self.keys)
        renamed = {names[i.expr]: i.name for i in inner}
        sets = tuple(tuple(renamed[names[e]] for e in s) for s in self.sets)
        expanded = Expand(below, inner, sets, number)
        keys = tuple(Item(k.name, i.ref) for k, i in zip(self.keys, inner, strict=True))
        by_set = Item(number, ColumnRef(expanded.columns[-1].type, number))
        return Aggregate(expanded, (*keys, by_set), tuple(self.aggregates))

    def with_totals(self, below: Node, sets: list[tuple[Expr, ...]]) -> Node:
        """The empty set has its one row also where there are no rows: it is an aggregate of its own."""
        totals = Aggregate(below, (), tuple(self.aggregates))
        nothing = tuple(Item(k.name, null(k.expr.type)) for k in self.keys)
        shown = (*nothing, *(i for i in kept(totals)))
        branches: list[Node] = [Project(totals, shown)] * (len(self.sets) - len(sets))
        if sets:
            grouped = replace(self, sets=sets).node(below)
            names = [c.name for c in branches[0].columns]
            types = {c.name: c.type for c in grouped.columns}
            branches.insert(
                0, Project(grouped, tuple(Item(n, ColumnRef(types[n], n)) for n in names))
            )
        if len(branches) == 1:
            return branches[0]
        return SetOperation("union", True, tuple(branches), branches[0].columns)


def _seen_inside(expr: Expr) -> Expr:
    """An expression of the query around as a subquery has it."""
    return transform(expr, lambda e: further(e) if isinstance(e, ColumnRef) else None)
