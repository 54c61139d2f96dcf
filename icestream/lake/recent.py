"""What was read or written last, kept in memory up to so many bytes. For files that never change once they are there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The values that were asked for last; the oldest ones go when all of them come to more than `size` bytes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._known: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        """What is known under a key."""
        with self._lock:
            found = self._known.get(key)
            if found is None:
                return None
            self._known.move_to_end(key)
            return found[0]

    def keep(self, key: K, value: V, size: int) -> None:
        """Remember a value of so many bytes."""
        with self._lock:
            if key in self._known:
                self._bytes -= self._known.pop(key)[1]
            self._known[key] = (value, size)
            self._bytes += size
            while self._bytes > self.size:
                self._bytes -= self._known.popitem(last=False)[1][1]
