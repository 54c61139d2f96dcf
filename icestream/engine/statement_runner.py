"""Runs scripts: statements in their turn, each by the handler of its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from icestream import interrupts
from icestream.catalog import setting_registry
from icestream.catalog.alter import alter
from icestream.catalog.catalog import Change
from icestream.catalog.show import describe, explain, show
from icestream.engine.alterations import Alterations
from icestream.engine.definitions import Definitions
from icestream.engine.epoch_service import EpochService
from icestream.engine.home_queries import HomeQueries
from icestream.engine.home_resources import HomeResources
from icestream.engine.home_writes import HomeWrites
from icestream.errors import NotSupportedError
from icestream.jobs import Job, Jobs
from icestream.result import Result
from icestream.runtime.writes import Writes
from icestream.sql import statements as st
from icestream.types import BIGINT, VARCHAR

if TYPE_CHECKING:
    from icestream.runtime.outside_answers import Answers
    from icestream.runtime.transaction import Transaction

CREATE = (
    st.CreateSource, st.CreateTable, st.CreateView, st.CreateSink, st.CreateConnection,
    st.CreateConnector, st.CreateSecret, st.CreateIndex, st.CreateSubscription,
)  # fmt: skip

READ = (st.Select, st.Show, st.ShowCreate, st.Describe, st.Explain)
"""Statements that change nothing, and need not wait for their turn."""
WRITE = (st.Insert, st.Update, st.Delete)
"""Statements that only write to the log of statements, and need no turn."""
WAITS = (st.Flush, st.Wait)
"""Statements that wait for epochs: they take a turn for each, and none while they wait."""

OnResult = Callable[[Result], None]


class StatementRunner:
    """The statements of a home."""

    def __init__(
        self,
        resources: HomeResources,
        jobs: Jobs,
        lock: Writes,
        definitions: Definitions,
        alterations: Alterations,
        queries: HomeQueries,
        writes: HomeWrites,
        epochs: EpochService,
    ) -> None:
        self._resources = resources
        self._jobs = jobs
        self._lock = lock
        self._definitions = definitions
        self._alterations = alterations
        self._queries = queries
        self._writes = writes
        self._epochs = epochs

    def run(
        self,
        statements: Sequence[st.Statement],
        on_result: OnResult,
        on_job: Callable[[Job], None],
        transaction: Transaction | None,
    ) -> list[Result]:
        """Run statements. See `Engine.execute`."""
        if not self._resources.live:
            return self.run_in_turn(statements, on_result)
        results: list[Result] = []
        for statement in statements:
            started: list[Job] = []
            results += self.run_in_turn([statement], on_result, started, transaction)
            for job in started:
                on_job(job)
                job.wait()
            if isinstance(statement, st.Wait):
                for job in list(self._jobs):
                    interrupts.wait_for(job.done, "IPC", "Backfill")
        return results

    def run_in_turn(
        self,
        statements: Sequence[st.Statement],
        on_result: OnResult,
        started: list[Job] | None = None,
        transaction: Transaction | None = None,
    ) -> list[Result]:
        """Run statements together, in turn where they need one. `started` gets the jobs that are to be waited for."""
        resources = self._resources
        with self._ask_ahead(statements) as answers, ExitStack() as locks:
            concurrent = (*READ, *WAITS, *WRITE) if resources.live else (*READ, *WAITS)
            if not all(isinstance(s, concurrent) for s in statements):
                # In this order: a statement that waits for its turn must not keep others from writing.
                locks.enter_context(resources.turns)
                locks.enter_context(self._lock.lock)
                if answers is not None and resources.opened is not None:
                    locks.enter_context(resources.opened.answers.using(answers))
            return self._run_all(
                statements, on_result, [] if started is None else started, transaction
            )

    @contextmanager
    def _ask_ahead(self, statements: Sequence[st.Statement]) -> Iterator[Answers | None]:
        """Ask outside what a statement needs before its turn: epochs and other statements go on meanwhile."""
        resources = self._resources
        pipeline = resources.opened
        if len(statements) != 1 or not resources.live:
            yield None
        elif isinstance(alteration := statements[0], st.Alter):
            is_reset = alteration.action == "reset"
            reset = alter(alteration, resources.catalog).reset if is_reset else None
            yield None if reset is None or pipeline is None else pipeline.ask_reset(reset)
        elif not isinstance(statements[0], CREATE) or getattr(statements[0], "or_replace", False):
            yield None
        else:
            with self._definitions.ask_ahead(statements[0]) as answers:
                yield answers

    def _run_all(
        self,
        statements: Sequence[st.Statement],
        on_result: OnResult,
        started: list[Job],
        transaction: Transaction | None = None,
    ) -> list[Result]:
        """Run statements; creations are applied together, before the next statement of another kind."""
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
                    untold.append(self._definitions.create(statement, pending, started))
                else:
                    self._definitions.apply(pending)
                    tell()
                    untold.append(self._run_one(statement, transaction))
                    tell()
            self._definitions.apply(pending)
            tell()
        except BaseException:
            self._definitions.forget(pending)
            raise
        return results

    def _run_one(self, statement: st.Statement, transaction: Transaction | None) -> Result:
        """Run a statement that creates nothing."""
        resources = self._resources
        match statement:
            case st.Drop():
                return self._alterations.drop(statement)
            case st.Alter():
                return self._alterations.alter(statement)
            case st.Pause() | st.Resume():
                self._epochs.pause(isinstance(statement, st.Pause))
                return Result(message=type(statement).__name__.upper())
            case st.Select():
                from icestream.runtime.query import select

                return select(statement.query, resources.catalog, self._queries.rows)
            case st.Show(what="jobs"):
                return self._show_jobs()
            case st.Show() | st.ShowCreate():
                for error in dict.fromkeys(o.error for o in resources.catalog.broken()):
                    resources.notice(error.message)
                return show(statement, resources.catalog)
            case st.Describe():
                return describe(statement, resources.catalog)
            case st.Explain():
                return explain(statement, resources.catalog)
            case st.SetVariable():
                spec, value = setting_registry.read_home_setting(statement)
                resources.store.set(spec.key, value)
                words = "ALTER SYSTEM" if statement.system else "SET"
                return Result(message=f"{words} ({spec.note})" if statement.value else words)
            case st.Insert() | st.Update() | st.Delete():
                return self._writes.change(statement, transaction)
            case st.CancelJobs():
                cancelled = self._jobs.cancel(statement.ids)
                return Result(None, ("Id",), [(job.id,) for job in cancelled], (BIGINT,))
            case st.Flush() if resources.live:
                self._epochs.flush()
                return Result(message="FLUSH")
            case st.Flush() | st.Wait():
                self._epochs.take_in_all()
                return Result(message=type(statement).__name__.upper())
        raise NotSupportedError(_words(type(statement).__name__), place=statement.place)

    def _show_jobs(self) -> Result:
        rows = [(job.id, job.statement, job.progress) for job in self._jobs]
        return Result(None, ("Id", "Statement", "Progress"), rows, (BIGINT, VARCHAR, VARCHAR))


def _words(name: str) -> str:
    """CreateSubscription → CREATE SUBSCRIPTION"""
    return "".join(f" {c}" if c.isupper() else c for c in name).strip().upper()
