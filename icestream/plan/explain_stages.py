"""The stages of a view as EXPLAIN prints them: what each table holds, its key, and the rule of every node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from icestream.functions.expressions import ColumnRef
from icestream.plan.explain import line
from icestream.plan.linear import moving_in
from icestream.plan.logical import (
    Aggregate,
    Expand,
    Filter,
    Join,
    Node,
    Project,
    Scan,
    SetOperation,
    Unnest,
    Values,
    Window,
    WindowTable,
)
from icestream.plan.maintain import equal_columns
from icestream.plan.stages import HIDDEN, Best, Closed, Groups, Stage
from icestream.plan.text import text
from icestream.plan.watermarks import Closing
from icestream.types import quote


def explain_stages(stages: tuple[Stage, ...], tables: Mapping[str, str]) -> Iterator[str]:
    """All stages in the order in which they are computed. `tables` has the name of each one's table."""
    for number, stage in enumerate(stages, 1):
        yield f"Stage {number} → {tables[stage.relation]}: {_kept(stage)}"
        hidden = [c.name for c in stage.columns if c.name.startswith(HIDDEN)]
        if hidden:
            yield f"  state beside the rows: {', '.join(map(quote, hidden))}"
        yield from _lines(stage.plan, 1, stage, tables)


def notices(stages: tuple[Stage, ...], name: str) -> list[str]:
    """What grows without bound, with the remedy."""
    found: list[str] = []
    copied = {
        r.partition("#")[0]
        for s in stages[:-1]
        if s.appends and not isinstance(s, Groups | Closed)
        for r in s.reads
        if not s.facts[r].stored
    }
    for source in sorted(copied):
        found.append(
            f"{name} keeps every row of {source} that it may need again, so its state grows with {source}; "
            "filtering it first, or aggregating it before it is joined, keeps less"
        )
    return found


def _kept(stage: Stage) -> str:
    if stage.appends:
        return "rows are appended"
    then = "" if stage.trim is None else f", deleted once {_bound(stage.trim)}"
    if stage.key is None:
        return f"rows are told apart by all of their columns{then}"
    return f"key ({', '.join(map(quote, stage.key))}){then}" if stage.key else "one row"


def _bound(closing: Closing) -> str:
    """When rows are final."""
    relation = "<=" if closing.inclusive else "<"
    return f"{quote(closing.column)} {relation} the watermark ({text(closing.bound)})"


def _lines(node: Node, depth: int, stage: Stage, tables: Mapping[str, str]) -> Iterator[str]:
    shown = line(node)
    if isinstance(node, Scan) and node.relation in tables:
        shown = shown.replace(quote(node.name), tables[node.relation], 1)
    yield f"{'  ' * depth}{shown}    -- {_rule(node, stage)}"
    for child in node.inputs:
        yield from _lines(child, depth + 1, stage, tables)


def _rule(node: Node, stage: Stage) -> str:
    """How a node is maintained."""
    if isinstance(stage, Closed):
        return f"on window close: rows appear once {_bound(stage.closing)}"
    if isinstance(stage, Groups) and node is stage.core:
        return _groups(stage)
    if isinstance(stage, Best) and node is stage.core:
        return "first rows: those stored and those that come are ranked again"
    match node:
        case Scan(relation=relation):
            known = stage.facts.get(relation)
            if relation in stage.looked_up:
                return "looked up as it is in the epoch"
            return "its new rows" if known is None or known.grows else "its changes"
        case Values():
            return "constant: once"
        case Filter() if moving_in(node.condition):
            return "clock: also rows for which the time has come"
        case Join(temporal=True):
            return "linear in the left side, the right one as of the epoch"
        case Join(kind="inner"):
            return f"bilinear, looked up by {_by(node)}"
        case Join():
            return f"by row, looked up by {_by(node)}"
        case Window() if isinstance(stage, Best):
            return "ranked"
        case Window():
            names = [e.name for e in node.partition_by if isinstance(e, ColumnRef)]
            if not names:
                return "recomputed and compared: there are no partitions"
            return f"by key: partitions ({', '.join(map(quote, names))}) that change are read again"
        case (
            Filter()
            | Project()
            | SetOperation()
            | Unnest()
            | WindowTable()
            | Expand()
            | Aggregate()
        ):
            return "linear"
    return "linear"


def _by(node: Join) -> str:
    pairs = equal_columns(node)
    if not pairs:
        return "nothing: all rows of the other side are read"
    return ", ".join(f"{quote(a)} = {quote(b)}" for a, b in pairs)


def _groups(stage: Groups) -> str:
    merged = [p.name for p in stage.parts if p.kind != "whole"]
    again = [p.name for p in stage.parts if p.kind == "whole"]
    maybe = [
        p.name
        for p in stage.parts
        if stage.count is not None and (p.kind in ("least", "greatest") or not p.exact)
    ]
    if not stage.parts:
        return "local: a group that is there already changes nothing"
    if again:
        return f"local: groups that change are read again (for {', '.join(map(quote, again))})"
    tail = (
        f"; a group is read again if {' or '.join(map(quote, maybe))} may lose its value"
        if maybe
        else ""
    )
    return f"local, merged: {', '.join(map(quote, merged))}{tail}"
