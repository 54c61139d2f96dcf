"""The façade: `Engine.execute(sql)` gives results; `Engine.run()` advances the pipeline.

Statements are bound before any JVM starts, so a wrong one costs nothing. The JVM starts when something
needs it; the home's lock is taken when something changes or runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

from icestream import faults
from icestream.catalog import variables
from icestream.catalog.alter import alter
from icestream.catalog.catalog import Catalog, Change
from icestream.catalog.objects import Connector, Index, Object
from icestream.catalog.replace import plain, redefined, replacement
from icestream.catalog.show import delivery, describe, explain, show
from icestream.catalog.store import Store
from icestream.catalog.subscriptions import promised
from icestream.config import EngineSettings, Home
from icestream.connectors.iceberg_options import needs_aws
from icestream.errors import FencedError, IcestreamError, NotSupportedError, SqlError
from icestream.jobs import Job, Jobs
from icestream.observe import status as observe
from icestream.observe.events import Events
from icestream.observe.report import EpochReport
from icestream.plan.explain_stages import notices
from icestream.result import Result
from icestream.runtime.lock import HomeLock
from icestream.runtime.turns import Turns
from icestream.sql import parse
from icestream.sql import statements as st
from icestream.sql.options import convert
from icestream.types import BIGINT, VARCHAR

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from icestream.plan.logical import Node
    from icestream.runtime.local import Hold, Local
    from icestream.runtime.pipeline import Pipeline

CREATE = (
    st.CreateSource, st.CreateTable, st.CreateView, st.CreateSink, st.CreateConnection,
    st.CreateConnector, st.CreateSecret, st.CreateIndex, st.CreateSubscription,
)  # fmt: skip

READ = (st.Select, st.Show, st.ShowCreate, st.Describe, st.Explain)
"""Statements that change nothing, and need not wait for their turn."""

Notice = Callable[[str], None]


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

    def __post_init__(self) -> None:
        self.store = Store(self.home)
        self.catalog = Catalog(self.store, self.env)
        self.catalog.load()
        self.lock: HomeLock | None = None
        self._spark: SparkSession | None = None
        self._pipeline: Pipeline | None = None
        self._warming: threading.Thread | None = None
        self.turns = Turns()
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
    ) -> list[Result]:
        """Run a script. Everything in it is parsed first; creations are applied together, all or none.

        `on_result` gets each result as soon as it holds: that of a creation once it is applied. `env` is where `${NAME}`
        is looked up, if not in the engine's own. `on_job` gets the job that is waited for, if there is one.
        """
        statements = parse(sql, file, self.env if env is None else env)
        if not self.live:
            return self._in_turn(statements, on_result)
        results: list[Result] = []
        for statement in statements:
            started: list[Job] = []
            results += self._in_turn([statement], on_result, started)
            for job in started:
                on_job(job)
                job.wait()
            if isinstance(statement, st.Wait):
                for job in list(self.jobs):
                    job.done.wait()
        return results

    def _in_turn(
        self,
        statements: Sequence[st.Statement],
        on_result: Callable[[Result], None],
        started: list[Job] | None = None,
    ) -> list[Result]:
        reads = all(isinstance(s, READ) for s in statements)
        with nullcontext() if reads else self.turns:
            return self._execute(statements, on_result, [] if started is None else started)

    def _execute(
        self,
        statements: Sequence[st.Statement],
        on_result: Callable[[Result], None],
        started: list[Job],
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
                    untold.append(self._other(statement))
                    tell()
            self._apply(pending)
            tell()
        except BaseException:
            self.catalog.forget([c.object.name for c in pending])
            if pending and self._pipeline is not None:
                with suppress(IcestreamError):
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
                variables.check(statement)
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
        return bool(convert(self.store.settings().get(name, "false"), "bool"))

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
        """Take up again what was under way in the background when the engine stopped; what else there was is gone."""
        with self.turns:
            self.pipeline.sweep({o.key for o in self.catalog})
            for id, text, _ in self.store.jobs():
                self.store.end_job(id)
                pending: list[Change] = []
                try:
                    for statement in parse(text, "", {}):
                        self._create(statement, pending, [], background=True)
                    self._apply(pending)
                except IcestreamError as error:
                    self.catalog.forget([c.object.name for c in pending])
                    self.notice(f"job {id} cannot be taken up again: {error.message}")

    def _attach(self) -> None:
        opened = self._pipeline is not None
        pipeline = self._running()
        if opened or self.catalog.stored.keys() != {o.name for o in self.store.objects()}:
            pipeline.attach(list(self.catalog), self.store.plan + 1)

    def _other(self, statement: st.Statement) -> Result:
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
                variable = variables.check(statement)
                self.store.set(variable.name, statement.value)
                return Result(message=f"SET ({variable.note})" if statement.value else "SET")
            case st.Insert() | st.Update() | st.Delete():
                return self._change(statement)
            case st.CancelJobs():
                found = self.jobs.cancel(statement.ids)
                return Result(None, ("Id",), [(job.id,) for job in found], (BIGINT,))
            case st.Flush() | st.Wait():
                self.run(threading.Event(), once=True)
                return Result(message=type(statement).__name__.upper())
        raise NotSupportedError(_words(type(statement).__name__), place=statement.place)

    def rows(self, node: Node) -> pa.Table:
        """All rows of a query at the newest complete epoch; Spark is asked only if it has to be."""
        from icestream.runtime.query import collected

        found = self.rows_at_hand(node)
        return collected(node, self.catalog, self.spark) if found is None else found

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

    def _change(self, statement: st.Insert | st.Update | st.Delete) -> Result:
        from icestream.runtime.dml import Changing

        pipeline = self._running()
        settle = partial(self.run, threading.Event(), once=True)
        if pipeline.paused and not isinstance(statement, st.Insert):
            raise SqlError(
                "the pipeline is paused, so rows that were written before cannot be found",
                place=statement.place,
                remedy="RESUME, then try again; INSERT goes on",
            )
        result = Changing(self.catalog, self.spark, self.home.root, settle).run(statement)
        settings = self.store.settings()
        if "true" in (settings.get("rw_implicit_flush"), settings.get("implicit_flush")):
            settle()
        return result

    def _alter(self, statement: st.Alter) -> Result:
        change = alter(statement, self.catalog)
        if change.notice is not None:
            self.notice(change.notice)
        if change.catalog is not None:
            self._check_jobs(statement)
            if statement.action in ("add column", "drop column"):
                self._take_in_changes(statement)
            self._become(change.catalog)
        return Result(message=f"ALTER {statement.kind.upper()}")

    def _take_in_changes(self, statement: st.Alter) -> None:
        """What statements have put into a table has the columns of then, so it goes in before they change."""
        if self._running().paused:
            raise SqlError(
                "the pipeline is paused, so rows that were written before cannot be taken in",
                place=statement.place,
                remedy="RESUME, then try again",
            )
        self.run(threading.Event(), once=True)

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

            if self.application is not None:
                self._spark = session.adopt(self.application, self.home)
            else:
                groups = self._jar_groups()
                self._spark = session.start(self.home, self.settings, groups, self.notice)
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

    def _running(self) -> Pipeline:
        """The pipeline, opened (and recovered) at first use with the objects that the store knows."""
        if self._pipeline is None:
            self.catalog.check_whole()
            from icestream.lake.catalogs import Lake
            from icestream.runtime.pipeline import Pipeline

            self._own()
            assert self.lock is not None
            lake = Lake(self.spark)
            pipeline = Pipeline(
                lake,
                self.store.pipeline,
                self.lock.incarnation,
                self.settings,
                self.home.indexes,
                self.notice,
                self.events.add,
            )
            pipeline.housekeeper.promised = lambda: promised(self.catalog)
            known = {s.name for s in self.store.objects()}
            pipeline.open([o for o in self.catalog if o.name in known], self.store.plan)
            pipeline.paused = self.store.paused
            self.lock.incarnation = pipeline.incarnation
            self.store.take(pipeline.incarnation)
            self._pipeline = pipeline
        return self._pipeline

    def open(self) -> None:
        """Start what `run` needs: the lock, the session, the pipeline (recovering it)."""
        self._running()

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
        """Advance the pipeline until `stop` is set, or until everything that is there now is in."""
        pipeline = self._running()
        if once and pipeline.paused:
            self.notice("the pipeline is paused: nothing is taken in before RESUME")
            return

        def after(epoch: EpochReport) -> None:
            self._write_status("running", epoch)
            with self.advanced:
                self.advanced.notify_all()
            report(epoch)

        self._write_status("running")
        self._runs += 1
        try:
            pipeline.run(stop, once=once, report=after, turn=self.turns)
        except FencedError:
            raise  # the status is the successor's now
        except BaseException as error:
            self._write_status(
                "failed", message=str(error).splitlines()[0] if str(error) else type(error).__name__
            )
            raise
        finally:
            self._runs -= 1
        if not self._runs:
            self._write_status("stopped")

    def _write_status(
        self, state: str, epoch: EpochReport | None = None, message: str | None = None
    ) -> None:
        from icestream.runtime.snapshot import status_of

        assert self._pipeline is not None
        if state == "running" and self._pipeline.paused:
            state = "paused"
        with self._telling:
            observe.write(self.home, status_of(self._pipeline, state, epoch, message))

    def close(self) -> None:
        """Stop what was started: connectors, the session, the lock."""
        if self._pipeline is not None:
            self._pipeline.close()
        if self._warming is not None:
            self._warming.join()
        if self._spark is not None and self.application is None:
            self._spark.stop()
        if self.lock is not None:
            self.lock.release()
        if "local" in self.__dict__:
            self.local.close()
        self.store.close()


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
