"""Two relations of FROM become one: ON, USING, NATURAL, LATERAL, ASOF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from icestream import types as t
from icestream.errors import NotSupportedError, SqlError, did_you_mean
from icestream.functions.coercion import common_type, describe
from icestream.functions.expressions import Expr, Literal
from icestream.plan.asof import asof, is_asof
from icestream.plan.calls import both, call, converted
from icestream.plan.clauses import conditions, refuse
from icestream.plan.logical import Item, Join, JoinKind, Project
from icestream.plan.rewrite import kept
from icestream.plan.scope import Context, FromScope, Source, Visible
from icestream.plan.subqueries import Subqueries

_KINDS = ("", "INNER", "OUTER", "CROSS")
_SIDES: dict[str, JoinKind] = {"LEFT": "left", "RIGHT": "right", "FULL": "full"}


def kind_of(join: exp.Join, ctx: Context) -> JoinKind:
    """The kind of a join as written. A comma and a join without a condition are cross joins."""
    kind = str(join.args.get("kind") or "").upper()
    method = str(join.args.get("method") or "").upper()
    if is_asof(join):
        what = "ASOF JOIN with a function or LATERAL"
        raise NotSupportedError(what, place=ctx.place_of(join))
    if kind not in _KINDS or method not in ("", "NATURAL"):
        what = f"{method} {kind}".strip().removesuffix(" JOIN").removesuffix("_JOIN") + " JOIN"
        raise NotSupportedError(what, place=ctx.place_of(join))
    side = str(join.args.get("side") or "").upper()
    if side in _SIDES:
        return _SIDES[side]
    return "inner" if any(join.args.get(k) for k in ("on", "using", "method")) else "cross"


def crossed(left: Source | None, right: Source, ctx: Context, at: exp.Expression) -> Source:
    """All pairs; `left` may be nothing yet."""
    if left is None:
        return right
    refuse_twice(left, right, ctx, at)
    return Source(Join("cross", left.node, right.node), left.scope.beside(right.scope))


def joined(
    left: Source, right: Source, join: exp.Join, ctx: Context, *, temporal: bool = False
) -> Source:
    """The two under the join's condition. `temporal`: the right as it is when a row of the left comes."""
    refuse_twice(left, right, ctx, join)
    if is_asof(join):
        scope = left.scope.beside(right.scope)
        return asof(left, right, join, ctx, lambda tree: _on(tree, scope, ctx))
    kind = kind_of(join, ctx)
    shared = _shared(left.scope, right.scope, join, ctx)
    if shared is not None:
        return _merged(left, right, kind, shared, ctx, temporal)
    scope = left.scope.beside(right.scope)
    on = join.args.get("on")
    if on is None:
        if kind != "cross":
            raise SqlError(f"a {kind} join needs ON or USING", place=ctx.place_of(join))
        return Source(Join(kind, left.node, right.node), scope)
    if any(isinstance(n, exp.Query) for n in on.walk()):
        if temporal:
            what = "a subquery in the ON of a temporal join"
            raise NotSupportedError(what, place=ctx.place_of(on))
        return _with_subqueries(left, right, kind, on, scope, ctx)
    condition = on_condition(on, scope, ctx)
    return Source(Join(kind, left.node, right.node, condition, temporal), scope)


def on_condition(on: exp.Expression, scope: FromScope, ctx: Context) -> Expr | None:
    """ON …; None if it is simply true."""
    bound = [c for tree in conditions(on) for c in [_on(tree, scope, ctx)] if c is not None]
    return both(bound)


def _on(tree: exp.Expression, scope: FromScope, ctx: Context) -> Expr | None:
    condition = Subqueries(ctx, scope).boolean(tree, "JOIN/ON")
    refuse(condition, "JOIN conditions", tree, ctx)
    return None if condition == Literal(t.BOOLEAN, True) else condition


def _with_subqueries(
    left: Source, right: Source, kind: JoinKind, on: exp.Expression, scope: FromScope, ctx: Context
) -> Source:
    if kind not in ("inner", "cross"):
        raise NotSupportedError("a subquery in the ON of an outer join", place=ctx.place_of(on))
    pairs = Source(Join("cross", left.node, right.node), scope)
    return replace(pairs, node=Subqueries(ctx, scope).filtered(pairs.node, on, "JOIN/ON"))


def refuse_twice(left: Source, right: Source, ctx: Context, at: exp.Expression) -> None:
    """A name for a relation stands for one of them only."""
    known = {e.qualifier for e in left.scope.entries if e.qualifier}
    for entry in right.scope.entries:
        if entry.qualifier in known:
            raise SqlError(
                f'table name "{entry.qualifier}" specified more than once',
                place=ctx.place_of(at),
                remedy="give one of them another name with AS",
                code="42712",
            )


# -- USING and NATURAL ----------------------------------------------------------------------------


def _shared(
    left: FromScope, right: FromScope, join: exp.Join, ctx: Context
) -> Sequence[tuple[str, exp.Expression]] | None:
    """The columns to join on, each with where it was written; None for ON and cross joins."""
    if using := join.args.get("using"):
        return [(u.name, u) for u in using]
    if str(join.args.get("method") or "").upper() != "NATURAL":
        return None
    names = {e.name for e in right.entries if e.bare}
    return [(e.name, join) for e in left.entries if e.bare and e.name in names]


def _one(scope: FromScope, name: str, side: str, at: exp.Expression, ctx: Context) -> Visible:
    found = [e for e in scope.entries if e.bare and e.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise SqlError(
            f'common column name "{name}" appears more than once in {side} table',
            place=ctx.place_of(at),
        )
    raise SqlError(
        f'column "{name}" specified in USING clause does not exist in {side} table',
        place=ctx.place_of(at),
        remedy=did_you_mean(name, (e.name for e in scope.entries if e.bare)),
    )


def _merged(
    left: Source,
    right: Source,
    kind: JoinKind,
    shared: Sequence[tuple[str, exp.Expression]],
    ctx: Context,
    temporal: bool,
) -> Source:
    equal: list[Expr] = []
    items: list[Item] = []
    merged: list[Visible] = []
    for name, at in shared:
        a, b = (
            _one(left.scope, name, "left", at, ctx).ref,
            _one(right.scope, name, "right", at, ctx).ref,
        )
        type = common_type([a.type, b.type])
        if type is None:
            raise SqlError(
                f"JOIN/USING types {describe(a.type)} and {describe(b.type)} cannot be matched",
                place=ctx.place_of(at),
            )
        equal.append(call("=", a, b))
        value: Expr = b if kind == "right" else a
        if kind == "full":
            value = call("coalesce", a, b)
        value = converted(value, type)
        if value not in (a, b):
            items.append(Item(ctx.names.fresh(name), value))
            value = items[-1].ref
        merged.append(Visible(name, None, value))
    whole = "cross" if kind == "inner" and not equal else kind
    node = Join(whole, left.node, right.node, both(equal), temporal)
    names = {n for n, _ in shared}
    both_sides = (*left.scope.entries, *right.scope.entries)
    rest = tuple(replace(e, bare=e.bare and e.name not in names) for e in both_sides)
    scope = replace(left.scope, entries=(*merged, *rest))
    return Source(Project(node, (*kept(node), *items)) if items else node, scope)
