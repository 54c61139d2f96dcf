"""What fails at the moment, since when, and when it is tried again."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from py4j.protocol import Py4JJavaError

from icestream.errors import ConnectorError, IcestreamError, RangeLostError
from icestream.home_log import log_failure
from icestream.identity import object_name
from icestream.lake.jvm import java_message
from icestream.secrecy import mask_secrets

_LOG = logging.getLogger(__name__)

FIRST_RETRY, LAST_RETRY = 1.0, 60.0
"""Seconds before the first and, at most, before every later retry."""
PYTHON_ERROR = re.compile(r"^icestream\.errors\.(\w+): (.+)$", re.M)
"""An error of the engine that a Python worker raised, in the text of Spark's exception."""


@dataclass
class Failure:
    """Something that fails, since when, and when it is tried again."""

    message: str
    remedy: str | None = None
    lost: bool = False
    """Whether retries cannot help by themselves: records are gone."""
    since: float = field(default_factory=time.time)
    attempts: int = 0
    retry_at: float = 0.0
    """On the monotonic clock."""
    error: BaseException | None = field(default=None, repr=False)

    def count_attempt(self) -> None:
        """Set the time of the next retry."""
        wait = retry_delay(self.attempts, FIRST_RETRY, LAST_RETRY)
        self.attempts += 1
        self.retry_at = time.monotonic() + wait

    def as_error(self, name: str) -> IcestreamError:
        """The error to raise for whoever cannot go on without `name`."""
        if isinstance(self.error, IcestreamError):
            return self.error
        kind = RangeLostError if self.lost else ConnectorError
        return kind(self.message, object=name, remedy=self.remedy)

    def __str__(self) -> str:
        return f"{self.message} (hint: {self.remedy})" if self.remedy else self.message


def retry_delay(attempts: int, first: float, last: float) -> float:
    """Seconds to wait after so many failed attempts: twice as long each time, with jitter."""
    return float(min(first * 2.0 ** min(attempts, 16), last) * random.uniform(0.75, 1.25))


def describe_error(error: BaseException) -> Failure:
    """What to say of an error, with its own remedy where it has one. Never raises: the text of a Java exception is asked of
    the JVM, which may be gone."""
    try:
        failure = _describe(error)
    except Exception:
        log_failure(_LOG, "an error cannot be described", level=logging.DEBUG)
        failure = Failure(type(error).__name__)
    failure.error = error
    return failure


def may_pass(error: Exception) -> bool:
    """Whether trying again may help: the outside world failed, or Spark did; not a table that is not what it was."""
    if isinstance(error, RangeLostError):
        return False
    return isinstance(error, ConnectorError) or not isinstance(error, IcestreamError)


def _describe(error: BaseException) -> Failure:
    if isinstance(error, IcestreamError):
        return Failure(error.message, error.remedy, isinstance(error, RangeLostError))
    text = java_message(error) if isinstance(error, Py4JJavaError) else str(error)
    found = PYTHON_ERROR.search(str(error))
    if found is not None:
        return Failure(mask_secrets(found[2]), lost=found[1] == RangeLostError.__name__)
    lines = text.strip().splitlines()
    return Failure(mask_secrets(lines[0])[:300] if lines else type(error).__name__)


class Failures(dict[str, Failure]):
    """What fails of one kind of parts of a pipeline, by their keys."""

    kind = ""
    """The beginning of the names of events."""

    def __init__(self, notice: Callable[[str], None], event: Callable[..., None]) -> None:
        super().__init__()
        self.notice = notice
        self.event = event

    def note(self, key: str, failure: Failure) -> None:
        """Remember that something failed (again), and tell it if that is new."""
        before = self.get(key)
        name = object_name(key)
        if before is not None:
            failure.since, failure.attempts = before.since, before.attempts
        failure.count_attempt()
        self[key] = failure
        if failure.error is not None:
            log_failure(_LOG, "%s %s failed", self.kind.lower(), name, error=failure.error)
        if before is None or before.message != failure.message:
            state = "its readers stop" if failure.lost else "it is tried again"
            self.notice(f"{name}: {failure.message}; {state}, others go on")
            self.event(f"{self.kind}_FAIL", **{self.kind.lower(): name}, error=failure.message)

    def recover(self, keys: Iterable[str]) -> None:
        """These work."""
        for key in keys:
            if self.pop(key, None) is not None:
                name = object_name(key)
                self.notice(f"{name} is back")
                self.event(f"{self.kind}_RECOVER", **{self.kind.lower(): name})

    def forget(self, key: str) -> None:
        """Say nothing of it any more."""
        self.pop(key, None)


class SinkFailures(Failures):
    """Sinks whose target cannot be written: they are left out of epochs and catch up later."""

    kind = "SINK"

    def __init__(self, notice: Callable[[str], None], event: Callable[..., None]) -> None:
        super().__init__(notice, event)
        self._retried: set[str] = set()

    def fail(self, key: str, error: BaseException) -> None:
        """Note that a sink could not write."""
        self._retried.discard(key)
        self.note(key, describe_error(error))

    def retry_soon(self) -> None:
        """Try all of them again in the next epoch, however long they have failed."""
        for failure in self.values():
            failure.retry_at = 0.0

    def due(self) -> list[str]:
        """Those that are to be tried again now."""
        now = time.monotonic()
        return [k for k, f in self.items() if f.retry_at <= now and k not in self._retried]

    def retry(self, key: str) -> None:
        """Let a sink take part in the next epoch; it fails until that is complete."""
        self._retried.add(key)

    def retried(self) -> set[str]:
        """Sinks that take part again."""
        return self._retried & self.keys()

    def active(self) -> set[str]:
        """Sinks that are left out."""
        return self.keys() - self._retried

    def keep(self, keys: Iterable[str]) -> None:
        """Forget all others."""
        kept = set(keys)
        for key in [k for k in self if k not in kept]:
            self.forget(key)

    def forget(self, key: str) -> None:
        """Say nothing of it any more."""
        super().forget(key)
        self._retried.discard(key)

    def recover(self, keys: Iterable[str]) -> None:
        """These have written."""
        found = list(keys)
        super().recover(found)
        self._retried.difference_update(found)
