"""An epoch that ends half way where sinks fill tables: they take each change in once, together with their sinks' positions.

A table with a key takes in a sink and statements, one without a key a stream and statements: there a change that came twice
would be seen.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icestream import faults
from tests.duck import bag
from tests.feeds import Feed, Row, Running
from tests.spark.test_sink_into import Fed, Rows, take_in
from tests.spark.test_views_time import new
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark

POINTS = ("commit-sent@3", "tables-committed")
"""Where it ends: the table with the key is committed, the view over it is not; all are, the log is not."""


class Killed(BaseException):
    """The process is no more."""


def kill_at(monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    name, _, times = point.partition("@")
    left = [int(times or 1)]

    def reach(reached: str) -> None:
        left[0] -= reached == name
        if reached == name and not left[0]:
            raise Killed

    monkeypatch.setattr(faults, "reach", reach)


def test_sinks_into_tables_are_rolled_forward(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    r = random.Random(3)
    one = Fed(tmp_path, "one")
    stream = Feed(tmp_path, "stream", ("id",), keyed=False)
    target: Rows = {}
    bagged: Counter[Row] = Counter()
    shown: Rows = {}
    with Running(tmp_path / "home", spark) as running:
        running.execute(f"""
          {one.statement}; CREATE SOURCE stream (id INT) {stream.clause};
          CREATE TABLE target (id INT PRIMARY KEY, n INT, s VARCHAR DEFAULT 'none');
          CREATE TABLE bagged (id INT);
          CREATE MATERIALIZED VIEW sums AS SELECT s, count(*) AS many, sum(n) AS total FROM target GROUP BY s;
          CREATE SINK plain INTO target AS SELECT id, n, 'one' FROM one;
          CREATE SINK streamed INTO bagged FROM stream;
        """)
        for point in (*POINTS, None):
            one.change(r)
            numbers = [r.randrange(3) for _ in range(4)]
            stream.write(new(*((n,) for n in numbers)))
            statements = [(r.randrange(12), r.randrange(100)) for _ in range(2)]
            values = ", ".join(map(str, statements))
            running.execute(
                f"INSERT INTO target (id, n) VALUES {values}; INSERT INTO bagged VALUES (7)"
            )
            with monkeypatch.context() as patched:
                kill_at(patched, point or "tables-committed")
                with pytest.raises(Killed):
                    running.epoch()
            if point is None:  # what it had brought stays; it brings nothing more
                running.execute("DROP SINK streamed")
            else:
                running.resume()
            running.epoch()
            now: Rows = {id: (n, "one") for id, (_, n) in one.rows.items()}
            take_in(target, [(shown, now)], statements)
            shown = now
            bagged.update((n,) for n in [*numbers, 7])
            assert running.content("target") == bag((i, *row) for i, row in target.items()), point
            assert running.content("bagged") == bag(bagged.elements()), point
            found = running.rows("SELECT s, count(*), sum(n) FROM target GROUP BY s")
            assert running.content("sums") == found, point
