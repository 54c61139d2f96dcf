"""EXPLAIN of a view's stages: the table and key of each, and the derivation of its changes.

The rules, their names and what they read come from `Stage.derive_example`: the derivation that also runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from icestream.plan.derivation import Derivation, Read
from icestream.plan.explain import line
from icestream.plan.group_stage import Groups
from icestream.plan.logical import Node, Scan, walk
from icestream.plan.stages import HIDDEN, Closed, Stage
from icestream.types import quote


def explain_stages(stages: tuple[Stage, ...], tables: Mapping[str, str]) -> Iterator[str]:
    """All stages in the order in which they are computed. `tables` has the name of each one's table."""
    for number, stage in enumerate(stages, 1):
        yield f"Stage {number} → {tables[stage.relation]}: {_kept(stage)}"
        hidden = [c.name for c in stage.columns if c.name.startswith(HIDDEN)]
        if hidden:
            yield f"  state beside the rows: {', '.join(map(quote, hidden))}"
        yield from _Printer(stage, tables).lines()


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
    if stage.key is None:
        return "rows are told apart by all of their columns"
    return f"key ({', '.join(map(quote, stage.key))})" if stage.key else "one row"


class _Printer:
    """Prints the plan of a stage with the rules of its derivation beside the nodes."""

    def __init__(self, stage: Stage, tables: Mapping[str, str]) -> None:
        self.stage = stage
        self.tables = tables
        self.rules = {id(d.node): d for d in stage.derive_example().walk()}

    def lines(self) -> Iterator[str]:
        """The rules of the table as a whole, then the plan."""
        nodes = {id(n) for n in walk(self.stage.plan)}
        for derived in self.rules.values():
            if id(derived.node) not in nodes:
                yield f"  {self.rule(derived)}"
        yield from self.plan(self.stage.plan, 1)

    def plan(self, node: Node, depth: int) -> Iterator[str]:
        """A node and those below it. One without a rule is covered by the rule of another."""
        shown = line(node)
        if isinstance(node, Scan) and node.relation in self.tables:
            shown = shown.replace(quote(node.name), self.tables[node.relation], 1)
        derived = self.rules.get(id(node))
        yield "  " * depth + shown + (f"    -- {self.rule(derived)}" if derived else "")
        for child in node.inputs:
            yield from self.plan(child, depth + 1)

    def rule(self, derived: Derivation) -> str:
        """The name of a rule, what it does and what it reads."""
        reads = f"reads {', '.join(map(self.read, derived.reads))}" if derived.reads else ""
        said = "; ".join(part for part in (derived.detail, reads) if part)
        return f"{derived.rule.name}: {said}" if said else derived.rule.name

    def read(self, read: Read) -> str:
        """A face of a relation, and which of its rows."""
        shown = f"{self.tables.get(read.relation, quote(read.name))}@{read.face}"
        if read.by:
            return f"{shown} by ({', '.join(map(quote, read.by))})"
        if read.face != "delta":
            return f"{shown} (scan)"
        known = self.stage.facts.get(read.relation)
        return f"{shown} (new rows only)" if known is not None and known.grows else shown
