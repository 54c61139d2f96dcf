"""A conversation without a socket: messages in, bytes out."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icestream import types as t
from icestream.errors import LakeError, Place, SqlError
from icestream.server import messages as m
from icestream.server.backend import (
    Client,
    Column,
    Description,
    Notice,
    Outcome,
    StateError,
    Transaction,
)
from icestream.server.connection import PIECE, Connection
from icestream.types import Type
from tests.unit.server import frames
from tests.unit.server.frames import SYNC, bind, close, cut, describe, execute, kinds, parse, query
from tests.unit.server.quiet import QuietSession

NUMBER = (Column("n", t.INTEGER),)


class Rows:
    """Rows that know how many were taken, and whether they were closed."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.taken = 0
        self.closed = False

    def __iter__(self) -> Iterator[tuple[int]]:
        while self.taken < self.left:
            self.taken += 1
            yield (self.taken,)

    def close(self) -> None:
        self.closed = True


class Script(QuietSession):
    """A session that knows a few words: `rows 3`, `echo $1`, `note`, `fail`, `set zone x`, `begin`, `end`."""

    def __init__(self) -> None:
        self.state: Transaction = "I"
        self.values: dict[str, str] = {}
        self.rows: list[Rows] = []
        self.type: Type = t.INTEGER
        self.closed = self.cancelled = 0

    @property
    def transaction(self) -> Transaction:
        return self.state

    @property
    def settings(self) -> Mapping[str, str]:
        return self.values

    def parse_other(self, sql: str) -> list[str]:
        found = [part.strip() for part in sql.split(";") if part.strip()]
        if "wrong" in sql:
            at = sql.index("wrong")
            line = sql.count("\n", 0, at) + 1
            column = at - (sql.rfind("\n", 0, at) + 1) + 1
            raise SqlError("this is wrong", place=Place("x", line, column), remedy="write right")
        return found

    def describe_other(self, statement: str, parameters: Sequence[Type | None]) -> Description:
        count = len(set(re.findall(r"\$\d", statement)))
        types = tuple((*parameters, *[None] * count)[n] or t.INTEGER for n in range(count))
        columns = (Column("n", self.type),)
        return Description(
            types, columns if statement.split()[0] in ("rows", "echo", "odd") else None
        )

    def run_other(self, statement: str, parameters: Sequence[object]) -> Outcome:
        match statement.split():
            case ["rows", count]:
                self.rows.append(Rows(int(count)))
                return Outcome("SELECT", NUMBER, self.rows[-1])
            case ["echo", _]:
                return Outcome("SELECT", (Column("n", self.type),), [tuple(parameters)])
            case ["rows", count, "then", "fail"]:
                return Outcome("SELECT", NUMBER, (self._broken(n) for n in range(int(count) + 1)))
            case ["odd"]:
                return Outcome("SELECT", (Column("n", t.VARCHAR),), [("x",)])
            case ["note"]:
                return Outcome("NOTE", notices=(Notice("mind the gap", hint="step"),))
            case ["set", "zone", zone]:
                self.values["TimeZone"] = zone
                return Outcome("SET")
            case ["begin"]:
                self.state = "T"
                return Outcome("BEGIN")
            case ["end"]:
                self.state = "I"
                return Outcome("COMMIT")
            case ["bug"]:
                raise RuntimeError("password=hunter2")
        raise StateError("42P01", 'relation "x" does not exist', detail="none")

    def _broken(self, number: int) -> tuple[int]:
        if number == 2:
            raise LakeError("a file is missing")
        return (number,)

    def cursor(self, name: str) -> tuple[Column, ...] | None:
        return NUMBER if name == "declared" else None

    def cancel(self) -> None:
        self.cancelled += 1

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def connection(script: Script) -> Connection:
    found = Connection(script, Client("root", "dev", {"application_name": "test"}))
    found.greeting(1, 2)
    return found


def say(connection: Connection, *data: bytes) -> bytes:
    buffer = bytearray(b"".join(data))
    batch = []
    while message := m.message(buffer):
        batch.append(message)
    return b"".join(connection.answer(batch))


def rows(data: bytes) -> list[Any]:
    return [frames.values(body)[0] for kind, body in cut(data) if kind == "D"]


def tags(data: bytes) -> list[str]:
    return [body[:-1].decode() for kind, body in cut(data) if kind == "C"]


def test_the_greeting(script: Script) -> None:
    script.values = {"TimeZone": "Asia/Kolkata"}
    connection = Connection(
        script, Client("root", "dev", {"timezone": "UTC", "application_name": "a"})
    )
    greeting = cut(connection.greeting(7, 9))
    statuses = dict(body.decode().split("\0")[:2] for kind, body in greeting if kind == "S")
    assert statuses["server_version"] == "13.14.0"
    assert statuses["client_encoding"] == "UTF8"
    assert statuses["standard_conforming_strings"] == "on"
    assert statuses["TimeZone"] == "Asia/Kolkata"
    assert statuses["application_name"] == "a"
    assert greeting[-2:] == [("K", struct.pack("!ii", 7, 9)), ("Z", b"I")]


@pytest.mark.parametrize("encoding", ["UTF8", "utf-8", "'UTF8'", "SQL_ASCII", "unicode"])
def test_encodings(script: Script, encoding: str) -> None:
    Connection(script, Client("root", "dev", {"client_encoding": encoding}))


def test_another_encoding(script: Script) -> None:
    with pytest.raises(SqlError, match="latin1"):
        Connection(script, Client("root", "dev", {"client_encoding": "LATIN1"}))


def test_a_simple_query(connection: Connection, script: Script) -> None:
    answer = say(connection, query("rows 2; note; rows 0"))
    assert kinds(answer) == "TDDCNCTCZ"
    assert tags(answer) == ["SELECT 2", "NOTE", "SELECT 0"]
    assert rows(answer) == [b"1", b"2"]
    assert all(one.closed for one in script.rows)
    notice = frames.fields(cut(answer)[4][1])
    assert (notice["M"], notice["H"], notice["S"]) == ("mind the gap", "step", "NOTICE")


def test_an_empty_query(connection: Connection) -> None:
    assert kinds(say(connection, query(""), query(" ; "))) == "IZIZ"


def test_an_error_ends_the_rest(connection: Connection) -> None:
    answer = say(connection, query("rows 1; fail; rows 1"), query("rows 1"))
    assert kinds(answer) == "TDCEZTDCZ"
    (error,) = frames.errors(answer)
    assert error == {
        "S": "ERROR",
        "V": "ERROR",
        "C": "42P01",
        "M": 'relation "x" does not exist',
        "D": "none",
    }


def test_an_error_between_rows(connection: Connection) -> None:
    assert kinds(say(connection, query("rows 2 then fail; rows 1"))) == "TEZ"
    assert kinds(say(connection, query("copy (rows 2 then fail) to stdout"))) == "HddEZ"
    assert kinds(say(connection, query("rows 1"))) == "TDCZ"


def test_the_position_of_an_error(connection: Connection) -> None:
    (error,) = frames.errors(say(connection, query("rows 1;\n  é wrong")))
    assert error["P"] == str(len("rows 1;\n  é ") + 1)
    assert error["H"] == "write right"
    assert error["C"] == "42601"
    for data in (parse("é wrong"), query("copy (é wrong) to stdout")):
        (error,) = frames.errors(say(connection, data, SYNC))
        assert error["P"] == ("3" if data[:1] == b"P" else "9")


def test_a_mistake_of_ours_tells_nothing(connection: Connection) -> None:
    answer = say(connection, query("bug"))
    assert frames.errors(answer)[0]["C"] == "XX000"
    assert b"hunter2" not in answer


def test_a_text_that_is_no_text(connection: Connection) -> None:
    answer = say(connection, frames.frame(b"Q", b"\xff\0"), query("rows 1"))
    assert frames.errors(answer)[0]["C"] == "22021"
    assert kinds(answer) == "EZTDCZ"


def test_the_extended_protocol(connection: Connection) -> None:
    steps = parse("echo $1"), describe("S"), bind(b"7"), describe("P"), execute(), SYNC
    answer = say(connection, *steps)
    assert kinds(answer) == "1tT2TDCZ"
    assert rows(answer) == [b"7"]
    binary = bind(struct.pack("!i", 8), formats=(1,), results=(1,))
    answer = say(connection, parse("echo $1"), binary, execute(), SYNC)
    assert rows(answer) == [struct.pack("!i", 8)]


def test_declared_types_are_told_back(connection: Connection) -> None:
    answer = cut(say(connection, parse("echo $1", types=(20,)), describe("S"), SYNC))
    assert answer[1] == ("t", struct.pack("!hI", 1, 20))
    answer = cut(say(connection, parse("echo $1", types=(705,)), describe("S"), SYNC))
    assert answer[1] == ("t", struct.pack("!hI", 1, 23))
    answer = say(connection, parse("echo $1", types=(4711,)), SYNC)
    assert frames.errors(answer)[0]["C"] == "42704"


def test_after_an_error_everything_is_skipped_until_sync(connection: Connection) -> None:
    steps = parse("fail"), bind(), execute(), parse("rows 1"), query("rows 1"), SYNC
    assert kinds(say(connection, *steps)) == "12EZ"
    assert kinds(say(connection, parse("rows 1"), bind(), execute(), SYNC)) == "12DCZ"


def test_a_portal_in_pieces(connection: Connection, script: Script) -> None:
    start = parse("rows 5"), bind(portal="p"), execute("p", 2)
    answer = say(connection, *start)
    assert kinds(answer) == "12DDs"
    assert script.rows[0].taken == 2
    assert kinds(say(connection, execute("p", 2))) == "DDs"
    answer = say(connection, execute("p", 2))
    assert tags(answer) == ["SELECT 1"]
    assert tags(say(connection, execute("p", 2), SYNC)) == ["SELECT 0"]
    assert script.rows[0].closed
    assert frames.errors(say(connection, execute("p"), SYNC))[0]["C"] == "34000"


def test_portals_live_as_long_as_their_transaction(connection: Connection, script: Script) -> None:
    say(connection, query("begin"))
    say(connection, parse("rows 5"), bind(portal="p"), execute("p", 2), SYNC)
    answer = say(connection, execute("p", 2), SYNC)
    assert rows(answer) == [b"3", b"4"]
    assert cut(answer)[-1] == ("Z", b"T")
    assert not script.rows[0].closed
    say(connection, query("end"))
    assert script.rows[0].closed


def test_a_statement_without_rows_runs_once(connection: Connection) -> None:
    for sql in ("note", "copy (rows 1) to stdout"):
        answer = say(connection, parse(sql), bind(), execute(), execute(), SYNC)
        assert frames.errors(answer)[0]["C"] == "55000"


def test_rows_that_cannot_be_closed(connection: Connection, script: Script) -> None:
    def fail() -> None:
        raise RuntimeError

    say(connection, parse("rows 3"), bind(), execute("", 1))
    script.rows[0].close = fail  # type: ignore[method-assign]
    assert kinds(say(connection, SYNC)) == "Z"


def test_names(connection: Connection) -> None:
    answer = say(connection, parse("rows 1", "s"), parse("rows 1", "s"), SYNC)
    assert frames.errors(answer)[0]["C"] == "42P05"
    answer = say(connection, bind(portal="p", name="s"), bind(portal="p", name="s"), SYNC)
    assert frames.errors(answer)[0]["C"] == "42P03"
    assert (
        kinds(say(connection, close("S", "s"), close("S", "s"), close("P", "none"), SYNC)) == "333Z"
    )
    for step in (bind(name="s"), describe("S", "s")):
        assert frames.errors(say(connection, step, SYNC))[0]["C"] == "26000"
    assert frames.errors(say(connection, describe("P", "s"), SYNC))[0]["C"] == "34000"


def test_a_declared_cursor_can_be_described(connection: Connection) -> None:
    assert kinds(say(connection, describe("P", "declared"), SYNC)) == "TZ"


def test_deallocate(connection: Connection) -> None:
    say(connection, parse("rows 1", "s"), parse("rows 1", "t"), parse("rows 1", "U"), SYNC)
    assert (
        tags(say(connection, query("DEALLOCATE S"), query('deallocate prepare "U";')))
        == ["DEALLOCATE"] * 2
    )
    assert kinds(say(connection, describe("S", "t"), describe("S", "U"), SYNC)) == "tTEZ"
    assert tags(say(connection, parse("deallocate all"), bind(), execute(), SYNC)) == [
        "DEALLOCATE ALL"
    ]
    assert kinds(say(connection, describe("S", "t"), SYNC)) == "EZ"
    assert frames.errors(say(connection, query("deallocate nothing")))[0]["C"] == "26000"


def test_binding(connection: Connection) -> None:
    say(connection, parse("echo $1", "s"), SYNC)
    for step, code in (
        (bind(name="s"), "08P01"),
        (bind(b"1", name="s", formats=(0, 0)), "08P01"),
        (bind(b"1", name="s", formats=(2,)), "22023"),
        (bind(b"1", name="s", results=(0, 0)), "08P01"),
        (bind(b"x", name="s"), "22P02"),
        (bind(b"x", name="s", formats=(1,)), "22P03"),
    ):
        assert frames.errors(say(connection, step, SYNC))[0]["C"] == code
    assert rows(say(connection, bind(None, name="s"), execute(), SYNC)) == [None]


def test_no_data_and_the_empty_statement(connection: Connection) -> None:
    assert (
        kinds(say(connection, parse("note"), describe("S"), bind(), describe("P"), execute(), SYNC))
        == "1tn2nNCZ"
    )
    assert (
        kinds(say(connection, parse(""), describe("S"), bind(), describe("P"), execute(), SYNC))
        == "1tn2nIZ"
    )
    assert frames.errors(say(connection, parse("note; note"), SYNC))[0]["C"] == "42601"


def test_a_result_that_changed(connection: Connection) -> None:
    answer = say(connection, parse("odd"), bind(), execute(), SYNC)
    assert frames.errors(answer)[0]["M"] == "cached plan must not change result type"
    assert kinds(say(connection, query("odd"))) == "TDCZ"


def test_settings_that_change_are_told(connection: Connection, script: Script) -> None:
    answer = cut(say(connection, query("set zone Asia/Kolkata")))
    assert ("S", b"TimeZone\0Asia/Kolkata\0") in answer
    assert kinds(say(connection, query("set zone Asia/Kolkata"))) == "CZ"
    script.type = t.TIMESTAMPTZ
    steps = parse("echo $1", types=(1184,)), bind(b"2026-01-01 00:00"), execute(), SYNC
    answer = say(connection, *steps)
    assert rows(answer) == [b"2026-01-01 00:00:00+05:30"]
    say(connection, query("set zone Nowhere/Land"))


def test_rows_are_taken_as_they_are_sent(connection: Connection, script: Script) -> None:
    pieces = connection.answer([m.Query(b"rows 1000000")])
    first = next(pieces)
    assert PIECE <= len(first) < 2 * PIECE
    assert script.rows[0].taken < 10_000
    pieces.close()
    assert script.rows[0].closed
    assert script.rows[0].taken < 10_000


def test_cancel_between_pieces(connection: Connection, script: Script) -> None:
    pieces = connection.answer([m.Query(b"rows 1000000"), m.Query(b"rows 1")])
    next(pieces)
    connection.cancel()
    rest = b"".join(pieces)
    assert frames.errors(rest)[0]["C"] == "57014"
    assert kinds(rest).endswith("EZTDCZ")
    assert script.cancelled == 1


def test_copy(connection: Connection) -> None:
    answer = say(connection, query("copy (rows 2) to stdout"))
    assert kinds(answer) == "HddcCZ"
    assert [body for kind, body in cut(answer) if kind == "d"] == [b"1\n", b"2\n"]
    assert tags(answer) == ["COPY 2"]
    answer = say(
        connection,
        parse("copy (rows 1) to stdout (format binary)"),
        describe("S"),
        bind(),
        execute(),
        SYNC,
    )
    assert kinds(answer) == "1tn2HddcCZ"
    data = b"".join(body for kind, body in cut(answer) if kind == "d")
    assert data == b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\0\1\0\0\0\4\0\0\0\1\xff\xff"
    assert kinds(say(connection, query("copy (rows 1) to stdout csv header"))) == "HddcCZ"
    for sql, code in (
        ("copy (note) to stdout", "42601"), ("copy t from stdin", "0A000"), ("copy (rows 1; rows 2) to stdout", "42601"),
    ):  # fmt: skip
        assert frames.errors(say(connection, query(sql)))[0]["C"] == code
    assert kinds(say(connection, frames.frame(b"d", b"1"), frames.frame(b"c"), query(""))) == "IZ"


def test_function_calls_are_refused(connection: Connection) -> None:
    answer = say(connection, frames.frame(b"F", bytes(10)), query("rows 1"))
    assert kinds(answer) == "EZTDCZ"


def test_a_password_out_of_turn_is_the_end(connection: Connection) -> None:
    answer = say(connection, frames.frame(b"p", b"x"), query("rows 1"))
    assert kinds(answer) == "E"
    assert frames.errors(answer)[0]["S"] == "FATAL"
    assert connection.over


def test_good_bye(connection: Connection, script: Script) -> None:
    assert say(connection, frames.TERMINATE, query("rows 1")) == b""
    assert connection.over
    connection.close()
    assert script.closed == 1


def test_answers_are_sent_as_they_are_ready(connection: Connection) -> None:
    pieces = list(
        connection.answer(
            [m.Query(b"rows 1"), m.Parse("", b"rows 1", ()), m.Flush(), m.Query(b"note")]
        )
    )
    assert [kinds(piece) for piece in pieces] == ["TDCZ", "1", "NCZ"]


STEPS = st.sampled_from([
    query("rows 1; note"), query("fail"), query(""), query("copy (rows 2) to stdout"), query("begin"), query("end"),
    parse("rows 3"), parse("rows 3", "s"), parse("echo $1", "e"), parse("wrong"), bind(), bind(name="s", portal="p"),
    bind(b"1", name="e"), bind(b"x", name="e"), describe("S"), describe("P", "p"), describe("S", "e"), execute(),
    execute("p", 1), close("S", "s"), close("P", "p"), SYNC, SYNC, frames.FLUSH, frames.frame(b"F"), frames.frame(b"d"),
])  # fmt: skip


@given(st.lists(STEPS, max_size=30))
def test_every_question_gets_its_ready_for_query(steps: list[bytes]) -> None:
    script = Script()
    connection = Connection(script, Client("root", "dev"))
    connection.greeting(1, 2)
    skipping = False
    for step in steps:
        answer = kinds(say(connection, step))
        if step == SYNC:
            skipping = False
            assert answer == "Z"
        elif skipping:
            assert answer == ""
        elif step[:1] in b"QF":
            assert answer.endswith("Z")
            assert answer.count("Z") == 1
        else:
            assert "Z" not in answer
            skipping = "E" in answer
    say(connection, SYNC, query("end"))
    connection.close()
    assert all(one.closed for one in script.rows)
