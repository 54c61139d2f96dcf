"""The rows that INSERT and UPDATE put into columns: a query's, each value converted as PostgreSQL assigns it.

Values are told by position, whatever their names. One that cannot be converted is NULL, and marked as lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial, reduce

from sqlglot import exp

from icestream import types as t
from icestream.errors import SqlError
from icestream.functions import Scope
from icestream.functions.bind import Binder
from icestream.functions.expressions import Call, Cast, Expr, Literal
from icestream.functions.literals import DIGITS
from icestream.functions.registry import REGISTRY
from icestream.plan.calls import binder_of, call
from icestream.plan.logical import Item, Node, OutColumn, Project, Values
from icestream.plan.query import Relations, bind_open, cells
from icestream.plan.rewrite import refs
from icestream.plan.scope import HIDDEN
from icestream.plan.tidy import tidy
from icestream.sql.collection import pause_collection
from icestream.sql.statements import Query
from icestream.types import ArrayType, Type

LOST = f"{HIDDEN}lost "
"""How the names of marks begin: a mark is true where the value of the column after it was lost."""


@dataclass(frozen=True)
class Target:
    """A column that is assigned to: the name that its values have in the rows, its own, and its type."""

    name: str
    column: str
    type: Type
    default: Expr | None = None
    """What DEFAULT stands for, of that type; None is NULL."""


@dataclass(frozen=True)
class _Assigned:
    value: Expr
    lost: Expr | None


def bind_assigned(
    query: Query,
    relations: Relations,
    targets: Sequence[Target],
    *,
    every: bool = True,
    row_by_row: str | None = None,
) -> Node:
    """The plan of the rows: the targets' columns, and marks for those whose values may be lost.

    A query has a value for every target, or, if not `every`, for the first ones. `row_by_row` is that of bind_query.
    """
    tree = query.tree
    if isinstance(tree, exp.Values) and not any(tree.args.get(k) for k in ("order", "limit")):
        with pause_collection(query.text):
            rows = cells(without_defaults(query), relations)
            targets = _filled(len(rows[0]), targets, every, query)
            pairs = [zip(row, targets, strict=True) for row in rows]
            made = [[_assigned(*c, x, query) for c, x in row] for row in pairs]
            for row, at in _defaults(tree):
                value = targets[at].default or Literal(targets[at].type, None)
                made[row][at] = _Assigned(value, None)
            return _values(made, targets)
    node = bind_open(query, relations, row_by_row=row_by_row).node
    targets = _filled(len(node.columns), targets, every, query)
    items = node.items if isinstance(node, Project) else ()
    written = {i.name: i.expr for i in items if _is_written(i.expr)}
    sources = [written.get(ref.name, ref) for ref in refs(node)]
    read = [_assigned(s, tree, target, query) for s, target in zip(sources, targets, strict=True)]
    values = [Item(target.name, a.value) for a, target in zip(read, targets, strict=True)]
    marks = [Item(LOST + i.name, a.lost) for i, a in zip(values, read, strict=True) if a.lost]
    return tidy(Project(node, (*values, *marks)))


def is_default(tree: exp.Expression) -> bool:
    """Whether it is the word DEFAULT."""
    return isinstance(tree, exp.Var)


def without_defaults(query: Query) -> Query:
    """A query with NULL in the place of each DEFAULT of its VALUES."""
    if not any(True for _ in _defaults(query.tree)):
        return query
    tree = query.tree.copy()
    for row, at in list(_defaults(tree)):
        tree.expressions[row].expressions[at].replace(exp.Null())
    return replace(query, tree=tree)


def _defaults(tree: exp.Expression) -> Iterator[tuple[int, int]]:
    """Where VALUES has DEFAULT: row and column."""
    if isinstance(tree, exp.Values):
        for number, row in enumerate(tree.expressions):
            for at, value in enumerate(row.args.get("expressions") or ()):
                if is_default(value):
                    yield number, at


def _filled(given: int, targets: Sequence[Target], every: bool, query: Query) -> Sequence[Target]:
    """The targets that get a value."""
    if given > len(targets) or (every and given < len(targets)):
        word = "more" if given > len(targets) else "fewer"
        raise SqlError(f"INSERT has {word} values than columns", place=query.place)
    return targets[:given]


def _assigned(source: Expr, at: exp.Expression, target: Target, query: Query) -> _Assigned:
    binder = binder_of(Scope(), query.place_of)
    if source.type == t.NULL and not _is_literal(source):
        source = Cast(t.VARCHAR, source)
        value: Expr = Cast(target.type, source)
    else:
        value = _folded(_converted(binder, source, at, target))
    if isinstance(target.type, ArrayType) and _is_array(source):
        inner = replace(target, type=target.type.element)
        parts = [_assigned(element, at, inner, query) for element in source.children()]
        whole = Call(target.type, REGISTRY["array"][0], tuple(p.value for p in parts))
        marks = [p.lost for p in parts if p.lost]
        return _Assigned(whole, reduce(partial(call, "or"), marks) if marks else None)
    if value is source or target.type == t.VARCHAR or getattr(source, "value", 0) is None:
        return _Assigned(value, None)
    if isinstance(value, Literal):
        return _Assigned(value, Literal(t.BOOLEAN, True) if value.value is None else None)
    if _is_literal(source) and source.type == t.NULL:
        return _Assigned(value, None)
    if _is_literal(source):
        return _Assigned(value, call("is null", value))
    return _Assigned(value, call("and", call("is null", value), call("is not null", source)))


def _converted(binder: Binder, source: Expr, at: exp.Expression, target: Target) -> Expr:
    """The value as the column's type. The error of a text that is none names the column."""
    try:
        return binder.assign(source, target.type, at, f'column "{target.column}"')
    except SqlError as error:
        if source.type != t.NULL:
            raise
        message = f'{error.message}, in column "{target.column}"'
        raise SqlError(message, place=error.place, remedy=error.remedy, code=error.code) from None


def _is_array(source: Expr) -> bool:
    return isinstance(source, Call) and source.function.name == "array"


def _folded(value: Expr) -> Expr:
    """A number that was written with a point, as the number that its column has."""
    match value:
        case Cast(type=t.DOUBLE, arg=Literal(value=Decimal() as number)):
            return Literal(t.DOUBLE, float(number))
        case Cast(type=t.NumericType(precision=p, scale=s), arg=Literal(value=Decimal() as number)):
            rounded = number.quantize(
                Decimal(1).scaleb(-s), ROUND_HALF_UP, Context(prec=2 * DIGITS)
            )
            return Literal(value.type, rounded if rounded.copy_abs() < 10 ** (p - s) else None)
    return value


def _is_written(expr: Expr) -> bool:
    """Whether it is an untyped literal, or an array of constants."""
    if isinstance(expr, Call):
        return expr.function.name == "array" and all(map(_is_literal, expr.args))
    return _is_literal(expr) and expr.type == t.NULL


def _is_literal(expr: Expr) -> bool:
    return isinstance(expr, Literal)


def _values(rows: Sequence[Sequence[_Assigned]], targets: Sequence[Target]) -> Node:
    no = Literal(t.BOOLEAN, False)
    marked = [i for i in range(len(targets)) if any(row[i].lost for row in rows)]
    outputs = [OutColumn(target.name, target.type) for target in targets]
    outputs += [OutColumn(LOST + targets[i].name, t.BOOLEAN) for i in marked]
    made = [(*(a.value for a in row), *(row[i].lost or no for i in marked)) for row in rows]
    return Values(tuple(made), tuple(outputs))
