"""Cancellation of one statement: a signal that any thread may give while the statement runs in another.

The thread of a statement has its `Interrupt` as the current one. Long work asks `check()`; a wait registers a callback
that ends it; and whatever makes a change durable calls `commit()` first. From there on a cancel comes too late, before
that it has won and the change is not made: so a client can be told at once that its statement was cancelled, even if
the thread is still busy with something that cannot be stopped.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LOG = logging.getLogger(__name__)

_LOOK = 0.1
"""Seconds between two looks at whether a wait was cancelled."""
USER = "canceling statement due to user request"
TIMEOUT = "canceling statement due to statement timeout"


class StatementCancelledError(BaseException):
    """The statement was cancelled.

    Not an `Exception`: code that retries or ignores failures must not take it for one.
    """

    @property
    def reason(self) -> str:
        """What the client is told."""
        return str(self.args[0])


class Interrupt:
    """The cancel signal of one statement."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._committed = False
        self._callbacks: dict[object, Callable[[], None]] = {}
        self._waits: list[tuple[str, str]] = []

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled in time."""
        return self._reason is not None

    @property
    def reason(self) -> str:
        """What the client is told of the cancel."""
        return self._reason or USER

    @property
    def wait(self) -> tuple[str, str] | None:
        """What the statement waits for now: PostgreSQL's wait_event_type and wait_event."""
        waits = self._waits
        return waits[-1] if waits else None

    def cancel(self, reason: str = USER) -> bool:
        """End the statement; False if it is too late. May be repeated, which ends what has begun since."""
        with self._lock:
            if self._committed:
                return False
            self._reason = self._reason or reason
            callbacks = list(self._callbacks.values())
        for callback in callbacks:
            try:
                callback()
            except Exception:
                _LOG.warning("a wait could not be ended", exc_info=True)
        return True

    def check(self) -> None:
        """Raise if it was cancelled."""
        if self._reason is not None:
            raise StatementCancelledError(self._reason)

    def commit(self) -> None:
        """Raise if it was cancelled; else it cannot be cancelled any more. Called before a change becomes durable."""
        with self._lock:
            if self._reason is None:
                self._committed = True
                return
        self.check()

    def reopen(self) -> None:
        """The change has failed and is tried again: until then it may be cancelled."""
        with self._lock:
            self._committed = False

    @contextmanager
    def on_cancel(self, callback: Callable[[], None]) -> Iterator[None]:
        """Have a callback called, by the thread that cancels, if that happens meanwhile; at once if it has happened."""
        key = object()
        with self._lock:
            self._callbacks[key] = callback
            cancelled = self._reason is not None
        try:
            if cancelled:
                callback()
            yield
        finally:
            with self._lock:
                del self._callbacks[key]

    @contextmanager
    def waiting(self, kind: str, event: str) -> Iterator[None]:
        """Show what the statement waits for meanwhile."""
        wait = (kind, event)
        self._waits.append(wait)
        try:
            yield
        finally:
            self._waits.remove(wait)  # a job of the statement may have begun another one meanwhile

    @contextmanager
    def bound(self) -> Iterator[None]:
        """Make it the current one of this thread."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)


_CURRENT: ContextVar[Interrupt | None] = ContextVar("interrupt", default=None)


def current() -> Interrupt:
    """The signal of the statement that this thread runs; without a statement, one that nobody gives."""
    return _CURRENT.get() or Interrupt()


def check() -> None:
    """Raise if the statement that this thread runs was cancelled."""
    found = _CURRENT.get()
    if found is not None and found._reason is not None:
        found.check()


def commit() -> None:
    """The statement that this thread runs is about to make a change durable. See `Interrupt.commit`."""
    found = _CURRENT.get()
    if found is not None:
        found.commit()


def wait_for(event: threading.Event, kind: str, name: str) -> None:
    """Wait for an event, shown by its kind and name; raise if the statement is cancelled meanwhile."""
    interrupt = current()
    with interrupt.waiting(kind, name):
        while not event.wait(_LOOK):
            interrupt.check()


@contextmanager
def shield() -> Iterator[None]:
    """Let work go on to its end although the statement was cancelled: that of undoing it."""
    token = _CURRENT.set(None)
    try:
        yield
    finally:
        _CURRENT.reset(token)
