"""Clients of a running engine as they come: tools that look around first, large results, clients that vanish."""

from __future__ import annotations

import datetime as dt
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import SparkSession

from icestream.dev import jars
from icestream.runtime import spool
from tests.engine import await_condition
from tests.spark.test_serve import serving
from tests.spark_session import spark
from tests.unit.server.test_psql import needs_psql, psql

__all__ = ["spark"]
pytestmark = pytest.mark.spark

LARGE = "SELECT i, repeat('x', 100) AS s FROM generate_series(1, 200000) AS t (i) ORDER BY i"
ENDLESS = (
    "SELECT count(*) FROM generate_series(1, 1000000) AS a (x), generate_series(1, 1000000) AS b (y)"
    " WHERE x * y % 7 = 3"
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clients") / "home"


@pytest.fixture(scope="module")
def url(spark: SparkSession, home: Path) -> Iterator[str]:
    with serving(home, spark) as url:
        with psycopg.connect(url, autocommit=True) as client:
            client.execute(
                "CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR NOT NULL, price NUMERIC)"
            )
            client.execute("CREATE MATERIALIZED VIEW dear AS SELECT id FROM items WHERE price > 10")
            client.execute("INSERT INTO items VALUES (1, 'tea', 2.5), (2, 'ice', 20)")
            client.execute("FLUSH")
        yield url


@pytest.fixture
def client(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@contextmanager
def peak(measure: Callable[[], int]) -> Iterator[Callable[[], int]]:
    """The greatest value that something has had since."""
    found, done = [measure()], threading.Event()

    def look() -> None:
        while not done.wait(0.002):
            found.append(measure())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield lambda: max(found) - found[0]
    finally:
        done.set()
        thread.join()


def spooled(home: Path) -> list[str]:
    """The files without a name that this process has open in a home."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue
    return [path for path in found if str(home / "tmp") in path and "(deleted)" in path]


def test_a_large_result_is_not_held_in_memory(
    url: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "BOUND", 2 << 20)
    with peak(pa.total_allocated_bytes) as most, psycopg.connect(url) as client:
        with client.cursor("large") as cursor:
            cursor.itersize = 5_000
            cursor.execute(LARGE)
            assert spooled(home)
            assert [i for i, s in cursor if len(s) == 100] == list(range(1, 200_001))
        assert not spooled(home)
        with client.cursor().copy(f"COPY ({LARGE}) TO STDOUT") as copied:
            assert sum(len(bytes(block)) for block in copied) > 20_000_000
        assert not spooled(home)
    assert most() < 12 << 20


def test_who_vanishes_leaves_nothing_behind(
    url: str, home: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "BOUND", 1 << 20)
    where = conninfo_to_dict(url)
    running = spark.sparkContext.statusTracker().getActiveJobsIds
    for sql, has_begun in ((LARGE, lambda: spooled(home)), (ENDLESS, running)):
        wire = socket.create_connection((where["host"], int(str(where["port"]))))
        _say(wire, b"", struct.pack(">i", 196608) + b"user\0root\0database\0dev\0\0")
        _say(wire, b"Q", f"BEGIN; DECLARE c CURSOR FOR {sql}".encode() + b"\0")
        await_condition(lambda: bool(has_begun()), f"{sql} runs", 30)  # noqa: B023
        wire.close()
        await_condition(lambda: not spooled(home) and not running(), f"{sql} ends", 30)


def _say(wire: socket.socket, kind: bytes, body: bytes) -> None:
    wire.sendall(kind + struct.pack(">i", len(body) + 4) + body)


def test_sqlalchemy(url: str) -> None:
    where = conninfo_to_dict(url)
    engine = sa.create_engine(f"postgresql+psycopg://root@{where['host']}:{where['port']}/dev")
    inspector = sa.inspect(engine)
    assert "items" in inspector.get_table_names()
    assert "dear" in inspector.get_materialized_view_names()
    columns = {c["name"]: c for c in inspector.get_columns("items")}
    assert isinstance(columns["id"]["type"], sa.INTEGER)
    assert not columns["name"]["nullable"]
    assert inspector.get_pk_constraint("items")["constrained_columns"] == ["id"]
    items = sa.Table("items", sa.MetaData(), autoload_with=engine)
    with engine.begin() as connection:
        made = connection.execute(
            sa.insert(items).returning(items.c.id, items.c.name), [{"id": 3, "name": "bun", "price": 1}]
        )  # fmt: skip
        assert made.all() == [(3, "bun")]
        connection.execute(sa.text("FLUSH"))
        found = connection.execute(sa.select(items.c.name).where(items.c.id.in_([1, 3])))
        assert sorted(found.scalars()) == ["bun", "tea"]
        connection.execute(sa.delete(items).where(items.c.id == 3))
    engine.dispose()


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize(
    ("value", "oid"),
    [
        (dt.timedelta(1, 5), 1186),
        ([1, None], 1005),
        ([0.5], 1022),
        ([Decimal("1.5"), None], 1231),
        ([[1, 2], [3, 4]], 1005),
        ([dt.date(2026, 1, 2)], 1182),
        ([True, False], 1000),
    ],
)
def test_parameters_keep_their_types(
    client: psycopg.Connection, value: object, oid: int, binary: bool
) -> None:
    cursor = client.cursor(binary=binary)
    cursor.execute("SELECT %b AS v, id FROM items WHERE id = 1", [value])
    assert [c.type_code for c in cursor.description or ()] == [oid, 23]
    assert cursor.fetchone() == (value, 1)
    cursor.execute("SELECT %s AS v", [value])
    assert cursor.fetchone() == (value,)


def test_small_numbers_beside_columns(client: psycopg.Connection) -> None:
    cursor = client.execute("SELECT %s AS tag, id, price + %s FROM items WHERE id = %s", [5, 1, 1])
    assert cursor.fetchall() == [(5, 1, Decimal("3.5"))]
    assert [c.type_code for c in cursor.description or ()] == [21, 23, 1700]


@needs_psql
def test_psql_describes_real_objects(url: str) -> None:
    done = psql(
        url,
        "\\d\n\\dt\n\\dm\n\\d items\n\\d dear\n\\l\n\\dn\n\\x\n\\timing\nSELECT id, name FROM items WHERE id = 1;\n",
    )
    assert "ERROR" not in done.stderr
    for text in ("items", "dear", "not null", "id   | 1", "name | tea", "Time: "):
        assert text in done.stdout


def test_the_java_driver(url: str, spark: SparkSession) -> None:
    (jar,) = [p for p in jars.resolve("debezium") if p.name.startswith("postgresql-")]
    java, gateway = spark._jvm, spark.sparkContext._gateway
    assert java is not None
    assert gateway is not None
    urls = gateway.new_array(java.java.net.URL, 1)
    urls[0] = java.java.io.File(str(jar)).toURI().toURL()
    loader = java.java.net.URLClassLoader(urls)
    kind = loader.loadClass("org.postgresql.Driver")
    driver = kind.getDeclaredConstructor(gateway.new_array(java.java.lang.Class, 0)).newInstance(
        gateway.new_array(java.java.lang.Object, 0)
    )
    where = conninfo_to_dict(url)
    properties = java.java.util.Properties()
    properties.setProperty("user", "root")
    connection = driver.connect(
        f"jdbc:postgresql://{where['host']}:{where['port']}/dev", properties
    )
    try:
        for time_over in range(7):  # from the fifth time on the driver prepares it
            insert = connection.prepareStatement("INSERT INTO items VALUES (?, ?, ?)")
            insert.setInt(1, 100 + time_over)
            insert.setString(2, "java")
            insert.setBigDecimal(3, java.java.math.BigDecimal("7.25"))
            assert insert.executeUpdate() == 1
        connection.createStatement().execute("FLUSH")
        select = connection.prepareStatement("SELECT id, price FROM items WHERE name = ? ORDER BY id")  # fmt: skip
        select.setString(1, "java")
        rows = select.executeQuery()
        found = []
        while rows.next():
            found.append((rows.getInt(1), str(rows.getBigDecimal("price"))))
        assert found == [(100 + i, "7.25") for i in range(7)]
        tables = connection.getMetaData().getTables(None, "public", "items", None)
        assert tables.next()
        assert tables.getString("TABLE_NAME") == "items"
        keys = connection.getMetaData().getPrimaryKeys(None, "public", "items")
        assert keys.next()
        assert keys.getString("COLUMN_NAME") == "id"
    finally:
        connection.createStatement().executeUpdate("DELETE FROM items WHERE id >= 100")
        connection.createStatement().execute("FLUSH")
        connection.close()


def test_many_idle_and_many_asking(url: str, client: psycopg.Connection) -> None:
    wrong: list[object] = []
    began = time.monotonic()

    def ask() -> None:
        with psycopg.connect(url, autocommit=True) as own:
            for _ in range(2):
                (count,) = own.execute("SELECT count(*) FROM items").fetchone() or (0,)
                if count % 2:
                    wrong.append(count)

    with ExitStack() as idle:
        for _ in range(100):
            idle.enter_context(psycopg.connect(url, autocommit=True))
        threads = [threading.Thread(target=ask) for _ in range(16)]
        for thread in threads:
            thread.start()
        for number in range(3):
            client.execute(f"INSERT INTO items VALUES ({200 + number}, 'a', 0), ({300 + number}, 'b', 0)")  # fmt: skip
        for thread in threads:
            thread.join(60)
    client.execute("DELETE FROM items WHERE id >= 200")
    assert not wrong
    assert time.monotonic() - began < 60
