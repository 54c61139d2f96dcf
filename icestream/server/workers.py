"""Statements run in threads of their own, so that a cancelled one can be left behind.

A thread cannot be stopped while it is inside a call that does not return, of Spark, a catalog or a broker. Its client
need not wait for that: a statement that was cancelled makes no change any more (see `interrupts`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from icestream.interrupts import TIMEOUT, Interrupt

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

GRACE = 1.0
"""Seconds in which a cancelled statement should end by itself."""
IDLE = 10.0
"""Seconds after which a thread without a statement ends."""
AGAIN = 1.0
"""Seconds after which one that was left behind is cancelled again: something new may have begun."""


class _Task(Generic[_T]):
    """One statement under way."""

    def __init__(
        self, work: Callable[[], _T], interrupt: Interrupt, discard: Callable[[_T], None]
    ) -> None:
        self.work = work
        self.interrupt = interrupt
        self.discard = discard
        self.news = threading.Event()
        """It has ended, or was cancelled."""
        self.ended = threading.Event()
        self.result: list[_T] = []
        self.error: BaseException | None = None
        self._left = False
        self._lock = threading.Lock()

    def run(self) -> None:
        try:
            with self.interrupt.bound():
                self.result.append(self.work())
        except BaseException as error:
            self.error = error
        with self._lock:
            self.ended.set()
            self.news.set()
            left = self._left
        if left:
            self._forget()

    def leave(self) -> bool:
        """Nobody waits for it any longer; False if it has ended."""
        with self._lock:
            self._left = not self.ended.is_set()
            return self._left

    def _forget(self) -> None:
        try:
            for result in self.result:
                self.discard(result)
        except Exception:
            _LOG.warning("the result of a cancelled statement could not be closed", exc_info=True)
        if self.error is not None:
            _LOG.debug("a statement that was left behind has ended", exc_info=self.error)


class Workers:
    """Threads for statements: as many as there are statements at a time. They do not keep the process from ending."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[SimpleQueue[_Task[Any]]] = []

    def run(
        self,
        work: Callable[[], _T],
        interrupt: Interrupt,
        timeout: float | None = None,
        discard: Callable[[_T], None] = lambda result: None,
    ) -> _T:
        """The result of a statement; StatementCancelledError if it was cancelled, or if the timeout (in seconds) has passed.

        What a statement gives that was left behind is discarded.
        """
        task = _Task(work, interrupt, discard)
        with interrupt.on_cancel(task.news.set):
            self._hand_over(task)
            if not task.news.wait(timeout):
                interrupt.cancel(TIMEOUT)
            if interrupt.cancelled and not task.ended.wait(GRACE) and task.leave():
                threading.Thread(
                    target=_insist, args=[task], name="icestream-left", daemon=True
                ).start()
                interrupt.check()
            task.ended.wait()
        if task.error is not None:
            raise task.error
        return task.result[0]

    def _hand_over(self, task: _Task[Any]) -> None:
        with self._lock:
            queue = self._idle.pop() if self._idle else None
        if queue is None:
            queue = SimpleQueue()
            threading.Thread(
                target=self._work, args=[queue], name="icestream-statement", daemon=True
            ).start()
        queue.put(task)

    def _work(self, queue: SimpleQueue[_Task[Any]]) -> None:
        while True:
            try:
                task = queue.get(timeout=IDLE)
            except Empty:
                with self._lock:
                    if queue in self._idle:
                        self._idle.remove(queue)
                        return
                task = queue.get()  # it came at this very moment
            task.run()
            del task
            with self._lock:
                self._idle.append(queue)


def _insist(task: _Task[Any]) -> None:
    while not task.ended.wait(AGAIN):
        task.interrupt.cancel()
