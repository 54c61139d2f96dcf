"""Queries that take longer than snapshots are kept: their files are not removed under them, or they are run again."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from icestream.config import EngineSettings, Home
from icestream.engine import Engine
from icestream.errors import LakeError
from icestream.maintenance import housekeeping, policy
from icestream.runtime.local import Local
from icestream.runtime.pipeline import Pipeline
from icestream.server import session
from icestream.server.listener import Listener
from icestream.server.service import Service
from tests.serving import await_condition, serve
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark

EPOCHS = 6
SETTINGS = EngineSettings(epoch_interval=0.1, retained_snapshots=1, merge_small_files_at=2)


@dataclass
class Running:
    """A server whose tables are tidied after every epoch."""

    url: str
    engine: Engine

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self.url, autocommit=True)

    def data_files(self, table: str) -> set[Path]:
        """The Parquet files of a table."""
        root = self.engine.home.warehouse
        return {f for f in root.rglob("*.parquet") if table in str(f) and "/data/" in str(f)}

    def rewrite(self, table: str) -> None:
        """Replace all rows and all files, in several epochs."""
        with self.connect() as client:
            for _ in range(EPOCHS):
                client.execute(f"UPDATE {table} SET v = v + 100")
                client.execute("FLUSH")
        pipeline = self.engine.pipeline
        await_condition(lambda: pipeline.loop.tidied == pipeline.record.epoch)


@pytest.fixture(scope="module")
def running(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = Home.at(tmp_path_factory.mktemp("expiry") / "home")
    with pytest.MonkeyPatch.context() as patch, Engine(home, SETTINGS, application=spark) as engine:
        patch.setattr(housekeeping, "CHECK_EVERY", 1)
        patch.setattr(policy, "SLACK", 0)
        with serve(engine) as served:
            yield Running(served.url, engine)


def _fill(running: Running, table: str) -> list[tuple[int, int]]:
    with running.connect() as client:
        client.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)")
        client.execute(f"INSERT INTO {table} SELECT i, i FROM generate_series(1, 50) AS g (i)")
        client.execute("FLUSH")
    return [(i, i) for i in range(1, 51)]


def test_spark_keeps_what_a_query_reads(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """The query has chosen its snapshots, and reads them after many epochs."""
    held, go_on = threading.Event(), threading.Event()
    collect = session.collect

    def collect_late(*given: Any) -> Any:
        held.set()
        assert go_on.wait(120)
        return collect(*given)

    expected = _fill(running, "slow")
    with running.connect() as reader, ThreadPoolExecutor(1) as pool:
        cursor = running.connect()
        cursor.execute("BEGIN; DECLARE c CURSOR FOR SELECT id, v FROM slow ORDER BY id")
        reader.execute("SET query_mode = distributed")
        monkeypatch.setattr(session, "collect", collect_late)
        query = "SELECT id, v FROM slow ORDER BY id"
        found = pool.submit(lambda: reader.execute(query).fetchall())
        assert held.wait(60)
        files = running.data_files("slow")
        running.rewrite("slow")
        kept = files & running.data_files("slow")
        go_on.set()
        assert found.result(120) == expected
        assert kept == files
        reader.execute("SET query_mode = auto")
        assert cursor.execute("FETCH ALL FROM c").fetchall() == expected
        cursor.close()
        del found
        gc.collect()
        running.rewrite("slow")
        await_condition(lambda: not files & running.data_files("slow"))  # nobody reads them now


def test_duckdb_runs_again_what_it_cannot_read(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _fill(running, "swift")
    local = running.engine.local
    attempts: list[Sequence[str]] = []
    inputs = Local._inputs

    def inputs_that_vanish(self: Local, *given: Any) -> list[str]:
        found = inputs(self, *given)
        attempts.append(found)
        if len(attempts) == 1:
            before = running.data_files("swift")
            running.rewrite("swift")
            await_condition(lambda: not before & running.data_files("swift"))
        return found

    with running.connect() as reader:
        query = "SELECT id, v FROM swift ORDER BY id"
        assert reader.execute(query).fetchall() == expected
        local.settle()
        monkeypatch.setattr("icestream.lake.copies.Copies.of", lambda *_: None)
        monkeypatch.setattr(Local, "_inputs", inputs_that_vanish)
        answered = local.answered
        found = reader.execute(query).fetchall()
    assert found == [(i, v + 100 * EPOCHS) for i, v in expected]
    assert (len(attempts), local.answered) == (2, answered + 1)


def test_rows_of_a_failed_flush_are_there_after_recovery(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise LakeError("the disk is full")

    def serve(work: str) -> tuple[list[Any], list[str | None]]:
        with Engine(Home.at(tmp_path / "home"), SETTINGS, application=spark) as engine:
            service = Service(engine)
            service.start()
            try:
                with Listener(service, port=0) as listener:
                    host, port = listener.address
                    url = f"host={host} port={port} user=root dbname=dev"
                    with psycopg.connect(url, autocommit=True) as client:
                        notices: list[str | None] = []
                        client.add_notice_handler(lambda d: notices.append(d.message_primary))
                        client.execute("SET rw_implicit_flush = true")
                        done = client.execute(work)
                        return done.fetchall() if done.description else [], notices
            finally:
                service.stop()

    assert serve("CREATE TABLE kept (v INT)") == ([], [])
    with monkeypatch.context() as patch:
        patch.setattr(Pipeline, "step", fail)
        _, notices = serve("INSERT INTO kept VALUES (1), (2)")
    assert notices[-1] == "the rows are written, but not visible yet: the disk is full"
    assert serve("SELECT v FROM kept ORDER BY v")[0] == [(1,), (2,)]
