"""Where an object stands in its inputs, and what it reads of them in an epoch.

The epoch log and the stamps keep both as one JSON object, whose keys say which input is meant:

    orders#7          a feed, by the position in its source
    @orders#7         a stored object, by the snapshot
    >sink#9           a sink into the table: its own positions
    !begun            whether a stage of a view has been computed at all
    !clock            when a view that depends on now() was last computed
    !mark             the watermarks that were reached
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar

Offset = Mapping[str, Any]
"""A position in a source, in that source's own JSON form."""

_TABLE, _SINK = "@", ">"
_BEGUN, _CLOCK, _MARK = "!begun", "!clock", "!mark"

T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """[start, end) of one source."""

    start: Offset
    end: Offset

    @property
    def empty(self) -> bool:
        """Whether nothing lies between start and end."""
        return self.start == self.end


@dataclass(frozen=True)
class Inputs(Generic[T]):
    """One value for each input of an object."""

    feeds: Mapping[str, T] = field(default_factory=dict)
    """By the feeds' keys."""
    tables: Mapping[str, T] = field(default_factory=dict)
    """By the keys of stored objects."""
    begun: T | None = None
    clock: T | None = None
    mark: T | None = None
    sinks: Mapping[str, Self] = field(default_factory=dict)
    """Those of each sink into the table, by the sinks' keys."""

    def own(self) -> Iterator[tuple[str, T]]:
        """Each value with its key on disk, without those of sinks."""
        yield from self.feeds.items()
        for key, value in self.tables.items():
            yield _TABLE + key, value
        for name, own in ((_BEGUN, self.begun), (_CLOCK, self.clock), (_MARK, self.mark)):
            if own is not None:
                yield name, own


@dataclass(frozen=True)
class Position(Inputs[Offset]):
    """Where an object stands in its inputs."""

    def __bool__(self) -> bool:
        return any(True for _ in self.own()) or bool(self.sinks)

    def encode(self) -> dict[str, Offset]:
        """The form on disk."""
        sinks = {_SINK + key: position.encode() for key, position in self.sinks.items()}
        return {**dict(self.own()), **sinks}

    @classmethod
    def decode(cls, raw: Mapping[str, Offset]) -> Position:
        """The position of that form."""
        return _decode(cls, raw, cls.decode)

    def advance(self, to: Position) -> Position:
        """The position with another one in its place wherever that one says something."""
        return Position(
            {**self.feeds, **to.feeds},
            {**self.tables, **to.tables},
            self.begun if to.begun is None else to.begun,
            self.clock if to.clock is None else to.clock,
            self.mark if to.mark is None else to.mark,
            {**self.sinks, **to.sinks},
        )

    def behind(self, sources: Mapping[str, Offset]) -> Position:
        """The position without feeds in which the object stands where the record does."""
        return replace(self, feeds={k: v for k, v in self.feeds.items() if sources.get(k) != v})

    def lags(self, sources: Mapping[str, Offset]) -> bool:
        """Whether there is more to read of a feed, for the object or for a sink into its table."""
        if any(k in sources and sources[k] != v for k, v in self.feeds.items()):
            return True
        return any(sink.lags(sources) for sink in self.sinks.values())

    def offsets_in(self, feed: str) -> list[Offset]:
        """Where the object and the sinks into its table stand in a feed, as far as they are behind."""
        every = (self, *self.sinks.values())
        return [position.feeds[feed] for position in every if feed in position.feeds]

    def move_feed(self, feed: str, move: Callable[[Offset], Offset]) -> Position:
        """The position with every offset in a feed changed."""
        feeds = {k: move(v) if k == feed else v for k, v in self.feeds.items()}
        sinks = {k: v.move_feed(feed, move) for k, v in self.sinks.items()}
        return replace(self, feeds=feeds, sinks=sinks)

    def holds(self, start: Position, sources: Mapping[str, Offset]) -> bool:
        """Whether a commit that began at `start` began here. Feeds that are not named stand where the record does. Sinks
        that are gone do not count."""
        feeds = {**sources, **self.feeds}
        return (
            all(feeds.get(k) == v for k, v in start.feeds.items())
            and all(self.tables.get(k) == v for k, v in start.tables.items())
            and start.begun in (None, self.begun)
            and start.clock in (None, self.clock)
            and start.mark in (None, self.mark)
            and all(self.sinks.get(k, v) == v for k, v in start.sinks.items())
        )


@dataclass(frozen=True)
class Ranges(Inputs[Range]):
    """What an object reads of its inputs in an epoch."""

    @property
    def empty(self) -> bool:
        """Whether nothing is to be read."""
        own = all(range.empty for _, range in self.own())
        return own and all(ranges.empty for ranges in self.sinks.values())

    @property
    def start(self) -> Position:
        """Where it begins."""
        return self._side(lambda range: range.start)

    @property
    def end(self) -> Position:
        """Where it ends."""
        return self._side(lambda range: range.end)

    def _side(self, side: Callable[[Range], Offset]) -> Position:
        return Position(
            {k: side(r) for k, r in self.feeds.items()},
            {k: side(r) for k, r in self.tables.items()},
            None if self.begun is None else side(self.begun),
            None if self.clock is None else side(self.clock),
            None if self.mark is None else side(self.mark),
            {k: ranges._side(side) for k, ranges in self.sinks.items()},
        )

    def encode(self) -> dict[str, dict[str, Offset]]:
        """The form on disk."""
        own = {key: {"start": r.start, "end": r.end} for key, r in self.own()}
        for key, ranges in self.sinks.items():
            start, end = ranges.start.encode(), ranges.end.encode()
            own[_SINK + key] = {"start": start, "end": end}
        return own

    @classmethod
    def decode(cls, raw: Mapping[str, Mapping[str, Offset]]) -> Ranges:
        """The ranges of that form."""
        ranges = {key: Range(pair["start"], pair["end"]) for key, pair in raw.items()}
        return _decode(cls, ranges, cls._decode_sink)

    @classmethod
    def _decode_sink(cls, all: Range) -> Ranges:
        pairs = {key: Range(start, all.end[key]) for key, start in all.start.items()}
        return _decode(cls, pairs, cls._decode_sink)


I = TypeVar("I", Position, Ranges)  # noqa: E741


def _decode(kind: type[I], raw: Mapping[str, Any], decode_sink: Callable[[Any], I]) -> I:
    feeds, tables, sinks = {}, {}, {}
    for key, value in raw.items():
        if key.startswith(_TABLE):
            tables[key.removeprefix(_TABLE)] = value
        elif key.startswith(_SINK):
            sinks[key.removeprefix(_SINK)] = decode_sink(value)
        elif key not in (_BEGUN, _CLOCK, _MARK):
            feeds[key] = value
    return kind(feeds, tables, raw.get(_BEGUN), raw.get(_CLOCK), raw.get(_MARK), sinks)
