"""Queries without Spark that read no table: values, limits, cancelling."""

from __future__ import annotations

import threading
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from icestream.config import EngineSettings, Home
from icestream.runtime import local as subject
from icestream.runtime.local import Local
from tests.spark.golden import plan

TEN = "(VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))"
LONG = "SELECT count(*) FROM " + ", ".join(f"{TEN} AS t{n} (a{n})" for n in range(11))


@pytest.fixture
def local(tmp_path: Path) -> Local:
    return Local(Home.at(tmp_path), EngineSettings())


def test_what_reads_no_table(local: Local) -> None:
    found = local.rows(plan("SELECT 1 + 1 AS two, 'a' || 'b', 7 / 2.0 AS part, 1 AS two"))
    assert found is not None
    assert [c.to_pylist() for c in found.columns] == [[2], ["ab"], [Decimal("3.5")], [1]]
    assert found.column_names[0] == found.column_names[3] == "two"
    assert local.answered == 1


def test_what_needs_spark_is_left(local: Local) -> None:
    assert local.rows(plan("SELECT id FROM orders")) is None  # there is no lake
    assert local.rows(plan("SELECT 2147483647 + 1")) is None  # NULL for Spark
    assert local.rows(plan(LONG)) is None
    assert local.answered == 0


def test_a_query_can_be_cancelled(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "PAIRS", 10**12)
    done = threading.Event()

    def interrupt(cursor: duckdb.DuckDBPyConnection) -> None:
        while not done.wait(0.02):
            cursor.interrupt()

    def hold(cursor: duckdb.DuckDBPyConnection) -> None:
        threading.Thread(target=interrupt, args=(cursor,), daemon=True).start()

    try:
        with pytest.raises(duckdb.InterruptException):
            local.rows(plan(LONG), hold)
    finally:
        done.set()


@pytest.mark.parametrize("sql", ["SELECT * FROM read_parquet('x')", "SET threads = 9"])
def test_the_database_is_closed_to_the_outside(local: Local, tmp_path: Path, sql: str) -> None:
    with pytest.raises(duckdb.Error, match=r"disabled|locked|cannot"):
        local._open().execute(sql.replace("x", str(tmp_path.parent / "x.parquet")))
