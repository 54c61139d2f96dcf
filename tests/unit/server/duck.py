"""A backend that really runs SQL: DuckDB in memory, with what clients expect of PostgreSQL around it."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any

import duckdb

from icestream import types as t
from icestream.dev.duck import open_duckdb
from icestream.errors import NotSupportedError, Place, SqlError
from icestream.functions.expressions import Interval
from icestream.server.backend import (
    Client,
    Column,
    Description,
    Notice,
    Outcome,
    StateError,
    Transaction,
)
from icestream.server.values import codec, codec_of
from icestream.types import Type
from tests.unit.server.quiet import QuietSession

OID, NAME, CHAR, TEXT = Type("oid"), Type("name"), Type('"char"'), Type("text")

_SCALARS = {
    "boolean": t.BOOLEAN, "tinyint": t.SMALLINT, "smallint": t.SMALLINT, "integer": t.INTEGER,
    "bigint": t.BIGINT, "uinteger": t.BIGINT, "hugeint": t.numeric(38), "float": t.REAL,
    "double": t.DOUBLE, "varchar": t.VARCHAR, "blob": t.BYTEA, "date": t.DATE, "time": t.TIME,
    "timestamp": t.TIMESTAMP, "timestamp with time zone": t.TIMESTAMPTZ, "interval": t.INTERVAL,
    "uuid": Type("uuid"), "null": t.NULL, '"null"': t.NULL,
}  # fmt: skip

_CURSOR = re.compile(
    r'\s*DECLARE\s+"?(?P<name>\w+)"?\s.*?CURSOR\s.*?FOR\s+(?P<query>.*)', re.I | re.S
)
_FETCH = re.compile(
    r'\s*(?P<verb>FETCH|MOVE)\s+(?:FORWARD\s+)?(?P<count>\d+|ALL)\s+(?:FROM\s+)?"?(?P<name>\w+)"?',
    re.I,
)
_CLOSE = re.compile(r'\s*CLOSE\s+"?(?P<name>\w+)"?', re.I)
_SET = re.compile(
    r"\s*SET\s+(?:SESSION\s+)?(?P<name>\w+)\s*(?:=|\bTO\b)\s*'?(?P<value>.*?)'?\s*", re.I | re.S
)
_NOTHING = re.compile(r"\s*(UNLISTEN|RESET|DISCARD)\b.*", re.I | re.S)
_OWN = (_CURSOR, _FETCH, _CLOSE, _SET, _NOTHING)
_PROBE = "SELECT * FROM ("
_NAMED = {"timezone": "TimeZone", "application_name": "application_name"}


@dataclass(frozen=True)
class Duck:
    """A statement: its text, its kind, and where it starts in what the client sent."""

    sql: str
    kind: str
    start: int
    whole: str


class DuckBackend:
    """One database in memory."""

    def __init__(self) -> None:
        self.database = open_duckdb()
        self.database.execute("SET GLOBAL TimeZone = 'UTC'; SET GLOBAL threads = 1")
        self.database.execute("CREATE MACRO pg_advisory_unlock_all() AS NULL")  # asyncpg's reset
        self.lock = threading.Lock()
        self.opened = self.closed = self.cancelled = self.running = 0

    def open(self, client: Client) -> DuckSession:
        if client.database == "nowhere":
            raise StateError("3D000", 'database "nowhere" does not exist')
        self.count(opened=1)
        with self.lock:
            return DuckSession(self, self.database.cursor().execute("SET errors_as_json = true"))

    def count(self, **numbers: int) -> None:
        with self.lock:
            for name, number in numbers.items():
                setattr(self, name, getattr(self, name) + number)

    def wait(self, **numbers: int) -> None:
        """Until the counters are that high: sessions that opened, closed, run a statement, were cancelled."""
        end = time.monotonic() + 10
        while any(getattr(self, name) < number for name, number in numbers.items()):
            assert time.monotonic() < end, f"{numbers} were expected"
            time.sleep(0.01)


class DuckSession(QuietSession):
    def __init__(self, backend: DuckBackend, connection: duckdb.DuckDBPyConnection) -> None:
        self.backend = backend
        self.connection = connection
        self.state: Transaction = "I"
        self.cursors: dict[str, tuple[tuple[Column, ...], Iterator[Any]]] = {}
        self.values: dict[str, str] = {}
        self.is_running = False

    @property
    def transaction(self) -> Transaction:
        return self.state

    @property
    def settings(self) -> Mapping[str, str]:
        return self.values

    def parse_other(self, sql: str) -> list[Duck]:
        found = []
        at = 0
        try:
            if re.search(r"CLOSE|UNLISTEN|DECLARE|FETCH|MOVE", sql, re.I):
                pieces = [(piece, "OWN") for piece in sql.split(";") if piece.strip()]
            else:
                statements = self.connection.extract_statements(sql)
                pieces = [(one.query, one.type.name) for one in statements]
        except duckdb.Error as error:
            raise self._wrong(error, Duck(sql, "", 0, sql)) from error
        for text, kind in pieces:
            at = sql.index(text, at)
            found.append(Duck(text, kind, at, sql))
            at += len(text)
        return found

    def describe_other(self, statement: Duck, parameters: Sequence[Type | None]) -> Description:
        count = max((int(n) for n in re.findall(r"\$(\d+)", statement.sql)), default=0)
        types = []
        for number in range(1, count + 1):
            given = parameters[number - 1] if number <= len(parameters) else None
            cast = re.search(rf"\${number}::(\w+(?:\[\])?)", statement.sql)
            types.append(given or (_named(cast[1]) if cast else t.VARCHAR))
        if "typeinfo_tree" in statement.sql:
            return Description((t.array(OID),), TYPES)
        if fetch := _FETCH.fullmatch(statement.sql):
            return Description(
                (), self._cursor(fetch["name"])[0] if fetch["verb"] != "MOVE" else None
            )
        returning = (
            statement.kind in ("INSERT", "UPDATE", "DELETE") and "returning" in statement.sql
        )
        if any(own.fullmatch(statement.sql) for own in _OWN):
            return Description(tuple(types))
        if statement.kind not in ("SELECT", "EXPLAIN") or returning:
            return Description(tuple(types))
        probed = f"{_PROBE}{statement.sql}\n) LIMIT 0"
        probe = Duck(probed, "SELECT", statement.start, statement.whole)
        self._execute(probe, [None] * count)
        return Description(tuple(types), self._columns())

    def run_other(self, statement: Duck, parameters: Sequence[object]) -> Outcome:
        self.is_running = True
        self.backend.count(running=1)
        try:
            return self._run(statement, parameters)
        except BaseException:
            if self.state == "T":
                self.state = "E"
            raise
        finally:
            self.is_running = False
            self.backend.count(running=-1)

    def _run(self, statement: Duck, parameters: Sequence[object]) -> Outcome:
        word = statement.sql.split()[0].upper().strip(";")
        if self.state == "E":
            if word not in ("ROLLBACK", "COMMIT"):
                raise StateError(
                    "25P02",
                    "current transaction is aborted, commands ignored until end of transaction block",
                )
            word, statement = "ROLLBACK", Duck("ROLLBACK", "TRANSACTION", 0, "ROLLBACK")
        if "typeinfo_tree" in statement.sql:
            return Outcome("SELECT", TYPES, _type_rows(parameters[0]))
        if own := self._own(statement, parameters):
            return own
        notices: tuple[Notice, ...] = ()
        if found := re.match(r"\s*create table if not exists (\w+)", statement.sql, re.I):
            self._execute(
                Duck(
                    "SELECT count(*) FROM information_schema.tables WHERE table_name = $1",
                    "",
                    0,
                    "",
                ),
                [found[1]],
            )
            if self.connection.fetchone() == (1,):
                notices = (Notice(f'relation "{found[1]}" already exists, skipping', code="42P07"),)
        self._execute(statement, parameters)
        if statement.kind == "TRANSACTION":
            self.state = "T" if word == "BEGIN" else "I"
            if word != "BEGIN":
                self.cursors.clear()
            return Outcome(word)
        if statement.kind in ("INSERT", "UPDATE", "DELETE"):
            (count,) = self.connection.fetchone() or (0,)
            return Outcome(f"{word} 0 {count}" if word == "INSERT" else f"{word} {count}")
        if statement.kind in ("SELECT", "EXPLAIN"):
            tag = "SELECT" if statement.kind == "SELECT" else "EXPLAIN"
            return Outcome(tag, self._columns(), self._rows(), notices)
        return Outcome(" ".join(statement.sql.split()[:2]).upper(), notices=notices)

    def _own(self, statement: Duck, parameters: Sequence[object]) -> Outcome | None:
        """What DuckDB does not have: cursors, and settings of PostgreSQL."""
        if found := _SET.fullmatch(statement.sql):
            if name := _NAMED.get(found["name"].lower()):
                self.values[name] = found["value"]
            return Outcome("SET")
        if found := _CURSOR.fullmatch(statement.sql):
            inner = self.parse_other(found["query"])[0]
            outcome = self._run(inner, parameters)
            assert outcome.columns is not None
            self.cursors[found["name"]] = outcome.columns, iter(list(outcome.rows))
            return Outcome("DECLARE CURSOR")
        if found := _FETCH.fullmatch(statement.sql):
            columns, rows = self._cursor(found["name"])
            taken = list(
                islice(rows, None if found["count"].upper() == "ALL" else int(found["count"]))
            )
            if found["verb"].upper() == "MOVE":
                return Outcome(f"MOVE {len(taken)}")
            return Outcome("FETCH", columns, taken)
        if found := _CLOSE.fullmatch(statement.sql):
            if found["name"].upper() == "ALL":
                self.cursors.clear()
            else:
                self.cursors.pop(found["name"], None)
            return Outcome("CLOSE CURSOR")
        return Outcome("RESET") if _NOTHING.fullmatch(statement.sql) else None

    def _cursor(self, name: str) -> tuple[tuple[Column, ...], Iterator[Any]]:
        if name not in self.cursors:
            raise StateError("34000", f'cursor "{name}" does not exist')
        return self.cursors[name]

    def cursor(self, name: str) -> tuple[Column, ...] | None:
        found = self.cursors.get(name)
        return found[0] if found else None

    def cancel(self) -> None:
        self.backend.count(cancelled=1)
        self.connection.interrupt()
        threading.Thread(target=self._interrupt, daemon=True).start()

    def _interrupt(self) -> None:
        """Until the statement has ended: DuckDB forgets an interrupt that comes before it begins."""
        while self.is_running:
            self.connection.interrupt()
            time.sleep(0.02)

    def close(self) -> None:
        self.backend.count(closed=1)
        self.connection.close()

    def _execute(self, statement: Duck, parameters: Sequence[object]) -> None:
        given = {str(n + 1): _given(value) for n, value in enumerate(parameters)}
        try:
            self.connection.execute(statement.sql, given or None)
        except duckdb.Error as error:
            raise self._wrong(error, statement) from error

    def _rows(self) -> Iterator[Any]:
        if self.state == "T":  # another statement of the transaction may run before they are taken
            return iter(self.connection.fetchall())
        return self._stream()

    def _stream(self) -> Iterator[Any]:
        while rows := self.connection.fetchmany(1000):
            yield from rows

    def _columns(self) -> tuple[Column, ...]:
        return tuple(Column(d[0], _type(d[1])) for d in self.connection.description or ())

    def _wrong(self, error: duckdb.Error, statement: Duck) -> Exception:
        text = str(error)
        if "{" not in text:
            return SqlError(text)
        told = json.loads(text[text.index("{") :])
        message = told["exception_message"].splitlines()[0]
        place = None
        if (position := told.get("position")) is not None:
            said = statement.sql.encode()[: int(position)].decode(
                errors="ignore"
            )  # it counts bytes
            at = len(said.removeprefix(_PROBE)) + statement.start
            before = statement.whole[:at]
            line = before.count("\n") + 1
            place = Place("<sql>", line, at - (before.rfind("\n") + 1) + 1)
        if told["exception_type"] == "Not implemented":
            return NotSupportedError(message, place=place)
        if told.get("error_subtype") == "COLUMN_NOT_FOUND":
            message = f'column "{told["name"]}" does not exist'
        return SqlError(message, place=place)


def _given(value: object) -> object:
    if isinstance(value, Interval):
        return timedelta(days=30 * value.months + value.days, microseconds=value.microseconds)
    return value


def _named(name: str) -> Type:
    element = name.removesuffix("[]")
    found = t.scalar(element) or Type(element)
    return t.array(found) if name.endswith("[]") else found


def _type(found: Any) -> Type:
    if str(found) == "JSON":
        return t.JSONB
    match found.id:
        case "decimal":
            precision, scale = (int(value) for _, value in found.children)
            return t.numeric(precision, scale)
        case "list" | "array":
            return t.array(_type(found.children[0][1]))
        case "struct":
            return t.struct(*((name, _type(child)) for name, child in found.children))
        case "map":
            return t.map_of(*(_type(child) for _, child in found.children))
    return _SCALARS[found.id]


# What asyncpg asks pg_catalog about arrays, which DuckDB's own does not know.

TYPES = tuple(
    Column(name, type)
    for name, type in [
        ("oid", OID), ("ns", NAME), ("name", NAME), ("kind", CHAR), ("basetype", OID),
        ("elemtype", OID), ("elemdelim", CHAR), ("range_subtype", OID), ("attrtypoids", t.array(OID)),
        ("attrnames", t.array(TEXT)), ("depth", t.INTEGER), ("basetype_name", TEXT),
        ("elemtype_name", TEXT), ("range_subtype_name", TEXT),
    ]
)  # fmt: skip


def _type_rows(oids: Any) -> Iterator[tuple[Any, ...]]:
    for oid in oids:
        element = codec_of(oid).type
        assert isinstance(element, t.ArrayType)
        inner = codec(element.element)
        name = str(element.element)
        yield (
            inner.oid,
            "pg_catalog",
            name,
            "b",
            None,
            0,
            ",",
            None,
            None,
            None,
            1,
            None,
            None,
            None,
        )
        yield (
            oid,
            "pg_catalog",
            "_" + name,
            "b",
            None,
            inner.oid,
            ",",
            None,
            None,
            None,
            0,
            None,
            name,
            None,
        )
