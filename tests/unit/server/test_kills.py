"""Clients that vanish, reset, cancel or are terminated at any byte of any exchange: nothing of them is left."""

from __future__ import annotations

import logging
import os
import random
import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from icestream.config import Home
from icestream.engine import Engine
from icestream.server.listener import Listener
from icestream.server.service import Service
from tests.seeds import draw_seed
from tests.serving import Served, await_condition
from tests.unit.server.frames import (
    FLUSH,
    SYNC,
    TERMINATE,
    bind,
    close,
    describe,
    execute,
    frame,
    parse,
    query,
    startup,
)

ROUNDS = int(os.environ.get("ICESTREAM_KILLS", "60"))
SLOW = "SELECT count(*) FROM pg_type a, pg_type b, pg_type c, pg_type d, pg_type e"
STATEMENTS = (
    "SELECT 1", SLOW, "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT s", "SHOW TimeZone", "SHOW TABLES",
    "DECLARE c CURSOR FOR SELECT * FROM pg_type", "FETCH 10 FROM c", "CLOSE c", "SELECT nothing", "SELEC",
    "COPY (SELECT * FROM pg_type) TO STDOUT", "SET statement_timeout = 5", "SET statement_timeout = 0",
    "SELECT pg_cancel_backend(pg_backend_pid())", "SHOW PROCESSLIST", "DISCARD ALL", "EXPLAIN SELECT 1",
    "SELECT pg_terminate_backend(pg_backend_pid())", "CREATE SECRET x AS 'y'; SELECT 1; SELECT 2", "",
)  # fmt: skip


def messages(random: random.Random) -> Iterator[bytes]:
    """What a client might say, in any order."""
    for _ in range(random.randint(1, 8)):
        sql = random.choice(STATEMENTS)
        yield random.choice(
            [
                query(sql),
                parse(sql) + bind() + describe("P") + execute(limit=random.choice([0, 1, 7])) + SYNC,
                parse(sql, "named") + describe("S", "named") + SYNC,
                bind(name="named") + execute(limit=2) + FLUSH,
                execute(limit=3),
                close("P") + close("S", "named") + SYNC,
                SYNC,
                parse(sql),
                TERMINATE,
                frame(b"?", b"noise"),
            ]
        )  # fmt: skip


def talk(served: Served, random: random.Random) -> None:
    """A client that ends somewhere."""
    host, port = served.listener.address
    said = startup(user="root", database="dev") + b"".join(messages(random))
    with suppress(OSError), socket.create_connection((host, port), timeout=10) as wire:
        wire.sendall(said[: random.randint(1, len(said))] if random.random() < 0.3 else said)
        wire.settimeout(random.choice([0.001, 0.02, 0.1]))
        with suppress(TimeoutError):
            while wire.recv(random.choice([1, 100, 65536])):
                if random.random() < 0.2:
                    break
        if random.random() < 0.5:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_nothing_is_left_of_clients_that_vanish(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seed = draw_seed("vanishing clients")
    with Engine(Home.at(tmp_path / "home")) as engine:
        service = Service(engine)
        with Listener(service, port=0) as listener:
            host, port = listener.address
            served = Served(f"host={host} port={port} user=root dbname=dev", listener)
            with ThreadPoolExecutor(8) as pool:
                seeds = [random.Random(seed + number) for number in range(ROUNDS)]
                list(pool.map(lambda each: talk(served, each), seeds))
            await_condition(lambda: listener.clients == 0, 30)
            await_condition(lambda: not service._sessions, 10)
            await_condition(lambda: not _left(), 10)
            with served.connect() as client:
                assert client.execute("SELECT 41 + 1").fetchone() == (42,)
                (count,) = client.execute("SELECT count(*) FROM pg_stat_activity").fetchone() or ()
                assert count == 1
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


def _left() -> list[str]:
    """Statements that nobody waits for."""
    return [t.name for t in threading.enumerate() if t.name == "icestream-left"]


def test_terminating_everybody_leaves_a_server(tmp_path: Path) -> None:
    with (
        Engine(Home.at(tmp_path / "home")) as engine,
        Listener(Service(engine), port=0) as listener,
    ):
        host, port = listener.address
        served = Served(f"host={host} port={port} user=root dbname=dev", listener)
        clients = [served.connect() for _ in range(10)]
        with served.connect() as last:
            for client in clients:
                client.execute("BEGIN")
            last.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")  # fmt: skip
            served.await_sessions(1)
            for client in clients:
                with pytest.raises(psycopg.OperationalError):
                    client.execute("SELECT 1")
                client.close()
            assert last.execute("SELECT 1").fetchone() == (1,)
