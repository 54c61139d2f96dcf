"""A listener over DuckDB, and the ways to reach it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from icestream.server.listener import Listener
from tests.unit.server.duck import DuckBackend


@pytest.fixture
def backend() -> DuckBackend:
    return DuckBackend()


@pytest.fixture
def server(backend: DuckBackend) -> Iterator[Listener]:
    with Listener(backend, port=0) as listener:
        yield listener


@pytest.fixture
def url(server: Listener) -> str:
    host, port = server.address
    return f"host={host} port={port} user=root dbname=dev connect_timeout=10"
