"""An engine without Spark behind a session: what fuzzers of the wire and of SQL talk to."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from icestream.config import Home
from icestream.engine import Engine
from icestream.errors import ConnectorError, IcestreamError
from icestream.server.failures import code_of
from icestream.server.service import Service

OBJECTS = """
CREATE TABLE t (id INT PRIMARY KEY, v INT, name VARCHAR, at TIMESTAMPTZ, n NUMERIC, d DOUBLE, j JSONB, a INT[]);
CREATE TABLE u (id INT, t_id INT, price DECIMAL(10, 2), day DATE, ok BOOLEAN, b BYTEA) APPEND ONLY;
CREATE SOURCE s (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') WITH (connector = 'datagen');
CREATE VIEW w AS SELECT id, v + 1 AS v FROM t WHERE v > 0;
CREATE MATERIALIZED VIEW m AS SELECT t_id, sum(price) AS total FROM u GROUP BY t_id;
"""
SLOW = 20.0
"""Seconds of the processor for one input: more is a hang."""
GROWTH = 400 << 10
"""Kilobytes that a run may keep, after the first tenth of it."""


class NoSpark:
    """In the place of a Spark application: statements that need one fail with an error of the engine."""

    def newSession(self) -> Any:
        raise ConnectorError("there is no Spark here")


@contextmanager
def open_service() -> Iterator[Service]:
    """A service over a home with a few objects."""
    with (
        tempfile.TemporaryDirectory() as home,
        Engine(Home.at(home), env={}, application=NoSpark()) as engine,  # type: ignore[arg-type]
    ):
        engine.plan(OBJECTS)
        yield Service(engine)


def check_error(error: BaseException, what: str) -> None:
    """Raise unless an error is one that a client may be told."""
    if not isinstance(error, IcestreamError):
        raise AssertionError(f"{type(error).__name__} reached the client: {what}") from error
    if code_of(error) == "XX000":
        raise AssertionError(f"an internal error reached the client: {error}: {what}") from error


class Watch:
    """Fails when an input takes too long, or when memory grows."""

    def __init__(self, count: int) -> None:
        self.warm = max(200, count // 10)
        self.done = 0
        self.base = 0

    @contextmanager
    def input(self, what: str) -> Iterator[None]:
        """One input."""
        started = time.process_time()
        yield
        took = time.process_time() - started
        assert took < SLOW, f"took {took:.0f} s: {what}"
        self.done += 1
        if self.done == self.warm:
            self.base = _peak()
        elif self.base and self.done % 1000 == 0:
            assert _peak() - self.base < GROWTH, f"memory grew by {_peak() - self.base} kB"


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
