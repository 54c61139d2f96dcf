"""What the sessions of tests have in common: nothing is cancelled, and no text is a transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from icestream.server.backend import Notice

T = TypeVar("T")


class QuietSession:
    """The calls of a session that tests of the protocol have nothing to do for."""

    def finish(self) -> None:
        """See `Session.finish`."""

    def interruptible(self, sql: str, work: Callable[[], T]) -> T:
        """See `Session.interruptible`."""
        return work()

    def start_text(self) -> None:
        """See `Session.start_text`."""

    def end_text(self) -> tuple[Notice, ...]:
        """See `Session.end_text`."""
        return ()

    def fail(self) -> None:
        """See `Session.fail`."""
