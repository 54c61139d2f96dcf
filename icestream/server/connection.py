"""One connection after its start-up: a client's messages → the bytes of the answers.

It runs in worker threads and touches no socket: `answer` gives the bytes in pieces, each of whole messages,
and takes the next rows only when the next piece is asked for.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from datetime import UTC, tzinfo
from itertools import islice
from threading import Lock

from icestream.catalog.setting_registry import SETTINGS
from icestream.catalog.setting_values import zone_of
from icestream.server import copy, failures, portals
from icestream.server import messages as m
from icestream.server.backend import (
    Client,
    Column,
    Description,
    Outcome,
    Session,
    StateError,
    Statement,
)
from icestream.server.portals import Portal, Prepared
from icestream.server.scalars import TEXT, utf8
from icestream.server.values import codec, codec_of

PIECE = 64 * 1024
REPORTED = (
    "server_version", "server_encoding", "client_encoding", "application_name", "datestyle", "intervalstyle",
    "timezone", "integer_datetimes", "standard_conforming_strings", "is_superuser", "default_transaction_read_only",
    "in_hot_standby",
)  # fmt: skip
"""What every client is told; a session's own settings go before."""

_ENDING = (m.Query, m.Sync, m.FunctionCall)
_COUNTED = ("SELECT", "FETCH")
_OPEN = (0, 705)  # a parameter without a type


class Connection:
    """A client that was let in, with its session."""

    def __init__(self, session: Session, client: Client) -> None:
        self.over = False
        """The client said good-bye, or broke the protocol."""
        self._session = session
        defaults = {SETTINGS[key].name: SETTINGS[key].default for key in REPORTED}
        self._settings = defaults | {"session_authorization": client.user} | _wishes(client)
        self._told: dict[str, str] = {}
        self._zone: tzinfo = UTC
        self._statements: dict[str, Prepared] = {}
        self._portals: dict[str, Portal] = {}
        self._skipping = False
        self._implicit = False
        """Executes since the last Sync share an implicit transaction."""
        self._lock = Lock()
        self._busy = self._cancelled = False
        self._sql: str | None = None  # the text that places in errors refer to

    def greeting(self, process: int, secret: int) -> bytes:
        """Everything from the settings to the first ReadyForQuery."""
        statuses = self._statuses()
        return statuses + m.key_data(process, secret) + m.ready(self._session.transaction)

    def answer(self, batch: Sequence[m.Message]) -> Generator[bytes, None, None]:
        """The answers to messages that came together, in pieces."""
        self._working(True)
        return self._answers(batch)

    def _answers(self, batch: Sequence[m.Message]) -> Generator[bytes, None, None]:
        out = bytearray()
        for at, message in enumerate(batch):
            self._working(True)
            if self._skipping and not isinstance(message, m.Sync | m.Terminate):
                continue
            try:
                if isinstance(message, m.Execute) and not _is_last_execute(batch, at):
                    self._implicit = True
                    self._session.start_text()
                for part in self._handle(message):
                    out += part
                    if len(out) >= PIECE:
                        yield bytes(out)
                        out.clear()
            except Exception as error:
                # What Query and Sync wait for is ReadyForQuery; without it there is no way on.
                self.over = isinstance(error, m.ProtocolError) or isinstance(message, _ENDING)
                self._skipping = True
                out += failures.response(error, fatal=True) if self.over else self._failure(error)
            if self.over:
                break
            if out and isinstance(message, (*_ENDING, m.Flush)):
                yield bytes(out)
                out.clear()
        self._working(False)
        if out:
            yield bytes(out)

    def cancel(self) -> bool:
        """Stop what `answer` is doing; False if it is doing nothing. Called from any thread."""
        with self._lock:
            self._cancelled = self._busy
        return self.insist()

    def insist(self) -> bool:
        """Cancel once more if that did not help yet: it may have come just before there was something to stop."""
        with self._lock:
            if self._cancelled:
                self._session.cancel()
            return self._cancelled

    def _working(self, busy: bool) -> None:
        """From `answer` to ReadyForQuery there is something to cancel; what came too late is forgotten."""
        with self._lock:
            self._busy = busy
            self._cancelled = self._cancelled and busy

    def close(self) -> None:
        """The client is gone."""
        self._working(False)
        try:
            self._drop_portals()
        finally:
            self._session.close()

    # -- messages --------------------------------------------------------------------------------

    def _handle(self, message: m.Message) -> Iterator[bytes]:
        match message:
            case m.Query():
                yield from self._query(message.sql)
            case m.Parse():
                yield self._parse(message)
            case m.Bind():
                yield self._bind(message)
            case m.Describe():
                yield self._describe(message)
            case m.Execute():
                yield from self._execute(message)
            case m.Close(kind="S"):
                self._statements.pop(message.name, None)
                yield m.CLOSE_COMPLETE
            case m.Close():
                self._drop_portal(message.name)
                yield m.CLOSE_COMPLETE
            case m.Sync():
                self._skipping = False
                yield from self._end_implicit()
                yield self._ready()
            case m.FunctionCall():
                yield self._failure(
                    StateError("0A000", "function calls by message are not supported")
                )
                yield self._ready()
            case m.Terminate():
                self.over = True
            case m.Password():
                raise m.ProtocolError("a password was not asked for")

    def _query(self, text: bytes) -> Iterator[bytes]:
        self._statements.pop("", None)
        self._drop_portal("")
        try:
            statements = self._read(text)
            if not statements:
                yield m.EMPTY_QUERY
            if len(statements) > 1:
                self._implicit = True
                self._session.start_text()
            for statement in statements:
                outcome = self._run(Prepared(self._sql, statement), ())
                columns = outcome.columns
                prepared = Prepared(self._sql, statement, (), Description(columns=columns))
                portal = Portal(prepared, (), (TEXT,) * len(columns or ()))
                try:
                    yield from self._start(portal, outcome)
                    if columns is not None and outcome.copy is None:
                        yield portals.describe(columns, portal.formats)
                    yield from self._proceed(portal, 0)
                finally:
                    portal.close()
        except Exception as error:
            yield self._failure(error)
        yield from self._end_implicit()
        yield self._ready()

    def _parse(self, message: m.Parse) -> bytes:
        if message.name and message.name in self._statements:
            raise StateError("42P05", f'prepared statement "{message.name}" already exists')
        self._statements.pop(message.name, None)
        statements = self._read(message.sql)
        if len(statements) > 1:
            raise StateError("42601", "cannot insert multiple commands into a prepared statement")
        if not statements:
            self._statements[message.name] = Prepared(self._sql, None)
            return m.PARSE_COMPLETE
        types = [None if oid in _OPEN else codec_of(oid).type for oid in message.types]
        found = self._session.describe(statements[0], types)
        oids = [codec(type).oid for type in found.parameters]
        for at, declared in enumerate(message.types[: len(oids)]):
            oids[at] = oids[at] if declared in _OPEN else declared
        self._statements[message.name] = Prepared(self._sql, statements[0], tuple(oids), found)
        return m.PARSE_COMPLETE

    def _bind(self, message: m.Bind) -> bytes:
        prepared = self._statement(message.statement)
        if message.portal and message.portal in self._portals:
            raise StateError("42P03", f'cursor "{message.portal}" already exists')
        self._drop_portal(message.portal)
        oids = prepared.parameters
        if len(message.values) != len(oids):
            raise StateError(
                "08P01",
                f"bind message supplies {len(message.values)} parameters, but prepared statement "
                f'"{message.statement}" requires {len(oids)}',
            )
        given = portals.spread(message.formats, len(oids), "parameter")
        values = tuple(
            self._value(oid, value, format)
            for oid, value, format in zip(oids, message.values, given, strict=True)
        )
        formats = portals.spread(
            message.result_formats, len(prepared.columns or ()), "result column"
        )
        self._portals[message.portal] = Portal(prepared, values, formats)
        return m.BIND_COMPLETE

    def _value(self, oid: int, value: bytes | None, format: int) -> object:
        self._check()
        return None if value is None else codec_of(oid, self._zone).decode(value, format)

    def _describe(self, message: m.Describe) -> bytes:
        if message.kind == "S":
            prepared = self._statement(message.name)
            columns = prepared.columns
            head = m.parameter_description(prepared.parameters)
            formats: Sequence[int] = (TEXT,) * len(columns or ())
        elif portal := self._portals.get(message.name):
            head, columns, formats = b"", portal.prepared.columns, portal.formats
        else:
            columns = self._session.cursor(message.name)
            if columns is None:
                raise StateError("34000", f'portal "{message.name}" does not exist')
            head, formats = b"", (TEXT,) * len(columns)
        return head + (m.NO_DATA if columns is None else portals.describe(columns, formats))

    def _execute(self, message: m.Execute) -> Iterator[bytes]:
        portal = self._portals.get(message.portal)
        if portal is None:
            raise StateError("34000", f'portal "{message.portal}" does not exist')
        self._sql = portal.prepared.sql
        if portal.prepared.statement is None:
            yield m.EMPTY_QUERY
            return
        if portal.done and portal.prepared.columns is None:
            raise StateError("55000", f'portal "{message.portal}" cannot be run')
        if portal.outcome is None:
            yield from self._start(portal, self._run(portal.prepared, portal.values))
        yield from self._proceed(portal, max(0, message.limit))

    # -- statements ------------------------------------------------------------------------------

    def _read(self, text: bytes) -> Sequence[Statement]:
        self._sql = utf8(text)
        return self._session.parse(self._sql)

    def _run(self, prepared: Prepared, values: Sequence[object]) -> Outcome:
        self._check()
        outcome = self._session.run(prepared.statement, values, prepared.description)
        if outcome.forgets == "":
            self._statements.clear()
        elif outcome.forgets is not None and not self._statements.pop(outcome.forgets, None):
            raise _no_statement(outcome.forgets)
        return outcome

    def _start(self, portal: Portal, outcome: Outcome) -> Iterator[bytes]:
        for notice in outcome.notices:
            yield failures.notice(notice)
        portal.start(outcome)

    def _proceed(self, portal: Portal, limit: int) -> Iterator[bytes]:
        """The rows of a portal that runs, up to a limit, and what ends them."""
        outcome = portal.outcome
        assert outcome is not None
        if outcome.copy is not None:
            yield from self._copy(portal, outcome.columns, copy.CopyWriter(outcome.copy))
        elif outcome.columns is None:
            yield m.command_complete(outcome.tag)
        else:
            count = yield from self._rows(portal, outcome.columns, limit)
            if limit and count == limit:
                yield m.PORTAL_SUSPENDED
                return
            counted = f"{outcome.tag} {count}" if outcome.tag in _COUNTED else outcome.tag
            yield m.command_complete(counted)
        portal.done = True

    def _rows(
        self, portal: Portal, columns: Sequence[Column], limit: int
    ) -> Generator[bytes, None, int]:
        encoders = portals.encoders(columns, portal.formats, self._zone)
        out: list[bytes] = []
        size = count = 0
        for row in islice(portal.rows, limit or None):
            pairs = zip(row, encoders, strict=True)
            frame = m.data_row(
                [None if value is None else encode(value) for value, encode in pairs]
            )
            out.append(frame)
            size += len(frame)
            count += 1
            if size >= PIECE:
                yield b"".join(out)
                out.clear()
                size = 0
                self._check()
        yield b"".join(out)
        self._check()
        return count

    def _copy(
        self, portal: Portal, columns: Sequence[Column] | None, writer: copy.CopyWriter
    ) -> Iterator[bytes]:
        if columns is None:
            raise StateError("42601", "COPY takes a query that gives rows")
        binary = writer.options.format == "binary"
        line = writer.line(columns, self._zone)
        head = writer.titles(columns)
        count = 0
        yield m.copy_out(int(binary), len(columns))
        if head and not binary:
            yield m.copy_data(head)
            head = b""
        for row in portal.rows:
            yield m.copy_data(head + line(row))  # a binary header comes with the first row
            head = b""
            count += 1
            if not count % 256:
                self._check()
        if binary:
            yield m.copy_data(head + copy.TRAILER)
        yield m.COPY_DONE + m.command_complete(f"COPY {count}")

    # -- state -----------------------------------------------------------------------------------

    def _end_implicit(self) -> Iterator[bytes]:
        """Commit what statements changed that came together. A failure discards all of it."""
        if not self._implicit:
            return
        self._implicit = False
        try:
            for notice in self._session.end_text():
                yield failures.notice(notice)
        except Exception as error:
            yield self._failure(error)

    def _ready(self) -> bytes:
        """What changed in the settings, then ReadyForQuery; outside a transaction no portal outlives it."""
        transaction = self._session.transaction
        if transaction == "I":
            self._drop_portals()
        self._sql = None
        self._session.finish()
        self._working(False)
        return self._statuses() + m.ready(transaction)

    def _statuses(self) -> bytes:
        now = self._settings | dict(self._session.settings)
        new = {name: value for name, value in now.items() if self._told.get(name) != value}
        if "TimeZone" in new:
            self._zone = _zone(new["TimeZone"])
        self._told |= new
        return b"".join(m.parameter_status(name, value) for name, value in new.items())

    def _failure(self, error: Exception) -> bytes:
        self._session.fail()
        self._implicit = False
        if self._cancelled:
            self._cancelled = False
            error = StateError("57014", "canceling statement due to user request")
        return failures.response(error, self._sql)

    def _check(self) -> None:
        if self._cancelled:
            raise StateError("57014", "canceling statement due to user request")

    def _statement(self, name: str) -> Prepared:
        found = self._statements.get(name)
        if found is None:
            raise _no_statement(name)
        self._sql = found.sql
        return found

    def _drop_portal(self, name: str) -> None:
        if portal := self._portals.pop(name, None):
            portal.close()

    def _drop_portals(self) -> None:
        while self._portals:
            self._portals.popitem()[1].close()


def _is_last_execute(batch: Sequence[m.Message], at: int) -> bool:
    """Whether a Sync follows before anything else is run: then a statement needs no transaction with others."""
    for later in range(at + 1, len(batch)):
        if isinstance(batch[later], m.Sync):
            return True
        if isinstance(batch[later], m.Execute | m.Query):
            return False
    return False


def _no_statement(name: str) -> StateError:
    return StateError("26000", f'prepared statement "{name}" does not exist')


def _wishes(client: Client) -> dict[str, str]:
    """The settings that a client names at its start, of those that it is told."""
    wishes = {name.lower(): value for name, value in client.parameters.items()}
    if encoding := wishes.get("client_encoding"):
        SETTINGS["client_encoding"].read(encoding)
    known = {"application_name": "application_name", "timezone": "TimeZone"}
    return {name: wishes[key] for key, name in known.items() if key in wishes}


def _zone(name: str) -> tzinfo:
    return zone_of(name) or UTC
