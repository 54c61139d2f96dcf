"""BEGIN, COMMIT, ROLLBACK and savepoints of one session.

INSERT, UPDATE and DELETE of a transaction are kept in memory and written as one entry of the log at COMMIT. A text of
several statements (one message of the simple protocol) is a transaction of its own for its changes, as in PostgreSQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from icestream.catalog.catalog import Catalog
from icestream.errors import NotSupportedError, SqlError
from icestream.runtime.transaction import Transaction
from icestream.server.backend import Notice, Outcome, StateError
from icestream.server.backend import Transaction as State

CONTROL = re.compile(
    r"""(?P<word>begin|start\s+transaction|commit|end|rollback|abort|savepoint|release|prepare\s+transaction|
    set\s+transaction) \b \s* (?P<rest>.*)""",
    re.I | re.S | re.X,
)
ENDING = re.compile(
    r"(?:(?:work|transaction)\b\s*)?(?:and\s+(?P<no>no\s+)?(?P<chain>chain))?\s*", re.I
)
TO = re.compile(r"(?:(?:work|transaction)\s+)?to\s+(?:savepoint\s+)?(?P<name>.+)", re.I | re.S)
NAME = re.compile(r'(?P<plain>[^\W\d][\w$]*)|"(?P<quoted>(?:[^"]|"")+)"')
MODE = re.compile(
    r"""isolation\s+level\s+(?P<level>serializable|repeatable\s+read|read\s+committed|read\s+uncommitted)\b
    | read\s+(?P<access>only|write)\b | (?:not\s+)?deferrable\b""",
    re.I | re.X,
)
BLOCK_WORD = re.compile(r"(?:work|transaction)\b\s*", re.I)
BETWEEN_MODES = re.compile(r"\s*(?P<comma>,)?\s*")


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

    def check(self, words: str) -> None:
        """Refuse everything but the end of a transaction that has failed."""
        if self.state == "E" and not _ends(words):
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

    def run(self, words: str) -> Outcome | None:
        """Run a statement that controls transactions; None if it is another one."""
        found = CONTROL.fullmatch(words)
        if found is None:
            return None
        word, rest = " ".join(found["word"].lower().split()), found["rest"].strip()
        match word:
            case "begin" | "start transaction":
                return self._begin(word, rest)
            case "set transaction":
                return self._set(rest)
            case "commit" | "end":
                return self._end(words, rest, commits=True)
            case "rollback" | "abort" if (to := TO.fullmatch(rest)) is not None:
                block = self._need("ROLLBACK TO SAVEPOINT")
                self._restore(block.roll_back_to(_name(to["name"], words)))
                self.state = "T"
                return Outcome("ROLLBACK")
            case "rollback" | "abort":
                return self._end(words, rest, commits=False)
            case "savepoint":
                self._need("SAVEPOINT").save(_name(rest, words), self._settings())
                return Outcome("SAVEPOINT")
            case "release":
                rest = re.sub(r"^savepoint\s+", "", rest, flags=re.I)
                self._need("RELEASE SAVEPOINT").release(_name(rest, words))
                return Outcome("RELEASE")
        raise NotSupportedError("PREPARE TRANSACTION")

    def _begin(self, word: str, rest: str) -> Outcome:
        tag = "BEGIN" if word == "begin" else "START TRANSACTION"
        if word == "begin" and (found := BLOCK_WORD.match(rest)):
            rest = rest[found.end() :]
        modes = read_modes(rest) if rest else ()
        if self.state == "T":
            told = Notice("there is already a transaction in progress", "WARNING", "25001")
            return Outcome(tag, notices=(told,))
        self._open, self._together = self._together or self._new(), None
        self.state = "T"
        return Outcome(tag, notices=self._set_modes(modes))

    def _set(self, rest: str) -> Outcome:
        modes = read_modes(rest)
        if self.changes is None:
            told = "SET TRANSACTION can only be used in transaction blocks"
            return Outcome("SET", notices=(Notice(told, "WARNING", "25P01"),))
        return Outcome("SET", notices=self._set_modes(modes))

    def _set_modes(self, modes: Sequence[re.Match[str]]) -> tuple[Notice, ...]:
        levels = set()
        for mode in modes:
            if mode["access"]:
                self.set_read_only(mode["access"].lower() == "only")
            elif mode["level"]:
                levels.add(" ".join(mode["level"].lower().split()))
        return warn_of_levels(levels)

    def _end(self, words: str, rest: str, *, commits: bool) -> Outcome:
        found = ENDING.fullmatch(rest)
        if found is None:
            raise SqlError(f"syntax error: {words}", code="42601")
        if found["chain"] and not found["no"]:
            raise NotSupportedError("AND CHAIN")
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
            told = Notice("there is no transaction in progress", "WARNING", "25P01")
            return Outcome(tag, notices=(told,))
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


def warn_of_levels(levels: Collection[str]) -> tuple[Notice, ...]:
    """Tell whoever asks for more isolation than there is."""
    if {"serializable", "repeatable read"}.isdisjoint(levels):
        return ()
    told = "the isolation level is read committed"
    hint = "COMMIT fails with 40001 if tables that its UPDATEs have read were written"
    return (Notice(told, "WARNING", "01000", hint),)


def read_modes(text: str) -> list[re.Match[str]]:
    """The modes of BEGIN and SET TRANSACTION. Commas between them may be left out, as in PostgreSQL."""
    if re.match(r"snapshot\b", text, re.I):
        raise NotSupportedError("SET TRANSACTION SNAPSHOT")
    modes: list[re.Match[str]] = []
    at = 0
    while at < len(text) or not modes:
        mode = MODE.match(text, at)
        if mode is None:
            near = text[at:].split(maxsplit=1)
            where = f'at or near "{near[0]}"' if near else "at end of input"
            raise SqlError(f"syntax error {where}", code="42601")
        modes.append(mode)
        between = BETWEEN_MODES.match(text, mode.end())
        assert between is not None
        at = between.end()
        if between["comma"] and at == len(text):
            raise SqlError("syntax error at end of input", code="42601")
    return modes


def _ends(words: str) -> bool:
    found = CONTROL.fullmatch(words)
    return found is not None and found["word"].lower() in ("commit", "end", "rollback", "abort")


def _name(text: str, words: str) -> str:
    found = NAME.fullmatch(text.strip())
    if found is None:
        raise SqlError(f"syntax error: {words}", code="42601")
    return found["quoted"].replace('""', '"') if found["quoted"] else found["plain"].lower()
