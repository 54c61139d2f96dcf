"""Implicit transactions of the extended protocol: statements up to a Sync are committed together, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from icestream.catalog.objects import Table
from icestream.lake.dml_log import TableChanges
from icestream.runtime.transaction import Transaction
from icestream.server.backend import Client, Notice, Outcome, StateError
from icestream.server.backend import Transaction as State
from icestream.server.connection import Connection
from icestream.server.transactions import TransactionBlock
from icestream.sql import parse_client_text
from icestream.sql.session_statements import TransactionStatement
from tests.unit.server import frames
from tests.unit.server.frames import FLUSH, SYNC, bind, cut, execute, kinds, parse, query
from tests.unit.server.test_connection import Script, say, tags


class Writer(Script):
    """A session that writes: `put` adds a change. It keeps how many changes were committed at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[int] = []
        self.refuses = False
        self.block = TransactionBlock(self._commit)

    def _commit(self, transaction: Transaction) -> None:
        if self.refuses:
            raise StateError("40001", "could not serialize access")
        if transaction.changes:
            self.commits.append(len(transaction.changes))

    @property
    def transaction(self) -> State:
        return self.block.state

    def start_text(self) -> None:
        self.block.start_text()

    def end_text(self) -> tuple[Notice, ...]:
        self.block.end_text()
        return (Notice("done"),)

    def fail(self) -> None:
        self.block.fail()

    def close(self) -> None:
        self.block.discard()

    def run_other(self, statement: str, parameters: Sequence[object]) -> Outcome:
        is_control = statement.split()[0].lower() in ("begin", "commit", "end", "rollback")
        (parsed,) = parse_client_text(statement if is_control else "SELECT 1")
        self.block.check(parsed)
        if isinstance(parsed, TransactionStatement):
            return self.block.run(parsed)
        if statement == "ddl":
            self.block.settle_text()
            return Outcome("CREATE TABLE")
        if statement != "put":
            return super().run_other(statement, parameters)
        change = (cast(Table, None), cast(TableChanges, None))
        if (changes := self.block.changes) is not None:
            changes.changes.append(change)
        else:
            self._commit(Transaction([change]))
        return Outcome("INSERT 0 1")


@pytest.fixture
def writer() -> Writer:
    return Writer()


@pytest.fixture
def connection(writer: Writer) -> Connection:
    made = Connection(writer, Client("root", "dev"))
    made.greeting(1, 2)
    return made


def step(statement: str) -> bytes:
    return parse(statement) + bind() + execute()


def test_executes_up_to_sync_are_one_transaction(connection: Connection, writer: Writer) -> None:
    data = say(connection, step("put"), step("put"))
    assert (tags(data), writer.commits) == (["INSERT 0 1"] * 2, [])
    data = say(connection, step("put"), SYNC)
    assert (kinds(data), writer.commits) == ("12CNZ", [3])
    say(connection, step("put"), step("put"), SYNC, step("put"), step("put"), SYNC)
    assert writer.commits == [3, 2, 2]


def test_an_error_discards_all_up_to_sync(connection: Connection, writer: Writer) -> None:
    say(connection, step("put"), step("put"), FLUSH)
    for wrong in (step("fail"), parse("wrong"), bind(name="nothing"), execute("nothing")):
        data = say(connection, step("put"), wrong, step("put"), SYNC)
        assert (kinds(data)[-2:], writer.commits) == ("EZ", [])
    say(connection, step("put"), step("put"), SYNC)
    assert writer.commits == [2]


def test_a_single_execute_is_committed_at_once(connection: Connection, writer: Writer) -> None:
    data = say(connection, step("put"), SYNC)
    assert (kinds(data), writer.commits) == ("12CZ", [1])  # no end of a text, so no further notice
    say(connection, step("put"), frames.close("P", ""), SYNC)
    assert writer.commits == [1, 1]


def test_a_failing_commit_comes_before_ready(connection: Connection, writer: Writer) -> None:
    writer.refuses = True
    data = say(connection, step("put"), step("put"), SYNC)
    assert kinds(data) == "12C12CEZ"
    assert frames.errors(data)[0]["C"] == "40001"
    assert cut(data)[-1][1] == b"I"
    writer.refuses = False
    say(connection, step("put"), step("put"), SYNC)
    assert writer.commits == [2]


def test_a_lost_client_commits_nothing(connection: Connection, writer: Writer) -> None:
    say(connection, step("put"), step("put"), FLUSH)
    connection.close()
    assert writer.commits == []


def test_control_statements_in_a_pipeline(connection: Connection, writer: Writer) -> None:
    def run(*statements: str) -> bytes:
        return say(connection, *map(step, statements), SYNC)

    assert cut(run("put", "BEGIN", "put"))[-1][1] == b"T"
    assert writer.commits == []
    assert cut(run("put", "COMMIT", "put", "put"))[-1][1] == b"I"
    assert writer.commits == [3, 2]
    run("put", "ROLLBACK", "put")
    assert writer.commits == [3, 2, 1]
    run("put", "COMMIT", "fail")
    assert writer.commits == [3, 2, 1, 1]
    run("BEGIN", "put", "ROLLBACK", "put", "put", "fail")
    assert writer.commits == [3, 2, 1, 1]
    run("put", "ddl", "put", "put")
    assert writer.commits == [3, 2, 1, 1, 1, 2]


def test_a_text_continues_the_transaction_of_executes(
    connection: Connection, writer: Writer
) -> None:
    say(connection, step("put"), step("put"), query("put"))
    assert writer.commits == [3]
    say(connection, query("put; put; ROLLBACK; put"), query("put; COMMIT; put; put; fail"))
    assert writer.commits == [3, 1, 1]
