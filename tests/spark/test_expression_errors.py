"""Expressions that fail: errors for clients, counted NULLs in streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from icestream.config import EngineSettings, Home
from icestream.engine import Engine
from tests.serving import serve
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark


@dataclass
class Running:
    """A server with a table of texts and numbers."""

    engine: Engine
    client: psycopg.Connection

    def query(self, sql: str) -> list[tuple[object, ...]]:
        return self.client.execute(sql.encode()).fetchall()


@pytest.fixture(scope="module")
def running(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = Home.at(tmp_path_factory.mktemp("errors") / "home")
    with (
        Engine(home, EngineSettings(epoch_interval=0.1), application=spark) as engine,
        serve(engine) as served,
        served.connect() as client,
    ):
        for sql in (
            "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR, a INT, b INT, d DOUBLE PRECISION)",
            "INSERT INTO t VALUES (1, '12', 7, 2, 1.5), (2, 'x', 2147483647, 0, -1), (3, NULL, NULL, 1, NULL)",
            "FLUSH",
        ):
            client.execute(sql.encode())
        yield Running(engine, client)


ERRORS = {
    "SELECT 1/0": ("22012", "division by zero"),
    "SELECT a / b FROM t": ("22012", "division by zero"),
    "SELECT a % b FROM t": ("22012", "division by zero"),
    "SELECT a::numeric / b FROM t": ("22012", "division by zero"),
    "SELECT d / b FROM t": ("22012", "division by zero"),
    "SELECT a + 1 FROM t": ("22003", "integer out of range"),
    "SELECT a * 2 + 1 FROM t": ("22003", "integer out of range"),
    "SELECT a::smallint FROM t": ("22003", "smallint out of range"),
    "SELECT s::int FROM t": ("22P02", 'invalid input syntax for type integer: "x"'),
    "SELECT s::int + 1 FROM t": ("22P02", 'invalid input syntax for type integer: "x"'),
    "SELECT count(*) FROM t WHERE s::int > 1": (
        "22P02",
        'invalid input syntax for type integer: "x"',
    ),
    "SELECT s::date FROM t WHERE id = 2": ("22007", 'invalid input syntax for type date: "x"'),
    "SELECT s::timestamp FROM t WHERE id = 2": ("22007", "invalid input syntax"),
    "SELECT s::boolean FROM t WHERE id = 2": ("22P02", "invalid input syntax"),
    "SELECT s::jsonb FROM t WHERE id = 2": ("22P02", "invalid input syntax"),
    "SELECT s::interval FROM t WHERE id = 2": ("22007", "invalid input syntax"),
    "SELECT sqrt(d) FROM t": ("2201F", "square root"),
    "SELECT ln(d) FROM t": ("2201E", "logarithm"),
    "SELECT ARRAY[s]::int[] FROM t WHERE id = 2": ("22P02", "invalid input syntax"),
    "SELECT (array_agg(s ORDER BY id))::int[] FROM t": ("22P02", "array"),
    "SELECT sum(s::int) FROM t": ("22P02", 'invalid input syntax for type integer: "x"'),
    "SELECT a.id FROM t a JOIN t b ON a.s::int = b.id": ("22P02", "invalid input syntax"),
    "SELECT id FROM t ORDER BY s::int": ("22P02", "invalid input syntax"),
    "INSERT INTO t SELECT 9, 'y', a + 1, 1, 1 FROM t WHERE id = 2": (
        "22003",
        "integer out of range",
    ),
    "INSERT INTO t SELECT s::int, s, 1, 1, 1 FROM t WHERE id = 2": (
        "22P02",
        "invalid input syntax",
    ),
    "UPDATE t SET a = a / b": ("22012", "division by zero"),
    "DELETE FROM t WHERE s::int = 1": ("22P02", "invalid input syntax"),
}


@pytest.mark.parametrize("sql", ERRORS)
def test_statements_raise_the_errors_of_postgresql(running: Running, sql: str) -> None:
    code, message = ERRORS[sql]
    with pytest.raises(psycopg.Error) as raised:
        running.client.execute(sql.encode())
    assert (raised.value.sqlstate, message in str(raised.value)) == (code, True), raised.value
    assert running.query("SELECT count(*) FROM t") == [(3,)]  # nothing was changed


VALUES = {
    "SELECT CASE WHEN b <> 0 THEN a / b END FROM t ORDER BY id": [(3,), (None,), (None,)],
    "SELECT a / nullif(b, 0) FROM t ORDER BY id": [(3,), (None,), (None,)],
    "SELECT s::int FROM t WHERE s ~ '^[0-9]+$'": [(12,)],
    "SELECT coalesce(s, '0')::int FROM t WHERE id <> 2 ORDER BY id": [(12,), (0,)],
    "SELECT a + 1 FROM t WHERE id = 3": [(None,)],
    "SELECT sum(a / b) FILTER (WHERE b <> 0) FROM t": [(3,)],
    "SELECT ARRAY[s]::int[] FROM t WHERE id <> 2 ORDER BY id": [([12],), ([None],)],
}


@pytest.mark.parametrize("sql", VALUES)
def test_what_is_not_evaluated_raises_nothing(running: Running, sql: str) -> None:
    assert running.query(sql) == VALUES[sql]


def test_views_go_on_and_count(running: Running, tmp_path: Path) -> None:
    client = running.client
    client.execute("CREATE MATERIALIZED VIEW v AS SELECT id, a / b AS q, s::int AS n FROM t")
    assert running.query("SELECT * FROM v ORDER BY id") == [(1, 3, 12), (2, None, None), (3, None, None)]  # fmt: skip
    client.execute("INSERT INTO t VALUES (4, 'y', 1, 1, 1)")
    client.execute("FLUSH")
    assert running.query("SELECT q, n FROM v WHERE id = 4") == [(1, None)]
    (shown,) = [o for o in running.engine.status().objects if o.name == "v"]
    assert shown.errors == 3
    events = running.query("SELECT info FROM rw_event_logs WHERE event_type = 'EXPRESSION_FAIL'")
    ((info,), *_) = events
    assert isinstance(info, dict)
    assert (info["expressionFail"]["object"], info["expressionFail"]["errors"]) == ("v", 3)
    assert running.query("SELECT id FROM t WHERE id = 4") == [(4,)]
    client.execute("DROP MATERIALIZED VIEW v")
    client.execute("DELETE FROM t WHERE id = 4")
    client.execute("FLUSH")
