"""DECLARE, FETCH, CLOSE: the cursors of one session."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock

from icestream import interrupts
from icestream.errors import SqlError
from icestream.server.backend import Column, Outcome, StateError
from icestream.server.subscribed import SubscriptionCursor
from icestream.sql.options import seconds

_LOG = logging.getLogger(__name__)

DECLARE = re.compile(
    r"""declare \s+ (?P<name>\S+) \s+ (?:(?:binary|insensitive|no\s+scroll|scroll)\s+)*
    (?P<subscription>subscription\s+)? cursor \s+ (?:with(?:out)?\s+hold\s+)? for \s+ (?P<query>.*)""",
    re.I | re.S | re.X,
)
FETCH = re.compile(
    r"""fetch \s+ (?:forward\s+)? (?:next\s+|(?P<count>\d+)\s+|(?P<all>all)\s+)? (?:from\s+|in\s+)?
    (?P<name>\S+) (?:\s+ with \s* \( \s* timeout \s* = \s* '(?P<timeout>[^']+)' \s* \))?""",
    re.I | re.X,
)
CLOSE = re.compile(r"close\s+(?P<name>\S+)", re.I)


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


QUERY = re.compile(r"[\s(]*(select|with|values|show)\b", re.I)


class Cursors:
    """Cursors by name. `query` runs what one is declared for, `subscribe` opens one for a subscription."""

    def __init__(
        self, query: Callable[[str], Outcome], subscribe: Callable[[str], SubscriptionCursor]
    ) -> None:
        self._query = query
        self._subscribe = subscribe
        self._open: dict[str, Cursor | SubscriptionCursor] = {}

    def run(self, words: str) -> Outcome:
        """DECLARE, FETCH or CLOSE."""
        if made := DECLARE.fullmatch(words):
            return self._declare(made)
        if closed := CLOSE.fullmatch(words):
            return self._close(closed["name"])
        return self._fetch(words)

    def columns(self, name: str) -> tuple[Column, ...] | None:
        """The columns of a cursor; None if there is no such cursor."""
        found = self._open.get(plain(name))
        return None if found is None else found.columns

    def fetched(self, words: str) -> tuple[Column, ...] | None:
        """The columns that a statement gives: those of the cursor that it fetches from."""
        found = FETCH.fullmatch(words)
        return self.columns(found["name"]) if found else None

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

    def _declare(self, made: re.Match[str]) -> Outcome:
        name = plain(made["name"])
        if name in self._open:
            raise StateError("42P03", f'cursor "{name}" already exists')
        if made["subscription"]:
            self._keep(name, self._subscribe(made["query"]))
            return Outcome("DECLARE CURSOR")
        if not QUERY.match(made["query"]):
            raise StateError("42P11", "a cursor is for a query")
        found = self._query(made["query"])
        if found.columns is None:
            raise StateError("42P11", "a cursor is for a query")
        self._keep(name, Cursor(found.columns, iter(found.rows)))
        return Outcome("DECLARE CURSOR")

    def _keep(self, name: str, cursor: Cursor | SubscriptionCursor) -> None:
        """A DECLARE that was cancelled leaves no cursor behind."""
        try:
            interrupts.commit()
        except BaseException:
            cursor.close()
            raise
        self._open[name] = cursor

    def _close(self, name: str) -> Outcome:
        if name.lower() == "all":
            self.clear()
        elif found := self._open.pop(plain(name), None):
            found.close()
        else:
            raise _missing(name)
        return Outcome("CLOSE CURSOR")

    def _fetch(self, words: str) -> Outcome:
        fetched = FETCH.fullmatch(words)
        if fetched is None:
            raise SqlError(
                "FETCH [NEXT | count | ALL] FROM cursor [WITH (timeout = '…')] is what can be fetched"
            )
        cursor = self._open.get(plain(fetched["name"]))
        if cursor is None:
            raise _missing(fetched["name"])
        count = fetched["count"]
        limit = None if (fetched["all"] or "") else int(count[:18]) if count else 1
        try:
            timeout = seconds(fetched["timeout"] or "0")
        except ValueError:
            raise SqlError("timeout accepts a duration such as '500ms' or '10s'") from None
        if not cursor.busy.acquire(blocking=False):
            raise StateError(
                "55006",
                f'cursor "{fetched["name"]}" is still in use by a statement that was cancelled',
                remedy="try again, or CLOSE it",
            )
        try:
            return Outcome("FETCH", cursor.columns, cursor.fetch(limit, timeout))
        finally:
            cursor.busy.release()


def plain(name: str) -> str:
    """A cursor's name as it is looked up."""
    return name.lower().strip('"')


def _missing(name: str) -> StateError:
    return StateError("34000", f'cursor "{name}" does not exist')
