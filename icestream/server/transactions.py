"""BEGIN, COMMIT, ROLLBACK and savepoints of one session.

INSERT, UPDATE and DELETE of a transaction are kept in memory and written as one entry of the log at COMMIT. A text of
several statements (one message of the simple protocol) is a transaction of its own for its changes, as in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from icestream.catalog.catalog import Catalog
from icestream.errors import NotSupportedError
from icestream.runtime.transaction import Transaction
from icestream.server.backend import Notice, Outcome, StateError
from icestream.server.backend import Transaction as State
from icestream.sql import session_statements as ss
from icestream.sql.statements import Statement

ENDS = (ss.CommitTransaction, ss.RollbackTransaction, ss.RollbackToSavepoint)
"""What a failed transaction takes."""


class TransactionBlock:
    """The transaction of a session: idle, open, or failed."""

    def __init__(
        self,
        commit: Callable[[Transaction], None],
        reads_only: Callable[[], bool] = lambda: False,
        settings: Callable[[], object] = lambda: None,
        restore: Callable[[Any], None] = lambda settings: None,
    ) -> None:
        """`reads_only` says whether a transaction refuses changes if nothing is said of that.

        `settings` gives those of the session as they are now; `restore` undoes what was set since, when a transaction is
        rolled back.
        """
        self.state: State = "I"
        self._write = commit
        self._reads_only = reads_only
        self._settings = settings
        self._restore = restore
        self._open: Transaction | None = None
        self._together: Transaction | None = None
        """The changes of an implicit transaction: statements of one text, or those up to a Sync message."""
        self._in_text = False
        """Between `start_text` and `end_text`."""

    @property
    def changes(self) -> Transaction | None:
        """Where changes go; None: each is committed at once."""
        return self._open if self._open is not None else self._together

    @property
    def explicit(self) -> Transaction | None:
        """The transaction that BEGIN has opened."""
        return self._open

    @property
    def read_only(self) -> bool:
        """Whether changes are refused."""
        return self._reads_only() if self.changes is None else self.changes.read_only

    def set_read_only(self, on: bool) -> None:
        """Refuse changes until the transaction ends, or take them; without one that is over at once."""
        if self.changes is not None:
            self.changes.read_only = on

    def _new(self) -> Transaction:
        return Transaction(read_only=self._reads_only(), settings=self._settings())

    def _commit(self, changes: Transaction) -> None:
        try:
            self._write(changes)
        except BaseException:
            self._restore(changes.settings)
            raise

    def readable(self, keys: Sequence[str], catalog: Catalog) -> Transaction | None:
        """The changes that a query of these relations sees. Where it cannot see them, those of a text are committed first;
        in a transaction the query is refused."""
        try:
            if self.changes is not None:
                self.changes.check_readable(keys, catalog)
        except NotSupportedError:
            if self._open is not None:
                raise
            self.settle_text()
        return self.changes

    def fail(self) -> None:
        """A statement failed: until the transaction ends, no other one is run."""
        if (changes := self._end_together()) is not None:
            self._restore(changes.settings)
        if self.state == "T":
            self.state = "E"

    def check(self, statement: Statement) -> None:
        """Refuse everything but the end of a transaction that has failed."""
        if self.state == "E" and not isinstance(statement, ENDS):
            raise StateError(
                "25P02",
                "current transaction is aborted, commands ignored until end of transaction block",
            )

    def discard(self) -> None:
        """The client is gone."""
        self.state, self._open = "I", None
        self._end_together()

    # -- implicit transactions -------------------------------------------------------------------

    def start_text(self) -> None:
        """Several statements come together: in one text, or before one Sync message. Called again, it does nothing."""
        self._in_text = True
        if self._open is None and self._together is None:
            self._together = self._new()

    @property
    def has_text_changes(self) -> bool:
        """Whether `end_text` has something to commit."""
        return self._open is None and self._together is not None and bool(self._together.changes)

    def settle_text(self) -> None:
        """Commit what a text has changed so far: what comes next is to see it."""
        if self._together is not None and self._open is None:
            changes = self._together
            self._together = Transaction(read_only=changes.read_only, settings=self._settings())
            self._commit(changes)

    def end_text(self) -> None:
        """All statements that came together were run."""
        changes = self._end_together()
        if changes is not None and self._open is None:
            self._commit(changes)

    def _end_together(self) -> Transaction | None:
        changes, self._together, self._in_text = self._together, None, False
        return changes

    # -- statements ------------------------------------------------------------------------------

    def run(self, statement: ss.TransactionStatement) -> Outcome:
        """Run a statement that controls transactions."""
        match statement:
            case ss.BeginTransaction():
                return self._begin(statement)
            case ss.SetTransaction():
                return self._set(statement.modes)
            case ss.CommitTransaction():
                return self._end(commits=True)
            case ss.RollbackTransaction():
                return self._end(commits=False)
            case ss.RollbackToSavepoint():
                block = self._need("ROLLBACK TO SAVEPOINT")
                self._restore(block.roll_back_to(statement.name))
                self.state = "T"
                return Outcome("ROLLBACK")
            case ss.Savepoint():
                self._need("SAVEPOINT").save(statement.name, self._settings())
                return Outcome("SAVEPOINT")
            case ss.ReleaseSavepoint():
                self._need("RELEASE SAVEPOINT").release(statement.name)
                return Outcome("RELEASE")
        raise AssertionError(statement)

    def _begin(self, statement: ss.BeginTransaction) -> Outcome:
        if self.state == "T":
            warning = Notice("there is already a transaction in progress", "WARNING", "25001")
            return Outcome(statement.tag, notices=(warning,))
        self._open, self._together = self._together or self._new(), None
        self.state = "T"
        return Outcome(statement.tag, notices=self._set_modes(statement.modes))

    def _set(self, modes: ss.TransactionModes) -> Outcome:
        if self.changes is None:
            text = "SET TRANSACTION can only be used in transaction blocks"
            return Outcome("SET", notices=(Notice(text, "WARNING", "25P01"),))
        return Outcome("SET", notices=self._set_modes(modes))

    def _set_modes(self, modes: ss.TransactionModes) -> tuple[Notice, ...]:
        if modes.read_only is not None:
            self.set_read_only(modes.read_only)
        return warn_of_level(modes.level)

    def _end(self, *, commits: bool) -> Outcome:
        before, changes = self.state, self._open
        self.state, self._open = "I", None
        commits &= before != "E"
        tag = "COMMIT" if commits else "ROLLBACK"
        if before == "I":
            if commits:
                self.settle_text()
            elif self._together is not None:
                self._restore(self._together.settings)
                self._together = self._new()
            warning = Notice("there is no transaction in progress", "WARNING", "25P01")
            return Outcome(tag, notices=(warning,))
        if changes is not None:
            if commits:
                self._commit(changes)
            else:
                self._restore(changes.settings)
        if self._in_text:
            self._together = self._new()  # the statements that follow in the text
        return Outcome(tag)

    def _need(self, what: str) -> Transaction:
        if self._open is None:
            raise StateError("25P01", f"{what} can only be used in transaction blocks")
        return self._open


def warn_of_level(level: str | None) -> tuple[Notice, ...]:
    """A warning if more isolation is asked for than there is."""
    if level not in ("serializable", "repeatable read"):
        return ()
    message = "the isolation level is read committed"
    hint = "COMMIT fails with 40001 if tables that its UPDATEs have read were written"
    return (Notice(message, "WARNING", "01000", hint),)
