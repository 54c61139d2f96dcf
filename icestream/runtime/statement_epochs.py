"""Epochs that a statement waits for: those that make its writes visible, and those of FLUSH."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from icestream import interrupts
from icestream.errors import FencedError, LakeError
from icestream.home_log import log_failure
from icestream.identity import object_names
from icestream.lake.position import Offset
from icestream.observe.report import EpochReport
from icestream.runtime.cut_chooser import CutChooser
from icestream.runtime.failures import describe_error, may_pass
from icestream.runtime.health import PipelineHealth
from icestream.runtime.open_objects import OpenObjects
from icestream.runtime.pipeline_loop import ONCE_ATTEMPTS
from icestream.runtime.pipeline_state import PipelineState
from icestream.runtime.writes import PAUSED

_LOG = logging.getLogger(__name__)

FLUSH_TURN = 0.5
"""Seconds that FLUSH waits for the answers of sources before it lets others have the turn."""
FLUSH_PATIENCE = 10.0
"""Seconds that FLUSH waits for a source that did not fail before."""


class EpochSteps(Protocol):
    """The pipeline, as statements see it."""

    def settle(self) -> None:
        """Complete the epoch that was interrupted, if one was."""

    def step(
        self, goal: dict[str, Offset] | None = None, *, force: bool = False
    ) -> EpochReport | None:
        """One epoch, if there is anything to do."""

    def find_culprits(self) -> bool:
        """Whether sources or sinks made the last epoch fail."""


class StatementEpochs:
    """Runs epochs for statements."""

    def __init__(
        self,
        steps: EpochSteps,
        state: PipelineState,
        open: OpenObjects,
        health: PipelineHealth,
        chooser: CutChooser,
        notice: Callable[[str], None],
    ) -> None:
        self.steps = steps
        self.state = state
        self.open = open
        self.health = health
        self.chooser = chooser
        self.notice = notice

    def reach(self, entries: Mapping[str, int], report: Callable[[EpochReport], None]) -> None:
        """Run epochs until these entries of the log of statements are in. Other sources stay where they are, so that
        nobody waits for their backlog. Called in turn, and not while paused."""
        newest = self.state.lake.dml.newest(self.open.feeds)
        goal: dict[str, Offset] = {k: {"entry": n} for k, n in {**newest, **entries}.items()}

        def waits() -> bool:
            return any(self.state.record.sources[k]["entry"] < n for k, n in entries.items())

        while waits():
            try:
                done = self._step_patiently(goal)
            except FencedError:
                raise
            except Exception as error:
                names, reason = object_names(entries), describe_error(error).message
                raise LakeError(
                    f"rows that were accepted for {names} are not visible yet: {reason}",
                    remedy="they are kept, and visible as soon as that is mended: try again then",
                ) from error
            if done is not None:
                report(done)
            elif waits():
                raise LakeError("the log of statements does not advance")

    def flush(
        self, report: Callable[[EpochReport], None], turn: AbstractContextManager[object]
    ) -> None:
        """Take in all statements, and of each source what one epoch takes. Nobody waits for a backlog, for a rate limit
        or for a source that does not answer; they are named. Waits for answers out of turn."""
        until = time.monotonic() + FLUSH_PATIENCE
        waiter = object()
        try:
            while True:
                with turn:
                    if self.state.paused:
                        return self.notice(PAUSED)
                    self.state.lake.dml.bound()
                    sources = {k: f.source for k, f in self.open.feeds.items() if not f.held}
                    known = self.state.record.sources
                    ends = self.health.sources.poll(sources, known, FLUSH_TURN)
                    silent = sources.keys() - ends.keys() - self.health.sources.keys()
                    if not silent or time.monotonic() >= until:
                        return self._take_in(self._flush_goal(sources, ends), report)
                    self.chooser.leave_to(waiter, silent)
                self.health.sources.await_answers(silent, until)
        finally:
            self.chooser.leave_to(waiter, ())

    def _take_in(self, goal: dict[str, Offset], report: Callable[[EpochReport], None]) -> None:
        """Run epochs until the goal is reached."""
        self.chooser.look_at_clock()
        while True:
            done = self._step_patiently(goal, force=True)
            if done is None:
                return
            report(done)
            failed, sources = self.health.sources, self.state.record.sources
            if all(k in failed or sources[k] == end for k, end in goal.items()):
                return

    def _flush_goal(self, sources: Iterable[str], ends: Mapping[str, Offset]) -> dict[str, Offset]:
        """How far FLUSH goes in each source."""
        goal: dict[str, Offset] = {}
        known = self.state.record.sources
        for key in sources:
            feed = self.open.feeds[key]
            if key not in ends:
                failure = self.health.sources.get(key)
                reason = failure.message if failure else "it has not answered in time"
                self.notice(f"FLUSH does not wait for {feed.object.name}: {reason}")
                continue
            limit = self.chooser.feed_limit(key, feed)
            goal[key] = feed.source.advance(known[key], ends[key], limit)
            if goal[key] != ends[key]:
                self.notice(f"{feed.object.name} has more than FLUSH waits for")
        return goal

    def _step_patiently(
        self, goal: dict[str, Offset], *, force: bool = False
    ) -> EpochReport | None:
        """One epoch for a statement that waits for it. What fails and may pass, or can be left out, is tried again."""
        attempt = 0
        while True:
            interrupts.check()
            try:
                with interrupts.shield():
                    self.steps.settle()
                    return self.steps.step(goal, force=force)
            except FencedError:
                raise
            except Exception as error:
                log_failure(_LOG, "an epoch for a statement failed")
                attempt += 1
                blamed = self.steps.find_culprits()
                if attempt >= ONCE_ATTEMPTS or not (blamed or may_pass(error)):
                    raise
                self.notice(f"{describe_error(error).message}; trying again")
                time.sleep(0.1 * 2**attempt)
