"""What of a pipeline fails at the moment, and whose fault a failed epoch was: a source's, a sink's, or the lake's."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyspark.sql import SparkSession

from icestream.home_log import log_failure
from icestream.identity import object_name
from icestream.runtime.epoch import Epoch
from icestream.runtime.failures import Failure, SinkFailures, describe_error, retry_delay
from icestream.runtime.open_objects import OpenObjects
from icestream.runtime.source_monitor import SourceMonitor

_LOG = logging.getLogger(__name__)

FIRST_BACKOFF, MAX_BACKOFF = 0.5, 30.0
"""Seconds before a failed epoch is tried again: the first time, and at most."""


class PipelineHealth:
    """Sources and sinks that fail, and why epochs fail altogether if they do."""

    def __init__(self, notice: Callable[[str], None], event: Callable[..., None]) -> None:
        self.notice = notice
        self.event = event
        self.sources = SourceMonitor(notice, event)
        self.sinks = SinkFailures(notice, event)
        self.trouble: Failure | None = None
        """Why epochs fail at the moment, if they do."""
        self._shown: dict[str, str] = {}

    def has_changed(self) -> bool:
        """Whether something has begun or ceased to fail since it was last asked."""
        before = self._shown
        self._shown = {key: failure.message for key, failure in self._failures()}
        return self._shown != before

    def _failures(self) -> list[tuple[str, Failure]]:
        return [*self.sources.items(), *self.sinks.items()]

    def tell_left_out(self, strict: bool) -> None:
        """A bounded run ends: raise, or tell, that it has left sources or sinks out because they failed."""
        for key, failure in self._failures():
            name = object_name(key)
            if strict:
                raise failure.as_error(name)
            self.notice(f"{name} was left out: {failure.message}")

    def note_trouble(self, error: Exception, failures: int, epoch: int) -> float:
        """Remember and tell why epochs fail; gives the seconds after which to try again."""
        found = describe_error(error)
        if self.trouble is not None:
            found.since = self.trouble.since
        self.trouble = found
        wait = retry_delay(failures, FIRST_BACKOFF, MAX_BACKOFF)
        self.notice(f"{found.message}; trying again in {wait:.1f} s")
        self.event("COLLECT_BARRIER_FAIL", epoch=epoch, error=found.message)
        return wait

    def find_culprits(self, epoch: Epoch, open: OpenObjects) -> bool:
        """Whether sources or sinks made an epoch fail, and not the lake or Spark. They are noted as failing.

        Each range is read again by itself. If all can be read, and only sinks have failed, these are to blame.
        """
        if not _runs_jobs(open.spark):
            return False
        found = False
        for key, range in epoch.reads.ranges:
            feed = open.feeds.get(key)
            if feed is None or key in epoch.cut.held:
                continue
            error = feed.find_error(range, epoch.cut.now)
            if error is not None:
                self.sources.fail(key, error, reading=True)
                found = True
        tasks = [open.plan.by_key.get(key) for key in epoch.failed]
        if found or not tasks or not all(t is not None and t.writes_outside for t in tasks):
            return found
        for key, failure in epoch.failed.items():
            self.sinks.fail(key, failure)
        return True


def _runs_jobs(spark: SparkSession) -> bool:
    """Whether Spark works at all."""
    try:
        return bool(spark.range(1).count() == 1)
    except Exception:
        log_failure(_LOG, "Spark runs no jobs")
        return False
