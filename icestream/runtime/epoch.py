"""One epoch: from a cut through all sources to a complete record in the log.

The order is what makes it exactly once. Files are staged first, visible to nobody; then each table commits
with the epoch's stamp; the log's commit completes the epoch; only then sources are acknowledged. Whatever
is interrupted is rolled forward by running the same epoch again: tables that carry its stamp are skipped,
and what reads them finds their delta in their own commit.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from icestream import faults
from icestream.catalog.graph import Task
from icestream.catalog.objects import MaterializedView, Sink, Table
from icestream.errors import ConnectorError
from icestream.home_log import log_failure
from icestream.lake import small
from icestream.lake.fold import CHANGE_SCHEMA, OP, UPSERT
from icestream.lake.keyed import AS_IT_IS, Changes, StagedChanges
from icestream.lake.small import FEW
from icestream.lake.staging import Staged, stage
from icestream.lake.stamp import ObjectAt, Range, Record, Stamp
from icestream.lake.table import HeadMovedError, LakeTable
from icestream.observe.report import EpochReport
from icestream.plan.logical import Expand, Node, Unnest, WindowTable, walk
from icestream.plan.maintain import WEIGHT, State, Times
from icestream.plan.spark import render
from icestream.runtime.contents import Contents
from icestream.runtime.destinations import ConnectorFeed
from icestream.runtime.feeds import OpenFeed, Rows
from icestream.runtime.into import in_turn, lags, ranges_of, readers, together, united
from icestream.runtime.parts import BEGUN, CLOCK, MARK, Cut, Runtime, brought, position, stored
from icestream.runtime.reads import Reads
from icestream.runtime.session import FOR_LARGE_RECORDS, changed_settings
from icestream.runtime.spark_functions import has_functions
from icestream.runtime.targets import Target
from icestream.runtime.temp_views import TempViews
from icestream.runtime.views import AS_CHANGES, Computation
from icestream.types import backtick

_LOG = logging.getLogger(__name__)

T = TypeVar("T")
PARALLEL = 4
SMALL = 5_000
"""Records of an epoch that planning costs more for than the work."""
QUICK = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
"""Settings for a small epoch."""
COLLISIONS = 8
"""Times that an upsert into a shared table is prepared again because somebody else committed."""

Result = Staged | StagedChanges | int | None
"""What a task has made ready: files, files and deletes, or the number of rows that a sink has written."""


class Epoch:
    """The execution of one cut on top of a complete record."""

    def __init__(
        self,
        runtime: Runtime,
        record: Record,
        cut: Cut,
        stamped: Mapping[str, Stamp] | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        self.runtime = runtime
        self.cancellable = check is not None
        """Whether its Spark jobs may be cancelled."""
        self.check = check or (lambda: None)
        """Called now and then; what it raises ends the epoch."""
        self.record = record
        self.cut = cut
        self.stamped = stamped or {}
        self.report = EpochReport(cut.epoch)
        self.objects = {key: self._pinned(key, at) for key, at in record.objects.items()}
        self.counters = dict(record.counters)
        self.reads = Reads(runtime.feeds, cut.now, self.report, self.counters)
        self.contents = Contents(runtime, cut.now)
        self.failed: dict[str, Exception] = {}
        """Tasks that could not be computed or committed."""
        self._commits = 0
        self._lock = threading.Lock()
        self._has_large_records = any(
            runtime.feeds[key].source.has_large_records and not self._feed_range(task, key).empty
            for task in runtime.plan.readers
            if task.committer in cut.due
            for key in task.feeds
        )
        """Whether neither the driver nor one batch holds as many records as usual."""

    def run(self) -> Record:
        """Execute, commit, and give the new record. Joined threads only; nothing runs on after this returns."""
        began = time.monotonic()
        settings = QUICK if self._is_small() else {}
        if self._has_large_records:
            settings = settings | FOR_LARGE_RECORDS
        with changed_settings(self.runtime.spark, settings):
            self._run_levels()
        self.reads.note_large_records()
        self.reads.count()
        faults.reach("tables-committed")
        record = self._complete()
        self.runtime.log.commit(record)
        faults.reach("log-committed")
        self.report.seconds = time.monotonic() - began
        return record

    def _run_levels(self) -> None:
        try:
            self._share()
            for level in self.runtime.plan.levels:
                self.check()
                self._level([t for t in level if t.key in self.cut.due])
        except BaseException:
            self.reads.suspect_large_records()
            raise
        finally:
            self.reads.release()
            self.contents.close()

    def _is_small(self) -> bool:
        """Whether so little has come that planning costs more than the work."""
        counts: dict[tuple[str, str], int] = {}
        for task in self.runtime.plan.readers:
            if task.committer not in self.cut.due:
                continue
            for key in task.feeds:
                range = self._feed_range(task, key)
                count = self.runtime.feeds[key].source.at_most(range.start, range.end)
                if count is None:
                    return False
                counts[key, repr(range)] = count
            if sum(counts.values()) > SMALL:
                return False
            begun = task.stage is None or self.record.position(task.key, BEGUN)["begun"]
            little = (self.contents.is_little(k, self.objects[k].snapshot) for k in task.tables)
            if not begun and not all(little):
                return False
        return True

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
                if key in self.cut.held:
                    continue  # its late rows are not counted
                before = stamp.ranges[MARK].start["inputs"].get(key)
                self.reads.newest(key, stamp.ranges[key], mark, before)
        todo = [(t, self._ranges(t)) for t in tasks if t.key not in self.stamped]
        todo = [(t, r) for t, r in todo if any(not x.empty for x in r.values())]
        staged = self._parallel([partial(self._execute, *one) for one in todo])
        read = [*todo, *((t, self.stamped[t.key].ranges) for t in done)]
        letters = self._stage_letters(readers(read))
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
            start = position(self.record, task, key)
            ranges[key] = Range(start, {"snapshot": self.objects[key[1:]].snapshot})
        if task.stage is not None:
            ranges[BEGUN] = Range(self.record.position(task.key, BEGUN), {"begun": True})
            if task.stage.moving:
                ranges[CLOCK] = Range(
                    self.record.position(task.key, CLOCK), {"time": self.cut.time}
                )
        if task.has_mark:
            before = self.record.position(task.key, MARK)
            ranges[MARK] = Range(before, self.reads.reached(task, before, ranges, self.objects))
        for part in task.parts:
            own = self._ranges(part)
            ends = {k: r.end for k, r in own.items()}
            ranges[brought(part.key)] = Range({k: r.start for k, r in own.items()}, ends)
        return ranges

    def _feed_range(self, task: Task, key: str) -> Range:
        start = position(self.record, task, key)
        if key in self.cut.held:
            return Range(start, start)
        end = self.cut.ends.get(key, self.record.sources[key])
        if start != end:
            end = self.runtime.feeds[key].source.advance(start, end, self.cut.limit)
        return Range(start, end)

    def _share(self) -> None:
        """Rows of a range that several tasks read are decoded once and kept for the others."""
        read: list[Rows] = []
        for task in self.runtime.plan.readers:
            if task.committer not in self.cut.due or task.committer in self.stamped:
                continue
            for key in task.feeds:
                range = self._feed_range(task, key)
                if range.empty:
                    continue
                placed = key in task.marks and self.reads.by_place(key)
                rows = self.reads.rows(key, range, as_changes=placed or task.changes is not None)
                if any(rows is other for other in read):
                    rows.share()
                read.append(rows)

    # -- computing and staging -------------------------------------------------------------------

    def _execute(self, task: Task, ranges: Mapping[str, Range]) -> Result:
        began = time.monotonic()
        try:
            return self._prepared(task, ranges)
        except Exception as error:
            self.failed[task.key] = error
            raise
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
            return stage(_spread(frame, task), target)
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
                found = small.collected(table, rows)
                if found is not None:
                    return small.write(table, java, schema, found)
        return stage(_spread(rows, task), table)

    def _frame(self, task: Task, ranges: Mapping[str, Range]) -> DataFrame:
        """The task's new rows. Its query is linear, so its delta is the query over its inputs' deltas."""
        if task.changes is not None:
            found = self._changes(task, ranges)
            assert found is not None
            frame = found.frame.filter(F.col(OP) == UPSERT)
            return frame.select(*[backtick(c.name) for c in task.object.columns])
        frames = {k: self.reads.in_time(task, k, ranges) for k in task.feeds}
        frames |= {k: self.contents.added(k, ranges[stored(k)]) for k in task.tables}
        if task.query is None:
            (frame,) = frames.values()
            return self._with_brought(task, ranges, frame) if task.parts else frame
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
                    self.contents.rows(k, at)
                    for k in task.tables
                    if (at := self.objects[k].snapshot)
                )
            return Changes(found, columns, count, unbounded=fans_out)
        if task.changes is None:
            (key,) = task.feeds
            feed, rows = self.runtime.feeds[key], self.reads.rows(key, ranges[key])
            frame = self.reads.in_time(task, key, ranges)
            told = tuple(c.name for c in task.object.columns if c.generated is None)
            now = self.cut.now
            finish = AS_IT_IS
            if len(told) < len(task.object.columns):
                finish = partial(feed.generate, now=now)
            unset = feed.source.leaves_unset(ranges[key].start, ranges[key].end)
            own = Changes(frame, told, count, rows.truncates, rows.unset, finish, unset)
            if not task.parts:
                return own
            return together(own, self._brought(task, ranges), idle=ranges[key].empty)
        frames = {k: self.reads.changes_in_time(task, k, ranges) for k in task.feeds}
        frames |= {k: self.contents.delta(k, ranges[stored(k)]) for k in task.tables}
        many = any(isinstance(n, Unnest | WindowTable | Expand) for n in walk(task.changes))
        return Changes(self._render(task, task.changes, frames), columns, count, unbounded=many)

    def _brought(self, task: Task, ranges: Mapping[str, Range]) -> list[Changes]:
        """What each of the sinks into a table brings."""
        found: list[Changes] = []
        for number, part in enumerate(task.parts):
            own = ranges_of(part, ranges)
            if all(r.empty for r in own.values()):
                continue
            changes = self._changes(part, own)
            assert changes is not None
            assert isinstance(task.object, Table)
            found.append(in_turn(changes, part, task.object, number))
        return found

    def _with_brought(self, task: Task, ranges: Mapping[str, Range], own: DataFrame) -> DataFrame:
        """The new rows of a table that only grows, together with what sinks bring."""
        (key,) = task.feeds
        parts = [c.frame.drop(*CHANGE_SCHEMA) for c in self._brought(task, ranges)]
        rows = [self.runtime.feeds[key].generate(p, self.cut.now) for p in parts]
        return united(rows if ranges[key].empty else [own, *rows])

    def _states(self, task: Task, ranges: Mapping[str, Range]) -> dict[str, State]:
        """What the epoch does to the relations that a stage reads, and to its own table before."""
        assert task.stage is not None
        first = not ranges[BEGUN].start.get("begun")
        states = {k: State(not ranges[k].empty, empty=first) for k in task.feeds}
        for key in task.tables:
            at = ranges[stored(key)]
            states[key] = State(not at.empty, self.contents.was_empty(key, at.start["snapshot"]))
        states |= {k: State(False) for k in task.foreign}
        own = self.contents.was_empty(task.key, self.runtime.heads[task.key])
        states[task.stage.relation] = State(True, own)
        return states

    def _shown(self, task: Task) -> int | None:
        """Of a view that shows what is final: the watermark up to which it has done so."""
        stages = task.object.stages if isinstance(task.object, MaterializedView | Sink) else ()
        if not any(s.trim is not None for s in stages):
            return None
        position = self.record.position(stages[-1].relation, MARK)
        mark: int | None = position["mark"]
        return mark

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
                if relation not in task.feeds:
                    return self.contents.weighed(relation, ranges[stored(relation)])
                if times > 1:
                    marked = relation in task.marks
                    read = self.reads.placed if marked else self.reads.rows
                    read(relation, ranges[relation]).share()
                frame = self.reads.in_time(task, relation, ranges)
                return frame.withColumn(WEIGHT, F.lit(1))
            if relation == stage.relation:
                return self.contents.all(relation, own)
            if relation in task.foreign:
                return self.contents.whole(relation)
            at = ranges[stored(relation)]
            return self.contents.all(relation, (at.start if which == "old" else at.end)["snapshot"])

        clock, reached = ranges.get(CLOCK), ranges.get(MARK)
        times = Times(
            None if clock is None else clock.start["time"],
            None if reached is None else reached.start["mark"],
            None if reached is None else reached.end["mark"],
            self._shown(task),
        )
        count = self._count_changes(task, ranges)

        def find(
            relation: str, which: str, on: Sequence[str], columns: Sequence[str], keys: DataFrame
        ) -> DataFrame:
            if relation in task.foreign:
                return self.contents.whole(relation)
            if relation == stage.relation:
                return self.contents.found(relation, own, own, on, columns, keys, count)
            at = ranges[stored(relation)]
            snapshot, head = (
                (at.start if which == "old" else at.end)["snapshot"],
                at.end["snapshot"],
            )
            return self.contents.found(relation, snapshot, head, on, columns, keys, count)

        failures = self.runtime.errors.handler(task.object.id)
        spark = self.runtime.spark
        checked = self.cancellable and has_functions(spark)
        with TempViews(spark) as views:
            computation = Computation(spark, face, find, self.cut.now, views, failures, checked)
            return computation.changes(stage, states, first=first, times=times, marks=marks)

    def _count_changes(self, task: Task, ranges: Mapping[str, Range]) -> int | None:
        """About how many changes there are, where that is known beforehand and says how much the driver has to hold."""
        if self._has_large_records:
            return None
        counts = [
            self.runtime.feeds[k].source.at_most(ranges[k].start, ranges[k].end) for k in task.feeds
        ]
        for key in task.tables:
            counts.append(self.contents.changed(key, ranges[stored(key)]))
        counts += [self._count_changes(p, ranges_of(p, ranges)) for p in task.parts]
        known = [c for c in counts if c is not None]
        return sum(known) if len(known) == len(counts) else None

    def _render(self, task: Task, query: Node, frames: Mapping[str, DataFrame]) -> DataFrame:
        failures = self.runtime.errors.handler(task.object.id)
        with TempViews(self.runtime.spark) as views:
            inputs = {key: views.add(frame) for key, frame in frames.items()}
            return self.runtime.spark.sql(render(query, inputs, self.cut.now, failures))

    def _destined(self, task: Task, ranges: Mapping[str, Range]) -> DataFrame | None:
        """The rows of one of a connector's tables, which is made or widened for them first; None: there is none yet."""
        (key,) = task.feeds
        feed, table = self.runtime.feeds[key], self.runtime.targets[task.key]
        assert isinstance(feed, ConnectorFeed)
        assert isinstance(table, LakeTable)
        assert task.destination is not None
        known = task.key in self.runtime.uuids
        rows = self.reads.rows(key, ranges[key])
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
            if key in self.cut.held and dead not in self.stamped:
                continue  # its letters are found when it can be read again
            if dead in self.stamped:
                self._adopt(dead, self.stamped[dead])
                continue
            range = Range(self.record.position(dead, key), end)
            # only a read of just this range tells
            rows = self.reads.known(key, range)
            found: Staged | None = None
            look = rows is None or bool(self.stamped) or feed.may_have_letters(rows)
            late = self.reads.late_letters(feed, range)
            if (look or late is not None) and not range.empty:
                letters = feed.letters(range)
                letters = letters if late is None else letters.unionByName(late)
                found = stage(letters, self.runtime.letters[key])
            result.append((feed, range, found))
        return result

    # -- committing ------------------------------------------------------------------------------

    def _commit(self, task: Task, ranges: Mapping[str, Range], result: Result) -> None:
        began = time.monotonic()
        try:
            if isinstance(result, StagedChanges):
                self._finish_changes(task, ranges, result)
            else:
                self._finish(task.key, ranges, result, self.runtime.targets[task.key])
        except Exception as error:
            self.failed[task.key] = error
            raise
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
            except HeadMovedError:
                log_failure(_LOG, "%s was changed by others; the upsert is prepared again", key)
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

    def _count_errors(self) -> None:
        """Add the expressions that failed to the counters of their objects."""
        plan = self.runtime.plan
        objects = {
            o.id: o.key for o in (*(t.object for t in plan.tasks), *(f.object for f in plan.feeds))
        }
        for id, count in self.runtime.errors.take(objects).items():
            key = objects[id]
            self.report.errors[key] = count
            self.counters[f"{key}.errors"] = self.counters.get(f"{key}.errors", 0) + count

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
            late = any(k in sources for k in behind) or lags(behind, sources)
            self.report.behind |= key in self.cut.due and late
            objects[key] = replace(at, position=behind or None)
        for key, records in self.report.records.items():
            self.counters[f"{key}.records"] = self.counters.get(f"{key}.records", 0) + records
        self._count_errors()
        return replace(
            self.record,
            epoch=self.cut.epoch,
            time=self.cut.time,
            sources=sources,
            objects=objects,
            counters=self.counters,
        )


def _spread(frame: DataFrame, task: Task) -> DataFrame:
    """Rows to write, in as many parts as ALTER … SET PARALLELISM says."""
    return frame if task.parallelism is None else frame.repartition(task.parallelism)
