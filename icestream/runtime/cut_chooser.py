"""Chooses what the next epoch takes: how far it goes in each source, and which objects take part."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from icestream.catalog.graph import StageTask, Task
from icestream.config import EngineSettings
from icestream.lake.position import Offset
from icestream.observe.report import EpochReport
from icestream.runtime.epoch_context import Cut
from icestream.runtime.feeds import OpenFeed
from icestream.runtime.health import PipelineHealth
from icestream.runtime.open_objects import OpenObjects
from icestream.runtime.pipeline_state import PipelineState

TICK = 1.0
"""Seconds between looks at views that depend on now()."""
RATE_BURST = 3
"""Intervals' worth of records that a source with a rate limit may give after it was idle."""


@dataclass
class Pace:
    """How fast a feed was read, and when; the size of its next epoch follows from it."""

    rate: float | None = None
    read_at: float | None = None


class CutChooser:
    """The cuts of a pipeline's epochs."""

    def __init__(
        self,
        state: PipelineState,
        open: OpenObjects,
        health: PipelineHealth,
        settings: EngineSettings,
    ) -> None:
        self.state = state
        self.open = open
        self.health = health
        self.settings = settings
        self.lags: dict[str, int] = {}
        """Records that each feed has beyond the last cut."""
        self._pace: dict[str, Pace] = {}
        self._committed: dict[str, float] = {}
        """When each object last took part."""
        self._awaited: dict[object, frozenset[str]] = {}
        """Sources whose answers each FLUSH waits for. Epochs leave them to it."""
        self._ticked_at: float | None = None

    def choose(self, goal: Mapping[str, Offset] | None, force: bool) -> Cut | None:
        """The next cut, or None if there is nothing to do. With a `goal` it goes no further than that; `force` ignores
        commit intervals."""
        if self.state.paused:
            return None
        if goal is None:
            self.state.lake.dml.bound()
        record = self.state.record
        ends, limited = self._ends(goal)
        held = frozenset(k for k in self.open.feeds if k not in ends)
        failed_sinks = self.health.sinks.active()
        moved = {k for k, end in ends.items() if end != record.sources[k]}
        now = time.monotonic()
        ticks = self._ticks(once=goal is not None)
        news: set[str] = set()
        due: set[str] = set()
        for task in self.open.plan.tasks:
            if task.key in failed_sinks or any(held & set(r.foreign) for r in task.readers):
                continue
            changed = any(moved & set(r.feeds) or news & set(r.tables) for r in task.readers)
            if not (changed or self._is_behind(task, held) or self._is_stale(task, ticks)):
                continue
            news.add(task.key)
            waited = now - self._committed.get(task.key, -1e9)
            if force or limited or waited >= task.interval:
                due.add(task.key)
        if not due:
            return None
        used = {k for r in self.open.plan.readers if r.committer in due for k in r.feeds}
        ends = {k: v for k, v in ends.items() if k in used}
        micros = max(time.time_ns() // 1000, record.time + 1_000)
        return Cut(record.epoch + 1, micros, ends, frozenset(due), self._limit(), held)

    def _is_behind(self, task: Task, held: frozenset[str]) -> bool:
        """Whether a task has not read all that the record has of a feed."""
        record = self.state.record
        return any(
            reader.feed_offset(record, key) != record.sources[key]
            for reader in task.readers
            for key in reader.feeds
            if key not in held
        )

    def _is_stale(self, task: Task, ticks: bool) -> bool:
        """Whether a task has not read the newest snapshot of a table, was not computed yet, or is to look at the clock."""
        record = self.state.record
        if any(
            reader.table_offset(record, key)["snapshot"] != record.objects[key].snapshot
            for reader in task.readers
            for key in reader.tables
        ):
            return True
        moves = ticks and isinstance(task, StageTask) and task.stage.moving
        return moves or not task.has_begun(record)

    def leave_to(self, waiter: object, sources: Collection[str]) -> None:
        """Let a statement wait for the answers of these sources: epochs do not ask them until it is done."""
        if sources:
            self._awaited[waiter] = frozenset(sources)
        else:
            self._awaited.pop(waiter, None)

    def look_at_clock(self) -> None:
        """Let views that depend on now() take part in the next epoch."""
        self._ticked_at = None

    def _ticks(self, *, once: bool) -> bool:
        """Whether views that depend on now() are to be looked at though nothing may have come."""
        if self._ticked_at is not None and once:
            return False
        since = time.monotonic() - (self._ticked_at or -1e9)
        return since >= max(self.settings.epoch_interval, TICK)

    def _ends(self, goal: Mapping[str, Offset] | None) -> tuple[dict[str, Offset], bool]:
        """How far the epoch may go in each feed. One that fails is left out; the others go on."""
        ends: dict[str, Offset] = {}
        limited = False
        feeds, sources = self.open.feeds, self.state.record.sources
        if goal is None:
            awaited = frozenset[str]().union(*list(self._awaited.values()))
            asked = {k: f.source for k, f in feeds.items() if not f.held and k not in awaited}
            goal = self.health.sources.poll(asked, sources)
        else:  # sources without a goal stay where they are
            failed = self.health.sources
            ends = {k: sources[k] for k in feeds if k not in goal and k not in failed}
            goal = {k: v for k, v in goal.items() if k not in failed}
        for key, feed in feeds.items():
            since = sources[key]
            if feed.held:
                ends[key] = since
            elif key in goal:
                ends[key] = feed.source.advance(since, goal[key], self.feed_limit(key, feed))
                self.lags[key] = feed.source.count(ends[key], goal[key]) or 0
                limited |= ends[key] != goal[key] and feed.rate_limit is None
        return ends, limited

    # -- pace ------------------------------------------------------------------------------------

    def _limit(self) -> int:
        rates = [p.rate for p in self._pace.values() if p.rate]
        return self._budget(min(rates) if rates else None)

    def feed_limit(self, key: str, feed: OpenFeed) -> int:
        """Records that one epoch takes of a feed."""
        pace = self._pace.setdefault(key, Pace())
        limit = self._budget(pace.rate)
        if feed.rate_limit is None:
            return limit
        now = time.monotonic()
        interval = self.settings.epoch_interval
        since = interval if pace.read_at is None else min(now - pace.read_at, RATE_BURST * interval)
        return min(limit, max(1, int(feed.rate_limit * since)))

    def _budget(self, rate: float | None) -> int:
        settings = self.settings
        if not rate:
            return settings.first_epoch_records
        return max(50_000, int(rate * settings.epoch_target))

    def note_begin(self, began: float) -> None:
        """An epoch begins."""
        self._ticked_at = began

    def note_end(self, cut: Cut, began: float, report: EpochReport) -> None:
        """An epoch is complete."""
        for key in cut.due:
            self._committed[key] = began
        for key, records in report.records.items():
            pace = self._pace.setdefault(key, Pace())
            pace.read_at = began
            if report.seconds > 0.5 and records > 10_000:
                pace.rate = records / report.seconds
