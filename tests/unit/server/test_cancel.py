"""Every way to end a statement × every wait that needs no JVM: the client is answered in time, and the server goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from icestream import interrupts
from icestream.config import Home
from icestream.engine import Engine
from icestream.plan.logical import ONE_ROW, Node, walk
from icestream.server import session as session_module
from icestream.server.listener import Listener
from icestream.server.service import Service
from icestream.sql import parse
from tests.cancels import CANCELS, LIMIT, Served, end_statement

ENDLESS = """
    SELECT count(*) FROM pg_catalog.pg_type AS a, pg_catalog.pg_type AS b, pg_catalog.pg_type AS c, pg_catalog.pg_type AS d,
    pg_catalog.pg_type AS e, pg_catalog.pg_type AS f
"""


@dataclass
class Stage:
    """A server, and what a test needs to make statements wait."""

    served: Served
    engine: Engine
    monkeypatch: pytest.MonkeyPatch
    stack: ExitStack


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with Engine(Home.at(tmp_path / "home")) as engine, ExitStack() as stack:
        service = Service(engine)
        listener = stack.enter_context(Listener(service, port=0))
        host, port = listener.address
        url = f"host={host} port={port} user=root dbname=dev connect_timeout=10"
        with stack.pop_all() as held:
            yield Stage(Served(url, listener), engine, monkeypatch, held)


def hold_turn(stage: Stage) -> str:
    """Somebody else has the turn."""
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with stage.engine.turns:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    stage.stack.callback(thread.join)
    stage.stack.callback(done.set)
    thread.start()
    assert held.wait(10)
    return "SET background_ddl = true"


def plan_forever(stage: Stage) -> str:
    """Planning makes ever more nodes."""

    def bind(*_: object) -> Node:
        while True:
            list(walk(ONE_ROW))

    stage.monkeypatch.setattr(session_module, "bind_query", bind)
    return "SELECT 1"


def hang(stage: Stage) -> str:
    """A call that cannot be interrupted, as into a JVM that analyses a query."""
    done = threading.Event()
    stage.stack.callback(done.set)

    def bind(*_: object) -> Node:
        done.wait(60)
        raise AssertionError("it was left behind")

    stage.monkeypatch.setattr(session_module, "bind_query", bind)
    return "SELECT 1"


def ask_system(stage: Stage) -> str:
    """DuckDB runs a query over the system relations."""
    return ENDLESS


WAITS: tuple[Callable[[Stage], str], ...] = (hold_turn, plan_forever, hang, ask_system)


@pytest.mark.parametrize("cancel", CANCELS)
@pytest.mark.parametrize("wait", WAITS)
def test_cancels_end_any_wait(stage: Stage, wait: Callable[[Stage], str], cancel: str) -> None:
    sql = wait(stage)
    seconds = end_statement(stage.served, sql, cancel)
    assert seconds < LIMIT
    if cancel == "stop":
        return
    stage.monkeypatch.undo()
    with stage.served.connect() as client:
        assert client.execute("SELECT 41 + 1").fetchone() == (42,)


def test_describe_is_cancelled(stage: Stage) -> None:
    sql = plan_forever(stage)
    assert end_statement(stage.served, sql, "cancel", prepared=True) < LIMIT


def test_a_cancelled_statement_changes_nothing(stage: Stage) -> None:
    """It waits for its turn, is cancelled, and is left behind; then its turn comes."""
    hold_turn(stage)
    assert end_statement(stage.served, "SET background_ddl = true", "cancel") < LIMIT
    stage.stack.close()
    assert stage.engine.store.settings() == {}


def test_creations_are_planned_before_their_turn(stage: Stage) -> None:
    """So planning holds nobody up, and what is wrong is found without waiting."""
    hold_turn(stage)
    stage.engine.live = True
    with stage.served.connect() as client, pytest.raises(errors.UndefinedTable):
        client.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM nowhere")


def test_what_was_planned_ahead_is_planned_again_if_anything_changed(tmp_path: Path) -> None:
    with Engine(Home.at(tmp_path / "home")) as engine:
        catalog = engine.catalog
        (first, second, third) = parse(
            "CREATE VIEW a AS SELECT 1 AS x; CREATE VIEW b AS SELECT 2 AS x; CREATE VIEW b AS SELECT 3 AS x",
            "",
            {},
        )
        with catalog.examine_ahead(second), catalog.examine_ahead(third):
            catalog.learn(catalog.examine(first))
            change = catalog.examine(second)
            assert change.object.id == catalog.objects["a"].id + 1
            catalog.learn(change)
            assert catalog.examine(third).difference
        with catalog.examine_ahead(third):
            assert catalog.examine(third) is not catalog.examine(third)
        with catalog.examine_ahead(first):
            ahead = catalog._ahead[id(first)].change
            assert catalog.examine(first) is ahead


@pytest.mark.parametrize("sql", [
    " UNION ALL ".join(f"SELECT {n} + a AS a FROM x" for n in range(300)),
    "SELECT a FROM x WHERE a IN (" + ", ".join(map(str, range(20_000))) + ")",
])  # fmt: skip
def test_parsing_and_planning_stop_by_themselves(tmp_path: Path, sql: str) -> None:
    """Not only does the client have its answer: the statement takes no more time of the others either."""
    with Engine(Home.at(tmp_path / "home")) as engine:
        (x,) = parse("CREATE VIEW x AS SELECT 1 AS a", "", {})
        engine.catalog.learn(engine.catalog.examine(x))
        interrupt = interrupts.Interrupt()
        cancelled: list[float] = []

        def cancel() -> None:
            cancelled.append(time.monotonic())
            interrupt.cancel()

        timer = threading.Timer(0.1, cancel)
        timer.start()
        with interrupt.bound(), pytest.raises(interrupts.StatementCancelledError):
            engine.plan(f"CREATE MATERIALIZED VIEW v AS {sql}")
        assert time.monotonic() - cancelled[0] < LIMIT


def test_a_cancel_that_comes_too_late_is_ignored() -> None:
    interrupt = interrupts.Interrupt()
    with interrupt.bound():
        interrupts.commit()
        assert not interrupt.cancel()
        interrupts.check()
    other = interrupts.Interrupt()
    assert other.cancel()
    with other.bound(), pytest.raises(interrupts.StatementCancelledError):
        interrupts.commit()


def test_cancel_and_commit_never_both_win() -> None:
    for _ in range(300):
        interrupt, committed = interrupts.Interrupt(), []
        start = threading.Barrier(2)

        def run() -> None:
            start.wait()  # noqa: B023
            with interrupt.bound():  # noqa: B023
                try:
                    interrupts.commit()
                    committed.append(True)  # noqa: B023
                except interrupts.StatementCancelledError:
                    pass

        thread = threading.Thread(target=run)
        thread.start()
        start.wait()
        cancelled = interrupt.cancel()
        thread.join()
        assert cancelled != bool(committed)


# -- statement_timeout ---------------------------------------------------------------------------


def test_the_timeout_is_the_sessions_own(stage: Stage) -> None:
    plan_forever(stage)
    with stage.served.connect(options="-c statement_timeout=150ms") as client:
        assert client.execute("SHOW statement_timeout").fetchone() == ("150ms",)
        for _ in range(2):
            with pytest.raises(errors.QueryCanceled, match="statement timeout"):
                client.execute("SELECT 1")
        client.execute("SET statement_timeout = '2min'")
        assert client.execute("SHOW statement_timeout").fetchone() == ("2min",)
        client.execute("RESET statement_timeout")
        assert client.execute("SHOW statement_timeout").fetchone() == ("150ms",)
        client.execute("SET statement_timeout TO DEFAULT")
        with pytest.raises(errors.QueryCanceled):
            client.execute("SELECT 1")
    with stage.served.connect() as client:
        assert client.execute("SHOW statement_timeout").fetchone() == ("0",)
        client.execute("SET statement_timeout = 100")
        with pytest.raises(errors.QueryCanceled):
            client.execute("SELECT 1")
        client.execute("SET statement_timeout = 0")
        client.execute("BEGIN")
        client.execute("SET LOCAL statement_timeout = 120")
        with pytest.raises(errors.QueryCanceled):
            client.execute("SELECT 1")
        with pytest.raises(errors.InFailedSqlTransaction):
            client.execute("SELECT 1")
        client.execute("ROLLBACK")
        assert client.execute("SHOW statement_timeout").fetchone() == ("0",)


@pytest.mark.parametrize("value", ["abc", "-1", "5 parsecs", "99999999999", ""])
def test_what_is_no_timeout_is_refused(stage: Stage, value: str) -> None:
    with stage.served.connect() as client:
        with pytest.raises(errors.InvalidParameterValue):
            client.execute(f"SET statement_timeout = '{value}'")
        with pytest.raises(errors.InvalidParameterValue):
            client.execute("SELECT set_config('statement_timeout', %s, false)", [value])
        assert client.execute("SHOW statement_timeout").fetchone() == ("0",)


@pytest.mark.parametrize(
    ("value", "shown"),
    [("0", "0"), ("1500", "1500ms"), ("1.5s", "1500ms"), ("60000", "1min"), ("3600s", "1h"), ("900us", "1ms")],
)  # fmt: skip
def test_a_timeout_is_shown_as_postgresql_does(stage: Stage, value: str, shown: str) -> None:
    with stage.served.connect() as client:
        client.execute(f"SET statement_timeout = '{value}'")
        assert client.execute("SHOW statement_timeout").fetchone() == (shown,)


# -- pg_stat_activity ----------------------------------------------------------------------------


def activity(client: psycopg.Connection, pid: int) -> tuple[object, ...]:
    found = client.execute(
        """SELECT state, query, wait_event_type, wait_event, query_start <= now(), state_change <= now(), xact_start <= now()
        FROM pg_stat_activity WHERE pid = %s""",
        [pid],
    ).fetchone()
    assert found is not None
    return found


def test_activity_shows_what_a_session_does(stage: Stage) -> None:
    sql = hold_turn(stage)
    with stage.served.connect() as looking, stage.served.connect() as client:
        pid = client.info.backend_pid
        client.execute("SELECT 1")
        idle = ("idle", "SELECT 1", "Client", "ClientRead", True, True, None)
        assert activity(looking, pid) == idle
        client.execute("BEGIN")
        assert activity(looking, pid)[0] == "idle in transaction"
        with pytest.raises(errors.UndefinedTable):
            client.execute("SELECT * FROM nowhere")
        assert activity(looking, pid)[:2] == (
            "idle in transaction (aborted)",
            "SELECT * FROM nowhere",
        )
        client.execute("ROLLBACK")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(client.execute, sql)
            stage.served.await_wait(pid, ("Lock", "pipeline"))
            assert activity(looking, pid) == ("active", sql, "Lock", "pipeline", True, True, True)
            rows = looking.execute("SHOW PROCESSLIST").fetchall()
            assert [row[5] for row in rows if row[0] == str(pid)] == [sql]
            assert looking.execute("SELECT pg_cancel_backend(%s)", [pid]).fetchone() == (True,)
            with pytest.raises(errors.QueryCanceled):
                waiting.result(10)
        assert activity(looking, pid)[0] == "idle"
        assert looking.execute("SELECT pg_cancel_backend(99999)").fetchone() == (False,)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE SECRET s WITH (backend = 'meta') AS 'canary'",
        "CREAT SECRET s AS 'canary'",
        "CREATE SOURCE s (a INT) WITH (connector = 'kafka', properties.sasl.password = 'canary')",
        "CREATE SOURCE s (a INT) WITH (properties.sasl.password = 'canary",
        "CREATE SOURCE s WITH connector = 'x', password = 'canary'",
        "CREATE SINK s FROM t WITH (url = 'jdbc:postgresql://me:canary@host/db')",
    ],
)
def test_activity_shows_no_secrets(stage: Stage, sql: str) -> None:
    with stage.served.connect() as looking, stage.served.connect() as client:
        with suppress(psycopg.Error):
            client.execute(sql.encode())
        found = str(looking.execute("SELECT * FROM pg_stat_activity").fetchall())
        assert "canary" not in found
        assert sql.split()[0] in found


def test_sessions_can_be_terminated_by_their_activity(stage: Stage) -> None:
    with stage.served.connect() as looking, stage.served.connect() as idle:
        ended = looking.execute(
            "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        ).fetchall()
        assert ended == [(idle.info.backend_pid, True)]
        with pytest.raises(psycopg.OperationalError, match="administrator command"):
            idle.execute("SELECT 1")
        stage.served.await_sessions(1)
