"""Positions in Kafka topics, as the epoch log keeps them.

The JSON form is {topic: {partition: next offset}}. Two keys that no topic can have say more:
`#ids` holds the id of each topic, so that a topic that was deleted and created again is recognized;
`#first` holds the first offset of each partition that was found after the source was created.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from icestream.lake.position import Offset

IDS, FIRST = "#ids", "#first"
Partition = tuple[str, int]


@dataclass(frozen=True)
class Positions:
    """The next offset to read of each partition."""

    next: Mapping[Partition, int]
    first: Mapping[Partition, int] = field(default_factory=dict)
    """Where partitions begin that were added after the source was created."""
    ids: Mapping[str, str] = field(default_factory=dict)
    """Topic ids; empty for brokers that have none, and for positions of earlier versions."""

    @classmethod
    def parse(cls, offset: Offset) -> Positions:
        """The positions of an offset."""
        topics = {t: p for t, p in offset.items() if t not in (IDS, FIRST)}
        return cls(_flatten(topics), _flatten(offset.get(FIRST, {})), offset.get(IDS, {}))

    def to_offset(self) -> Offset:
        """The JSON form."""
        offset: dict[str, object] = {**_nest(self.next)}
        if self.first:
            offset[FIRST] = _nest(self.first)
        if self.ids:
            offset[IDS] = dict(sorted(self.ids.items()))
        return offset

    def start_of(self, partition: Partition, before: Positions) -> int | None:
        """Where a range from `before` to here begins in a partition; None: unknown (earlier versions)."""
        if partition in before.next:
            return before.next[partition]
        return self.first.get(partition)

    def count_since(self, before: Positions) -> dict[Partition, int]:
        """Offsets between `before` and here, by partition."""
        return {p: max(0, end - (self.start_of(p, before) or 0)) for p, end in self.next.items()}

    def advance(self, before: Positions, limit: int | None) -> Positions:
        """A position from `before` towards here: each partition moves by its share of the limit."""
        starts = {p: self.start_of(p, before) or 0 for p in self.next}
        lag = self.count_since(before)
        total = sum(lag.values())
        if limit is None or total <= limit + len(lag):  # shares are rounded up: so is the limit
            moved = {p: starts[p] + n for p, n in lag.items()}
        else:
            shares = {p: (n * limit + total - 1) // total for p, n in lag.items()}
            moved = {p: starts[p] + min(shares[p], n) for p, n in lag.items()}
        return Positions(moved, self.first, self.ids)


@dataclass(frozen=True)
class Extent:
    """What a cluster holds now: the first offset and the end of each partition, and the topics' ids."""

    first: Mapping[Partition, int]
    ends: Mapping[Partition, int]
    ids: Mapping[str, str]

    def find_loss(self, since: Positions) -> str | None:
        """Why reading cannot go on from `since`; None if everything from there on is kept."""
        for topic in sorted({t for t, _ in since.next}):
            if self._is_recreated(topic, since):
                return f"topic {topic} was deleted and created again"
        for partition, start in since.next.items():
            loss = self._find_loss(partition, start)
            if loss is not None:
                return loss
        return None

    def _is_recreated(self, topic: str, since: Positions) -> bool:
        return topic in self.ids and since.ids.get(topic, self.ids[topic]) != self.ids[topic]

    def _find_loss(self, partition: Partition, start: int) -> str | None:
        name = "/".join(map(str, partition))
        if partition not in self.ends:
            return f"partition {partition[1]} of topic {partition[0]} is gone"
        if start < self.first[partition]:
            return (
                f"{name} was read up to offset {start}, but begins at {self.first[partition]} now"
            )
        if start > self.ends[partition]:
            return f"{name} was read up to offset {start}, but ends at {self.ends[partition]} now"
        return None

    def end(self, since: Positions) -> Positions:
        """The end of what is there. Partitions that are new start at their present first offset."""
        new = {p: self.first[p] for p in self.ends if p not in since.next}
        ends = {p: max(o, since.next.get(p, self.first[p])) for p, o in self.ends.items()}
        return Positions(ends, {**since.first, **new}, {**since.ids, **self.ids})

    def skip_loss(self, since: Positions) -> Positions:
        """The position after `since` from which everything is kept: lost partitions start over, gone ones drop out."""
        kept: dict[Partition, int] = {}
        for partition, start in since.next.items():
            if partition not in self.ends:
                continue
            lost = self._is_recreated(partition[0], since) or self._find_loss(partition, start)
            kept[partition] = self.first[partition] if lost else start
        first = {p: o for p, o in since.first.items() if kept.get(p) == since.next.get(p)}
        return Positions(kept, first, dict(self.ids))


def _flatten(topics: Mapping[str, Mapping[str, int]]) -> dict[Partition, int]:
    return {(t, int(p)): o for t, partitions in topics.items() for p, o in partitions.items()}


def _nest(positions: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    result: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(positions.items()):
        result.setdefault(topic, {})[str(partition)] = offset
    return result
