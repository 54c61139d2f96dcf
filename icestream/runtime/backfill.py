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
from icestream.runtime.parts import BEGUN, Cut
from icestream.runtime.pipeline import Pipeline, Ready

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
        spark = clone_session(pipeline.lake.spark)
        self._own = Pipeline(
            Lake(spark, pipeline.lake.dml),
            pipeline.id,
            pipeline.incarnation,
            pipeline.settings,
            pipeline.indexes,
        )
        self._own.record = self.base
        log = pipeline.runtime.log
        self._own.runtime.log = _NoLog(log.table)
        self._own.runtime.log.head = log.head
        plan = _part(make_plan([*objects, new]), new)
        self.stages = [t.key for t in plan.tasks if t.object.key == new.key]
        self._epoch: Epoch | None = None
        try:
            self._own.open_parts(plan)
            for key, feed in self._own.runtime.feeds.items():
                known = pipeline.runtime.feeds.get(key)
                is_large = known is not None and known.source.has_large_records
                feed.source.has_large_records = feed.source.raw and (is_large or large_records)
            with self._own.using(pipeline.answers):
                self._own.add_new(plan)
        except BaseException:
            self.discard()
            raise

    @property
    def pinned(self) -> set[int]:
        """The snapshots that it reads, and that are to stay until it is done."""
        return needed(self.base)

    def run(self) -> Ready:
        """Fill the tables; what the pipeline needs to go on from there."""
        own = self._own
        context = own.lake.spark.sparkContext
        context.setJobGroup(self.group, f"filling {self.new.name}", interruptOnCancel=False)
        context.setLocalProperty(POOL, "backfill")
        now = max(time.time_ns() // 1000, self.base.time)
        cut = Cut(self.base.epoch, now, {}, frozenset(self.stages))
        self._epoch = Epoch(own.runtime, own.record, cut, check=self._check)
        try:
            self._epoch.run()
        except Exception:
            self._check()
            raise
        finally:
            for name in (GROUP, POOL):
                context.setLocalProperty(name, None)
        self._check()
        runtime = own.runtime
        return Ready(
            {key: self._epoch.objects[key] for key in self.stages},
            {key: runtime.heads[key] for key in self.stages},
            {key: runtime.uuids[key] for key in self.stages},
            {
                key: self._epoch.counters.get(key, 0)
                for key in (*self.stages, f"{self.new.key}.errors")
            },
            {f.key: self.base.sources[f.key] for f in own.plan.feeds},
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
        done = sum(_is_filled(epoch.objects[key]) for key in self.stages)
        tracker = self._own.lake.spark.sparkContext.statusTracker()
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
        self._own.lake.spark.sparkContext.cancelJobGroup(self.group)

    def discard(self) -> None:
        """Undo it: its tables go, and what was opened for it."""
        self._own.open_parts(Plan((), ()))
        self._own.discard([self.new])

    def close(self) -> None:
        """Let go of what was opened for it."""
        self._own.close()


def _part(plan: Plan, new: Object) -> Plan:
    """The part of a plan that is about a new object, with the tables that it reads."""
    own = [t for t in plan.tasks if t.object.key == new.key]
    feeds = {key for t in own for key in (*t.feeds, *t.foreign)}
    tables = {key for t in own for key in (t.key, *t.tables)}
    return Plan(
        tuple(f for f in plan.feeds if f.key in feeds),
        tuple(t for t in plan.tasks if t.key in tables),
    )


def feeds_of(objects: Sequence[Object], new: Object) -> list[str]:
    """The feeds that a new object reads itself."""
    return [f.key for f in _part(make_plan([*objects, new]), new).feeds]


def _is_filled(at: ObjectAt) -> bool:
    return bool((at.position or {}).get(BEGUN, {}).get("begun"))
