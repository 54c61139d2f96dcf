"""A plan as an indented tree, one line a node: what EXPLAIN prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from icestream.functions.expressions import Cast, ColumnRef
from icestream.plan.logical import (
    Aggregate,
    Distinct,
    DistinctOn,
    Expand,
    Filter,
    Item,
    Join,
    Limit,
    Node,
    Order,
    Project,
    Scan,
    SetOperation,
    Unnest,
    Values,
    Window,
    WindowTable,
)
from icestream.plan.text import interval_text, sorts_text, text
from icestream.types import quote


def explain_node(node: Node) -> str:
    """The whole plan; inputs stand below the node that reads them, two columns further in."""
    return "\n".join(_lines(node, 0))


def _lines(node: Node, depth: int) -> Iterator[str]:
    yield "  " * depth + line(node)
    for child in node.inputs:
        yield from _lines(child, depth + 1)


def line(node: Node) -> str:
    """One node without its inputs."""
    match node:
        case Scan():
            at = f" as of {text(node.at.expr)}" if node.at else ""
            return f"Scan {quote(node.name)}{at} ({_items(node.items)})"
        case Values(outputs=()):
            return "Values (one row without columns)"
        case Values():
            rows = "row" if len(node.rows) == 1 else "rows"
            return f"Values {len(node.rows)} {rows} ({', '.join(map(quote, node.names))})"
        case Filter():
            return f"Filter {text(node.condition)}"
        case Project():
            return f"Project {_items(node.items)}"
        case Aggregate():
            parts = [f"by {_items(node.groups)}"] if node.groups else ["over all rows"]
            parts += [_items(node.aggregates)] if node.aggregates else []
            return "Aggregate " + ": ".join(parts)
        case Expand():
            sets = ", ".join(f"({', '.join(map(quote, s))})" for s in node.sets)
            return f"Expand {_items(node.keys)} into sets {sets}"
        case Join():
            on = f" on {text(node.condition)}" if node.condition else ""
            word = f"Temporal {node.kind}" if node.temporal else node.kind.capitalize()
            return f"{word} join{on}"
        case SetOperation():
            word = node.kind.capitalize() + (" all" if node.all else "")
            return f"{word} ({', '.join(map(quote, node.names))})"
        case _:
            return _other(node)


def _other(node: Node) -> str:
    match node:
        case Distinct():
            return "Distinct"
        case DistinctOn():
            order = f", first by {sorts_text(node.order)}" if node.order else ""
            return f"Distinct on {', '.join(text(k) for k in node.keys)}{order}"
        case Order():
            return f"Order by {sorts_text(node.keys)}"
        case Limit():
            count = "all" if node.count is None else str(node.count)
            ties = " with ties" if node.with_ties else ""
            return f"Limit {count}{ties}" + (f" offset {node.offset}" if node.offset else "")
        case Window():
            return f"Window {_items(node.calls)}"
        case Unnest():
            number = f", {quote(node.ordinality)} counts" if node.ordinality else ""
            return f"{'Outer unnest' if node.outer else 'Unnest'} {_items(node.calls)}{number}"
        case WindowTable():
            return _window_table(node)
    return type(node).__name__


def _window_table(node: WindowTable) -> str:
    slide = f" every {interval_text(node.slide)}" if node.kind == "hop" else ""
    size = interval_text(node.size)
    bounds = f"{quote(node.start)}, {quote(node.end)}"
    return f"{node.kind.capitalize()} {text(node.time)} by {size}{slide} ({bounds})"


def _items(items: Iterable[Item]) -> str:
    return ", ".join(_item(i) for i in items)


def _item(item: Item) -> str:
    if isinstance(item.expr, ColumnRef) and item.expr.name == item.name:
        return quote(item.name)
    if isinstance(item.expr, Cast):
        return f"{text(item.expr.arg)}::{item.expr.type} AS {quote(item.name)}"
    return f"{text(item.expr)} AS {quote(item.name)}"
