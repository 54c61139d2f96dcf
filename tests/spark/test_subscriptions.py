"""Subscriptions: what their cursors give adds up to what is there, wherever they begin."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors
from pyspark.sql import SparkSession

from icestream.dev.slt.__main__ import main
from tests.spark.test_serve import serving
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark

CASES = sorted((Path(__file__).parents[1] / "slt" / "cursors").glob("*.slt"))


@pytest.fixture(scope="module")
def url(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("subscriptions") / "home", spark) as url:
        yield url


@pytest.fixture
def client(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET rw_implicit_flush TO true")
        yield connection


@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
def test_the_cases(url: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed = main(["--url", url, "--keep-going", str(file)])
    assert not failed, capsys.readouterr().out


def test_changes_come_epoch_by_epoch_and_updates_in_pairs(client: psycopg.Connection) -> None:
    client.execute("CREATE TABLE told (id INT PRIMARY KEY, s VARCHAR, n NUMERIC)")
    client.execute("INSERT INTO told VALUES (1, 'a', 1.5), (2, 'b', 2)")
    client.execute("CREATE SUBSCRIPTION telling FROM told")
    client.execute("DECLARE all_of_it SUBSCRIPTION CURSOR FOR telling FULL")
    client.execute("DECLARE news SUBSCRIPTION CURSOR FOR telling")
    client.execute("UPDATE told SET n = n + 1 WHERE id = 1")
    client.execute("INSERT INTO told VALUES (3, NULL, NULL)")
    client.execute("DELETE FROM told WHERE id = 2")
    first = client.execute("FETCH ALL FROM all_of_it").fetchall()
    assert sorted(map(str, first[:2])) == sorted(
        map(str, [row for row in first if row[-1] is None])
    )
    news = client.execute("FETCH 2 FROM news").fetchall()
    news += client.execute("FETCH 10 FROM news").fetchall()
    assert [(*row[:2], float(row[2] or 0), row[3]) for row in news] == [
        (1, "a", 1.5, "UpdateDelete"),
        (1, "a", 2.5, "UpdateInsert"),
        (3, None, 0.0, "Insert"),
        (2, "b", 2.0, "Delete"),
    ]
    times = [row[-1] for row in news]
    assert times == sorted(times)
    assert len(set(times)) == 3
    assert first[2:] == news
    assert added_up(first) == Counter(client.execute("SELECT * FROM told").fetchall())
    assert client.execute("FETCH NEXT FROM news").fetchall() == []
    client.execute(f"DECLARE again SUBSCRIPTION CURSOR FOR telling SINCE {times[1]}")
    assert client.execute("FETCH ALL FROM again").fetchall() == news[2:]
    client.execute("DECLARE begun SUBSCRIPTION CURSOR FOR telling SINCE begin()")
    assert client.execute("FETCH ALL FROM begun").fetchall() == news
    cursors = client.execute("SHOW SUBSCRIPTION CURSORS").fetchall()
    assert cursors == [(n, "telling") for n in ("all_of_it", "news", "again", "begun")]
    client.execute("DROP TABLE told CASCADE")


def added_up(changes: Iterable[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """The rows that are there after changes."""
    found: Counter[tuple[Any, ...]] = Counter()
    for *row, op, _ in changes:
        found[tuple(row)] += 1 if op.endswith("Insert") else -1
    assert min(found.values()) >= 0
    return +found


def test_a_view_of_one_row_and_one_whose_rows_are_alike(client: psycopg.Connection) -> None:
    client.execute("CREATE TABLE points (id INT PRIMARY KEY, x INT)")
    client.execute("CREATE MATERIALIZED VIEW total AS SELECT sum(x) AS x FROM points")
    client.execute("CREATE MATERIALIZED VIEW xs AS SELECT x FROM points WHERE x > 0")
    client.execute("INSERT INTO points VALUES (1, 1), (2, 1)")
    for name in ("total", "xs"):
        client.execute(f"CREATE SUBSCRIPTION of_{name} FROM {name} WITH (retention = '1 hour')")
        client.execute(f"DECLARE in_{name} SUBSCRIPTION CURSOR FOR of_{name} FULL")
    client.execute("UPDATE points SET x = 5 WHERE id = 2")
    totals = client.execute("FETCH ALL FROM in_total").fetchall()
    assert [row[:2] for row in totals] == [
        (2, "Insert"),
        (2, "UpdateDelete"),
        (6, "UpdateInsert"),
    ]
    client.execute("ALTER MATERIALIZED VIEW total RENAME TO sums")
    client.execute("INSERT INTO points VALUES (3, 1)")
    sums = client.execute("FETCH ALL FROM in_total").fetchall()
    assert [row[:2] for row in sums] == [(6, "UpdateDelete"), (7, "UpdateInsert")]
    xs = client.execute("FETCH ALL FROM in_xs").fetchall()
    assert added_up(xs) == Counter({(1,): 2, (5,): 1})
    with pytest.raises(errors.DependentObjectsStillExist):
        client.execute("DROP MATERIALIZED VIEW xs")
    assert client.execute("SHOW SUBSCRIPTIONS").fetchall() == [("of_total",), ("of_xs",)]
    (shown,) = client.execute("SHOW CREATE SUBSCRIPTION of_xs").fetchall()
    assert "retention = '1 hour'" in shown[1]
    client.execute("DROP SUBSCRIPTION of_xs")
    with pytest.raises(psycopg.Error, match="was dropped"):
        client.execute("FETCH NEXT FROM in_xs")
    client.execute("DROP TABLE points CASCADE")


def test_a_fetch_waits_for_what_comes_and_can_be_cancelled(
    url: str, client: psycopg.Connection
) -> None:
    client.execute("CREATE TABLE slow (id INT PRIMARY KEY)")
    client.execute("CREATE SUBSCRIPTION slowly FROM slow")
    with psycopg.connect(url) as other:
        other.execute("DECLARE c SUBSCRIPTION CURSOR FOR slowly")
        other.commit()  # the cursor is the session's, not the transaction's
        began = time.monotonic()
        assert other.execute("FETCH NEXT FROM c WITH (timeout = '300ms')").fetchall() == []
        assert 0.3 <= time.monotonic() - began < 5
        found: list[tuple[Any, ...]] = []
        fetching = threading.Thread(
            target=lambda: found.extend(other.execute("FETCH 5 FROM c WITH (timeout = '60s')"))
        )
        fetching.start()
        client.execute("INSERT INTO slow VALUES (7)")
        fetching.join(30)
        assert [row[:2] for row in found] == [(7, "Insert")]
        threading.Timer(0.2, other.cancel_safe).start()
        with pytest.raises(errors.QueryCanceled):
            other.execute("FETCH NEXT FROM c WITH (timeout = '60s')")
    client.execute("DROP TABLE slow CASCADE")


def test_what_cannot_be_declared(client: psycopg.Connection) -> None:
    client.execute("CREATE TABLE plain (id INT PRIMARY KEY)")
    with pytest.raises(psycopg.Error, match="does not exist"):
        client.execute("DECLARE c SUBSCRIPTION CURSOR FOR nothing")
    with pytest.raises(psycopg.Error, match='"plain" is a table'):
        client.execute("DECLARE c SUBSCRIPTION CURSOR FOR plain")
    client.execute("CREATE SUBSCRIPTION plainly FROM plain")
    with pytest.raises(psycopg.Error, match="in the future"):
        client.execute("DECLARE c SUBSCRIPTION CURSOR FOR plainly SINCE 9999999999999")
    with pytest.raises(psycopg.Error, match="no position"):
        client.execute("DECLARE c SUBSCRIPTION CURSOR FOR plainly SINCE yesterday")
    client.execute("DECLARE c SUBSCRIPTION CURSOR FOR plainly SINCE '2026-01-01 00:00:00'")
    with pytest.raises(errors.DuplicateCursor):
        client.execute("DECLARE c CURSOR FOR SELECT 1 AS a")
    client.execute("DROP TABLE plain CASCADE")
