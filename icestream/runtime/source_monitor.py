"""Asks sources for their ends, each in a thread of its own, and remembers which of them fail.

A source that fails or does not answer in time is left out of the epoch. It is asked again in the background, with
exponential backoff and jitter, so that it delays nothing that does not read it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from icestream import interrupts
from icestream.errors import FencedError
from icestream.lake.position import Offset
from icestream.runtime.failures import Failure, Failures, describe_error

PATIENCE = 2.0
"""Seconds that an epoch waits for the answer of a source."""
LOOK = 0.1
"""Seconds between two looks at whether a statement that waits was cancelled."""
SLOW = 10.0
"""Seconds without an answer after which a source is shown as failing."""


class Polled(Protocol):
    """What is asked: a source connector."""

    is_local: bool

    def latest(self, since: Offset) -> Offset:
        """See `Source.latest`."""


@dataclass
class Question:
    """A source that is being asked where it ends."""

    since: Offset
    asked_at: float = field(default_factory=time.monotonic)
    answered: threading.Event = field(default_factory=threading.Event)
    end: Offset | None = None
    error: Exception | None = None


class Poller:
    """The thread that asks one source. A daemon: a source that never answers does not keep the process alive."""

    def __init__(self, key: str, source: Polled) -> None:
        self.source = source
        self.question: Question | None = None
        self._queue: queue.SimpleQueue[Question | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._name = f"icestream-source-{key}"

    def ask(self, since: Offset) -> None:
        """Begin to ask; local sources answer at once."""
        self.question = Question(since)
        if self.source.is_local:
            self._answer(self.question)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._queue.put(self.question)

    def stop(self) -> None:
        """End the thread after the question at hand."""
        self._queue.put(None)

    def _work(self) -> None:
        while (question := self._queue.get()) is not None:
            self._answer(question)

    def _answer(self, question: Question) -> None:
        try:
            question.end = self.source.latest(question.since)
        except Exception as error:
            question.error = error
        question.answered.set()


def _wait(event: threading.Event, seconds: float | None) -> bool:
    """Wait for an event; a statement that is cancelled meanwhile ends."""
    end = None if seconds is None else time.monotonic() + seconds
    while not event.is_set():
        interrupts.check()
        left = LOOK if end is None else min(LOOK, end - time.monotonic())
        if left <= 0:
            return event.is_set()
        event.wait(left)
    return True


class SourceMonitor(Failures):
    """The state of a pipeline's sources."""

    kind = "SOURCE"

    def __init__(
        self,
        notice: Callable[[str], None] = lambda text: None,
        event: Callable[..., None] = lambda type, **info: None,
    ) -> None:
        super().__init__(notice, event)
        self._pollers: dict[str, Poller] = {}
        self._suspect: set[str] = set()
        """Sources whose ranges could not be read though they answer: they fail until a range has been read."""

    def poll(
        self,
        sources: Mapping[str, Polled],
        since: Mapping[str, Offset],
        patience: float | None = PATIENCE,
    ) -> dict[str, Offset]:
        """The ends of the sources that answer in time. Without a limit of `patience`, failed ones are asked as well."""
        deadline = None if patience is None else time.monotonic() + patience
        asked: list[str] = []
        for key, source in sources.items():
            if self._ask(key, source, since[key], even_failed=patience is None):
                asked.append(key)
        ends: dict[str, Offset] = {}
        for key in asked:
            question = self._pollers[key].question
            assert question is not None
            # Failed sources are asked in the background.
            waits = patience is None or key not in self
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if _wait(question.answered, left if waits else 0.0):
                self._pollers[key].question = None
                end = self._take(key, question)
                if end is not None and question.since == since[key]:
                    ends[key] = end
            elif time.monotonic() - question.asked_at > SLOW and key not in self:
                self.note(key, Failure("it has not answered for a while", attempts=1))
        return ends

    def await_answers(self, keys: Iterable[str], until: float) -> None:
        """Wait for sources that are being asked, until that time on the monotonic clock. Their answers stay for the next poll."""
        for key in keys:
            poller = self._pollers.get(key)
            if poller is not None and (question := poller.question) is not None:
                _wait(question.answered, max(0.0, until - time.monotonic()))

    def _ask(self, key: str, source: Polled, since: Offset, *, even_failed: bool) -> bool:
        """Make sure that a source is being asked; False if it is not its time."""
        poller = self._pollers.get(key)
        if poller is None or poller.source is not source:
            if poller is not None:
                poller.stop()
            poller = self._pollers[key] = Poller(key, source)
        question = poller.question
        is_pending = question is not None and (
            question.since == since or not question.answered.is_set()
        )
        if is_pending and not source.is_local:  # local answers belong to one cut
            return True
        failure = self.get(key)
        if failure is not None and not even_failed and time.monotonic() < failure.retry_at:
            return False
        poller.ask(since)
        return True

    def _take(self, key: str, question: Question) -> Offset | None:
        error = question.error
        if isinstance(error, FencedError):
            raise error
        if error is not None:
            self.fail(key, error)
            return None
        assert question.end is not None
        if key not in self._suspect or question.end == question.since:
            self.recover([key])
        return question.end

    def fail(self, key: str, error: BaseException, *, reading: bool = False) -> None:
        """Note that a source failed: when it was asked, or when a range of it was read."""
        if reading:
            self._suspect.add(key)
        self.note(key, describe_error(error))

    def recover(self, keys: Iterable[str]) -> None:
        """These sources work: they answered, or a range of them was read."""
        keys = list(keys)
        self._suspect.difference_update(keys)
        super().recover(keys)

    def forget(self, key: str) -> None:
        """Ask anew at the next poll, as if nothing had happened."""
        super().forget(key)
        self._suspect.discard(key)

    def keep(self, keys: Iterable[str]) -> None:
        """Forget all sources but these."""
        kept = set(keys)
        for key in [k for k in self._pollers if k not in kept]:
            self._pollers.pop(key).stop()
        for key in [k for k in list(self) if k not in kept]:
            self.forget(key)

    def close(self) -> None:
        """End the threads. Does not wait for sources that do not answer."""
        self.keep(())
