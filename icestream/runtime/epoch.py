"""One epoch: from a cut through all sources to a complete record in the log.

The order is what makes it exactly once. Files are staged first, visible to nobody; then each table commits
with the epoch's stamp; the log's commit completes the epoch; only then sources are acknowledged. Whatever
is interrupted is rolled forward by running the same epoch again: tables that carry its stamp are skipped,
and what reads them finds their delta in their own commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from pyspark import inheritable_thread_target

from icestream import faults
from icestream.catalog.graph import ConnectorTask, IngestTask, SinkTask, StageTask, Task
from icestream.lake.log import EpochLog
from icestream.lake.position import Ranges
from icestream.lake.stamp import ObjectAt, Record, Stamp
from icestream.runtime.dead_letters import DeadLetterWriter
from icestream.runtime.epoch_context import Cut, EpochContext
from icestream.runtime.feeds import Rows
from icestream.runtime.open_objects import OpenObjects
from icestream.runtime.session import FOR_LARGE_RECORDS, changed_settings
from icestream.runtime.stage_executor import StageExecutor
from icestream.runtime.task_executors import (
    ConnectorExecutor,
    IngestExecutor,
    Result,
    SinkExecutor,
    TaskExecutor,
)

T = TypeVar("T")
PARALLEL = 4
SMALL = 5_000
"""Records of an epoch that planning costs more for than the work."""
QUICK = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
"""Settings for a small epoch."""

Executor = TaskExecutor[Any]


def make_executor(task: Task, context: EpochContext) -> Executor:
    """What carries a task out in an epoch."""
    match task:
        case IngestTask():
            return IngestExecutor(task, context)
        case StageTask():
            return StageExecutor(task, context)
        case SinkTask():
            return SinkExecutor(task, context)
        case ConnectorTask():
            return ConnectorExecutor(task, context)
    raise TypeError(type(task))


class Epoch:
    """The execution of one cut on top of a complete record."""

    def __init__(
        self,
        open: OpenObjects,
        log: EpochLog,
        record: Record,
        cut: Cut,
        stamped: Mapping[str, Stamp] | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        """`stamped`: tables that carry the epoch's stamp already. `check` is called now and then; what it raises ends the
        epoch, whose Spark jobs may be cancelled then."""
        self.context = EpochContext(open, log, record, cut, cancellable=check is not None)
        self.open = open
        self.log = log
        self.record = record
        self.cut = cut
        self.stamped = stamped or {}
        self.check = check or (lambda: None)
        self.reads = self.context.reads
        self.report = self.context.report
        self.letters = DeadLetterWriter(self.context, self.stamped)
        self.failed: dict[str, Exception] = {}
        """Tasks that could not be computed or committed."""

    def run(self) -> Record:
        """Execute, commit, and give the new record. Joined threads only; nothing runs on after this returns."""
        began = time.monotonic()
        settings = QUICK if self._is_small() else {}
        if self.context.has_large_records:
            settings = settings | FOR_LARGE_RECORDS
        with changed_settings(self.open.spark, settings):
            self._run_levels()
        self.reads.note_large_records()
        self.reads.count()
        faults.reach("tables-committed")
        record = self._complete()
        self.log.commit(record)
        faults.reach("log-committed")
        self.report.seconds = time.monotonic() - began
        return record

    def _is_small(self) -> bool:
        """Whether so little has come that planning costs more than the work."""
        counts: dict[tuple[str, str], int] = {}
        for task in self.context.due_readers():
            for key in task.feeds:
                range = self.context.feed_range(task, key)
                count = self.open.feeds[key].source.at_most(range.start, range.end)
                if count is None:
                    return False
                counts[key, repr(range)] = count
            if sum(counts.values()) > SMALL:
                return False
            contents, at = self.context.contents, self.context.at
            little = (contents.is_little(k, at[k].snapshot) for k in task.tables)
            if not task.has_begun(self.record) and not all(little):
                return False
        return True

    def _run_levels(self) -> None:
        """Each level after those that it reads."""
        try:
            self._share_rows()
            for level in self.open.plan.levels:
                self.check()
                self._run_level([t for t in level if t.key in self.cut.due])
        except BaseException:
            self.reads.suspect_large_records()
            raise
        finally:
            self.reads.release()
            self.context.contents.close()

    def _share_rows(self) -> None:
        """Rows of a range that several tasks read are decoded once and kept for the others."""
        read: list[Rows] = []
        for task in self.context.due_readers():
            if task.committer in self.stamped:
                continue
            for key in task.feeds:
                range = self.context.feed_range(task, key)
                if range.empty:
                    continue
                placed = key in task.marks and self.reads.by_place(key)
                rows = self.reads.rows(key, range, as_changes=placed or task.changes is not None)
                if any(rows is other for other in read):
                    rows.share()
                read.append(rows)

    def _run_level(self, tasks: Sequence[Task]) -> None:
        """Stage all tasks and their dead letters, then commit them. Tables that carry the epoch's stamp are taken as they are."""
        executors = [make_executor(task, self.context) for task in tasks]
        done = [e for e in executors if e.task.key in self.stamped]
        for executor in done:
            executor.adopt(self.stamped[executor.task.key])
        todo = [(e, e.ranges()) for e in executors if e.task.key not in self.stamped]
        todo = [(e, ranges) for e, ranges in todo if not ranges.empty]
        staged = self._run_parallel([partial(self._stage, *one) for one in todo])
        read = [(e.task, ranges) for e, ranges in todo]
        read += [(e.task, self.stamped[e.task.key].ranges) for e in done]
        letters = self.letters.stage(read)
        ready = [(*one, result) for one, result in zip(todo, staged, strict=True)]
        self._run_parallel([partial(self._commit, *one) for one in ready])
        self.letters.commit(letters)

    def _run_parallel(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        """Run all, wait for all, then give the results or raise the first failure."""
        if len(jobs) <= 1:
            return [job() for job in jobs]
        wrap = inheritable_thread_target(self.open.spark)
        with ThreadPoolExecutor(PARALLEL) as pool:
            futures = [pool.submit(wrap(job)) for job in jobs]
        return [future.result() for future in futures]

    def _stage(self, executor: Executor, ranges: Ranges) -> Result:
        with self._timed(executor.task):
            return executor.stage(ranges)

    def _commit(self, executor: Executor, ranges: Ranges, result: Result) -> None:
        with self._timed(executor.task):
            executor.commit(ranges, result)

    @contextmanager
    def _timed(self, task: Task) -> Iterator[None]:
        """Count the time that a task takes, and remember its failure."""
        began, spent = time.monotonic(), self.report.spent
        try:
            yield
        except Exception as error:
            self.failed[task.key] = error
            raise
        finally:
            spent[task.key] = spent.get(task.key, 0.0) + time.monotonic() - began

    def _complete(self) -> Record:
        """The record of this epoch; positions that equal the cut need not be spelled out."""
        sources = {**self.record.sources, **self.cut.ends}
        counters = self.context.counters
        objects: dict[str, ObjectAt] = {}
        for key, at in self.context.at.items():
            behind = at.position.behind(sources)
            self.report.behind |= key in self.cut.due and behind.lags(sources)
            objects[key] = replace(at, position=behind)
        for key, records in self.report.records.items():
            counters[f"{key}.records"] = counters.get(f"{key}.records", 0) + records
        self._count_errors()
        return replace(
            self.record,
            epoch=self.cut.epoch,
            time=self.cut.time,
            sources=sources,
            objects=objects,
            counters=counters,
        )

    def _count_errors(self) -> None:
        """Add the expressions that failed to the counters of their objects."""
        plan, counters = self.open.plan, self.context.counters
        running = (*(t.object for t in plan.tasks), *(f.object for f in plan.feeds))
        objects = {o.id: o.key for o in running}
        for id, count in self.open.errors.take(objects).items():
            key = objects[id]
            self.report.errors[key] = count
            counters[f"{key}.errors"] = counters.get(f"{key}.errors", 0) + count
