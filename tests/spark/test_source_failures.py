"""A source that fails, or whose records are gone, stops its readers: not the pipeline, not the server."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from icestream.config import EngineSettings, Home
from icestream.engine import Engine
from icestream.errors import RangeLostError
from icestream.observe import status as observe
from icestream.observe.status import Status
from tests.engine import await_condition, column
from tests.serving import serve
from tests.spark.test_engine import once
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark


class World:
    """A served home with sources of files."""

    def __init__(self, root: Path, client: psycopg.Connection[Any], home: Path) -> None:
        self.root = root
        self.client = client
        self.home = home

    def put(self, source: str, file: str, *ids: int) -> Path:
        folder = self.root / source
        folder.mkdir(exist_ok=True)
        draft = folder / f"_{file}"
        draft.write_text("".join(json.dumps({"id": n}) + "\n" for n in ids))
        return draft.rename(folder / file)

    def source(self, name: str) -> None:
        self.client.execute(
            f"CREATE SOURCE {name} (id BIGINT) WITH (connector = 'file', path = '{self.root / name}') "
            "FORMAT PLAIN ENCODE JSON"
        )

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return sorted(self.client.execute(query).fetchall())

    def ids(self, view: str) -> list[int]:
        return [id for (id,) in self.rows(f"SELECT id FROM {view}")]

    def status(self) -> Status:
        return observe.read(Home.at(self.home))

    def error(self, source: str) -> str | None:
        return next(s.error for s in self.status().sources if s.name == source)


@contextmanager
def world(root: Path, spark: SparkSession) -> Iterator[World]:
    home = root / "home"
    with (
        Engine(
            Home.at(home), EngineSettings(epoch_interval=0.1), application=spark, allow_paths=["/"]
        ) as engine,
        serve(engine) as served,
        served.connect() as client,
    ):
        yield World(root, client, home)


def test_readers_of_a_failing_source_wait_and_others_go_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    with world(tmp_path, spark) as w:
        w.put("good", "1.json", 1)
        w.put("bad", "1.json", 10)
        for name in ("good", "bad"):
            w.source(name)
            w.client.execute(f"CREATE MATERIALIZED VIEW v_{name} AS SELECT id FROM {name}")
        w.client.execute(
            "CREATE MATERIALIZED VIEW united AS SELECT id FROM v_good UNION ALL SELECT id FROM v_bad"
        )
        w.client.execute("CREATE TABLE t (id BIGINT)")
        w.client.execute("FLUSH")
        assert w.ids("united") == [1, 10]
        # a directory that is not reachable: it comes back with its files
        (tmp_path / "bad").rename(tmp_path / "unmounted")
        await_condition(lambda: w.error("bad") is not None, "the failure is shown")
        w.put("good", "2.json", 2)
        w.client.execute("INSERT INTO t VALUES (5)")
        w.client.execute("FLUSH")
        assert (w.ids("v_good"), w.ids("v_bad")) == ([1, 2], [10])
        assert (w.ids("united"), w.ids("t")) == ([1, 2, 10], [5])
        w.client.execute("CREATE MATERIALIZED VIEW doubled AS SELECT id * 2 AS id FROM v_good")
        assert w.ids("doubled") == [2, 4]
        assert "cannot be read" in str(w.error("bad"))
        assert w.error("good") is None
        failing = next(s.failing_since for s in w.status().sources if s.name == "bad")
        assert failing is not None
        (tmp_path / "unmounted").rename(tmp_path / "bad")
        w.put("bad", "2.json", 11)
        await_condition(lambda: w.ids("v_bad") == [10, 11], "it comes back by itself")
        await_condition(lambda: w.error("bad") is None, "and the failure is gone")
        assert w.ids("united") == [1, 2, 10, 11]


def test_a_lost_range_stops_its_readers_until_the_loss_is_accepted(
    spark: SparkSession, tmp_path: Path
) -> None:
    with world(tmp_path, spark) as w:
        for name in ("good", "bad"):
            w.put(name, "1.json", 1)
            w.source(name)
            w.client.execute(f"CREATE MATERIALIZED VIEW v_{name} AS SELECT id FROM {name}")
        w.client.execute("FLUSH")
        # found, and then changed before it is read
        w.client.execute("ALTER SOURCE bad PAUSE")
        lost, kept = w.put("bad", "2.json", 2), w.put("bad", "3.json", 3)
        assert find_files(w) == 3
        lost.write_text('{"id": 7}\n')
        w.client.execute("ALTER SOURCE bad RESUME")
        await_condition(lambda: "2.json was written again" in str(w.error("bad")), "it is shown")
        assert "RESET" in str(w.error("bad"))
        w.put("good", "2.json", 2)
        w.client.execute("FLUSH")
        assert (w.ids("v_good"), w.ids("v_bad")) == ([1, 2], [1])
        kept.unlink()
        w.client.execute("ALTER SOURCE bad RESET")
        await_condition(lambda: w.ids("v_bad") == [1, 7], "it goes on with what is there")
        await_condition(lambda: w.error("bad") is None, "the error is over")


def find_files(w: World) -> int:
    """Have the ledger note new files, as any query over the source does."""
    w.client.execute("SELECT count(*) FROM bad").fetchall()
    return len(column(w.home, "icestream.files_3", "sequence"))


def test_a_bounded_run_takes_in_the_rest_and_then_fails(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name in ("good", "bad"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.json").write_text('{"id": 1}\n')
    with Engine(Home.at(tmp_path / "home"), application=spark, allow_paths=["/"]) as engine:
        for name in ("good", "bad"):
            engine.execute(
                f"CREATE TABLE {name} (id BIGINT) WITH (connector = 'file', path = '{tmp_path / name}') "
                "FORMAT PLAIN ENCODE JSON;"
            )
        once(engine)
        engine.execute("SELECT * FROM bad")
        (tmp_path / "good" / "2.json").write_text('{"id": 2}\n')
        (tmp_path / "bad" / "2.json").write_text('{"id": 2}\n')
        feed = next(f for f in engine.pipeline.objects.feeds.values() if f.object.name == "bad")
        feed.source.latest(engine.pipeline.record.sources[feed.key])
        (tmp_path / "bad" / "2.json").unlink()
        with pytest.raises(RangeLostError, match=r"2\.json is gone"):
            once(engine)
        assert Counter(column(tmp_path / "home", "public.good", "id")) == Counter([1, 2])
        engine.execute("ALTER TABLE bad RESET")
        once(engine)
        assert column(tmp_path / "home", "public.bad", "id") == [1]
