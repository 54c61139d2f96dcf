"""A disk that becomes read-only: queries are answered, writes are refused and change nothing, and all goes on afterwards."""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.engine import MEMORY
from tests.faults.world import ServerProcess

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler"),
]

WRITES = {
    "INSERT INTO t VALUES (100, 0)": "58030",
    "BEGIN; INSERT INTO t VALUES (101, 0); INSERT INTO t VALUES (102, 0); COMMIT": "58030",
    "UPDATE t SET v = -1": "58030",
    "DELETE FROM t": "58030",
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(tmp_path / "home", tmp_path / "control", memory=MEMORY)
    server.begin("--epoch-interval", "0.2s")
    try:
        yield server
    finally:
        server.kill()


def connect(server: ServerProcess) -> psycopg.Connection:
    url = f"host=127.0.0.1 port={server.port} user=root dbname=dev"
    return psycopg.connect(url, autocommit=True, options="-c statement_timeout=60s")


def await_success(work: Callable[[], object], timeout: float = 90) -> None:
    end = time.monotonic() + timeout
    while True:
        try:
            work()
            return
        except psycopg.Error:
            assert time.monotonic() < end
            time.sleep(0.5)


def test_queries_go_on_and_writes_are_refused_while_the_disk_is_read_only(
    server: ServerProcess,
) -> None:
    assert server.control is not None
    with connect(server) as client:
        client.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        client.execute("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n, sum(v) AS s FROM t")
        client.execute("INSERT INTO t SELECT i, i FROM generate_series(1, 10) AS g (i)")
        assert client.execute("SELECT n, s FROM n").fetchall() == [(10, 55)]

        server.control.write_text(f"io {errno.EROFS} {server.home}")
        for _ in range(3):
            assert client.execute("SELECT n, s FROM n").fetchall() == [(10, 55)]
            assert client.execute("SELECT max(id) FROM t").fetchall() == [(10,)]
            for sql, code in WRITES.items():
                with pytest.raises(psycopg.Error) as caught:
                    client.execute(sql.encode())
                client.execute("ROLLBACK")
                assert caught.value.sqlstate == code, (sql, caught.value)
                assert "Read-only file system" in str(caught.value)
                assert "nothing was changed" in str(caught.value)
        with pytest.raises(psycopg.Error) as refused:
            client.execute("CREATE TABLE u (id INT)")
        assert refused.value.sqlstate != "XX000", refused.value
        assert server.alive

        server.control.write_text("")
        await_success(lambda: client.execute("INSERT INTO t VALUES (11, 11)"))
        await_success(lambda: client.execute("CREATE TABLE u (id INT)"))
        assert client.execute("SELECT n, s FROM n").fetchall() == [(11, 66)]
        assert client.execute("SELECT id FROM t WHERE id > 10 OR v < 0").fetchall() == [(11,)]
    assert server.alive
