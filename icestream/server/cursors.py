"""DECLARE, FETCH, CLOSE: the cursors of one session."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock

from icestream import interrupts
from icestream.errors import SqlError
from icestream.server.backend import Column, Outcome, StateError
from icestream.server.subscribed import SubscriptionCursor
from icestream.sql import session_statements as ss
from icestream.sql.options import seconds
from icestream.sql.statements import Statement

_LOG = logging.getLogger(__name__)

CursorStatement = ss.DeclareCursor | ss.DeclareSubscriptionCursor | ss.FetchCursor | ss.CloseCursor


@dataclass
class Cursor:
    """A query that was declared, as far as its rows have not been fetched."""

    columns: tuple[Column, ...]
    rows: Iterator[Sequence[object]]
    busy: Lock = field(default_factory=Lock)

    def fetch(self, limit: int | None, timeout: float) -> Iterable[Sequence[object]]:
        """The next rows."""
        return itertools.islice(self.rows, limit)

    def close(self) -> None:
        """No more rows are wanted."""
        getattr(self.rows, "close", lambda: None)()


class Cursors:
    """Cursors by name. `query` runs what one is declared for, `subscribe` opens one for a subscription."""

    def __init__(
        self,
        query: Callable[[Statement], Outcome],
        subscribe: Callable[[ss.DeclareSubscriptionCursor], SubscriptionCursor],
    ) -> None:
        self._query = query
        self._subscribe = subscribe
        self._open: dict[str, Cursor | SubscriptionCursor] = {}

    def run(self, statement: CursorStatement) -> Outcome:
        """DECLARE, FETCH or CLOSE."""
        match statement:
            case ss.FetchCursor():
                return self._fetch(statement)
            case ss.CloseCursor():
                return self._close(statement.name)
        return self._declare(statement)

    def columns(self, name: str) -> tuple[Column, ...] | None:
        """The columns of a cursor; None if there is no such cursor."""
        cursor = self._open.get(name)
        return None if cursor is None else cursor.columns

    def end(self) -> None:
        """A transaction ends: close what is for a query."""
        for (name,) in self.queries:
            self._open.pop(name).close()

    def clear(self) -> None:
        """Close all."""
        while self._open:
            cursor = self._open.popitem()[1]
            try:
                cursor.close()
            except Exception:  # a statement that was cancelled may still be busy with it
                _LOG.info("a cursor could not be closed", exc_info=True)

    @property
    def subscriptions(self) -> list[tuple[str, str]]:
        """The cursors for subscriptions, with the names of these."""
        return [(n, c.name) for n, c in self._open.items() if isinstance(c, SubscriptionCursor)]

    @property
    def queries(self) -> list[tuple[str]]:
        """The cursors for queries."""
        return [(n,) for n, c in self._open.items() if isinstance(c, Cursor)]

    def _declare(self, statement: ss.DeclareCursor | ss.DeclareSubscriptionCursor) -> Outcome:
        name = statement.name
        if name in self._open:
            raise StateError("42P03", f'cursor "{name}" already exists')
        if isinstance(statement, ss.DeclareSubscriptionCursor):
            self._keep(name, self._subscribe(statement))
            return Outcome("DECLARE CURSOR")
        answer = self._query(statement.query)
        if answer.columns is None:
            raise StateError("42P11", "a cursor is for a query")
        self._keep(name, Cursor(answer.columns, iter(answer.rows)))
        return Outcome("DECLARE CURSOR")

    def _keep(self, name: str, cursor: Cursor | SubscriptionCursor) -> None:
        """A DECLARE that was cancelled leaves no cursor behind."""
        try:
            interrupts.commit()
        except BaseException:
            cursor.close()
            raise
        self._open[name] = cursor

    def _close(self, name: str | None) -> Outcome:
        if name is None:
            self.clear()
        elif cursor := self._open.pop(name, None):
            cursor.close()
        else:
            raise _missing(name)
        return Outcome("CLOSE CURSOR")

    def _fetch(self, statement: ss.FetchCursor) -> Outcome:
        cursor = self._open.get(statement.name)
        if cursor is None:
            raise _missing(statement.name)
        try:
            timeout = seconds(statement.timeout or "0")
        except ValueError:
            raise SqlError(
                "timeout accepts a duration such as '500ms' or '10s'", place=statement.place
            ) from None
        if not cursor.busy.acquire(blocking=False):
            raise StateError(
                "55006",
                f'cursor "{statement.name}" is still in use by a statement that was cancelled',
                remedy="try again, or CLOSE it",
            )
        try:
            return Outcome("FETCH", cursor.columns, cursor.fetch(statement.limit, timeout))
        finally:
            cursor.busy.release()


def _missing(name: str) -> StateError:
    return StateError("34000", f'cursor "{name}" does not exist')
