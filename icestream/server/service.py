"""An engine that many clients talk to: its pipeline runs in a thread of its own, statements come from sessions.

Whatever changes objects, and FLUSH, waits for its turn between two epochs. Queries do not wait: they read the newest
complete epoch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial

from icestream.catalog.objects import Broken, Index, Object, Sink, Source, Table
from icestream.catalog.setting_registry import VERSION
from icestream.engine import CREATE, Engine
from icestream.errors import IcestreamError
from icestream.observe.report import EpochReport
from icestream.plan.logical import Node
from icestream.result import Result
from icestream.runtime.background import Background
from icestream.runtime.failures import describe_error
from icestream.runtime.transaction import Transaction
from icestream.server import inventory
from icestream.server.activity import shown_query
from icestream.server.backend import Client, Notice
from icestream.server.inventory import FIRST_OID
from icestream.server.opening import open_patiently
from icestream.server.relations import Model, SystemRelations
from icestream.server.relations import model as system
from icestream.server.session import EngineSession
from icestream.server.workers import Workers
from icestream.sql.statements import Statement

_LOG = logging.getLogger(__name__)


class Service:
    """The backend of the server. `start` it before clients come, `stop` it when they are gone."""

    def __init__(
        self,
        engine: Engine,
        report: Callable[[EpochReport], None] = lambda report: None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_end` is called if the pipeline ends by itself, which it does for a failure alone."""
        self.engine = engine
        self.on_end = on_end
        self.report = report
        self.workers = Workers()
        self._sessions: dict[EngineSession, None] = {}
        costly: dict[str, Callable[[], object]] = {
            "activity": self._activity,
            "snapshots": partial(inventory.snapshots, engine),
            "files": partial(inventory.files, engine),
            "jobs": partial(inventory.jobs, engine),
            "events": partial(inventory.events, engine),
            "fallbacks": partial(inventory.fallbacks, engine),
        }
        self.system = SystemRelations(self.model, costly, self._signal)
        self._loop = Background(lambda stop: engine.run(stop, report=self.report), self._ended)
        self._telling = threading.local()
        self._quiet = engine.notice
        engine.notice = self._notice

    def start(self, stop: threading.Event | None = None) -> None:
        """Recover, and run what the home knows. Failures that may pass are retried until `stop` is set."""
        self.engine.events.add("META_NODE_START", version=VERSION)
        open_patiently(self.engine.open, self._tell, stop or threading.Event())
        self.engine.live = True
        self.engine.resume_jobs()
        self._loop.start()

    def stop(self) -> None:
        """Stop at the end of the epoch."""
        self.engine.jobs.close()
        self._loop.stop()

    @property
    def failed(self) -> BaseException | None:
        """What ended the pipeline, if something did."""
        return self._loop.failed

    def open(self, client: Client) -> EngineSession:
        """A session for a client."""
        session = EngineSession(self, client)
        self._sessions[session] = None
        return session

    def leave(self, session: EngineSession) -> None:
        """The client of a session is gone."""
        self._sessions.pop(session, None)

    def execute(
        self,
        statement: Statement,
        transaction: Transaction | None = None,
    ) -> tuple[Result, tuple[Notice, ...]]:
        """What a statement gives, with what the engine had to say meanwhile."""
        found: list[Notice] = []
        self._telling.notices = found
        try:
            (result,) = self.engine.execute_parsed([statement], transaction=transaction)
            return result, tuple(found)
        except IcestreamError as error:
            if isinstance(statement, CREATE):
                self.engine.events.add(
                    "CREATE_STREAM_JOB_FAIL",
                    definition=shown_query(statement.text),
                    error=error.message,
                )
            raise
        finally:
            self._telling.notices = None

    def commit(self, transaction: Transaction) -> tuple[Notice, ...]:
        """Write what a transaction has changed; what the engine had to say, as warnings."""
        return self._noting(lambda: self.engine.commit(transaction))

    def show_writes(self) -> tuple[Notice, ...]:
        """Make all writes visible. A failure is a warning: they are durable."""
        return self._noting(self.engine.show_writes)

    def see_writes(self, node: Node) -> tuple[Notice, ...]:
        """Wait until a query sees all acknowledged writes; what the engine had to say, as warnings."""
        return self._noting(lambda: self.engine.see_writes(node))

    def _noting(self, work: Callable[[], None]) -> tuple[Notice, ...]:
        found: list[Notice] = []
        self._telling.notices = found
        try:
            work()
        finally:
            self._telling.notices = None
        return tuple(Notice(n.message, "WARNING", "01000") for n in found)

    def _notice(self, text: str) -> None:
        notices = getattr(self._telling, "notices", None)
        if notices is None:
            self._tell(text)
        else:
            notices.append(Notice(text))

    def _tell(self, text: str) -> None:
        """Print what concerns no statement. Nobody may be reading it, and the disk may be full: that stops nothing."""
        try:
            self._quiet(text)
        except (OSError, ValueError):
            _LOG.warning("a message could not be printed: %s", text)

    def _ended(self, error: BaseException) -> None:
        message = describe_error(error).message
        self.engine.events.add("PIPELINE_FAIL", error=message)
        shown = str(error) if isinstance(error, IcestreamError) else message
        self._tell(f"the pipeline has stopped: {shown}")
        self.on_end()

    # -- what clients see of the system ----------------------------------------------------------

    def model(self) -> Model:
        """The objects as the system relations show them."""
        catalog = self.engine.catalog
        objects = [o for o in catalog if not isinstance(o, Broken)]
        oids: dict[str, int] = {o.key: FIRST_OID + o.id for o in objects}
        return Model(
            objects=tuple(self._shown(o) for o in objects if o.kind in system.KINDS),
            depends=tuple(
                (oids[o.key], oids[key]) for o in objects for key in o.depends if key in oids
            ),
        )

    def _signal(self, process: int, what: str) -> bool:
        """Cancel the statement of a session, or terminate it; False if there is no such session."""
        for session in self._sessions.copy():
            if session.client.process == process:
                (session.client.terminate if what == "terminate" else session.client.cancel)()
                return True
        return False

    def _activity(self) -> tuple[system.Activity, ...]:
        """The sessions that are open."""
        return tuple(session.activity for session in self._sessions.copy())

    def _shown(self, object: Object) -> system.Object:
        ingest = getattr(object, "ingest", None)
        key: tuple[str, ...] = ()
        if isinstance(object, Table):
            key = object.primary_key
        elif isinstance(object, Sink) and object.upsert is not None:
            key = tuple(object.upsert.key)
        elif getattr(object, "stages", ()):
            key = tuple(object.stages[-1].key or ())  # type: ignore[attr-defined]
        columns = tuple(
            system.Column(c.name, c.type, not c.not_null and c.name not in key)
            for c in object.columns
        )
        return system.Object(
            FIRST_OID + object.id,
            object.name,
            object.kind,
            columns=() if isinstance(object, Index) else columns,
            primary_key=tuple(k for k in key if any(c.name == k for c in object.columns)),
            definition=self.engine.catalog.definition(object.name),
            connector=ingest.connector if ingest else getattr(object, "connector", None),
            append_only=isinstance(object, Source),
        )
