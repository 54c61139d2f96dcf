"""The records of a sqllogictest file, as frozen values. The parser makes them; the runner carries them out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from icestream.errors import Place

SortMode = Literal["nosort", "rowsort", "valuesort"]
ResultMode = Literal["rowwise", "valuewise"]


@dataclass(frozen=True)
class Condition:
    """skipif label | onlyif label"""

    only: bool
    label: str

    def holds(self, labels: frozenset[str]) -> bool:
        """Whether what stands under it is to be run where these labels are given."""
        return (self.label in labels) == self.only


@dataclass(frozen=True)
class Retry:
    """retry attempts backoff seconds: so many attempts in all, with a pause between two."""

    attempts: int = 1
    backoff: float = 0.0


@dataclass(frozen=True)
class ExpectedError:
    """What an error must be: any; one that a pattern is found in; one with this SQLSTATE; exactly this message."""

    pattern: re.Pattern[str] | None = None
    sqlstate: str | None = None
    message: str | None = None

    def matches(self, message: str, sqlstate: str | None) -> bool:
        """Whether an error is the expected one."""
        if self.message is not None:
            return self.message.strip() == message.strip()
        if self.sqlstate is not None:
            return self.sqlstate == sqlstate
        return self.pattern is None or self.pattern.search(message) is not None

    def __str__(self) -> str:
        if self.message is not None:
            return self.message.strip()
        if self.sqlstate is not None:
            return f"SQLSTATE {self.sqlstate}"
        return f"matching {self.pattern.pattern}" if self.pattern else "any error"


@dataclass(frozen=True)
class Record:
    """What all records share: where it stands and whether it is to be run."""

    place: Place
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Sql(Record):
    """A record with SQL in it, and the session that it is sent through."""

    sql: str
    connection: str


@dataclass(frozen=True)
class Statement(Sql):
    """statement ok | statement count n | statement error …"""

    count: int | None
    error: ExpectedError | None
    retry: Retry


@dataclass(frozen=True)
class Query(Sql):
    """query [types] [sort mode] [label] | query error …

    `results` are the lines under `----`; they stand in the file from line `begin` up to, not including, line `end`
    (counted from 0, with the `----`).
    """

    sort: SortMode | None
    results: tuple[str, ...]
    begin: int
    end: int
    error: ExpectedError | None
    retry: Retry


@dataclass(frozen=True)
class Let(Sql):
    """let a, b: the values of the one row of a query, under names."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class History(Record):
    """history begin … history end: statements that are split into epochs, and queries that hold after each epoch."""

    statements: tuple[Statement, ...]
    queries: tuple[Query, ...]

    def split(self, epochs: int) -> list[tuple[Statement, ...]]:
        """The statements in that many parts of about the same length."""
        ends = [len(self.statements) * n // epochs for n in range(epochs + 1)]
        return [self.statements[a:b] for a, b in pairwise(ends)]


@dataclass(frozen=True)
class System(Record):
    """system ok | system error: a command for a shell, which is never run."""


@dataclass(frozen=True)
class Include(Record):
    """include pattern: the records of other files, in the order of their names."""

    pattern: str


@dataclass(frozen=True)
class Sleep(Record):
    """sleep 100ms"""

    seconds: float


@dataclass(frozen=True)
class Halt(Record):
    """halt: the rest is not run."""


@dataclass(frozen=True)
class Control(Record):
    """control sortmode | resultmode | substitution, hash-threshold: how the records after it are taken."""

    what: Literal["sortmode", "resultmode", "substitution", "hash-threshold"]
    value: str
