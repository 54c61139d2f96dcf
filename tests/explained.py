"""EXPLAIN of a stage, parsed, and compared with derivations that run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from icestream.plan.derivation import INITIAL, RULES, TRIM, Derivation, read_of
from icestream.plan.explain import line
from icestream.plan.explain_stages import explain_stages
from icestream.plan.logical import Lookup, Node, Scan, walk
from icestream.plan.maintain import State
from icestream.plan.stages import Stage
from icestream.types import quote

Reading = tuple[str, str, str]
"""A relation, its face, and the columns by which it is looked up."""

_RULES = "|".join(re.escape(rule.name) for rule in RULES)
_LINE = re.compile(rf"^ *(?:(?P<node>.*)    -- )?(?P<rule>{_RULES})(?:: (?P<said>.*))?$")
_READ = re.compile(r"(\S+)@(old|new|delta)(?: by \((.*?)\)(?=, |$)| \(scan\)| \(new rows only\)|)")


@dataclass(frozen=True)
class ExplainedRule:
    """One rule as EXPLAIN prints it."""

    node: str | None
    rule: str
    said: str
    reads: frozenset[Reading]


def _node_text(node: Node) -> str:
    """A node as EXPLAIN prints it if every table is called as its relation."""
    if not isinstance(node, Scan):
        return line(node)
    return line(node).replace(quote(node.name), node.relation, 1)


def readings(plan: Node | None) -> set[Reading]:
    """All that an executor of a delta plan reads."""
    nodes = [] if plan is None else walk(plan)
    reads = [read_of(n) for n in nodes if isinstance(n, Scan | Lookup)]
    return {(r.relation, r.face, ", ".join(map(quote, r.by))) for r in reads}


class ExplainedStage:
    """What EXPLAIN prints of a stage, to be compared with what runs."""

    def __init__(self, stage: Stage) -> None:
        names = {r: r for r in (stage.relation, *stage.reads)}
        self.rules = [r for x in explain_stages((stage,), names) if (r := _parse_rule(x))]
        self.reads = {r for rule in self.rules for r in rule.reads}
        plan = stage.derive_example().plan
        assert self.reads == readings(plan), f"EXPLAIN is wrong on {self.reads ^ readings(plan)}"

    def check(self, ran: Derivation, states: Mapping[str, State]) -> None:
        """Every rule that ran, and everything that its plan reads, is printed."""
        if ran.rule == INITIAL:
            assert not ran.inputs
            return
        for derived in ran.walk():
            node = None if derived.rule == TRIM else _node_text(derived.node)
            lines = [p for p in self.rules if p.node == node]
            assert any(p.rule == derived.rule.name and derived.detail in p.said for p in lines), (
                f"{derived.rule.name} of {node} ran; EXPLAIN prints {lines or self.rules}"
            )
        for relation, face, by in readings(ran.plan):
            state = states[relation]
            alike = {(relation, face, by)}
            if not state.changed:  # old and new are the same
                alike |= {(relation, "old", by), (relation, "new", by)}
            if state.empty and face == "delta":  # the content is what has come now
                alike |= {r for r in self.reads if r[0] == relation}
            assert alike & self.reads, f"{relation}@{face} by ({by}) was read, not {self.reads}"


def _parse_rule(text: str) -> ExplainedRule | None:
    """The rule in a line of EXPLAIN, if there is one."""
    match = _LINE.match(text)
    if match is None:
        return None
    said = match["said"] or ""
    listed = said.rpartition("reads ")[2] if "reads " in said else ""
    reads = frozenset((r, f, by) for r, f, by in _READ.findall(listed))
    return ExplainedRule(match["node"], match["rule"], said, reads)
