"""Queries without Spark, on a lake that PyIceberg has written: epochs, limits, cancelling."""

from __future__ import annotations

import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from icestream.config import EngineSettings, Home
from icestream.lake import copies
from icestream.lake.stamp import RECORD, ObjectAt, Record
from icestream.runtime import local as subject
from icestream.runtime.local import CLOSING, Local
from tests.engine import await_condition
from tests.spark.golden import plan

TEN = "(VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))"
LONG = "SELECT count(*) FROM " + ", ".join(f"{TEN} AS t{n} (a{n})" for n in range(11))


class Lake:
    """The table of customers of a home, written by PyIceberg, and its epoch log."""

    def __init__(self, home: Home) -> None:
        home.prepare()
        uri = f"sqlite:///{home.lake_catalog}"
        catalog = SqlCatalog("lake", uri=uri, warehouse=home.warehouse.as_uri())
        for namespace in ("public", "icestream"):
            catalog.create_namespace(namespace)
        self.none = pa.table({"unused": pa.array([], pa.bool_())})
        self.log = catalog.create_table("icestream.epochs", self.none.schema)
        self.customers = catalog.create_table("public.customers", self.rows(0, 0).schema)
        self.epoch = 0

    def rows(self, start: int, end: int) -> pa.Table:
        ids = range(start, end)
        columns = [
            pa.array(ids, pa.int32()),
            pa.array([f"name {i}" for i in ids], pa.string()),
            pa.array([None] * len(ids), pa.string()),
            pa.array([None] * len(ids), pa.date32()),
        ]
        return pa.table(columns, ["id", "name", "city", "since"])

    def write(self, start: int, end: int) -> None:
        """A commit that belongs to no complete epoch yet."""
        self.customers.append(self.rows(start, end))

    def complete(self) -> None:
        """A record of where the table stands."""
        self.epoch += 1
        snapshot = self.customers.current_snapshot()
        assert snapshot is not None
        uuid = str(self.customers.metadata.table_uuid)
        at = ObjectAt(self.epoch, "lake.public.customers", uuid, snapshot.snapshot_id)
        record = Record("p", 1, 1, self.epoch, 1, objects={"customers#1": at})
        self.log.append(self.none, {RECORD: record.to_json()})


def one(local: Local, sql: str) -> object:
    found = local.rows(plan(sql))
    return None if found is None else found.columns[0].to_pylist()[0]


@pytest.mark.parametrize("worth", [0, 10**9], ids=["copied", "from files"])
@pytest.mark.parametrize("rank", ["row_number", "rank", "dense_rank"])
def test_the_first_row_of_none_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worth: int, rank: str
) -> None:
    """DuckDB's optimizer top_n_window_elimination makes a row of NULLs of it, if it is on."""
    monkeypatch.setattr(copies, "WORTH", worth)
    home = Home.at(tmp_path)
    lake, local = Lake(home), Local(home, EngineSettings())
    lake.write(0, 3)
    lake.complete()
    ranked = f"SELECT id, {rank}() OVER (ORDER BY id) AS r FROM customers WHERE id > %s"
    for least, rows in ((1, [2]), (5, [])):
        found = local.rows(plan(f"SELECT id FROM ({ranked % least}) x WHERE r = 1"))
        assert found is not None
        assert found.columns[0].to_pylist() == rows
    local.close()


@pytest.mark.parametrize("worth", [0, 10**9], ids=["copied", "from files"])
def test_the_newest_complete_epoch_is_what_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worth: int
) -> None:
    monkeypatch.setattr(copies, "WORTH", worth)
    home = Home.at(tmp_path)
    lake, local = Lake(home), Local(home, EngineSettings())
    assert one(local, "SELECT count(*) FROM customers") is None
    for epoch in range(4):
        lake.write(epoch * 10, epoch * 10 + 5)
        lake.complete()
        lake.write(epoch * 10 + 5, epoch * 10 + 10)
        for _ in range(3):
            assert one(local, "SELECT count(*) FROM customers") == epoch * 10 + 5
            local.settle()
        assert one(local, f"SELECT name FROM customers WHERE id = {epoch * 10}") == f"name {epoch * 10}"  # fmt: skip
        assert one(local, f"SELECT count(*) FROM customers WHERE id = {epoch * 10 + 7}") == 0
    assert local._copies is not None
    assert bool(local._copies._kept) == (worth == 0)
    assert local.answered == 4 * 5


def test_files_that_vanish(tmp_path: Path) -> None:
    home = Home.at(tmp_path)
    lake, local = Lake(home), Local(home, EngineSettings())
    lake.write(0, 5)
    lake.complete()
    assert one(local, "SELECT count(*) FROM customers WHERE id >= 0") == 5
    for file in home.warehouse.rglob("customers/data/*.parquet"):
        file.unlink()
    assert one(local, "SELECT count(*) FROM customers WHERE id >= 0") is None
    lake.customers.overwrite(lake.rows(0, 3))
    lake.complete()
    assert one(local, "SELECT count(*) FROM customers WHERE id >= 0") == 3


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
    assert local.fallbacks.counts() == {
        "orders is not stored in the lake": 1,
        "DuckDB failed: OutOfRangeException": 1,
        "many rows to read or to compare": 1,
    }


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


STUCK = """
import sys, threading, time
from pathlib import Path
from icestream.config import EngineSettings, Home
from icestream.runtime.local import Local

local = Local(Home.at(Path(sys.argv[1])), EngineSettings())
begun = threading.Event()

def search() -> None:
    with local._cursor() as cursor:
        begun.set()
        # DuckDB tries all ways, and never looks whether it was interrupted.
        cursor.execute("SELECT repeat('a', 60) LIKE '" + "%a" * 30 + "b' ESCAPE '#'")

threading.Thread(target=search, daemon=True).start()
begun.wait()
time.sleep(0.5)
began = time.monotonic()
local.close()
print(time.monotonic() - began, flush=True)
"""


def test_a_query_that_cannot_be_interrupted_keeps_nobody_from_closing(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", STUCK, str(tmp_path / "home")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert CLOSING <= float(ended.stdout) < CLOSING + 5


def test_a_database_that_was_left_behind_is_closed_after_its_last_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("icestream.runtime.local.CLOSING", 0.05)
    local = Local(Home.at(tmp_path / "home"), EngineSettings())
    with local._cursor():
        local.close()
        database = local._open()
        assert database.execute("SELECT 1").fetchall() == [(1,)]
    await_condition(lambda: is_closed(database), "the database is closed", 10)


def is_closed(database: duckdb.DuckDBPyConnection) -> bool:
    try:
        database.execute("SELECT 1")
    except duckdb.ConnectionException:
        return True
    return False
