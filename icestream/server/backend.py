"""What the server asks of whoever runs statements: a backend opens a session for each connection.

The methods of a session block. They are called from worker threads, not always the same, one at a time;
only `cancel` may come while another call is under way. What they raise goes to the client (see `failures`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from icestream.errors import IcestreamError, Place
from icestream.sql.session_statements import CopyOptions
from icestream.types import Type

Statement = Any
"""The backend's own word for one statement; the server only hands it back."""

Transaction = Literal["I", "T", "E"]
"""Idle, in a transaction, in a failed one."""


@dataclass(frozen=True)
class Column:
    """A column of a result."""

    name: str
    type: Type


@dataclass(frozen=True)
class Description:
    """What a statement takes and gives; no columns (None): it gives no rows."""

    parameters: tuple[Type, ...] = ()
    columns: tuple[Column, ...] | None = None
    written: tuple[Type | None, ...] = ()
    """For `run`: the types that the values keep in the statement; None is one that its place gives."""
    plan: object = field(default=None, compare=False)
    """For `run`: the bound plan of the statement, if the backend holds one."""


@dataclass(frozen=True)
class Notice:
    """Something to tell the client beside the answer."""

    message: str
    severity: str = "NOTICE"
    code: str = "00000"
    hint: str | None = None


@dataclass(frozen=True)
class Outcome:
    """The answer to a statement.

    The server adds the number of rows to the tags SELECT and FETCH; all others are whole (`INSERT 0 3`).
    Rows are taken as the client takes them; if they have a `close`, it is called when no more are wanted.
    """

    tag: str
    columns: tuple[Column, ...] | None = None
    rows: Iterable[Sequence[object]] = ()
    notices: tuple[Notice, ...] = ()
    forgets: str | None = None
    """The prepared statement of the protocol that it drops; all, if that is empty."""
    copy: CopyOptions | None = None
    """The rows are the data of a COPY, written like this."""


@dataclass(frozen=True)
class Client:
    """Who connects: name, database and start-up parameters as sent, and from where.

    `process` is the number that cancels name it by: what pg_backend_pid() gives.
    """

    user: str
    database: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    address: str = ""
    encrypted: bool = False
    process: int = 0
    cancel: Callable[[], None] = field(default=lambda: None, compare=False, repr=False)
    """Cancels what the client runs. Called from any thread."""
    terminate: Callable[[], None] = field(default=lambda: None, compare=False, repr=False)
    """Ends the connection. Called from any thread."""


class Session(Protocol):
    """One client's dealings with the engine."""

    def parse(self, sql: str) -> Sequence[Statement]:
        """The statements of a text; empty ones are left out. Places in errors count from its start."""

    def start_text(self) -> None:
        """Several statements of one text follow: their changes are a transaction of their own."""

    def end_text(self) -> tuple[Notice, ...]:
        """All statements of a text were run."""

    def fail(self) -> None:
        """What is under way has failed outside of the session: so has its transaction."""

    def describe(self, statement: Statement, parameters: Sequence[Type | None]) -> Description:
        """Check a statement before it runs; None is a type that the client left open."""

    def run(
        self,
        statement: Statement,
        parameters: Sequence[object],
        description: Description = Description(),
    ) -> Outcome:
        """Run a statement. The values have the types of its description's parameters, and keep those of its `written`."""

    def cursor(self, name: str) -> tuple[Column, ...] | None:
        """The columns of a cursor that a DECLARE made; None if there is no such cursor."""

    @property
    def transaction(self) -> Transaction:
        """Asked after every statement."""

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings a client is told about (TimeZone, application_name, …), as they are now."""

    def finish(self) -> None:
        """The statement is answered: the client is told that the next one may come."""

    def cancel(self) -> None:
        """Make the call under way fail soon. Does not wait; is repeated until the call has ended."""

    def close(self) -> None:
        """The client is gone. Called once, last, whatever happened before."""


class Backend(Protocol):
    """The engine, as the server sees it."""

    def open(self, client: Client) -> Session:
        """A session for a client that was let in; an error turns it away."""


class StateError(IcestreamError):
    """An error with a SQLSTATE of its own."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        place: Place | None = None,
        remedy: str | None = None,
        detail: str | None = None,
    ) -> None:
        super().__init__(message, place=place, remedy=remedy, code=code)
        self.detail = detail
