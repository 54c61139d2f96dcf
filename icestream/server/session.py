"""One client's statements: those for the engine, those about the system, and those about the session itself."""

from __future__ import annotations

import operator
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
from icestream.catalog.catalog import Catalog
from icestream.catalog.objects import Object
from icestream.catalog.setting_registry import SETTINGS, is_session_setting
from icestream.engine import CREATE
from icestream.interrupts import Interrupt, StatementCancelledError
from icestream.lake.jvm import java_message
from icestream.plan.linear import relations_read
from icestream.plan.logical import Node
from icestream.plan.query import bind_query
from icestream.runtime.query import frame_of
from icestream.runtime.spark_jobs import cancellable
from icestream.runtime.spool import Rows, collect, rows_of
from icestream.runtime.transaction import Transaction
from icestream.server import answers, described
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
from icestream.server.parameters import (
    count_parameters,
    fill,
    mark,
    occurrences,
    settled,
    types_of,
)
from icestream.server.relations import Session as Asker
from icestream.server.relations import is_about_the_system, may_be_about_the_system
from icestream.server.relations import model as system
from icestream.server.settings import Settings, shown
from icestream.server.subscribed import SubscriptionCursor
from icestream.server.timed_rows import TimedRows, close_rows
from icestream.server.transactions import TransactionBlock
from icestream.sql import parse_client_text
from icestream.sql import session_statements as ss
from icestream.sql import statements as st
from icestream.types import REAL, VARCHAR, Type, array

if TYPE_CHECKING:
    from icestream.server.service import Service

T = TypeVar("T")
SHORT = 4096
"""A text of so many characters is read at once: the hand-over to another thread would cost more."""
PROCESSES = """
    SELECT pid::text AS "Id", usename::text AS "User", client_addr::text AS "Host", datname::text AS "Database",
        CASE WHEN state = 'active' THEN (extract(epoch FROM now() - query_start) * 1000)::bigint::text || 'ms' END AS "Time",
        CASE WHEN state = 'active' THEN query END AS "Info"
    FROM pg_catalog.pg_stat_activity ORDER BY pid
"""
"""SHOW PROCESSLIST, with RisingWave's columns."""
CURSOR_COLUMNS = {"cursors": ("Name",), "subscription cursors": ("Name", "Subscription")}
"""What SHOW CURSORS and SHOW SUBSCRIPTION CURSORS give."""
SESSION = (
    ss.TransactionStatement, ss.SetSessionCharacteristics, ss.ResetSetting, ss.Discard, ss.Deallocate, ss.Unlisten,
    ss.DeclareCursor, ss.DeclareSubscriptionCursor, ss.FetchCursor, ss.CloseCursor,
)  # fmt: skip
"""Statements of the session. So are SET and SHOW of its settings."""
WAITING = (
    ss.DeclareCursor, ss.DeclareSubscriptionCursor, ss.FetchCursor, ss.CloseCursor, ss.CommitTransaction,
    ss.ResetSetting,
)  # fmt: skip
"""Those that may take long."""


@dataclass(frozen=True)
class HeldPlan:
    """The bound plan of a prepared query without parameters, and the objects that the catalog had then."""

    node: Node
    objects: tuple[Object, ...]

    def is_valid(self, catalog: Catalog) -> bool:
        """Whether the catalog still has the same objects: each change makes new ones."""
        now = tuple(catalog.objects.values())
        return len(now) == len(self.objects) and all(map(operator.is_, now, self.objects))


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
        self._cursors = Cursors(self._run, self._subscribe)

    # -- the protocol's questions ----------------------------------------------------------------

    @property
    def transaction(self) -> State:
        """See `Session.transaction`."""
        return self._block.state

    @property
    def settings(self) -> Mapping[str, str]:
        """See `Session.settings`."""
        return self._settings.told

    def parse(self, sql: str) -> Sequence[st.Statement]:
        """See `Session.parse`."""
        if len(sql) <= SHORT:
            try:
                return self._parse(sql)
            except Exception:
                self._activity.start(sql, Interrupt())  # pg_stat_activity shows it as the last one
                raise
        with self._failing():
            return self._interruptible(sql, lambda: self._parse(sql))

    def _parse(self, sql: str) -> Sequence[st.Statement]:
        return parse_client_text(sql, is_system_query)

    def start_text(self) -> None:
        """See `Session.start_text`."""
        self._block.start_text()

    def end_text(self) -> tuple[Notice, ...]:
        """See `Session.end_text`."""
        if self._block.has_text_changes:
            with self._failing():
                self._interruptible("COMMIT", self._block.end_text)
        else:
            self._block.end_text()
        self._notices += self._show_writes("COMMIT")
        return self._take_notices()

    def fail(self) -> None:
        """See `Session.fail`."""
        self._block.fail()

    def describe(self, statement: st.Statement, parameters: Sequence[Type | None]) -> Description:
        """See `Session.describe`."""
        with self._failing():
            return self._interruptible(
                statement.text, lambda: self._describe(statement, parameters)
            )

    def _describe(self, statement: st.Statement, parameters: Sequence[Type | None]) -> Description:
        if query := _system_query(statement):
            answer = self.service.system.describe(query, self._asker(), parameters)
            columns = tuple(Column(c.name, c.type) for c in answer.columns)
            return Description(answer.parameters, columns, tuple(parameters))
        if isinstance(statement, ss.CopyTo):
            fill(statement, ())
            self._describe(statement.query, ())
            return Description()
        if self._is_own(statement):
            return Description((), self._own_columns(statement))
        count = count_parameters(statement)
        said = [*parameters, *[None] * count][:count]
        cells, filling = self._cells(statement, said)
        given = [None if at in cells else type for at, type in enumerate(said)]
        open = filling if not any(given) else None
        first = self._described(statement, given, open)
        asked = tuple(own or type for own, type in zip(said, first.parameters, strict=True))
        kept = settled(given, first.parameters)
        written = tuple(None if at in cells else type for at, type in enumerate(kept))
        if list(written) == given:
            return Description(asked, first.columns, written, first.plan)
        # What is told of the columns holds for the statement with the types that were found.
        return Description(asked, self._described(statement, written).columns, written)

    def _cells(
        self, statement: st.Statement, said: Sequence[Type | None]
    ) -> tuple[Collection[int], st.Statement | None]:
        """The parameters that fill columns of INSERT and UPDATE as they are. Whatever they come as, they are assigned to the
        column: they are not cast before, which would cost more than all the rest. The text of a real depends on its type.

        Also gives the statement with all parameters open, if it was needed for that.
        """
        if not said or not isinstance(statement, st.Insert | st.Update):
            return (), None
        marked = mark(statement, ())
        assert isinstance(marked, st.Insert | st.Update)
        cells = described.columns_filled(marked, self.service.engine.catalog)
        there = occurrences(statement)
        reals = (REAL, array(REAL))
        return {at for at in cells if cells[at] == there[at] and said[at] not in reals}, marked

    def _described(
        self,
        statement: st.Statement,
        given: Sequence[Type | None],
        marked: st.Statement | None = None,
    ) -> Description:
        """What a statement takes and gives; `marked` is it with these types, if it is known."""
        if marked is None:
            marked = mark(statement, given)
        catalog = self.service.engine.catalog
        if isinstance(marked, answers.Changing):
            node, placed = described.places(marked, catalog)
            types = types_of(statement, given, node, placed)
            return Description(types, described.columns(marked, catalog))
        if not isinstance(marked, st.Select):
            return Description(tuple(type or VARCHAR for type in given), self._told(marked))
        objects = tuple(catalog.objects.values())
        node = bind_query(marked.query, catalog.names().relation)
        asked = types_of(statement, given, node)
        plan = None if asked else HeldPlan(node, objects)
        columns = tuple(Column(c.name, c.type) for c in node.columns)
        return Description(asked, columns, plan=plan)

    def run(
        self,
        statement: st.Statement,
        parameters: Sequence[object],
        description: Description = Description(),
    ) -> Outcome:
        """See `Session.run`."""
        self._block.check(statement)
        with self._failing():
            if self._is_own(statement) and not isinstance(statement, WAITING):
                self._activity.start(statement.text, Interrupt())
                return self._own(statement)
            outcome = self._interruptible(
                statement.text, lambda: self._run(statement, parameters, description), close_rows
            )
            if warnings := self._show_writes(statement.text):
                outcome = replace(outcome, notices=(*outcome.notices, *warnings))
        return self._timed(outcome)

    def _interruptible(
        self,
        text: str,
        work: Callable[[], T],
        discard: Callable[[T], None] = lambda result: None,
    ) -> T:
        """Run what a cancel, or the timeout of statements, ends."""
        interrupt = Interrupt()
        self._activity.start(text, interrupt)
        timeout = self._settings.statement_timeout
        self._deadline = time.monotonic() + timeout if timeout else None
        try:
            return self.service.workers.run(work, interrupt, timeout, discard)
        except Exception as error:
            if interrupt.cancelled:
                raise StatementCancelledError(interrupt.reason) from error
            raise

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """A failure fails the transaction. Cancels and failures of Spark are told as PostgreSQL would."""
        try:
            yield
        except StatementCancelledError as error:
            self._block.fail()
            raise StateError("57014", error.reason) from error
        except (PySparkException, Py4JJavaError) as error:
            self._block.fail()
            text = java_message(error) if isinstance(error, Py4JJavaError) else str(error)
            raise StateError("XX000", text.strip().splitlines()[0]) from error
        except Exception:
            self._block.fail()
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

    def _is_own(self, statement: st.Statement) -> bool:
        """Whether a statement is about the session alone."""
        if isinstance(statement, st.Show):
            own = statement.what in CURSOR_COLUMNS or statement.what in ("all", "parameters")
            return own or is_session_setting(statement.what)
        if isinstance(statement, st.SetVariable):
            return is_session_setting(statement.name) and not statement.system
        return isinstance(statement, SESSION)

    def _run(
        self,
        statement: st.Statement,
        parameters: Sequence[object] = (),
        description: Description = Description(),
    ) -> Outcome:
        if query := _system_query(statement):
            return self._ask_system(query, parameters, description.written)
        if self._is_own(statement):
            return self._own(statement)
        if isinstance(statement, ss.CopyTo):
            return replace(self._run(statement.query), copy=statement.options)
        parsed = fill(statement, parameters, description.written)
        if isinstance(parsed, st.Select):
            return self._select(self._bind(parsed, description.plan))
        self._check_access(parsed)
        if isinstance(parsed, answers.Changing):
            changes = self._block.changes
            outcome = answers.outcome(parsed, *self.service.execute(parsed, changes))
            self._hidden |= changes is None and self._flushes
            return outcome
        self._block.settle_text()
        warnings = self._warn_of_ddl(parsed)
        outcome = answers.outcome(parsed, *self.service.execute(parsed))
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

    def _show_writes(self, text: str) -> tuple[Notice, ...]:
        """Wait until what a statement has written is visible, if it is to be. A cancel ends the wait and nothing else:
        the rows are durable."""
        if not self._hidden:
            return ()
        self._hidden = False
        try:
            return self._interruptible(text, self.service.show_writes)
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
        self, query: str, parameters: Sequence[object], declared: Sequence[Type | None]
    ) -> Outcome:
        with ExitStack() as stack:
            answer = self.service.system.query(
                query, parameters, self._asker(), partial(_end_on_cancel, stack), declared
            )
        for name, value in answer.settings:
            self._settings.take(name, value)
        columns = tuple(Column(c.name, c.type) for c in answer.columns)
        return Outcome("SELECT", columns, answer.rows)

    def _bind(self, statement: st.Select, held: object) -> Node:
        """The plan of a query: the one that was bound for its description, unless the catalog has changed since."""
        catalog = self.service.engine.catalog
        if isinstance(held, HeldPlan) and held.is_valid(catalog):
            return held.node
        return bind_query(statement.query, catalog.names().relation)

    def _select(self, node: Node) -> Outcome:
        engine = self.service.engine
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
        answer, _ = self.service.execute(parsed)
        return answers.columns(answer)

    # -- the session's own -----------------------------------------------------------------------

    def _own(self, statement: st.Statement) -> Outcome:
        match statement:
            case ss.TransactionStatement():
                return self._control(statement)
            case (
                ss.DeclareCursor()
                | ss.DeclareSubscriptionCursor()
                | ss.FetchCursor()
                | ss.CloseCursor()
            ):
                return self._cursors.run(statement)
            case st.Show(what="cursors"):
                return Outcome("SELECT", self._own_columns(statement), self._cursors.queries)
            case st.Show(what="subscription cursors"):
                return Outcome("SELECT", self._own_columns(statement), self._cursors.subscriptions)
            case st.Show(what="all" | "parameters"):
                return self._show_all(statement)
            case st.Show():
                return self._settings.show(statement.what)
            case st.SetVariable():
                return self._settings.set(statement, in_transaction=self._block.state == "T")
            case ss.SetSessionCharacteristics():
                return self._settings.set_characteristics(statement.modes)
            case ss.ResetSetting():
                return self._reset(statement)
            case ss.Discard():
                return self._discard(statement.what)
            case ss.Deallocate(name=None):
                return Outcome("DEALLOCATE ALL", forgets="")
            case ss.Deallocate():
                return Outcome("DEALLOCATE", forgets=statement.name)
        return Outcome("UNLISTEN")

    def _show_all(self, statement: st.Show) -> Outcome:
        """All settings: those of the home, and those of the session in place of theirs."""
        home, _ = self.service.execute(statement)
        rows = [
            (name, self._settings[str(name)] if is_session_setting(str(name)) else value, note)
            for name, value, note in home.rows
        ]
        return Outcome("SHOW", self._own_columns(statement), rows)

    def _control(self, statement: ss.TransactionStatement) -> Outcome:
        try:
            done = self._block.run(statement)
        finally:
            if self._block.state == "I":
                self._cursors.end()
                self._settings.end_transaction()
        return replace(done, notices=(*done.notices, *self._take_notices()))

    def _reset(self, statement: ss.ResetSetting) -> Outcome:
        """A setting of the session, or one of the home."""
        name = statement.name
        spec = SETTINGS.get(name)
        if spec is None or spec.scope in ("session", "fixed"):
            return self._settings.reset(name)
        self.service.execute(st.SetVariable(statement.place, statement.text, name, None))
        return Outcome("RESET")

    def _discard(self, what: str) -> Outcome:
        if what == "ALL":
            if self._block.state == "T":
                raise StateError("25001", "DISCARD ALL cannot run inside a transaction block")
            self._settings.reset("all")
            self._cursors.clear()
            return Outcome("DISCARD ALL", forgets="")
        return Outcome(f"DISCARD {what}")

    def _subscribe(self, statement: ss.DeclareSubscriptionCursor) -> SubscriptionCursor:
        engine = self.service.engine
        return SubscriptionCursor(statement, engine, lambda: cancellable(engine.spark))

    def _own_columns(self, statement: st.Statement) -> tuple[Column, ...] | None:
        match statement:
            case st.Show(what="cursors" | "subscription cursors"):
                return tuple(Column(name, VARCHAR) for name in CURSOR_COLUMNS[statement.what])
            case st.Show(what="all" | "parameters"):
                return tuple(Column(name, VARCHAR) for name in ("Name", "Setting", "Description"))
            case st.Show():
                return shown(statement.what)
            case ss.FetchCursor():
                return self._cursors.columns(statement.name)
        return None

    def _asker(self) -> Asker:
        client = self.client
        home = self.service.engine.store.settings()
        settings = (*home.items(), *self._settings.all)
        return Asker(client.user, client.database, ("public",), client.process, settings)


def is_system_query(words: Collection[str], text: str) -> bool:
    """Whether a query with these words is about the system."""
    return may_be_about_the_system(words) and is_about_the_system(text)


def _system_query(statement: st.Statement) -> str | None:
    """The query over system relations that a statement is."""
    if isinstance(statement, ss.SystemQuery):
        return statement.text
    is_process_list = isinstance(statement, st.Show) and statement.what == "processlist"
    return PROCESSES if is_process_list else None


def _end_on_cancel(stack: ExitStack, interrupt: Callable[[], None]) -> None:
    """End a query of DuckDB when the statement is cancelled."""

    def end() -> None:
        with suppress(ConnectionException):  # it is done already
            interrupt()

    stack.enter_context(interrupts.current().on_cancel(end))
