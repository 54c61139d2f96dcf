"""How large a plan may become: more is refused, before time and memory are spent on it.

A query of a few lines can mean a plan of any size: each WITH query that joins the one before with itself doubles it.
Plans share such inputs, so that their size is known at once, while everything that walks a plan would take for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from icestream.errors import Place, SqlError
from icestream.plan.logical import Node

MAX_NODES = 5_000
"""Nodes of a plan, those of views and WITH queries counted for every use. Planning takes about a millisecond for each."""
STATEMENT_TOO_COMPLEX = "54001"


def check_size(node: Node, place: Callable[[], Place | None] = lambda: None) -> None:
    """Raise if a plan is too large to be planned within seconds. `place` says where, if it is asked."""
    if node.node_count > MAX_NODES:
        raise SqlError(
            f"the statement is too complex: its plan has more than {MAX_NODES} nodes",
            place=place(),
            remedy="a view or WITH query counts for every use: store it as a MATERIALIZED VIEW",
            code=STATEMENT_TOO_COMPLEX,
        )


@contextmanager
def bounded_depth(place: Place | None = None) -> Iterator[None]:
    """Expressions and queries that are nested deeper than the interpreter's stack are refused."""
    try:
        yield
    except RecursionError:
        raise SqlError(
            "the statement is too complex: it is nested too deeply",
            place=place,
            remedy="split it into views, or write long lists as IN (…) or VALUES",
            code=STATEMENT_TOO_COMPLEX,
        ) from None
