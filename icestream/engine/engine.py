"""The façade of one home.

Statements are bound before any JVM starts, so a wrong one costs nothing. The JVM starts when something
needs it; the home's lock is taken when something changes or runs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from icestream.catalog import setting_registry
from icestream.catalog.catalog import Change
from icestream.config import EngineSettings, Home
from icestream.engine.alterations import Alterations
from icestream.engine.definitions import Definitions
from icestream.engine.epoch_service import EpochService, try_telling
from icestream.engine.home_queries import HomeQueries
from icestream.engine.home_resources import HomeResources
from icestream.engine.home_writes import HomeWrites
from icestream.engine.statement_runner import CREATE, StatementRunner
from icestream.home_log import HomeLog
from icestream.jobs import Job, Jobs
from icestream.observe import status as observe
from icestream.observe.report import EpochReport
from icestream.result import Result
from icestream.runtime.writes import Writes
from icestream.secrecy import mask_secrets
from icestream.sql import parse
from icestream.sql import statements as st

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from icestream.plan.logical import Node
    from icestream.runtime.local import Hold, Local
    from icestream.runtime.pipeline import Pipeline
    from icestream.runtime.transaction import Transaction

_LOG = logging.getLogger(__name__)

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
    allow_paths: Sequence[str | Path] = ()
    """Directories whose files statements may name. Those of the home are never among them."""

    def __post_init__(self) -> None:
        self._log = HomeLog(self.home.logs, self.settings.log_level, self.settings.log_format)
        tell = self.notice

        def notice(text: str) -> None:
            _LOG.info("%s", text)
            try_telling(lambda: tell(mask_secrets(text)))

        self.notice = notice
        try:
            self._make_parts()
        except BaseException:
            self._log.close()
            raise

    def _make_parts(self) -> None:
        self.resources = resources = HomeResources(
            self.home,
            self.settings,
            lambda text: self.notice(text),
            self._log,
            self.env,
            self.allow_paths,
            take_over=self.take_over,
            application=self.application,
        )
        self.store, self.catalog = resources.store, resources.catalog
        self.turns, self.events = resources.turns, resources.events
        self.epochs = EpochService(resources, lambda: self.fallbacks())
        self.advanced = self.epochs.advanced
        """Told after every epoch."""
        self.writes = Writes(self.epochs)
        self.jobs = Jobs(resources)
        self._queries = HomeQueries(resources, self.writes)
        self._changes = HomeWrites(resources, self.writes)
        alterations = Alterations(resources, self.jobs, self.writes)
        self._definitions = Definitions(resources, self.jobs, self.writes, alterations)
        self.statements = StatementRunner(
            resources,
            self.jobs,
            self.writes,
            self._definitions,
            alterations,
            self._queries,
            self._changes,
            self.epochs,
        )

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
        return self.statements.run(statements, on_result, on_job, transaction)

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

    def resume_jobs(self) -> None:
        """Take up again what was under way in the background when the engine stopped."""
        self._definitions.resume_jobs()

    # -- rows ------------------------------------------------------------------------------------

    def rows(self, node: Node) -> pa.Table:
        """All rows of a query at an epoch that holds all writes acknowledged before; Spark is asked only if it has to be."""
        return self._queries.rows(node)

    def rows_at_hand(self, node: Node, hold: Hold = lambda cursor: None) -> pa.Table | None:
        """The same if Spark is not needed; else None. See `Local.rows`."""
        return self._queries.rows_at_hand(node, hold)

    def see_writes(self, node: Node) -> None:
        """Return when a query sees all writes that were acknowledged before."""
        self._queries.see_writes(node)

    @property
    def local(self) -> Local:
        """What answers queries without Spark."""
        return self._queries.local

    def commit(self, transaction: Transaction) -> None:
        """Write what a transaction has changed, as one entry of the log: all of it is visible in one epoch, or none."""
        self._changes.commit(transaction)

    @property
    def flushes(self) -> bool:
        """Whether each change waits until it is visible. Sessions of a server see to that themselves."""
        return self._changes.flushes

    def show_writes(self) -> None:
        """Make all writes visible that were acknowledged. A failure is only told."""
        self._changes.show_writes()

    # -- running ---------------------------------------------------------------------------------

    @property
    def live(self) -> bool:
        """Whether statements come to a running pipeline: views are filled beside it then."""
        return self.resources.live

    @live.setter
    def live(self, live: bool) -> None:
        self.resources.live = live

    @property
    def spark(self) -> SparkSession:
        """The Spark session, started at first use."""
        return self.resources.spark

    @property
    def pipeline(self) -> Pipeline:
        """The open pipeline."""
        return self.resources.pipeline

    @property
    def opened(self) -> Pipeline | None:
        """The pipeline, if it is open."""
        return self.resources.opened

    def open(self) -> None:
        """Start what `run` needs: the lock, the session, the pipeline (recovering it)."""
        self.resources.open()

    def status(self) -> observe.Status:
        """The home's status as it was last written."""
        return observe.read(self.home)

    def fallbacks(self) -> list[observe.FallbackStatus]:
        """What Spark did since the start that could have been done without it, and why."""
        counters = self._queries.fallbacks()
        counters += [self.opened.lake.jvm.fallbacks] if self.opened is not None else []
        return [
            observe.FallbackStatus(counter.kind, reason, count)
            for counter in counters
            for reason, count in counter.counts().items()
        ]

    def run(
        self,
        stop: threading.Event,
        *,
        once: bool = False,
        report: Callable[[EpochReport], None] = lambda r: None,
    ) -> None:
        """Advance the pipeline until `stop` is set, or until everything that is there now is in."""
        self.epochs.run(stop, once=once, report=report)

    def close(self) -> None:
        """Stop what was started: connectors, the session, the lock."""
        self.resources.close()
        self._queries.close()
        self.store.close()
        self._log.close()
