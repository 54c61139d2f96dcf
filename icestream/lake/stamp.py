"""What a commit says about itself: the stamp in every snapshot's summary, and the record in the epoch log.

Both are small JSON texts in a snapshot summary property, so that any Iceberg reader can see them. A stamp says
which epoch a table's snapshot belongs to and which source ranges that epoch read; the record, committed
last, says that the epoch is complete and at which snapshot every object stands.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from icestream.lake.position import Offset, Position, Ranges

STAMP = "icestream.stamp"
RECORD = "icestream.record"


@dataclass(frozen=True)
class Stamp:
    """The mark on a table's snapshot. A fence repeats the table's newest epoch under a new incarnation."""

    pipeline: str
    incarnation: int
    plan: int
    epoch: int
    time: int
    ranges: Ranges = field(default_factory=Ranges)
    """What this object read in the epoch."""
    cut: Mapping[str, Offset] = field(default_factory=dict)
    """Where the epoch ends in every source it advances: enough to roll it forward."""
    rows: int = 0
    """Rows that the commit added."""
    fence: bool = False
    log: int | None = None
    """The snapshot of the epoch log that the epoch was built on: a log without it is not this epoch's."""

    def to_json(self) -> str:
        """The text kept in the snapshot summary."""
        return _dump({**vars(self), "ranges": self.ranges.encode()})

    @classmethod
    def from_json(cls, text: str) -> Stamp:
        """The stamp of that text."""
        raw = json.loads(text)
        return cls(ranges=Ranges.decode(raw.pop("ranges")), **raw)


@dataclass(frozen=True)
class ObjectAt:
    """Where an object stands: its table's snapshot, and how far into each source it has read.

    `position` names only the inputs in which the object is behind the record's own positions, as a sink with
    a longer commit interval is.
    """

    epoch: int
    table: str | None = None
    uuid: str | None = None
    snapshot: int | None = None
    position: Position = field(default_factory=Position)

    def encode(self) -> dict[str, Any]:
        """The form in the log."""
        return {**vars(self), "position": self.position.encode() or None}

    @classmethod
    def decode(cls, raw: dict[str, Any]) -> ObjectAt:
        """The state of that form."""
        return cls(**{**raw, "position": Position.decode(raw.get("position") or {})})


@dataclass(frozen=True)
class Record:
    """A completed epoch: everything before `sources` is in every object (but for those with a `position`)."""

    pipeline: str
    incarnation: int
    plan: int
    epoch: int
    time: int
    sources: Mapping[str, Offset] = field(default_factory=dict)
    objects: Mapping[str, ObjectAt] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> str:
        """The text kept in the log's snapshot summary."""
        objects = {key: at.encode() for key, at in self.objects.items()}
        return _dump({**vars(self), "objects": objects})

    @classmethod
    def from_json(cls, text: str) -> Record:
        """The record of that text."""
        raw = json.loads(text)
        objects = {key: ObjectAt.decode(at) for key, at in raw.pop("objects").items()}
        return cls(objects=objects, **raw)

    def offset(self, object: str, feed: str) -> Offset:
        """How far that object has read that feed."""
        behind = self.objects[object].position.feeds
        return behind[feed] if feed in behind else self.sources[feed]


def _dump(raw: Mapping[str, Any]) -> str:
    return json.dumps(raw, separators=(",", ":"), sort_keys=True)
