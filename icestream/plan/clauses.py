"""What may stand in which clause, and the conditions that a clause is made of."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from icestream.errors import NotSupportedError, SqlError
from icestream.functions.conversions import PlaceOf
from icestream.functions.expressions import (
    AggregateCall,
    Call,
    Expr,
    WindowCall,
    columns_used,
    has_aggregate,
    has_window,
    is_set_returning,
    walk,
)
from icestream.plan.scope import Context, OuterRef


def conditions(tree: exp.Expression) -> Iterator[exp.Expression]:
    """The conditions that an AND of them all was made of."""
    if isinstance(tree, exp.Paren) and isinstance(tree.this, exp.And | exp.Paren):
        yield from conditions(tree.this)
    elif isinstance(tree, exp.And):
        yield from conditions(tree.this)
        yield from conditions(tree.expression)
    else:
        yield tree


def refuse(expr: Expr, where: str, tree: exp.Expression, ctx: Context) -> None:
    """No aggregate, window or set-returning call may stand in that clause."""
    refuse_calls(expr, where, tree, ctx.place_of)


def refuse_calls(expr: Expr, where: str, tree: exp.Expression, place_of: PlaceOf) -> None:
    """The same for an expression outside of a query: of a DEFAULT, a generated column."""
    if has_aggregate(expr):
        for call in (e for e in walk(expr) if isinstance(e, AggregateCall)):
            refuse_outer(call, calling(tree, AggregateCall), place_of)
        raise SqlError(
            f"aggregate functions are not allowed in {where}",
            place=place_of(calling(tree, AggregateCall)),
            remedy="use HAVING for conditions on groups" if where == "WHERE" else None,
            code="42803",
        )
    refuse_windows(expr, where, tree, place_of)


def refuse_outer(call: AggregateCall, tree: exp.Expression, place_of: PlaceOf) -> None:
    """An aggregate of nothing but columns of the query around belongs to that one, as in PostgreSQL."""
    used = columns_used(call)
    if used and all(isinstance(column, OuterRef) for column in used):
        raise NotSupportedError(
            f"{call.function.name}() over columns of the query around, which belongs to that query",
            place=place_of(tree),
            remedy="compute it in FROM of the query around and use its column here: FROM (SELECT g, count(v) AS n …) AS t",
        )


def refuse_windows(expr: Expr, where: str, tree: exp.Expression, place_of: PlaceOf) -> None:
    """No window or set-returning call may stand in that clause."""
    if has_window(expr):
        raise SqlError(
            f"window functions are not allowed in {where}",
            place=place_of(tree.find(exp.Window) or tree),
            remedy="compute it in a subquery and use its column here",
            code="42P20",
        )
    if is_set_returning(expr):
        raise SqlError(
            f"set-returning functions are not allowed in {where}",
            place=place_of(calling(tree, Call)),
            code="0A000",
        )


def calling(tree: exp.Expression, kind: type[Expr]) -> exp.Expression:
    """The first function call in the tree that an aggregate or set-returning call may come from."""
    wanted = (exp.AggFunc, exp.Anonymous) if kind is AggregateCall else (exp.Func,)
    return next((n for n in tree.walk() if isinstance(n, wanted)), tree)


def parts(call: WindowCall) -> tuple[Expr, ...]:
    """The expressions inside a window call that are not the call itself."""
    return (*call.call.children(), *(e for e in call.children() if e is not call.call))
