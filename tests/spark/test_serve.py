"""Clients of a running engine: objects are made and dropped while it runs, and queries see whole epochs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest
from psycopg import errors
from pyspark.sql import SparkSession

from icestream.config import EngineSettings, Home
from icestream.engine import Engine
from tests.feeds import Feed
from tests.serving import serve
from tests.spark.test_views_time import new
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark


@contextmanager
def serving(home: Path, spark: SparkSession, epoch_interval: float = 0.2) -> Iterator[str]:
    """A server on a home, and how to reach it."""
    with (
        Engine(
            Home.at(home),
            EngineSettings(epoch_interval=epoch_interval),
            application=spark,
            allow_paths=["/"],
        ) as engine,
        serve(engine) as served,
    ):
        yield served.url


def test_views_are_made_while_it_runs(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path, "sales", ("id", "shop", "price", "at"), keyed=False)
    feed.write(new((1, "north", "1.50", "2026-01-01 10:00:00"), (2, "south", "2.00", None)))
    with serving(tmp_path / "home", spark) as url, psycopg.connect(url, autocommit=True) as client:
        client.execute(
            f"CREATE SOURCE sales (id INT, shop VARCHAR, price NUMERIC(8, 2), at TIMESTAMP) {feed.clause}"
        )
        client.execute(
            "CREATE MATERIALIZED VIEW by_shop AS SELECT shop, count(*) AS n, sum(price) AS total FROM sales GROUP BY shop"
        )
        client.execute("FLUSH")
        query = "SELECT shop, n, total FROM by_shop WHERE n >= %s ORDER BY shop"
        first = [("north", 1, Decimal("1.50")), ("south", 1, Decimal("2.00"))]
        assert client.execute(query, [1]).fetchall() == first
        assert client.execute(query, [1], binary=True).fetchall() == first
        assert client.execute("SHOW MATERIALIZED VIEWS").fetchall() == [("by_shop",)]
        columns = client.execute(
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'by_shop' ORDER BY ordinal_position"
        )
        assert [name for name, _ in columns] == ["shop", "n", "total"]
        feed.write(new((3, "north", "0.25", "2026-01-01 11:00:00")))
        with psycopg.connect(url, autocommit=True) as other:
            other.execute("CREATE MATERIALIZED VIEW latest AS SELECT max(at) AS at FROM sales")
            other.execute("FLUSH")
            assert other.execute("SELECT at FROM latest").fetchone() == (datetime(2026, 1, 1, 11),)
        assert client.execute(query, [2]).fetchall() == [("north", 2, Decimal("1.75"))]
        with pytest.raises(errors.DependentObjectsStillExist):
            client.execute("DROP SOURCE sales")
        client.execute("DROP SOURCE sales CASCADE")
        with pytest.raises(errors.UndefinedTable):
            client.execute(query, [1])


def test_a_home_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path, "ticks", ("id",), keyed=False)
    feed.write(new((1,), (2,)))
    with serving(tmp_path / "home", spark) as url, psycopg.connect(url, autocommit=True) as client:
        client.execute(f"CREATE SOURCE ticks (id INT) {feed.clause}")
        client.execute("CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM ticks")
        client.execute("FLUSH")
    feed.write(new((3,)))
    with serving(tmp_path / "home", spark) as url, psycopg.connect(url, autocommit=True) as client:
        client.execute("FLUSH")
        assert client.execute("SELECT n FROM counted").fetchone() == (3,)


def test_many_ask_while_epochs_go_on(spark: SparkSession, tmp_path: Path) -> None:
    """Money moves between two accounts: whenever somebody looks, all of it is there."""
    feed = Feed(tmp_path, "moves", ("id", "account", "amount"), keyed=False)
    wrong: list[object] = []
    done = threading.Event()
    with serving(tmp_path / "home", spark) as url:
        with psycopg.connect(url, autocommit=True) as client:
            client.execute(f"CREATE SOURCE moves (id INT, account INT, amount INT) {feed.clause}")
            client.execute(
                "CREATE MATERIALIZED VIEW balances AS SELECT account, sum(amount) AS balance FROM moves GROUP BY account"
            )
            feed.write(new((0, 1, 5), (0, 2, -5)))
            client.execute("FLUSH")

        def ask() -> None:
            with psycopg.connect(url, autocommit=True) as client:
                while not done.is_set():
                    (found,) = client.execute("SELECT sum(balance) FROM balances").fetchone() or ()
                    if found != 0:
                        wrong.append(found)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        with psycopg.connect(url, autocommit=True) as client:
            for number in range(1, 4):
                feed.write(new((number, 1, number), (number, 2, -number)))
                client.execute("FLUSH")
        done.set()
        for thread in threads:
            thread.join(60)
    assert not wrong
