"""Real clients: psycopg 3, psycopg2 and asyncpg against a listener over DuckDB."""

from __future__ import annotations

import asyncio
import io
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal
from typing import Any
from uuid import UUID

import asyncpg
import psycopg
import psycopg2
import psycopg2.extras
import pytest
from psycopg.rows import dict_row

from icestream.server.listener import Listener
from tests.unit.server.duck import DuckBackend

SLOW = "select count(*) from range(100000000) a, range(100000000) b"
EVERYTHING = """
    select true as b, 1::smallint as i2, -2::int as i4, 3::bigint as i8, 1.5::float as f4, 2.25::double as f8,
        12345.6789::decimal(18, 4) as n, 'é"x' as s, '\\x00\\xff'::blob as y, date '2026-11-16' as d,
        time '13:04:05.5' as ti, timestamp '2026-11-16 13:04:05.678' as ts,
        timestamptz '2026-11-16 13:04:05+00' as tz, interval '3 days 4 hours' as iv, '{"a": 1}'::json as j,
        'c0ffee00-0000-4000-8000-000000000000'::uuid as u, [1, null, 3] as a, ['x y', ''] as sa,
        [[1, 2], [3, 4]] as aa, null::int as nothing
"""
VALUES = {
    "b": True, "i2": 1, "i4": -2, "i8": 3, "f4": 1.5, "f8": 2.25, "n": Decimal("12345.6789"), "s": 'é"x',
    "y": b"\x00\xff", "d": date(2026, 11, 16), "ti": clock(13, 4, 5, 500000),
    "ts": datetime(2026, 11, 16, 13, 4, 5, 678000), "tz": datetime(2026, 11, 16, 13, 4, 5, tzinfo=UTC),
    "iv": timedelta(days=3, hours=4), "j": {"a": 1}, "u": UUID("c0ffee00-0000-4000-8000-000000000000"),
    "a": [1, None, 3], "sa": ["x y", ""], "aa": [[1, 2], [3, 4]], "nothing": None,
}  # fmt: skip


# -- psycopg 3 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_reads_every_type(url: str, binary: bool) -> None:
    with (
        psycopg.connect(url) as client,
        client.cursor(binary=binary, row_factory=dict_row) as cursor,
    ):
        assert cursor.execute(EVERYTHING).fetchone() == VALUES
        struct = cursor.execute("select {'a': 1, 'b': 'x'} as r").fetchone()
        assert struct["r"] == ((1, "x") if binary else ("1", "x"))


@pytest.mark.parametrize("format", ["t", "b"])
def test_psycopg_sends_parameters(url: str, format: str) -> None:
    sent = {
        "boolean": True, "smallint": 1, "int": 2**31 - 1, "bigint": -(2**63), "double": 0.1, "decimal(20,5)": Decimal("1.50000"),
        "varchar": "é'\\", "blob": b"\x00\\", "date": date(1999, 12, 31), "time": clock(1, 2, 3),
        "timestamp": datetime(2000, 1, 1, 0, 0, 0, 1), "timestamptz": datetime(1970, 1, 1, tzinfo=UTC),
        "interval": timedelta(days=1, microseconds=5), "int[]": [1, None], "uuid": UUID(int=7),
    }  # fmt: skip
    with psycopg.connect(url) as client:
        for type, value in sent.items():
            sql = f"select %{format}::{type}, %{format} is null"
            assert client.execute(sql, (value, None)).fetchone() == (value, True), type


def test_psycopg_prepares(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as client:
        for number in range(10):
            row = client.execute("select %s::int * 2", (number,), prepare=True).fetchone()
            assert row == (number * 2,)
        client.execute("create table t (a int)")
        with client.cursor() as cursor:
            cursor.executemany("insert into t values (%s)", [(n,) for n in range(50)])
            assert cursor.rowcount == 50
        assert client.execute("select count(*), sum(a) from t").fetchone() == (50, 1225)
        client.prepared_max = 0
        assert client.execute("select 1").fetchone() == (1,)


def test_psycopg_pipelines(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as client:
        with client.pipeline():
            cursors = [client.execute("select %s::int", (n,)) for n in range(100)]
        assert [cursor.fetchone() for cursor in cursors] == [(n,) for n in range(100)]
        with client.pipeline() as pipeline:
            client.execute("select 1")
            client.execute("select moon")
            with pytest.raises(psycopg.errors.UndefinedColumn):
                pipeline.sync()
        assert client.execute("select 1").fetchone() == (1,)


def test_psycopg_cursors_of_the_server(url: str) -> None:
    with psycopg.connect(url) as client, client.cursor("c") as cursor:
        cursor.itersize = 100
        cursor.execute("select range::int as n from range(%s::int)", (1000,))
        assert cursor.description[0].name == "n"
        assert cursor.fetchmany(3) == [(0,), (1,), (2,)]
        assert len(list(cursor)) == 997


def test_psycopg_streams(url: str) -> None:
    with psycopg.connect(url) as client, client.cursor() as cursor:
        found = cursor.stream("select * from range(50000)", size=1)
        assert sum(n for (n,) in found) == 50000 * 49999 // 2


def test_psycopg_large_values(url: str) -> None:
    text = "é" * 3_000_000
    with psycopg.connect(url) as client:
        assert client.execute("select %s::varchar, %s::varchar", (text, "")).fetchone() == (
            text,
            "",
        )


def test_psycopg_transactions(url: str) -> None:
    with psycopg.connect(url) as client, psycopg.connect(url, autocommit=True) as other:
        status = psycopg.pq.TransactionStatus
        client.execute("create table t (a int)")
        assert client.info.transaction_status == status.INTRANS
        with pytest.raises(psycopg.errors.UndefinedColumn):
            client.execute("select moon")
        assert client.info.transaction_status == status.INERROR
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            client.execute("select 1")
        client.rollback()
        assert client.info.transaction_status == status.IDLE
        with client.transaction():
            client.execute("create table t (a int)")
        assert other.execute("select count(*) from t").fetchone() == (0,)


def test_psycopg_errors_and_notices(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as client:
        notices: list[Any] = []
        client.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        for _ in range(2):
            client.execute("create table if not exists t (a int)")
        assert notices == ['relation "t" already exists, skipping']
        with pytest.raises(psycopg.errors.SyntaxError) as caught:
            client.execute("select 1;\nselec 'é'")
        assert caught.value.diag.statement_position == "11"
        with pytest.raises(psycopg.errors.UndefinedColumn) as undefined:
            client.execute("select %s::int, moon", (1,))
        assert undefined.value.diag.statement_position == str(len("select $1::int, ") + 1)
        with pytest.raises(psycopg.errors.FeatureNotSupported), client.cursor() as cursor:
            cursor.copy("copy t from stdin").__enter__()
        assert client.execute("select 1").fetchone() == (1,)


def test_psycopg_settings(url: str) -> None:
    with psycopg.connect(url, autocommit=True, application_name="me") as client:
        assert 130000 <= client.info.server_version < 140000
        assert client.info.encoding == "utf-8"
        assert client.info.parameter_status("application_name") == "me"
        client.execute("set timezone to 'Asia/Kolkata'")
        assert client.info.parameter_status("TimeZone") == "Asia/Kolkata"
        row = client.execute("select timestamptz '2026-01-01 00:00:00+00'").fetchone()
        assert row[0] == datetime(2026, 1, 1, tzinfo=UTC)
        assert row[0].utcoffset() == timedelta(hours=5, minutes=30)


@pytest.mark.skipif(psycopg.pq.version() < 180000, reason="libpq before 18 knows protocol 3.0 only")
def test_libpq_takes_the_older_protocol(url: str) -> None:
    with psycopg.connect(f"{url} max_protocol_version=latest") as client:
        assert client.execute("select 1").fetchone() == (1,)
    with pytest.raises(psycopg.OperationalError, match=r"only supports protocol version 3\.0"):
        psycopg.connect(f"{url} min_protocol_version=3.2 max_protocol_version=3.2")


def test_psycopg_cancels(url: str, backend: DuckBackend) -> None:
    with psycopg.connect(url, autocommit=True) as client, ThreadPoolExecutor(1) as pool:
        running = pool.submit(client.execute, SLOW)
        backend.wait(running=1)
        client.cancel_safe()
        with pytest.raises(psycopg.errors.QueryCanceled):
            running.result(10)
        assert client.execute("select 1").fetchone() == (1,)


def test_psycopg_copies(url: str) -> None:
    query = "select range::int, 'a' || chr(9) || 'b', null::int from range(3000)"
    with psycopg.connect(url, autocommit=True) as client, client.cursor() as cursor:
        with cursor.copy(f"copy ({query}) to stdout") as copy:
            rows = list(copy.rows())
        assert rows[1] == ("1", "a\tb", None)
        assert len(rows) == 3000
        with cursor.copy(f"copy ({query}) to stdout (format binary)") as copy:
            copy.set_types(["int4", "varchar", "int4"])
            rows = list(copy.rows())
        assert rows[2999] == (2999, "a\tb", None)
        with cursor.copy("copy (select 1 as a, 'x,y' as b) to stdout (format csv, header)") as copy:
            assert b"".join(copy) == b'a,b\n1,"x,y"\n'
        cursor.execute("create table t as select 1 as a, 2 as b")
        with cursor.copy("copy t (b) to stdout") as copy:
            assert b"".join(copy) == b"2\n"
        with (
            pytest.raises(psycopg.errors.UndefinedColumn),
            cursor.copy("copy (select moon) to stdout") as copy,
        ):
            copy.read()


def test_psycopg_async(url: str) -> None:
    async def ask() -> list[Any]:
        async with await psycopg.AsyncConnection.connect(url) as client:
            cursor = await client.execute("select %s::int", (1,))
            return await cursor.fetchall()

    assert asyncio.run(ask()) == [(1,)]


# -- psycopg2 ----------------------------------------------------------------------------------------


def test_psycopg2(url: str) -> None:
    client = psycopg2.connect(url)
    cursor = client.cursor(cursor_factory=psycopg2.extras.RealDictCursor)
    cursor.execute(EVERYTHING)
    row = cursor.fetchone()
    row["y"], row["u"] = bytes(row["y"]), UUID(row["u"])
    assert row == VALUES
    cursor.execute("select %s + 1 as n, %s as s", (41, "it's"))
    assert cursor.fetchone() == {"n": 42, "s": "it's"}
    with pytest.raises(psycopg2.errors.UndefinedColumn):
        cursor.execute("select moon")
    client.rollback()
    cursor.execute("create table t as select * from range(5) r(a)")
    psycopg2.extras.execute_values(cursor, "insert into t values %s", [(n,) for n in range(5, 10)])
    client.commit()
    plain = client.cursor()
    plain.execute("select 1; select count(*) from t")
    assert plain.fetchall() == [(10,)]
    out = io.StringIO()
    plain.copy_expert("copy t to stdout csv header", out)
    assert out.getvalue().splitlines() == ["a", *map(str, range(10))]
    out = io.StringIO()
    plain.copy_to(out, "t", sep="|", null="-")
    assert len(out.getvalue().splitlines()) == 10
    with client.cursor("named") as named:
        named.itersize = 3
        named.execute("select * from t")
        assert [n for (n,) in named] == list(range(10))
    client.close()


# -- asyncpg -----------------------------------------------------------------------------------------


async def _asyncpg(server: Listener) -> None:
    host, port = server.address
    client = await asyncpg.connect(host=host, port=port, user="root", database="dev", ssl="disable")
    row = dict(await client.fetchrow(EVERYTHING))
    assert row | {"j": VALUES["j"]} == VALUES
    assert row["j"] == '{"a": 1}'
    assert await client.fetchval("select {'a': 1, 'b': 'x'}") == (1, "x")
    values = await client.fetchrow(
        "select $1::int + 1, $2::varchar, $3::timestamptz, $4::int[], $5::numeric, $6::date, $7::boolean",
        41, "é", VALUES["tz"], [1, None], Decimal("-1.5"), VALUES["d"], None,
    )  # fmt: skip
    assert tuple(values) == (42, "é", VALUES["tz"], [1, None], Decimal("-1.5"), VALUES["d"], None)
    await client.execute("create table t (a int, b varchar)")
    await client.executemany(
        "insert into t values ($1::int, $2)", [(n, str(n)) for n in range(100)]
    )
    assert await client.execute("insert into t values (1, 'x'), (2, 'y')") == "INSERT 0 2"
    statement = await client.prepare("select b from t where a = $1::int order by b")
    assert [r["b"] for r in await statement.fetch(1)] == ["1", "x"]
    async with client.transaction():
        rows = [r["a"] async for r in client.cursor("select a from t order by a", prefetch=7)]
        assert len(rows) == 102
    with pytest.raises(asyncpg.UndefinedColumnError) as caught:
        await client.fetch("select moon")
    assert caught.value.position == "8"
    out = io.BytesIO()
    assert (
        await client.copy_from_query("select a from t where a < 2 order by a", output=out)
        == "COPY 3"
    )
    assert out.getvalue() == b"0\n1\n1\n"
    with pytest.raises(asyncio.TimeoutError):
        await client.fetch(SLOW, timeout=0.3)
    assert await client.fetchval("select 1") == 1
    await client.reset()
    await client.close()


def test_asyncpg(server: Listener, backend: DuckBackend) -> None:
    asyncio.run(_asyncpg(server))
    assert backend.cancelled >= 1
