"""FROM: relations, views, subqueries, VALUES and table functions, and the joins between them, in order.

Out come a plan and the scope of its columns.
"""

from __future__ import annotations

from functools import partial

from sqlglot import exp

from icestream.errors import NotSupportedError, SqlError
from icestream.functions.datatypes import written
from icestream.functions.expressions import ColumnRef
from icestream.plan import calls
from icestream.plan.asof import is_asof
from icestream.plan.calls import both, call
from icestream.plan.complexity import check_size
from icestream.plan.decorrelate import decorrelate
from icestream.plan.joins import crossed, joined, kind_of, on_condition, refuse_twice
from icestream.plan.logical import ONE_ROW, Filter, Item, Join, Node, Project, Scan, walk
from icestream.plan.rewrite import kept, refs
from icestream.plan.scope import (
    Context,
    FromScope,
    Output,
    Relation,
    Source,
    Visible,
    with_aliases,
)
from icestream.plan.table_functions import function, is_function, is_window, on_true, window
from icestream.plan.text import text
from icestream.plan.travel import as_of
from icestream.sql.statements import Name


def bind_from(tree: exp.Expression, ctx: Context) -> Source:
    """The FROM clause of a SELECT. What stands between two commas is joined first."""
    start = tree.args.get("from_")
    if start is None:
        return Source(ONE_ROW, FromScope(outer=ctx.outer))
    before: Source | None = None
    here = relation(start.this, ctx)
    for join in tree.args.get("joins") or ():
        comma = not any(join.args.get(k) for k in ("side", "kind", "method", "on", "using"))
        if comma and not is_lateral(join.this):
            before, here = crossed(before, here, ctx, join), relation(join.this, ctx)
            check_size(before.node, partial(ctx.place_of, join))
        elif comma:
            before, here = None, _next(crossed(before, here, ctx, join), join, ctx)
        else:
            here = _next(here, join, ctx)
    return crossed(before, here, ctx, start)


def is_lateral(tree: exp.Expression) -> bool:
    """Whether the relation may look at those before it in FROM."""
    return isinstance(tree, exp.Lateral) or is_function(tree)


def _next(left: Source, join: exp.Join, ctx: Context) -> Source:
    found = _join(left, join, ctx)
    check_size(found.node, partial(ctx.place_of, join))
    return found


def _join(left: Source, join: exp.Join, ctx: Context) -> Source:
    if isinstance(join.this, exp.Lateral) and isinstance(join.this.this, exp.Subquery):
        return _lateral(left, join, ctx)
    if is_lateral(join.this):
        called = join.this.this if isinstance(join.this, exp.Lateral) else join.this
        found = function(join.this, called, ctx, left)
        if found.scope.entries[: len(left.scope.entries)] != left.scope.entries:
            return joined(left, found, join, ctx)
        return on_true(left, found, join, kind_of(join, ctx), ctx)
    if is_current(join.this):
        return _temporal(left, join, ctx)
    return joined(left, relation(join.this, ctx), join, ctx)


# -- one relation ---------------------------------------------------------------------------------


def relation(tree: exp.Expression, ctx: Context) -> Source:
    """A relation of FROM, with the joins that stand in parentheses with it."""
    source = _alone(tree, ctx)
    for join in tree.args.get("joins") or ():
        source = _next(source, join, ctx)
    return source


def _alone(tree: exp.Expression, ctx: Context) -> Source:
    if isinstance(tree, exp.Lateral):
        tree = tree.this
    if is_window(tree):
        call = tree.this
        return aliased(tree, *window(tree, _windowed(call.expressions[0], ctx), ctx), ctx)
    if is_function(tree):
        return function(tree, tree, ctx, None)
    if isinstance(tree, exp.Table):
        return _named(tree, ctx)
    if isinstance(tree, exp.Subquery) and isinstance(tree.this, exp.Table | exp.Subquery):
        inner = relation(tree.this, ctx)
        return aliased(tree, _shown(inner), None, ctx) if tree.args.get("alias") else inner
    if isinstance(tree, exp.Subquery | exp.Values):
        return _derived(tree, ctx)
    raise NotSupportedError(f"{written(tree)} in FROM", place=ctx.place_of(tree))


def _windowed(tree: exp.Expression, ctx: Context) -> Source:
    """The relation inside TUMBLE(…), HOP(…) or SESSION(…)."""
    if isinstance(tree, exp.Column):
        table = exp.Table(this=tree.this.copy(), db=tree.args.get("table"))
        table.this.meta.update(tree.this.meta)
        return _named(table, ctx)
    if isinstance(tree, exp.Subquery):
        return _derived(tree, ctx)
    raise SqlError("expected a relation here", place=ctx.place_of(tree))


def _named(tree: exp.Table, ctx: Context) -> Source:
    known = ("this", "db", "alias", "joins", "catalog", "only", "version")
    for key, value in tree.args.items():
        if value and is_current(tree):
            raise SqlError(
                "FOR SYSTEM_TIME AS OF PROCTIME() does not belong here",
                place=ctx.place_of(tree),
                remedy="it stands right after the relation on the right of a JOIN … ON",
            )
        if value and key not in known:
            raise NotSupportedError(f"{key} on a relation in FROM", place=ctx.place_of(tree))
    name = tree.name
    if not tree.db and name in ctx.ctes:
        as_of(tree, Relation("", name, ()), ctx)
        return aliased(tree, renamed(ctx.ctes[name](), ctx), name, ctx)
    found = ctx.relations(Name(name, tree.db or None, ctx.place_of(tree)))
    names = tuple(n for n, _ in found.columns)
    at = as_of(tree, found, ctx)
    if found.query is not None:
        for node in walk(found.query):
            ctx.names.reserve(node.names)
        return aliased(tree, renamed(Output(found.query, names), ctx), name, ctx)
    items = tuple(Item(ctx.names.fresh(n), ColumnRef(type, n)) for n, type in found.columns)
    key = f"{found.key}@{text(at.expr)}" if at else found.key
    return aliased(tree, Output(Scan(key, found.name, items, at), names), name, ctx)


def _derived(tree: exp.Expression, ctx: Context) -> Source:
    query = tree if isinstance(tree, exp.Values) else tree.this
    return aliased(tree, renamed(ctx.bind(query, ctx), ctx), None, ctx)


def renamed(output: Output, ctx: Context) -> Output:
    """The same rows under column names that are new in this query."""
    items = tuple(
        Item(ctx.names.fresh(name), ref)
        for name, ref in zip(output.names, refs(output.node), strict=True)
    )
    return Output(Project(output.node, items), output.names)


def _shown(source: Source) -> Output:
    entries = [e for e in source.scope.entries if e.bare]
    items = tuple(Item(e.ref.name, e.ref) for e in entries)
    return Output(Project(source.node, items), tuple(e.name for e in entries))


def aliased(tree: exp.Expression, output: Output, name: str | None, ctx: Context) -> Source:
    """The relation under its alias, with the columns that the alias names."""
    alias = tree.args.get("alias")
    qualifier = alias.name if alias and alias.this else name
    given = [c.name for c in (alias.args.get("columns") or ())] if alias else []
    names = with_aliases(output.names, given, qualifier, alias, ctx)
    entries = tuple(
        Visible(n, qualifier, ref) for n, ref in zip(names, refs(output.node), strict=True)
    )
    return Source(output.node, FromScope(entries=entries, outer=ctx.outer))


# -- temporal joins -------------------------------------------------------------------------------


def is_current(tree: exp.Expression) -> bool:
    """Whether the relation is FOR SYSTEM_TIME AS OF PROCTIME(), or NOW()."""
    version = tree.args.get("version") if isinstance(tree, exp.Table) else None
    if version is None or str(version.this).upper() != "TIMESTAMP":
        return False
    moment = version.args.get("expression")
    named = isinstance(moment, exp.Anonymous) and not moment.expressions
    return isinstance(moment, exp.CurrentTimestamp) or (
        named and moment.name.lower() in ("proctime", "now")
    )


def _temporal(left: Source, join: exp.Join, ctx: Context) -> Source:
    """A row of the left looks up the right once, when it comes."""
    place = ctx.place_of(join.this)
    if is_asof(join):
        raise SqlError("a join is temporal or ASOF, not both", place=place)
    kind = kind_of(join, ctx)
    if kind == "cross":
        raise SqlError("a temporal join needs ON or USING", place=place)
    if kind not in ("inner", "left"):
        raise SqlError(
            f"a temporal join cannot be a {kind} join: the right is looked up, its rows do not come by themselves",
            place=place,
            remedy="write JOIN or LEFT JOIN, with the relation that is looked up on the right",
        )
    if ctx.outer is not None:
        raise NotSupportedError(
            "a temporal join in a subquery of an expression", place=place, remedy="put it into FROM"
        )
    table = join.this.copy()
    table.set("version", None)
    right = relation(table, ctx)
    if not isinstance(right.node, Scan):
        raise SqlError(
            f'"{table.name}" is a query, and a temporal join looks up what is stored',
            place=place,
            remedy="look up a table, a materialized view or an Iceberg source",
        )
    return joined(left, right, join, ctx, temporal=True)


# -- LATERAL --------------------------------------------------------------------------------------


def _lateral(left: Source, join: exp.Join, ctx: Context) -> Source:
    """A subquery that looks at the relations before it."""
    kind = kind_of(join, ctx)
    if kind not in ("inner", "cross", "left"):
        raise SqlError(
            "the combining JOIN type must be INNER or LEFT for a LATERAL reference",
            place=ctx.place_of(join),
        )
    subquery = join.this.this
    output = renamed(ctx.bind(subquery.this, ctx.inner(left.scope)), ctx)
    right = aliased(join.this, output, None, ctx)
    refuse_twice(left, right, ctx, join)
    freed = decorrelate(right.node, left.node, ctx.names)
    scope = left.scope.beside(right.scope)
    on = join.args.get("on")
    condition = on_condition(on, scope, ctx) if on is not None else None
    if not freed.lifted and not freed.defaults:
        tests = both(c for c in (*freed.conditions, condition) if c is not None)
        made = kind if kind == "left" else ("inner" if tests else "cross")
        return Source(Join(made, left.node, freed.node, tests), scope)
    if kind == "left" and condition is not None:
        raise NotSupportedError(
            "a condition on a LEFT JOIN LATERAL of this form", place=ctx.place_of(join)
        )
    marker = Item(ctx.names.fresh("found"), calls.whole(1))
    inner = Project(freed.node, (*kept(freed.node), marker))
    outer = kind == "left" or bool(freed.defaults)
    whole: Node = Join("left" if outer else "inner", left.node, inner, both(freed.conditions))
    present = call("is not null", marker.ref)
    items = []
    for ref in refs(right.node):
        value = freed.lifted.get(ref.name, ref)
        empty = freed.defaults.get(ref.name, calls.null(ref.type))
        items.append(Item(ref.name, calls.choose(present, value, empty) if outer else value))
    whole = Project(whole, (*kept(left.node), *items))
    return Source(Filter(whole, condition) if condition is not None else whole, scope)
