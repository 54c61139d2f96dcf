"""Which functions keep a query from being maintained: those that would give something else for a row that goes."""

from __future__ import annotations

from icestream.functions.expressions import functions_used
from icestream.plan.cut import LAYOUT, cut_joins, scan_of
from icestream.plan.logical import Filter, Node, walk
from icestream.plan.normal import normal

CLOCKS = {"now", "current_date", "localtimestamp"}
"""They may stand in filters: the clock rule knows when a row begins and ends to pass."""


def find_unrepeatable(node: Node, layout: int = LAYOUT) -> list[str]:
    """The names of impure functions in one place of the plan where a row must be what it was when it came."""
    parts: list[Node] = []

    def store(input: Node) -> Node:
        parts.append(input)
        return scan_of(input, f"part{len(parts)}", input.names)

    parts.append(cut_joins(node, store, layout))
    for part in (n for p in parts for n in walk(normal(p))):
        for expr in part.exprs:
            used = sorted({f.name for f in functions_used(expr) if not f.pure})
            if used and not (isinstance(part, Filter) and set(used) <= CLOCKS):
                return used
    return []
