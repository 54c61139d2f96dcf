"""Statements of a running engine, ended while they do the work of Spark, of DuckDB, of an epoch, of a backfill."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg import errors
from pyspark.sql import SparkSession

from icestream.config import EngineSettings, Home
from icestream.connectors.iceberg import IcebergSource
from icestream.engine import Engine
from icestream.errors import FencedError, LakeError
from icestream.lake.stamp import Record
from icestream.runtime.epoch import Epoch
from icestream.server.listener import Listener
from icestream.server.service import Service
from tests.cancels import CANCELS, LIMIT, end_statement
from tests.serving import Served, await_condition, serve
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark

ENDLESS = (
    "SELECT count(*) AS n FROM generate_series(1, 3000) AS a (x), generate_series(1, 3000) AS b (y), "
    "generate_series(1, 3000) AS c (z), generate_series(1, 3000) AS d (w) WHERE (x + y + z + w) % 7 = 3"
)
"""Takes hours, but little memory."""
JOINED = "t AS a JOIN t AS b ON a.k = b.k JOIN t AS c ON a.k = c.k JOIN t AS d ON a.k = d.k"


@dataclass
class Running:
    """A server, and the engine behind it."""

    served: Served
    engine: Engine
    spark: SparkSession


@pytest.fixture(scope="module")
def running(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = Home.at(tmp_path_factory.mktemp("cancel") / "home")
    with (
        Engine(
            home, EngineSettings(epoch_interval=0.1), application=spark, allow_paths=["/"]
        ) as engine,
        serve(engine) as served,
    ):
        with served.connect() as client:
            client.execute("CREATE TABLE t (id INT PRIMARY KEY, k INT)")
            client.execute("CREATE TABLE other (id INT PRIMARY KEY)")
            client.execute("INSERT INTO t SELECT i, 1 FROM generate_series(1, 3000) AS g (i)")
            client.execute("CREATE SUBSCRIPTION followed FROM t WITH (retention = '1 day')")
            client.execute("FLUSH")
        yield Running(served, engine, spark)


@dataclass
class Gate:
    """Holds epochs back."""

    held: threading.Event
    open: threading.Event


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate, run = Gate(threading.Event(), threading.Event()), Epoch.run

    def held(self: Epoch) -> Record:
        gate.held.set()
        assert gate.open.wait(60)
        return run(self)

    monkeypatch.setattr(Epoch, "run", held)
    yield gate
    gate.open.set()


SPARK_JOB, BACKFILL, EPOCH = ("IPC", "SparkJob"), ("IPC", "Backfill"), ("IPC", "Epoch")
WAITS = {
    "query": (ENDLESS, SPARK_JOB),
    "copy": (f"COPY ({ENDLESS}) TO STDOUT", SPARK_JOB),
    "cursor": (f"BEGIN; DECLARE c CURSOR FOR {ENDLESS}; COMMIT", SPARK_JOB),
    "insert": (f"INSERT INTO other SELECT n::int FROM ({ENDLESS}) AS e", SPARK_JOB),
    "backfill": (f"CREATE MATERIALIZED VIEW v AS SELECT a.id FROM {JOINED}", BACKFILL),
    "fetch": (
        "DECLARE f SUBSCRIPTION CURSOR FOR followed SINCE now(); FETCH 1 FROM f WITH (timeout = '60s')",
        EPOCH,
    ),
    "local": (f"SELECT count(*) FROM {JOINED} WHERE a.id + b.id + c.id + d.id = 0", None),
}
FEW = {
    "query": ("vanish", "pg_terminate_backend"),
    "copy": ("cancel",),
    "cursor": ("timeout",),
    "insert": ("cancel", "vanish"),
    "backfill": ("timeout", "pg_cancel_backend"),
    "fetch": ("cancel",),
    "local": ("cancel", "timeout"),
}
"""The cells that are always run; ICESTREAM_TEST_CELLS=all runs the whole matrix."""
ALL = [cancel for cancel in CANCELS if cancel != "stop"]
EVERY = os.environ.get("ICESTREAM_TEST_CELLS") == "all"
CELLS = [(wait, cancel) for wait in WAITS for cancel in (ALL if EVERY else FEW[wait])]


def count_tasks(spark: SparkSession) -> int:
    """Tasks that executors are busy with."""
    executors = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    return sum(executor.numRunningTasks() for executor in executors)


@pytest.mark.parametrize(("wait", "cancel"), CELLS)
def test_cancels_end_any_work(running: Running, wait: str, cancel: str) -> None:
    sql, event = WAITS[wait]
    answered = running.engine.local.answered
    jobs = running.spark.sparkContext.statusTracker().getActiveJobsIds

    def has_begun() -> None:
        if event is SPARK_JOB:
            await_condition(lambda: bool(jobs()))

    assert end_statement(running.served, sql, cancel, wait=event, ready=has_begun) < LIMIT
    assert running.engine.local.answered == answered or wait != "local"
    await_condition(lambda: not list(running.engine.jobs) and not jobs(), 10)
    await_condition(lambda: not count_tasks(running.spark), 10)  # nothing runs on in the background
    with running.served.connect() as client:
        assert client.execute("SHOW MATERIALIZED VIEWS").fetchall() == []
        assert client.execute("SELECT count(*) FROM other").fetchone() == (0,)
        assert client.execute("SELECT count(*) FROM t").fetchone() == (3000,)


@pytest.mark.parametrize("cancel", ALL if EVERY else ["cancel"])
def test_a_flush_is_left_and_its_epoch_completes(running: Running, gate: Gate, cancel: str) -> None:
    with running.served.connect() as client:
        client.execute("INSERT INTO other VALUES (1)")
        assert gate.held.wait(30)
        assert end_statement(running.served, "FLUSH", cancel) < LIMIT
        gate.open.set()
        client.execute("FLUSH")
        assert client.execute("SELECT id FROM other").fetchall() == [(1,)]
        client.execute("DELETE FROM other")
        client.execute("FLUSH")


def test_an_insert_that_is_durable_succeeds_though_its_wait_is_cancelled(
    running: Running, gate: Gate
) -> None:
    with running.served.connect() as client, ThreadPoolExecutor(1) as pool:
        notices: list[str] = []
        client.add_notice_handler(lambda d: notices.append(str(d.message_primary)))
        client.execute("SET rw_implicit_flush = true")
        inserted = pool.submit(client.execute, "INSERT INTO other VALUES (5)")
        assert gate.held.wait(30)
        client.cancel_safe(timeout=10)
        assert inserted.result(30).statusmessage == "INSERT 0 1"
        assert "not visible yet" in notices[0]
        gate.open.set()
        assert client.execute("SELECT id FROM other").fetchall() == [(5,)]
        client.execute("DELETE FROM other")


@pytest.mark.parametrize(
    "error", [LakeError("the disk is full"), FencedError("taken over"), OSError("no space left")]
)
def test_an_insert_that_is_durable_succeeds_though_it_cannot_be_made_visible(
    running: Running, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    with running.served.connect() as client:
        notices: list[tuple[str | None, str | None]] = []
        client.add_notice_handler(lambda d: notices.append((d.severity, d.message_primary)))
        client.execute("SET rw_implicit_flush = true")
        with monkeypatch.context() as patch:
            patch.setattr(type(running.engine.pipeline), "reach", fail)
            done = client.execute("INSERT INTO other VALUES (6)")
            assert done.statusmessage == "INSERT 0 1"
            told = f"the rows are written, but not visible yet: {error}"
            assert notices == [("WARNING", told)]
            client.execute("BEGIN; INSERT INTO other VALUES (7); COMMIT")
            assert notices == [("WARNING", told)] * 2
        assert sorted(client.execute("SELECT id FROM other").fetchall()) == [(6,), (7,)]
        client.execute("DELETE FROM other")


def test_a_copy_that_is_under_way_is_cancelled(running: Running) -> None:
    large = "SELECT i, repeat('x', 1000) FROM generate_series(1, 300000) AS g (i)"
    with running.served.connect() as client, client.cursor() as cursor:
        with cursor.copy(f"COPY ({large}) TO STDOUT") as rows:
            next(iter(rows))
            client.cancel_safe(timeout=10)
            with pytest.raises(errors.QueryCanceled):
                list(rows)
        assert client.execute("SELECT 1").fetchone() == (1,)


def test_statements_run_beside_each_other(running: Running) -> None:
    """While one session runs a long query, the others go on."""
    with (
        running.served.connect() as client,
        running.served.connect() as asking,
        ThreadPoolExecutor(1) as pool,
    ):
        asked = pool.submit(asking.execute, WAITS["local"][0])
        running.served.await_wait(asking.info.backend_pid)
        client.execute("SET statement_timeout = '60s'")
        assert client.execute("SELECT count(*) FROM t").fetchone() == (3000,)
        assert client.execute("EXPLAIN SELECT * FROM t").fetchall()
        client.execute("INSERT INTO other VALUES (7)")
        client.execute("FLUSH")
        assert client.execute("SELECT id FROM other").fetchall() == [(7,)]
        client.execute("CREATE TABLE third (id INT)")
        client.execute("DROP TABLE third")
        client.execute("DELETE FROM other")
        assert not asked.done()
        asking.cancel_safe(timeout=10)
        with pytest.raises(errors.QueryCanceled):
            asked.result(30)


def test_stopping_ends_statements(spark: SparkSession, tmp_path: Path) -> None:
    """What SIGTERM does: clients are told at once, whatever they run, and the engine ends."""
    with Engine(
        Home.at(tmp_path / "home"), EngineSettings(), application=spark, allow_paths=["/"]
    ) as engine:
        service = Service(engine)
        service.start()
        listener = Listener(service, port=0)
        listener.start()
        host, port = listener.address
        served = Served(f"host={host} port={port} user=root dbname=dev", listener)
        assert end_statement(served, ENDLESS, "stop", wait=SPARK_JOB) < LIMIT
        service.stop()
        assert service.failed is None
    jobs: Callable[[], object] = spark.sparkContext.statusTracker().getActiveJobsIds
    await_condition(lambda: not jobs(), 10)


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        yield f"{host}:{port}"


KAFKA = "WITH (connector = 'kafka', topic = 'x', properties.bootstrap.server = '{address}')"
REST = "connector = 'iceberg', catalog.type = 'rest', catalog.uri = 'http://{address}', table.name = 'x'"
OUTSIDE = {
    "kafka": f"CREATE TABLE outside (v INT) {KAFKA} FORMAT PLAIN ENCODE JSON",
    "source": f"CREATE TABLE outside (v INT) WITH ({REST})",
    "sink": f"CREATE SINK outside FROM t WITH ({REST}, type = 'append-only', force_append_only = 'true')",
}


@pytest.mark.parametrize(
    ("kind", "cancel"),
    [(kind, cancel) for kind in OUTSIDE for cancel in (ALL if EVERY else ("cancel", "timeout"))],
)
def test_a_creation_that_waits_for_the_outside_can_be_cancelled_and_blocks_nobody(
    running: Running, silent: str, kind: str, cancel: str
) -> None:
    sql = OUTSIDE[kind].format(address=silent)
    began = time.monotonic()

    def others_go_on() -> None:
        with running.served.connect() as client:
            client.execute("SET statement_timeout = '20s'")
            client.execute("INSERT INTO other VALUES (7)")
            assert client.execute("SELECT id FROM other").fetchall() == [(7,)]
            client.execute("DELETE FROM other")
            client.execute("CREATE TABLE third (id INT)")
            client.execute("DROP TABLE third")
        assert time.monotonic() - began < 25

    wait = ("IPC", "Connector")
    assert end_statement(running.served, sql, cancel, wait=wait, ready=others_go_on) < LIMIT
    others_go_on()
    with running.served.connect() as client:
        assert ("outside",) not in client.execute("SELECT name FROM rw_catalog.rw_relations").fetchall()  # fmt: skip


def test_a_reset_that_waits_for_the_outside_can_be_cancelled(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = f"connector = 'iceberg', warehouse.path = '{tmp_path}', table.name = 'x'"
    hanging = threading.Event()
    with running.served.connect() as client:
        client.execute(f"CREATE SINK out_sink FROM t WITH ({catalog}, type = 'append-only', force_append_only = 'true', create_table_if_not_exists = 'true')")  # fmt: skip
        client.execute("FLUSH")
        client.execute(f"CREATE TABLE back (id INT) WITH ({catalog})")
        client.execute("FLUSH")
        monkeypatch.setattr(IcebergSource, "reset", lambda self, since: hanging.wait(60) and since)
        wait = ("IPC", "Connector")
        sql = "ALTER TABLE back RESET"

        def others_go_on() -> None:
            client.execute("INSERT INTO other VALUES (7)")
            client.execute("DELETE FROM other")

        assert end_statement(running.served, sql, "cancel", wait=wait, ready=others_go_on) < LIMIT
        others_go_on()
        hanging.set()
        client.execute(sql)
        client.execute("DROP TABLE back")
        client.execute("DROP SINK out_sink")
