"""The pipeline of a home: start, restart and DDL are one path, and the loop that runs epoch after epoch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from icestream import faults, interrupts
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
    LakeError,
    SqlError,
)
from icestream.lake.catalogs import LAKE, OWNER, SYSTEM, Lake, owner_of
from icestream.lake.jvm import check_jvm
from icestream.lake.keyed import KeyedTable
from icestream.lake.log import EpochLog
from icestream.lake.stamp import ObjectAt, Offset, Record, Stamp
from icestream.lake.table import LakeTable
from icestream.maintenance.housekeeping import Housekeeper
from icestream.observe.report import EpochReport
from icestream.runtime.destinations import open_feed
from icestream.runtime.epoch import Epoch
from icestream.runtime.error_counts import ErrorCounts
from icestream.runtime.failures import describe_error, may_pass
from icestream.runtime.feeds import OpenFeed
from icestream.runtime.follow import check_free, fit_columns, is_outdated, rename_tables
from icestream.runtime.health import PipelineHealth
from icestream.runtime.outside_answers import Answers, ask_new, ask_reset, is_outside
from icestream.runtime.outside_calls import IN_TURN_SECONDS, call_outside
from icestream.runtime.parts import BEGUN, CLOCK, MARK, Cut, Runtime, brought, position, stored
from icestream.runtime.targets import Target, open_target, prepare
from icestream.types import BOOLEAN

GOAL_PATIENCE = 0.5
"""Seconds that a bounded run holds its turn while it waits for sources to say where they end."""
FLUSH_TURN = 0.5
"""Seconds that FLUSH waits for the answers of sources before it lets others have the turn."""
FLUSH_PATIENCE = 10.0
"""Seconds that FLUSH waits for a source that did not fail before."""
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
        *,
        after_crash: bool = False,
    ) -> None:
        """`after_crash`: the last process of this home did not come to an orderly end."""
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
        errors = ErrorCounts(lake.spark)
        self.runtime = Runtime(lake.spark, self.plan, log, {}, {}, {}, {}, {}, {}, indexes, errors)
        self.housekeeper = Housekeeper(lake, settings, notice)
        self._pace: dict[str, Pace] = {}
        self._committed: dict[str, float] = {}
        self.health = PipelineHealth(notice, event)
        self._failed_epoch: Epoch | None = None
        self.lags: dict[str, int] = {}
        self.is_interrupted = False
        """Whether an epoch was begun and is not complete."""
        self._after_crash = after_crash
        self._ticked_at: float | None = None
        self._tidied = 0
        """The epoch after which tables were last looked after."""
        self.paused = False
        """Whether nothing is taken in."""
        self._awaited: frozenset[str] = frozenset()
        """Sources whose answers FLUSH waits for. Other epochs leave them to it."""
        self._error_digits: dict[str, int] = {}
        """Digits of the number of failed expressions that was last reported, by object."""
        self.answers: Answers | None = None
        """What was asked outside for the statement that has the turn; None: it asks in turn, as long as that takes."""

    # -- before a statement's turn ---------------------------------------------------------------

    def ask_new(self, objects: Sequence[Object]) -> Answers:
        """Ask outside what new ones of these objects need. Called out of turn: it may take long, and can be cancelled."""
        return ask_new(make_plan(objects), self.record, self.lake)

    def ask_reset(self, key: str) -> Answers:
        """Ask outside where a source goes on once it is reset. Called out of turn."""
        feed = self.runtime.feeds.get(key)
        if feed is None:
            return Answers()
        return ask_reset(feed.feed, self._positions(key), self.lake)

    @contextmanager
    def using(self, answers: Answers | None) -> Iterator[None]:
        """Use answers while objects change. Called in turn."""
        before, self.answers = self.answers, answers
        try:
            yield
        finally:
            self.answers = before

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
        self.lake.dml.open(self.incarnation)
        self.attach(objects, plan_version, fence=True)

    def attach(
        self,
        objects: Sequence[Object],
        plan_version: int,
        fence: bool = False,
        ready: Ready | None = None,
    ) -> None:
        """Make the running plan that of these objects. What the record does not know yet is prepared and added, or taken
        in where it is `ready`; what it knows and the objects lack is forgotten. It is done or undone as a whole, whether
        the statement is cancelled meanwhile or not."""
        with interrupts.shield():
            self._attach(objects, plan_version, fence, ready)

    def _attach(
        self, objects: Sequence[Object], plan_version: int, fence: bool, ready: Ready | None
    ) -> None:
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
                self._suspect_large_records()
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

    def _suspect_large_records(self) -> None:
        """After a crash, which they may have caused, the first epoch reads records as if they were large."""
        for feed in self.runtime.feeds.values():
            feed.source.has_large_records = self._after_crash and feed.source.raw

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
        """Complete the epoch that was interrupted, if one was. Called before objects change, and before the next epoch."""
        if self.is_interrupted:
            with interrupts.shield():
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
                runtime.feeds[key] = open_feed(feed, self.lake)
                runtime.feeds[key].failures = runtime.errors.handler(feed.object.id)
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
        self.check_owner()
        self.record = self.runtime.log.newest() or self.record
        stamps = self._fence()
        faults.reach("recovery-fenced")
        try:
            self._roll_forward(stamps)
        except FencedError:
            raise
        except Exception:
            if not self._find_culprits():
                raise
            self._roll_forward(self._fence())  # without what fails
        self.is_interrupted = False
        self.event("RECOVERY", epoch=self.record.epoch, incarnation=self.incarnation)

    def check_owner(self) -> None:
        """Make sure that no other process has taken over."""
        # Not by the pipeline's own log: it would take over the head that a successor has made.
        newest = EpochLog(self.runtime.log.table).newest()
        if newest is not None and newest.incarnation > self.incarnation:
            raise FencedError("another process has taken over this home; this one stops")

    def _fence(self) -> dict[str, Stamp]:
        """Fence the tables that the record knows; gives the newest stamp of each. Sinks that cannot be fenced fail."""
        stamps: dict[str, Stamp] = {}
        for key, table in self._tables().items():
            at = self.record.objects.get(key)
            if at is None or key in self.health.sinks:
                continue
            try:
                stamp = self._fence_table(key, table, at)
            except ConnectorError as error:
                if not self._is_sink(key):
                    raise
                self.health.sinks.fail(key, error)
                continue
            if stamp is not None:
                stamps[key] = stamp
        return stamps

    def _fence_table(self, key: str, table: LakeTable, at: ObjectAt) -> Stamp | None:
        """Fence one table; gives its newest stamp, or None for a table that is not there yet."""
        if at.uuid is None and not self.lake.exists(table):
            return None  # a connector's table that it will create when there are records
        if at.uuid is not None and table.uuid() != at.uuid:
            raise LakeError(
                f"{table.name} is not the table that was written before: it was dropped and made anew",
                object=key,
                remedy="drop and create the object to start over",
            )
        try:
            stamp, self.runtime.heads[key] = table.fence(self._mark(), at.snapshot)
        except FencedError:
            newest = EpochLog(self.runtime.log.table).newest()
            if newest is None or newest.incarnation > self.incarnation:
                raise
            raise _older_home(key, "carries the mark of a later start") from None
        self.runtime.uuids[key] = at.uuid or table.uuid()
        if at.epoch < stamp.epoch <= self.record.epoch:
            self._adopt_late_commit(key, at, stamp)
        return stamp

    def _adopt_late_commit(self, key: str, at: ObjectAt, stamp: Stamp) -> None:
        """Record what a sink wrote in an epoch that was completed without it, because the answer was lost."""
        for source, range in stamp.ranges.items():
            if range.start != self.record.position(key, source):
                raise _older_home(key, f"began its epoch {stamp.epoch} elsewhere than the log says")
        if not stamp.ranges:
            return
        reached = {**(at.position or {}), **{k: r.end for k, r in stamp.ranges.items()}}
        behind = {k: v for k, v in reached.items() if self.record.sources.get(k) != v}
        head = self.runtime.heads[key]
        after = replace(at, epoch=stamp.epoch, snapshot=head, position=behind or None)
        self.record = replace(self.record, objects={**self.record.objects, key: after})

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
        known = self.record.objects.keys() - self.health.sinks.active()
        due = frozenset(t.key for t in self.plan.tasks if t.key in known)
        held = frozenset(self.health.sources)
        cut = Cut(expected, first.time, first.cut, due, held=held)
        self._run_epoch(cut, ahead)

    def add_new(self, plan: Plan) -> None:
        """Prepare objects that the record does not know: tables, fences, where to begin."""
        objects, sources = dict(self.record.objects), dict(self.record.sources)
        for feed in plan.feeds:
            if feed.dead_key not in objects:
                sources.setdefault(feed.key, self._source_start(feed.key))
                table = self.runtime.letters[feed.key]
                self._prepare_letters(table, feed.dead_key)
                objects[feed.dead_key] = self._first(feed.dead_key, table, {})
        for task in plan.tasks:
            if task.key not in objects:
                self._check_stages(task)
                target = self.runtime.targets[task.key]
                self._check_alone(task.key, target)
                begin = self._start(task, sources, objects)
                add = partial(self._add_target, task, target, begin)
                if self.answers is not None and is_outside(target):
                    objects[task.key] = call_outside(add, task.object.name, IN_TURN_SECONDS)
                else:
                    objects[task.key] = add()
            objects[task.key] = self._with_parts(task, objects)
        self.record = replace(self.record, objects=objects, sources=sources)

    def _add_target(self, task: Task, target: Target, begin: Mapping[str, Offset]) -> ObjectAt:
        """Prepare and fence the table of a new object."""
        keyed = self.runtime.keyed.get(task.key)
        if keyed and isinstance(task.object, Sink) and self.lake.exists(keyed.table):
            keyed.check()
        prepare(task, target, self.lake)
        return self._first(task.key, target, begin)

    def _source_start(self, key: str) -> Offset:
        """Where a feed starts: as was answered before the turn, if it was asked."""
        feed = self.runtime.feeds[key]
        if self.answers is None or not feed.source.asks_only:
            return feed.source.start()
        start = self.answers.start_of(feed.feed)
        if start is not None:
            return start
        return call_outside(feed.source.start, feed.object.name, IN_TURN_SECONDS)

    def _check_stages(self, task: Task) -> None:
        """A view that has rows already cannot get a new stage: the stage's first delta would count its rows twice."""
        object = task.object
        if task.stage is not None and object.key in self.record.objects:
            raise LakeError(
                f"{object.kind} {object.name} was made by an older version, which planned it in other stages",
                object=object.name,
                remedy=f"DROP {object.kind.upper()} {object.name} and create it again",
            )

    def _prepare_letters(self, table: LakeTable, key: str) -> None:
        """A feed's dead-letter table. One that is there already, from readers now gone, keeps its letters."""
        if self.lake.exists(table):
            if owner_of(table) == key:
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
            start = self._source_start(key)
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
        strict: bool = True,
        keep_going: bool = False,
        report: Callable[[EpochReport], None] = lambda r: None,
        changed: Callable[[], None] = lambda: None,
        turn: AbstractContextManager[object] | None = None,
    ) -> None:
        """Run epochs until told to stop, or, with `once`, until everything that is there now is in.

        Each is run when it is this thread's `turn`. `changed` is called when something begins or ceases to fail.

        Sources that fail are left out of epochs until they are back; a `strict` bounded run raises their error at its
        end. Other failures are retried with backoff (recovering first, so a half-done epoch is completed, not
        repeated). A table that is not what was recorded ends the run, unless it is to `keep_going`. FencedError always
        does. Stopping waits for the epoch's end.
        """
        goal = self._goal(strict, stop, turn or nullcontext()) if once else None
        if once:
            self.health.sinks.retry_soon()
        failures = attempts = 0
        self._ticked_at = None
        self._tidied = self._tidied or self.record.epoch
        while not stop.is_set():
            began = time.monotonic()
            check_jvm(self.lake.spark)
            try:
                # A statement that runs an epoch and is cancelled leaves after it: it is everybody's epoch.
                with turn or nullcontext(), interrupts.shield():
                    self.settle()
                    done = self.step(goal, force=once)
            except FencedError:
                raise
            except Exception as error:
                failures += 1
                check_jvm(self.lake.spark)
                blamed = self._blame(turn or nullcontext())
                if once and failures >= ONCE_ATTEMPTS:
                    raise
                if not blamed:  # else the others go on without what fails
                    if not (keep_going or may_pass(error)):
                        raise
                    wait = self.health.note_trouble(error, failures, self.record.epoch + 1)
                    changed()
                    self._wait(stop, wait)
                continue
            failures = 0
            if self.health.trouble is not None:
                self.health.trouble = None
                changed()
            if done is not None:
                report(done)
            if self.record.epoch != self._tidied:  # statements run epochs too
                self._tidied = self.record.epoch
                with turn or nullcontext(), interrupts.shield():
                    self._tidy()
            if self.health.has_changed():
                changed()
            if once and done is None:
                if attempts < ONCE_ATTEMPTS and self._retry_sinks():
                    attempts += 1
                    continue
                self.health.tell_left_out(strict)
                return
            throttled = any(f.rate_limit for f in list(self.runtime.feeds.values()))
            if throttled or not (once or (done is not None and done.behind)):
                stop.wait(max(0.0, self.settings.epoch_interval - (time.monotonic() - began)))

    def _tidy(self) -> None:
        """Look after tables. The epoch is complete, so whatever fails here is only told."""
        try:
            self.housekeeper.after_epoch(
                self._tables(), self._feed_tables(), self.runtime.log, self.record
            )
        except FencedError:
            raise
        except Exception as error:
            check_jvm(self.lake.spark)
            self.notice(f"tidying failed: {describe_error(error).message}")

    def _blame(self, turn: AbstractContextManager[object]) -> bool:
        """Find whose fault a failed epoch was, in turn. If that fails too it was nobody's, and the epoch is tried again."""
        try:
            with turn:
                return self._find_culprits()
        except FencedError:
            raise
        except Exception:
            check_jvm(self.lake.spark)
            return False

    def _wait(self, stop: threading.Event, seconds: float) -> None:
        """Wait before the next attempt, though not for a JVM that has ended."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not stop.wait(min(left, 1.0)):
            check_jvm(self.lake.spark)

    def _goal(
        self, strict: bool, stop: threading.Event, turn: AbstractContextManager[object]
    ) -> dict[str, Offset]:
        """Where each source ends now. Only a `strict` run waits for those that have failed before."""
        goal: dict[str, Offset] = {}
        while not stop.is_set():
            with turn, interrupts.shield():
                if not goal:
                    self.lake.dml.bound()
                left = {k: f.source for k, f in self.runtime.feeds.items() if k not in goal}
                patience = None if strict else GOAL_PATIENCE
                goal |= self.health.sources.poll(left, self.record.sources, patience)
            if all(k in goal or k in self.health.sources for k in left):
                break
        return goal

    def _find_culprits(self) -> bool:
        """Whether sources or sinks made the last epoch fail. They are left out of the next one."""
        epoch, self._failed_epoch = self._failed_epoch, None
        if epoch is None:
            return False
        return self.health.find_culprits(epoch, self.runtime, self._is_sink)

    def _is_sink(self, key: str) -> bool:
        """Whether a task writes outside the pipeline, so that no other task depends on it."""
        task = next((t for t in self.plan.tasks if t.key == key), None)
        return task is not None and task.stage is None and isinstance(task.object, Sink | Connector)

    def _retry_sinks(self) -> bool:
        """Whether failing sinks take part in the next epoch because trying again may help."""
        errors = [failure.error for failure in self.health.sinks.values()]
        if not any(isinstance(e, Exception) and may_pass(e) for e in errors):
            return False
        self.health.sinks.retry_soon()
        return True

    def _rejoin_sinks(self) -> None:
        """Try sinks again that have failed, when it is time."""
        self.health.sinks.keep(t.key for t in self.plan.tasks)
        for key in self.health.sinks.due():
            table = self._tables().get(key)
            try:
                if table is not None and key in self.record.objects:
                    self._fence_table(key, table, self.record.objects[key])
            except FencedError:
                raise
            except Exception as error:
                self.health.sinks.fail(key, error)
            else:
                self.health.sinks.retry(key)

    def reach(self, entries: Mapping[str, int], report: Callable[[EpochReport], None]) -> None:
        """Run epochs until these entries of the log of statements are in. Other sources stay where they are, so that
        nobody waits for their backlog. Called in turn, and not while paused."""
        newest = self.lake.dml.newest(self.runtime.feeds)
        goal = {key: {"entry": number} for key, number in {**newest, **entries}.items()}

        def waits() -> bool:
            return any(self.record.sources[k]["entry"] < n for k, n in entries.items())

        while waits():
            try:
                done = self._step_patiently(goal)
            except FencedError:
                raise
            except Exception as error:
                names = ", ".join(sorted(key.partition("#")[0] for key in entries))
                raise LakeError(
                    f"rows that were accepted for {names} are not visible yet: {describe_error(error).message}",
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
        or for a source that does not answer; they are named. Waits for answers out of turn. Not called while paused."""
        until = time.monotonic() + FLUSH_PATIENCE
        try:
            while True:
                with turn:
                    sources = {k: f.source for k, f in self.runtime.feeds.items() if not f.held}
                    ends = self.health.sources.poll(sources, self.record.sources, FLUSH_TURN)
                    silent = sources.keys() - ends.keys() - self.health.sources.keys()
                    if not silent or time.monotonic() >= until:
                        return self._flush(sources, ends, report)
                    self._awaited = frozenset(silent)
                self.health.sources.await_answers(silent, until)
        finally:
            self._awaited = frozenset()

    def _flush(
        self,
        sources: Iterable[str],
        ends: Mapping[str, Offset],
        report: Callable[[EpochReport], None],
    ) -> None:
        self.lake.dml.bound()
        goal: dict[str, Offset] = {}
        for key in sources:
            feed, since = self.runtime.feeds[key], self.record.sources[key]
            if key not in ends:
                failure = self.health.sources.get(key)
                reason = failure.message if failure else "it has not answered in time"
                self.notice(f"FLUSH does not wait for {feed.object.name}: {reason}")
                continue
            goal[key] = feed.source.advance(since, ends[key], self._feed_limit(key, feed))
            if goal[key] != ends[key]:
                self.notice(f"{feed.object.name} has more than FLUSH waits for")
        self._ticked_at = None
        while True:
            done = self._step_patiently(goal, force=True)
            if done is None:
                return
            report(done)
            failed = self.health.sources
            if all(k in failed or self.record.sources[k] == end for k, end in goal.items()):
                return

    def _step_patiently(
        self, goal: Mapping[str, Offset], *, force: bool = False
    ) -> EpochReport | None:
        """One epoch for a statement that waits for it. What fails and may pass, or can be left out, is tried again."""
        attempt = 0
        while True:
            interrupts.check()
            try:
                with interrupts.shield():
                    self.settle()
                    return self.step(goal, force=force)
            except FencedError:
                raise
            except Exception as error:
                attempt += 1
                blamed = self._find_culprits()
                if attempt >= ONCE_ATTEMPTS or not (blamed or may_pass(error)):
                    raise
                self.notice(f"{describe_error(error).message}; trying again")
                time.sleep(0.1 * 2**attempt)

    def step(
        self, goal: Mapping[str, Offset] | None = None, *, force: bool = False
    ) -> EpochReport | None:
        """One epoch, if there is anything to do; None otherwise. `force` ignores commit intervals."""
        self.health.sources.keep(self.runtime.feeds)
        self._rejoin_sinks()
        cut = self._choose(goal, force)
        if cut is None:
            return None
        faults.reach("ranges-chosen")
        return self._run_epoch(cut)

    def _choose(self, goal: Mapping[str, Offset] | None, force: bool) -> Cut | None:
        if self.paused:
            return None
        if goal is None:
            self.lake.dml.bound()
        ends, limited = self._ends(goal)
        held = frozenset(k for k in self.runtime.feeds if k not in ends)
        failed_sinks = self.health.sinks.active()
        moved = {k for k, end in ends.items() if end != self.record.sources[k]}
        now = time.monotonic()
        ticks = self._ticks(once=goal is not None)
        news: set[str] = set()
        due: set[str] = set()
        for task in self.plan.tasks:
            if task.key in failed_sinks or any(held & set(r.foreign) for r in task.readers):
                continue
            behind = any(
                position(self.record, r, k) != self.record.sources[k]
                for r in task.readers
                for k in r.feeds
                if k not in held
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
        return Cut(self.record.epoch + 1, micros, ends, frozenset(due), self._limit(), held)

    def _ticks(self, *, once: bool) -> bool:
        """Whether views that depend on now() are to be looked at though nothing may have come."""
        if self._ticked_at is not None and once:
            return False
        since = time.monotonic() - (self._ticked_at or -1e9)
        return since >= max(self.settings.epoch_interval, TICK)

    def _has_begun(self, task: Task) -> bool:
        return bool(self.record.position(task.key, BEGUN)["begun"])

    def _ends(self, goal: Mapping[str, Offset] | None) -> tuple[dict[str, Offset], bool]:
        """How far the epoch may go in each feed. One that fails is left out; the others go on."""
        ends: dict[str, Offset] = {}
        limited = False
        feeds = self.runtime.feeds
        if goal is None:
            asked = {k: f.source for k, f in feeds.items() if not f.held and k not in self._awaited}
            goal = self.health.sources.poll(asked, self.record.sources)
        else:  # sources without a goal stay where they are
            failed = self.health.sources
            ends = {k: self.record.sources[k] for k in feeds if k not in goal and k not in failed}
            goal = {k: v for k, v in goal.items() if k not in failed}
        for key, feed in feeds.items():
            since = self.record.sources[key]
            if feed.held:
                ends[key] = since
            elif key in goal:
                ends[key] = feed.source.advance(since, goal[key], self._feed_limit(key, feed))
                self.lags[key] = feed.source.count(ends[key], goal[key]) or 0
                limited |= ends[key] != goal[key] and feed.rate_limit is None
        return ends, limited

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
        epoch = self._failed_epoch = Epoch(self.runtime, self.record, cut, stamped)
        self.is_interrupted = True
        self._ticked_at = began
        self.record = epoch.run()
        self.is_interrupted = False
        self._failed_epoch = None
        self.health.sources.recover(key for key, _ in epoch.reads.ranges)
        self.health.sinks.recover(key for key in self.health.sinks.retried() if key in cut.due)
        for key in cut.due:
            self._committed[key] = began
        for key, records in epoch.report.records.items():
            pace = self._pace.setdefault(key, Pace())
            pace.read_at = began
            if epoch.report.seconds > 0.5 and records > 10_000:
                pace.rate = records / epoch.report.seconds
        self._report_errors(epoch.report)
        self._acknowledge()
        return epoch.report

    def _report_errors(self, report: EpochReport) -> None:
        """An event for the first failed expression of an object, the tenth, the hundredth, …"""
        for key in report.errors:
            total = self.record.counters[f"{key}.errors"]
            if len(str(total)) > self._error_digits.get(key, 0):
                self._error_digits[key] = len(str(total))
                name = key.partition("#")[0]
                self.event("EXPRESSION_FAIL", object=name, errors=total, epoch=report.epoch)

    def _acknowledge(self) -> None:
        """Tell each source how far it is durable in everything that reads it."""
        for key, feed in self.runtime.feeds.items():
            readers = [r for r in self.plan.readers if key in r.feeds]
            end = self.record.sources[key]
            if key not in self.health.sources and all(
                position(self.record, r, key) == end for r in readers
            ):
                try:
                    feed.source.acknowledge(end)
                except Exception as error:
                    reason = describe_error(error).message
                    self.notice(f"{feed.object.name}: acknowledging failed: {reason}")

    def reset_source(self, key: str) -> None:
        """Let a source go on after records that are lost: in the record, and for every object that lags behind it."""
        self.settle()
        feed = self.runtime.feeds.get(key)
        if feed is None:
            name = key.partition("#")[0]
            raise SqlError(f"nothing reads {name}, so it has no position", object=name)
        objects: dict[str, ObjectAt] = {}
        for name, at in self.record.objects.items():
            own = dict(at.position or {})
            for place, offset in own.items():
                if place == key:
                    own[place] = self._reset_position(feed, offset)
                elif place.startswith(brought("")) and key in offset:
                    own[place] = {**offset, key: self._reset_position(feed, offset[key])}
            objects[name] = replace(at, position=own or None)
        sources = {
            **self.record.sources,
            key: self._reset_position(feed, self.record.sources[key]),
        }
        self._commit_record(sources=sources, objects=objects)
        self.health.sources.forget(key)
        self.event("SOURCE_RESET", source=feed.object.name)

    def _positions(self, key: str) -> list[Offset]:
        """Where the record and every object that lags behind it are in a source."""
        found = [self.record.sources[key]]
        for at in self.record.objects.values():
            for place, offset in (at.position or {}).items():
                if place == key:
                    found.append(offset)
                elif place.startswith(brought("")) and key in offset:
                    found.append(offset[key])
        return [offset for n, offset in enumerate(found) if offset not in found[:n]]

    def _reset_position(self, feed: OpenFeed, position: Offset) -> Offset:
        reset = partial(feed.source.reset, position)
        if self.answers is None or not feed.source.asks_only:
            return reset()
        after = self.answers.reset_of(position)
        return call_outside(reset, feed.object.name, IN_TURN_SECONDS) if after is None else after

    def sweep(self, keys: Collection[str]) -> None:
        """Drop tables of objects that are not there: what a process has left that died while it filled a view."""
        self.check_owner()
        known = {table.parts for table in self._tables().values()}
        for schema in ("public", SYSTEM):
            self.lake.create_namespace((LAKE, schema))
            for table in self.lake.tables(LAKE, schema):
                owner = None if table.parts in known else owner_of(table)
                if owner is not None and "#" in owner and owner not in keys:
                    self.lake.drop(table)

    def discard(self, objects: Sequence[Object]) -> None:
        """Drop the tables of objects that are gone. Targets of sinks stay: they are the user's. A process that was fenced
        drops nothing: its successor may have made tables of the same names for the same objects."""
        self.check_owner()
        for object in objects:
            if object.kind in (Table.kind, MaterializedView.kind):
                table = self.lake.table(LAKE, object.schema, object.name, owned=True)
                if self.lake.exists(table) and owner_of(table) == object.key:
                    self.lake.drop(table)
            if object.kind == Table.kind:
                self.lake.dml.forget(object.key, self.lake.dml.head)
            if object.kind in (Source.kind, Table.kind, Connector.kind):
                self.lake.drop(self.lake.table(LAKE, DEAD_LETTERS, object.name, owned=True))
        gone = {object.key for object in objects}
        for table in self.lake.tables(LAKE, SYSTEM):
            if owner_of(table) in gone:
                self.lake.drop(table)

    def close(self) -> None:
        """Close all connectors. Called after the loop has ended."""
        self.health.sources.close()
        for feed in self.runtime.feeds.values():
            feed.close()
        for target in self.runtime.targets.values():
            if not isinstance(target, LakeTable):
                target.close()


def _older_home(key: str, what: str) -> LakeError:
    return LakeError(
        f"{key} {what}",
        object=key,
        remedy="this home is older than its tables; use the newest copy of it",
    )


def _budget(rate: float | None, settings: EngineSettings) -> int:
    return max(50_000, int(rate * settings.epoch_target)) if rate else settings.first_epoch_records
