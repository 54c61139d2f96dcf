"""One epoch: from a cut through all sources to a complete record in the log.

The order is what makes it exactly once. Files are staged first, visible to nobody; then each table commits
with the epoch's stamp; the log's commit completes the epoch; only then sources are acknowledged. Whatever
is interrupted is rolled forward by running the same epoch again: tables that carry its stamp are skipped,
and what reads them finds their delta in their own commit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from pyspark import StorageLevel, inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import _parse_datatype_string as parse_type

from icestream import faults
from icestream.catalog.graph import Plan, Task
from icestream.catalog.objects import Source, Table, Watermark
from icestream.errors import ConnectorError
from icestream.functions.spark import render as render_expr
from icestream.lake import small
from icestream.lake.changes import appended, changed, changes, delta, few
from icestream.lake.columns import row_type
from icestream.lake.files import RecentFiles
from icestream.lake.fold import CHANGE_SCHEMA, OFFSET, OP, PARTITION, STREAM, UPSERT
from icestream.lake.keyed import AS_IT_IS, Changes, KeyedTable, StagedChanges
from icestream.lake.log import EpochLog
from icestream.lake.lookup import Lookup
from icestream.lake.small import FEW, HOT
from icestream.lake.staging import Staged, stage
from icestream.lake.stamp import ObjectAt, Offset, Range, Record, Stamp
from icestream.lake.table import HeadMoved, LakeTable
from icestream.observe.report import EpochReport
from icestream.plan.logical import Node
from icestream.plan.maintain import WEIGHT, State, Times
from icestream.plan.spark import render
from icestream.runtime.destinations import ConnectorFeed
from icestream.runtime.feeds import OpenFeed, Rows
from icestream.runtime.targets import Target
from icestream.runtime.views import AS_CHANGES, Computation
from icestream.types import backtick

T = TypeVar("T")
PARALLEL = 4
BEGUN = "!begun"
"""The name under which it is kept whether a view has been computed at all."""
QUICK = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
"""Settings for an epoch with little in it."""
WORTH = 40
"""A look-up pays if less than one row in so many has changed; else the table is scanned."""
CLOCK = "!clock"
"""When a view that depends on now() was last computed."""
MARK = "!mark"
"""The watermarks that an object has reached."""
COLLISIONS = 8
"""Times that an upsert into a shared table is prepared again because somebody else committed."""

Result = Staged | StagedChanges | int | None
"""What a task has made ready: files, files and deletes, or the number of rows that a sink has written."""


@dataclass(frozen=True)
class Cut:
    """What an epoch takes: its number and time, where it ends in each feed, and who takes part."""

    epoch: int
    time: int
    """Microseconds since 1970; what now() means in this epoch."""
    ends: Mapping[str, Offset]
    due: frozenset[str]
    limit: int | None = None
    """Records that an object which lags behind may catch up in one epoch."""


@dataclass
class Runtime:
    """The open parts of a pipeline that an epoch works with."""

    spark: SparkSession
    plan: Plan
    log: EpochLog
    feeds: dict[str, OpenFeed]
    targets: dict[str, Target]
    keyed: dict[str, KeyedTable]
    """The upserting side of targets that have a key."""
    letters: dict[str, LakeTable]
    """Dead-letter tables by feed."""
    heads: dict[str, int | None]
    """The snapshot that the next commit to each object's table builds on."""
    uuids: dict[str, str]
    indexes: Path
    lookups: dict[str, dict[tuple[tuple[str, ...], tuple[str, ...]], Lookup]] = field(
        default_factory=dict
    )
    """Indexes of stored objects by other columns than their key, by object."""
    files: dict[str, RecentFiles] = field(default_factory=dict)
    """What is known of the files of stored objects that are looked up."""
    hot: dict[str, tuple[int, DataFrame]] = field(default_factory=dict)
    """The content of small tables, and the snapshot it is of."""
    lock: threading.RLock = field(default_factory=threading.RLock)

    def lookup(self, key: str, on: Sequence[str], columns: Sequence[str]) -> Lookup:
        """The rows of a stored object by the values of some columns."""
        at = (tuple(on), tuple(columns))
        with self.lock:
            own = self.lookups.setdefault(key, {})
            if at not in own:
                table = self.targets[key]
                assert isinstance(table, LakeTable)
                own[at] = Lookup(table, on, columns, self.indexes, files=self.files_of(key))
            return own[at]

    def files_of(self, key: str) -> RecentFiles:
        """The files of a stored object's newest snapshots."""
        with self.lock:
            if key not in self.files:
                table = self.targets[key]
                assert isinstance(table, LakeTable)
                self.files[key] = RecentFiles(table)
            return self.files[key]


class Epoch:
    """The execution of one cut on top of a complete record."""

    def __init__(
        self, runtime: Runtime, record: Record, cut: Cut, stamped: Mapping[str, Stamp] | None = None
    ) -> None:
        self.runtime = runtime
        self.record = record
        self.cut = cut
        self.stamped = stamped or {}
        self.report = EpochReport(cut.epoch)
        self.objects = {key: self._pinned(key, at) for key, at in record.objects.items()}
        self.counters = dict(record.counters)
        self._rows: dict[tuple[str, str, bool], Rows] = {}
        self._reads: list[tuple[str, Range]] = []
        self._commits = 0
        self._deltas: dict[tuple[str, str], DataFrame] = {}
        self._at_hand: set[tuple[str, str]] = set()
        """Deltas that the driver holds itself."""
        self._lock = threading.RLock()
        self._sizes: dict[tuple[str, int], int] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._wholes: dict[str, DataFrame] = {}
        self._late: dict[tuple[str, str, int | None], tuple[dict[str, int], int]] = {}
        self._held = ExitStack()

    def run(self) -> Record:
        """Execute, commit, and give the new record. Joined threads only; nothing runs on after this returns."""
        began = time.monotonic()
        settings = QUICK if self._is_small() else {}
        before = {name: self.runtime.spark.conf.get(name) for name in settings}
        for name, value in settings.items():
            self.runtime.spark.conf.set(name, value)
        try:
            self._share()
            for level in self.runtime.plan.levels:
                self._level([t for t in level if t.key in self.cut.due])
        finally:
            for rows in self._rows.values():
                rows.release()
            self._held.close()
            for name, old in before.items():
                self.runtime.spark.conf.set(name, str(old))
        self._count_records()
        faults.reach("tables-committed")
        record = self._complete()
        self.runtime.log.commit(record)
        faults.reach("log-committed")
        self.report.seconds = time.monotonic() - began
        return record

    def _is_small(self) -> bool:
        """Whether so little has come that planning costs more than the work."""
        for task in self.runtime.plan.tasks:
            if task.key not in self.cut.due:
                continue
            for key in task.feeds:
                range = self._feed_range(task, key)
                count = self.runtime.feeds[key].source.at_most(range.start, range.end)
                if count is None or count > FEW:
                    return False
            begun = task.stage is None or self.record.position(task.key, BEGUN)["begun"]
            if not begun and not all(self._holds_little(k) for k in task.tables):
                return False
        return True

    def _holds_little(self, key: str) -> bool:
        at = self.objects[key].snapshot
        return at is None or self._rows_of(key, at) <= HOT

    def _pinned(self, key: str, at: ObjectAt) -> ObjectAt:
        """The object's state with every position spelled out, before the record's own positions move on."""
        feeds = {t.key: t.feeds for t in self.runtime.plan.tasks}
        feeds |= {f.dead_key: (f.key,) for f in self.runtime.plan.feeds}
        own = {k: self.record.sources[k] for k in feeds.get(key, ())}
        return replace(at, position={**own, **(at.position or {})})

    # -- one level of the graph ------------------------------------------------------------------

    def _level(self, tasks: Sequence[Task]) -> None:
        done = [t for t in tasks if t.key in self.stamped]
        for task in done:
            stamp = self.stamped[task.key]
            self._adopt(task.key, stamp)
            for key, mark in task.marks.items():
                before = stamp.ranges[MARK].start["inputs"].get(key)
                self._newest(key, stamp.ranges[key], mark, before)
        todo = [(t, self._ranges(t)) for t in tasks if t.key not in self.stamped]
        todo = [(t, r) for t, r in todo if any(not x.empty for x in r.values())]
        staged = self._parallel([partial(self._execute, *one) for one in todo])
        letters = self._stage_letters([*todo, *((t, self.stamped[t.key].ranges) for t in done)])
        ready = [(t, r, result) for (t, r), result in zip(todo, staged, strict=True)]
        self._parallel([partial(self._commit, *one) for one in ready])
        for feed, range, result in letters:
            self._finish(
                feed.feed.dead_key, {feed.key: range}, result, self.runtime.letters[feed.key]
            )
            self.report.dead[feed.key] = result.rows if result else 0

    def _parallel(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        """Run all, wait for all, then give the results or raise the first failure."""
        if len(jobs) <= 1:
            return [job() for job in jobs]
        wrap = inheritable_thread_target(self.runtime.spark)
        with ThreadPoolExecutor(PARALLEL) as pool:
            futures = [pool.submit(wrap(job)) for job in jobs]
        return [future.result() for future in futures]

    def _adopt(self, key: str, stamp: Stamp) -> None:
        """A table that this epoch has already been committed to."""
        self.objects[key] = self._at(key, stamp.ranges)
        self._count(key, stamp.rows)

    def _ranges(self, task: Task) -> dict[str, Range]:
        """What the task has to read of each input to reach the cut."""
        ranges: dict[str, Range] = {}
        for key in task.feeds:
            ranges[key] = self._feed_range(task, key)
        for key in map(stored, task.tables):
            start = self.record.position(task.key, key)
            ranges[key] = Range(start, {"snapshot": self.objects[key[1:]].snapshot})
        if task.stage is not None:
            ranges[BEGUN] = Range(self.record.position(task.key, BEGUN), {"begun": True})
            if task.stage.moving:
                ranges[CLOCK] = Range(
                    self.record.position(task.key, CLOCK), {"time": self.cut.time}
                )
        if task.has_mark:
            before = self.record.position(task.key, MARK)
            ranges[MARK] = Range(before, self._marks(task, before, ranges))
        return ranges

    def _feed_range(self, task: Task, key: str) -> Range:
        start = self.record.position(task.key, key)
        end = self.cut.ends.get(key, self.record.sources[key])
        if start != end:
            end = self.runtime.feeds[key].source.advance(start, end, self.cut.limit)
        return Range(start, end)

    def _marks(self, task: Task, before: Offset, ranges: Mapping[str, Range]) -> Offset:
        """The watermarks of a task's inputs with this epoch; what holds for its rows is the least of them.

        Of a feed, it is the least among the partitions that have given rows in the epoch: each is ordered on its own.
        """
        marks: dict[str, int | None] = dict(before["inputs"])
        parts: dict[str, dict[str, int]] = dict(before["parts"])
        for key, mark in task.marks.items():
            if not ranges[key].empty:
                newest, _ = self._newest(key, ranges[key], mark, marks.get(key))
                known_parts = parts.get(key, {})
                parts[key] = known_parts | {
                    p: max(m, known_parts.get(p, m)) for p, m in newest.items()
                }
                reached = [parts[key][p] for p in newest]
                found = [m for m in (marks.get(key), min(reached, default=None)) if m is not None]
                marks[key] = max(found, default=None)
        for key in task.marked:
            position = self.objects[key].position or {}
            marks[key] = position[MARK]["mark"]
        known = [marks.get(k) for k in (*task.marks, *task.marked)]
        least = None if None in known else min(m for m in known if m is not None)
        return {"mark": least, "inputs": marks, "parts": parts}

    def _newest(
        self, key: str, range: Range, mark: Watermark, before: int | None
    ) -> tuple[dict[str, int], int]:
        """What the rows of a range say of the watermark, by partition, and how many come too late for the one before."""
        at = (key, repr(range), before)
        if at not in self._late:
            rows = self._rows[self._read(key, range, as_changes=self._by_place(key))]
            rows.share()
            value = F.expr(f"unix_micros(CAST(({render_expr(mark.expr)}) AS TIMESTAMP))")
            late = F.lit(0) if before is None else F.sum(F.when(is_late(mark, before), 1))
            groups = rows.frame.groupBy(PARTITION).agg(
                F.max(value).alias("mark"), late.alias("late")
            )
            found = groups.collect()
            count = sum(row["late"] or 0 for row in found)
            newest = {str(r[PARTITION]): r["mark"] for r in found if r["mark"] is not None}
            self._late[at] = (newest, count)
            if count:
                self.report.late[key] = count
                self.counters[f"{key}.late"] = self.counters.get(f"{key}.late", 0) + count
        return self._late[at]

    def _by_place(self, key: str) -> bool:
        """Whether rows of a feed with a watermark are to be read with the place they had: changes have it anyway."""
        return self.runtime.feeds[key].upsert is None

    def _in_time(
        self, task: Task, key: str, range: Range, ranges: Mapping[str, Range]
    ) -> DataFrame:
        """The rows of a feed without those that come too late."""
        if key not in task.marks:
            return self._rows[self._read(key, range)].frame
        frame = self._rows[self._read(key, range, as_changes=self._by_place(key))].frame
        before = ranges[MARK].start["inputs"].get(key)
        if before is not None:
            frame = frame.filter(~is_late(task.marks[key], before))
        return frame.drop(OP, STREAM, PARTITION, OFFSET) if self._by_place(key) else frame

    def _share(self) -> None:
        """Rows of a range that several tasks read are decoded once and kept for the others."""
        readers: dict[tuple[str, str, bool], int] = {}
        for task in self.runtime.plan.tasks:
            if task.key not in self.cut.due or task.key in self.stamped:
                continue
            for key in task.feeds:
                range = self._feed_range(task, key)
                if not range.empty:
                    placed = key in task.marks and self._by_place(key)
                    at = self._read(key, range, as_changes=task.changes is not None or placed)
                    readers[at] = readers.get(at, 0) + 1
        for at, count in readers.items():
            if count > 1:
                self._rows[at].share()

    def _read(self, key: str, range: Range, *, as_changes: bool = False) -> tuple[str, str, bool]:
        at = (key, repr(range), as_changes)
        if at not in self._rows:
            feed = self.runtime.feeds[key]
            read = feed.changes if as_changes else feed.rows
            self._rows[at] = read(range, _timestamp(self.cut.time))
            self._reads.append((key, range))
        return at

    def _count_records(self) -> None:
        """How much was read of each feed. After reading: some sources know it only then."""
        for key, range in self._reads:
            records = self.runtime.feeds[key].source.count(range.start, range.end)
            if records is not None:
                self.report.records[key] = max(records, self.report.records.get(key, 0))

    # -- computing and staging -------------------------------------------------------------------

    def _execute(self, task: Task, ranges: Mapping[str, Range]) -> Result:
        began = time.monotonic()
        try:
            return self._prepared(task, ranges)
        finally:
            self.report.spent[task.key] = time.monotonic() - began

    def _prepared(self, task: Task, ranges: Mapping[str, Range]) -> Result:
        """What the task will commit."""
        target = self.runtime.targets[task.key]
        if task.stage is not None and self._only_adds(task, ranges):
            assert isinstance(target, LakeTable)
            rows = self._maintained(task, ranges, marks=())
            return None if rows is None else self._appended(task, ranges, rows, target)
        if task.key in self.runtime.keyed:
            found = self._changes(task, ranges)
            return None if found is None else self.runtime.keyed[task.key].stage(found)
        if task.destination is not None:
            frame = self._destined(task, ranges)
            if frame is None:
                return None
        else:
            frame = self._frame(task, ranges)
        if isinstance(target, LakeTable):
            return stage(frame, target)
        return target.write(frame, self.cut.epoch)

    def _appended(
        self, task: Task, ranges: Mapping[str, Range], rows: DataFrame, table: LakeTable
    ) -> Staged:
        """Rows that are added; few of them by the driver itself."""
        count = self._count_changes(task, ranges)
        if count is not None and count <= FEW:
            java = table.load()
            schema = small.can_write(table, java)
            if schema is not None:
                found = rows.limit(small.AT_MOST + 1).toArrow()
                if len(found) <= small.AT_MOST:
                    return small.write(table, java, schema, found)
        return stage(rows, table)

    def _frame(self, task: Task, ranges: Mapping[str, Range]) -> DataFrame:
        """The task's new rows. Its query is linear, so its delta is the query over its inputs' deltas."""
        if task.changes is not None:
            found = self._changes(task, ranges)
            assert found is not None
            frame = found.frame.filter(F.col(OP) == UPSERT)
            return frame.select(*[backtick(c.name) for c in task.object.columns])
        frames = {k: self._in_time(task, k, ranges[k], ranges) for k in task.feeds}
        frames |= {k: self._added(k, ranges[stored(k)]) for k in task.tables}
        if task.query is None:
            (frame,) = frames.values()
            return frame
        return self._render(task, task.query, frames)

    def _changes(self, task: Task, ranges: Mapping[str, Range]) -> Changes | None:
        """The changes that a task with a key applies, or one that must know what happened to each row."""
        columns = tuple(name for name, _ in task.columns)
        count = self._count_changes(task, ranges)
        if task.stage is not None:
            found = self._maintained(task, ranges)
            if found is None:
                return None
            fans_out = task.stage.fans_out
            if fans_out and count is not None and count > FEW:
                count += sum(
                    self._rows_of(k, at) for k in task.tables if (at := self.objects[k].snapshot)
                )
            return Changes(found, columns, count, unbounded=fans_out)
        if task.changes is None:
            (key,) = task.feeds
            feed, rows = self.runtime.feeds[key], self._rows[self._read(key, ranges[key])]
            frame = self._in_time(task, key, ranges[key], ranges)
            told = tuple(c.name for c in task.object.columns if c.generated is None)
            now = _timestamp(self.cut.time)
            finish = AS_IT_IS
            if len(told) < len(task.object.columns):
                finish = partial(feed.generate, now=now)
            return Changes(frame, told, count, rows.truncates, rows.unset, finish)
        frames = {}
        for key in task.feeds:
            frames[key] = self._rows[self._read(key, ranges[key], as_changes=True)].frame
            before = ranges[MARK].start["inputs"].get(key) if key in task.marks else None
            if before is not None:
                frames[key] = frames[key].filter(~is_late(task.marks[key], before))
        frames |= {k: self._delta(k, ranges[stored(k)]) for k in task.tables}
        return Changes(self._render(task, task.changes, frames), columns, count)

    def _states(self, task: Task, ranges: Mapping[str, Range]) -> dict[str, State]:
        """What the epoch does to the relations that a stage reads, and to its own table before."""
        assert task.stage is not None
        first = not ranges[BEGUN].start.get("begun")
        states = {k: State(not ranges[k].empty, empty=first) for k in task.feeds}
        for key in task.tables:
            at = ranges[stored(key)]
            states[key] = State(not at.empty, self._was_empty(key, at.start["snapshot"]))
        states |= {k: State(False) for k in task.foreign}
        own = self._was_empty(task.key, self.runtime.heads[task.key])
        states[task.stage.relation] = State(True, own)
        return states

    def _only_adds(self, task: Task, ranges: Mapping[str, Range]) -> bool:
        assert task.stage is not None
        first = not ranges[BEGUN].start.get("begun")
        return task.stage.only_adds(self._states(task, ranges), first=first)

    def _maintained(
        self, task: Task, ranges: Mapping[str, Range], marks: Sequence[str] = AS_CHANGES
    ) -> DataFrame | None:
        """The changes of a view's stage."""
        stage = task.stage
        assert stage is not None
        first = not ranges[BEGUN].start.get("begun")
        states, own = self._states(task, ranges), self.runtime.heads[task.key]

        def face(relation: str, which: str, times: int) -> DataFrame:
            if which == "delta":
                if relation in task.feeds:
                    placed = relation in task.marks and self._by_place(relation)
                    if times > 1:
                        self._rows[
                            self._read(relation, ranges[relation], as_changes=placed)
                        ].share()
                    frame = self._in_time(task, relation, ranges[relation], ranges)
                    return frame.withColumn(WEIGHT, F.lit(1))
                return self._weighed(relation, ranges[stored(relation)])
            if relation == stage.relation:
                return self._content(relation, own)
            if relation in task.foreign:
                return self._whole(relation)
            at = ranges[stored(relation)]
            return self._content(relation, (at.start if which == "old" else at.end)["snapshot"])

        clock, reached = ranges.get(CLOCK), ranges.get(MARK)
        times = Times(
            None if clock is None else clock.start["time"],
            None if reached is None else reached.start["mark"],
            None if reached is None else reached.end["mark"],
        )
        name = str(self.runtime.plan.tasks.index(task))
        count = self._count_changes(task, ranges)

        def find(
            relation: str, which: str, on: Sequence[str], columns: Sequence[str], keys: DataFrame
        ) -> DataFrame:
            if relation in task.foreign:
                return self._whole(relation)
            if relation == stage.relation:
                return self._looked_up(relation, own, own, on, columns, keys, count)
            at = ranges[stored(relation)]
            snapshot, head = (
                (at.start if which == "old" else at.end)["snapshot"],
                at.end["snapshot"],
            )
            return self._looked_up(relation, snapshot, head, on, columns, keys, count)

        computation = Computation(self.runtime.spark, face, find, _timestamp(self.cut.time), name)
        return computation.changes(stage, states, first=first, times=times, marks=marks)

    def _looked_up(
        self,
        key: str,
        snapshot: int | None,
        head: int | None,
        on: Sequence[str],
        columns: Sequence[str],
        keys: DataFrame,
        count: int | None,
    ) -> DataFrame:
        """The rows of a stored object that have one of the keys; all rows, if that is most of them anyway."""
        rows = 0 if head is None else self._rows_of(key, head)
        if snapshot is None or count is None or rows <= HOT or count > rows // WORTH:
            return self._content(key, snapshot)
        return self.runtime.lookup(key, on, columns).rows(keys, snapshot, count)

    def _whole(self, key: str) -> DataFrame:
        """A table of others as it is now: the same for all who look it up in this epoch."""
        with self._lock:
            if key not in self._wholes:
                feed = self.runtime.feeds[key]
                start: Offset = {"snapshot": None}  # all of it, wherever a stream would begin
                rows = feed.rows(Range(start, feed.source.latest(start)), _timestamp(self.cut.time))
                self._wholes[key] = rows.frame
            return self._wholes[key]

    def _was_empty(self, key: str, snapshot: int | None) -> bool:
        """Whether a table surely had no rows."""
        return snapshot is None or self._rows_of(key, snapshot) == 0

    def _content(self, key: str, snapshot: int | None) -> DataFrame:
        """All rows of a stored object at a snapshot."""
        table = self.runtime.targets[key]
        assert isinstance(table, LakeTable)
        if snapshot is not None and self._rows_of(key, snapshot) <= HOT:
            hot = self._hot(key, table, snapshot)
            if hot is not None:
                return hot
        reader = self.runtime.spark.read.format("iceberg").option("snapshot-id", str(snapshot))
        return reader.load(table.sql)

    def _hot(self, key: str, table: LakeTable, snapshot: int) -> DataFrame | None:
        """A small table, read by the driver itself and kept as long as it does not change."""
        with self._lock:
            known = self.runtime.hot.get(key)
            if known is not None and known[0] == snapshot:
                return known[1]
            java = table.holding(snapshot)
            schema = small.can_write(table, java)
            if schema is None:
                return None
            rows = small.content(table, java, schema, self.runtime.files_of(key), snapshot)
            if rows is None:
                return None
            columns = row_type(table, java, schema.names)
            frame = self.runtime.spark.createDataFrame(rows, columns).coalesce(1)
            self.runtime.hot[key] = (snapshot, frame)
            return frame

    def _rows_of(self, key: str, snapshot: int) -> int:
        """How many rows the data files of a table hold."""
        at = (key, snapshot)
        if at not in self._sizes:
            table = self.runtime.targets[key]
            assert isinstance(table, LakeTable)
            found = table.holding(snapshot).snapshot(snapshot)
            rows = None if found is None else found.summary().get("total-records")
            self._sizes[at] = 1 << 62 if rows is None else int(rows)
        return self._sizes[at]

    def _weighed(self, key: str, range: Range) -> DataFrame:
        """What came and went in a stored object, with weights; read once for all who ask."""
        at = (key, repr(range))
        with self._lock:
            if at not in self._deltas:
                self._deltas[at] = self._read_delta(key, range)
            return self._deltas[at]

    def _read_delta(self, key: str, range: Range) -> DataFrame:
        frame = self._delta(key, range)
        marks = (OP, STREAM, PARTITION, OFFSET)
        columns = [backtick(c) for c in frame.columns if c not in marks]
        weighed = frame.selectExpr(*columns, f"CAST({OP} AS INT) AS {WEIGHT}")
        if (key, repr(range)) in self._at_hand:
            return weighed
        weighed = weighed.persist(StorageLevel.MEMORY_AND_DISK)
        self._held.callback(weighed.unpersist)
        return weighed

    def _read_few(self, key: str, range: Range) -> DataFrame | None:
        """Few changes, read by the driver itself."""
        table = self.runtime.targets[key]
        assert isinstance(table, LakeTable)
        start, end = range.start["snapshot"], range.end["snapshot"]
        if start is None or self._changed(key, range) > FEW:
            return None
        java = table.holding(end)
        schema = small.can_write(table, java)
        known = self.runtime.keyed[key].known if key in self.runtime.keyed else {}
        rows = None if schema is None else few(table, start, end, schema, known)
        if rows is None or schema is None:
            return None
        columns = row_type(table, java, schema.names)
        for name, type in CHANGE_SCHEMA.items():
            if name in rows.column_names:
                columns = columns.add(name, parse_type(type))
        self._at_hand.add((key, repr(range)))
        return self.runtime.spark.createDataFrame(rows, columns).coalesce(1)

    def _count_changes(self, task: Task, ranges: Mapping[str, Range]) -> int | None:
        """About how many changes there are, where that is known beforehand."""
        counts = [
            self.runtime.feeds[k].source.at_most(ranges[k].start, ranges[k].end) for k in task.feeds
        ]
        for key in task.tables:
            counts.append(self._changed(key, ranges[stored(key)]))
        known = [c for c in counts if c is not None]
        return sum(known) if len(known) == len(counts) else None

    def _changed(self, key: str, range: Range) -> int:
        """About how many rows of a stored object changed; its snapshots are asked once an epoch."""
        at = (key, repr(range))
        if at not in self._counts:
            table = self.runtime.targets[key]
            assert isinstance(table, LakeTable)
            self._counts[at] = changed(table, range.start["snapshot"], range.end["snapshot"])
        return self._counts[at]

    def _render(self, task: Task, query: Node, frames: Mapping[str, DataFrame]) -> DataFrame:
        inputs: dict[str, str] = {}
        for number, (key, frame) in enumerate(frames.items()):
            inputs[key] = f"icestream_{task.object.id}_{number}"
            frame.createOrReplaceTempView(inputs[key])
        return self.runtime.spark.sql(render(query, inputs, now=_timestamp(self.cut.time)))

    def _destined(self, task: Task, ranges: Mapping[str, Range]) -> DataFrame | None:
        """The rows of one of a connector's tables, which is made or widened for them first; None: there is none yet."""
        (key,) = task.feeds
        feed, table = self.runtime.feeds[key], self.runtime.targets[task.key]
        assert isinstance(feed, ConnectorFeed)
        assert isinstance(table, LakeTable)
        assert task.destination is not None
        known = task.key in self.runtime.uuids
        rows = self._rows[self._read(key, ranges[key])]
        frame = feed.frame(task.destination, table, rows, known=known)
        if frame is not None and not known:
            self._meet(task.key, table)
        return frame

    def _meet(self, key: str, table: LakeTable) -> None:
        """Fence a table that is new to the log. A predecessor that was paused may have written it: then recover first."""
        record = self.record
        mark = Stamp(
            record.pipeline, record.incarnation, record.plan, record.epoch, record.time, fence=True
        )
        stamp, head = table.fence(mark, None)
        if stamp.epoch > record.epoch:
            raise ConnectorError(f"{table.name} was written by a predecessor of this process")
        self.runtime.heads[key] = head
        self.runtime.uuids[key] = table.uuid()

    def _added(self, key: str, range: Range) -> DataFrame:
        """What was added to a stored object, read back from its own commits."""
        table = self.runtime.targets[key]
        assert isinstance(table, LakeTable)
        frame = changes(table, range.start["snapshot"], range.end["snapshot"])
        return self.runtime.spark.table(table.sql).limit(0) if frame is None else frame

    def _delta(self, key: str, range: Range) -> DataFrame:
        """What was added to a stored object and what went, read back from its own commits."""
        (task,) = [t for t in self.runtime.plan.tasks if t.key == key]
        at_hand = self._read_few(key, range)
        if at_hand is not None:
            faults.reach("delta-read")
            return at_hand
        if task.grows:
            return appended(self._added(key, range))
        table = self.runtime.targets[key]
        assert isinstance(table, LakeTable)
        known = self.runtime.keyed[key].known
        start, end = range.start["snapshot"], range.end["snapshot"]
        frame = delta(table, start, end, self._held, known)
        faults.reach("delta-read")
        return frame

    def _stage_letters(
        self, read: Sequence[tuple[Task, Mapping[str, Range]]]
    ) -> list[tuple[OpenFeed, Range, Staged | None]]:
        """Dead letters of every feed that was read up to the cut, if there are any."""
        result: list[tuple[OpenFeed, Range, Staged | None]] = []
        for key, feed in self.runtime.feeds.items():
            end = self.cut.ends.get(key)
            up_to_cut = [r[key] for _, r in read if key in r and r[key].end == end]
            dead = feed.feed.dead_key
            if end is None or not up_to_cut or self.objects[dead].epoch == self.cut.epoch:
                continue
            if dead in self.stamped:
                self._adopt(dead, self.stamped[dead])
                continue
            range = Range(self.record.position(dead, key), end)
            # only a read of just this range tells
            reads = [self._rows.get((key, repr(range), changes)) for changes in (False, True)]
            rows = next((r for r in reads if r is not None), None)
            found: Staged | None = None
            look = rows is None or bool(self.stamped) or feed.may_have_letters(rows)
            late = self._late_letters(feed, range)
            if (look or late is not None) and not range.empty:
                letters = feed.letters(range)
                letters = letters if late is None else letters.unionByName(late)
                found = stage(letters, self.runtime.letters[key])
            result.append((feed, range, found))
        return result

    def _late_letters(self, feed: OpenFeed, range: Range) -> DataFrame | None:
        """The rows that came too late, where they are to be kept."""
        object = feed.object
        if not isinstance(object, Source | Table) or object.watermark is None:
            return None
        counted = {
            before: count
            for (key, at, before), (_, count) in self._late.items()
            if (key, at) == (feed.key, repr(range))
        }
        before = next((b for b, count in counted.items() if count), None)
        if before is None or object.late_rows != "keep":
            return None
        placed = self._by_place(feed.key)
        rows = self._rows[self._read(feed.key, range, as_changes=placed)].frame.filter(
            is_late(object.watermark, before)
        )
        reason = f"late: {object.watermark.column} is before the watermark"
        return feed.as_letters(rows, [c.name for c in object.columns], reason)

    # -- committing ------------------------------------------------------------------------------

    def _commit(self, task: Task, ranges: Mapping[str, Range], result: Result) -> None:
        began = time.monotonic()
        if isinstance(result, StagedChanges):
            self._finish_changes(task, ranges, result)
        else:
            self._finish(task.key, ranges, result, self.runtime.targets[task.key])
        self.report.spent[task.key] += time.monotonic() - began

    def _finish(
        self, key: str, ranges: Mapping[str, Range], result: Staged | int | None, target: Target
    ) -> None:
        rows = result.rows if isinstance(result, Staged) else result
        if isinstance(target, LakeTable) and isinstance(result, Staged) and result.files:
            stamp, base = self._stamp(ranges, result.rows), self.runtime.heads[key]
            self._committed(key, target.append(result.files, stamp, base))
        self.objects[key] = self._at(key, ranges)
        self._count(key, rows or 0)

    def _finish_changes(
        self, task: Task, ranges: Mapping[str, Range], result: StagedChanges
    ) -> None:
        """Commit an upsert. Where somebody else has changed a shared table meanwhile, it is prepared again."""
        keyed, key = self.runtime.keyed[task.key], task.key
        for _ in range(COLLISIONS):
            if result.empty:
                break
            stamp = self._stamp(ranges, result.rows)
            try:
                snapshot = keyed.commit(result, stamp, self.runtime.heads[key])
            except HeadMoved:
                keyed.discard(result)
                again = self._changes(task, ranges)
                assert again is not None
                result = keyed.stage(again)
                continue
            self._committed(key, snapshot)
            break
        else:
            raise ConnectorError(
                f"{keyed.table.name} was changed by others {COLLISIONS} times while an upsert was prepared",
                object=key,
                remedy="nothing was lost: the epoch is taken up again",
            )
        self.objects[key] = self._at(key, ranges)
        self._count(key, result.rows)

    def _stamp(self, ranges: Mapping[str, Range], rows: int) -> Stamp:
        record, cut = self.record, self.cut
        return Stamp(
            record.pipeline, record.incarnation, record.plan,
            cut.epoch, cut.time, ranges, cut.ends, rows, log=self.runtime.log.head,
        )  # fmt: skip

    def _committed(self, key: str, snapshot: int) -> None:
        self.runtime.heads[key] = snapshot
        with self._lock:
            self._commits += 1
            first = self._commits == 1
        if first:
            faults.reach("first-table-committed")

    def _count(self, key: str, rows: int) -> None:
        if rows:
            self.report.rows[key] = rows
            self.counters[key] = self.counters.get(key, 0) + rows

    def _at(self, key: str, ranges: Mapping[str, Range]) -> ObjectAt:
        before = self.objects[key]
        position = {**(before.position or {}), **{k: r.end for k, r in ranges.items()}}
        return replace(
            before,
            epoch=self.cut.epoch,
            uuid=self.runtime.uuids.get(key, before.uuid),
            snapshot=self.runtime.heads.get(key, before.snapshot),
            position=position,
        )

    def _complete(self) -> Record:
        """The record of this epoch; positions that equal the cut need not be spelled out."""
        sources = {**self.record.sources, **self.cut.ends}
        objects: dict[str, ObjectAt] = {}
        for key, at in self.objects.items():
            behind = {k: v for k, v in (at.position or {}).items() if sources.get(k) != v}
            self.report.behind |= key in self.cut.due and any(k in sources for k in behind)
            objects[key] = replace(at, position=behind or None)
        for key, records in self.report.records.items():
            self.counters[f"{key}.records"] = self.counters.get(f"{key}.records", 0) + records
        return replace(
            self.record,
            epoch=self.cut.epoch,
            time=self.cut.time,
            sources=sources,
            objects=objects,
            counters=self.counters,
        )


def is_late(mark: Watermark, before: int) -> F.Column:
    """Whether a row comes after the watermark has passed its time. One without a time never does."""
    late = F.expr(f"unix_micros(CAST({backtick(mark.column)} AS TIMESTAMP)) < {before}L")
    return F.coalesce(late, F.lit(False))


def stored(key: str) -> str:
    """The name under which an object's position in a stored object is kept, apart from feeds of the same key."""
    return f"@{key}"


def _timestamp(micros: int) -> str:
    return f"TIMESTAMP_MICROS({micros})"
