"""FOR SYSTEM_VERSION and FOR SYSTEM_TIME AS OF: a relation as it was, at a constant that says when."""

from __future__ import annotations

from sqlglot import exp

from icestream import types as t
from icestream.errors import NotSupportedError, SqlError
from icestream.functions import Scope
from icestream.functions.expressions import Expr
from icestream.plan.calls import binder_of, call, converted
from icestream.plan.clauses import refuse
from icestream.plan.logical import AsOf
from icestream.plan.scope import Context, Relation


def as_of(tree: exp.Table, relation: Relation, ctx: Context) -> AsOf | None:
    """The version that is written after a relation's name; None if there is none."""
    version = tree.args.get("version")
    if version is None:
        return None
    moment, place = version.args.get("expression"), ctx.place_of(tree)
    if version.args.get("kind") != "AS OF":
        raise NotSupportedError("versions other than AS OF one", place=place)
    if moment is None:
        raise SqlError("AS OF what? A version or a moment is missing", place=place)
    if not relation.versions:
        raise SqlError(
            f'"{relation.name}" has no versions to be read',
            place=place,
            remedy="tables, materialized views and Iceberg sources have: name those",
        )
    bind = _snapshot if version.this == "VERSION" else _moment
    return AsOf(relation.key, bind(moment, ctx), place)


def _snapshot(tree: exp.Expression, ctx: Context) -> Expr:
    expr = _constant(tree, "FOR SYSTEM_VERSION AS OF", ctx)
    if expr.type not in (*t.INTEGERS, t.NULL):
        raise SqlError(
            "FOR SYSTEM_VERSION AS OF takes the id of a snapshot",
            place=ctx.place_of(tree),
            remedy='SELECT snapshot_id, committed_at FROM "…$snapshots" lists them',
        )
    return binder_of(Scope(), ctx.place_of).coerce(expr, t.BIGINT, tree)


def _moment(tree: exp.Expression, ctx: Context) -> Expr:
    expr = _constant(tree, "FOR SYSTEM_TIME AS OF", ctx)
    if expr.type in t.INTEGERS:
        return call("to_timestamp", converted(expr, t.DOUBLE))
    what = "FOR SYSTEM_TIME AS OF"
    return binder_of(Scope(), ctx.place_of).assign(expr, t.TIMESTAMPTZ, tree, what)


def _constant(tree: exp.Expression, what: str, ctx: Context) -> Expr:
    """An expression without columns, subqueries and aggregates."""
    expr = binder_of(Scope(), ctx.place_of).visit(tree)
    refuse(expr, what, tree, ctx)
    return expr
