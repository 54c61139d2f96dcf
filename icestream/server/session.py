"""One client's statements: those for the engine, those about the system, and those about the session itself."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duckdb import ConnectionException, DuckDBPyConnection, InterruptException
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from icestream.errors import IcestreamError, NotSupportedError, SqlError
from icestream.lake.jvm import java_message
from icestream.plan.query import bind_query
from icestream.result import Result
from icestream.runtime.query import collected, values_of
from icestream.server import literals
from icestream.server.backend import (
    VERSION,
    Client,
    Column,
    Description,
    Notice,
    Outcome,
    StateError,
    Transaction,
)
from icestream.server.relations import Session as Asker
from icestream.server.relations import is_about_the_system
from icestream.sql import parse
from icestream.sql import statements as st
from icestream.types import VARCHAR, Type

if TYPE_CHECKING:
    from pyspark import SparkContext

    from icestream.jobs import Job
    from icestream.server.service import Service

OWN = re.compile(
    r"\s*(begin|start\s+transaction|commit|end|rollback|abort|discard|deallocate|reset|listen|"
    r"unlisten|close|declare|fetch|set|show)\b",
    re.I,
)
DECLARE = re.compile(
    r"""declare \s+ (?P<name>\S+) \s+ (?:(?:binary|insensitive|no\s+scroll|scroll)\s+)*
    (?P<subscription>subscription\s+)? cursor \s+ (?:with(?:out)?\s+hold\s+)? for \s+ (?P<query>.*)""",
    re.I | re.S | re.X,
)
FETCH = re.compile(
    r"""fetch \s+ (?:forward\s+)? (?:next\s+|(?P<count>\d+)\s+|(?P<all>all)\s+)? (?:from\s+|in\s+)?
    (?P<name>\S+)""",
    re.I | re.X,
)
CLOSE = re.compile(r"close\s+(?P<name>\S+)", re.I)
BEGINS, ENDS = ("begin", "start transaction"), ("commit", "end", "rollback", "abort")
SETTINGS = {
    "timezone": ("TimeZone", "UTC"),
    "client_encoding": ("client_encoding", "UTF8"),
    "application_name": ("application_name", ""),
    "datestyle": ("DateStyle", "ISO, MDY"),
    "extra_float_digits": ("extra_float_digits", "1"),
    "search_path": ("search_path", "public"),
    "standard_conforming_strings": ("standard_conforming_strings", "on"),
    "statement_timeout": ("statement_timeout", "0"),
    "transaction_isolation": ("transaction_isolation", "read committed"),
    "server_version": ("server_version", VERSION),
    "session characteristics": ("session characteristics", ""),
    "rw_implicit_flush": ("rw_implicit_flush", "false"),
    "implicit_flush": ("implicit_flush", "false"),
}
"""Settings of a session, by name: as it is spelt, and what it is."""
FLUSHES = ("rw_implicit_flush", "implicit_flush")
"""Settings by which each change waits until it is visible."""
TOLD = ("timezone", "client_encoding", "application_name", "datestyle")
BATCH = 1_000
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


@dataclass
class Cursor:
    """A query that was declared, as far as its rows have not been fetched."""

    columns: tuple[Column, ...]
    rows: Iterator[Sequence[object]]


class EngineSession:
    """A session of a client with the engine."""

    def __init__(self, service: Service, client: Client) -> None:
        self.service = service
        self.client = client
        self.group = f"icestream-session-{client.process}"
        self._set = {k: v for k, v in client.parameters.items() if k.lower() in SETTINGS}
        self._transaction: Transaction = "I"
        self._cancelled = False
        self._context: SparkContext | None = None
        self._job: Job | None = None
        self._running: DuckDBPyConnection | None = None
        self._cursors: dict[str, Cursor] = {}

    # -- the protocol's questions ----------------------------------------------------------------

    @property
    def transaction(self) -> Transaction:
        """See `Session.transaction`."""
        return self._transaction

    @property
    def settings(self) -> Mapping[str, str]:
        """See `Session.settings`."""
        return {SETTINGS[name][0]: self._setting(name) for name in TOLD}

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
        if not isinstance(parsed, st.Select):
            types = [type or VARCHAR for type in given[: literals.parameters(statement.text)]]
            return Description(tuple(types), self._told(parsed))
        node = bind_query(parsed.query, self.service.engine.catalog.names().relation)
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
        finally:
            self._job = None

    def cursor(self, name: str) -> tuple[Column, ...] | None:
        """See `Session.cursor`."""
        found = self._cursors.get(name.lower())
        return None if found is None else found.columns

    def cancel(self) -> None:
        """See `Session.cancel`."""
        self._cancelled = True
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

    # -- statements ------------------------------------------------------------------------------

    def _kind(self, text: str) -> str:
        words = text.strip()
        match = OWN.match(words)
        if match is not None:
            word = match.group(1).lower()
            if word == "set":
                name = re.match(r"set\s+(?:session\s+|local\s+)?(time\s+zone|session\s+characteristics|[\w.]+)", words, re.I)  # fmt: skip
                known = name is not None and _name(name.group(1)) in SETTINGS
                return "session" if known else "engine"
            if word == "show":
                return "session" if _name(words.rstrip(";")[4:]) in SETTINGS else "engine"
            return "session"
        return "system" if is_about_the_system(words) else "engine"

    def _run(self, statement: Request, parameters: Sequence[object]) -> Outcome:
        if statement.kind == "session":
            return self._own(statement)
        if statement.kind == "system":
            found = self.service.system.query(statement.words, parameters, self._asker())
            for name, value in found.settings:
                self._set[name] = value
            columns = tuple(Column(c.name, c.type) for c in found.columns)
            return Outcome("SELECT", columns, found.rows)
        text = literals.filled(statement.text, parameters)
        (parsed,) = parse(text, "", NOTHING)
        if isinstance(parsed, st.Select):
            return self._select(parsed)
        outcome = self._answer(parsed, *self.service.execute(text, self._wait_for))
        changes = isinstance(parsed, st.Insert | st.Update | st.Delete)
        if changes and any(self._setting(name).lower() in ("true", "on") for name in FLUSHES):
            self.service.execute("FLUSH")
        return outcome

    def _wait_for(self, job: Job) -> None:
        self._job = job
        if self._cancelled:
            job.cancel()

    def _select(self, statement: st.Select) -> Outcome:
        engine = self.service.engine
        node = bind_query(statement.query, engine.catalog.names().relation)
        found = engine.rows_at_hand(node, self._hold)
        if found is None:
            context = self._context = engine.spark.sparkContext
            context.setJobGroup(self.group, "a query of a client")
            context.setLocalProperty("spark.scheduler.pool", "queries")
            found = collected(node, engine.catalog, engine.spark)
        types = [c.type for c in node.columns]

        def rows() -> Iterator[Sequence[Any]]:
            for batch in found.to_batches(max_chunksize=BATCH):
                yield from zip(*map(values_of, batch.columns, types), strict=True)

        return Outcome("SELECT", tuple(Column(c.name, c.type) for c in node.columns), rows())

    def _hold(self, cursor: DuckDBPyConnection) -> None:
        self._running = cursor

    def _answer(self, parsed: st.Statement, result: Result, notices: tuple[Notice, ...]) -> Outcome:
        changes = isinstance(parsed, st.Insert | st.Update | st.Delete)
        if changes and not result.columns:
            return Outcome(result.message or "", notices=notices)
        if result.columns:
            columns = tuple(Column(name, VARCHAR) for name in result.columns)
            rows = [[None if v is None else str(v) for v in row] for row in result.rows]
            tag = result.message if changes and result.message else "SELECT"
            return Outcome(tag, columns, rows, notices)
        message = result.message or ""
        tag = _tag(parsed)
        more = message.removeprefix(tag).strip()
        if more and not more.isidentifier():
            notices = (*notices, Notice(message))
        return Outcome(tag, notices=notices)

    def _told(self, parsed: st.Statement) -> tuple[Column, ...] | None:
        """The columns of what the catalog alone can tell, and of RETURNING."""
        if isinstance(parsed, st.Insert | st.Update | st.Delete):
            names = [q.text.strip().strip('"') for q in parsed.returning]
            if names == ["*"]:
                table = self.service.engine.catalog.names().find(parsed.table)
                names = [c.name for c in table.columns if c.generated is None]
            return tuple(Column(name, VARCHAR) for name in names) or None
        if not isinstance(parsed, st.Show | st.ShowCreate | st.Describe | st.Explain):
            return None
        answer, _ = self.service.execute(parsed.text)
        return tuple(Column(name, VARCHAR) for name in answer.columns)

    # -- the session's own -----------------------------------------------------------------------

    def _own(self, statement: Request) -> Outcome:
        words = " ".join(statement.words.split())
        lower = words.lower()
        if lower.startswith(BEGINS):
            notices = (Notice("there is already a transaction in progress", "WARNING", "25001"),)
            held, self._transaction = self._transaction, "T"
            return Outcome("BEGIN", notices=notices if held == "T" else ())
        if lower.startswith(ENDS):
            failed, self._transaction = self._transaction == "E", "I"
            self._cursors.clear()
            undone = failed or lower.startswith(("rollback", "abort"))
            return Outcome("ROLLBACK" if undone else "COMMIT")
        if lower.startswith(("declare", "fetch", "close")):
            return self._on_cursor(statement.words)
        if lower.startswith("show"):
            name = _name(words[4:])
            columns = (Column(SETTINGS[name][0], VARCHAR),)
            return Outcome("SHOW", columns, [(self._setting(name),)])
        if lower.startswith("set"):
            found = re.match(
                r"set (?:session |local )?(time zone|session characteristics|[\w.]+)(?:\s*(?:=|\bto\b)\s*|\s+)(.*)",
                words,
                re.I,
            )
            if found is None:
                raise SqlError(f"SET of what, to what? {words}")
            value = found.group(2).strip().strip("'\"")
            name = _name(found.group(1))
            self._set[name] = SETTINGS[name][1] if value.lower() == "default" else value
            return Outcome("SET")
        if lower.startswith("reset"):
            self._set.pop(_name(words[5:]), None)
        return Outcome(words.split()[0].upper() + (" ALL" if lower == "discard all" else ""))

    def _on_cursor(self, words: str) -> Outcome:
        if made := DECLARE.fullmatch(words):
            if made["subscription"]:
                raise NotSupportedError("SUBSCRIPTION CURSOR")
            (query,) = self.parse(made["query"])
            found = self._run(query, ())
            if found.columns is None:
                raise StateError("42P11", "a cursor is for a query")
            self._cursors[_name(made["name"])] = Cursor(found.columns, iter(found.rows))
            return Outcome("DECLARE CURSOR")
        if closed := CLOSE.fullmatch(words):
            if closed["name"].lower() == "all":
                self._cursors.clear()
            elif self._cursors.pop(_name(closed["name"]), None) is None:
                raise _no_cursor(closed["name"])
            return Outcome("CLOSE CURSOR")
        fetched = FETCH.fullmatch(words)
        if fetched is None:
            raise SqlError("FETCH [NEXT | count | ALL] FROM cursor is what can be fetched")
        cursor = self._cursors.get(_name(fetched["name"]))
        if cursor is None:
            raise _no_cursor(fetched["name"])
        count = fetched["count"]
        limit = None if (fetched["all"] or "") else int(count) if count else 1
        return Outcome("FETCH", cursor.columns, itertools.islice(cursor.rows, limit))

    def _own_columns(self, statement: Request) -> tuple[Column, ...] | None:
        words = statement.words
        if fetched := FETCH.fullmatch(words):
            return self.cursor(_name(fetched["name"]))
        if not words.lower().startswith("show"):
            return None
        return (Column(SETTINGS[_name(words[4:])][0], VARCHAR),)

    def _setting(self, name: str) -> str:
        known = {k.lower(): v for k, v in self._set.items()}
        return known.get(name, SETTINGS[name][1])

    def _asker(self) -> Asker:
        settings = tuple((SETTINGS[n][0], self._setting(n)) for n in SETTINGS)
        return Asker(self.client.user, self.client.database, ("public",), self.client.process, settings)  # fmt: skip

    def _fail(self) -> None:
        if self._transaction == "T":
            self._transaction = "E"


def _no_cursor(name: str) -> StateError:
    return StateError("34000", f'cursor "{name}" does not exist')


def _name(words: str) -> str:
    name = " ".join(words.split()).lower().strip('"')
    return {"time zone": "timezone", "transaction isolation level": "transaction_isolation"}.get(
        name, name
    )


def _ends(statement: Request) -> bool:
    return statement.kind == "session" and statement.words.lower().startswith(ENDS)


def _tag(parsed: st.Statement) -> str:
    """CreateMaterializedView → CREATE MATERIALIZED VIEW."""
    words = re.findall(r"[A-Z][a-z]*", type(parsed).__name__)
    text = " ".join(words).upper()
    if isinstance(parsed, st.CreateView) and parsed.materialized:
        return "CREATE MATERIALIZED VIEW"
    if isinstance(parsed, st.Drop | st.Alter):
        return f"{text} {parsed.kind.upper()}"
    return "SET" if isinstance(parsed, st.SetVariable) else text
