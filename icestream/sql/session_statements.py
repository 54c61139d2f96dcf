"""Statements of one client's session: transactions, settings, cursors, prepared statements, COPY.

They are parsed like all others and mean something to the server alone; the engine refuses them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from icestream.sql.statements import Name, Statement

IsolationLevel = Literal["serializable", "repeatable read", "read committed", "read uncommitted"]
CopyFormat = Literal["text", "csv", "binary"]


@dataclass(frozen=True)
class TransactionModes:
    """ISOLATION LEVEL …, READ ONLY | READ WRITE; None where nothing is said. The last one of each counts."""

    level: IsolationLevel | None = None
    read_only: bool | None = None


@dataclass(frozen=True)
class TransactionStatement(Statement):
    """A statement that begins, ends or divides a transaction."""


@dataclass(frozen=True)
class BeginTransaction(TransactionStatement):
    """BEGIN [WORK | TRANSACTION] [modes] | START TRANSACTION [modes]"""

    tag: Literal["BEGIN", "START TRANSACTION"]
    modes: TransactionModes


@dataclass(frozen=True)
class CommitTransaction(TransactionStatement):
    """COMMIT | END [WORK | TRANSACTION]"""


@dataclass(frozen=True)
class RollbackTransaction(TransactionStatement):
    """ROLLBACK | ABORT [WORK | TRANSACTION]"""


@dataclass(frozen=True)
class RollbackToSavepoint(TransactionStatement):
    """ROLLBACK [WORK | TRANSACTION] TO [SAVEPOINT] name"""

    name: str


@dataclass(frozen=True)
class Savepoint(TransactionStatement):
    """SAVEPOINT name"""

    name: str


@dataclass(frozen=True)
class ReleaseSavepoint(TransactionStatement):
    """RELEASE [SAVEPOINT] name"""

    name: str


@dataclass(frozen=True)
class SetTransaction(TransactionStatement):
    """SET TRANSACTION modes"""

    modes: TransactionModes


@dataclass(frozen=True)
class SetSessionCharacteristics(Statement):
    """SET SESSION CHARACTERISTICS AS TRANSACTION modes"""

    modes: TransactionModes


@dataclass(frozen=True)
class ResetSetting(Statement):
    """RESET name; the name `all` stands for all of the session."""

    name: str


@dataclass(frozen=True)
class Discard(Statement):
    """DISCARD ALL | PLANS | SEQUENCES | TEMP | TEMPORARY"""

    what: str


@dataclass(frozen=True)
class Deallocate(Statement):
    """DEALLOCATE [PREPARE] name | ALL (name None)"""

    name: str | None


@dataclass(frozen=True)
class Unlisten(Statement):
    """UNLISTEN channel | *"""


@dataclass(frozen=True)
class DeclareCursor(Statement):
    """DECLARE name CURSOR FOR query"""

    name: str
    query: Statement


@dataclass(frozen=True)
class SubscriptionStart:
    """Where a subscription cursor starts: with the whole content, now, as early as possible, or at a moment.

    A moment is milliseconds since 1970, or the text of a timestamp.
    """

    kind: Literal["full", "now", "begin", "moment"]
    moment: int | str = 0


@dataclass(frozen=True)
class DeclareSubscriptionCursor(Statement):
    """DECLARE name SUBSCRIPTION CURSOR FOR subscription [FULL | SINCE …]"""

    name: str
    subscription: Name
    start: SubscriptionStart


@dataclass(frozen=True)
class FetchCursor(Statement):
    """FETCH [NEXT | count | ALL] [FROM] name [WITH (timeout = '…')]; no limit (None): ALL"""

    name: str
    limit: int | None
    timeout: str | None


@dataclass(frozen=True)
class CloseCursor(Statement):
    """CLOSE name | ALL (name None)"""

    name: str | None


@dataclass(frozen=True)
class CopyOptions:
    """How COPY writes rows."""

    format: CopyFormat = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    quote: str = '"'
    escape: str = '"'
    header: bool = False
    force_quote: tuple[str, ...] | None = ()
    """The columns that are always quoted; None: all."""


@dataclass(frozen=True)
class CopyTo(Statement):
    """COPY relation [(columns)] | (query) TO STDOUT [WITH (…)]"""

    query: Statement
    options: CopyOptions


@dataclass(frozen=True)
class SystemQuery(Statement):
    """A query over system relations (pg_catalog, …). The server reads it in PostgreSQL's own dialect."""
