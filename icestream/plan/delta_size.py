"""How large the plan of an epoch may become: a view or sink whose changes need more is refused when it is created.

The plan of an epoch is made, analysed and optimized while all other objects wait, and nothing can interrupt that. Plans
share the inputs that they read several times, so they are made and counted in hundredths of a second, whatever their size.
"""

from __future__ import annotations

from collections.abc import Sequence

from icestream.errors import Place, SqlError
from icestream.plan.complexity import MAX_NODES, STATEMENT_TOO_COMPLEX
from icestream.plan.stages import Stage


def delta_size(stage: Stage) -> int:
    """The nodes of the plan of a stage's changes, when everything that it reads has changed."""
    plan = stage.derive_example().plan
    return 0 if plan is None else plan.node_count


def check_deltas(stages: Sequence[Stage], what: str, place: Place | None = None) -> None:
    """Raise if the changes of a stage cannot be planned within seconds. `what` names the object that has the stages."""
    for stage in stages:
        if delta_size(stage) > MAX_NODES:
            raise SqlError(
                f"{what} is too complex: the plan of its changes has more than {MAX_NODES} nodes",
                place=place,
                remedy="make a part of its query a MATERIALIZED VIEW, and read that",
                code=STATEMENT_TOO_COMPLEX,
            )
