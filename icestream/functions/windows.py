"""Window functions: their types, and how a call with its OVER clause is written for Spark."""

from __future__ import annotations

import re
from collections.abc import Sequence

from icestream import types as t
from icestream.functions.expressions import AggregateCall, Call, WindowCall
from icestream.functions.function import ANYELEMENT, Function, Param, Result, Rows
from icestream.types import Type, spark_type


def _same(types: Sequence[Type]) -> Type:
    return types[0]


def _row(name: str, args: tuple[Param, ...], result: Result, spark: str) -> Function:
    return Function(name, args, result, spark, kind="window", strict=False)


ROWS: Rows = (
    _row("row_number", (), t.BIGINT, "row_number()"),
    _row("rank", (), t.BIGINT, "rank()"),
    _row("dense_rank", (), t.BIGINT, "dense_rank()"),
    _row("percent_rank", (), t.DOUBLE, "percent_rank()"),
    _row("cume_dist", (), t.DOUBLE, "cume_dist()"),
    _row("ntile", (t.INTEGER,), t.INTEGER, "ntile({0})"),
    *(
        row
        for name in ("lag", "lead")
        for row in (
            _row(name, (ANYELEMENT,), _same, name + "({0})"),
            _row(name, (ANYELEMENT, t.INTEGER), _same, name + "({0}, {1})"),
            _row(name, (ANYELEMENT, t.INTEGER, ANYELEMENT), _same, name + "({0}, {1}, {2})"),
        )
    ),
    _row("first_value", (ANYELEMENT,), _same, "first_value({0})"),
    _row("last_value", (ANYELEMENT,), _same, "last_value({0})"),
    _row("nth_value", (ANYELEMENT, t.INTEGER), _same, "nth_value({0}, {1})"),
)

# Spark counts in int and insists on an ORDER BY; PostgreSQL numbers unordered rows too
_NEEDS_ORDER = {"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "nth_value"}  # fmt: skip
_CONSTANT = {"rank": "1L", "dense_rank": "1L", "percent_rank": "0D", "cume_dist": "1D"}


_AGGREGATES = re.compile(
    r"\b(?:try_sum|sum|avg|count|count_if|min|max|min_by|max_by|bool_and|bool_or|every|bit_and|bit_or|bit_xor|stddev_samp|"
    r"stddev_pop|var_samp|var_pop|corr|covar_pop|covar_samp|regr_\w+|collect_list|collect_set|percentile|mode)\("
)


def _over_each(body: str, over: str) -> str:
    """An aggregate's template may wrap and combine Spark's aggregates: each of them gets the OVER clause."""
    out, i = "", 0
    while i < len(body):
        if body[i] in "'`":
            end = _quoted(body, i)
            out, i = out + body[i:end], end
        elif match := _AGGREGATES.match(body, i):
            end = _closing(body, match.end())
            out, i = out + body[i:end] + over, end
        else:
            word = re.compile(r"\w+|\W").match(body, i)
            assert word
            out, i = out + word.group(0), word.end()
    return out


def _quoted(body: str, i: int) -> int:
    end = i + 1
    while body[end] != body[i]:
        end += 2 if body[end] == "\\" and body[i] == "'" else 1
    return end + 1


def _closing(body: str, i: int) -> int:
    depth = 1
    while depth:
        if body[i] in "'`":
            i = _quoted(body, i)
            continue
        depth += {"(": 1, ")": -1}.get(body[i], 0)
        i += 1
    return i


def text(inner: str, clause: str, expr: WindowCall) -> str:
    """The call with OVER (…), of the bound type."""
    name = expr.call.function.name if isinstance(expr.call, Call | AggregateCall) else ""
    if name in _NEEDS_ORDER and not expr.order_by:
        if name in _CONSTANT:
            return _CONSTANT[name]
        clause = f"{clause} ORDER BY NULL".strip()
    nulls = " IGNORE NULLS" if expr.ignore_nulls else ""
    if isinstance(expr.call, AggregateCall):
        return _over_each(inner, f" OVER ({clause})")
    over = f"{inner}{nulls} OVER ({clause})"
    return (
        f"CAST({over} AS {spark_type(expr.type)})"
        if name in ("row_number", "rank", "dense_rank")
        else over
    )
