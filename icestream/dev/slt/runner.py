"""Records → outcomes: each record is sent to a session, and its answer compared with what the file expects.

Values are compared as text, as sqllogictest-rs does it: NULL for no value, (empty) for an empty text, the columns of a row with
blanks between them, any white space as one blank. Types of columns are not compared.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import tempfile
import time
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from icestream.dev.slt.database import Answer, Database, StatementError
from icestream.dev.slt.parser import DELIMITER
from icestream.dev.slt.records import (
    Control,
    Halt,
    History,
    Let,
    Query,
    Record,
    Retry,
    Sleep,
    Sql,
    Statement,
    System,
)
from icestream.dev.slt.substitution import SubstitutionError, substitute
from icestream.errors import ConnectorError, SignalError

_HASHED = re.compile(r"\d+ values hashing to [0-9a-f]{32}")
_IGNORED = "<slt:ignore>"


@dataclass(frozen=True)
class Outcome:
    """What came of a record. `failure` says what is wrong; `actual` are the lines that a query gave."""

    record: Record
    skipped: bool = False
    failure: str | None = None
    actual: tuple[str, ...] | None = None


class _MismatchError(SignalError):
    """A record that did not give what it should; `actual` as in Outcome."""

    def __init__(self, message: str, actual: tuple[str, ...] | None = None) -> None:
        super().__init__(message)
        self.actual = actual


class Runner:
    """Runs the records of one file; a context that ends its sessions.

    `connect` opens a session: the first, and one for each name that a `connection` record gives. `labels` are what skipif
    and onlyif ask for; `variables` are there beside the environment's. A history is split into so many `epochs`: each is one
    transaction, and `flush` is what makes views show it.
    """

    def __init__(
        self,
        connect: Callable[[], Database],
        labels: Iterable[str] = (),
        variables: Mapping[str, str] | None = None,
        *,
        epochs: int = 1,
        flush: str | None = None,
    ) -> None:
        self._connect = connect
        self._labels = frozenset(labels)
        self._variables = dict(variables or {})
        self._epochs = epochs
        self._flush = flush
        self._sessions: dict[str, Database] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._controls = {"sortmode": "nosort", "resultmode": "rowwise", "substitution": "off", "hash-threshold": "0"}  # fmt: skip

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        for session in self._sessions.values():
            session.close()
        if self._folder:
            self._folder.cleanup()

    def run(self, records: Iterable[Record]) -> Iterator[Outcome]:
        """One outcome for every statement, query, let and system record, as they come; ends at a `halt`."""
        for record in records:
            skipped = not all(condition.holds(self._labels) for condition in record.conditions)
            if isinstance(record, Sql | System):
                yield Outcome(record, skipped=True) if skipped else self._outcome(record)
            elif skipped:
                continue
            elif isinstance(record, History):
                yield from self._run_history(record)
            elif isinstance(record, Control):
                self._controls[record.what] = record.value
            elif isinstance(record, Sleep):
                time.sleep(record.seconds)
            elif isinstance(record, Halt):
                return

    def _run_history(self, history: History) -> Iterator[Outcome]:
        """One transaction for each epoch, and after it the queries that always hold."""
        for part in history.split(self._epochs):
            yield from self.run((_bare(history, "BEGIN"), *part, _bare(history, "COMMIT")))
            if self._flush:
                yield self._outcome(_bare(history, self._flush))
            yield from self.run(history.queries)

    def _outcome(self, record: Sql | System) -> Outcome:
        if not isinstance(record, Sql):
            return Outcome(record, failure="refused: a test file never runs commands")
        retry = record.retry if isinstance(record, Statement | Query) else None
        for left in reversed(range(retry.attempts if retry else 1)):
            try:
                return Outcome(record, actual=self._try(record))
            except _MismatchError as mismatch:
                if not left:
                    return Outcome(record, failure=str(mismatch), actual=mismatch.actual)
                assert retry is not None
                time.sleep(retry.backoff)
        raise AssertionError("at least one attempt is made")

    def _try(self, record: Sql) -> tuple[str, ...] | None:
        """Run it once; raises _MismatchError."""
        error = record.error if isinstance(record, Statement | Query) else None
        try:
            answer = self._execute(record)
        except SubstitutionError as unknown:
            raise _MismatchError(str(unknown)) from unknown
        except ConnectorError as lost:
            self._sessions.pop(record.connection, None)
            raise _MismatchError(str(lost)) from lost
        except StatementError as refused:
            told = f"it failed: {refused}"
            told += f" (SQLSTATE {refused.sqlstate})" if refused.sqlstate else ""
            if error is None:
                raise _MismatchError(told) from refused
            if not error.matches(str(refused), refused.sqlstate):
                raise _MismatchError(f"{told}\nexpected: {error}") from refused
            return None
        if error is not None:
            raise _MismatchError(f"it succeeded\nexpected: {error}")
        match record:
            case Statement(count=int(count)):
                actual = len(answer.rows) if answer.columns else answer.count
                if actual != count:
                    raise _MismatchError(f"expected {count} rows, got {actual}")
            case Query():
                return self._compare(record, answer)
            case Let():
                self._let(record, answer)
        return None

    def _execute(self, record: Sql) -> Answer:
        if record.connection not in self._sessions:
            self._sessions[record.connection] = self._connect()
        return self._sessions[record.connection].execute(self._substituted(record.sql))

    def _substituted(self, sql: str) -> str:
        if self._controls["substitution"] == "off":
            return sql
        own = {"__NOW__": str(time.time_ns())}
        if "__TEST_DIR__" in sql:
            self._folder = self._folder or tempfile.TemporaryDirectory(prefix="slt-")
            own["__TEST_DIR__"] = self._folder.name
        return substitute(sql, ChainMap(self._variables, own, dict(os.environ)))

    def _let(self, record: Let, answer: Answer) -> None:
        if len(answer.rows) != 1 or answer.columns != len(record.names):
            raise _MismatchError(
                f"expected 1 row of {len(record.names)} values, "
                f"got {len(answer.rows)} of {answer.columns}"
            )
        self._variables |= zip(record.names, map(_shown, answer.rows[0]), strict=True)

    def _compare(self, record: Query, answer: Answer) -> tuple[str, ...]:
        """The lines that the query gave; raises _MismatchError if they are not the expected ones."""
        rows = [tuple(map(_shown, row)) for row in answer.rows]
        sort = record.sort or self._controls["sortmode"]
        if sort == "valuesort":
            rows = [(value,) for row in rows for value in row]
        if sort != "nosort":
            rows.sort()
        values = [value for row in rows for value in row]
        if self._controls["resultmode"] == "valuewise":
            rows = [(value,) for value in values]
        expected = [_plain(line) for line in record.results]
        lines = [" ".join(map(_plain, row)) for row in rows]
        hashed = len(expected) == 1 and _HASHED.fullmatch(expected[0])
        if hashed or (not expected and 0 < int(self._controls["hash-threshold"]) < len(values)):
            digest = hashlib.md5("".join(f"{value}\n" for value in values).encode()).hexdigest()
            lines = [f"{len(values)} values hashing to {digest}"]
        if not _same(expected, lines):
            diff = list(difflib.unified_diff(expected, lines, lineterm="", n=2))[2:]
            told = [line for line in diff if not line.startswith("@@")]
            raise _MismatchError("\n".join(["- expected, + actual", *told]), tuple(lines))
        return tuple(lines)


def _bare(record: Record, sql: str) -> Statement:
    """A statement that stands at the place of another record."""
    return Statement(record.place, (), sql, "default", None, None, Retry())


def _same(expected: list[str], actual: list[str]) -> bool:
    """Whether the lines are the expected ones; <slt:ignore> stands for anything."""
    text = "\n".join(expected)
    if _IGNORED not in text:
        return expected == actual
    pattern = ".*".join(map(re.escape, text.split(_IGNORED)))
    return re.fullmatch(pattern, "\n".join(actual), re.DOTALL) is not None


def _shown(value: str | None) -> str:
    """A value as a file has it."""
    return "NULL" if value is None else value or "(empty)"


def _plain(text: str) -> str:
    return " ".join(text.split())


def completed(text: str, outcomes: Iterable[Outcome]) -> str:
    """The text of a file with what its queries gave where it expected something else or had no `----`."""
    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.split(end)
    by_line = {outcome.record.place.line: outcome for outcome in outcomes}
    for line in sorted(by_line, reverse=True):
        outcome, query = by_line[line], by_line[line].record
        if not isinstance(query, Query) or outcome.actual is None:
            continue
        if outcome.failure or query.begin == query.end:
            lines[query.begin : query.end] = [DELIMITER, *outcome.actual]
    return end.join(lines)
