"""A new view is filled from what is there already, beside the pipeline, which goes on meanwhile.

The view's stages are computed once, over all their inputs as the newest complete record has them, into tables that
nobody knows yet. When that is done the pipeline takes them in with the positions they have reached, and what has come
since is an ordinary delta of its next epoch. If the process dies before, nothing has happened.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from icestream.catalog.graph import Plan, make_plan
from icestream.catalog.objects import Object
from icestream.errors import SignalError
from icestream.lake.catalogs import Lake
from icestream.lake.jvm import clone_session
from icestream.lake.log import EpochLog
from icestream.lake.stamp import ObjectAt, Record
from icestream.maintenance.housekeeping import needed
from icestream.runtime.epoch import Epoch
from icestream.runtime.epoch_context import Cut
from icestream.runtime.new_objects import NewObjects
from icestream.runtime.object_set import Ready
from icestream.runtime.open_objects import OpenObjects
from icestream.runtime.pipeline import Pipeline
from icestream.runtime.pipeline_state import PipelineState
from icestream.runtime.table_cleanup import drop_tables_of

GROUP, POOL = "spark.jobGroup.id", "spark.scheduler.pool"


class BackfillStoppedError(SignalError):
    """Somebody has cancelled it."""


class _NoLog(EpochLog):
    """What a backfill does is in nobody's record."""

    def commit(self, record: Record) -> None:
        """Keep it to oneself."""


@dataclass(frozen=True)
class Progress:
    """How far a backfill is: stages of the view that are done, all of them, and the part of the next."""

    done: int
    all: int
    part: float = 0.0

    def __str__(self) -> str:
        return f"{min(1.0, (self.done + self.part) / max(1, self.all)):.2%}"


class Backfill:
    """The first content of one new object. Make it when it is your turn, `run` it whenever, then have it attached."""

    def __init__(
        self,
        pipeline: Pipeline,
        objects: Sequence[Object],
        new: Object,
        large_records: bool = False,
    ) -> None:
        self.new = new
        self.group = f"icestream-backfill-{new.id}"
        self.stopped = threading.Event()
        self.base = pipeline.record
        self._lake = Lake(clone_session(pipeline.lake.spark), pipeline.lake.dml)
        shared = pipeline.state
        log = _NoLog(shared.log.table)
        log.head = shared.log.head
        self._state = PipelineState(self._lake, shared.id, shared.incarnation, log)
        self._state.record = self.base
        self._open = OpenObjects(self._lake, pipeline.objects.indexes)
        plan = make_plan([*objects, new]).select(new)
        self.stages = [t.key for t in plan.tasks if t.object.key == new.key]
        self._epoch: Epoch | None = None
        try:
            self._open.open(plan)
            for key, feed in self._open.feeds.items():
                known = pipeline.objects.feeds.get(key)
                is_large = known is not None and known.source.has_large_records
                feed.source.has_large_records = feed.source.raw and (is_large or large_records)
            NewObjects(self._state, self._open, pipeline.answers).add(plan)
        except BaseException:
            self.discard()
            raise

    @property
    def pinned(self) -> set[int]:
        """The snapshots that it reads, and that are to stay until it is done."""
        return needed(self.base)

    def run(self) -> Ready:
        """Fill the tables; what the pipeline needs to go on from there."""
        context = self._lake.spark.sparkContext
        context.setJobGroup(self.group, f"filling {self.new.name}", interruptOnCancel=False)
        context.setLocalProperty(POOL, "backfill")
        now = max(time.time_ns() // 1000, self.base.time)
        cut = Cut(self.base.epoch, now, {}, frozenset(self.stages))
        record, log = self._state.record, self._state.log
        self._epoch = Epoch(self._open, log, record, cut, check=self._check)
        try:
            self._epoch.run()
        except Exception:
            self._check()
            raise
        finally:
            for name in (GROUP, POOL):
                context.setLocalProperty(name, None)
        self._check()
        done = self._epoch.context
        counted = (*self.stages, f"{self.new.key}.errors")
        return Ready(
            {key: done.at[key] for key in self.stages},
            {key: done.counters.get(key, 0) for key in counted},
            {f.key: self.base.sources[f.key] for f in self._open.plan.feeds},
        )

    def _check(self) -> None:
        if self.stopped.is_set():
            raise BackfillStoppedError

    @property
    def progress(self) -> Progress:
        """How far it is."""
        epoch = self._epoch
        if epoch is None:
            return Progress(0, len(self.stages))
        done = sum(_is_filled(epoch.context.at[key]) for key in self.stages)
        tracker = self._lake.spark.sparkContext.statusTracker()
        tasks = finished = 0
        for job in tracker.getJobIdsForGroup(self.group):
            found = tracker.getJobInfo(job)
            for stage in found.stageIds if found is not None and found.status == "RUNNING" else ():
                info = tracker.getStageInfo(stage)
                if info is not None:
                    tasks += info.numTasks
                    finished += info.numCompletedTasks
        return Progress(done, len(self.stages), finished / tasks if tasks else 0.0)

    def stop(self) -> None:
        """Make `run` fail soon."""
        self.stopped.set()
        self._lake.spark.sparkContext.cancelJobGroup(self.group)

    def discard(self) -> None:
        """Undo it: its tables go, and what was opened for it."""
        self._open.open(Plan())
        self._open.forget_removed()
        self._state.check_owner()
        drop_tables_of(self._lake, [self.new])

    def close(self) -> None:
        """Let go of what was opened for it."""
        self._open.close()


def feeds_of(objects: Sequence[Object], new: Object) -> list[str]:
    """The feeds that a new object reads itself."""
    return [f.key for f in make_plan([*objects, new]).select(new).feeds]


def _is_filled(at: ObjectAt) -> bool:
    begun = at.position.begun
    return begun is not None and bool(begun["begun"])
