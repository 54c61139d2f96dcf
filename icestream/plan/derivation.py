"""What a delta rule returns: its name, the plan of the changes, and what that plan reads.

`plan.maintain` and the stages make derivations. `runtime.views` executes their plans, `plan.explain_stages` prints their
names and reads. Neither of the two knows the rules, so EXPLAIN shows what runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal as Choice
from typing import cast

from icestream.plan.logical import Lookup, Node, Scan

Face = Choice["old", "new", "delta"]
"""Content of a relation before and after the epoch, and its changes in between."""


@dataclass(frozen=True)
class Rule:
    """A delta rule: its name in EXPLAIN, and its formula. R and S are inputs, T is the stage's own table."""

    name: str
    formula: str


DELTA = Rule("delta", "ΔR = R@delta")
CONSTANT = Rule("constant", "Δv = v in the first epoch, nothing later")
LINEAR = Rule("linear", "Δf(R) = f(ΔR)")
BILINEAR = Rule("bilinear", "Δ(R ⋈ S) = ΔR ⋈ S@old + R@new ⋈ ΔS")
BY_ROW = Rule(
    "by row",
    "Δ(R ⟕ S) = ΔR ⟕ S@old + (A ⟕ S@new) - (A ⟕ S@old), A the rows of R@new that ΔS matches; semi and anti joins alike",
)
TEMPORAL = Rule("temporal", "Δ(R ⋈ S) = ΔR ⋈ S@new")
BY_KEY = Rule("by key", "Δf(R) = f(R@new|K) - f(R@old|K), K the partitions of ΔR")
RECOMPUTED = Rule(
    "recomputed",
    "Δf(R) = f(R@new) - f(R@old), if there are no partitions or R cannot be looked up by them",
)
CLOCK = Rule(
    "clock", "Δσ(R) = σ'(ΔR) + (σ' - σ)(R@old), σ and σ' a condition on the time before and now"
)
MERGED_GROUPS = Rule(
    "merged groups",
    "ΔT = merge(T@old|K, γ(ΔR)) - T@old|K, K the groups of ΔR; γ(R@new|K) where merging does not tell the value",
)
TOP_N = Rule(
    "top-n", "ΔT = τ(T@old|K + ΔR) - T@old|K, K the partitions of ΔR, which only has new rows"
)
STORED_PARTITIONS = Rule("stored partitions", "ΔT = f(R@new|K) - T@old|K, K the partitions of ΔR")
WINDOW_CLOSE = Rule(
    "window close",
    "ΔT = (φ' - φ)(R@new), φ and φ' whether a row is final at the watermark before and now",
)
TRIM = Rule("trim", "ΔT = -φ(T@old), φ whether a row is final and has been shown")
INITIAL = Rule("initial", "ΔT = f(R@new), if all inputs were empty before")

RULES = (
    DELTA,
    CONSTANT,
    LINEAR,
    BILINEAR,
    BY_ROW,
    TEMPORAL,
    BY_KEY,
    RECOMPUTED,
    CLOCK,
    MERGED_GROUPS,
    TOP_N,
    STORED_PARTITIONS,
    WINDOW_CLOSE,
    TRIM,
    INITIAL,
)


def face(relation: str, which: Face) -> str:
    """The name under which a delta plan reads a face of a relation."""
    return f"{relation}@{which}"


@dataclass(frozen=True)
class Read:
    """One way in which a delta plan reads a relation."""

    relation: str
    name: str
    """What the user calls the relation."""
    face: Face
    by: tuple[str, ...] = ()
    """The stored columns by which rows are looked up; empty: all rows are read."""


def read_of(node: Scan | Lookup) -> Read:
    """What a leaf of a delta plan reads."""
    relation, _, which = node.relation.rpartition("@")
    by = node.on if isinstance(node, Lookup) else ()
    return Read(relation, node.name, cast(Face, which), by)


@dataclass(frozen=True, eq=False)
class Derivation:
    """A delta rule applied to a node."""

    rule: Rule
    node: Node
    plan: Node | None
    """The changes: the columns of the node (of the stage's table, for the rule of a stage) and the weight, not netted.
    None: nothing that it reads has changed."""
    inputs: tuple[Derivation, ...] = ()
    """Those whose plans it uses."""
    content: tuple[Node, ...] = ()
    """What it reads beside the changes of its inputs."""
    detail: str = ""
    """What the rule does to this node, as far as its name does not say it."""

    @property
    def reads(self) -> tuple[Read, ...]:
        """What the rule itself reads, each once."""
        return tuple(dict.fromkeys(_reads(self.content)))

    def walk(self) -> Iterator[Derivation]:
        """Itself and those that it uses."""
        yield self
        for below in self.inputs:
            yield from below.walk()


def _reads(nodes: Iterable[Node]) -> Iterator[Read]:
    """The reads of plans. The keys of a look-up are computed from other parts of the same delta plan."""
    for node in nodes:
        if isinstance(node, Scan | Lookup):
            yield read_of(node)
        else:
            yield from _reads(node.inputs)
