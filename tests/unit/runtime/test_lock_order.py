"""A statement that waits for its turn keeps nobody from writing, and no order of statements ends in a deadlock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from icestream.config import Home
from icestream.engine import Engine
from icestream.errors import SqlError
from icestream.result import Result
from icestream.runtime.transaction import Transaction
from icestream.sql import parse
from icestream.sql import statements as st
from tests.fuzz.served import NoSpark


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(Home.at(tmp_path), env={}, application=NoSpark()) as engine:  # type: ignore[arg-type]
        engine.live = True
        yield engine


@contextmanager
def running_epoch(engine: Engine) -> Iterator[None]:
    """Another thread has the turn."""
    held, over = threading.Event(), threading.Event()

    def run() -> None:
        with engine.turns:
            held.set()
            over.wait(30)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert held.wait(10)
    try:
        yield
    finally:
        over.set()
        thread.join(10)


def start(work: Callable[[], object]) -> threading.Thread:
    def run() -> None:
        with suppress(SqlError):
            work()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def await_waiting(engine: Engine, count: int = 1) -> None:
    pause = threading.Event()
    for _ in range(1000):
        if len(engine.turns._waiting) >= count:
            return
        pause.wait(0.01)
    raise AssertionError("nobody waits for a turn")


@pytest.mark.parametrize(
    "sql",
    ["CREATE TABLE x (a INT)", "DROP TABLE IF EXISTS x", "ALTER TABLE x ADD COLUMN b INT", "PAUSE"],
)
def test_ddl_that_waits_behind_an_epoch_blocks_no_write(engine: Engine, sql: str) -> None:
    ran = threading.Event()
    engine.statements._run_all = lambda *_: ran.set() or []  # type: ignore[method-assign,func-returns-value]
    with running_epoch(engine):
        ddl = start(lambda: engine.statements.run_in_turn(parse(sql, "", {}), lambda result: None))
        await_waiting(engine)
        written = threading.Event()

        def write() -> None:
            with engine.writes.lock:
                written.set()

        start(write)
        assert written.wait(5), "a write waits for the epoch"
        assert not ran.is_set()
    ddl.join(10)
    assert ran.is_set()


def test_a_write_that_is_repeated_and_ddl_wait_for_each_other_in_one_order(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An UPDATE that lost a race is run again while others wait; it needs a turn, and so does DDL."""
    engine.statements._run_all = lambda *_: []  # type: ignore[method-assign]
    runs: list[int] = []

    class Log:
        pass

    class Changing:
        def __init__(self, *arguments: object) -> None:
            pass

        def run(self, statement: object) -> Result:
            with engine.turns:  # it waits until writes are visible
                runs.append(1)
            return Result()

    commits: list[int] = []

    def commit(transaction: Transaction) -> None:
        commits.append(1)
        if len(commits) % 2:
            raise SqlError("could not serialize access", code="40001")

    monkeypatch.setattr("icestream.runtime.dml.Changing", Changing)
    monkeypatch.setattr(engine._changes, "commit", commit)
    monkeypatch.setattr(engine.resources, "session", object())
    pipeline = type("P", (), {"lake": type("L", (), {"dml": Log()})(), "close": lambda self: None})
    monkeypatch.setattr(engine.resources, "opened", pipeline())
    (update,) = parse("UPDATE t SET a = 1", "", {})
    assert isinstance(update, st.Update)
    ddl = parse("DROP TABLE IF EXISTS x", "", {})
    threads = []
    with running_epoch(engine):
        for _ in range(10):
            threads.append(start(lambda: engine._changes.change(update, None)))
            threads.append(start(lambda: engine.statements.run_in_turn(ddl, lambda result: None)))
        await_waiting(engine, 20)
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads), "a deadlock"
    monkeypatch.setattr(engine.resources, "session", None)
