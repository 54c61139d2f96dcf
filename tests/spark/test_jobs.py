"""New views over what is there already: filled beside the pipeline, exactly once, shown and cancelled as jobs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg import errors
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from icestream import jobs
from icestream.config import EngineSettings, Home
from icestream.engine import Engine
from icestream.errors import ConnectorError, FencedError, SqlError
from icestream.lake.log import EpochLog
from icestream.runtime.backfill import Backfill
from icestream.runtime.object_set import Ready
from tests.engine import await_condition
from tests.spark.test_serve import serving
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark

SUMS = "CREATE MATERIALIZED VIEW sums AS SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k"


class Gate:
    """Lets backfills begin when told to, and says when one is waiting."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate, run = Gate(), Backfill.run

    def gated(self: Backfill) -> Ready:
        gate.reached.set()
        while not gate.open.wait(0.02):
            self._check()
        return run(self)

    monkeypatch.setattr(Backfill, "run", gated)
    yield gate
    gate.open.set()


def connect(url: str) -> psycopg.Connection:
    return psycopg.connect(url, autocommit=True)


def fill(client: psycopg.Connection) -> None:
    client.execute("CREATE TABLE t (id INT PRIMARY KEY, k INT, v INT)")
    client.execute(
        "INSERT INTO t SELECT i AS id, i % 3 AS k, i AS v FROM generate_series(1, 30) AS g(i)"
    )
    client.execute("FLUSH")


def expected(ids: range) -> list[tuple[int, int, int]]:
    groups: dict[int, list[int]] = {}
    for i in ids:
        groups.setdefault(i % 3, []).append(i)
    return sorted((k, len(v), sum(v)) for k, v in groups.items())


def test_the_pipeline_goes_on_while_a_view_is_filled(
    spark: SparkSession, tmp_path: Path, gate: Gate
) -> None:
    with serving(tmp_path / "home", spark) as url, connect(url) as client, connect(url) as maker:
        fill(client)
        with ThreadPoolExecutor(1) as pool:
            made = pool.submit(maker.execute, SUMS)
            assert gate.reached.wait(60)
            ((_, statement, progress),) = client.execute("SHOW JOBS").fetchall()
            assert (statement, progress) == (SUMS, "0.00%")
            client.execute("INSERT INTO t VALUES (31, 1, 31)")
            client.execute("FLUSH")
            assert client.execute("SELECT count(*) FROM t").fetchone() == (31,)
            with pytest.raises(errors.UndefinedTable):
                client.execute("SELECT * FROM sums")
            with pytest.raises(psycopg.Error, match="being made"):
                client.execute(SUMS)
            with pytest.raises(psycopg.Error, match="being made"):
                client.execute("DROP TABLE t")
            assert not made.done()
            gate.open.set()
            made.result(60)
        client.execute("FLUSH")
        assert sorted(client.execute("SELECT * FROM sums").fetchall()) == expected(range(1, 32))
        client.execute("DELETE FROM t WHERE id <= 10")
        client.execute("FLUSH")
        assert sorted(client.execute("SELECT * FROM sums").fetchall()) == expected(range(11, 32))
        assert client.execute("SHOW JOBS").fetchall() == []


def test_rows_are_there_when_create_returns(spark: SparkSession, tmp_path: Path) -> None:
    with serving(tmp_path / "home", spark) as url, connect(url) as client:
        fill(client)
        client.execute(SUMS)
        assert sorted(client.execute("SELECT * FROM sums").fetchall()) == expected(range(1, 31))
        client.execute(
            "CREATE MATERIALIZED VIEW top AS SELECT k, s FROM sums ORDER BY s DESC LIMIT 1"
        )
        assert client.execute("SELECT * FROM top").fetchall() == [(0, 165)]
        client.execute("UPDATE t SET v = 1000 WHERE id = 1")
        client.execute("FLUSH")
        assert client.execute("SELECT * FROM top").fetchall() == [(1, 1144)]


@pytest.mark.parametrize("how", ["cancel jobs", "cancel the statement", "drop cascade"])
def test_a_job_that_is_cancelled_leaves_nothing(
    spark: SparkSession, tmp_path: Path, gate: Gate, how: str
) -> None:
    with serving(tmp_path / "home", spark) as url, connect(url) as client, connect(url) as maker:
        fill(client)
        with ThreadPoolExecutor(1) as pool:
            made = pool.submit(maker.execute, SUMS)
            assert gate.reached.wait(60)
            ((number, _, _),) = client.execute("SHOW JOBS").fetchall()
            if how == "cancel jobs":
                assert client.execute(f"CANCEL JOBS {number}").fetchall() == [(number,)]
            elif how == "drop cascade":
                client.execute("DROP TABLE t CASCADE")
            else:
                maker.cancel_safe()
            with pytest.raises(psycopg.Error, match="cancel"):
                made.result(60)
        gate.open.set()
        assert client.execute("SHOW JOBS").fetchall() == []
        assert client.execute("SHOW MATERIALIZED VIEWS").fetchall() == []
        if how != "drop cascade":
            client.execute(SUMS)
            assert sorted(client.execute("SELECT * FROM sums").fetchall()) == expected(range(1, 31))


def test_a_background_job_is_taken_up_again_after_a_restart(
    spark: SparkSession, tmp_path: Path, gate: Gate
) -> None:
    with serving(tmp_path / "home", spark) as url, connect(url) as client:
        fill(client)
        client.execute("SET background_ddl = true")
        client.execute(SUMS)
        assert gate.reached.wait(60)
    gate.open.set()
    with serving(tmp_path / "home", spark) as url, connect(url) as client:

        def done() -> bool:
            return client.execute("SHOW JOBS").fetchall() == []

        await_condition(done, "the job ends")
        assert sorted(client.execute("SELECT * FROM sums").fetchall()) == expected(range(1, 31))


def test_a_background_job_is_tried_again_after_what_may_pass(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, failures = Backfill.run, [OSError("no space"), ConnectorError("the catalog is down")]

    def failing(self: Backfill) -> Ready:
        if failures:
            raise failures.pop()
        return run(self)

    monkeypatch.setattr(Backfill, "run", failing)
    monkeypatch.setattr(jobs, "LONGEST_WAIT", 0.1)
    with serving(tmp_path / "home", spark) as url, connect(url) as client:
        fill(client)
        client.execute("SET background_ddl = true")
        client.execute(SUMS)
        client.execute("WAIT")
        assert not failures
        assert sorted(client.execute("SELECT * FROM sums").fetchall()) == expected(range(1, 31))
        failures += [SqlError("it makes no sense")]
        client.execute(SUMS.replace("sums", "others"))
        client.execute("WAIT")
        with pytest.raises(errors.UndefinedTable):
            client.execute("SELECT * FROM others")


def test_a_process_that_was_succeeded_drops_no_table(spark: SparkSession, tmp_path: Path) -> None:
    """Its successor may have made them."""
    engine = Engine(Home(tmp_path / "home"), EngineSettings(), application=spark)
    try:
        engine.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        pipeline = engine.pipeline
        head = pipeline.state.log.head
        successor = EpochLog(pipeline.state.log.table)
        successor.newest()
        successor.commit(replace(pipeline.record, incarnation=pipeline.state.incarnation + 1))
        with pytest.raises(FencedError):
            pipeline.discard(list(engine.catalog))
        with pytest.raises(FencedError):
            pipeline.sweep(())
        assert pipeline.lake.exists(pipeline.lake.table("lake", "public", "t", owned=True))
        assert pipeline.state.log.head == head
    finally:
        engine.close()


def test_a_view_that_cannot_be_filled_says_why_and_is_not_there(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Backfill) -> Ready:
        raise ConnectorError("the disk is full")

    with serving(tmp_path / "home", spark) as url, connect(url) as client:
        fill(client)
        with monkeypatch.context() as patched:
            patched.setattr(Backfill, "run", fails)
            with pytest.raises(psycopg.Error, match="the disk is full"):
                client.execute(SUMS)
        assert client.execute("SHOW MATERIALIZED VIEWS").fetchall() == []
        assert client.execute("SHOW JOBS").fetchall() == []
        client.execute("INSERT INTO t VALUES (31, 1, 31)")
        client.execute(SUMS)
        client.execute("FLUSH")
        assert sorted(client.execute("SELECT * FROM sums").fetchall()) == expected(range(1, 32))


def test_a_process_that_dies_while_it_fills_a_view_leaves_nothing_behind(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"

    def dies(self: Backfill) -> Ready:
        raise ConnectorError("as if it had died")

    with serving(home, spark) as url, connect(url) as client:
        fill(client)
        with monkeypatch.context() as patched:
            patched.setattr(Backfill, "run", dies)
            patched.setattr(Backfill, "discard", lambda self: None)
            with pytest.raises(psycopg.Error, match="as if it had died"):
                client.execute(SUMS)
        assert ("public", "sums") in lake(home).list_tables("public")
    with serving(home, spark) as url, connect(url) as client:
        assert lake(home).list_tables("public") == [("public", "t")]
        client.execute(SUMS)
        assert sorted(client.execute("SELECT * FROM sums").fetchall()) == expected(range(1, 31))


# -- CREATE OR REPLACE ----------------------------------------------------------------------------

HALVES = "CREATE OR REPLACE MATERIALIZED VIEW sums AS SELECT k % 2 AS half, max(v) AS most FROM t GROUP BY k % 2"


def halves(ids: range) -> list[tuple[int, int]]:
    return sorted({h: max(i for i in ids if i % 3 % 2 == h) for h in (0, 1)}.items())


def lake(home: Path) -> SqlCatalog:
    return SqlCatalog(
        "lake",
        uri=f"sqlite:///{Home.at(home).lake_catalog}",
        warehouse=Home.at(home).warehouse.as_uri(),
    )


def test_a_view_is_replaced_when_the_new_one_is_filled(
    spark: SparkSession, tmp_path: Path, gate: Gate
) -> None:
    home = tmp_path / "home"
    gate.open.set()
    with serving(home, spark) as url, connect(url) as client, connect(url) as maker:
        fill(client)
        client.execute(SUMS)
        before = set(lake(home).list_tables("icestream"))
        gate.open.clear()
        gate.reached.clear()
        with ThreadPoolExecutor(1) as pool:
            made = pool.submit(maker.execute, HALVES)
            assert gate.reached.wait(60)
            assert client.execute("SHOW JOBS").fetchall()[0][1] == HALVES
            client.execute("INSERT INTO t VALUES (31, 1, 31)")
            client.execute("FLUSH")
            assert sorted(client.execute("SELECT * FROM sums").fetchall()) == expected(range(1, 32))
            gate.open.set()
            made.result(60)
        client.execute("FLUSH")
        assert sorted(client.execute("SELECT * FROM sums").fetchall()) == halves(range(1, 32))
        ((_, text),) = client.execute("SHOW CREATE MATERIALIZED VIEW sums").fetchall()
        assert text == HALVES.replace(" OR REPLACE", "")
        assert lake(home).list_tables("public") == [("public", "sums"), ("public", "t")]
        assert not [
            t for t in lake(home).list_tables("icestream") if t in before and t[1] != "epochs"
        ]
        client.execute(HALVES)
        client.execute("CREATE VIEW small AS SELECT id FROM t WHERE id < 3")
        client.execute("CREATE OR REPLACE VIEW small AS SELECT id FROM t WHERE id < 2")
        assert client.execute("SELECT * FROM small").fetchall() == [(1,)]
        client.execute("CREATE MATERIALIZED VIEW above AS SELECT sum(most) AS s FROM sums")
        with pytest.raises(
            errors.DependentObjectsStillExist, match="needed by materialized view above"
        ):
            client.execute(HALVES.replace("max", "min"))
        with pytest.raises(psycopg.Error, match="is a view, not a materialized view"):
            client.execute("CREATE OR REPLACE MATERIALIZED VIEW small AS SELECT 1 AS x")
    with serving(home, spark) as url, connect(url) as client:
        client.execute("DELETE FROM t WHERE id > 20")
        client.execute("FLUSH")
        assert sorted(client.execute("SELECT * FROM sums").fetchall()) == halves(range(1, 21))
        ((total,),) = client.execute("SELECT s FROM above").fetchall()
        assert total == sum(most for _, most in halves(range(1, 21)))


def test_a_replacement_that_is_cut_short_is_completed_at_the_next_start(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"

    def cut(point: str) -> None:
        if point == "view-exchanged":
            raise KeyboardInterrupt

    script = "CREATE TABLE t (id INT PRIMARY KEY, k INT, v INT); INSERT INTO t SELECT i AS id, i % 3 AS k, i AS v FROM generate_series(1, 30) AS g(i); FLUSH;"
    with monkeypatch.context() as patched:
        patched.setattr("icestream.faults.reach", cut)
        with Engine(
            Home.at(home), EngineSettings(), application=spark, allow_paths=["/"]
        ) as engine:
            engine.execute(script + SUMS + "; FLUSH")
            with pytest.raises(KeyboardInterrupt):
                engine.execute(HALVES)
    with Engine(Home.at(home), EngineSettings(), application=spark, allow_paths=["/"]) as engine:
        (found,) = engine.execute("SELECT * FROM sums")
        assert sorted(found.rows) == halves(range(1, 31))
        engine.execute("INSERT INTO t VALUES (31, 1, 31); FLUSH")
        (found,) = engine.execute("SELECT * FROM sums")
        assert sorted(found.rows) == halves(range(1, 32))
    assert lake(home).list_tables("public") == [("public", "sums"), ("public", "t")]
