"""A statement is parsed once, however it is prepared, described and run; a held plan follows the catalog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icestream.config import Home
from icestream.engine import Engine
from icestream.engine.home_writes import HomeWrites
from icestream.errors import SqlError
from icestream.plan import query as plan_query
from icestream.runtime.dml import LOST, Changing
from icestream.runtime.transaction import Transaction
from icestream.server import messages as m
from icestream.server import session as server_session
from icestream.server.backend import Client
from icestream.server.connection import Connection
from icestream.server.service import Service
from icestream.sql.dialect import Dialect
from icestream.types import arrow_type
from tests.unit.server.test_connection import tags

UPDATE = b"UPDATE t SET v = $1 WHERE id = $2"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(Home.at(tmp_path / "home")) as engine:
        engine.plan("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        yield engine


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a text was cut into tokens, and a query was bound."""
    counted: Counter[str] = Counter()

    def count(owner: Any, name: str, what: str) -> None:
        whole = getattr(owner, name)

        def counting(*args: Any, **options: Any) -> Any:
            counted[what] += 1
            return whole(*args, **options)

        monkeypatch.setattr(owner, name, counting)

    count(Dialect, "tokenize", "texts")
    count(server_session, "bind_query", "binds")
    return counted


def connect(engine: Engine) -> Connection:
    client = Client("root", "dev")
    return Connection(Service(engine).open(client), client)


def answer(connection: Connection, *messages: m.Message) -> bytes:
    return b"".join(connection.answer([*messages, m.Sync()]))


def test_a_query_is_parsed_and_bound_once(engine: Engine, counts: Counter[str]) -> None:
    connection = connect(engine)
    assert tags(b"".join(connection.answer([m.Query(b"SELECT 1+1")]))) == ["SELECT 1"]
    assert counts == {"texts": 1, "binds": 1}
    counts.clear()
    answer(connection, m.Parse("s", b"SELECT 1+1", ()))
    for _ in range(3):
        done = answer(connection, m.Bind("", "s", (), (), ()), m.Execute("", 0))
        assert tags(done) == ["SELECT 1"]
    assert counts == {"texts": 1, "binds": 1}


def test_a_prepared_update_is_parsed_once(
    engine: Engine, counts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_rows(self: Changing, table: object, node: plan_query.Node) -> pa.Table:
        wanted = [c for c in node.columns if not c.name.startswith(LOST)]
        return pa.schema([(c.name, arrow_type(c.type)) for c in wanted]).empty_table()

    def change(self: HomeWrites, statement: Any, transaction: object) -> Any:
        spark: Any = None
        log: Any = None
        return Changing(engine.catalog, spark, log, Transaction(), lambda k: None).run(statement)

    monkeypatch.setattr(Changing, "_rows", no_rows)
    monkeypatch.setattr(HomeWrites, "change", change)
    connection = connect(engine)
    answer(connection, m.Parse("s", UPDATE, ()))
    for value in (b"1", b"2", b"3"):
        done = answer(connection, m.Bind("", "s", (), (value, b"7"), ()), m.Execute("", 0))
        assert tags(done) == ["UPDATE 0"]
    assert counts["texts"] == 1


def test_a_held_plan_ends_with_the_objects_that_it_was_bound_to(engine: Engine) -> None:
    session = Service(engine).open(Client("root", "dev"))
    engine.execute("CREATE VIEW v AS SELECT 1 AS a")
    (statement,) = session.parse("SELECT a FROM v")
    description = session.describe(statement, [])
    assert list(session.run(statement, (), description).rows) == [(1,)]
    engine.execute("DROP VIEW v")
    with pytest.raises(SqlError, match="v"):
        session.run(statement, (), description)
    engine.execute("CREATE VIEW v AS SELECT 2 AS a")
    assert list(session.run(statement, (), description).rows) == [(2,)]
