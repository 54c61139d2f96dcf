"""psql against a listener over DuckDB, and the ways in: TLS and passwords."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import ssl
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import psycopg
import psycopg2
import pytest

from icestream.server.auth import Access, derive_keys, hash_certificate
from icestream.server.listener import Listener
from tests.services import certificates
from tests.unit.server.duck import DuckBackend
from tests.unit.server.frames import Client

PSQL = shutil.which("psql") or ""
SLOW = "select count(*) from range(100000000) a, range(100000000) b"
needs_psql = pytest.mark.skipif(not PSQL, reason="psql is not installed (postgresql-client)")


def arguments(url: str, *options: str) -> list[str]:
    return [PSQL, "-X", "-d", url, *options]


def psql(
    url: str, script: str, *options: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments(url, *options),
        input=script,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        env=os.environ | {"LC_ALL": "C.UTF-8", "PSQL_HISTORY": "/dev/null"} | environment,
    )


@needs_psql
def test_a_script(url: str) -> None:
    done = psql(
        url,
        """
        \\timing
        create table t (a int, b varchar);
        insert into t values (1, 'é'), (2, null);
        \\timing
        select * from t order by a;
        \\x
        select * from t where a = 1;
        \\x
        select 1 as one\\; select 2 as two;
        select 3 as three \\gset
        \\echo :three
        prepare p as select 1;
        begin;
        select 1 / 'x'::int;
        select 1;
        rollback;
        create table if not exists t (a int);
        """,
    )
    assert done.stdout.count("Time: ") == 2
    assert "INSERT 0 2" in done.stdout
    assert " a | b \n---+---\n 1 | é\n 2 | \n(2 rows)" in done.stdout
    assert "-[ RECORD 1 ]\na | 1\nb | é\n" in done.stdout
    assert " one \n-----\n   1\n(1 row)\n\n two " in done.stdout
    assert "\n3\n" in done.stdout
    assert "current transaction is aborted" in done.stderr
    assert 'NOTICE:  relation "t" already exists, skipping' in done.stderr
    assert done.returncode == 0


@needs_psql
def test_errors_have_a_caret(url: str) -> None:
    done = psql(url, "select 'é',\n   moon\nfrom range(3);\n\\errverbose\n")
    assert 'ERROR:  column "moon" does not exist\nLINE 2:    moon\n           ^\n' in done.stderr
    assert "42703" in done.stdout + done.stderr


@needs_psql
def test_an_error_ends_a_file(url: str) -> None:
    done = psql(url, "select 1;\nselect moon;\nselect 2;\n", "-v", "ON_ERROR_STOP=1")
    assert done.returncode == 3
    assert "(1 row)" in done.stdout
    assert "2" not in done.stdout


@needs_psql
def test_output_for_programs(url: str) -> None:
    assert psql(url, "select 1, 'a,b', null;", "-At", "--csv").stdout == '1,"a,b",\n'
    assert psql(url, "", "-Atc", "select 1; select 2").stdout == "1\n2\n"
    many = psql(url, "", "-At", "-c", "select * from range(100000)").stdout
    assert many.count("\n") == 100_000
    fetched = psql(url, "\\set FETCH_COUNT 100\nselect * from range(1000);\n", "-At").stdout
    assert fetched == "".join(f"{n}\n" for n in range(1000))


@needs_psql
def test_copy(url: str, tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    done = psql(url, f"\\copy (select 1 as a, 'x' as b) to '{target}' csv header\n")
    assert done.stdout == "COPY 1\n"
    assert target.read_text() == "a,b\n1,x\n"
    assert psql(url, "copy (select 1, null) to stdout;").stdout == "1\t\\N\n"
    refused = psql(url, "create table t (a int);\n\\copy t from /dev/null\nselect 5;\n", "-At")
    assert "not supported yet: COPY from the client" in refused.stderr
    assert "5" in refused.stdout


@needs_psql
def test_the_environment_of_a_terminal(url: str) -> None:
    assert psql(url, "show_nothing", PGCLIENTENCODING="SQL_ASCII").returncode == 0
    assert psql(url, "\\conninfo\n", PGOPTIONS="-c timezone=UTC").returncode == 0
    other = psql(url, "select 1;", PGCLIENTENCODING="LATIN1")
    assert "encoding latin1 is not supported" in other.stderr


@needs_psql
def test_control_c_cancels(url: str, backend: DuckBackend) -> None:
    running = subprocess.Popen(
        arguments(url, "-c", SLOW), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    backend.wait(running=1)
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=10)
    assert "canceling statement due to user request" in told
    assert backend.cancelled


@needs_psql
def test_a_killed_client_leaves_nothing(server: Listener, url: str, backend: DuckBackend) -> None:
    running = subprocess.Popen(arguments(url, "-c", SLOW), stdout=subprocess.DEVNULL)
    backend.wait(running=1)
    running.kill()
    running.wait()
    backend.wait(closed=1)
    assert server.clients == 0


# -- the ways in -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificates.make(tmp_path_factory.mktemp("pem"))


@pytest.fixture
def closed_door(backend: DuckBackend, pem: tuple[Path, Path]) -> Iterator[Listener]:
    """A server with TLS and a password."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem[1])
    access = Access({"root": derive_keys("pencil ü")}, hash_certificate(pem[1].read_bytes()))
    with Listener(backend, port=0, tls=context, access=access) as listener:
        yield listener


def door(server: Listener, **options: object) -> str:
    host, port = server.address
    given = {"host": host, "port": port, "user": "root", "dbname": "dev"} | options
    return " ".join(f"{k}='{v}'" for k, v in given.items())


@needs_psql
def test_psql_with_tls_and_a_password(closed_door: Listener, pem: tuple[Path, Path]) -> None:
    url = door(closed_door, sslmode="verify-full", sslrootcert=pem[0])
    done = psql(url, "select 42;\n\\conninfo\n", "-At", PGPASSWORD="pencil ü")
    assert "42" in done.stdout
    assert "TLSv1.3" in done.stdout
    wrong = psql(url, "select 42;", "-w", PGPASSWORD="pen")
    assert 'FATAL:  password authentication failed for user "root"' in wrong.stderr
    bound = psql(url + " channel_binding=require", "select 42;", "-At", PGPASSWORD="pencil ü")
    assert bound.stdout == "42\n"
    plain = psql(door(closed_door, sslmode="disable"), "select 42;", "-At", PGPASSWORD="pencil ü")
    assert plain.stdout == "42\n"


def test_libraries_with_tls_and_a_password(closed_door: Listener, pem: tuple[Path, Path]) -> None:
    url = door(closed_door, sslmode="verify-full", sslrootcert=pem[0], password="pencil ü")
    with psycopg.connect(url) as client:
        assert client.pgconn.ssl_in_use
        rows = client.execute("select repeat('x', 1000) from range(20000)").fetchall()
        assert len(rows) == 20000
        assert client.execute("select %s::varchar", ("y" * 3_000_000,)).fetchone() == (
            "y" * 3_000_000,
        )
    psycopg2.connect(url).close()
    for binding in ("require", "prefer", "disable"):
        psycopg.connect(url, channel_binding=binding).close()
    with pytest.raises(psycopg.OperationalError, match="channel binding"):
        psycopg.connect(
            door(closed_door, sslmode="disable", password="pencil ü"), channel_binding="require"
        )
    for wrong in ({"password": "x"}, {"user": "eve", "password": "pencil ü"}, {}):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(door(closed_door, sslmode="require", **wrong))


def test_asyncpg_with_tls_and_a_password(closed_door: Listener, pem: tuple[Path, Path]) -> None:
    async def ask() -> int:
        host, port = closed_door.address
        trust = ssl.create_default_context(cafile=str(pem[0]))
        client = await asyncpg.connect(
            host=host, port=port, user="root", database="dev", password="pencil ü", ssl=trust
        )
        try:
            return await client.fetchval("select 42")
        finally:
            await client.close()

    assert asyncio.run(ask()) == 42


def test_cancel_with_tls(closed_door: Listener, backend: DuckBackend) -> None:
    url = door(closed_door, sslmode="require", password="pencil ü")
    with psycopg.connect(url, autocommit=True) as client, ThreadPoolExecutor(1) as pool:
        running = pool.submit(client.execute, SLOW)
        backend.wait(running=1)
        client.cancel_safe()
        with pytest.raises(psycopg.errors.QueryCanceled):
            running.result(10)


def test_plain_bytes_before_tls_are_refused(closed_door: Listener) -> None:
    with Client(closed_door.address) as client:
        client.send(b"\0\0\0\x08\x04\xd2\x16\x2f" + b"\0\0\0\x20injected")
        assert b"unencrypted data after SSL request" in client.rest()


def test_noise_instead_of_tls(closed_door: Listener) -> None:
    with Client(closed_door.address) as client:
        client.send(b"\0\0\0\x08\x04\xd2\x16\x2f")
        assert client.socket.recv(1) == b"S"
        client.send(b"not a handshake, not at all")
        client.rest()
    with psycopg.connect(door(closed_door, password="pencil ü", sslmode="require")) as client:
        assert client.execute("select 1").fetchone() == (1,)
