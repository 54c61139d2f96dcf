"""One client's statements: those for the engine, those about the system, and those about the session itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckdb import ConnectionException, DuckDBPyConnection, InterruptException
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from icestream.errors import IcestreamError
from icestream.lake.jvm import java_message
from icestream.plan.query import bind_query
from icestream.runtime.query import frame_of
from icestream.runtime.spool import Rows, collect, rows_of
from icestream.server import answers, described, literals
from icestream.server.backend import (
    Client,
    Column,
    Description,
    Notice,
    Outcome,
    StateError,
    Transaction,
)
from icestream.server.cursors import Cursors
from icestream.server.relations import Session as Asker
from icestream.server.relations import is_about_the_system
from icestream.server.settings import Settings, is_own, shown
from icestream.server.subscribed import SubscriptionCursor
from icestream.sql import parse
from icestream.sql import statements as st
from icestream.types import VARCHAR, Type

if TYPE_CHECKING:
    from pyspark import SparkContext

    from icestream.jobs import Job
    from icestream.server.service import Service

OWN = re.compile(
    r"\s*(begin|start\s+transaction|commit|end|rollback|abort|savepoint|release|discard|deallocate|reset|listen|"
    r"unlisten|close|declare|fetch|set|show)\b",
    re.I,
)
CURSORS = re.compile(r"show\s+(?P<subscription>subscription\s+)?cursors\b", re.I)
BEGINS, ENDS = ("begin", "start transaction"), ("commit", "end", "rollback", "abort")
NOTHING: Mapping[str, str] = {}
"""The environment that statements of clients see: that of the server is none of their business."""


@dataclass(frozen=True)
class Request:
    """One statement. `text` is padded, so that places in it are places in what the client sent."""

    text: str
    kind: str
    """engine, system or session."""

    @property
    def words(self) -> str:
        """Without what surrounds it."""
        return self.text.strip().rstrip(";").strip()


class EngineSession:
    """A session of a client with the engine."""

    def __init__(self, service: Service, client: Client) -> None:
        self.service = service
        self.client = client
        self.group = f"icestream-session-{client.process}"
        self._settings = Settings(client.parameters)
        self._transaction: Transaction = "I"
        self._cancelled = False
        self._context: SparkContext | None = None
        self._job: Job | None = None
        self._running: DuckDBPyConnection | None = None
        self._cursors = Cursors(self._query, self._subscribe)

    # -- the protocol's questions ----------------------------------------------------------------

    @property
    def transaction(self) -> Transaction:
        """See `Session.transaction`."""
        return self._transaction

    @property
    def settings(self) -> Mapping[str, str]:
        """See `Session.settings`."""
        return self._settings.told

    def parse(self, sql: str) -> Sequence[Request]:
        """See `Session.parse`."""
        return [Request(text, self._kind(text)) for text in literals.statements(sql)]

    def describe(self, statement: Request, parameters: Sequence[Type | None]) -> Description:
        """See `Session.describe`."""
        try:
            return self._describe(statement, parameters)
        except IcestreamError:
            self._fail()
            raise

    def _describe(self, statement: Request, parameters: Sequence[Type | None]) -> Description:
        if statement.kind == "system":
            found = self.service.system.describe(statement.words, self._asker())
            columns = tuple(Column(c.name, c.type) for c in found.columns)
            return Description(found.parameters, columns)
        if statement.kind == "session":
            return Description((), self._own_columns(statement))
        given = [*parameters, *[None] * literals.parameters(statement.text)]
        (parsed,) = parse(literals.marked(statement.text, given), "", NOTHING)
        catalog = self.service.engine.catalog
        if isinstance(parsed, answers.Changing):
            node, placed = described.places(parsed, catalog)
            types = literals.types(statement.text, given, node, placed)
            return Description(types, described.columns(parsed, catalog))
        if not isinstance(parsed, st.Select):
            open_ones = [type or VARCHAR for type in given[: literals.parameters(statement.text)]]
            return Description(tuple(open_ones), self._told(parsed))
        node = bind_query(parsed.query, catalog.names().relation)
        asked = literals.types(statement.text, given, node)
        return Description(asked, tuple(Column(c.name, c.type) for c in node.columns))

    def run(self, statement: Request, parameters: Sequence[object]) -> Outcome:
        """See `Session.run`."""
        if self._transaction == "E" and not _ends(statement):
            raise StateError(
                "25P02",
                "current transaction is aborted, commands ignored until end of transaction block",
            )
        self._cancelled = False
        try:
            return self._run(statement, parameters)
        except (PySparkException, Py4JJavaError) as error:
            self._fail()
            if self._cancelled:
                raise StateError("57014", "canceling statement due to user request") from error
            text = java_message(error) if isinstance(error, Py4JJavaError) else str(error)
            raise StateError("XX000", text.strip().splitlines()[0]) from error
        except InterruptException as error:
            self._fail()
            raise StateError("57014", "canceling statement due to user request") from error
        except IcestreamError as error:
            self._fail()
            if self._cancelled:
                raise StateError("57014", "canceling statement due to user request") from error
            raise
        except Exception:
            self._fail()
            raise
        finally:
            self._job = None

    def cursor(self, name: str) -> tuple[Column, ...] | None:
        """See `Session.cursor`."""
        return self._cursors.columns(name)

    def cancel(self) -> None:
        """See `Session.cancel`."""
        self._cancelled = True
        self._cursors.stop()
        if self._running is not None:
            with suppress(ConnectionException):  # it is done already
                self._running.interrupt()
        if self._context is not None:
            self._context.cancelJobGroup(self.group)
        if self._job is not None:
            self._job.cancel()

    def close(self) -> None:
        """See `Session.close`."""
        self._cursors.clear()
        self.service.leave(self)

    # -- statements ------------------------------------------------------------------------------

    def _kind(self, text: str) -> str:
        words = text.strip()
        match = OWN.match(words)
        if match is not None:
            word = match.group(1).lower()
            if CURSORS.match(words):
                return "session"
            if word in ("set", "show") and not is_own(words.rstrip("; ")):
                return "engine"
            return "session"
        return "system" if is_about_the_system(words) else "engine"

    def _run(self, statement: Request, parameters: Sequence[object]) -> Outcome:
        if statement.kind == "session":
            return self._own(statement)
        if statement.kind == "system":
            found = self.service.system.query(statement.words, parameters, self._asker())
            for name, value in found.settings:
                self._settings.take(name, value)
            columns = tuple(Column(c.name, c.type) for c in found.columns)
            return Outcome("SELECT", columns, found.rows)
        text = literals.filled(statement.text, parameters)
        (parsed,) = parse(text, "", NOTHING)
        if isinstance(parsed, st.Select):
            return self._select(parsed)
        outcome = answers.outcome(parsed, *self.service.execute(text, self._wait_for))
        if isinstance(parsed, answers.Changing) and self._settings.flushes:
            self.service.execute("FLUSH")
        return outcome

    def _wait_for(self, job: Job) -> None:
        self._job = job
        if self._cancelled:
            job.cancel()

    def _select(self, statement: st.Select) -> Outcome:
        engine = self.service.engine
        node = bind_query(statement.query, engine.catalog.names().relation)
        rows: Iterable[Sequence[object]]
        found = engine.rows_at_hand(node, self._hold)
        types = [c.type for c in node.columns]
        if found is not None:
            rows = rows_of(found.to_batches(), types)
        else:
            with self._grouped():
                frame = frame_of(node, engine.catalog, engine.spark)
                named = frame.toDF(*[f"c{i}" for i in range(len(node.columns))])
                rows = Rows(collect(named, engine.home.scratch), types)
        return Outcome("SELECT", tuple(Column(c.name, c.type) for c in node.columns), rows)

    def _hold(self, cursor: DuckDBPyConnection) -> None:
        self._running = cursor

    def _told(self, parsed: st.Statement) -> tuple[Column, ...] | None:
        """The columns of what the catalog alone can tell."""
        if not isinstance(parsed, st.Show | st.ShowCreate | st.Describe | st.Explain):
            return None
        answer, _ = self.service.execute(parsed.text)
        return answers.columns(answer)

    # -- the session's own -----------------------------------------------------------------------

    def _own(self, statement: Request) -> Outcome:
        words = " ".join(statement.words.split())
        lower = words.lower()
        if lower.startswith(BEGINS):
            notices = (Notice("there is already a transaction in progress", "WARNING", "25001"),)
            held, self._transaction = self._transaction, "T"
            return Outcome("BEGIN", notices=notices if held == "T" else ())
        if lower.startswith(("savepoint", "release")):
            return Outcome(words.split()[0].upper())
        if lower.startswith("rollback to"):
            self._transaction = "T"
            return Outcome("ROLLBACK")
        if lower.startswith(ENDS):
            failed, self._transaction = self._transaction == "E", "I"
            self._cursors.end()
            undone = failed or lower.startswith(("rollback", "abort"))
            return Outcome("ROLLBACK" if undone else "COMMIT")
        if lower.startswith(("declare", "fetch", "close")):
            return self._cursors.run(statement.words)
        if asked := CURSORS.match(words):
            names: Sequence[Sequence[object]] = self._cursors.queries
            found = self._cursors.subscriptions if asked["subscription"] else names
            return Outcome("SELECT", self._own_columns(statement), found)
        if lower.startswith("show"):
            return self._settings.show(words)
        if lower.startswith("set"):
            return self._settings.set(words)
        if lower.startswith("reset"):
            return self._settings.reset(words)
        if lower == "discard all":
            self._settings.reset("reset all")
            self._cursors.clear()
            return Outcome("DISCARD ALL")
        return Outcome(words.split()[0].upper())

    def _subscribe(self, text: str) -> SubscriptionCursor:
        return SubscriptionCursor(text, self.service.engine, self._grouped)

    @contextmanager
    def _grouped(self) -> Iterator[None]:
        """What Spark does in this thread meanwhile can be cancelled; what it does for others later cannot."""
        context = self._context = self.service.engine.spark.sparkContext
        context.setJobGroup(self.group, "a query of a client")
        context.setLocalProperty("spark.scheduler.pool", "queries")
        try:
            yield
        finally:
            context.setLocalProperty("spark.jobGroup.id", None)
            context.setLocalProperty("spark.scheduler.pool", None)

    def _query(self, text: str) -> Outcome:
        (query,) = self.parse(text)
        return self._run(query, ())

    def _own_columns(self, statement: Request) -> tuple[Column, ...] | None:
        words = statement.words
        if asked := CURSORS.match(words):
            names = ("Name", "Subscription") if asked["subscription"] else ("Name",)
            return tuple(Column(name, VARCHAR) for name in names)
        return shown(words) if words[:4].lower() == "show" else self._cursors.fetched(words)

    def _asker(self) -> Asker:
        client = self.client
        return Asker(client.user, client.database, ("public",), client.process, self._settings.all)

    def _fail(self) -> None:
        if self._transaction == "T":
            self._transaction = "E"


def _ends(statement: Request) -> bool:
    return statement.kind == "session" and statement.words.lower().startswith(ENDS)
