"""WATERMARK FOR column AS expression: how far behind the newest row another one may come, and what is done with later ones."""

from __future__ import annotations

from collections.abc import Sequence

from icestream import types as t
from icestream.catalog.objects import Ingest, Watermark
from icestream.connectors.base import Column
from icestream.errors import NotSupportedError, SqlError, did_you_mean
from icestream.functions.bind import bind, bind_as
from icestream.functions.coercion import describe
from icestream.functions.expressions import (
    Expr,
    columns_used,
    has_aggregate,
    has_window,
    is_pure,
    is_set_returning,
)
from icestream.functions.scope import Scope
from icestream.sql import statements as st
from icestream.sql.options import OptionSpec

LATE_ROWS = OptionSpec(
    "late_rows",
    default="drop",
    choices=("drop", "keep"),
    help="what is done with rows that come after the watermark has passed them",
)

_TIMES = (t.TIMESTAMP, t.TIMESTAMPTZ, t.DATE)


def watermark_of(
    statement: st.CreateSource | st.CreateTable, columns: Sequence[Column], what: str
) -> Watermark | None:
    """The watermark that the statement declares, bound over all columns of the object."""
    if not statement.watermarks:
        return None
    first, *others = statement.watermarks
    if others:
        raise SqlError(
            f"{what} has more than one watermark",
            place=others[0].place,
            remedy="keep the one that its rows are in order by",
        )
    if first.ttl:
        raise NotSupportedError(
            "WATERMARK … WITH TTL",
            place=first.place,
            remedy="leave WITH TTL out: rows then stay in the table",
        )
    known = {c.name: c.type for c in columns}
    kind = known.get(first.column)
    if kind is None:
        remedy = did_you_mean(first.column, known)
        raise SqlError(f"{what} has no column {first.column}", place=first.place, remedy=remedy)
    if kind not in _TIMES:
        raise SqlError(
            f"a watermark follows a timestamp, timestamptz or date, but {first.column} is {describe(kind)}",
            place=first.place,
            remedy="declare a generated column of such a type, and the watermark for it",
        )
    return Watermark(first.column, _bound(first, kind, Scope.of(known)))


def _bound(mark: st.Watermark, kind: t.Type, scope: Scope) -> Expr:
    tree, place_of, place = mark.expression.tree, mark.expression.place_of, mark.expression.place
    expr = bind(tree, scope, place_of)
    remedy = f"write {mark.column} - INTERVAL '5 seconds', or just {mark.column}"
    if has_aggregate(expr) or has_window(expr) or is_set_returning(expr):
        raise SqlError(
            "a watermark is computed row by row: no aggregate, window or set-returning function",
            place=place,
            remedy=remedy,
        )
    if not is_pure(expr):
        raise SqlError(
            "a watermark follows from the rows alone, whenever they are read",
            place=place,
            remedy=remedy,
        )
    if mark.column not in {c.name for c in columns_used(expr)}:
        raise SqlError(
            f"the watermark for {mark.column} does not look at {mark.column}",
            place=place,
            remedy=remedy,
        )
    if expr.type != kind and (kind, expr.type) != (t.DATE, t.TIMESTAMP):
        raise SqlError(
            f"the watermark for {mark.column} must be {describe(kind)}, not {describe(expr.type)}",
            place=place,
            remedy=remedy,
        )
    return bind_as(tree, kind, scope, place_of, what=f'the watermark for "{mark.column}"')


def late_rows_of(ingest: Ingest, mark: Watermark | None) -> str:
    """What the option late_rows says; without a watermark no row is late, and it may not be given."""
    if mark is None and ingest.settings.given(LATE_ROWS.name):
        raise SqlError(
            f"{ingest.settings.what} has late_rows, but no watermark: no row is late",
            place=ingest.settings.place(LATE_ROWS.name),
            remedy="add WATERMARK FOR … AS …, or leave it out",
        )
    return str(ingest.settings[LATE_ROWS.name])
