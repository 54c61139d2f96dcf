"""What is opened for a home, each part at first use: the lock, the Spark session, the pipeline."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from icestream.catalog import setting_registry
from icestream.catalog.catalog import Catalog
from icestream.catalog.objects import Connector
from icestream.catalog.store import Store
from icestream.catalog.subscriptions import promised
from icestream.config import EngineSettings, Home
from icestream.connectors.iceberg_options import needs_aws
from icestream.errors import ConfigError
from icestream.file_access import FileAccess
from icestream.home_log import HomeLog, log_suppressed
from icestream.observe.events import Events
from icestream.runtime.lock import HomeLock
from icestream.runtime.turns import Turns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from icestream.runtime.jvm_watchdog import JvmWatchdog
    from icestream.runtime.pipeline import Pipeline

_LOG = logging.getLogger(__name__)


class HomeResources:
    """The open parts of one home, and its objects."""

    def __init__(
        self,
        home: Home,
        settings: EngineSettings,
        notice: Callable[[str], None],
        log: HomeLog,
        env: Mapping[str, str] | None,
        allow_paths: Sequence[str | Path],
        *,
        take_over: bool,
        application: SparkSession | None,
    ) -> None:
        """`application`: a Spark application to run on, instead of starting one."""
        self.home = home
        self.settings = settings
        self.notice = notice
        self._log = log
        self.store = Store(home)
        self.access = FileAccess.of(home.root, allow_paths)
        self.catalog = Catalog(self.store, env, self.access)
        self._plan = self.store.plan
        """The version of the objects that were loaded."""
        self.catalog.load()
        self.turns = Turns()
        self.events = Events()
        self.lock: HomeLock | None = None
        self.live = False
        """Whether statements come to a running pipeline: views are filled beside it then."""
        self.opened: Pipeline | None = None
        """The pipeline, if it is open."""
        self.session: SparkSession | None = None
        """The Spark session, if it was started."""
        self._take_over = take_over
        self._application = application
        self._warming: threading.Thread | None = None
        self._watchdog: JvmWatchdog | None = None

    def is_on(self, name: str) -> bool:
        """Whether a setting of the home is true."""
        return setting_registry.is_true(name, self.store.settings())

    def own(self) -> HomeLock:
        """Take the home's lock, if this process does not have it."""
        if self.lock is None:
            lock = HomeLock(self.home, self._take_over, int(self.store.meta("incarnation")))
            self.lock = lock
            self.store.make()
            self._log.open()
            _LOG.info("this process owns the home, incarnation %d", lock.incarnation)
            self.store.take(lock.incarnation)
            if self.store.plan != self._plan:
                lock.release(in_order=not lock.after_crash)
                self.lock = None
                raise ConfigError(
                    f"another process has changed the objects of {self.home.root} while this one started",
                    remedy="start it again",
                )
        return self.lock

    @property
    def spark(self) -> SparkSession:
        """The Spark session, started at first use."""
        if self.session is None:
            from icestream.runtime import session
            from icestream.runtime.jvm_watchdog import JvmWatchdog

            if self._application is not None:
                self.session = session.adopt(self._application, self.home, self.access)
            else:
                groups = self._jar_groups()
                self.session = session.start(
                    self.home, self.settings, groups, self.notice, access=self.access
                )
                self._watchdog = JvmWatchdog(self.session)
                if self.lock is not None:
                    self._warming = session.warm(self.session)
        return self.session

    def _jar_groups(self) -> list[str]:
        """Jars beyond the engine's own that some object needs."""
        settings = [getattr(o, "settings", None) for o in self.catalog]
        settings += [getattr(getattr(o, "ingest", None), "settings", None) for o in self.catalog]
        needed = any(s is not None and "catalog.type" in s and needs_aws(s) for s in settings)
        needed |= any(isinstance(o, Connector) and o.config.needs_aws for o in self.catalog)
        return ["aws"] if needed else []

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline, opened (and recovered) at first use with the objects that the store knows."""
        return self.open_pipeline()

    def open_pipeline(self) -> Pipeline:
        """Open the pipeline, if it is not open."""
        if self.opened is None:
            self.opened = self._start_pipeline()
        return self.opened

    def _start_pipeline(self) -> Pipeline:
        self.catalog.check_whole()
        self.catalog.check_access()
        from icestream.lake.catalogs import Lake, check_embedded
        from icestream.runtime.pipeline import Pipeline

        lock = self.own()
        check_embedded(self.home)
        pipeline = Pipeline(
            Lake(self.spark),
            self.store.pipeline,
            lock.incarnation,
            self.settings,
            self.home.indexes,
            self.notice,
            self.events.add,
            after_crash=lock.after_crash,
        )
        pipeline.housekeeper.promised = lambda: promised(self.catalog)
        pipeline.housekeeper.pins = self.catalog.pins
        known = {s.name for s in self.store.objects()}
        try:
            pipeline.open([o for o in self.catalog if o.name in known], self.store.plan)
        except BaseException:
            with log_suppressed(_LOG, "a pipeline that did not open cannot be closed", Exception):
                pipeline.close()
            raise
        pipeline.state.paused = self.store.paused
        lock.incarnation = pipeline.state.incarnation
        self.store.take(pipeline.state.incarnation)
        return pipeline

    def open(self) -> None:
        """Start what epochs need: the lock, the session, the pipeline (recovering it)."""
        try:
            self.open_pipeline()
        except Exception:
            if self.session is not None:
                from icestream.lake.jvm import check_jvm

                check_jvm(self.session)
            raise

    def close(self) -> None:
        """Stop what was started: connectors, the session, the lock."""
        # Without a JVM, connectors and the session have nothing left to stop, and say so with exceptions.
        lost = False
        if self.session is not None:
            from icestream.lake.jvm import is_jvm_lost

            lost = is_jvm_lost(self.session)
        with suppress(Exception) if lost else nullcontext():
            if self.opened is not None:
                self.opened.close()
            if self._warming is not None:
                self._warming.join()
            if self._watchdog is not None:
                self._watchdog.stop()
            if self.session is not None and self._application is None:
                self.session.stop()
        if self.lock is not None:
            pipeline = self.opened
            settled = not self.lock.after_crash if pipeline is None else not pipeline.is_interrupted
            self.lock.release(in_order=settled and not lost)
