"""ALTER while the pipeline runs: no row is lost or comes twice, other readers see the new names and columns, and what a
crash cuts short is made up for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import psycopg
import pytest
from psycopg import errors
from pyspark.sql import SparkSession

from icestream import faults
from icestream.errors import FencedError, SqlError
from tests.duck import bag
from tests.engine import lake, lake_table
from tests.feeds import Feed, Running
from tests.spark.test_serve import serving
from tests.spark.test_views_time import new
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark


def names(home: Path) -> set[str]:
    return {name for _, name in lake(home).list_tables("public")}


def test_a_renamed_table_goes_on_under_its_new_name(spark: SparkSession, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with serving(home, spark) as url, psycopg.connect(url, autocommit=True) as client:
        client.execute("SET RW_IMPLICIT_FLUSH = true")
        client.execute("CREATE TABLE items (id INT PRIMARY KEY, n INT)")
        client.execute(
            "CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS c, sum(items.n) AS s FROM items"
        )
        client.execute("INSERT INTO items VALUES (1, 10), (2, 20)")
        client.execute('ALTER TABLE items RENAME TO "Things"')
        client.execute("ALTER MATERIALIZED VIEW totals RENAME TO sums")
        client.execute('INSERT INTO "Things" VALUES (2, 25), (3, 30)')
        client.execute('DELETE FROM "Things" WHERE id = 1')
        client.execute("FLUSH")
        assert client.execute("SELECT * FROM sums").fetchall() == [(2, 55)]
        with pytest.raises(errors.UndefinedTable):
            client.execute("SELECT * FROM items")
        client.execute("CREATE TABLE items (id INT PRIMARY KEY)")  # the name is free
        client.execute("INSERT INTO items VALUES (7)")
        with pytest.raises(errors.DuplicateTable):
            client.execute("ALTER TABLE items RENAME TO sums")
        assert client.execute("SELECT * FROM items").fetchall() == [(7,)]
    assert names(home) == {"Things", "items", "sums"}
    assert sorted(lake_table(home, "public.Things").scan().to_arrow()["id"].to_pylist()) == [2, 3]
    assert lake_table(home, "public.Things").location() != lake_table(home, "public.items").location()  # fmt: skip
    with serving(home, spark) as url, psycopg.connect(url, autocommit=True) as client:
        client.execute("SET RW_IMPLICIT_FLUSH = true")
        client.execute('ALTER TABLE items SWAP WITH "Things"')
        client.execute("UPDATE items SET n = n + 1")
        client.execute('DROP TABLE "Things"')
        assert client.execute("SELECT * FROM items ORDER BY id").fetchall() == [(2, 26), (3, 31)]
        assert client.execute("SELECT * FROM sums").fetchall() == [(2, 57)]
    assert names(home) == {"items", "sums"}


@pytest.mark.parametrize("key", [" PRIMARY KEY", ""])
def test_columns_come_and_go(spark: SparkSession, tmp_path: Path, key: str) -> None:
    home = tmp_path / "home"
    with serving(home, spark) as url, psycopg.connect(url, autocommit=True) as client:
        client.execute("SET RW_IMPLICIT_FLUSH = true")
        client.execute(f"CREATE TABLE t (id INT{key}, a INT, b VARCHAR)")
        client.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        client.execute("INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'y')")
        client.execute("SET RW_IMPLICIT_FLUSH = false")
        client.execute("INSERT INTO t VALUES (3, 3, 'z')")
        client.execute("ALTER TABLE t ADD COLUMN c VARCHAR")
        with pytest.raises(errors.DuplicateColumn):
            client.execute("ALTER TABLE t ADD COLUMN c INT")
        client.execute("INSERT INTO t VALUES (4, 4, 'w', 'new')")
        client.execute("UPDATE t SET c = 'set' WHERE id = 1")
        client.execute("DELETE FROM t WHERE id = 2")
        client.execute("FLUSH")
        want = [(1, 1, "x", "set"), (3, 3, "z", None), (4, 4, "w", "new")]
        assert client.execute("SELECT * FROM t ORDER BY id").fetchall() == want
        assert client.execute("SELECT * FROM v ORDER BY id").fetchall() == [r[:3] for r in want]
        with pytest.raises(errors.DependentObjectsStillExist):
            client.execute("ALTER TABLE t DROP COLUMN b")
        client.execute("DROP MATERIALIZED VIEW v")
        client.execute("ALTER TABLE t DROP COLUMN b")
        with pytest.raises(errors.UndefinedColumn):
            client.execute("SELECT b FROM t")
        client.execute("DELETE FROM t WHERE id = 3")
        client.execute("INSERT INTO t VALUES (5, 5, 'five')")
    want = [(1, 1, "set"), (4, 4, "new"), (5, 5, "five")]
    with serving(home, spark) as url, psycopg.connect(url, autocommit=True) as client:
        client.execute("FLUSH")
        assert client.execute("SELECT * FROM t ORDER BY id").fetchall() == want
    read = lake_table(home, "public.t").scan().to_arrow().select(["id", "a", "c"]).to_pylist()
    assert sorted(tuple(row.values()) for row in read) == want


def test_what_is_fed_from_outside(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path, "sales", ("id", "shop", "more"), keyed=False)
    feed.write(new((1, "north", 1), ("bad", "south", 2)))
    cdc = Feed(tmp_path, "stock", ("id", "n", "more"), keyed=True)
    cdc.write(new((1, 10, "a"), (2, 20, "b")))
    with Running(tmp_path / "home", spark) as engine:
        engine.execute(
            f"CREATE SOURCE sales (id INT, shop VARCHAR) {feed.clause};"
            f"CREATE TABLE stock (id INT PRIMARY KEY, n INT) {cdc.clause};"
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM sales"
        )
        engine.epoch()
        engine.execute("ALTER SOURCE sales RENAME TO orders; ALTER SOURCE orders ADD COLUMN more INT")  # fmt: skip
        engine.execute("ALTER TABLE stock ADD COLUMN more VARCHAR")
        engine.execute("CREATE MATERIALIZED VIEW w AS SELECT id, more FROM orders")
        feed.write(new((3, "west", 3), ("worse", "x", 4)))
        cdc.write([((1, 10, "a"), (1, 11, "c")), ((2, 20, "b"), None), (None, (3, 30, "d"))])
        engine.epoch()
        assert engine.rows("SELECT * FROM v") == bag([(1, "north"), (3, "west")])
        assert engine.rows("SELECT * FROM w") == bag([(1, 1), (3, 3)])
        assert engine.rows("SELECT * FROM stock") == bag([(1, 11, "c"), (3, 30, "d")])
        engine.resume()
        assert engine.rows("SELECT count(*) FROM dead_letters.orders") == bag([(2,)])
        engine.execute("ALTER SOURCE orders SET SOURCE_RATE_LIMIT = 0; ALTER TABLE stock SET PARALLELISM = 2")  # fmt: skip
        feed.write(new((4, "east", 4)))
        cdc.write(new((4, 40, "e")))
        engine.epoch()
        engine.resume()
        assert engine.rows("SELECT count(*) FROM v") == bag([(2,)])
        assert engine.rows("SELECT count(*) FROM stock") == bag([(3,)])
        engine.execute("PAUSE; ALTER SOURCE orders SET SOURCE_RATE_LIMIT = DEFAULT; FLUSH")
        assert engine.rows("SELECT count(*) FROM v") == bag([(2,)])
        engine.resume()
        engine.epoch()
        assert engine.rows("SELECT count(*) FROM v") == bag([(2,)])
        assert engine.engine.execute("SHOW paused")[0].rows == [("true",)]
        engine.execute("RESUME; FLUSH")
        assert engine.rows("SELECT * FROM v") == bag([(1, "north"), (3, "west"), (4, "east")])
        engine.execute(f"CREATE TABLE raw (id INT) {feed.clause}; ALTER TABLE raw SET PARALLELISM = 3")  # fmt: skip
        feed.write(new(*((n, "many", n) for n in range(50))))
        engine.epoch()
        summary = lake_table(tmp_path / "home", "public.raw").current_snapshot().summary  # type: ignore[union-attr]
        assert summary["added-data-files"] == "3"  # type: ignore[index]


def test_a_table_of_somebody_else_is_in_the_way(spark: SparkSession, tmp_path: Path) -> None:
    with Running(tmp_path / "home", spark) as engine:
        engine.execute("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1); FLUSH")
        spark_sql = engine.engine.spark.sql
        spark_sql("CREATE TABLE lake.public.other (x INT) USING iceberg")
        with pytest.raises(SqlError, match="did not make"):
            engine.execute("ALTER TABLE t RENAME TO other")
        engine.execute("INSERT INTO t VALUES (2); FLUSH")
        assert engine.rows("SELECT * FROM t") == bag([(1,), (2,)])


STEPS = [
    ("ALTER TABLE t RENAME TO u", ("alter-stored", "table-renamed")),
    ("ALTER TABLE u SWAP WITH other", ("alter-stored", "table-renamed", "table-renamed@3")),
    ("ALTER TABLE other ADD COLUMN x INT", ("alter-stored", "columns-changed")),
    ("ALTER TABLE other DROP COLUMN x", ("alter-stored", "columns-changed")),
]


def test_what_a_crash_cuts_short_is_made_up_for(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statement is stopped after each of its steps; the next start completes it."""
    with Running(tmp_path / "home", spark) as engine:
        engine.execute(
            "CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE other (id INT PRIMARY KEY, y INT);"
            "CREATE MATERIALIZED VIEW v AS SELECT sum(id) AS s FROM t"
        )
        total = 0
        for statement, points in STEPS:
            for number, point in enumerate(points):
                first = engine.engine.catalog
                table = next(o for o in first if o.key == "t#1").name
                total += 1
                engine.execute(f"INSERT INTO {table} (id) VALUES ({total})")
                if number:
                    engine.execute(_back(statement))
                _stop_at(point, monkeypatch)
                with pytest.raises(FencedError):
                    engine.execute(statement)
                monkeypatch.undo()
                engine.resume()
                engine.epoch()
                table = next(o for o in engine.engine.catalog if o.key == "t#1").name
                whole = bag([(total * (total + 1) // 2,)])
                assert engine.rows("SELECT s FROM v") == whole, (statement, point)
                assert engine.rows(f"SELECT sum(id) FROM {table}") == whole, (statement, point)
                assert names(tmp_path / "home") == {o.name for o in engine.engine.catalog}


def _back(statement: str) -> str:
    """What undoes a statement."""
    words = statement.split()
    match words[3]:
        case "RENAME":
            return f"ALTER TABLE {words[5]} RENAME TO {words[2]}"
        case "ADD":
            return f"ALTER TABLE {words[2]} DROP COLUMN {words[5]}"
        case "DROP":
            return f"ALTER TABLE {words[2]} ADD COLUMN {words[5]} INT"
    return statement


def _stop_at(point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """End the statement where a kill would end the process: nothing is put back."""
    name, _, times = point.partition("@")
    reached = Counter[str]()

    def reach(here: str) -> None:
        reached[here] += 1
        if here == name and reached[here] == int(times or 1):
            raise FencedError("stopped")

    monkeypatch.setattr(faults, "reach", reach)
