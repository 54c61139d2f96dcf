"""Acknowledged writes become visible: a statement waits for the epoch that holds the writes it must see, and for no other.

A write is acknowledged when its entry is in the log of statements. Views show it with the epoch that reads the entry. A
statement that reads a table, or a view over it, first has the pipeline take in the entries of that table; sources stay where
they are. Without entries that are still to be taken in this costs a comparison of two numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from icestream.catalog.catalog import Catalog
from icestream.catalog.lineage import statement_tables
from icestream.errors import SqlError
from icestream.observe.report import EpochReport
from icestream.runtime.turns import Turns

if TYPE_CHECKING:
    from icestream.runtime.pipeline import Pipeline

PAUSED = "the pipeline is paused: nothing is taken in before RESUME"


class Host(Protocol):
    """The engine, as writes see it."""

    turns: Turns

    @property
    def catalog(self) -> Catalog:
        """All objects."""

    @property
    def opened(self) -> Pipeline | None:
        """The pipeline, if it is open."""

    def after_epoch(self, report: EpochReport) -> None:
        """Called after each epoch."""


class Writes:
    """The writes of an engine.

    `lock` is held while changes are checked and logged, and while objects change. A thread that needs both takes its turn
    first. A thread that has only the lock never waits for a turn.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.lock = Turns()
        self._visible = -1
        """Every entry up to this number is in the newest complete epoch."""

    def pending(self, keys: Iterable[str]) -> dict[str, int]:
        """Of the tables that these objects are made of: the newest entries that no complete epoch holds yet."""
        pipeline = self.host.opened
        if pipeline is None:
            return {}
        log = pipeline.lake.dml
        head = log.head
        if head == self._visible:
            return {}
        positions = pipeline.record.sources
        every = log.newest(key for key in positions if key in pipeline.objects.feeds)
        late = {k: n for k, n in every.items() if _entry(positions[k]) < n}
        if not late:
            self._visible = head
            return {}
        wanted = statement_tables(self.host.catalog, keys)
        return {key: number for key, number in late.items() if key in wanted}

    def see(self, keys: Iterable[str], paused: Callable[[], None] | None = None) -> None:
        """Return when every write acknowledged so far to what these objects are made of is visible.

        While the pipeline is paused that cannot be; `paused` is called then, or an error raised.
        """
        keys = list(keys)
        if not self.pending(keys):
            return
        with self.host.turns:
            wanted = self.pending(keys)
            pipeline = self.host.opened
            if not wanted or pipeline is None:
                return
            if not pipeline.state.paused:
                pipeline.reach(wanted, self.host.after_epoch)
            elif paused is not None:
                paused()
            else:
                raise SqlError(
                    "the pipeline is paused, so rows that were written before cannot be found",
                    remedy="RESUME, then try again; INSERT … VALUES goes on",
                    code="55000",
                )


def _entry(position: object) -> int:
    return int(position.get("entry", 0)) if isinstance(position, dict) else 0
