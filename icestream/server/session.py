"""One client's statements: those for the engine, those about the system, and those about the session itself."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from duckdb import ConnectionException
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from icestream import interrupts
from icestream.catalog.variables import VARIABLES
from icestream.engine import CREATE
from icestream.errors import IcestreamError, NotSupportedError, SqlError
from icestream.interrupts import Interrupt, StatementCancelledError
from icestream.lake.jvm import java_message
from icestream.plan.linear import relations_read
from icestream.plan.query import bind_query
from icestream.runtime.query import frame_of
from icestream.runtime.spark_jobs import cancellable
from icestream.runtime.spool import Rows, collect, rows_of
from icestream.runtime.transaction import Transaction
from icestream.server import answers, described, literals
from icestream.server.activity import SessionActivity
from icestream.server.backend import (
    Client,
    Column,
    Description,
    Notice,
    Outcome,
    StateError,
)
from icestream.server.backend import (
    Transaction as State,
)
from icestream.server.cursors import Cursors
from icestream.server.literals import Piece
from icestream.server.relations import Result as SystemResult
from icestream.server.relations import Session as Asker
from icestream.server.relations import is_about_the_system
from icestream.server.relations import model as system
from icestream.server.settings import KNOWN, Settings, is_own, plain, shown
from icestream.server.subscribed import SubscriptionCursor
from icestream.server.timed_rows import TimedRows, close_rows
from icestream.server.transactions import CONTROL, TransactionBlock
from icestream.sql import parse
from icestream.sql import statements as st
from icestream.types import REAL, VARCHAR, Type, array

if TYPE_CHECKING:
    from icestream.server.service import Service

OWN = re.compile(
    r"\s*(begin|start\s+transaction|commit|end|rollback|abort|savepoint|release|prepare\s+transaction|discard|deallocate|reset|listen|"
    r"unlisten|close|declare|fetch|set|show)\b",
    re.I,
)
TWO_WORDS = re.compile(r"(start|prepare)\b", re.I)
CURSORS = re.compile(r"show\s+(?P<subscription>subscription\s+)?cursors\b", re.I)
WAITING = re.compile(r"(declare|fetch|close|commit|end|reset)\b", re.I)
"""Statements of the session that may take long."""
DEALLOCATE = re.compile(
    r'deallocate\s+(?:prepare\s+)?(?:(?P<all>all)|"(?P<quoted>[^"]+)"|(?P<name>[\w$]+))', re.I
)
FILLING = re.compile(r"\s*(insert|update)\b", re.I)
T = TypeVar("T")
SHORT = 4096
"""A text of so many characters is read at once: the hand-over to another thread would cost more."""
PROCESS_LIST = re.compile(r"show\s+processlist", re.I)
PROCESSES = """
    SELECT pid::text AS "Id", usename::text AS "User", client_addr::text AS "Host", datname::text AS "Database",
        CASE WHEN state = 'active' THEN (extract(epoch FROM now() - query_start) * 1000)::bigint::text || 'ms' END AS "Time",
        CASE WHEN state = 'active' THEN query END AS "Info"
    FROM pg_catalog.pg_stat_activity ORDER BY pid
"""
"""SHOW PROCESSLIST, with RisingWave's columns."""
NOTHING: Mapping[str, str] = {}
"""The environment that statements of clients see: that of the server is none of their business."""


@dataclass(frozen=True)
class Request:
    """One statement, and where it stands in what the client sent."""

    text: str
    kind: str
    """engine, system or session."""
    piece: Piece | None = None

    @property
    def words(self) -> str:
        """Without what surrounds it; a statement of the session also without its comments."""
        text = literals.without_comments(self.text) if self.kind == "session" else self.text
        return text.strip().rstrip(";").strip()


COMMIT = Request("COMMIT", "session")


class EngineSession:
    """A session of a client with the engine."""

    def __init__(self, service: Service, client: Client) -> None:
        self.service = service
        self.client = client
        self._block = TransactionBlock(
            self._commit,
            lambda: self._settings.reads_only,
            lambda: self._settings.save(),
            lambda saved: self._settings.restore(saved),
        )
        self._settings = Settings(client.parameters, self._block)
        self._notices: list[Notice] = []
        self._hidden = False
        """Whether something was written that is to be visible before the statement is answered."""
        self._activity = SessionActivity(client)
        self._deadline: float | None = None
        self._cursors = Cursors(self._query, self._subscribe)

    # -- the protocol's questions ----------------------------------------------------------------

    @property
    def transaction(self) -> State:
        """See `Session.transaction`."""
        return self._block.state

    @property
    def settings(self) -> Mapping[str, str]:
        """See `Session.settings`."""
        return self._settings.told

    def parse(self, sql: str) -> Sequence[Request]:
        """See `Session.parse`."""
        return self.interruptible(sql, lambda: self._requests(sql))

    def interruptible(self, sql: str, work: Callable[[], T]) -> T:
        """See `Session.interruptible`."""
        if len(sql) <= SHORT:
            return work()
        whole = Request(sql, "engine")
        with self._failing(whole):
            return self._interruptible(whole, work)

    def _requests(self, sql: str) -> list[Request]:
        found: list[Request] = []
        for piece in literals.statements(sql):
            interrupts.check()
            text = piece.text
            if PROCESS_LIST.fullmatch(literals.without_leading_comments(text).strip()):
                found.append(Request(PROCESSES, "system", piece))
            else:
                found.append(Request(text, self._kind(text), piece))
        return found

    def start_text(self) -> None:
        """See `Session.start_text`."""
        self._block.start_text()

    def end_text(self) -> tuple[Notice, ...]:
        """See `Session.end_text`."""
        if self._block.has_text_changes:
            with self._failing(COMMIT):
                self._interruptible(COMMIT, self._block.end_text)
        else:
            self._block.end_text()
        self._notices += self._show_writes(COMMIT)
        return self._take_notices()

    def fail(self) -> None:
        """See `Session.fail`."""
        self._block.fail()

    def describe(self, statement: Request, parameters: Sequence[Type | None]) -> Description:
        """See `Session.describe`."""
        with self._failing(statement):
            return self._interruptible(statement, lambda: self._describe(statement, parameters))

    def _describe(self, statement: Request, parameters: Sequence[Type | None]) -> Description:
        if statement.kind == "system":
            found = self.service.system.describe(statement.words, self._asker(), parameters)
            columns = tuple(Column(c.name, c.type) for c in found.columns)
            return Description(found.parameters, columns, tuple(parameters))
        if statement.kind == "session":
            return Description((), self._own_columns(statement))
        text = statement.text
        count = literals.parameters(text)
        said = [*parameters, *[None] * count][:count]
        cells, filling = self._cells(text, said)
        given = [None if at in cells else type for at, type in enumerate(said)]
        open = filling if not any(given) else None
        first = self._described(text, given, open)
        asked = tuple(own or type for own, type in zip(said, first.parameters, strict=True))
        kept = literals.settled(given, first.parameters)
        written = tuple(None if at in cells else type for at, type in enumerate(kept))
        if list(written) == given:
            return Description(asked, first.columns, written)
        # What is told of the columns holds for the statement with the types that were found.
        return Description(asked, self._described(text, written).columns, written)

    def _cells(
        self, text: str, said: Sequence[Type | None]
    ) -> tuple[Collection[int], st.Statement | None]:
        """The parameters that fill columns of INSERT and UPDATE as they are. Whatever they come as, they are assigned to the
        column: they are not cast before, which would cost more than all the rest. The text of a real depends on its type.

        Also gives the statement with all parameters open, if it was read for that.
        """
        if not said or not FILLING.match(literals.without_leading_comments(text)):
            return (), None
        (parsed,) = parse(literals.marked(text, ()), "", NOTHING)
        if not isinstance(parsed, st.Insert | st.Update):
            return (), parsed
        cells = described.columns_filled(parsed, self.service.engine.catalog)
        there = literals.occurrences(text)
        reals = (REAL, array(REAL))
        return {at for at in cells if cells[at] == there[at] and said[at] not in reals}, parsed

    def _described(
        self, text: str, given: Sequence[Type | None], parsed: st.Statement | None = None
    ) -> Description:
        """What a statement takes and gives; `parsed` is it with these types, if it is known."""
        if parsed is None:
            (parsed,) = parse(literals.marked(text, given), "", NOTHING)
        catalog = self.service.engine.catalog
        if isinstance(parsed, answers.Changing):
            node, placed = described.places(parsed, catalog)
            types = literals.types(text, given, node, placed)
            return Description(types, described.columns(parsed, catalog))
        if not isinstance(parsed, st.Select):
            return Description(tuple(type or VARCHAR for type in given), self._told(parsed))
        node = bind_query(parsed.query, catalog.names().relation)
        asked = literals.types(text, given, node)
        return Description(asked, tuple(Column(c.name, c.type) for c in node.columns))

    def run(
        self,
        statement: Request,
        parameters: Sequence[object],
        types: Sequence[Type | None] = (),
    ) -> Outcome:
        """See `Session.run`."""
        self._block.check(statement.words)
        with self._failing(statement):
            if statement.kind == "session" and not WAITING.match(statement.words):
                self._activity.start(statement.text, Interrupt())
                return self._own(statement)
            outcome = self._interruptible(
                statement, lambda: self._run(statement, parameters, types), close_rows
            )
            if told := self._show_writes(statement):
                outcome = replace(outcome, notices=(*outcome.notices, *told))
        return self._timed(outcome)

    def _interruptible(
        self,
        statement: Request,
        work: Callable[[], T],
        discard: Callable[[T], None] = lambda result: None,
    ) -> T:
        """Run what a cancel, or the timeout of statements, ends."""
        interrupt = Interrupt()
        self._activity.start(statement.text, interrupt)
        timeout = self._settings.statement_timeout
        self._deadline = time.monotonic() + timeout if timeout else None
        try:
            return self.service.workers.run(work, interrupt, timeout, discard)
        except Exception as error:
            if interrupt.cancelled:
                raise StatementCancelledError(interrupt.reason) from error
            raise

    @contextmanager
    def _failing(self, statement: Request) -> Iterator[None]:
        """A failure fails the transaction. Cancels and failures of Spark are told as PostgreSQL would; places in the statement
        become places in the text that it came with."""
        try:
            yield
        except StatementCancelledError as error:
            self._fail()
            raise StateError("57014", error.reason) from error
        except (PySparkException, Py4JJavaError) as error:
            self._fail()
            text = java_message(error) if isinstance(error, Py4JJavaError) else str(error)
            raise StateError("XX000", text.strip().splitlines()[0]) from error
        except Exception as error:
            self._fail()
            if isinstance(error, IcestreamError) and error.place and statement.piece:
                error.place = statement.piece.locate(error.place)
            raise

    def _timed(self, outcome: Outcome) -> Outcome:
        """The time of a statement runs until its rows are taken."""
        if self._deadline is None or outcome.columns is None:
            return outcome
        return replace(outcome, rows=TimedRows(outcome.rows, self._deadline))

    def finish(self) -> None:
        """See `Session.finish`."""
        self._activity.finish(self._block.state)

    @property
    def activity(self) -> system.Activity:
        """What it is doing."""
        return self._activity.show(self._settings["application_name"], self._block.state)

    def cursor(self, name: str) -> tuple[Column, ...] | None:
        """See `Session.cursor`."""
        return self._cursors.columns(name)

    def cancel(self) -> None:
        """See `Session.cancel`."""
        if (interrupt := self._activity.interrupt) is not None:
            interrupt.cancel()

    def close(self) -> None:
        """See `Session.close`."""
        self._block.discard()
        try:
            self._cursors.clear()
        finally:
            self.service.leave(self)

    # -- statements ------------------------------------------------------------------------------

    def _kind(self, text: str) -> str:
        words = literals.without_leading_comments(text).strip()
        if TWO_WORDS.match(words):
            words = literals.without_comments(words)
        match = OWN.match(words)
        if match is not None:
            word = match.group(1).lower()
            words = literals.without_comments(words).strip()
            if CURSORS.match(words):
                return "session"
            if word in ("set", "show") and not is_own(words.rstrip("; ")):
                return "engine"
            return "session"
        return "system" if is_about_the_system(words) else "engine"

    def _run(
        self,
        statement: Request,
        parameters: Sequence[object],
        types: Sequence[Type | None] = (),
    ) -> Outcome:
        if statement.kind == "session":
            return self._own(statement)
        if statement.kind == "system":
            found = self._ask_system(statement, parameters, types)
            for name, value in found.settings:
                self._settings.take(name, value)
            columns = tuple(Column(c.name, c.type) for c in found.columns)
            return Outcome("SELECT", columns, found.rows)
        text = literals.filled(statement.text, parameters, types)
        (parsed,) = parse(text, "", NOTHING)
        if isinstance(parsed, st.Select):
            return self._select(parsed)
        self._check_access(parsed)
        if isinstance(parsed, answers.Changing):
            changes = self._block.changes
            outcome = answers.outcome(parsed, *self.service.execute(text, changes))
            self._hidden |= changes is None and self._flushes
            return outcome
        self._block.settle_text()
        warnings = self._warn_of_ddl(parsed)
        outcome = answers.outcome(parsed, *self.service.execute(text))
        return replace(outcome, notices=(*warnings, *outcome.notices, *self._take_notices()))

    def _check_access(self, parsed: st.Statement) -> None:
        """Refuse changes of tables and objects where only reading is allowed."""
        writes = isinstance(parsed, (*CREATE, st.Drop, st.Alter, answers.Changing))
        if writes and self._block.read_only:
            message = f"cannot execute {answers.tag(parsed)} in a read-only transaction"
            raise StateError("25006", message)

    def _commit(self, changes: Transaction) -> None:
        """Write changes; if they are to be visible at once and are not, that is no failure: they are durable."""
        self._notices += self.service.commit(changes)
        self._hidden |= bool(changes.changes) and self._flushes

    @property
    def _flushes(self) -> bool:
        return self._settings.flushes or self.service.engine.flushes

    def _show_writes(self, statement: Request) -> tuple[Notice, ...]:
        """Wait until what a statement has written is visible, if it is to be. A cancel ends the wait and nothing else:
        the rows are durable."""
        if not self._hidden:
            return ()
        self._hidden = False
        try:
            return self._interruptible(statement, self.service.show_writes)
        except StatementCancelledError:
            told = "the rows are written, but not visible yet: the wait for that was cancelled"
            return (Notice(told, "WARNING", "01000"),)

    def _take_notices(self) -> tuple[Notice, ...]:
        notices, self._notices = tuple(self._notices), []
        return notices

    def _warn_of_ddl(self, parsed: st.Statement) -> tuple[Notice, ...]:
        """What changes objects takes effect at once, also in a transaction."""
        changes = self._block.explicit
        if changes is None or not isinstance(parsed, (*CREATE, st.Drop, st.Alter)):
            return ()
        named = {n.name for n in getattr(parsed, "names", ())} | {
            getattr(getattr(parsed, "name", None), "name", None)
        }
        for table, _ in changes.changes:
            if isinstance(parsed, st.Drop | st.Alter) and table.name in named:
                raise StateError(
                    "0A000",
                    f"table {table.name} cannot be altered or dropped in a transaction that has changed it",
                    remedy="COMMIT first",
                )
        told = "takes effect at once: ROLLBACK does not undo it"
        return (Notice(f"{answers.tag(parsed)} {told}", "WARNING", "25001"),)

    def _ask_system(
        self, statement: Request, parameters: Sequence[object], declared: Sequence[Type | None]
    ) -> SystemResult:
        with ExitStack() as stack:
            return self.service.system.query(
                statement.words,
                parameters,
                self._asker(),
                partial(_end_on_cancel, stack),
                declared,
            )

    def _select(self, statement: st.Select) -> Outcome:
        engine = self.service.engine
        node = bind_query(statement.query, engine.catalog.names().relation)
        rows: Iterable[Sequence[object]]
        changes = self._block.readable(relations_read(node), engine.catalog)
        own = changes is not None and bool(changes.changes)
        notices = self.service.see_writes(node)
        with ExitStack() as stack:
            hold = partial(_end_on_cancel, stack)
            found = None if own else engine.rows_at_hand(node, lambda c: hold(c.interrupt))
        interrupts.check()
        types = [c.type for c in node.columns]
        if found is not None:
            rows = rows_of(found.to_batches(), types)
        else:
            with cancellable(engine.spark):
                frame = frame_of(node, engine.catalog, engine.spark, changes)
                named = frame.toDF(*[f"c{i}" for i in range(len(node.columns))])
                rows = Rows(collect(named, engine.home.scratch), types)
        columns = tuple(Column(c.name, c.type) for c in node.columns)
        return Outcome("SELECT", columns, rows, notices)

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
        try:
            done = self._block.run(statement.words)
        finally:
            if self._block.state == "I" and CONTROL.match(words):
                self._cursors.end()
                self._settings.end_transaction()
        if done is not None:
            return replace(done, notices=(*done.notices, *self._take_notices()))
        if lower.startswith(("declare", "fetch", "close")):
            return self._cursors.run(statement.words)
        if asked := CURSORS.match(words):
            names: Sequence[Sequence[object]] = self._cursors.queries
            found = self._cursors.subscriptions if asked["subscription"] else names
            return Outcome("SELECT", self._own_columns(statement), found)
        if lower.startswith("show"):
            return self._settings.show(words)
        if lower.startswith("set"):
            return self._settings.set(words, in_transaction=self._block.state == "T")
        if lower.startswith("reset"):
            return self._reset(words)
        if lower.startswith("discard"):
            return self._discard(words)
        if lower.startswith("deallocate"):
            return _deallocate(words)
        if lower.startswith("listen"):
            raise NotSupportedError("LISTEN")
        return Outcome(words.split()[0].upper())

    def _reset(self, words: str) -> Outcome:
        """A setting of the session, or one of the home."""
        name = plain(words[5:])
        if name in KNOWN or name not in VARIABLES:
            return self._settings.reset(words)
        self.service.execute(f"SET {name} TO DEFAULT")
        return Outcome("RESET")

    def _discard(self, words: str) -> Outcome:
        what = words.lower().split()[1:]
        if what == ["all"]:
            if self._block.state == "T":
                raise StateError("25001", "DISCARD ALL cannot run inside a transaction block")
            self._settings.reset("reset all")
            self._cursors.clear()
            return Outcome("DISCARD ALL", forgets="")
        if what in (["plans"], ["sequences"], ["temp"], ["temporary"]):
            return Outcome(f"DISCARD {what[0].upper()}")
        raise SqlError(f"syntax error: {words}", code="42601")

    def _subscribe(self, text: str) -> SubscriptionCursor:
        engine = self.service.engine
        return SubscriptionCursor(text, engine, lambda: cancellable(engine.spark))

    def _query(self, text: str) -> Outcome:
        (query,) = self._requests(text)
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
        self._block.fail()


def _deallocate(words: str) -> Outcome:
    found = DEALLOCATE.fullmatch(words)
    if found is None:
        raise SqlError(f"syntax error: {words}", code="42601")
    if found["all"]:
        return Outcome("DEALLOCATE ALL", forgets="")
    return Outcome("DEALLOCATE", forgets=found["quoted"] or found["name"].lower())


def _end_on_cancel(stack: ExitStack, interrupt: Callable[[], None]) -> None:
    """End a query of DuckDB when the statement is cancelled."""

    def end() -> None:
        with suppress(ConnectionException):  # it is done already
            interrupt()

    stack.enter_context(interrupts.current().on_cancel(end))
