"""CREATE SINK … INTO a table, against a dictionary that takes in the same changes in the documented order."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icestream.dev.duck import open_duckdb
from icestream.errors import SqlError
from tests.duck import bag
from tests.engine import lake_table
from tests.feeds import Event, Feed, Row, Running
from tests.spark.test_views_time import gone, new
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark

Rows = dict[int, tuple[int, str]]


class Fed:
    """A table with a key that files fill, and what it holds."""

    def __init__(self, root: Path, name: str) -> None:
        self.feed = Feed(root, name, ("id", "kind", "n"), keyed=True)
        self.rows: dict[int, tuple[int, int]] = {}
        self.statement = (
            f"CREATE TABLE {name} (id INT PRIMARY KEY, kind INT, n INT) {self.feed.clause}"
        )

    def change(self, r: random.Random) -> None:
        """Some rows come, change and go."""
        events: list[Event] = []
        for id in r.sample(range(12), 5):
            old = self.rows.pop(id, None)
            if old is None or r.random() < 0.7:
                self.rows[id] = (r.randrange(5), (old[1] if old else 0) + r.randrange(1, 50))
            before, after = ((id, *x) if x else None for x in (old, self.rows.get(id)))
            events.append((before, after))
        self.feed.write(events)


def kinds(rows: dict[int, tuple[int, int]]) -> Rows:
    """The query of the second sink: groups of kinds, which share keys with the first sink's."""
    groups: dict[int, int] = defaultdict(int)
    for kind, n in rows.values():
        groups[kind] += n
    return {kind: (total, "kind") for kind, total in groups.items()}


def take_in(
    target: Rows, sinks: list[tuple[Rows, Rows]], statements: list[tuple[int, int]]
) -> None:
    """An epoch: what sinks take back, what they put there in their order, then statements."""
    for before, after in sinks:
        for id, row in before.items():
            if after.get(id) != row:
                target.pop(id, None)
    for before, after in sinks:
        for id, row in after.items():
            if before.get(id) != row:
                target[id] = row
    for id, n in statements:
        target[id] = (n, "none")


def test_two_sinks_and_statements_follow_a_dictionary(spark: SparkSession, tmp_path: Path) -> None:
    r = random.Random(11)
    one, two = Fed(tmp_path, "one"), Fed(tmp_path, "two")
    target: Rows = {}
    shown: list[Rows] = [{}, {}]
    with Running(tmp_path / "home", spark) as running:
        running.execute(f"""
          {one.statement}; {two.statement};
          CREATE TABLE target (id BIGINT PRIMARY KEY, n INT, s VARCHAR DEFAULT 'none', twice INT AS n * 2);
          CREATE MATERIALIZED VIEW sums AS SELECT s, count(*) AS many, sum(twice) AS total FROM target GROUP BY s;
          CREATE SINK plain INTO target AS SELECT id, n, 'one' FROM one;
        """)
        for epoch in range(3):
            if epoch == 1:  # what is there when a sink is made comes in as a whole
                running.execute(
                    "CREATE SINK grouped INTO target (s, id, n) AS SELECT 'kind', kind, sum(n) FROM two GROUP BY kind"
                )
            if epoch == 2:
                running.resume()
            one.change(r)
            two.change(r)
            now: list[Rows] = [
                {id: (n, "one") for id, (_, n) in one.rows.items()},
                kinds(two.rows) if epoch >= 1 else {},
            ]
            statements = [(r.randrange(12), r.randrange(100)) for _ in range(3)]
            values = ", ".join(map(str, statements))
            running.execute(f"INSERT INTO target (id, n) VALUES {values}")
            running.epoch()
            take_in(target, list(zip(shown, now, strict=True)), statements)
            shown = now
            expected = bag((id, n, s, 2 * n) for id, (n, s) in target.items())
            assert running.content("target") == expected, epoch
            found = lake_table(running.home, "public.target").scan().to_arrow()
            batch = (
                open_duckdb()
                .query("SELECT s, count(*), sum(twice) FROM found GROUP BY s")
                .fetchall()
            )
            assert len(found) == len(target)
            assert running.content("sums") == bag(batch), epoch
        running.execute("DROP SINK plain")
        one.change(r)
        running.execute("UPDATE target SET n = 0 WHERE s = 'one'")
        running.epoch()
        target = {id: (0 if s == "one" else n, s) for id, (n, s) in target.items()}
        assert running.content("target") == bag((i, n, s, 2 * n) for i, (n, s) in target.items())
        with pytest.raises(SqlError, match=r"needed by .*sink grouped"):
            running.execute("DROP TABLE target")


def test_tables_that_only_grow(spark: SparkSession, tmp_path: Path) -> None:
    stream = Feed(tmp_path, "stream", ("id", "s"), keyed=False)
    fed = Feed(tmp_path, "fed", ("id", "s"), keyed=True)
    stream.write(new((1, "a"), (1, "a"), (2, None)))
    with Running(tmp_path / "home", spark) as running:
        running.execute(f"""
          CREATE SOURCE stream (id INT, s VARCHAR) {stream.clause};
          CREATE TABLE fed (id INT PRIMARY KEY, s VARCHAR) {fed.clause};
          CREATE TABLE bagged (id INT, s VARCHAR);
          CREATE TABLE grown (id INT NOT NULL, s VARCHAR, twice INT AS id * 2) APPEND ONLY;
          CREATE MATERIALIZED VIEW many AS SELECT count(*) AS n FROM bagged;
          CREATE SINK a INTO bagged FROM stream;
          CREATE SINK b INTO grown AS SELECT nullif(id, 2), s FROM stream;
          CREATE SINK c INTO bagged FROM fed WITH (type = 'append-only', force_append_only = 'true');
          CREATE SINK d INTO grown FROM fed WITH (force_append_only = 'true');
          INSERT INTO bagged VALUES (1, 'a'), (9, 'i');
        """)
        fed.write(new((5, "x"), (6, "y")))
        running.epoch()
        bagged: Counter[Row] = Counter(
            [(1, "a"), (1, "a"), (2, None), (5, "x"), (6, "y"), (1, "a"), (9, "i")]
        )
        grown: Counter[Row] = Counter([(1, "a", 2), (1, "a", 2), (5, "x", 10), (6, "y", 12)])
        assert running.content("bagged") == bag(bagged.elements())
        assert running.content("grown") == bag(grown.elements())
        fed.write([((5, "x"), (5, "z")), *gone((6, "y"))])
        stream.write(new((1, "a")))
        running.execute("DELETE FROM bagged WHERE id = 1; INSERT INTO grown VALUES (7, NULL)")
        running.epoch()
        del bagged[1, "a"]
        bagged += Counter([(5, "z"), (1, "a")])
        grown += Counter([(5, "z", 10), (7, None, 14), (1, "a", 2)])
        assert running.content("grown") == bag(grown.elements())
        # the delete saw what statements had written; it did not wait for the last row of the stream
        assert running.content("bagged") == bag(bagged.elements())
        assert running.content("many") == bag([(bagged.total(),)])


def test_an_update_leaves_what_a_sink_does_to_other_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    fed = Feed(tmp_path, "fed", ("id", "a"), keyed=True)
    fed.write(new((1, 10), (2, 20), (3, 30)))
    with Running(tmp_path / "home", spark) as running:
        running.execute(f"""
          CREATE TABLE fed (id INT PRIMARY KEY, a INT) {fed.clause};
          CREATE TABLE target (id INT PRIMARY KEY, a INT, b INT, c INT AS a + b);
          CREATE SINK s INTO target AS SELECT id, a, 0 FROM fed;
        """)
        running.epoch()
        # one epoch takes in the new rows of the sink, and statements that were evaluated before
        fed.write([((1, 10), (1, 11)), *gone((2, 20))])
        running.execute("UPDATE target SET b = a WHERE id < 3; INSERT INTO target VALUES (4, 4, 4)")
        running.epoch()
        running.execute("UPDATE target SET a = 0 WHERE id = 4")
        running.epoch()
        found = running.content("target")
        assert found == bag([(1, 11, 10, 21), (3, 30, 0, 30), (4, 0, 4, 4)])


def test_sinks_that_fill_parts_of_a_row(spark: SparkSession, tmp_path: Path) -> None:
    with Running(tmp_path / "home", spark) as running:
        running.execute("""
          CREATE TABLE names (id INT PRIMARY KEY, name VARCHAR);
          CREATE TABLE ages (id INT PRIMARY KEY, age INT);
          CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR, age INT) ON CONFLICT DO UPDATE IF NOT NULL;
          CREATE SINK n INTO people (id, name) FROM names;
          CREATE SINK a INTO people (id, age) FROM ages;
          INSERT INTO names VALUES (1, 'ann'), (2, 'bob'); INSERT INTO ages VALUES (1, 30), (3, 50);
          FLUSH;
        """)
        first = bag([(1, "ann", 30), (2, "bob", None), (3, None, 50)])
        assert running.content("people") == first
        running.execute("UPDATE ages SET age = age + 1; DELETE FROM names WHERE id = 2; FLUSH")
        assert running.content("people") == bag([(1, "ann", 31), (3, None, 51)])
