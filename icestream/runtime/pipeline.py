"""The pipeline of a home: its parts put together.

PipelineState     the newest record and its log
OpenObjects       the open feeds and targets
CutChooser        what the next epoch takes
EpochRunner       runs it
Recovery          fences, and completes an interrupted epoch
ObjectSet         start and DDL: the running plan becomes that of the home's objects
PipelineLoop      epoch after epoch
StatementEpochs   epochs that a statement waits for
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from icestream import faults
from icestream.catalog.graph import Plan, make_plan
from icestream.catalog.objects import Object
from icestream.config import EngineSettings
from icestream.lake.catalogs import OWNER, Lake
from icestream.lake.position import Offset
from icestream.lake.stamp import Record
from icestream.maintenance.housekeeping import Housekeeper
from icestream.observe.report import EpochReport
from icestream.runtime.cut_chooser import CutChooser
from icestream.runtime.epoch_runner import EpochRunner
from icestream.runtime.follow import check_free
from icestream.runtime.health import PipelineHealth
from icestream.runtime.object_set import ObjectSet, Ready
from icestream.runtime.open_objects import OpenObjects
from icestream.runtime.outside_answers import Answers, AnswersInTurn, ask_new, ask_reset
from icestream.runtime.pipeline_loop import PipelineLoop
from icestream.runtime.pipeline_state import PipelineState
from icestream.runtime.recovery import Recovery
from icestream.runtime.statement_epochs import StatementEpochs
from icestream.runtime.table_cleanup import drop_tables_of, drop_unowned_tables
from icestream.types import BOOLEAN


class Pipeline:
    """All objects of a home, advancing together."""

    def __init__(
        self,
        lake: Lake,
        pipeline: str,
        incarnation: int,
        settings: EngineSettings,
        indexes: Path,
        notice: Callable[[str], None] = lambda text: None,
        event: Callable[..., None] = lambda type, **info: None,
        *,
        after_crash: bool = False,
    ) -> None:
        """`after_crash`: the last process of this home did not come to an orderly end."""
        self.lake = lake
        self.event = event
        self.state = state = PipelineState(lake, pipeline, incarnation)
        self.objects = OpenObjects(lake, indexes)
        self.answers = AnswersInTurn()
        self.housekeeper = Housekeeper(lake, settings, notice)
        self.health = PipelineHealth(notice, event)
        self.chooser = CutChooser(state, self.objects, self.health, settings)
        self._runner = EpochRunner(state, self.objects, self.health, self.chooser, notice, event)
        self._recovery = Recovery(state, self.objects, self.health, self._runner, notice, event)
        self._object_set = ObjectSet(
            state, self.objects, self._recovery, self.answers, after_crash=after_crash
        )
        self._waited = StatementEpochs(self, state, self.objects, self.health, self.chooser, notice)
        self.loop = PipelineLoop(self, lake.spark, self.health, settings, notice)

    @property
    def record(self) -> Record:
        """The newest complete record."""
        return self.state.record

    @property
    def plan(self) -> Plan:
        """What its epochs do."""
        return self.objects.plan

    @property
    def is_interrupted(self) -> bool:
        """Whether an epoch was begun and is not complete."""
        return self._runner.is_interrupted

    @property
    def is_throttled(self) -> bool:
        """Whether a source has a rate limit."""
        return any(feed.rate_limit for feed in list(self.objects.feeds.values()))

    # -- start, restart, DDL ---------------------------------------------------------------------

    def ask_new(self, objects: Sequence[Object]) -> Answers:
        """Ask outside what new ones of these objects need. Called out of turn: it may take long, and can be cancelled."""
        return ask_new(make_plan(objects), self.record, self.lake)

    def ask_reset(self, key: str) -> Answers:
        """Ask outside where a source goes on once it is reset. Called out of turn."""
        feed = self.objects.feeds.get(key)
        if feed is None:
            return Answers()
        return ask_reset(feed.feed, self._object_set.offsets_in(key), self.lake)

    def open(self, objects: Sequence[Object], plan_version: int) -> None:
        """Own the log, fence every table, roll an interrupted epoch forward, take in what is new."""
        state = self.state
        if not self.lake.exists(state.log.table):
            self.lake.create(state.log.table, [("unused", BOOLEAN)], properties={OWNER: "log"})
        state.record = state.log.newest() or state.record
        state.incarnation = max(state.incarnation, state.record.incarnation + 1)
        faults.reach("recovering")
        state.commit(incarnation=state.incarnation, plan=plan_version)
        self.lake.dml.open(state.incarnation)
        self._object_set.attach(objects, plan_version, fence=True)

    def attach(
        self, objects: Sequence[Object], plan_version: int, ready: Ready | None = None
    ) -> None:
        """Make the running plan that of these objects, as a whole or not at all. See `ObjectSet.attach`."""
        self._object_set.attach(objects, plan_version, ready=ready)

    def check_free(self, names: Collection[str]) -> None:
        """Whether tables may get these names; an error otherwise."""
        check_free(self.lake, names)

    def reset_source(self, key: str) -> None:
        """Let a source go on after records that are lost."""
        name = self._object_set.reset_source(key)
        self.health.sources.forget(key)
        self.event("SOURCE_RESET", source=name)

    def sweep(self, keys: Collection[str]) -> None:
        """Drop tables of objects that are not there: what a process has left that died while it filled a view."""
        self.state.check_owner()
        drop_unowned_tables(self.lake, self.objects.lake_tables().values(), keys)

    def discard(self, objects: Sequence[Object]) -> None:
        """Drop the tables of objects that are gone. A process that was fenced drops nothing: its successor may have made
        tables of the same names for the same objects."""
        self.state.check_owner()
        drop_tables_of(self.lake, objects)

    # -- epochs ----------------------------------------------------------------------------------

    def settle(self) -> None:
        """Complete the epoch that was interrupted, if one was."""
        self._recovery.settle()

    def step(
        self, goal: Mapping[str, Offset] | None = None, *, force: bool = False
    ) -> EpochReport | None:
        """One epoch, if there is anything to do; None otherwise. `force` ignores commit intervals."""
        self.health.sources.keep(self.objects.feeds)
        self._recovery.rejoin_sinks()
        cut = self.chooser.choose(goal, force)
        if cut is None:
            return None
        faults.reach("ranges-chosen")
        return self._runner.run(cut)

    def look_at_clock(self) -> None:
        """Let views that depend on now() take part in the next epoch."""
        self.chooser.look_at_clock()

    def find_culprits(self) -> bool:
        """Whether sources or sinks made the last epoch fail. They are left out of the next one."""
        return self._runner.find_culprits()

    def poll_ends(self, goal: Mapping[str, Offset], patience: float | None) -> dict[str, Offset]:
        """Where sources end that the goal lacks, as far as they answer in time."""
        if not goal:
            self.lake.dml.bound()
        left = {k: f.source for k, f in self.objects.feeds.items() if k not in goal}
        return self.health.sources.poll(left, self.record.sources, patience)

    def is_answered(self, goal: Mapping[str, Offset]) -> bool:
        """Whether every source is in the goal, or fails."""
        return all(k in goal or k in self.health.sources for k in list(self.objects.feeds))

    def tidy(self) -> None:
        """Look after tables."""
        tables, own = self.objects.lake_tables(), self.objects.feed_tables()
        self.housekeeper.after_epoch(tables, own, self.state.log, self.record)

    def run(
        self,
        stop: threading.Event,
        *,
        once: bool = False,
        strict: bool = True,
        keep_going: bool = False,
        report: Callable[[EpochReport], None] = lambda r: None,
        changed: Callable[[], None] = lambda: None,
        turn: AbstractContextManager[object] | None = None,
    ) -> None:
        """Run epochs until told to stop. See `PipelineLoop.run`."""
        self.loop.run(
            stop,
            once=once,
            strict=strict,
            keep_going=keep_going,
            report=report,
            changed=changed,
            turn=turn,
        )

    def reach(self, entries: Mapping[str, int], report: Callable[[EpochReport], None]) -> None:
        """Run epochs until these entries of the log of statements are in."""
        self._waited.reach(entries, report)

    def flush(
        self, report: Callable[[EpochReport], None], turn: AbstractContextManager[object]
    ) -> None:
        """Take in all statements, and of each source what one epoch takes. See `StatementEpochs.flush`."""
        self._waited.flush(report, turn)

    def close(self) -> None:
        """Close all connectors. Called after the loop has ended."""
        self.health.sources.close()
        self.objects.close()
