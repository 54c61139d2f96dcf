"""INSERT, UPDATE and DELETE against a dictionary, through the server."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from tests.spark.test_serve import serving
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark


def test_a_table_with_a_key_follows_a_dictionary(spark: SparkSession, tmp_path: Path) -> None:
    r = random.Random(5)
    model: dict[int, tuple[str | None, Decimal]] = {}
    with serving(tmp_path / "home", spark) as url, psycopg.connect(url, autocommit=True) as client:
        client.execute(
            "CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR DEFAULT 'none', price NUMERIC(8, 2))"
        )
        client.execute(
            "CREATE MATERIALIZED VIEW totals AS SELECT name, count(*) AS n, sum(price) AS price FROM items GROUP BY name"
        )
        for _ in range(4):
            ids = r.sample(range(20), 6)
            rows = [(i, r.choice(["a", "b", None]), Decimal(r.randrange(1000)) / 100) for i in ids]
            listed = ", ".join(["(%s, %s, %s)"] * len(rows))
            done = client.execute(
                f"INSERT INTO items VALUES {listed}", [v for row in rows for v in row]
            )
            assert done.statusmessage == "INSERT 0 6"
            model |= {i: (name, price) for i, name, price in rows}
            client.execute("INSERT INTO items (price, id) VALUES (1, 50)")
            model[50] = ("none", Decimal(1))
            chosen = [i for i, (name, _) in model.items() if name == "a"]
            done = client.execute("UPDATE items SET price = price + 1 WHERE name = 'a'")
            assert done.statusmessage == f"UPDATE {len(chosen)}"
            for i in chosen:
                model[i] = ("a", model[i][1] + 1)
            gone = sorted(i for i in model if i % 5 == 0)
            found = client.execute("DELETE FROM items WHERE id % 5 = 0 RETURNING id").fetchall()
            assert sorted(int(i) for (i,) in found) == gone
            for i in gone:
                del model[i]
            client.execute("FLUSH")
            assert client.execute("SELECT id, name, price FROM items ORDER BY id").fetchall() == [
                (i, *model[i]) for i in sorted(model)
            ]
            totals: dict[str | None, list[Decimal]] = {}
            for name, price in model.values():
                totals.setdefault(name, []).append(price)
            assert dict(
                (name, (n, price)) for name, n, price in client.execute("SELECT * FROM totals")
            ) == {name: (len(prices), sum(prices)) for name, prices in totals.items()}


def test_a_table_without_a_key_is_a_bag(spark: SparkSession, tmp_path: Path) -> None:
    with serving(tmp_path / "home", spark) as url, psycopg.connect(url, autocommit=True) as client:
        client.execute("SET RW_IMPLICIT_FLUSH = true")
        client.execute("CREATE TABLE log (a INT, b VARCHAR)")
        client.execute("INSERT INTO log VALUES (1, 'x'), (1, 'x'), (2, NULL), (2, NULL), (3, 'z')")
        client.execute("INSERT INTO log SELECT a + 10, b FROM log WHERE a = 1")
        assert client.execute("UPDATE log SET b = 'y' WHERE a = 1").statusmessage == "UPDATE 2"
        assert client.execute("DELETE FROM log WHERE b IS NULL").statusmessage == "DELETE 2"
        assert client.execute("DELETE FROM log WHERE b IS NULL").statusmessage == "DELETE 0"
        found = Counter(client.execute("SELECT a, b FROM log").fetchall())
        assert found == Counter({(1, "y"): 2, (11, "x"): 2, (3, "z"): 1})


def test_a_row_that_is_found_twice_fails_the_statement_and_not_the_pipeline(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second defence, with the first one taken away."""
    with serving(tmp_path / "home", spark) as url, psycopg.connect(url, autocommit=True) as client:
        client.execute("SET RW_IMPLICIT_FLUSH = true")
        client.execute("CREATE TABLE bag (a INT, b DOUBLE)")
        client.execute("CREATE TABLE keyed (a INT PRIMARY KEY, b DOUBLE)")
        client.execute("INSERT INTO bag VALUES (1, 0), (1, 0), (2, NULL), (3, 'NaN')")
        client.execute("INSERT INTO keyed VALUES (1, 0), (2, NULL)")
        with monkeypatch.context() as patched:
            patched.setattr("icestream.plan.select.refuse", lambda *_: None)
            for table in ("bag", "keyed"):
                for condition in ("", " WHERE a = 2", " WHERE b = 'NaN' OR b IS NULL"):
                    text = f"UPDATE {table} SET b = unnest(ARRAY[5, 6]){condition}"
                    with pytest.raises(psycopg.errors.InternalError_, match="more than once"):
                        client.execute(text)
        set_to = "(SELECT max(b) FROM keyed)"
        assert client.execute(f"UPDATE bag SET b = {set_to}").statusmessage == "UPDATE 4"
        assert client.execute(f"UPDATE keyed SET b = {set_to}").statusmessage == "UPDATE 2"
        client.execute("INSERT INTO bag VALUES (9, 9)")
        found = Counter(client.execute("SELECT a, b FROM bag").fetchall())
        assert found == Counter({(1, 0.0): 2, (2, 0.0): 1, (3, 0.0): 1, (9, 9.0): 1})


def test_what_does_not_fit_is_refused_and_changes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    with serving(tmp_path / "home", spark) as url, psycopg.connect(url, autocommit=True) as client:
        client.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL)")
        for wrong in (
            "INSERT INTO t VALUES ('one', 1)",
            "INSERT INTO t VALUES (1, 9999999999)",
            "INSERT INTO t VALUES (1)",
            "INSERT INTO t VALUES (1, NULL)",
            "INSERT INTO t VALUES (1, 2, 3)",
            "INSERT INTO t (a, c) VALUES (1, 2)",
            "UPDATE t SET c = 1",
            "INSERT INTO t VALUES (1, 2) RETURNING c + 1",
        ):
            with pytest.raises(psycopg.Error):
                client.execute(wrong)
        client.execute("FLUSH")
        assert client.execute("SELECT count(*) FROM t").fetchone() == (0,)
    with serving(tmp_path / "home", spark) as url, psycopg.connect(url, autocommit=True) as client:
        client.execute("INSERT INTO t VALUES (1, 2)")
    with serving(tmp_path / "home", spark) as url, psycopg.connect(url, autocommit=True) as client:
        client.execute("FLUSH")
        assert client.execute("SELECT * FROM t").fetchall() == [(1, 2)]
