"""Transactions, what statements see of acknowledged writes, and unique keys: against dictionaries, through the server."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import asyncpg
import psycopg
import pytest
from psycopg import errors
from pyspark.sql import DataFrame, SparkSession

from icestream.catalog.catalog import Catalog
from icestream.plan.logical import Node
from icestream.runtime.query import frame_of
from icestream.runtime.transaction import Transaction
from tests.seeds import draw_seed
from tests.spark.test_serve import serving
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark

SECONDS = float(os.environ.get("TRANSACTION_SECONDS", "5"))
"""How long random transactions are tried."""


@pytest.fixture(scope="module")
def url(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("transactions") / "home", spark, 30.0) as url:
        yield url


def connect(url: str, *, autocommit: bool = False) -> psycopg.Connection:
    return psycopg.connect(url, autocommit=autocommit)


def rows(client: psycopg.Connection, query: str) -> list[tuple[object, ...]]:
    return client.execute(query).fetchall()


def test_every_statement_sees_all_writes_before_it(url: str) -> None:
    with connect(url, autocommit=True) as one, connect(url, autocommit=True) as two:
        one.execute("CREATE TABLE src (id INT PRIMARY KEY, v INT)")
        one.execute("CREATE TABLE archive (id INT PRIMARY KEY, v INT)")
        one.execute("CREATE TABLE other (id INT)")
        one.execute("CREATE VIEW plain AS SELECT v FROM src")
        one.execute("CREATE MATERIALIZED VIEW sums AS SELECT sum(v) AS v FROM plain")
        one.execute(
            "CREATE SINK copied INTO other AS SELECT v::int FROM sums WITH (force_append_only = true)"
        )
        one.execute("INSERT INTO src VALUES (1, 10), (2, 20)")
        one.execute("INSERT INTO archive SELECT * FROM src")
        one.execute("DELETE FROM src")
        assert rows(one, "SELECT * FROM archive ORDER BY id") == [(1, 10), (2, 20)]
        assert rows(one, "SELECT * FROM src") == []
        one.execute("INSERT INTO src VALUES (3, 5)")
        assert rows(two, "SELECT v FROM plain") == [(5,)]
        two.execute("INSERT INTO src VALUES (4, 6)")
        assert rows(one, "SELECT v FROM sums") == [(11,)]
        one.execute("INSERT INTO src VALUES (5, 4)")
        assert (15,) in rows(two, "SELECT id FROM other")


def test_rollback_commit_and_savepoints(url: str) -> None:
    with connect(url) as client, connect(url, autocommit=True) as watcher:
        watcher.execute("CREATE TABLE a (id INT PRIMARY KEY, v INT); CREATE TABLE b (v INT)")
        client.execute("INSERT INTO a VALUES (1, 1)")
        client.execute("INSERT INTO b VALUES (1)")
        assert rows(watcher, "SELECT * FROM a UNION ALL SELECT v, v FROM b") == []
        client.rollback()
        assert rows(watcher, "SELECT * FROM a UNION ALL SELECT v, v FROM b") == []
        client.execute("INSERT INTO a VALUES (1, 1), (2, 2)")
        client.execute("SAVEPOINT one")
        client.execute("INSERT INTO a VALUES (3, 3)")
        client.execute("DELETE FROM a WHERE id = 1")
        assert rows(client, "SELECT id FROM a ORDER BY id") == [(2,), (3,)]
        client.execute("ROLLBACK TO one")
        client.execute("INSERT INTO b VALUES (7), (7)")
        with pytest.raises(errors.UndefinedTable):
            client.execute("SELECT * FROM nothing")
        with pytest.raises(errors.InFailedSqlTransaction):
            client.execute("INSERT INTO b VALUES (8)")
        client.execute("ROLLBACK TO SAVEPOINT one")
        client.execute("INSERT INTO b VALUES (9)")
        client.execute("RELEASE one")
        with pytest.raises(errors.InvalidSavepointSpecification):
            client.execute("ROLLBACK TO one")
        client.rollback()
        assert rows(watcher, "SELECT * FROM a UNION ALL SELECT v, v FROM b") == []
        with client.transaction():
            client.execute("INSERT INTO a VALUES (1, 1), (2, 2)")
            with client.transaction():
                client.execute("DELETE FROM a WHERE id = 1")
                raise psycopg.Rollback
            client.execute("UPDATE a SET v = v * 10 WHERE id = 2")
            client.execute("INSERT INTO b VALUES (5)")
        assert rows(watcher, "SELECT * FROM a ORDER BY id") == [(1, 1), (2, 20)]
        assert rows(watcher, "SELECT * FROM b") == [(5,)]
        lost = connect(url)
        lost.execute("INSERT INTO b VALUES (666)")
        lost.close()
        assert rows(watcher, "SELECT * FROM b") == [(5,)]
        assert "WARNING" in _noticed(client, "CREATE TABLE made (a INT)")
        client.rollback()
        assert rows(watcher, "SELECT * FROM made") == []
        client.execute("INSERT INTO a VALUES (9, 9)")
        for wrong in ("DROP TABLE a", "ALTER TABLE a ADD COLUMN w INT"):
            client.execute("SAVEPOINT s")
            with pytest.raises(errors.FeatureNotSupported):
                client.execute(wrong)
            client.execute("ROLLBACK TO s")
        client.rollback()
        client.read_only = True
        with pytest.raises(errors.ReadOnlySqlTransaction):
            client.execute("INSERT INTO a VALUES (9, 9)")


def _noticed(client: psycopg.Connection, statement: str) -> list[str | None]:
    found: list[str | None] = []
    client.add_notice_handler(lambda notice: found.append(notice.severity))
    client.execute(statement)
    return found


def test_a_transaction_reads_its_own_changes_or_is_refused(url: str) -> None:
    """Random transactions for some seconds, two at least, compared with dictionaries after every statement."""
    r = random.Random(draw_seed("transactions"))
    with connect(url) as client:
        client.execute("CREATE TABLE own (id INT PRIMARY KEY, v INT)")
        client.execute("CREATE TABLE bag (v INT)")
        client.execute("CREATE MATERIALIZED VIEW total AS SELECT sum(v) AS v FROM own")
        client.commit()
        model: dict[int, int] = {}
        bag: Counter[int] = Counter()
        end = time.monotonic() + SECONDS
        rounds = 0
        while rounds < 2 or time.monotonic() < end:
            rounds += 1
            now, inside = dict(model), bag.copy()
            saved: tuple[dict[int, int], Counter[int]] | None = None
            for _ in range(r.randrange(2, 6)):
                id, v = r.randrange(4), r.randrange(3)
                match r.randrange(6):
                    case 0:
                        client.execute("INSERT INTO own VALUES (%s, %s)", (id, v))
                        now[id] = v
                    case 1:
                        client.execute("UPDATE own SET v = v + 1 WHERE id <= %s", (id,))
                        now = {i: x + (i <= id) for i, x in now.items()}
                    case 2:
                        client.execute("DELETE FROM bag WHERE v = %s", (v,))
                        client.execute("INSERT INTO bag VALUES (%s), (%s)", (v, v))
                        inside[v] = 2
                    case 3:
                        client.execute("DELETE FROM own WHERE id = %s", (id,))
                        now.pop(id, None)
                    case 4:
                        client.execute("SAVEPOINT s")
                        saved = dict(now), inside.copy()
                    case 5 if saved is not None:
                        client.execute("ROLLBACK TO s")
                        now, inside = dict(saved[0]), saved[1].copy()
                assert dict(rows(client, "SELECT id, v FROM own")) == now
            assert Counter(v for (v,) in rows(client, "SELECT v FROM bag")) == +inside
            client.execute("INSERT INTO own VALUES (9, 0)")
            now[9] = 0
            with pytest.raises(errors.FeatureNotSupported), client.transaction():
                client.execute("SELECT * FROM total")
            if r.random() < 0.5:
                client.rollback()
            else:
                client.commit()
                model, bag = now, inside
            assert dict(rows(client, "SELECT id, v FROM own")) == model
            client.rollback()


def test_a_transaction_leaves_the_rows_that_it_does_not_change(url: str) -> None:
    """Zeros keep their sign, and copies their number, in what a transaction sees and in what it stores."""
    with connect(url) as client, connect(url, autocommit=True) as watcher:
        watcher.execute("CREATE TABLE zeros (x INT, f FLOAT8, r REAL)")
        values = ["(60, '-0', NULL)"] * 3 + ["(50, '-0', 'NaN')", "(50, 0, '-0')"]
        watcher.execute(f"INSERT INTO zeros VALUES {', '.join(values)}".encode())
        client.execute("INSERT INTO zeros VALUES (51, 1, NULL)")
        client.execute("UPDATE zeros SET x = x + 100 WHERE x = 50")
        client.execute("INSERT INTO zeros VALUES (60, '-0', NULL)")
        client.execute("DELETE FROM zeros WHERE r = 0")
        seen = "SELECT x, f::text, r::text FROM zeros ORDER BY x, f::text"
        expected = [(51, "1", None), *[(60, "-0", None)] * 4, (150, "-0", "NaN")]
        assert rows(client, seen) == expected
        client.commit()
        assert rows(watcher, seen) == expected


def test_no_update_is_lost(url: str) -> None:
    with connect(url, autocommit=True) as client:
        client.execute("CREATE TABLE counter (id INT PRIMARY KEY, v INT)")
        client.execute("INSERT INTO counter VALUES (1, 0)")
    with connect(url) as one, connect(url) as two:
        one.execute("UPDATE counter SET v = v + 1")
        two.execute("UPDATE counter SET v = v + 1")
        one.commit()
        with pytest.raises(errors.SerializationFailure):
            two.commit()
        two.execute("UPDATE counter SET v = v + 1")
        two.commit()
        assert rows(one, "SELECT v FROM counter") == [(2,)]

    def add() -> None:
        with connect(url, autocommit=True) as each:
            each.execute("UPDATE counter SET v = v + 1")

    threads = [threading.Thread(target=add) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with connect(url) as client:
        assert rows(client, "SELECT v FROM counter") == [(5,)]


def test_an_update_never_takes_the_key_of_another_row(url: str) -> None:
    with connect(url, autocommit=True) as client:
        client.execute("CREATE TABLE k (k INT, x DOUBLE PRECISION, v INT, PRIMARY KEY (k, x))")
        client.execute("INSERT INTO k VALUES (1, 0, 1), (2, 0, 2), (5, 'NaN', 5)")
        before = rows(client, "SELECT k, v FROM k ORDER BY k")
        for wrong in (
            "UPDATE k SET k = 2 WHERE k = 1",
            "UPDATE k SET k = 7, x = 1",
            "UPDATE k SET k = 2, x = '-0' WHERE k = 1",
            "UPDATE k SET k = 5, x = 'NaN' WHERE k = 1",
        ):
            with pytest.raises(errors.UniqueViolation, match="k_pkey"):
                client.execute(wrong)
        assert rows(client, "SELECT k, v FROM k ORDER BY k") == before
        client.execute("UPDATE k SET k = 3 - k WHERE k < 3")
        assert rows(client, "SELECT k, v FROM k ORDER BY k") == [(1, 2), (2, 1), (5, 5)]
        client.execute("UPDATE k SET k = k + 1")
        assert rows(client, "SELECT k, v FROM k ORDER BY k") == [(2, 2), (3, 1), (6, 5)]
    with connect(url) as client:
        client.execute("INSERT INTO k VALUES (9, 0, 9)")
        with pytest.raises(errors.UniqueViolation):
            client.execute("UPDATE k SET k = 9 WHERE k = 2")


def test_sqlalchemy_and_psql(url: str) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    parts = dict(part.split("=") for part in url.split())
    address = f"{parts['user']}@{parts['host']}:{parts['port']}/{parts['dbname']}"
    engine = sqlalchemy.create_engine(f"postgresql+psycopg2://{address}")
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE orders (v INT)"))
    for attempt in range(2):
        try:
            with engine.begin() as connection:
                connection.execute(sqlalchemy.text("INSERT INTO orders VALUES (1), (2)"))
                if not attempt:
                    raise RuntimeError("the application fails, and tries again")
        except RuntimeError:
            continue
    with engine.connect() as connection:
        found = connection.execute(sqlalchemy.text("SELECT v FROM orders ORDER BY v")).fetchall()
    assert [tuple(row) for row in found] == [(1,), (2,)]
    engine.dispose()
    script = "BEGIN; INSERT INTO orders VALUES (3); ROLLBACK; INSERT INTO orders VALUES (4); SELECT sum(v) FROM orders;"
    command = [
        "psql",
        f"postgresql://{address}",
        "-At",
        "-c",
        "INSERT INTO orders VALUES (5); SELECT nothing",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "nothing" in done.stderr  # both statements are one transaction
    done = subprocess.run(
        [*command[:3]], input=script, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split()[-1] == "7", done


def test_pipelined_statements_are_one_transaction(url: str) -> None:
    with connect(url, autocommit=True) as client:
        client.execute("CREATE TABLE piped (v INT)")
        client.execute("CREATE TABLE piped_keys (id INT PRIMARY KEY, v INT)")
        insert = "INSERT INTO piped VALUES (%s)"
        for attempt in range(2):
            with suppress(errors.UndefinedTable), client.pipeline():
                client.execute(insert, (1,))
                client.execute(insert, (2,))
                client.execute("INSERT INTO piped_keys VALUES (1, 1)")
                client.execute("UPDATE piped_keys SET v = v + 1")
                if not attempt:
                    client.execute("INSERT INTO nothing VALUES (1)")
        assert sorted(rows(client, "SELECT v FROM piped")) == [(1,), (2,)]
        assert rows(client, "SELECT * FROM piped_keys") == [(1, 2)]
        with client.pipeline() as pipeline:
            client.execute(insert, (3,))
            own = client.execute("SELECT count(*) FROM piped").fetchall()
            pipeline.sync()
        assert own == [(3,)]
        with suppress(errors.UndefinedColumn), client.pipeline() as pipeline:
            client.execute(insert, (4,))
            pipeline.sync()
            client.execute(insert, (5,))
            client.execute("SELECT nothing FROM piped")
        assert sorted(rows(client, "SELECT v FROM piped")) == [(1,), (2,), (3,), (4,)]
    asyncio.run(_execute_many(url))


async def _execute_many(url: str) -> None:
    parts = dict(part.split("=") for part in url.split())
    client = await asyncpg.connect(
        host=parts["host"], port=int(parts["port"]), user=parts["user"], database=parts["dbname"]
    )
    try:
        await client.execute("CREATE TABLE many (v INT NOT NULL, t VARCHAR)")
        given = [(n, "x" * 1000) for n in range(300)]  # more than one buffer of asyncpg
        insert = "INSERT INTO many VALUES ($1, $2)"
        with pytest.raises(asyncpg.NotNullViolationError):
            await client.executemany(insert, [*given, (None, "")])
        assert await client.fetchval("SELECT count(*) FROM many") == 0
        await client.executemany(insert, given)
        assert await client.fetchval("SELECT count(*) FROM many") == 300
        assert await client.execute(insert, 1, "y") == "INSERT 0 1"
        assert await client.fetchval("SELECT count(*) FROM many") == 301
    finally:
        await client.close()


def test_reading_leaves_no_temporary_views_behind(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions: list[SparkSession] = []

    def recording(node: Node, catalog: Catalog, spark: SparkSession, own: Transaction) -> DataFrame:
        sessions.append(spark)
        return frame_of(node, catalog, spark, own)

    monkeypatch.setattr("icestream.server.session.frame_of", recording)
    with connect(url) as client, connect(url, autocommit=True) as setup:
        setup.execute("CREATE TABLE seen_k (id INT PRIMARY KEY, v INT)")
        setup.execute("CREATE TABLE seen_b (v INT)")
        setup.execute(
            "CREATE MATERIALIZED VIEW seen_n AS SELECT v, count(*) AS n FROM seen_b GROUP BY v"
        )
        for number in range(12):
            client.execute("INSERT INTO seen_k VALUES (1, %s)", [number])
            assert rows(client, "SELECT v FROM seen_k") == [(number,)]
            if number % 4 == 0:
                client.execute("INSERT INTO seen_b VALUES (%s) RETURNING v + 1", [number])
                client.execute("DELETE FROM seen_b WHERE v < 0")
                client.commit()
                setup.execute("FLUSH")
            else:
                client.rollback()
        assert len(sessions) == 12
        views = sessions[-1]._jsparkSession.sessionState().catalog().listLocalTempViews("*")
        assert views.size() == 0, views.toString()
