"""What the runner needs of a server: a statement's text goes in, an answer in text comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from icestream.errors import SignalError

Row = tuple[str | None, ...]


@dataclass(frozen=True)
class Answer:
    """What a statement gave: its rows as text, in as many columns (0: it gives none), or how many rows it changed."""

    columns: int = 0
    rows: tuple[Row, ...] = ()
    count: int = 0


class StatementError(SignalError):
    """The server refused a statement; the session goes on."""

    def __init__(self, message: str, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class Database(Protocol):
    """One session. A session that is lost raises a ConnectorError, which no `statement error` expects."""

    def execute(self, sql: str) -> Answer:
        """Send a text as it is and wait for its answer; raises StatementError."""

    def close(self) -> None:
        """End the session."""
