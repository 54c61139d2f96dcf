"""The life of a view: created late, read by others, explained, dropped; what it may hold, and what reads it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from icestream.config import Home
from icestream.runtime import contents
from icestream.runtime.decode import Counts, Decoding
from tests.duck import bag
from tests.engine import lake, lake_table
from tests.feeds import Feed, Row, Running
from tests.spark.test_views_time import check_law, create, gone, hidden, new, rows
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark


def sink(name: str, query: str, more: str) -> str:
    return f"""CREATE SINK {name} {query} WITH (connector = 'iceberg', {more}, database.name = 'out',
      table.name = '{name}', create_table_if_not_exists = 'true', commit_checkpoint_interval = 1);"""


def sunk(running: Running, name: str) -> object:
    found = lake_table(running.home, f"out.{name}").scan().to_arrow().to_pylist()
    return bag(tuple(row.values()) for row in found)


# -- readers -----------------------------------------------------------------------------------------


def test_a_source_is_decoded_once_for_all_its_views(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = Feed(tmp_path, "events", ("id", "kind", "n"), keyed=False)
    good = Decoding.good
    with Running(tmp_path / "home", spark) as running:
        decoded = running.engine.spark.sparkContext.accumulator(0)

        def counted(self: Decoding, raw: DataFrame, counts: Counts) -> DataFrame:
            def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                for batch in batches:
                    decoded.add(batch.num_rows)
                    yield batch

            return good(self, raw.mapInArrow(tell, raw.schema), counts)

        monkeypatch.setattr(Decoding, "good", counted)
        running.execute(f"""
          CREATE SOURCE events (id INT, kind VARCHAR, n INT) {feed.clause};
          CREATE MATERIALIZED VIEW by_kind AS SELECT kind, count(*) AS n FROM events GROUP BY kind;
          CREATE MATERIALIZED VIEW largest AS SELECT kind, max(n) AS n FROM events GROUP BY kind;
          CREATE MATERIALIZED VIEW median AS
            SELECT kind, percentile_cont(0.5) WITHIN GROUP (ORDER BY n) AS n FROM events GROUP BY kind;
          CREATE MATERIALIZED VIEW large AS SELECT id FROM events WHERE n > 5;
          CREATE MATERIALIZED VIEW pairs AS
            SELECT a.id, b.id AS other FROM events a JOIN events b ON a.kind = b.kind AND a.n < b.n;
          {sink("events_out", "FROM events", "type = 'append-only'")}
        """)
        feed.write(new((1, "a", 1), (2, "a", 9), (3, "b", 4)))
        running.epoch()
        assert decoded.value == 3
        feed.write(new((4, "b", 7), (5, None, None)))
        running.epoch()
        assert decoded.value == 5
        assert running.content("by_kind") == rows(("a", 2), ("b", 2), (None, 1))
        assert running.content("largest") == rows(("a", 9), ("b", 7), (None, None))
        assert running.content("median") == rows(("a", 5), ("b", 5.5), (None, None))
        assert running.content("large") == rows((2,), (4,))
        assert running.content("pairs") == rows((1, 2), (3, 4))
        assert sunk(running, "events_out") == rows(
            (1, "a", 1), (2, "a", 9), (3, "b", 4), (4, "b", 7), (5, None, None)
        )


def test_sinks_over_totals(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path, "orders", ("id", "region", "n"), keyed=True)
    with Running(tmp_path / "home", spark) as running:
        running.execute(f"""
          CREATE TABLE orders (id INT PRIMARY KEY, region VARCHAR, n INT) {feed.clause};
          CREATE MATERIALIZED VIEW by_region AS SELECT region, sum(n) AS n FROM orders GROUP BY region;
          {
            sink(
                "own",
                "AS SELECT region, count(*) AS n FROM orders GROUP BY region",
                "type = 'upsert', primary_key = 'region'",
            )
        }
          {sink("of_view", "FROM by_region", "type = 'upsert', primary_key = 'region'")}
          {sink("large", "AS SELECT region, n FROM by_region WHERE n > 10", "type = 'upsert'")}
          {sink("versions", "FROM by_region", "type = 'append-only', force_append_only = 'true'")}
        """)
        feed.write(new((1, "a", 1), (2, "a", 4), (3, "b", 20)))
        running.epoch()
        assert sunk(running, "own") == rows(("a", 2), ("b", 1))
        assert sunk(running, "of_view") == rows(("a", 5), ("b", 20))
        assert sunk(running, "large") == rows(("b", 20))
        running.resume()
        feed.write([((3, "b", 20), None), ((2, "a", 4), (2, "a", 40)), (None, (4, None, 3))])
        running.epoch()
        assert sunk(running, "own") == rows(("a", 2), (None, 1))
        assert sunk(running, "of_view") == rows(("a", 41), (None, 3))
        assert sunk(running, "large") == rows(("a", 41))
        versions = rows(("a", 5), ("b", 20), ("a", 41), (None, 3))
        assert sunk(running, "versions") == versions, "every version, no delete"
        feed.write([((2, "a", 40), (2, "b", 40)), ((1, "a", 1), None), ((4, None, 3), None)])
        running.epoch()
        assert sunk(running, "own") == sunk(running, "of_view") - rows(("b", 40)) + rows(("b", 1))  # type: ignore[operator]
        assert sunk(running, "of_view") == rows(("b", 40))
        assert sunk(running, "large") == rows(("b", 40))
        assert sunk(running, "versions") == versions + rows(("b", 40))


# -- views of views, created early and late -----------------------------------------------------------

STACK = {
    "lines": "SELECT o.id, o.region, i.n * i.price AS value FROM orders o JOIN items i ON i.order_id = o.id",
    "by_order": "SELECT id, region, sum(value) AS value, count(*) AS n FROM lines GROUP BY id, region",
    "by_region": "SELECT region, max(value) AS most, sum(value) AS value, count(*) AS n FROM by_order GROUP BY region",
    "best": "SELECT region, value FROM by_region ORDER BY value DESC NULLS LAST, region LIMIT 2",
}


def late_stack() -> dict[str, str]:
    """The same views by other names."""
    found = {}
    for name, query in STACK.items():
        for other in STACK:
            query = query.replace(f"FROM {other} ", f"FROM late_{other} ")
        found[f"late_{name}"] = query
    return found


def test_views_over_views_and_views_created_late(spark: SparkSession, tmp_path: Path) -> None:
    orders = Feed(tmp_path, "orders", ("id", "region"), keyed=True)
    items = Feed(tmp_path, "items", ("id", "order_id", "n", "price"), keyed=True)
    with Running(tmp_path / "home", spark) as running:
        running.execute(
            f"CREATE TABLE orders (id INT PRIMARY KEY, region VARCHAR) {orders.clause};"
            f"CREATE TABLE items (id INT PRIMARY KEY, order_id INT, n INT, price INT) {items.clause};"
            + create(STACK)
        )
        orders.write(new((1, "a"), (2, "b"), (3, "a"), (4, "c")))
        items.write(new((1, 1, 2, 5), (2, 1, 1, 1), (3, 2, 3, 3), (4, 3, 1, 100)))
        running.epoch()
        check_law(running, STACK, 0)
        assert running.content("best") == rows(("a", 111), ("b", 9))
        orders.write([((3, "a"), (3, "c")), ((2, "b"), None)])
        items.write([((1, 1, 2, 5), (1, 4, 2, 5)), (None, (5, 9, 1, 1))])
        running.epoch()
        check_law(running, STACK, 1)
        running.execute(create(late_stack()))
        running.epoch()
        check_law(running, {**STACK, **late_stack()}, 2)
        running.resume()
        orders.write(new((9, None), (2, "b")))
        items.write(gone((4, 3, 1, 100)))
        running.epoch()
        check_law(running, {**STACK, **late_stack()}, 3)
        for name in STACK:
            assert running.content(name) == running.content(f"late_{name}"), name


def test_a_late_view_on_a_source_starts_from_its_beginning(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path, "events", ("id", "kind"), keyed=False)
    query = "SELECT kind, count(*) AS n FROM events GROUP BY kind"
    with Running(tmp_path / "home", spark) as running:
        running.execute(
            f"CREATE SOURCE events (id INT, kind VARCHAR) {feed.clause};"
            f"CREATE MATERIALIZED VIEW early AS {query};"
        )
        feed.write(new((1, "a"), (2, "b")))
        running.epoch()
        running.execute(f"CREATE MATERIALIZED VIEW late AS {query};")
        feed.write(new((3, "a")))
        running.epoch()
        expected = rows(("a", 2), ("b", 1))
        assert running.content("early") == expected
        assert running.content("late") == expected


# -- EXPLAIN and DROP ---------------------------------------------------------------------------------


def test_explain_names_the_stages(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path, "t", ("id", "k", "n"), keyed=True)
    with Running(tmp_path / "home", spark) as running:
        running.execute(f"CREATE TABLE t (id INT PRIMARY KEY, k INT, n INT) {feed.clause};")
        (result,) = running.engine.execute(
            "EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT a.k, a.n, t.id "
            "FROM (SELECT k, sum(n) AS n FROM t GROUP BY k) a JOIN t ON t.k = a.k"
        )
        text = "\n".join(str(row[0]) for row in result.rows or ())
        assert "Stage 1 → " in text
        assert "Stage 2 → " in text
        assert "key (k)" in text.replace('"', "")
        (shown,) = running.engine.execute("SHOW MATERIALIZED VIEWS")
        assert not shown.rows, "nothing was created"


def test_dropping_takes_what_was_hidden_along(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "HOT", 0)
    left = Feed(tmp_path, "left", ("id", "k"), keyed=True)
    right = Feed(tmp_path, "right", ("id", "k"), keyed=False)
    views = {
        "joined": "SELECT l.id, r.id AS other FROM l JOIN r ON l.k = r.k",
        "counted": "SELECT j.other, count(*) AS n FROM joined j JOIN (SELECT max(id) AS m FROM l) x ON j.id <> x.m GROUP BY j.other",
    }  # fmt: skip
    home = tmp_path / "home"
    with Running(home, spark) as running:
        running.execute(
            f"CREATE TABLE l (id INT PRIMARY KEY, k INT) {left.clause};"
            f"CREATE SOURCE r (id INT, k INT) {right.clause};" + create(views)
        )
        left.write(new(*[(i, i % 10) for i in range(60)]))
        right.write(new(*[(i, i % 10) for i in range(60)]))
        running.epoch()
        left.write([((5, 5), (5, 6))])
        right.write(new((100, 3)))
        running.epoch()
        check_law(running, views)
        everything = hidden(home, "joined") + hidden(home, "counted")
        assert len(everything) >= 2, "the source's copy and the greatest id are stages"
        indexes = Home.at(home).indexes
        assert len(list(indexes.iterdir())) >= 3
        running.execute("DROP TABLE l CASCADE")
        assert not hidden(home, "joined")
        assert not hidden(home, "counted")
        assert not lake(home).list_tables("public")
        assert not list(indexes.iterdir())
        assert running.rows("SHOW MATERIALIZED VIEWS") == rows()
        running.execute(
            f"CREATE TABLE l (id INT PRIMARY KEY, k INT) {left.clause};" + create(views)
        )
        running.epoch()
        check_law(running, views, "made again")


# -- what a view may hold -----------------------------------------------------------------------------

DECLARED = """id INT PRIMARY KEY, tags VARCHAR[], place STRUCT<city VARCHAR, zip INT>, doc JSONB, price NUMERIC(12, 3),
  at TIMESTAMP, seen TIMESTAMPTZ, day DATE, flag BOOLEAN, ratio DOUBLE PRECISION, raw BYTEA"""
COLUMNS = ("id", "tags", "place", "doc", "price", "at", "seen", "day", "flag", "ratio")
TYPED = {
    "copied": "SELECT id, tags, doc, price, at, seen, day, flag, ratio, raw, (place).city AS city FROM things",
    "by_tags": "SELECT tags, count(*) AS n, sum(price) AS price FROM things GROUP BY tags",
    "by_place": "SELECT (place).city AS city, (place).zip AS zip, min(at) AS first, max(seen) AS last FROM things GROUP BY (place).city, (place).zip",
    "by_doc": "SELECT doc ->> 'kind' AS kind, avg(price) AS price, bool_or(flag) AS flag FROM things GROUP BY doc ->> 'kind'",
    "by_price": "SELECT price, array_agg(id ORDER BY id) AS ids FROM things GROUP BY price",
    "by_day": "SELECT day, string_agg((place).city, ',' ORDER BY id) AS cities, sum(ratio) AS ratio FROM things GROUP BY day",
    "by_flag": "SELECT flag, at, count(DISTINCT day) AS days FROM things GROUP BY flag, at",
    "tag_counts": "SELECT x.tag, count(*) AS n FROM things t CROSS JOIN unnest(t.tags) AS x (tag) GROUP BY x.tag",
    "cities": "SELECT (place).city AS city, flag FROM things",
    "all_tags": "SELECT tags FROM things",
    "pairs": "SELECT a.id, b.id AS other FROM things a JOIN things b ON a.price = b.price AND a.id < b.id",
    "twins": "SELECT a.id, b.id AS other FROM things a LEFT JOIN things b ON a.seen IS NOT DISTINCT FROM b.seen AND a.id <> b.id",
}  # fmt: skip


def thing(
    id: int, tags: object, city: str | None, kind: str, price: str | None, *more: object
) -> Row:
    at = datetime(2026, 3, 1, id % 3, 0, 0, 123_456)
    zoned = f"{at.isoformat()}Z" if id % 2 else None
    place = None if city is None else {"city": city, "zip": id % 2}
    flag, ratio = more or (id % 2 == 0, id / 4)
    day = None if id % 4 == 0 else f"2026-03-0{1 + id % 2}"
    value = None if price is None else Decimal(price)
    return (id, tags, place, {"kind": kind, "n": [id, None]}, value, at, zoned, day, flag, ratio)


def test_values_of_every_type_and_groups_of_null(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path, "things", COLUMNS, keyed=True)
    one = thing(1, ["a", "b"], "Bonn", "x", "1.500")
    two = thing(2, ["a", "b"], "Bonn", "y", "1.500")
    three = thing(3, [], None, "x", None)
    four = thing(4, None, "Köln", "z", "-999999999.999", None, None)
    five = thing(5, ["b", None], "Bonn", "x", "0.000", True, 1e20)
    six = thing(6, ["a", "b"], "Bonn", "x", "1.500", False, -1e20)
    with Running(tmp_path / "home", spark) as running:
        running.execute(f"CREATE TABLE things ({DECLARED}) {feed.clause};" + create(TYPED))
        for number, events in enumerate(
            [
                new(one, two, three, four),
                [*new(five, six), (two, thing(2, None, "Bonn", "x", None))],
                [*gone(one, four, five), (three, thing(3, ["a", "b"], "Bonn", "y", "1.5"))],
                [*gone(six), *new(four)],
            ]
        ):
            feed.write(events)
            running.epoch()
            check_law(running, TYPED, number)
            if number == 1:
                running.resume()
        letters = lake_table(running.home, "dead_letters.things").scan().to_arrow()
        assert letters.num_rows == 0, letters["reason"].to_pylist()


def test_rows_that_are_alike_go_one_by_one(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path, "items", ("id", "kind", "tags"), keyed=True)
    views = {
        "kinds": "SELECT kind FROM items",
        "tagged": "SELECT tags, kind FROM items WHERE id < 100",
        "united": "SELECT kind FROM items UNION ALL SELECT kind FROM items WHERE id > 2",
        "counted": "SELECT kind, count(*) AS n FROM kinds GROUP BY kind",
    }
    a, b, c, d = [(i, "x" if i < 4 else None, ["t"]) for i in (1, 2, 3, 4)]
    e = (5, None, ["t"])
    with Running(tmp_path / "home", spark) as running:
        running.execute(
            f"CREATE TABLE items (id INT PRIMARY KEY, kind VARCHAR, tags VARCHAR[]) {feed.clause};"
            + create(views)
        )
        feed.write(new(a, b, c, d, e))
        running.epoch()
        check_law(running, views, 0)
        assert running.content("kinds") == rows(("x",), ("x",), ("x",), (None,), (None,))
        feed.write([*gone(b, e), (a, (1, "y", ["t"]))])
        running.epoch()
        check_law(running, views, 1)
        assert running.content("kinds") == rows(("x",), ("y",), (None,))
        assert running.content("united") == rows(("x",), ("x",), ("y",), (None,), (None,))
        running.resume()
        feed.write([*gone(c, d), ((1, "y", ["t"]), (1, "x", ["t", "u"])), *new(e, b)])
        running.epoch()
        check_law(running, views, 2)
        assert running.content("counted") == rows(("x", 2), (None, 1))


def test_zeros_keep_their_signs(spark: SparkSession, tmp_path: Path) -> None:
    """A view without a key holds both zeros of an epoch, and a row that changes from one zero to the other has the new one."""
    with Running(tmp_path / "home", spark) as running:
        running.execute("""
          CREATE TABLE t (id INT PRIMARY KEY, x DOUBLE);
          CREATE MATERIALIZED VIEW bag AS SELECT x FROM t WHERE id < 10;
          CREATE MATERIALIZED VIEW keyed AS SELECT id, x FROM t;
          INSERT INTO t VALUES (1, '-0'), (2, '0'), (3, '-0'), (4, 'NaN'), (5, NULL);
          FLUSH;
        """)

        def stored(name: str) -> list[str]:
            found = lake_table(running.home, f"public.{name}").scan().to_arrow()
            return sorted(str(tuple(row.values())) for row in found.to_pylist())

        assert stored("bag") == ["(-0.0,)", "(-0.0,)", "(0.0,)", "(None,)", "(nan,)"]
        running.execute("UPDATE t SET x = '0' WHERE id = 1; FLUSH;")
        assert stored("keyed") == ["(1, 0.0)", "(2, 0.0)", "(3, -0.0)", "(4, nan)", "(5, None)"]
        assert len(stored("bag")) == 5
