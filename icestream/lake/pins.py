"""Snapshots that queries are reading, so that they are not expired under them."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable


class Pin:
    """The snapshots of one reader. Until it knows which ones they are, nothing is expired."""

    def __init__(self, pins: SnapshotPins, number: int) -> None:
        self._pins = pins
        self._number = number

    def add(self, snapshots: Iterable[int | None]) -> None:
        """Name snapshots that are read."""
        named = self._pins.by_reader.get(self._number) or frozenset()
        self._pins.by_reader[self._number] = named | {s for s in snapshots if s is not None}

    def tie_to(self, reader: object) -> None:
        """Release it when nobody refers to the reader any more."""
        weakref.finalize(reader, self.release)

    def release(self) -> None:
        """Forget it. May be called from a garbage collection, so it takes no lock."""
        self._pins.by_reader.pop(self._number, None)


class SnapshotPins:
    """The pins of one engine. All methods may be called from any thread."""

    def __init__(self) -> None:
        self.by_reader: dict[int, frozenset[int] | None] = {}
        self._numbers = itertools.count()

    def begin(self) -> Pin:
        """A pin for a reader that is about to choose its snapshots."""
        number = next(self._numbers)
        self.by_reader[number] = None
        return Pin(self, number)

    def snapshots(self) -> set[int] | None:
        """All that are pinned; None if some reader has not chosen yet."""
        found: set[int] = set()
        for named in list(self.by_reader.values()):
            if named is None:
                return None
            found |= named
        return found
