"""An engine behind PostgreSQL's protocol, in the process of the test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from icestream.engine import Engine
from icestream.server.listener import Listener
from icestream.server.service import Service


@dataclass
class Served:
    """A server, and how to reach it."""

    url: str
    listener: Listener

    def connect(self, **options: str) -> psycopg.Connection:
        return psycopg.connect(self.url, autocommit=True, **options)  # type: ignore[arg-type]

    def await_wait(self, pid: int, wait: tuple[str | None, str | None] | None = None) -> None:
        """Until a session runs a statement, and waits for that, if one is named."""
        with self.connect() as client:
            await_condition(lambda: _is_waiting(client, pid, wait))

    def await_sessions(self, count: int) -> None:
        """Until so many clients are connected."""
        await_condition(lambda: self.listener.clients == count)


def await_condition(condition: Callable[[], bool], timeout: float = 60) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


def _is_waiting(client: psycopg.Connection, pid: int, wait: object) -> bool:
    found = client.execute(
        "SELECT state, wait_event_type, wait_event FROM pg_stat_activity WHERE pid = %s", [pid]
    ).fetchone()
    assert found is not None
    return found[0] == "active" and (wait is None or found[1:] == wait)


@contextmanager
def serve(engine: Engine) -> Iterator[Served]:
    """Run an engine's pipeline and let clients in; it must not fail meanwhile."""
    service = Service(engine)
    service.start()
    try:
        with Listener(service, port=0) as listener:
            host, port = listener.address
            yield Served(f"host={host} port={port} user=root dbname=dev", listener)
    finally:
        service.stop()
    assert service.failed is None
