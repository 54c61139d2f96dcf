"""Calls to systems outside that may not return: each runs in a thread of its own, which can be left behind."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from icestream import interrupts
from icestream.errors import ConnectorError
from icestream.home_log import log_failure

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

AHEAD_SECONDS = 120.0
"""How long a statement waits for systems outside before its turn. It can be cancelled meanwhile."""
IN_TURN_SECONDS = 20.0
"""How long a statement that has the turn waits for a system outside, which answered shortly before."""
_LOOK = 0.1


class _Call(Generic[T]):
    """A call under way."""

    def __init__(self, work: Callable[[], T]) -> None:
        self.work = work
        self.done = threading.Event()
        self.result: list[T] = []
        self.error: BaseException | None = None
        self.is_left = False
        """Whether nobody waits for it any more."""

    def run(self) -> None:
        try:
            self.result.append(self.work())
        except BaseException as error:
            self.error = error
            if self.is_left:
                log_failure(_LOG, "a call that nobody waits for any more has failed")
        self.done.set()


def call_outside(work: Callable[[], T], name: str, seconds: float) -> T:
    """The result of a call for the object of that name.

    Raises ConnectorError after so many seconds, and StatementCancelledError when the statement is cancelled. The call then goes on in
    its thread, so it must take no lock.
    """
    call = _Call(work)
    interrupt = interrupts.current()
    end = time.monotonic() + seconds
    threading.Thread(target=call.run, name=f"icestream-outside-{name}", daemon=True).start()
    with interrupt.waiting("IPC", "Connector"):
        while not call.done.wait(_LOOK):
            interrupt.check()
            if time.monotonic() > end:
                call.is_left = True
                raise ConnectorError(
                    f"{name}: the system outside did not answer within {seconds:g} s",
                    object=name,
                    remedy="check its address, the network and the credentials",
                )
    if call.error is not None:
        raise call.error
    return call.result[0]
