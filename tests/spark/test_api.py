"""The engine from Python."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import icestream
from icestream.config import EngineSettings
from icestream.errors import SqlError
from tests.feeds import Feed
from tests.spark.test_views_time import new
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark


def test_queries_in_every_form(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path, "sales", ("id", "shop", "n"), keyed=False)
    feed.write(new((1, "north", 2), (2, "south", 3), (3, "north", 4)))
    with icestream.connect(tmp_path / "home", spark=spark, allow_paths=[tmp_path]) as db:
        db.execute(f"CREATE SOURCE sales (id INT, shop VARCHAR, n INT) {feed.clause}")
        db.execute(
            "CREATE MATERIALIZED VIEW totals AS SELECT shop, sum(n) AS n FROM sales GROUP BY shop"
        )
        db.flush()
        query = db.sql("SELECT shop, n FROM totals ORDER BY shop")
        assert query.columns == ("shop", "n")
        assert query.to_arrow().to_pylist() == [
            {"shop": "north", "n": 6},
            {"shop": "south", "n": 3},
        ]
        assert list(query.to_pandas()["n"]) == [6, 3]
        assert query.to_spark().count() == 2
        with pytest.raises(SqlError, match="one query"):
            db.sql("FLUSH")


def test_a_subscription_tells_what_comes_and_goes(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path, "sales", ("id", "shop", "n"), keyed=False)
    settings = EngineSettings(epoch_interval=0.2)
    with icestream.connect(
        tmp_path / "home", spark=spark, settings=settings, allow_paths=[tmp_path]
    ) as db:
        db.execute(f"CREATE SOURCE sales (id INT, shop VARCHAR, n INT) {feed.clause}")
        db.execute(
            "CREATE MATERIALIZED VIEW totals AS SELECT shop, sum(n) AS n FROM sales GROUP BY shop"
        )
        folded: Counter[tuple[str, int]] = Counter()
        position = None
        for number in range(3):
            feed.write(new((number, "north", number + 1), (number, f"shop {number}", 1)))
            db.flush()
            found = list(db.subscribe("totals", since=position, follow=False))
            position = found[-1].position
            for change in found:
                folded[change.row["shop"], change.row["n"]] += 1 if change.op == "insert" else -1
        assert list(db.subscribe("totals", since=position, follow=False)) == []
        with pytest.raises(SqlError, match="no longer kept"):
            list(db.subscribe("totals", since=1, follow=False))
        assert +folded == Counter({("north", 6): 1, **{(f"shop {n}", 1): 1 for n in range(3)}})
        db.start()
        feed.write(new((9, "late", 7)))
        for change in db.subscribe("totals", since=position):
            if change.row["shop"] == "late":
                assert (change.op, change.row["n"]) == ("insert", 7)
                break
