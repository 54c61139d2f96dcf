"""What each type of task does in an epoch: its ranges, the files it stages, its commit.

An executor is made for one task and one epoch. `ranges` says what is to be read to reach the cut, `stage` computes it and
writes files that no snapshot refers to yet, `commit` makes them visible with the epoch's stamp.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Generic, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from icestream.catalog.graph import ConnectorTask, IngestTask, SinkIntoTask, SinkTask, Task
from icestream.errors import ConnectorError
from icestream.functions.expression_errors import Failures
from icestream.home_log import log_failure
from icestream.lake.fold import CHANGE_SCHEMA, OP, UPSERT
from icestream.lake.keyed import AS_IT_IS, Changes, StagedChanges
from icestream.lake.position import Range, Ranges
from icestream.lake.staging import Staged, stage
from icestream.lake.stamp import Stamp
from icestream.lake.table import HeadMovedError
from icestream.plan.logical import Expand, Node, Unnest, WindowTable, walk
from icestream.plan.spark import render
from icestream.runtime.destinations import ConnectorFeed
from icestream.runtime.epoch_context import EpochContext
from icestream.runtime.into import in_turn, together, united
from icestream.runtime.open_table import OpenTable
from icestream.runtime.temp_views import TempViews
from icestream.types import backtick

_LOG = logging.getLogger(__name__)

COLLISIONS = 8
"""Times that an upsert into a shared table is prepared again because somebody else committed."""

Result = Staged | StagedChanges | int | None
"""What a task has made ready: files, files and deletes, or the number of rows that a sink has written."""

T = TypeVar("T", bound=Task)


class InputReader(Generic[T]):
    """The inputs of a task in an epoch."""

    def __init__(self, task: T, context: EpochContext) -> None:
        self.task = task
        self.context = context

    def ranges(self) -> Ranges:
        """What is to be read of each input to reach the cut."""
        task, context = self.task, self.context
        feeds = {key: context.feed_range(task, key) for key in task.feeds}
        ends = {key: {"snapshot": context.at[key].snapshot} for key in task.tables}
        tables = {k: Range(task.table_offset(context.record, k), end) for k, end in ends.items()}
        mark: Range | None = None
        if task.has_mark:
            before = context.record.objects[task.key].position.mark
            assert before is not None
            mark = Range(before, context.reads.reached(task, before, feeds, context.at))
        return Ranges(feeds, tables, mark=mark)

    def count_changes(self, ranges: Ranges) -> int | None:
        """About how many changes there are, where that is known beforehand and says how much the driver has to hold."""
        context = self.context
        if context.has_large_records:
            return None
        counts: list[int] = []
        for key, range in ranges.feeds.items():
            count = context.open.feeds[key].source.at_most(range.start, range.end)
            if count is None:
                return None
            counts.append(count)
        counts += [context.contents.changed(key, r) for key, r in ranges.tables.items()]
        return sum(counts)

    def query_changes(self, query: Node, ranges: Ranges) -> Changes:
        """The changes that a linear query makes of the changes of its inputs."""
        task, context = self.task, self.context
        frames = {k: context.reads.changes_in_time(task, k, ranges) for k in task.feeds}
        frames |= {k: context.contents.delta(k, ranges.tables[k]) for k in task.tables}
        many = any(isinstance(n, Unnest | WindowTable | Expand) for n in walk(query))
        columns = tuple(name for name, _ in task.columns)
        count = self.count_changes(ranges)
        return Changes(self.render(query, frames), columns, count, unbounded=many)

    def render(self, query: Node, frames: Mapping[str, DataFrame]) -> DataFrame:
        """A query over frames in the place of its relations."""
        spark, failures = self.context.open.spark, self.failures
        with TempViews(spark) as views:
            inputs = {key: views.add(frame) for key, frame in frames.items()}
            return spark.sql(render(query, inputs, self.context.cut.now, failures))

    @property
    def failures(self) -> Failures | None:
        """What the task's expressions do when they fail."""
        return self.context.open.errors.handler(self.task.object.id)


class TaskExecutor(InputReader[T], ABC):
    """A task that commits what it computes."""

    def __init__(self, task: T, context: EpochContext) -> None:
        super().__init__(task, context)
        self.target = context.open.targets[task.key]

    @property
    def table(self) -> OpenTable:
        """Its target, where that is a table."""
        assert isinstance(self.target, OpenTable)
        return self.target

    @abstractmethod
    def stage(self, ranges: Ranges) -> Result:
        """Compute what is to be committed and write it to files that are not visible yet."""

    def commit(self, ranges: Ranges, result: Result) -> None:
        """Make what was staged visible."""
        assert not isinstance(result, StagedChanges)
        self.context.commit_rows(self.task.key, ranges, result, self.target)

    def adopt(self, stamp: Stamp) -> None:
        """The table carries this epoch's stamp already."""
        context = self.context
        context.finish(self.task.key, self.target, stamp.ranges, stamp.rows)
        for key, mark in self.task.marks.items():
            if key in context.cut.held:
                continue  # its late rows are not counted
            assert stamp.ranges.mark is not None
            before = stamp.ranges.mark.start["inputs"].get(key)
            context.reads.newest(key, stamp.ranges.feeds[key], mark, before)

    def stage_rows(self, rows: DataFrame) -> Staged:
        """Write rows that are added, in as many parts as ALTER … SET PARALLELISM says."""
        parts = self.task.parallelism
        return stage(rows if parts is None else rows.repartition(parts), self.table.table)


class KeyedExecutor(TaskExecutor[T]):
    """A task whose table may have a key: it applies changes then."""

    @abstractmethod
    def changes(self, ranges: Ranges) -> Changes | None:
        """The changes to apply; None: there are none."""

    def stage_changes(self, ranges: Ranges) -> StagedChanges | None:
        """Fold the changes, write new rows and deletion vectors."""
        changes = self.changes(ranges)
        if changes is None:
            return None
        assert self.table.keyed is not None
        return self.table.keyed.stage(changes)

    @property
    def is_keyed(self) -> bool:
        """Whether the target takes changes."""
        return isinstance(self.target, OpenTable) and self.target.keyed is not None

    def commit(self, ranges: Ranges, result: Result) -> None:
        """Make what was staged visible."""
        if isinstance(result, StagedChanges):
            self._commit_changes(ranges, result)
        else:
            super().commit(ranges, result)

    def _commit_changes(self, ranges: Ranges, result: StagedChanges) -> None:
        """Commit an upsert. Where somebody else has changed a shared table meanwhile, it is prepared again."""
        key, table = self.task.key, self.table
        keyed = table.keyed
        assert keyed is not None
        for _ in range(COLLISIONS):
            if result.empty:
                break
            stamp = self.context.make_stamp(ranges, result.rows)
            try:
                snapshot = keyed.commit(result, stamp, table.head)
            except HeadMovedError:
                log_failure(
                    _LOG, "%s was changed by others; the upsert is prepared again", self.task.key
                )
                keyed.discard(result)
                again = self.stage_changes(ranges)
                assert again is not None
                result = again
                continue
            self.context.note_commit(table, snapshot)
            break
        else:
            raise ConnectorError(
                f"{keyed.table.name} was changed by others {COLLISIONS} times while an upsert was prepared",
                object=key,
                remedy="nothing was lost: the epoch is taken up again",
            )
        self.context.finish(key, table, ranges, result.rows)


class SinkIntoReader(InputReader[SinkIntoTask]):
    """A sink into a table: its changes are committed by the table's own task."""

    def changes(self, ranges: Ranges) -> Changes:
        """What the sink brings."""
        return self.query_changes(self.task.changes, ranges)


class IngestExecutor(KeyedExecutor[IngestTask]):
    """Stores the rows of a feed, and what sinks bring into the table."""

    def __init__(self, task: IngestTask, context: EpochContext) -> None:
        super().__init__(task, context)
        self.parts = [SinkIntoReader(part, context) for part in task.parts]
        (self.feed,) = task.feeds

    def ranges(self) -> Ranges:
        """What is to be read of the feed, and by each sink of its inputs."""
        own = super().ranges()
        sinks = {part.task.key: part.ranges() for part in self.parts}
        return Ranges(own.feeds, own.tables, mark=own.mark, sinks=sinks)

    def count_changes(self, ranges: Ranges) -> int | None:
        """About how many changes the feed and the sinks bring."""
        counts = [p.count_changes(ranges.sinks[p.task.key]) for p in self.parts]
        known = [c for c in (super().count_changes(ranges), *counts) if c is not None]
        return sum(known) if len(known) == 1 + len(counts) else None

    def stage(self, ranges: Ranges) -> Result:
        """Fold changes by key, or write rows as they are."""
        if self.is_keyed:
            return self.stage_changes(ranges)
        own = self.context.reads.in_time(self.task, self.feed, ranges)
        return self.stage_rows(self._with_brought(ranges, own) if self.parts else own)

    def changes(self, ranges: Ranges) -> Changes:
        """The changes of the feed and of the sinks."""
        task, context, range = self.task, self.context, ranges.feeds[self.feed]
        feed, rows = context.open.feeds[self.feed], context.reads.rows(self.feed, range)
        frame = context.reads.in_time(task, self.feed, ranges)
        columns = tuple(c.name for c in task.object.columns if c.generated is None)
        finish = AS_IT_IS
        if len(columns) < len(task.object.columns):
            finish = partial(feed.generate, now=context.cut.now)
        unset = feed.source.leaves_unset(range.start, range.end)
        count = self.count_changes(ranges)
        own = Changes(frame, columns, count, rows.truncates, rows.unset, finish, unset)
        return together(own, self._brought(ranges), idle=range.empty) if self.parts else own

    def _brought(self, ranges: Ranges) -> list[Changes]:
        """What each of the sinks into the table brings."""
        brought: list[Changes] = []
        for number, part in enumerate(self.parts):
            own = ranges.sinks[part.task.key]
            if not own.empty:
                changes = part.changes(own)
                brought.append(in_turn(changes, part.task, self.task.object, number))
        return brought

    def _with_brought(self, ranges: Ranges, own: DataFrame) -> DataFrame:
        """The new rows of a table that only grows, together with what sinks bring."""
        feed, now = self.context.open.feeds[self.feed], self.context.cut.now
        parts = [c.frame.drop(*CHANGE_SCHEMA) for c in self._brought(ranges)]
        rows = [feed.generate(p, now) for p in parts]
        return united(rows if ranges.feeds[self.feed].empty else [own, *rows])


class SinkExecutor(KeyedExecutor[SinkTask]):
    """Delivers the rows of a query. It is linear, so its delta is the query over its inputs' deltas."""

    def stage(self, ranges: Ranges) -> Result:
        """Fold changes by key, or write the new rows; to a system outside they are delivered at once."""
        if self.is_keyed:
            return self.stage_changes(ranges)
        rows = self._rows(ranges)
        if isinstance(self.target, OpenTable):
            return self.stage_rows(rows)
        return self.target.write(rows, self.context.cut.epoch)

    def changes(self, ranges: Ranges) -> Changes:
        """What happened to each row."""
        assert self.task.changes is not None
        return self.query_changes(self.task.changes, ranges)

    def _rows(self, ranges: Ranges) -> DataFrame:
        """The new rows, and new versions of rows."""
        task, context = self.task, self.context
        if task.changes is not None:
            frame = self.changes(ranges).frame.filter(F.col(OP) == UPSERT)
            return frame.select(*[backtick(c.name) for c in task.object.columns])
        frames = {k: context.reads.in_time(task, k, ranges) for k in task.feeds}
        frames |= {k: context.contents.added(k, ranges.tables[k]) for k in task.tables}
        return self.render(task.object.query, frames)


class ConnectorExecutor(TaskExecutor[ConnectorTask]):
    """Fills one of a connector's tables, which is made or widened for the records first."""

    def stage(self, ranges: Ranges) -> Result:
        """Decode the records with the table's columns; None: there is no table yet, and nothing to make one from."""
        (key,) = self.task.feeds
        feed, table = self.context.open.feeds[key], self.table
        assert isinstance(feed, ConnectorFeed)
        known = table.uuid is not None
        rows = self.context.reads.rows(key, ranges.feeds[key])
        frame = feed.frame(self.task.destination, table.table, rows, known=known)
        if frame is None:
            return None
        if not known:
            self._fence_new(table)
        return self.stage_rows(frame)

    def _fence_new(self, table: OpenTable) -> None:
        """Fence a table that is new to the log. A predecessor that was paused may have written it: then recover first."""
        record = self.context.record
        mark = Stamp(
            record.pipeline, record.incarnation, record.plan, record.epoch, record.time, fence=True
        )
        stamp, head = table.table.fence(mark, None)
        if stamp.epoch > record.epoch:
            raise ConnectorError(f"{table.table.name} was written by a predecessor of this process")
        table.head, table.uuid = head, table.table.uuid()
