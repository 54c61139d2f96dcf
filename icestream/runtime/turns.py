"""Who may change the pipeline: its own loop, and whoever has a statement for it."""

from __future__ import annotations

import threading
from collections import deque


class Turns:
    """One thread at a time, in the order in which they came; who has the turn may take it again."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[int] = deque()
        self._owner: int | None = None
        self._depth = 0

    def __enter__(self) -> Turns:
        me = threading.get_ident()
        with self._changed:
            if self._owner != me:
                self._waiting.append(me)
                try:
                    self._changed.wait_for(lambda: self._owner is None and self._waiting[0] == me)
                finally:
                    self._waiting.remove(me)
                    self._changed.notify_all()
                self._owner = me
            self._depth += 1
        return self

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._depth -= 1
            if not self._depth:
                self._owner = None
                self._changed.notify_all()
