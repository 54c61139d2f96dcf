"""The loop that runs epoch after epoch, whatever fails beside them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from pyspark.sql import SparkSession

from icestream import interrupts
from icestream.config import EngineSettings
from icestream.errors import FencedError
from icestream.home_log import log_failure
from icestream.lake.jvm import check_jvm
from icestream.lake.position import Offset
from icestream.lake.stamp import Record
from icestream.observe.report import EpochReport
from icestream.runtime.failures import describe_error, may_pass
from icestream.runtime.health import PipelineHealth

_LOG = logging.getLogger(__name__)

GOAL_PATIENCE = 0.5
"""Seconds that a bounded run holds its turn while it waits for sources to say where they end."""
ONCE_ATTEMPTS = 3
"""Times that an epoch is tried for a run or a statement that waits for it."""

Turn = AbstractContextManager[object]


class LoopSteps(Protocol):
    """The pipeline, as its loop sees it."""

    @property
    def record(self) -> Record:
        """The newest complete record."""

    @property
    def is_throttled(self) -> bool:
        """Whether a source has a rate limit."""

    def settle(self) -> None:
        """Complete the epoch that was interrupted, if one was."""

    def step(
        self, goal: dict[str, Offset] | None = None, *, force: bool = False
    ) -> EpochReport | None:
        """One epoch, if there is anything to do."""

    def poll_ends(self, goal: dict[str, Offset], patience: float | None) -> dict[str, Offset]:
        """Where sources end that the goal lacks."""

    def is_answered(self, goal: dict[str, Offset]) -> bool:
        """Whether every source is in the goal, or fails."""

    def look_at_clock(self) -> None:
        """Let views that depend on now() take part in the next epoch."""

    def find_culprits(self) -> bool:
        """Whether sources or sinks made the last epoch fail."""

    def tidy(self) -> None:
        """Look after tables."""


class PipelineLoop:
    """Runs the epochs of a pipeline."""

    def __init__(
        self,
        steps: LoopSteps,
        spark: SparkSession,
        health: PipelineHealth,
        settings: EngineSettings,
        notice: Callable[[str], None],
    ) -> None:
        self.steps = steps
        self.spark = spark
        self.health = health
        self.settings = settings
        self.notice = notice
        self.tidied = 0
        """The epoch after which tables were last looked after."""

    def run(
        self,
        stop: threading.Event,
        *,
        once: bool = False,
        strict: bool = True,
        keep_going: bool = False,
        report: Callable[[EpochReport], None] = lambda r: None,
        changed: Callable[[], None] = lambda: None,
        turn: Turn | None = None,
    ) -> None:
        """Run epochs until told to stop, or, with `once`, until everything that is there now is in.

        Each is run when it is this thread's `turn`. `changed` is called when something begins or ceases to fail.

        Sources that fail are left out of epochs until they are back; a `strict` bounded run raises their error at its
        end. Other failures are retried with backoff (recovering first, so a half-done epoch is completed, not
        repeated). A table that is not what was recorded ends the run, unless it is to `keep_going`. FencedError always
        does. Stopping waits for the epoch's end.
        """
        turn = turn or nullcontext()
        goal = self._find_goal(strict, stop, turn) if once else None
        if once:
            self.health.sinks.retry_soon()
        failures = attempts = 0
        self.steps.look_at_clock()
        self.tidied = self.tidied or self.steps.record.epoch
        while not stop.is_set():
            began = time.monotonic()
            check_jvm(self.spark)
            try:
                # A statement that runs an epoch and is cancelled leaves after it: it is everybody's epoch.
                with turn, interrupts.shield():
                    self.steps.settle()
                    done = self.steps.step(goal, force=once)
            except FencedError:
                raise
            except Exception as error:
                log_failure(_LOG, "epoch %d failed", self.steps.record.epoch + 1)
                failures += 1
                check_jvm(self.spark)
                blamed = self._blame(turn)
                if once and failures >= ONCE_ATTEMPTS:
                    raise
                if not blamed:  # else the others go on without what fails
                    if not (keep_going or may_pass(error)):
                        raise
                    epoch = self.steps.record.epoch + 1
                    wait = self.health.note_trouble(error, failures, epoch)
                    changed()
                    self._wait(stop, wait)
                continue
            failures = 0
            if self.health.trouble is not None:
                self.health.trouble = None
                changed()
            if done is not None:
                report(done)
            self._tidy(turn)
            if self.health.has_changed():
                changed()
            if once and done is None:
                if attempts < ONCE_ATTEMPTS and self._retry_sinks():
                    attempts += 1
                    continue
                self.health.tell_left_out(strict)
                return
            if self.steps.is_throttled or not (once or (done is not None and done.behind)):
                stop.wait(max(0.0, self.settings.epoch_interval - (time.monotonic() - began)))

    def _tidy(self, turn: Turn) -> None:
        """Look after tables, if there was an epoch. It is complete, so whatever fails here is only told."""
        if self.steps.record.epoch == self.tidied:
            return
        self.tidied = self.steps.record.epoch  # statements run epochs too
        with turn, interrupts.shield():
            try:
                self.steps.tidy()
            except FencedError:
                raise
            except Exception as error:
                check_jvm(self.spark)
                log_failure(_LOG, "tidying failed")
                self.notice(f"tidying failed: {describe_error(error).message}")

    def _blame(self, turn: Turn) -> bool:
        """Find whose fault a failed epoch was, in turn. If that fails too it was nobody's, and the epoch is tried again."""
        try:
            with turn:
                return self.steps.find_culprits()
        except FencedError:
            raise
        except Exception:
            log_failure(_LOG, "what made an epoch fail cannot be found out")
            check_jvm(self.spark)
            return False

    def _wait(self, stop: threading.Event, seconds: float) -> None:
        """Wait before the next attempt, though not for a JVM that has ended."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not stop.wait(min(left, 1.0)):
            check_jvm(self.spark)

    def _find_goal(self, strict: bool, stop: threading.Event, turn: Turn) -> dict[str, Offset]:
        """Where each source ends now. Only a `strict` run waits for those that have failed before."""
        goal: dict[str, Offset] = {}
        while not stop.is_set():
            with turn, interrupts.shield():
                goal |= self.steps.poll_ends(goal, None if strict else GOAL_PATIENCE)
            if self.steps.is_answered(goal):
                break
        return goal

    def _retry_sinks(self) -> bool:
        """Whether failing sinks take part in the next epoch because trying again may help."""
        errors = [failure.error for failure in self.health.sinks.values()]
        if not any(isinstance(e, Exception) and may_pass(e) for e in errors):
            return False
        self.health.sinks.retry_soon()
        return True
