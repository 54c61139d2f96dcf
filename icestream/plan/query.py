"""A parsed query → a logical plan: names resolved, types known, subqueries turned into joins.

`bind_query` needs no JVM and no catalog: `relations` says what a name in FROM stands for, and raises if it knows none.
This module has what is above a single SELECT: WITH, VALUES, UNION and its like.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from icestream import types as t
from icestream.errors import NotSupportedError, SqlError, did_you_mean
from icestream.functions.coercion import common_type, describe
from icestream.functions.expressions import ColumnRef, Expr, Literal, Sort
from icestream.plan.calls import binder_of
from icestream.plan.clauses import refuse
from icestream.plan.complexity import bounded_depth, check_size
from icestream.plan.conversion import as_texts, convert
from icestream.plan.equality import group_by_keys
from icestream.plan.limits import limited
from icestream.plan.logical import (
    Item,
    Node,
    Order,
    OutColumn,
    Project,
    SetKind,
    SetOperation,
    Values,
)
from icestream.plan.rewrite import all_exprs, refs
from icestream.plan.scope import (
    Context,
    FromScope,
    OuterRef,
    Output,
    Relation,
    Relations,
    with_aliases,
)
from icestream.plan.select import bind_select, direction, ordinal
from icestream.plan.tidy import tidy
from icestream.sql.collection import pause_collection
from icestream.sql.statements import Query
from icestream.types import Type

__all__ = ["Relation", "Relations", "bind_query"]

Cell = tuple[Expr, exp.Expression]
"""A value of VALUES: bound by itself, and where it stands."""

_KINDS: dict[type[exp.Expression], SetKind] = {
    exp.Union: "union",
    exp.Intersect: "intersect",
    exp.Except: "except",
}


def bind_query(query: Query, relations: Relations, *, row_by_row: str | None = None) -> Node:
    """The plan of a query. Its columns have the names the user sees, even if some are equal.

    `row_by_row` names the clause (UPDATE, RETURNING) that a SELECT stands for: its items are computed for each row alone.
    """
    with pause_collection(query.text), bounded_depth():
        output = bind_open(query, relations, row_by_row=row_by_row)
        node = as_texts(output.node)
        return tidy(node if node.names == output.names else _named(node, output.names))


def bind_open(query: Query, relations: Relations, *, row_by_row: str | None = None) -> Output:
    """The plan of a query, in which a column of untyped literals has no type yet."""
    with pause_collection(query.text), bounded_depth():
        bound = _query(query.tree, Context(relations, query.place_of, _typed), row_by_row)
        return replace(bound, node=group_by_keys(bound.node))


def cells(query: Query, relations: Relations) -> list[list[Cell]]:
    """The rows of a query that is VALUES."""
    assert isinstance(query.tree, exp.Values)
    return _cells(query.tree, Context(relations, query.place_of, _typed))


def _named(node: Node, names: Sequence[str]) -> Node:
    if isinstance(node, Project):
        items = (Item(n, i.expr) for n, i in zip(names, node.items, strict=True))
        return Project(node.input, tuple(items))
    return Project(node, tuple(Item(n, r) for n, r in zip(names, refs(node), strict=True)))


def _typed(tree: exp.Expression, ctx: Context) -> Output:
    """A query whose columns all have a type: literals that nothing gave one are texts."""
    output = _query(tree, ctx)
    return replace(output, node=as_texts(output.node))


def _query(tree: exp.Expression, ctx: Context, row_by_row: str | None = None) -> Output:
    """A query at any level. Columns of untyped literals may still be of unknown type."""
    found = _bind(tree, _with(tree, ctx), row_by_row)
    check_size(found.node, lambda: ctx.place_of(tree))
    return found


def _bind(tree: exp.Expression, ctx: Context, row_by_row: str | None) -> Output:
    match tree:
        case exp.Subquery():
            inner = _query(tree.this, ctx)
            return _ordered(tree, inner, ctx) if _has_order(tree) else inner
        case exp.Select():
            return bind_select(tree, ctx, row_by_row)
        case exp.SetOperation():
            return _ordered(tree, _set_operation(tree, ctx), ctx)
        case exp.Values():
            return _ordered(tree, _values(tree, ctx), ctx)
        case exp.Table():
            everything = exp.select("*").from_(tree.copy())
            return bind_select(everything, ctx)
    raise NotSupportedError("this query", place=ctx.place_of(tree))


# -- WITH -----------------------------------------------------------------------------------------


def _with(tree: exp.Expression, ctx: Context) -> Context:
    """The context with the queries of WITH, each seeing those before it."""
    with_ = tree.args.get("with_")
    if with_ is None:
        return ctx
    if with_.args.get("recursive"):
        raise NotSupportedError("WITH RECURSIVE", place=ctx.place_of(with_))
    seen: set[str] = set()
    for cte in with_.expressions:
        if cte.alias in seen:
            raise SqlError(
                f'WITH query name "{cte.alias}" specified more than once',
                place=ctx.place_of(cte),
                code="42712",
            )
        seen.add(cte.alias)
        ctx = replace(ctx, ctes={**ctx.ctes, cte.alias: _shared(cte, ctx)})
    return ctx


def _shared(cte: exp.CTE, ctx: Context) -> Callable[[], Output]:
    """Bound once; again for every use if it looks outside, because the uses are then joined apart."""
    alias = cte.args["alias"]
    given = [c.name for c in alias.args.get("columns") or ()]

    def bind() -> Output:
        found = _typed(cte.this, ctx)
        return Output(found.node, with_aliases(found.names, given, cte.alias, alias, ctx))

    first = bind()
    outside = any(isinstance(e, OuterRef) for e in all_exprs(first.node))
    return bind if outside else lambda: first


# -- UNION, INTERSECT, EXCEPT -----------------------------------------------------------------------


def _set_operation(tree: exp.SetOperation, ctx: Context) -> Output:
    kind = _KINDS[type(tree)]
    keep = not tree.args.get("distinct")
    left, right = _query(tree.this, ctx), _query(tree.expression, ctx)
    if len(left.names) != len(right.names):
        raise SqlError(
            f"each {kind.upper()} query must have the same number of columns",
            place=ctx.place_of(tree.expression),
        )
    types = _common_types(left.node, right.node, kind, tree, ctx)
    branches: list[Node] = []
    for side in (left.node, right.node):
        branches += _branches(side, types, kind, keep)
    names = [ctx.names.fresh(n) for n in left.names]
    outputs = tuple(OutColumn(n, x) for n, x in zip(names, types, strict=True))
    return Output(SetOperation(kind, keep, tuple(branches), outputs), left.names)


def _branches(node: Node, types: Sequence[Type], kind: SetKind, keep: bool) -> tuple[Node, ...]:
    """The branch with those types. A UNION ALL inside a UNION becomes part of it, and so does a UNION inside one that
    has every row once."""
    made = convert(node, types)
    if not isinstance(made, SetOperation) or made.kind != "union" or kind != "union":
        return (made,)
    return made.inputs if made.all or not keep else (made,)


def _common_types(
    left: Node, right: Node, kind: SetKind, tree: exp.SetOperation, ctx: Context
) -> list[Type]:
    types: list[Type] = []
    for a, b in zip(left.columns, right.columns, strict=True):
        type = common_type([a.type, b.type])
        if type is None:
            raise SqlError(
                f"{kind.upper()} types {describe(a.type)} and {describe(b.type)} cannot be matched",
                place=ctx.place_of(tree.expression),
            )
        types.append(type)
    return types


# -- VALUES ---------------------------------------------------------------------------------------


def _values(tree: exp.Values, ctx: Context) -> Output:
    binder = binder_of(FromScope(outer=ctx.outer), ctx.place_of)
    columns: list[tuple[Expr, ...]] = []
    for column in zip(*_cells(tree, ctx), strict=True):
        bound = [expr for expr, _ in column]
        if all(e.type == t.NULL for e in bound) and len(bound) == 1:
            columns.append(tuple(bound))  # of no type yet: a UNION may give it one
        else:
            columns.append(binder.unify(bound, "VALUES", column[0][1]))
    names = tuple(f"column{i + 1}" for i in range(len(columns)))
    outputs = tuple(
        OutColumn(ctx.names.fresh(n), c[0].type) for n, c in zip(names, columns, strict=True)
    )
    return Output(Values(tuple(zip(*columns, strict=True)), outputs), names)


def _cells(tree: exp.Values, ctx: Context) -> list[list[Cell]]:
    rows = [r.expressions if isinstance(r, exp.Tuple) else [r] for r in tree.expressions]
    for row, written in zip(rows, tree.expressions, strict=True):
        if len(row) != len(rows[0]):
            raise SqlError("VALUES lists must all be the same length", place=ctx.place_of(written))
    binder = binder_of(FromScope(outer=ctx.outer), ctx.place_of)
    found = [[(binder.visit(x), x) for x in row] for row in rows]
    for expr, at in (cell for row in found for cell in row):
        if not isinstance(expr, Literal):  # there may be 100,000 of them
            refuse(expr, "VALUES", at, ctx)
    return found


# -- ORDER BY and LIMIT of what is no SELECT --------------------------------------------------------


def _has_order(tree: exp.Expression) -> bool:
    return any(tree.args.get(k) for k in ("order", "limit", "offset"))


def _ordered(tree: exp.Expression, output: Output, ctx: Context) -> Output:
    """Such an ORDER BY names output columns only."""
    node = output.node
    order = tree.args.get("order")
    if order is not None:
        node = Order(node, tuple(_sort(o, output, ctx) for o in order.expressions))
    return replace(output, node=limited(node, tree, ctx))


def _sort(tree: exp.Expression, output: Output, ctx: Context) -> Sort:
    inner = tree.this if isinstance(tree, exp.Ordered) else tree
    index = ordinal(inner, len(output.names), "ORDER BY", ctx)
    if index is None:
        if not (isinstance(inner, exp.Column) and not inner.table):
            raise SqlError(
                "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
                place=ctx.place_of(inner),
                remedy="only result column names can be used, not expressions: put the query into FROM",
            )
        if inner.name not in output.names:
            raise SqlError(
                f'column "{inner.name}" does not exist',
                place=ctx.place_of(inner),
                remedy=did_you_mean(inner.name, output.names),
            )
        index = output.names.index(inner.name)
    column = output.node.columns[index]
    return Sort(ColumnRef(column.type, column.name), *direction(tree))
