"""The ways to end a statement of a client, each timed from outside: until the client, or the server, is rid of it."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from socket import SocketIO

from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from tests.serving import Served, await_condition
from tests.unit.server.frames import parse, query, startup

LIMIT = 2.0 + float(os.environ.get("ICESTREAM_TEST_ALLOWANCE", "1"))
"""Seconds until a statement has ended: 2 s, and an allowance for a machine that runs other tests meanwhile. Two loaded cores
have reached 1.2 s."""
CANCELS = ("cancel", "pg_cancel_backend", "pg_terminate_backend", "timeout", "vanish", "stop")


def end_statement(
    served: Served,
    sql: str,
    cancel: str,
    *,
    prepared: bool = False,
    wait: tuple[str, str] | None = None,
    ready: Callable[[], None] = lambda: None,
) -> float:
    """Run a statement that does not end, end it, and give the seconds that took.

    It is ended once it waits for `wait` and `ready` returns.
    """
    if cancel == "vanish":
        return _vanish(served, sql, prepared, wait, ready)
    with served.connect() as client, ThreadPoolExecutor(1) as pool:
        pid = client.info.backend_pid
        if cancel == "timeout":
            client.execute("SET statement_timeout = 1000")
        run = (lambda: client.execute(sql, prepare=True)) if prepared else (
            lambda: client.execute(sql.encode())
        )  # fmt: skip
        running = pool.submit(run)
        began = time.monotonic() + 1  # of the timeout
        if cancel != "timeout":
            served.await_wait(pid, wait)
            ready()
            began = time.monotonic()
        if cancel == "cancel":
            client.cancel_safe(timeout=10)
        elif cancel == "stop":
            served.listener.stop()
        elif cancel.startswith("pg_"):
            with served.connect() as other:
                assert other.execute(f"SELECT {cancel}({pid})").fetchone() == (True,)
        error = running.exception(60)
        seconds = time.monotonic() - began
        if cancel in ("stop", "pg_terminate_backend"):
            assert isinstance(error, errors.AdminShutdown), error
            return seconds
        assert isinstance(error, errors.QueryCanceled), error
        assert ("timeout" if cancel == "timeout" else "user request") in str(error)
        client.execute("ROLLBACK")
        assert client.execute("SHOW TimeZone").fetchone() == ("UTC",)  # the session goes on
    return seconds


def _vanish(
    served: Served,
    sql: str,
    prepared: bool,
    wait: tuple[str, str] | None,
    ready: Callable[[], None],
) -> float:
    """The client's machine is gone: its socket is reset while a statement runs."""
    where = conninfo_to_dict(served.url)
    with served.connect() as other:
        with socket.create_connection((str(where["host"]), int(str(where["port"])))) as wire:
            wire.sendall(startup(user="root", database="dev"))
            pid = _read_pid(wire)
            wire.sendall(parse(sql) if prepared else query(sql))
            served.await_wait(pid, wait)
            ready()
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            began = time.monotonic()
        asked = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
        await_condition(lambda: other.execute(asked, [pid]).fetchone() == (0,))
    return time.monotonic() - began


def _read_pid(wire: socket.socket) -> int:
    """The process id in the BackendKeyData message."""
    with wire.makefile("rb", buffering=0) as stream:
        while True:
            kind, size = struct.unpack("!ci", _read_exactly(stream, 5))
            body = _read_exactly(stream, size - 4)
            if kind == b"K":
                return int(struct.unpack("!i", body[:4])[0])


def _read_exactly(stream: SocketIO, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = stream.read(size - len(found))
        assert piece, "the server has closed the connection"
        found += piece
    return found
