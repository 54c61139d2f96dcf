"""Text of a sqllogictest file → records. A line that is no record is an error with file and line."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

from icestream.dev.slt.records import (
    Condition,
    Control,
    ExpectedError,
    Halt,
    History,
    Include,
    Let,
    Query,
    Record,
    ResultMode,
    Retry,
    Sleep,
    SortMode,
    Statement,
    System,
)
from icestream.errors import ConfigError, Place, SqlError

DELIMITER = "----"
_SORT_MODES: tuple[SortMode, ...] = get_args(SortMode)
_CONTROLS: dict[str, tuple[str, ...]] = {
    "sortmode": _SORT_MODES,
    "resultmode": get_args(ResultMode),
    "substitution": ("on", "off"),
}
_UNITS = (
    (1e-9, ("ns", "nsec", "nanos")),
    (1e-6, ("us", "usec", "micros")),
    (1e-3, ("ms", "msec", "millis")),
    (1.0, ("s", "sec", "secs", "second", "seconds")),
    (60.0, ("m", "min", "mins", "minute", "minutes")),
    (3600.0, ("h", "hr", "hour", "hours")),
)
_SECONDS = {name: seconds for seconds, names in _UNITS for name in names}


def parse(text: str, file: str = "<text>") -> tuple[Record, ...]:
    """The records of a text; `include` is one of them, and nothing is read."""
    return tuple(_Parser(text, file).records())


def read(path: Path, within: tuple[Path, ...] = ()) -> Iterator[Record]:
    """The records of a file, with those of the files that it includes in the place of each `include`."""
    for record in parse(text_of(path), str(path)):
        if not isinstance(record, Include):
            yield record
            continue
        files = sorted(glob.glob(record.pattern, root_dir=path.parent, recursive=True))
        if not files:
            raise SqlError(f"no file is {record.pattern}", place=record.place)
        above = (*within, path.resolve())
        for file in (path.parent / name for name in files):
            if file.resolve() in above:
                raise SqlError(f"{file} includes itself", place=record.place)
            for inner in read(file, above):
                yield replace(inner, conditions=record.conditions + inner.conditions)


def text_of(path: Path) -> str:
    """The text of a file, with its ends of lines as they are."""
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{path} cannot be read: {reason}") from error


class _Parser:
    """Walks over the lines of one text."""

    def __init__(self, text: str, file: str) -> None:
        self._file = file
        self._lines = [line.removesuffix("\r") for line in text.split("\n")]
        if self._lines[-1] == "":
            self._lines.pop()
        self._next = 0
        self._place = Place(file, 1, 1)
        self._conditions: tuple[Condition, ...] = ()
        self._connection = "default"

    def records(self) -> Iterator[Record]:
        while self._next < len(self._lines):
            line = self._lines[self._next]
            self._next += 1
            self._place = Place(self._file, self._next, 1, line)
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            record = self._record(words)
            if record is not None:
                yield record
                self._conditions, self._connection = (), "default"
        if self._conditions or self._connection != "default":
            raise self._error("no record comes after it")

    def _record(self, words: list[str]) -> Record | None:
        here = (self._place, self._conditions)
        match words:
            case ["statement", "ok", *rest]:
                return self._statement(rest)
            case ["statement", "count", count, *rest]:
                return self._statement(rest, count=self._number(count))
            case ["statement", "error", *rest]:
                return self._statement(*self._expected(rest))
            case ["query", "error", *rest]:
                return self._query(*self._expected(rest))
            case ["query", *rest]:
                return self._query(rest[1:])
            case ["let", *_]:
                return self._let()
            case ["system", "ok" | "error", *_]:
                if self._body()[1]:
                    self._message(ExpectedError())
                return System(*here)
            case ["include", pattern]:
                return Include(*here, pattern)
            case ["sleep", duration]:
                return Sleep(*here, self._duration(duration))
            case ["history", "begin"]:
                return self._history()
            case ["halt"]:
                return Halt(*here)
            case ["subtest", *_]:
                return None
            case ["hash-threshold", threshold]:
                return Control(*here, "hash-threshold", str(self._number(threshold)))
            case ["control", "sortmode" | "resultmode" | "substitution" as what, value]:
                if value not in _CONTROLS[what]:
                    raise self._error(f"{what} is one of {', '.join(_CONTROLS[what])}")
                return Control(*here, what, value)
            case ["skipif" | "onlyif" as word, label, *rest] if rest[:1] in ([], ["#"]):
                self._conditions += (Condition(word == "onlyif", label),)
                return None
            case ["connection", name]:
                self._connection = name
                return None
        raise self._error(f"unknown record: {' '.join(words)}")

    def _statement(
        self, rest: list[str], error: ExpectedError | None = None, count: int | None = None
    ) -> Statement:
        retry = self._retry(rest)
        sql, delimited = self._body()
        if delimited:
            if error is None:
                raise self._error("a statement has no results: write query")
            error = self._message(error)
        return Statement(self._place, self._conditions, sql, self._connection, count, error, retry)

    def _query(self, rest: list[str], error: ExpectedError | None = None) -> Query:
        sort = next((mode for mode in _SORT_MODES if rest[:1] == [mode]), None)
        rest = rest[1:] if sort else rest
        rest = rest[1:] if rest and rest[0] != "retry" else rest  # a label, which means nothing
        retry = self._retry(rest)
        sql, delimited = self._body()
        begin = end = self._next - (self._lines[self._next - 1] == "")
        results: tuple[str, ...] = ()
        if delimited and error is not None:
            error = self._message(error)
        elif delimited:
            begin = self._next - 1
            results = tuple(self._until_blank())
            end = begin + 1 + len(results)
        return Query(
            self._place, self._conditions, sql, self._connection,
            sort, results, begin, end, error, retry,
        )  # fmt: skip

    def _let(self) -> Let:
        """let a, b and a query on the lines below, or let $a = query on the line itself."""
        names, _, sql = self._place.text.strip().removeprefix("let").partition("=")
        variables = tuple(name.strip().removeprefix("$") for name in names.split(","))
        for name in variables:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise self._error(f"{name!r} is no name of a variable")
        sql = sql.strip() or self._body()[0]
        return Let(self._place, self._conditions, sql, self._connection, variables)

    def _history(self) -> History:
        """The records up to `history end`."""
        begin, conditions = self._place, self._conditions
        self._conditions = ()
        statements: list[Statement] = []
        queries: list[Query] = []
        for line in iter(self._next_record_line, "history end"):
            match self._record(line.split()):
                case Statement() as statement:
                    statements.append(statement)
                case Query() as query:
                    queries.append(query)
                case None:
                    continue
                case _:
                    raise self._error("a history has statements and queries alone")
            self._conditions, self._connection = (), "default"
        return History(begin, conditions, tuple(statements), tuple(queries))

    def _next_record_line(self) -> str:
        """The next line that begins a record; an error at the end of the text."""
        while self._next < len(self._lines):
            line = self._lines[self._next]
            self._next += 1
            self._place = Place(self._file, self._next, 1, line)
            if line.strip() and not line.startswith("#"):
                return " ".join(line.split())
        raise self._error("history begin without history end")

    # parts of a record

    def _body(self) -> tuple[str, bool]:
        """The lines up to an empty one or `----`, and whether it was the latter. The first line may be empty."""
        lines = self._lines[self._next : self._next + 1]
        self._next += 1
        delimited = False
        for line in self._until_blank():
            if line.rstrip() == DELIMITER:
                delimited = True
                break
            lines.append(line)
        if not "".join(lines).strip():
            raise self._error("nothing stands below it")
        return "\n".join(lines), delimited

    def _until_blank(self) -> Iterator[str]:
        while self._next < len(self._lines):
            line = self._lines[self._next]
            self._next += 1
            if line == "":
                return
            yield line

    def _message(self, error: ExpectedError) -> ExpectedError:
        """The message under `----`: up to two empty lines, so that one may stand in it."""
        if error != ExpectedError():
            raise self._error(f"an error is told on the line or below {DELIMITER}, not in both")
        lines = list(self._until_blank())
        while self._next < len(self._lines) and self._lines[self._next] != "":
            lines += ["", *self._until_blank()]
        return ExpectedError(message="\n".join(lines))

    def _expected(self, words: list[str]) -> tuple[list[str], ExpectedError]:
        """What follows `error`: a retry clause or a pattern, in which a code in parentheses is a SQLSTATE."""
        if len(words) == 4 and (words[0], words[2]) == ("retry", "backoff"):
            return words, ExpectedError()
        pattern = " ".join(words)
        if code := re.fullmatch(r"\(([0-9A-Z]{5})\)", pattern):
            return [], ExpectedError(sqlstate=code[1])
        try:
            return [], ExpectedError(re.compile(pattern) if pattern else None)
        except re.error as error:
            raise self._error(f"{pattern!r} is no regular expression: {error}") from error

    def _retry(self, words: list[str]) -> Retry:
        match words:
            case []:
                return Retry()
            case ["retry", attempts, "backoff", backoff] if self._number(attempts):
                return Retry(self._number(attempts), self._duration(backoff))
        raise self._error(f"expected retry <attempts> backoff <time>, found {' '.join(words)}")

    def _number(self, word: str) -> int:
        if not re.fullmatch(r"[0-9]+", word):
            raise self._error(f"{word} is no number")
        return int(word)

    def _duration(self, word: str) -> float:
        parts = re.findall(r"([0-9]+)([a-z]+)", word)
        if "".join(map("".join, parts)) != word or any(unit not in _SECONDS for _, unit in parts):
            raise self._error(f"{word} is no time: write 1s or 100ms")
        return sum(int(number) * _SECONDS[unit] for number, unit in parts)

    def _error(self, message: str) -> SqlError:
        return SqlError(message, place=self._place)
