"""Rows that clients write with parameters, as their drivers send them: the oracle is what they sent."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import SparkSession

from tests.spark.test_serve import serving
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark

COLUMNS = (
    "id INT PRIMARY KEY, big BIGINT, small SMALLINT, f DOUBLE PRECISION, n NUMERIC, ok BOOLEAN, s VARCHAR, "
    "d DATE, t TIMESTAMP, z TIMESTAMPTZ, raw BYTEA, many INT[], texts VARCHAR[]"
)
AT = dt.datetime(2026, 1, 2, 3, 4, 5, 678901)
FULL = (
    1, 1 << 40, -7, 1.25, Decimal("12.50"), True, "it's", AT.date(), AT, AT.replace(tzinfo=dt.UTC), b"\x00\xff",
    [1, 2], ["a", "b'"],
)  # fmt: skip
EMPTY = (2, *[None] * 10, [], [])
SQL = f"INSERT INTO wide VALUES ({', '.join(f'${i}' for i in range(1, 14))})"


@pytest.fixture(scope="module")
def url(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("clients") / "home", spark) as url:
        with psycopg.connect(url, autocommit=True) as client:
            client.execute(f"CREATE TABLE wide ({COLUMNS})")
        yield url


@pytest.fixture
def client(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET rw_implicit_flush TO true")
        yield connection
        connection.execute("DELETE FROM wide")


def written(client: psycopg.Connection) -> list[tuple[Any, ...]]:
    return client.execute("SELECT * FROM wide ORDER BY id").fetchall()


@pytest.mark.parametrize("as_binary", [False, True])
def test_psycopg(client: psycopg.Connection, as_binary: bool) -> None:
    values = ", ".join(["%b" if as_binary else "%s"] * 13)
    with client.cursor() as cursor:
        cursor.executemany(f"INSERT INTO wide VALUES ({values})", [FULL, EMPTY])
    assert written(client) == [FULL, EMPTY]
    found = client.execute(
        "UPDATE wide SET n = n + %s, z = %s, many = %s WHERE id = %s RETURNING id, n, z, many",
        [Decimal("0.5"), AT.replace(tzinfo=dt.UTC), [], 1],
        binary=as_binary,
    )
    assert found.fetchall() == [(1, Decimal(13), AT.replace(tzinfo=dt.UTC), [])]
    assert client.execute("DELETE FROM wide WHERE id = ANY(%s)", [[1, 2]]).rowcount == 2
    assert written(client) == []


def test_asyncpg(url: str, client: psycopg.Connection) -> None:
    async def talk() -> None:
        where = conninfo_to_dict(url)
        connection = await asyncpg.connect(
            host=where["host"], port=int(str(where["port"])), user="root", database="dev"
        )
        prepared = await connection.prepare(SQL)
        assert [p.name for p in prepared.get_parameters()] == [
            "int4", "int8", "int2", "float8", "numeric", "bool", "varchar", "date", "timestamp", "timestamptz",
            "bytea", "int4[]", "varchar[]",
        ]  # fmt: skip
        await connection.executemany(SQL, [FULL, EMPTY])
        row = await connection.fetchrow(
            "UPDATE wide SET small = $2, f = f * 2 WHERE id = $1 AND s = $3 RETURNING id, small, f / 2 AS half",
            1, 9, "it's",
        )  # fmt: skip
        assert dict(row) == {"id": 1, "small": 9, "half": 1.25}
        assert await connection.execute("DELETE FROM wide WHERE n > $1", Decimal("1.5")) == "DELETE 1"  # fmt: skip
        await connection.execute("FLUSH")
        await connection.close()

    asyncio.run(talk())
    assert written(client) == [EMPTY]


def test_returning_has_types_and_expressions(client: psycopg.Connection) -> None:
    found = client.execute(
        "INSERT INTO wide (id, n, s) VALUES (1, 2.5, 'a'), (2, NULL, 'b') RETURNING id, n * 2 AS twice, upper(s) || '!' AS loud, wide.s"
    )
    assert found.description is not None
    assert [c.name for c in found.description] == ["id", "twice", "loud", "s"]
    assert sorted(found.fetchall()) == [(1, Decimal(5), "A!", "a"), (2, None, "B!", "b")]
    with pytest.raises(errors.UndefinedColumn):
        client.execute("DELETE FROM wide RETURNING nothing")
    assert client.execute("SELECT count(*) FROM wide").fetchone() == (2,)
    assert client.execute("DELETE FROM wide RETURNING *").fetchone() is not None


def test_answers_about_objects_have_truth_values(client: psycopg.Connection) -> None:
    rows = client.execute("DESCRIBE wide", binary=True).fetchall()
    assert ("big", "bigint", False, False) in rows
