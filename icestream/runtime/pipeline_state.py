"""What the parts of a pipeline share: who it is, the newest record and the log that keeps it."""

from __future__ import annotations

from dataclasses import replace

from icestream.errors import FencedError, LakeError
from icestream.lake.catalogs import Lake
from icestream.lake.log import EpochLog
from icestream.lake.stamp import Record, Stamp


class PipelineState:
    """The newest record of a pipeline."""

    def __init__(self, lake: Lake, id: str, incarnation: int, log: EpochLog | None = None) -> None:
        self.lake = lake
        self.id = id
        self.incarnation = incarnation
        self.log = log or EpochLog.of(lake)
        self.record = Record(id, 0, 0, 0, 0)
        self.paused = False
        """Whether nothing is taken in."""

    def commit(self, **changes: object) -> None:
        """Change the record, and commit it to the log."""
        self.record = replace(self.record, **changes)  # type: ignore[arg-type]
        self.log.commit(self.record)

    def make_mark(self) -> Stamp:
        """What a fence says of itself on a table without a stamp."""
        record = self.record
        return Stamp(self.id, self.incarnation, record.plan, record.epoch, record.time, fence=True)

    def check_owner(self) -> None:
        """Make sure that no other process has taken over."""
        # Not by the pipeline's own log: it would take over the head that a successor has made.
        newest = EpochLog(self.log.table).newest()
        if newest is not None and newest.incarnation > self.incarnation:
            raise FencedError("another process has taken over this home; this one stops")


def older_home(key: str, what: str) -> LakeError:
    """A table says more than the log of this home knows."""
    return LakeError(
        f"{key} {what}",
        object=key,
        remedy="this home is older than its tables; use the newest copy of it",
    )
