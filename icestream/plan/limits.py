"""LIMIT, OFFSET and FETCH."""

from __future__ import annotations

from sqlglot import exp

from icestream.errors import NotSupportedError, SqlError
from icestream.plan.logical import Limit, Node
from icestream.plan.scope import Context


def limited(node: Node, tree: exp.Expression, ctx: Context) -> Node:
    """The plan with the LIMIT and OFFSET of a query, if it has them."""
    limit, offset = tree.args.get("limit"), tree.args.get("offset")
    if limit is None and offset is None:
        return node
    skipped = _number(offset.expression, "OFFSET", ctx) if offset is not None else 0
    if not isinstance(limit, exp.Fetch):
        count = _number(limit.expression, "LIMIT", ctx) if limit is not None else None
        return Limit(node, count, skipped or 0) if count is not None or skipped else node
    options = limit.args.get("limit_options")
    if options is not None and options.args.get("percent"):
        raise NotSupportedError("FETCH … PERCENT", place=ctx.place_of(limit))
    ties = options is not None and bool(options.args.get("with_ties"))
    if ties and not tree.args.get("order"):
        raise SqlError(
            "WITH TIES cannot be specified without ORDER BY clause", place=ctx.place_of(limit)
        )
    written = limit.args.get("count")
    return Limit(node, _number(written, "LIMIT", ctx) if written else 1, skipped or 0, ties)


def _number(tree: exp.Expression, what: str, ctx: Context) -> int | None:
    inner = tree.unnest()
    if isinstance(inner, exp.Null) or inner.sql().upper() in ("ALL", '"ALL"'):
        return None
    if isinstance(inner, exp.Neg) and isinstance(inner.this, exp.Literal):
        code = "2201W" if what == "LIMIT" else "2201X"
        raise SqlError(f"{what} must not be negative", place=ctx.place_of(tree), code=code)
    digits = inner.name if isinstance(inner, exp.Literal) else ""
    if not (digits.isascii() and digits.isdigit()):
        raise NotSupportedError(f"a {what} that is not a constant", place=ctx.place_of(tree))
    if len(digits.lstrip("0")) > 19 or int(digits[-20:]) >= 2**63:
        raise SqlError(
            f"the {what} is out of range for type bigint", place=ctx.place_of(tree), code="22003"
        )
    return int(digits[-20:])
