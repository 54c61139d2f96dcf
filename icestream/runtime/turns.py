"""Who may change the pipeline: its own loop, and whoever has a statement for it."""

from __future__ import annotations

import threading
from collections import deque

from icestream import interrupts


class Turns:
    """One thread at a time, in the order in which they came; who has the turn may take it again.

    A statement that is cancelled stops waiting.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[int] = deque()
        self._owner: int | None = None
        self._depth = 0

    def __enter__(self) -> Turns:
        me = threading.get_ident()
        with self._changed:
            if self._owner == me:
                self._depth += 1
                return self
            if self._owner is None and not self._waiting:
                interrupts.check()
                self._owner, self._depth = me, 1
                return self
        interrupt = interrupts.current()
        with interrupt.waiting("Lock", "pipeline"), interrupt.on_cancel(self._wake):
            self._wait(me, interrupt)
        return self

    def _wait(self, me: int, interrupt: interrupts.Interrupt) -> None:
        with self._changed:
            self._waiting.append(me)
            try:
                self._changed.wait_for(
                    lambda: interrupt.cancelled or (self._owner is None and self._waiting[0] == me)
                )
                interrupt.check()
                self._owner, self._depth = me, 1
            finally:
                self._waiting.remove(me)
                self._changed.notify_all()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._depth -= 1
            if not self._depth:
                self._owner = None
                self._changed.notify_all()
