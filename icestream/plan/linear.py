"""Which plans can be run on a delta alone: Δf(R) = f(ΔR), as long as rows are only added.

Such a plan is kept up to date by rendering it with the deltas in place of its relations. For all others `linear`
says which node stands in the way.
"""

from __future__ import annotations

from dataclasses import dataclass

from icestream.functions import expressions
from icestream.functions.expressions import Expr, functions_used
from icestream.plan.logical import (
    Aggregate,
    Distinct,
    DistinctOn,
    Expand,
    Filter,
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
    walk,
)


@dataclass(frozen=True)
class Blocker:
    """The kind of node that needs more than the new rows, and why."""

    kind: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"


def linear(node: Node) -> Blocker | None:
    """None if the plan can be run on new rows alone, else the first node (from the top) that forbids it."""
    found = _own(node)
    if found is not None:
        return found
    if isinstance(node, Join):
        return linear(node.right if is_constant(node.left) else node.left)
    return next((b for child in node.inputs if (b := linear(child))), None)


def relations_read(node: Node) -> tuple[str, ...]:
    """The keys of the relations that a plan reads, each once, in order of appearance."""
    return tuple(dict.fromkeys(n.relation for n in walk(node) if isinstance(n, Scan)))


def is_constant(node: Node) -> bool:
    """Whether the plan gives the same rows at any time."""
    plain = all(expressions.is_pure(e) for n in walk(node) for e in n.exprs)
    return plain and not relations_read(node)


def _own(node: Node) -> Blocker | None:
    """What stands in the way in the node itself."""
    moving = [name for e in node.exprs for name in moving_in(e)]
    if moving:
        return Blocker("Clock", f"{moving[0]}() changes what old rows give as time passes")
    match node:
        case Scan() | Filter() | Project() | Order() | Unnest() | WindowTable() | Expand():
            return None
        case SetOperation(kind="union", all=True):
            return None
        case Values():
            return Blocker("Values", "constant rows are there once, not with every change")
        case Aggregate(groups=()):
            return Blocker("Aggregate", "a new row changes the totals over all rows")
        case Aggregate():
            return Blocker("Aggregate", "a new row changes the totals of its group")
        case Join():
            return _join(node)
        case SetOperation(kind=kind, all=keep):
            word = f"{kind.upper()} ALL" if keep else kind.upper()
            return Blocker("SetOperation", f"{word} compares new rows with those already there")
        case Distinct():
            return Blocker("Distinct", "a new row counts only if no equal one is there")
        case DistinctOn():
            return Blocker("DistinctOn", "a new row may take the place of the first of its key")
        case Limit():
            return Blocker("Limit", "a new row may push another one out")
        case Window():
            return Blocker("Window", "a new row changes the values of its partition")
    return Blocker(type(node).__name__, "it needs more than the new rows")


_MOVING = ("now", "current_date", "localtimestamp", "localtime", "current_time", "age")


def moving_in(expr: Expr) -> list[str]:
    """The functions in an expression whose value changes as time passes."""
    used = functions_used(expr)
    return [f.name for f in used if f.name in _MOVING and not (f.pure and f.name == "age")]


def _join(node: Join) -> Blocker | None:
    """A join with constant rows is linear in the other side, unless it would give unmatched constants."""
    if is_constant(node.right) and node.kind in ("inner", "cross", "left", "semi", "anti"):
        return None
    if is_constant(node.left) and node.kind in ("inner", "cross", "right"):
        return None
    if node.kind in ("inner", "cross"):
        return Blocker("Join", "new rows of one side match old rows of the other")
    article = "an" if node.kind == "anti" else "a"
    return Blocker("Join", f"{article} {node.kind} join looks at all rows of the other side")
