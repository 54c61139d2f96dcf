"""The façade: `Engine.execute(sql)` gives results; `Engine.run()` advances the pipeline.

Statements are bound before any JVM starts, so a wrong one costs nothing. The JVM starts when something
needs it; the home's lock is taken when something changes or runs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from icestream import faults, interrupts
from icestream.catalog import setting_registry
from icestream.catalog.alter import alter
from icestream.catalog.catalog import Catalog, Change
from icestream.catalog.lineage import statement_tables
from icestream.catalog.objects import Connector, Index, Object, Sink
from icestream.catalog.replace import plain, redefined, replacement
from icestream.catalog.show import delivery, describe, explain, show
from icestream.catalog.store import Store
from icestream.catalog.subscriptions import promised
from icestream.config import EngineSettings, Home
from icestream.connectors.iceberg_options import needs_aws
from icestream.errors import (
    ConfigError,
    ConnectorError,
    FencedError,
    IcestreamError,
    NotSupportedError,
    SqlError,
)
from icestream.file_access import FileAccess
from icestream.jobs import Job, Jobs
from icestream.observe import status as observe
from icestream.observe.events import Events
from icestream.observe.report import EpochReport
from icestream.plan.explain_stages import notices
from icestream.result import Result
from icestream.runtime.lock import HomeLock, running
from icestream.runtime.turns import Turns
from icestream.runtime.writes import Writes
from icestream.secrecy import mask_secrets
from icestream.sql import parse
from icestream.sql import statements as st
from icestream.types import BIGINT, VARCHAR

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from icestream.plan.logical import Node
    from icestream.runtime.jvm_watchdog import JvmWatchdog
    from icestream.runtime.local import Hold, Local
    from icestream.runtime.outside_answers import Answers
    from icestream.runtime.pipeline import Pipeline
    from icestream.runtime.transaction import Transaction

CREATE = (
    st.CreateSource, st.CreateTable, st.CreateView, st.CreateSink, st.CreateConnection,
    st.CreateConnector, st.CreateSecret, st.CreateIndex, st.CreateSubscription,
)  # fmt: skip

READ = (st.Select, st.Show, st.ShowCreate, st.Describe, st.Explain)
"""Statements that change nothing, and need not wait for their turn."""
WRITE = (st.Insert, st.Update, st.Delete)
"""Statements that only write to the log of statements, and need no turn."""
SERIALIZATION_FAILURE = "40001"

POLL = 0.05
"""Seconds between looks at the log of a home that another process runs."""

WAITS = (st.Flush, st.Wait)
"""Statements that wait for epochs: they take a turn for each, and none while they wait."""

Notice = Callable[[str], None]

_LOG = logging.getLogger(__name__)


@dataclass
class Engine:
    """One home. Close it when done; it is a context manager."""

    home: Home
    settings: EngineSettings = field(default_factory=EngineSettings)
    notice: Notice = lambda text: None
    env: Mapping[str, str] | None = None
    take_over: bool = False
    application: SparkSession | None = None
    """A Spark application to run on, instead of starting one."""
    allow_paths: Sequence[str | Path] = ()
    """Directories whose files statements may name. Those of the home are never among them."""

    def __post_init__(self) -> None:
        tell = self.notice
        self.notice = lambda text: _try_telling(lambda: tell(mask_secrets(text)))
        self.store = Store(self.home)
        self.access = FileAccess.of(self.home.root, self.allow_paths)
        self.catalog = Catalog(self.store, self.env, self.access)
        self._plan = self.store.plan
        """The version of the objects that were loaded."""
        self.catalog.load()
        self.lock: HomeLock | None = None
        self._spark: SparkSession | None = None
        self._pipeline: Pipeline | None = None
        self._warming: threading.Thread | None = None
        self._watchdog: JvmWatchdog | None = None
        self.turns = Turns()
        self.writes = Writes(self)
        self.jobs = Jobs(self)
        self.live = False
        """Whether statements come to a running pipeline: views are filled beside it then."""
        self.advanced = threading.Condition()
        """Told after every epoch."""
        self._runs = 0
        self._telling = threading.Lock()
        self.events = Events()
        self._owned = False

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- statements ------------------------------------------------------------------------------

    def execute(
        self,
        sql: str,
        file: str = "<sql>",
        on_result: Callable[[Result], None] = lambda r: None,
        env: Mapping[str, str] | None = None,
        on_job: Callable[[Job], None] = lambda job: None,
        transaction: Transaction | None = None,
    ) -> list[Result]:
        """Run a script. Everything in it is parsed first; creations are applied together, all or none.

        `on_result` gets each result as soon as it holds: that of a creation once it is applied. `env` is where `${NAME}`
        is looked up, if not in the engine's own. `on_job` gets the job that is waited for, if there is one. With a
        `transaction`, what INSERT, UPDATE and DELETE do is kept there until `commit`.
        """
        statements = parse(sql, file, self.env if env is None else env)
        return self.execute_parsed(statements, on_result, on_job, transaction)

    def execute_parsed(
        self,
        statements: Sequence[st.Statement],
        on_result: Callable[[Result], None] = lambda r: None,
        on_job: Callable[[Job], None] = lambda job: None,
        transaction: Transaction | None = None,
    ) -> list[Result]:
        """Run statements that are parsed. See `execute`."""
        if not self.live:
            return self._in_turn(statements, on_result)
        results: list[Result] = []
        for statement in statements:
            started: list[Job] = []
            results += self._in_turn([statement], on_result, started, transaction)
            for job in started:
                on_job(job)
                job.wait()
            if isinstance(statement, st.Wait):
                for job in list(self.jobs):
                    interrupts.wait_for(job.done, "IPC", "Backfill")
        return results

    def _in_turn(
        self,
        statements: Sequence[st.Statement],
        on_result: Callable[[Result], None],
        started: list[Job] | None = None,
        transaction: Transaction | None = None,
    ) -> list[Result]:
        with self._planned(statements) as answers, ExitStack() as locks:
            concurrent = (*READ, *WAITS, *WRITE) if self.live else (*READ, *WAITS)
            if not all(isinstance(s, concurrent) for s in statements):
                # In this order: a statement that waits for its turn must not keep others from writing.
                locks.enter_context(self.turns)
                locks.enter_context(self.writes.lock)
                if answers is not None and self._pipeline is not None:
                    locks.enter_context(self._pipeline.using(answers))
            return self._execute(
                statements, on_result, [] if started is None else started, transaction
            )

    @contextmanager
    def _planned(self, statements: Sequence[st.Statement]) -> Iterator[Answers | None]:
        """Plan a creation before its turn, and ask outside what it needs: epochs and other statements go on meanwhile."""
        pipeline = self._pipeline
        if len(statements) != 1 or not self.live:
            yield None
        elif isinstance(alteration := statements[0], st.Alter):
            reset = alter(alteration, self.catalog).reset if alteration.action == "reset" else None
            yield None if reset is None or pipeline is None else pipeline.ask_reset(reset)
        elif not isinstance(statements[0], CREATE) or getattr(statements[0], "or_replace", False):
            yield None
        else:
            with self.catalog.examine_ahead(statements[0]) as change:
                if change.exists or not _runs(change.object) or pipeline is None:
                    yield None
                else:
                    yield pipeline.ask_new([*self.catalog, change.object])

    def _execute(
        self,
        statements: Sequence[st.Statement],
        on_result: Callable[[Result], None],
        started: list[Job],
        transaction: Transaction | None = None,
    ) -> list[Result]:
        results: list[Result] = []
        pending: list[Change] = []
        untold: list[Result] = []

        def tell() -> None:
            while untold:
                results.append(untold.pop(0))
                on_result(results[-1])

        try:
            for statement in statements:
                if isinstance(statement, CREATE):
                    untold.append(self._create(statement, pending, started))
                else:
                    self._apply(pending)
                    tell()
                    untold.append(self._other(statement, transaction))
                    tell()
            self._apply(pending)
            tell()
        except BaseException:
            self.catalog.forget([c.object.name for c in pending])
            if pending and self._pipeline is not None:
                with interrupts.shield(), suppress(IcestreamError):
                    self._pipeline.attach(list(self.catalog), self.store.plan)
            raise
        return results

    def plan(self, sql: str, file: str = "<sql>") -> list[Change]:
        """What a script's CREATE statements would change; changes nothing."""
        changes: list[Change] = []
        for statement in parse(sql, file, self.env):
            if isinstance(statement, CREATE):
                change = self.catalog.examine(statement)
                if not change.exists:
                    self.catalog.learn(change)
                changes.append(change)
            elif isinstance(statement, st.SetVariable):
                setting_registry.read_home_setting(statement)
        return changes

    def _create(
        self,
        statement: st.Statement,
        pending: list[Change],
        started: list[Job],
        background: bool | None = None,
    ) -> Result:
        said = statement
        if isinstance(statement, st.CreateView) and statement.or_replace:
            statement = plain(statement, self.catalog)
        change = self.catalog.examine(statement)
        kind, name = change.object.kind, change.object.name
        if not change.exists:
            self._make(change, pending, started, background)
            return self._made(change)
        if change.difference:
            if said is not statement:
                self._apply(pending)
                return self._replace(said, change, started, background)
            if getattr(statement, "if_not_exists", False):
                return Result(message=f"{kind} {name} exists and differs; left as it is")
            raise SqlError(
                f"{kind} {name} exists and differs:\n    " + "\n    ".join(change.difference),
                place=statement.place,
                remedy=f"DROP {kind.upper()} {name} first (CASCADE drops what stands on it), or restore the old text",
            )
        if self.catalog.renew_secrets(change):
            return Result(message=f"{kind} {name}: secrets updated")
        return Result(message=f"{kind} {name} is unchanged")

    def _make(
        self, change: Change, pending: list[Change], started: list[Job], background: bool | None
    ) -> None:
        """Begin with a new object: as a job, if the pipeline runs and there is history to fill it with."""
        new = change.object
        if isinstance(new, Sink) and new.into is not None:
            # An UPDATE from before the sink has whole rows, which must not undo what the sink brings.
            self.writes.see([new.into.key], paused=lambda: None)
        if change.replaces is None and not (self.live and self.jobs.has_history(change.object)):
            self.catalog.learn(change)
            pending.append(change)
            return
        if background is None:
            background = self._is_on("background_ddl")
        job = self.jobs.submit(change, background=background)
        if not background:
            started.append(job)

    def _is_on(self, name: str) -> bool:
        """Whether a setting is true."""
        return setting_registry.is_true(name, self.store.settings())

    def _made(self, change: Change) -> Result:
        kind, name = change.object.kind, change.object.name
        note = delivery(change.object)
        for text in notices(getattr(change.object, "stages", ()), f"{kind} {name}"):
            self.notice(text)
        return Result(message=f"CREATE {kind.upper()} {name}{f' ({note})' if note else ''}")

    def _replace(
        self, said: st.Statement, change: Change, started: list[Job], background: bool | None
    ) -> Result:
        """CREATE OR REPLACE of a view that is there and differs."""
        assert isinstance(said, st.CreateView)
        old = self.catalog.objects[change.object.name]
        if old.kind != change.object.kind:
            raise SqlError(
                f'"{old.name}" is a {old.kind}, not a {change.object.kind}', place=said.place
            )
        result = self._made(change)
        if not said.materialized:
            for job in self.jobs:
                raise _busy(job, said)
            self._become(redefined(change, self.catalog))
        elif self.live:
            self._make(replacement(said, change, self.catalog), [], started, background)
        else:
            self._running()
            self.jobs.do(replacement(said, change, self.catalog))
        return result

    def _apply(self, pending: list[Change]) -> None:
        """Make learnt objects real: tables, start positions, the log; then the store."""
        if not pending:
            return
        self._own()
        names = [c.object.name for c in pending]
        if any(_runs(c.object) for c in pending):
            self._attach()
        assert self.lock is not None
        self.catalog.keep(names, self.lock.incarnation)
        pending.clear()

    def resume_jobs(self) -> None:
        """Take up again what was under way in the background when the engine stopped; what else there was is gone.

        Each gets a new id: a predecessor that was paused may still hold tables of the old one.
        """
        with self.turns:
            self.pipeline.sweep({o.key for o in self.catalog})
            self.catalog.next_id = max(self.catalog.next_id, self.store.next_id())
            for id, text, _ in self.store.jobs():
                pending: list[Change] = []
                try:
                    for statement in parse(text, "", {}):
                        self._create(statement, pending, [], background=True)
                    self._apply(pending)
                except FencedError:
                    raise
                except IcestreamError as error:
                    self.catalog.forget([c.object.name for c in pending])
                    self.notice(f"job {id} cannot be taken up again: {error.message}")
                    if isinstance(error, ConnectorError):
                        continue  # the next start may
                self.store.end_job(id)  # it has another id now

    def _attach(self) -> None:
        opened = self._pipeline is not None
        pipeline = self._running()
        if opened or self.catalog.stored.keys() != {o.name for o in self.store.objects()}:
            pipeline.attach(list(self.catalog), self.store.plan + 1)

    def _other(self, statement: st.Statement, transaction: Transaction | None = None) -> Result:
        match statement:
            case st.Drop():
                return self._drop(statement)
            case st.Alter():
                return self._alter(statement)
            case st.Pause() | st.Resume():
                return self._pause(isinstance(statement, st.Pause))
            case st.Select():
                from icestream.runtime.query import select

                return select(statement.query, self.catalog, self.rows)
            case st.Show(what="jobs"):
                told = [(job.id, job.statement, job.progress) for job in self.jobs]
                return Result(
                    None, ("Id", "Statement", "Progress"), told, (BIGINT, VARCHAR, VARCHAR)
                )
            case st.Show() | st.ShowCreate():
                for error in dict.fromkeys(o.error for o in self.catalog.broken()):
                    self.notice(error.message)
                return show(statement, self.catalog)
            case st.Describe():
                return describe(statement, self.catalog)
            case st.Explain():
                return explain(statement, self.catalog)
            case st.SetVariable():
                spec, value = setting_registry.read_home_setting(statement)
                self.store.set(spec.key, value)
                words = "ALTER SYSTEM" if statement.system else "SET"
                return Result(message=f"{words} ({spec.note})" if statement.value else words)
            case st.Insert() | st.Update() | st.Delete():
                return self._change(statement, transaction)
            case st.CancelJobs():
                found = self.jobs.cancel(statement.ids)
                return Result(None, ("Id",), [(job.id,) for job in found], (BIGINT,))
            case st.Flush() if self.live:
                self.flush()
                return Result(message="FLUSH")
            case st.Flush() | st.Wait():
                self._settle()
                return Result(message=type(statement).__name__.upper())
        raise NotSupportedError(_words(type(statement).__name__), place=statement.place)

    def rows(self, node: Node) -> pa.Table:
        """All rows of a query at an epoch that holds all writes acknowledged before; Spark is asked only if it has to be."""
        from icestream.runtime.query import collected

        self.see_writes(node)
        found = self.rows_at_hand(node)
        return collected(node, self.catalog, self.spark) if found is None else found

    def see_writes(self, node: Node) -> None:
        """Return when a query sees all writes that were acknowledged before. While the pipeline is paused it does not,
        and says so."""
        from icestream.plan.linear import relations_read

        keys = relations_read(node)
        if self._pipeline is None and keys:
            self._open_for_writes(keys)
        told = "the pipeline is paused: rows that were written since are not visible before RESUME"
        self.writes.see(keys, paused=lambda: self.notice(told))

    def _open_for_writes(self, keys: Sequence[str]) -> None:
        """A process that only reads: take in what another one has written and not taken in before it ended."""
        from icestream.lake.dml_log import DmlLog

        tables = statement_tables(self.catalog, keys)
        written = DmlLog(self.home.dml).newest(tables) if tables else {}
        while written:
            record = self.local.record()
            sources = record.sources if record is not None else {}
            if all(sources.get(k, {}).get("entry", 0) >= n for k, n in written.items()):
                return
            if running(self.home) is None:
                self._running()
                return
            if self.store.paused:
                self.notice("the pipeline is paused: rows that were written since are not visible")
                return
            time.sleep(POLL)  # the process that runs the home takes it in

    def rows_at_hand(self, node: Node, hold: Hold = lambda cursor: None) -> pa.Table | None:
        """The same if Spark is not needed; else None. See `Local.rows`."""
        if self.store.settings().get("query_mode", "").lower() == "distributed":
            return None
        return self.local.rows(node, hold)

    @cached_property
    def local(self) -> Local:
        """What answers queries without Spark."""
        from icestream.runtime.local import Local

        return Local(self.home, self.settings)

    def _change(
        self, statement: st.Insert | st.Update | st.Delete, transaction: Transaction | None
    ) -> Result:
        from icestream.runtime.dml import Changing
        from icestream.runtime.transaction import Transaction

        log = self._running().lake.dml

        def run(into: Transaction) -> Result:
            return Changing(self.catalog, self.spark, log, into, self.writes.see).run(statement)

        if transaction is not None:
            return run(transaction)
        own = Transaction()
        result = run(own)
        if isinstance(statement, st.Insert):
            own.read.clear()  # it is as if it had been run when it began
        try:
            self.commit(own)
        except SqlError as error:
            if error.code != SERIALIZATION_FAILURE:
                raise
            # Other sessions wrote meanwhile; now they wait. The turn comes first because `run` may need it.
            with self.turns, self.writes.lock:
                own = Transaction()
                result = run(own)
                self.commit(own)
        return result

    def commit(self, transaction: Transaction) -> None:
        """Write what a transaction has changed, as one entry of the log: all of it is visible in one epoch, or none."""
        if not transaction.changes:
            return
        pipeline = self._running()
        with self.writes.lock:
            transaction.write(self.catalog, pipeline.lake.dml)
        if self.flushes and not self.live:
            self.show_writes()

    @property
    def flushes(self) -> bool:
        """Whether each change waits until it is visible. Sessions of a server see to that themselves."""
        return self._is_on("rw_implicit_flush") or self._is_on("implicit_flush")

    def show_writes(self) -> None:
        """Make all writes visible that were acknowledged. They are durable, so a failure is only told, also that a successor
        has taken over: the loop of the pipeline ends this process then, and the successor takes them in."""
        try:
            self.writes.see([o.key for o in self.catalog])
        except Exception as error:
            cause = error.__cause__ or error
            text = cause.message if isinstance(cause, IcestreamError) else str(cause)
            self.notice(f"the rows are written, but not visible yet: {text.partition(chr(10))[0]}")

    def _alter(self, statement: st.Alter) -> Result:
        change = alter(statement, self.catalog)
        if change.notice is not None:
            self.notice(change.notice)
        if change.reset is not None:
            self._running().reset_source(change.reset)
        if change.catalog is not None:
            self._check_jobs(statement)
            if statement.action in ("add column", "drop column"):
                self._take_in_changes(statement)
            self._become(change.catalog)
        return Result(message=f"ALTER {statement.kind.upper()}")

    def _take_in_changes(self, statement: st.Alter) -> None:
        """What statements have put into a table has the columns of then, so it goes in before they change."""
        self._running()
        self.writes.see(o.key for o in self.catalog if o.name == statement.name.name)

    def _check_jobs(self, statement: st.Alter) -> None:
        """Refuse to change what a job reads: it was bound to what there was. Views are written out in what reads them,
        so any job may."""
        names = {statement.name.name, str(statement.new_name).rpartition(".")[2]}
        keys = {o.key for o in self.catalog if o.name in names}
        for job in self.jobs if statement.kind == "view" else self.jobs.over(keys):
            raise _busy(job, statement)

    def _become(self, after: Catalog) -> None:
        """Take another catalog of the same objects: the store first, then the running pipeline, whose tables follow.
        If they cannot, everything is as it was."""
        self._own()
        assert self.lock is not None
        before = self.catalog.trial(self.catalog.stored.values(), {})
        pipeline = self._running() if any(_runs(o) for o in self.catalog) else None
        if pipeline is not None:
            pipeline.settle()
            stored = {o.name for o in after if o.kind in ("table", "materialized view")}
            pipeline.check_free(stored - self.catalog.objects.keys())
        self.catalog.become(after, self.lock.incarnation)
        faults.reach("alter-stored")
        if pipeline is None:
            return
        try:
            pipeline.attach(list(self.catalog), self.store.plan)
        except FencedError:
            raise
        except BaseException:
            self.catalog.become(before, self.lock.incarnation)
            pipeline.attach(list(self.catalog), self.store.plan)
            raise

    def _pause(self, paused: bool) -> Result:
        self._own()
        self.store.pause(paused)
        if self._pipeline is not None:
            self._pipeline.paused = paused
            self._write_status("running" if self._runs else "stopped")
        return Result(message="PAUSE" if paused else "RESUME")

    def _drop(self, statement: st.Drop) -> Result:
        doomed: dict[str, Object] = {}
        for name in statement.names:
            found = self.catalog.objects.get(name.name)
            if found is None and statement.if_exists:
                continue
            found = self.catalog.names().find(name, broken=True)
            if found.kind != statement.kind:
                raise SqlError(
                    f'"{name}" is a {found.kind}, not a {statement.kind}',
                    place=name.place,
                    remedy=f"DROP {found.kind.upper()} {name}",
                )
            dependents = [o for o in self.catalog.dependents(found) if o.kind != Index.kind]
            if dependents and not statement.cascade:
                listed = ", ".join(f"{o.kind} {o.name}" for o in dependents)
                raise SqlError(
                    f"{found.kind} {name} is needed by {listed}",
                    place=name.place,
                    remedy="drop those first, or use CASCADE",
                )
            doomed |= {o.name: o for o in [found, *self.catalog.dependents(found)]}
        self._cancel_over(doomed.values(), statement)
        if doomed:
            self._discard(doomed)
            self.events.add("DROP_STREAM_JOB", kind=statement.kind, names=list(doomed))
        return Result(message=f"DROP {statement.kind.upper()}")

    def _cancel_over(self, doomed: Iterable[Object], statement: st.Drop) -> None:
        """Jobs that read what is dropped end, or stand in the way."""
        for job in self.jobs.over({o.key for o in doomed}):
            making = job.change.object
            if not statement.cascade:
                raise SqlError(
                    f"{making.kind} {making.name}, which is being made, needs it",
                    place=statement.place,
                    remedy=f"CANCEL JOBS {job.id}, or use CASCADE",
                )
            job.cancel()

    def _discard(self, doomed: Mapping[str, Object]) -> None:
        """Forget objects, then open the pipeline without them (they may be what keeps it from opening) and drop their
        tables. Where broken ones keep it from opening, tables stay until their name is used again."""
        self._own()
        assert self.lock is not None
        runs = any(_runs(o) for o in doomed.values())
        opened = self._pipeline
        self.catalog.drop(list(doomed), self.lock.incarnation)
        if not runs or self.catalog.broken():
            return
        if opened is not None:
            opened.attach(list(self.catalog), self.store.plan)
        self._running().discard(list(doomed.values()))

    # -- running ---------------------------------------------------------------------------------

    @property
    def spark(self) -> SparkSession:
        """The Spark session, started at first use."""
        if self._spark is None:
            from icestream.runtime import session
            from icestream.runtime.jvm_watchdog import JvmWatchdog

            if self.application is not None:
                self._spark = session.adopt(self.application, self.home, self.access)
            else:
                groups = self._jar_groups()
                self._spark = session.start(
                    self.home, self.settings, groups, self.notice, access=self.access
                )
                self._watchdog = JvmWatchdog(self._spark)
                if self.lock is not None:
                    self._warming = session.warm(self._spark)
        return self._spark

    def _jar_groups(self) -> list[str]:
        """Jars beyond the engine's own that some object needs."""
        settings = [getattr(o, "settings", None) for o in self.catalog]
        settings += [getattr(getattr(o, "ingest", None), "settings", None) for o in self.catalog]
        needed = any(s is not None and "catalog.type" in s and needs_aws(s) for s in settings)
        needed |= any(isinstance(o, Connector) and o.config.needs_aws for o in self.catalog)
        return ["aws"] if needed else []

    def _own(self) -> None:
        if self.lock is None:
            self.lock = HomeLock(self.home, self.take_over, int(self.store.meta("incarnation")))
            self.store.make()
            self.store.take(self.lock.incarnation)
            if self.store.plan != self._plan:
                self.lock.release(in_order=not self.lock.after_crash)
                self.lock = None
                raise ConfigError(
                    f"another process has changed the objects of {self.home.root} while this one started",
                    remedy="start it again",
                )

    def _running(self) -> Pipeline:
        """The pipeline, opened (and recovered) at first use with the objects that the store knows."""
        if self._pipeline is None:
            self.catalog.check_whole()
            self.catalog.check_access()
            from icestream.lake.catalogs import Lake, check_embedded
            from icestream.runtime.pipeline import Pipeline

            self._own()
            assert self.lock is not None
            check_embedded(self.home)
            lake = Lake(self.spark)
            pipeline = Pipeline(
                lake,
                self.store.pipeline,
                self.lock.incarnation,
                self.settings,
                self.home.indexes,
                self.notice,
                self.events.add,
                after_crash=self.lock.after_crash,
            )
            pipeline.housekeeper.promised = lambda: promised(self.catalog)
            pipeline.housekeeper.pins = self.catalog.pins
            known = {s.name for s in self.store.objects()}
            try:
                pipeline.open([o for o in self.catalog if o.name in known], self.store.plan)
            except BaseException:
                with suppress(Exception):  # it may be opened again
                    pipeline.close()
                raise
            pipeline.paused = self.store.paused
            self.lock.incarnation = pipeline.incarnation
            self.store.take(pipeline.incarnation)
            self._pipeline = pipeline
        return self._pipeline

    def open(self) -> None:
        """Start what `run` needs: the lock, the session, the pipeline (recovering it)."""
        try:
            self._running()
        except Exception:
            if self._spark is not None:
                from icestream.lake.jvm import check_jvm

                check_jvm(self._spark)
            raise

    @property
    def pipeline(self) -> Pipeline:
        """The open pipeline."""
        return self._running()

    @property
    def incarnation(self) -> int:
        """The number of this start of the home."""
        self._own()
        assert self.lock is not None
        return self.lock.incarnation

    @property
    def opened(self) -> Pipeline | None:
        """The pipeline, if it is open."""
        return self._pipeline

    def status(self) -> observe.Status:
        """The home's status as it was last written."""
        return observe.read(self.home)

    def run(
        self,
        stop: threading.Event,
        *,
        once: bool = False,
        report: Callable[[EpochReport], None] = lambda r: None,
    ) -> None:
        """Advance the pipeline until `stop` is set, or until everything that is there now is in.

        A server goes on whatever fails, but for a successor that took over, so that queries are answered.
        """
        pipeline = self._running()
        if once and pipeline.paused:
            self.notice("the pipeline is paused: nothing is taken in before RESUME")
            return

        def after(epoch: EpochReport) -> None:
            self.after_epoch(epoch)
            _try_telling(lambda: report(epoch))

        self._write_status("running")
        self._runs += 1
        try:
            pipeline.run(
                stop,
                once=once,
                strict=not self.live,
                keep_going=self.live,
                report=after,
                changed=lambda: self._write_status("running"),
                turn=self.turns,
            )
        except (FencedError, interrupts.Interrupted):
            raise  # the status is the successor's now, or that of the pipeline that goes on
        except BaseException as error:
            from icestream.runtime.failures import describe_error

            self._write_status("failed", message=describe_error(error).message)
            raise
        finally:
            self._runs -= 1
        if not self._runs:
            self._write_status("stopped")

    def _settle(self) -> None:
        """Run epochs until everything that is there now is in, or the statement is cancelled."""
        interrupt = interrupts.current()
        stop = threading.Event()
        with interrupt.waiting("IPC", "Flush"), interrupt.on_cancel(stop.set):
            self.run(stop, once=True)
        interrupt.check()

    def after_epoch(self, report: EpochReport) -> None:
        """Tell of an epoch: in the status, and to whoever waits for one."""
        self._write_status("running", report)
        with self.advanced:
            self.advanced.notify_all()

    def flush(self) -> None:
        """Take in all statements, and what sources have now, up to an epoch's worth."""
        pipeline = self._running()
        if pipeline.paused:
            self.notice("the pipeline is paused: nothing is taken in before RESUME")
            return
        with interrupts.current().waiting("IPC", "Flush"), self.turns:
            pipeline.flush(self.after_epoch)

    def _write_status(
        self, state: str, epoch: EpochReport | None = None, message: str | None = None
    ) -> None:
        from icestream.runtime.snapshot import status_of

        assert self._pipeline is not None
        if state == "running" and self._pipeline.paused:
            state = "paused"
        try:
            with self._telling:
                observe.write(self.home, status_of(self._pipeline, state, epoch, message))
        except Exception as error:  # a full disk, above all: it must not stop the pipeline
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            self.notice(f"the status cannot be written: {reason}")

    def close(self) -> None:
        """Stop what was started: connectors, the session, the lock."""
        # Without a JVM, connectors and the session have nothing left to stop, and say so with exceptions.
        lost = False
        if self._spark is not None:
            from icestream.lake.jvm import is_jvm_lost

            lost = is_jvm_lost(self._spark)
        with suppress(Exception) if lost else nullcontext():
            if self._pipeline is not None:
                self._pipeline.close()
            if self._warming is not None:
                self._warming.join()
            if self._watchdog is not None:
                self._watchdog.stop()
            if self._spark is not None and self.application is None:
                self._spark.stop()
        if self.lock is not None:
            pipeline = self._pipeline
            settled = not self.lock.after_crash if pipeline is None else not pipeline.is_interrupted
            self.lock.release(in_order=settled and not lost)
        if "local" in self.__dict__:
            self.local.close()
        self.store.close()


def _try_telling(tell: Callable[[], None]) -> None:
    """Tell somebody something. The disk that it is printed to may be full: that stops nothing. That nobody reads it any more
    is for the caller."""
    try:
        tell()
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        _LOG.warning("a message could not be printed: %s", error)


def _busy(job: Job, statement: st.Alter | st.CreateView) -> SqlError:
    return SqlError(
        f"job {job.id} reads {statement.name}, or may: {job.statement.splitlines()[0]}",
        place=statement.place,
        remedy=f"wait for it (SHOW JOBS), or CANCEL JOBS {job.id}",
    )


def _runs(object: Object) -> bool:
    """Whether an object takes part in epochs."""
    return object.kind in ("table", "materialized view", "sink", "connector")


def _words(name: str) -> str:
    """CreateSubscription → CREATE SUBSCRIPTION"""
    return "".join(f" {c}" if c.isupper() else c for c in name).strip().upper()
