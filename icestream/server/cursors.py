"""DECLARE, FETCH, CLOSE: the cursors of one session."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from icestream.errors import NotSupportedError, SqlError
from icestream.server.backend import Column, Outcome, StateError

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


@dataclass
class Cursor:
    """A query that was declared, as far as its rows have not been fetched."""

    columns: tuple[Column, ...]
    rows: Iterator[Sequence[object]]


class Cursors:
    """Cursors by name. `query` runs what one is declared for."""

    def __init__(self, query: Callable[[str], Outcome]) -> None:
        self._query = query
        self._open: dict[str, Cursor] = {}

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

    def clear(self) -> None:
        """Close all."""
        self._open.clear()

    def _declare(self, made: re.Match[str]) -> Outcome:
        if made["subscription"]:
            raise NotSupportedError("SUBSCRIPTION CURSOR")
        found = self._query(made["query"])
        if found.columns is None:
            raise StateError("42P11", "a cursor is for a query")
        self._open[plain(made["name"])] = Cursor(found.columns, iter(found.rows))
        return Outcome("DECLARE CURSOR")

    def _close(self, name: str) -> Outcome:
        if name.lower() == "all":
            self.clear()
        elif self._open.pop(plain(name), None) is None:
            raise _missing(name)
        return Outcome("CLOSE CURSOR")

    def _fetch(self, words: str) -> Outcome:
        fetched = FETCH.fullmatch(words)
        if fetched is None:
            raise SqlError("FETCH [NEXT | count | ALL] FROM cursor is what can be fetched")
        cursor = self._open.get(plain(fetched["name"]))
        if cursor is None:
            raise _missing(fetched["name"])
        count = fetched["count"]
        limit = None if (fetched["all"] or "") else int(count) if count else 1
        return Outcome("FETCH", cursor.columns, itertools.islice(cursor.rows, limit))


def plain(name: str) -> str:
    """A cursor's name as it is looked up."""
    return name.lower().strip('"')


def _missing(name: str) -> StateError:
    return StateError("34000", f'cursor "{name}" does not exist')
