"""ASOF joins: each row of the left beside the nearest row of the right, made of plain joins and windows.

The rows of the left are numbered inside their equal keys, so that equal ones stay apart; all pairs under the condition
are numbered by their distance, ties settled by the columns of the right, and the first pair of each row is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from icestream import types as t
from icestream.errors import NotSupportedError, SqlError
from icestream.functions.expressions import Call, Expr, Sort, columns_used
from icestream.plan.calls import both, call, numbered, whole
from icestream.plan.clauses import conditions
from icestream.plan.logical import Filter, Item, Join, JoinKind, Node, Project, Window
from icestream.plan.rewrite import kept, refs
from icestream.plan.scope import Context, Source
from icestream.types import ArrayType, MapType, StructType, Type

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class _Condition:
    """The ON of an ASOF join: what is equal on the left, and the inequality as `left operator right`."""

    whole: Expr
    keys: tuple[Expr, ...]
    operator: str
    left: Expr
    right: Expr


def is_asof(join: exp.Join) -> bool:
    """Whether ASOF was written before the join."""
    return "ASOF" in (str(join.args.get(k) or "").upper() for k in ("method", "kind"))


def asof(
    left: Source,
    right: Source,
    join: exp.Join,
    ctx: Context,
    bind: Callable[[exp.Expression], Expr | None],
) -> Source:
    """left ASOF [INNER | LEFT] JOIN right ON …; `bind` binds one condition over the columns of both."""
    side = str(join.args.get("side") or "").upper()
    if side not in ("", "LEFT"):
        raise NotSupportedError(
            f"ASOF {side} JOIN",
            place=ctx.place_of(join),
            remedy="write ASOF JOIN or ASOF LEFT JOIN",
        )
    on = join.args.get("on")
    if on is None:
        raise SqlError(
            "an ASOF join needs ON",
            place=ctx.place_of(join),
            remedy="ON a.key = b.key AND a.time >= b.time",
        )
    if any(isinstance(n, exp.Query) for n in on.walk()):
        raise NotSupportedError("a subquery in the ON of an ASOF join", place=ctx.place_of(on))
    found = _condition(left.node, right.node, on, ctx, bind)
    node = _nearest("left" if side else "inner", left.node, right.node, found, ctx)
    return Source(node, left.scope.beside(right.scope))


def _nearest(kind: JoinKind, left: Node, right: Node, on: _Condition, ctx: Context) -> Node:
    """Times stand first in the orders, and in what the pairs are told apart by, so that they close as time passes."""
    mine = (Sort(on.left, False, False), *_sorts(left, (on.left,)))
    row = Item(ctx.names.fresh("row"), numbered("row_number", on.keys, mine))
    pairs = Join(kind, Window(left, (row,)), right, on.whole)
    nearest = Sort(on.right, on.operator in (">", ">="), False)
    order = (nearest, *_sorts(right, (on.right,)))
    one = dict.fromkeys((*on.keys, on.left, row.ref))
    place = Item(ctx.names.fresh("place"), numbered("row_number", tuple(one), order))
    first = Filter(Window(pairs, (place,)), call("=", place.ref, whole(1)))
    return Project(first, (*kept(left), *kept(right)))


def _sorts(node: Node, without: Sequence[Expr]) -> list[Sort]:
    """All columns of a node that have an order, as keys of one."""
    return [Sort(r, False, False) for r in refs(node) if r not in without and _has_order(r.type)]


def _has_order(type: Type) -> bool:
    match type:
        case ArrayType(element=element):
            return _has_order(element)
        case StructType(fields=fields):
            return all(_has_order(f.type) for f in fields)
    return not isinstance(type, MapType) and type != t.INTERVAL


# -- the condition --------------------------------------------------------------------------------


def _condition(
    left: Node,
    right: Node,
    on: exp.Expression,
    ctx: Context,
    bind: Callable[[exp.Expression], Expr | None],
) -> _Condition:
    bound: list[Expr] = []
    keys: list[Expr] = []
    nearest: list[tuple[str, Expr, Expr]] = []
    trees: list[exp.Expression] = []
    for tree in conditions(on):
        expr = bind(tree)
        compared = _compared(expr, left, right) if expr is not None else None
        if expr is None or compared is None:
            raise NotSupportedError(
                "this condition in an ASOF join",
                place=ctx.place_of(tree),
                remedy="compare columns of the left with columns of the right; "
                "put other conditions into WHERE, or into a subquery in FROM",
            )
        bound.append(expr)
        if compared[0] == "=":
            keys.append(compared[1])
        else:
            nearest.append(compared)
            trees.append(tree)
    if len(nearest) != 1:
        raise SqlError(
            f"an ASOF join needs exactly one inequality, found {len(nearest) or 'none'}",
            place=ctx.place_of(trees[1] if trees else on),
            remedy="ON a.key = b.key AND a.time >= b.time",
        )
    condition = both(bound)
    assert condition is not None
    return _Condition(condition, tuple(dict.fromkeys(keys)), *nearest[0])


def _compared(expr: Expr, left: Node, right: Node) -> tuple[str, Expr, Expr] | None:
    """A comparison of the two sides as operator, left, right; None if it is anything else."""
    if not isinstance(expr, Call) or expr.function.name not in ("=", *_MIRRORED):
        return None
    a, b = expr.args
    operator = expr.function.name
    if _reads(a, left) and _reads(b, right):
        return operator, a, b
    if _reads(b, left) and _reads(a, right):
        return _MIRRORED.get(operator, operator), b, a
    return None


def _reads(expr: Expr, node: Node) -> bool:
    used = {c.name for c in columns_used(expr)}
    return bool(used) and used <= set(node.names)
