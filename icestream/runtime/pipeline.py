"""The pipeline of a home: start, restart and DDL are one path, and the loop that runs epoch after epoch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from icestream import faults
from icestream.catalog.graph import Plan, Task, make_plan
from icestream.catalog.objects import (
    DEAD_LETTER_COLUMNS,
    DEAD_LETTERS,
    Connector,
    MaterializedView,
    Object,
    Sink,
    Source,
    Table,
)
from icestream.config import EngineSettings
from icestream.errors import (
    ConnectorError,
    FencedError,
    IcestreamError,
    LakeError,
    RangeLostError,
    SqlError,
)
from icestream.lake.catalogs import LAKE, OWNER, SYSTEM, Lake
from icestream.lake.keyed import KeyedTable
from icestream.lake.log import EpochLog
from icestream.lake.stamp import ObjectAt, Offset, Record, Stamp
from icestream.lake.table import LakeTable
from icestream.maintenance.housekeeping import Housekeeper
from icestream.observe.report import EpochReport
from icestream.runtime.destinations import ConnectorFeed
from icestream.runtime.epoch import Epoch
from icestream.runtime.feeds import OpenFeed
from icestream.runtime.follow import check_free, fit_columns, is_outdated, rename_tables
from icestream.runtime.parts import BEGUN, CLOCK, MARK, Cut, Runtime, brought, position, stored
from icestream.runtime.targets import Target, open_target, prepare
from icestream.types import BOOLEAN

MAX_BACKOFF = 30.0
ONCE_ATTEMPTS = 3
TICK = 1.0
"""Seconds between looks at views that depend on now()."""
RATE_BURST = 3
"""Intervals' worth of records that a source with a rate limit may give after it was idle."""


@dataclass
class Pace:
    """How fast a feed was read, and when; the size of its next epoch follows from it."""

    rate: float | None = None
    read_at: float | None = None


@dataclass(frozen=True)
class Ready:
    """What a backfill has made of a new object: where each of its tables stands."""

    objects: Mapping[str, ObjectAt]
    heads: Mapping[str, int | None]
    uuids: Mapping[str, str]
    counters: Mapping[str, int]
    sources: Mapping[str, Offset]
    """How far the feeds were read that it reads."""


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
    ) -> None:
        self.lake = lake
        self.event = event
        self.indexes = indexes
        self.id = pipeline
        self.incarnation = incarnation
        self.settings = settings
        self.notice = notice
        self.plan = Plan((), ())
        self.record = Record(pipeline, 0, 0, 0, 0)
        log = EpochLog.of(lake)
        self.runtime = Runtime(lake.spark, self.plan, log, {}, {}, {}, {}, {}, {}, indexes)
        self.housekeeper = Housekeeper(lake, settings, notice)
        self._pace: dict[str, Pace] = {}
        self._committed: dict[str, float] = {}
        self.failed_feeds: dict[str, str] = {}
        self.lags: dict[str, int] = {}
        self._interrupted = False
        self._ticked_at: float | None = None
        self.paused = False
        """Whether nothing is taken in."""

    # -- start, restart, DDL ---------------------------------------------------------------------

    def open(self, objects: Sequence[Object], plan_version: int) -> None:
        """Own the log, fence every table, roll an interrupted epoch forward, take in what is new."""
        log = self.runtime.log
        if not self.lake.exists(log.table):
            self.lake.create(log.table, [("unused", BOOLEAN)], properties={OWNER: "log"})
        self.record = log.newest() or self.record
        self.incarnation = max(self.incarnation, self.record.incarnation + 1)
        faults.reach("recovering")
        self._commit_record(incarnation=self.incarnation, plan=plan_version)
        self.attach(objects, plan_version, fence=True)

    def attach(
        self,
        objects: Sequence[Object],
        plan_version: int,
        fence: bool = False,
        ready: Ready | None = None,
    ) -> None:
        """Make the running plan that of these objects. What the record does not know yet is prepared and added, or taken
        in where it is `ready`; what it knows and the objects lack is forgotten."""
        if not fence:
            self.settle()
        before, old_plan = self.record, self.plan
        plan = make_plan(objects)
        known = {t.key: t.columns for t in old_plan.tasks}
        reshaped = [
            t for t in plan.tasks
            if isinstance(t.object, Table) and known.get(t.key) != t.columns
            and t.key in self.record.objects
        ]  # fmt: skip
        try:
            self.open_parts(plan)
            self._follow(reshaped)
            if fence:
                self._recover()
                before = self.record
            self._renew(reshaped, None if fence else plan_version)
            if ready is not None:
                self._take_in(ready)
            self.add_new(plan)
        except BaseException:
            taken = ready.objects if ready is not None else {}
            kept = {k: v for k, v in self.record.objects.items() if k not in taken}
            self.record = replace(self.record, objects=kept)
            self.open_parts(old_plan)
            raise
        keys = {t.key for t in plan.tasks} | {f.dead_key for f in plan.feeds}
        objects_at = {k: v for k, v in self.record.objects.items() if k in keys}
        sources = {k: v for k, v in self.record.sources.items() if k in self.runtime.feeds}
        changed = (objects_at, sources, plan_version) != (
            before.objects,
            before.sources,
            before.plan,
        )
        if changed:
            self._commit_record(plan=plan_version, objects=objects_at, sources=sources)

    def _take_in(self, ready: Ready) -> None:
        self.runtime.heads |= ready.heads
        self.runtime.uuids |= ready.uuids
        objects = {**self.record.objects, **ready.objects}
        counters = {**self.record.counters, **{k: n for k, n in ready.counters.items() if n}}
        sources = {**ready.sources, **self.record.sources}
        self.record = replace(self.record, objects=objects, counters=counters, sources=sources)

    def check_free(self, names: Collection[str]) -> None:
        """Whether tables may get these names; an error otherwise."""
        check_free(self.lake, names)

    def settle(self) -> None:
        """Complete the epoch that was interrupted, if one was. Called before an ALTER."""
        if self._interrupted:
            self._recover()

    def _follow(self, reshaped: Sequence[Task]) -> None:
        """Give tables the names and columns that their objects have by now."""
        renamed = rename_tables(self.lake, self._tables(), self.record)
        if renamed:
            self._commit_record(objects={**self.record.objects, **renamed})
        for task in reshaped:
            fit_columns(self.lake, self.runtime.table(task.key), task.columns)

    def _renew(self, reshaped: Sequence[Task], plan_version: int | None) -> None:
        """Record a snapshot with the present columns of tables; with a plan version it has to be made first."""
        objects = dict(self.record.objects)
        for task in reshaped:
            table, at = self.runtime.table(task.key), objects[task.key]
            if not is_outdated(table, at):
                continue
            if plan_version is not None:
                mark = replace(self._mark(), plan=plan_version)
                _, self.runtime.heads[task.key] = table.fence(mark, at.snapshot)
            objects[task.key] = replace(at, snapshot=self.runtime.heads[task.key])
        self.record = replace(self.record, objects=objects)

    def open_parts(self, plan: Plan) -> None:
        """Open the connectors and tables of a plan, keeping those that are open already."""
        runtime = self.runtime
        before = {t.key: t for t in self.plan.tasks}
        self.plan = runtime.plan = plan
        feeds = {f.key: f for f in plan.feeds}
        tasks = {t.key: t for t in plan.tasks}
        for key in [k for k in runtime.feeds if k not in feeds]:
            runtime.feeds.pop(key).close()
            runtime.letters.pop(key)
        for key in [k for k in runtime.targets if k not in tasks]:
            runtime.targets.pop(key)
            keyed, uuid = runtime.keyed.pop(key, None), runtime.uuids.get(key)
            indexes = [keyed.index] if keyed is not None else []
            indexes += [found.index for found in runtime.lookups.pop(key, {}).values()]
            runtime.files.pop(key, None)
            runtime.hot.pop(key, None)
            for index in indexes if uuid is not None else ():
                index.drop(str(uuid))
        for key, feed in feeds.items():
            if key in runtime.feeds and runtime.feeds[key].feed != feed:
                runtime.feeds.pop(key).close()
            if key not in runtime.feeds:
                kind = ConnectorFeed if isinstance(feed.object, Connector) else OpenFeed
                runtime.feeds[key] = kind(feed, self.lake)
                runtime.letters[key] = self.lake.table(
                    LAKE, DEAD_LETTERS, feed.object.name, owned=True
                )
        for key, task in tasks.items():
            if key in runtime.targets and before[key].object != task.object:
                self._reopen(before[key], task)
            if key not in runtime.targets:
                runtime.targets[key] = open_target(task, self.lake)
            target = runtime.targets[key]
            if task.upsert is not None and isinstance(target, LakeTable):
                if key not in runtime.keyed:
                    runtime.keyed[key] = KeyedTable(target, task.upsert, self.indexes)
                runtime.keyed[key].tasks = task.parallelism

    def _reopen(self, before: Task, task: Task) -> None:
        """Follow a change of an object that goes on. Whoever holds its table has it under its present name."""
        runtime, key = self.runtime, task.key
        target = runtime.targets[key]
        if not isinstance(target, LakeTable):
            runtime.targets.pop(key)
            target.close()
            return
        wanted = open_target(task, self.lake)
        assert isinstance(wanted, LakeTable)
        target.parts = wanted.parts
        if before.columns != task.columns:
            runtime.keyed.pop(key, None)
            runtime.lookups.pop(key, None)
            runtime.files.pop(key, None)
            runtime.hot.pop(key, None)

    def _tables(self) -> dict[str, LakeTable]:
        """Every Iceberg table the pipeline writes, by the key it has in the record."""
        targets = {k: t for k, t in self.runtime.targets.items() if isinstance(t, LakeTable)}
        return targets | {f.dead_key: self.runtime.letters[f.key] for f in self.plan.feeds}

    def _feed_tables(self) -> dict[str, list[LakeTable]]:
        """Tables that connectors keep for themselves, by feed."""
        return {key: feed.source.tables() for key, feed in self.runtime.feeds.items()}

    def _recover(self) -> None:
        """Fence every table, then complete the epoch that was interrupted, if one was."""
        self.record = self.runtime.log.newest() or self.record
        if self.record.incarnation > self.incarnation:
            raise FencedError("another process has taken over this home; this one stops")
        stamps = self._fence()
        faults.reach("recovery-fenced")
        self._roll_forward(stamps)
        self._interrupted = False
        self.event("RECOVERY", epoch=self.record.epoch, incarnation=self.incarnation)

    def _fence(self) -> dict[str, Stamp]:
        """Fence the tables that the record knows; gives the newest stamp of each."""
        stamps: dict[str, Stamp] = {}
        for key, table in self._tables().items():
            at = self.record.objects.get(key)
            if at is None:
                continue
            if at.uuid is None and not self.lake.exists(table):
                continue  # a connector's table that it will create when there are records
            if at.uuid is not None and table.uuid() != at.uuid:
                raise LakeError(
                    f"{table.name} is not the table that was written before: it was dropped and made anew",
                    object=key,
                    remedy="drop and create the object to start over",
                )
            try:
                stamps[key], self.runtime.heads[key] = table.fence(self._mark(), at.snapshot)
            except FencedError:
                newest = EpochLog(self.runtime.log.table).newest()
                if newest is None or newest.incarnation > self.incarnation:
                    raise
                raise _older_home(key, "carries the mark of a later start") from None
            self.runtime.uuids[key] = at.uuid or table.uuid()
        return stamps

    def _mark(self) -> Stamp:
        record = self.record
        return Stamp(self.id, self.incarnation, record.plan, record.epoch, record.time, fence=True)

    def _roll_forward(self, stamps: Mapping[str, Stamp]) -> None:
        """Complete an epoch that some tables carry and the log does not."""
        ahead = {k: s for k, s in stamps.items() if s.epoch > self.record.epoch}
        if not ahead:
            return
        first = next(iter(ahead.values()))
        expected = self.record.epoch + 1
        logged = {i for s in self.runtime.log.table.ancestry() for i in (s.id, s.parent)}
        for key, stamp in ahead.items():
            if stamp.epoch != expected or stamp.cut != first.cut:
                raise _older_home(
                    key,
                    f"was written up to epoch {stamp.epoch}, but the log ends at epoch {self.record.epoch}",
                )
            if stamp.log is not None and stamp.log not in logged:
                raise _older_home(key, f"has an epoch {stamp.epoch} that another log began")
            for source, range in stamp.ranges.items():
                positions = self.record.objects[key].position or {}
                if source.startswith(brought("")) and source not in positions:
                    continue  # of a sink that was dropped meanwhile
                if range.start != self.record.position(key, source):
                    raise _older_home(
                        key, f"began its epoch {stamp.epoch} elsewhere than the log says"
                    )
        self.notice(f"completing epoch {expected}, which a previous run left unfinished")
        due = frozenset(t.key for t in self.plan.tasks if t.key in self.record.objects)
        cut = Cut(expected, first.time, first.cut, due)
        self._run_epoch(cut, ahead)

    def add_new(self, plan: Plan) -> None:
        """Prepare objects that the record does not know: tables, fences, where to begin."""
        objects, sources = dict(self.record.objects), dict(self.record.sources)
        for feed in plan.feeds:
            if feed.dead_key not in objects:
                start = self.runtime.feeds[feed.key].source.start()
                sources.setdefault(feed.key, start)
                table = self.runtime.letters[feed.key]
                self._prepare_letters(table, feed.dead_key)
                objects[feed.dead_key] = self._first(feed.dead_key, table, {})
        for task in plan.tasks:
            if task.key not in objects:
                target = self.runtime.targets[task.key]
                self._check_alone(task.key, target)
                keyed = self.runtime.keyed.get(task.key)
                if keyed and isinstance(task.object, Sink) and self.lake.exists(keyed.table):
                    keyed.check()
                prepare(task, target, self.lake)
                begin = self._start(task, sources, objects)
                objects[task.key] = self._first(task.key, target, begin)
            objects[task.key] = self._with_parts(task, objects)
        self.record = replace(self.record, objects=objects, sources=sources)

    def _prepare_letters(self, table: LakeTable, key: str) -> None:
        """A feed's dead-letter table. One that is there already, from readers now gone, keeps its letters."""
        if self.lake.exists(table):
            if dict(table.load().properties()).get(OWNER) == key:
                return
            self.lake.drop(table)
        self.lake.create(table, DEAD_LETTER_COLUMNS, properties={OWNER: key})

    def _check_alone(self, key: str, target: Target) -> None:
        """A table takes one commit an epoch, so one object writes it."""
        for other, table in self._tables().items():
            if other != key and isinstance(target, LakeTable) and table.parts == target.parts:
                first, second = (k.partition("#")[0] for k in (other, key))
                raise SqlError(
                    f"{'.'.join(table.parts[1:])} would be written by {first} and by {second}",
                    object=second,
                    remedy="unite the rows in one sink's query, or write two tables",
                )

    def _start(
        self, task: Task, sources: Mapping[str, Offset], objects: Mapping[str, ObjectAt]
    ) -> dict[str, Offset]:
        """Where a new object begins in each of its inputs."""
        position: dict[str, Offset] = {}
        if task.stage is not None:
            position[BEGUN] = {"begun": False}
            if task.stage.moving:
                position[CLOCK] = {"time": None}
        if task.has_mark:
            position[MARK] = {"mark": None, "inputs": {}, "parts": {}}
        for key in task.feeds:
            start = self.runtime.feeds[key].source.start()
            if start != sources.get(key):
                position[key] = start
        for key in task.tables:
            empty = self._is_empty(key)
            position[stored(key)] = {"snapshot": objects[key].snapshot if empty else None}
        return position

    def _with_parts(self, task: Task, objects: Mapping[str, ObjectAt]) -> ObjectAt:
        """A task's state with a position for each of its parts; new ones begin, those of dropped sinks are forgotten."""
        at = objects[task.key]
        known = at.position or {}
        own = {k: v for k, v in known.items() if not k.startswith(brought(""))}
        for part in task.parts:
            begun = known.get(brought(part.key), {})
            inputs = {*part.feeds, *map(stored, part.tables)}
            if not inputs <= begun.keys():
                begun = {**self._start(part, {}, objects), **begun}
            own[brought(part.key)] = {k: begun[k] for k in inputs}
        return replace(at, position=own or None)

    def _is_empty(self, key: str) -> bool:
        table = self.runtime.targets[key]
        head = table.head() if isinstance(table, LakeTable) else None
        return head is None or head.summary.get("total-records", "0") == "0"

    def _first(self, key: str, table: Target, position: Mapping[str, Offset]) -> ObjectAt:
        if not isinstance(table, LakeTable):
            return ObjectAt(self.record.epoch, position=dict(position) or None)
        if isinstance(self._writer(key), Connector) and not self.lake.exists(table):
            return ObjectAt(self.record.epoch, table.name, position=dict(position) or None)
        _, head = table.fence(self._mark(), None)
        self.runtime.heads[key] = head
        self.runtime.uuids[key] = table.uuid()
        return ObjectAt(
            self.record.epoch, table.name, self.runtime.uuids[key], head, dict(position) or None
        )

    def _writer(self, key: str) -> Object | None:
        return next((t.object for t in self.plan.tasks if t.key == key), None)

    def _commit_record(self, **changes: object) -> None:
        self.record = replace(self.record, **changes)  # type: ignore[arg-type]
        self.runtime.log.commit(self.record)

    # -- epochs ----------------------------------------------------------------------------------

    def run(
        self,
        stop: threading.Event,
        *,
        once: bool = False,
        report: Callable[[EpochReport], None] = lambda r: None,
        turn: AbstractContextManager[object] | None = None,
    ) -> None:
        """Run epochs until told to stop, or, with `once`, until everything that is there now is in.

        Each is run when it is this thread's `turn`.

        A failure of the outside world is retried (recovering first, so a half-done epoch is completed, not
        repeated); one that no retry can mend is raised. Stopping waits for the epoch's end.
        """
        goal = (
            {k: f.source.latest(self.record.sources[k]) for k, f in self.runtime.feeds.items()}
            if once
            else None
        )
        failures = 0
        self._ticked_at = None
        while not stop.is_set():
            began = time.monotonic()
            try:
                with turn or nullcontext():
                    if self._interrupted:
                        self._recover()
                    done = self.step(goal, force=once)
            except (FencedError, RangeLostError, LakeError):
                raise
            except Exception as error:
                failures += 1
                if (once and failures >= ONCE_ATTEMPTS) or not _may_pass(error):
                    raise
                wait = min(0.5 * 2**failures, MAX_BACKOFF)
                self.notice(f"{_first_line(error)}; trying again in {wait:g} s")
                self.event(
                    "COLLECT_BARRIER_FAIL", epoch=self.record.epoch + 1, error=_first_line(error)
                )
                stop.wait(wait)
                continue
            failures = 0
            if done is not None:
                report(done)
                with turn or nullcontext():
                    self.housekeeper.after_epoch(
                        self._tables(), self._feed_tables(), self.runtime.log, self.record
                    )
            if once and done is None:
                return
            throttled = any(f.rate_limit for f in list(self.runtime.feeds.values()))
            if throttled or not (once or (done is not None and done.behind)):
                stop.wait(max(0.0, self.settings.epoch_interval - (time.monotonic() - began)))

    def step(
        self, goal: Mapping[str, Offset] | None = None, *, force: bool = False
    ) -> EpochReport | None:
        """One epoch, if there is anything to do; None otherwise. `force` ignores commit intervals."""
        cut = self._choose(goal, force)
        if cut is None:
            return None
        faults.reach("ranges-chosen")
        return self._run_epoch(cut)

    def _choose(self, goal: Mapping[str, Offset] | None, force: bool) -> Cut | None:
        if self.paused:
            return None
        ends, limited = self._ends(goal)
        moved = {k for k, end in ends.items() if end != self.record.sources[k]}
        now = time.monotonic()
        ticks = self._ticks(once=goal is not None)
        news: set[str] = set()
        due: set[str] = set()
        for task in self.plan.tasks:
            behind = any(
                position(self.record, r, k) != self.record.sources[k]
                for r in task.readers
                for k in r.feeds
            )
            stale = any(
                position(self.record, r, stored(k))["snapshot"] != self.record.objects[k].snapshot
                for r in task.readers
                for k in r.tables
            )
            stale |= task.stage is not None and not self._has_begun(task)
            stale |= ticks and task.stage is not None and task.stage.moving
            changed = any(moved & set(r.feeds) or news & set(r.tables) for r in task.readers)
            if not (behind or stale or changed):
                continue
            news.add(task.key)
            waited = now - self._committed.get(task.key, -1e9)
            if force or limited or waited >= task.interval:
                due.add(task.key)
        if not due:
            return None
        used = {k for r in self.plan.readers if r.committer in due for k in r.feeds}
        ends = {k: v for k, v in ends.items() if k in used}
        micros = max(time.time_ns() // 1000, self.record.time + 1_000)
        return Cut(self.record.epoch + 1, micros, ends, frozenset(due), self._limit())

    def _ticks(self, *, once: bool) -> bool:
        """Whether views that depend on now() are to be looked at though nothing may have come."""
        if self._ticked_at is not None and once:
            return False
        since = time.monotonic() - (self._ticked_at or -1e9)
        return since >= max(self.settings.epoch_interval, TICK)

    def _has_begun(self, task: Task) -> bool:
        return bool(self.record.position(task.key, BEGUN)["begun"])

    def _ends(self, goal: Mapping[str, Offset] | None) -> tuple[dict[str, Offset], bool]:
        """How far the epoch may go in each feed. A feed that fails is left where it is; the others go on."""
        ends: dict[str, Offset] = {}
        limited = False
        for key, feed in self.runtime.feeds.items():
            since = self.record.sources[key]
            if feed.held:
                ends[key] = since
                continue
            try:
                latest = feed.source.latest(since) if goal is None else goal.get(key, since)
            except RangeLostError:
                raise
            except ConnectorError as error:
                if goal is not None or len(self.runtime.feeds) == 1:
                    raise
                self._feed_failed(key, error)
                continue
            self.failed_feeds.pop(key, None)
            ends[key] = feed.source.advance(since, latest, self._feed_limit(key, feed))
            self.lags[key] = feed.source.count(ends[key], latest) or 0
            limited |= ends[key] != latest and feed.rate_limit is None
        return ends, limited

    def _feed_failed(self, key: str, error: ConnectorError) -> None:
        if self.failed_feeds.get(key) != error.message:
            self.notice(f"{error.message}; the others go on")
            self.event("SOURCE_FAIL", source=key.partition("#")[0], error=error.message)
            self.failed_feeds[key] = error.message

    def _limit(self) -> int:
        rates = [p.rate for p in self._pace.values() if p.rate]
        return _budget(min(rates) if rates else None, self.settings)

    def _feed_limit(self, key: str, feed: OpenFeed) -> int:
        pace = self._pace.setdefault(key, Pace())
        limit = _budget(pace.rate, self.settings)
        if feed.rate_limit is None:
            return limit
        now = time.monotonic()
        interval = self.settings.epoch_interval
        since = interval if pace.read_at is None else min(now - pace.read_at, RATE_BURST * interval)
        return min(limit, max(1, int(feed.rate_limit * since)))

    def _run_epoch(self, cut: Cut, stamped: Mapping[str, Stamp] | None = None) -> EpochReport:
        began = time.monotonic()
        epoch = Epoch(self.runtime, self.record, cut, stamped)
        self._interrupted = True
        self._ticked_at = began
        self.record = epoch.run()
        self._interrupted = False
        for key in cut.due:
            self._committed[key] = began
        for key, records in epoch.report.records.items():
            pace = self._pace.setdefault(key, Pace())
            pace.read_at = began
            if epoch.report.seconds > 0.5 and records > 10_000:
                pace.rate = records / epoch.report.seconds
        self._acknowledge()
        return epoch.report

    def _acknowledge(self) -> None:
        """Tell each source how far it is durable in everything that reads it."""
        for key, feed in self.runtime.feeds.items():
            readers = [r for r in self.plan.readers if key in r.feeds]
            end = self.record.sources[key]
            if all(position(self.record, r, key) == end for r in readers):
                try:
                    feed.source.acknowledge(end)
                except Exception as error:
                    self.notice(f"{feed.object.name}: acknowledging failed: {_first_line(error)}")

    def sweep(self, keys: Collection[str]) -> None:
        """Drop tables of objects that are not there: what a process has left that died while it filled a view."""
        for schema in ("public", SYSTEM):
            self.lake.create_namespace((LAKE, schema))
            for table in self.lake.tables(LAKE, schema):
                owner = _owner(table)
                if owner is not None and "#" in owner and owner not in keys:
                    self.lake.drop(table)

    def discard(self, objects: Sequence[Object]) -> None:
        """Drop the tables of objects that are gone. Targets of sinks stay: they are the user's."""
        for object in objects:
            if object.kind in (Table.kind, MaterializedView.kind):
                table = self.lake.table(LAKE, object.schema, object.name, owned=True)
                if self.lake.exists(table) and _owner(table) == object.key:
                    self.lake.drop(table)
            if object.kind in (Source.kind, Table.kind, Connector.kind):
                self.lake.drop(self.lake.table(LAKE, DEAD_LETTERS, object.name, owned=True))
        gone = {object.key for object in objects}
        for table in self.lake.tables(LAKE, SYSTEM):
            if _owner(table) in gone:
                self.lake.drop(table)

    def close(self) -> None:
        """Close all connectors. Called after the loop has ended."""
        for feed in self.runtime.feeds.values():
            feed.close()
        for target in self.runtime.targets.values():
            if not isinstance(target, LakeTable):
                target.close()


def _owner(table: LakeTable) -> str | None:
    return dict(table.load().properties()).get(OWNER)


def _older_home(key: str, what: str) -> LakeError:
    return LakeError(
        f"{key} {what}",
        object=key,
        remedy="this home is older than its tables; use the newest copy of it",
    )


def _budget(rate: float | None, settings: EngineSettings) -> int:
    return max(50_000, int(rate * settings.epoch_target)) if rate else settings.first_epoch_records


def _may_pass(error: Exception) -> bool:
    """Whether trying again may help: the outside world failed, or Spark did; not a wrong statement."""
    return isinstance(error, ConnectorError) or not isinstance(error, IcestreamError)


def _first_line(error: Exception) -> str:
    text = error.message if isinstance(error, IcestreamError) else str(error)
    return text.strip().splitlines()[0][:300] if text.strip() else type(error).__name__
