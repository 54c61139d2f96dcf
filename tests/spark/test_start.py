"""A server starts while its catalog is locked or its disk read-only, as soon as that is over."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icestream.config import EngineSettings, Home
from icestream.engine import Engine
from icestream.errors import LakeError
from icestream.lake import catalogs
from icestream.server.service import Service
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark


def test_a_server_starts_when_its_catalog_is_free_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogs, "BUSY_TIMEOUT", 500)
    home = Home.at(tmp_path / "home")
    with Engine(home, EngineSettings(), application=spark) as engine:
        engine.execute("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1); FLUSH")
    notices: list[str] = []
    locked = sqlite3.connect(home.lake_catalog, isolation_level=None, check_same_thread=False)
    locked.execute("BEGIN IMMEDIATE")
    release = threading.Event()

    def notice(text: str) -> None:
        notices.append(text)
        if len(notices) == 2:
            release.set()

    def unlock() -> None:
        assert release.wait(120)
        locked.execute("ROLLBACK")
        locked.close()

    unlocking = threading.Thread(target=unlock, daemon=True)
    unlocking.start()
    with Engine(home, EngineSettings(), notice=notice, application=spark) as engine:
        service = Service(engine)
        service.start()
        try:
            unlocking.join(10)
            told = [text for text in notices if "the start has failed" in text]
            assert len(told) >= 2, notices
            assert engine.execute("SELECT id FROM t")[0].rows == [(1,)]
            engine.execute("INSERT INTO t VALUES (2)")
            assert engine.execute("SELECT id FROM t ORDER BY id")[0].rows == [(1,), (2,)]
        finally:
            service.stop()
        assert service.failed is None


def test_a_damaged_catalog_ends_the_start_at_once(spark: SparkSession, tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    with Engine(home, EngineSettings(), application=spark) as engine:
        engine.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    Path(home.lake_catalog).write_bytes(b"no database " * 1000)
    for name in ("-wal", "-shm"):
        Path(f"{home.lake_catalog}{name}").unlink(missing_ok=True)
    notices: list[str] = []
    with Engine(home, EngineSettings(), notice=notices.append, application=spark) as engine:
        service = Service(engine)
        with pytest.raises(LakeError, match="is damaged"):
            service.start()
    assert not [text for text in notices if "trying again" in text]
