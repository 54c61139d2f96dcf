"""A backlog, a rate limit or a source that does not answer delays no statement on other tables."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from icestream.config import EngineSettings, Home
from icestream.connectors.files import FileSource
from icestream.engine import Engine
from icestream.lake.position import Offset
from tests.serving import Served, await_condition, serve
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark

LIMIT = 30.0
"""Seconds that a statement may take on a loaded machine. It waits for an epoch that runs, and runs one itself."""
FILES = 400
"""One record each, one record a second."""

STATEMENTS = (
    "INSERT INTO t VALUES (1, 1), (2, 2)",
    "UPDATE t SET v = v + 1 WHERE id = 1",
    "DELETE FROM t WHERE id = 2",
    "SELECT * FROM t",
    "CREATE TABLE made (id INT PRIMARY KEY)",
    "CREATE MATERIALIZED VIEW sums AS SELECT sum(v) AS v FROM t",
    "SELECT * FROM sums",
    "ALTER TABLE made ADD COLUMN w INT",
    "INSERT INTO made SELECT id, v FROM t",
    "FLUSH",
    "DROP MATERIALIZED VIEW sums",
    "DROP TABLE made",
)


@contextmanager
def serving_files(
    root: Path, spark: SparkSession, option: str = "", files: int = 1
) -> Iterator[tuple[Served, psycopg.Connection]]:
    """A server with an empty table, and a view over a source of files."""
    folder = root / "events"
    folder.mkdir()
    for number in range(files):
        (folder / f"{number:04}.json").write_text(json.dumps({"id": number}) + "\n")
    settings = EngineSettings(epoch_interval=0.1)
    with (
        Engine(Home.at(root / "home"), settings, application=spark, allow_paths=["/"]) as engine,
        serve(engine) as served,
        served.connect() as client,
    ):
        client.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        client.execute(
            f"CREATE SOURCE events (id INT) WITH (connector = 'file', path = '{folder}'{option}) "
            "FORMAT PLAIN ENCODE JSON".encode()
        )
        client.execute("SET background_ddl = true")
        client.execute("CREATE MATERIALIZED VIEW seen AS SELECT id FROM events")
        client.execute("SET background_ddl = false")
        yield served, client


def count_seen(client: psycopg.Connection) -> int:
    ((count,),) = client.execute("SELECT count(*) FROM seen").fetchall()
    return int(count)


def run_statements(client: psycopg.Connection) -> dict[str, float]:
    """The seconds that each statement took, if that was too long."""
    took: dict[str, float] = {}
    for statement in STATEMENTS:
        began = time.monotonic()
        client.execute(statement.encode())
        took[statement] = time.monotonic() - began
    assert client.execute("SELECT * FROM t").fetchall() == [(1, 2)]
    return {statement: seconds for statement, seconds in took.items() if seconds > LIMIT}


def test_a_rate_limit_delays_no_other_statement(spark: SparkSession, tmp_path: Path) -> None:
    with serving_files(tmp_path, spark, ", source_rate_limit = 1", FILES) as (_, client):
        await_condition(lambda: count_seen(client) > 0)
        assert not run_statements(client)
        assert 0 < count_seen(client) < FILES  # the backlog is still there


def test_flush_waits_for_a_silent_source_out_of_turn(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent, free = threading.Event(), threading.Event()
    latest = FileSource.latest

    def answer(self: FileSource, since: Offset) -> Offset:
        if silent.is_set():
            free.wait(180)
        return latest(self, since)

    monkeypatch.setattr(FileSource, "latest", answer)
    monkeypatch.setattr("icestream.runtime.statement_epochs.FLUSH_PATIENCE", 150.0)
    monkeypatch.setattr("icestream.runtime.source_monitor.SLOW", 180.0)
    with (
        serving_files(tmp_path, spark) as (served, client),
        served.connect() as other,
        ThreadPoolExecutor(1) as pool,
    ):
        await_condition(lambda: count_seen(client) == 1)
        try:
            silent.set()
            (tmp_path / "events" / "_more.json").write_text('{"id": 1}\n')
            (tmp_path / "events" / "_more.json").rename(tmp_path / "events" / "more.json")
            flushing = pool.submit(other.execute, "FLUSH")
            served.await_wait(other.info.backend_pid, ("IPC", "Flush"))
            began = time.monotonic()
            for statement in STATEMENTS:
                if statement != "FLUSH":
                    client.execute(statement.encode())
            assert time.monotonic() - began < LIMIT * 2
            assert not flushing.done()
        finally:
            free.set()
        flushing.result(LIMIT)
        assert count_seen(client) == 2
