"""Expressions that fail: errors for clients, counted NULLs in streams."""

from __future__ import annotations

import math
import struct
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


SEVERAL = ("21000", "more than one row returned by a subquery used as an expression")
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
    "SELECT ('2020-01-0' || b || ' 10:00 Europe/Atlantis')::timestamptz FROM t WHERE id = 1": (
        "22023",
        'time zone "europe/atlantis" not recognized',
    ),
    "SELECT ('+1' || s || '999999999 years')::interval FROM t WHERE id = 1": (
        "22015",
        "interval field value out of range",
    ),
    "SELECT ('\\' || s)::bytea FROM t WHERE id = 1": (
        "22P02",
        "invalid input syntax for type bytea",
    ),
    "SELECT ('\\xg' || s)::bytea FROM t WHERE id = 1": ("22023", 'invalid hexadecimal digit: "g"'),
    "SELECT ('\"\\u0000' || s || '\"')::jsonb FROM t WHERE id = 1": (
        "22P05",
        "unsupported Unicode escape sequence",
    ),
    "SELECT ('9999999999' || s)::jsonb::int FROM t WHERE id = 1": ("22003", "integer out of range"),
    "SELECT ARRAY[s, '9999999999']::int[] FROM t WHERE id = 1": (
        "22003",
        'value "9999999999" is out of range for type integer',
    ),
    "SELECT sqrt(d) FROM t": ("2201F", "square root"),
    "SELECT ln(d) FROM t": ("2201E", "logarithm"),
    "SELECT ARRAY[s]::int[] FROM t WHERE id = 2": ("22P02", "invalid input syntax"),
    "SELECT (array_agg(s ORDER BY id))::int[] FROM t": (
        "22P02",
        'invalid input syntax for type integer: "x"',
    ),
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
    "SELECT (SELECT 1 UNION SELECT 2)": SEVERAL,
    "SELECT (SELECT a FROM t)": SEVERAL,
    "SELECT id FROM t WHERE a = (SELECT a FROM t)": SEVERAL,
    "SELECT id, (SELECT b.a FROM t AS b WHERE b.id <= t.id) FROM t": SEVERAL,
    "SELECT b, sum(a), (SELECT c.a FROM t AS c WHERE c.b >= t.b) FROM t GROUP BY b": SEVERAL,
    "INSERT INTO t SELECT 9, 'y', (SELECT a FROM t), 1, 1": SEVERAL,
    "UPDATE t SET a = (SELECT b FROM t)": SEVERAL,
    "DELETE FROM t WHERE a = (SELECT a FROM t)": SEVERAL,
    "SELECT 'a' LIKE s || '\\' FROM t": ("22025", "must not end with escape"),
    "SELECT 'ab' LIKE 'ab' ESCAPE 'xx'": ("22025", "invalid escape string"),
    "SELECT 1e308::float8 * 10": ("22003", "overflow"),
    "SELECT d * 1e308::float8 * 10 FROM t": ("22003", "overflow"),
    "SELECT sum(d * 1e308::float8) FROM t, generate_series(1, 9)": ("22003", "overflow"),
    "SELECT sum((d * 2e38)::real) FROM t, generate_series(1, 9) WHERE id = 1": (
        "22003",
        "overflow",
    ),
    "SELECT avg(d) OVER () FROM (VALUES (1e308::float8), (1e308)) AS v (d)": ("22003", "overflow"),
    "SELECT 1e-50::float8::real": ("22003", "out of range"),
    "SELECT generate_series(1, 3, 0)": ("22023", "step size cannot equal zero"),
    "SELECT * FROM generate_series(timestamp '2020-01-01', '2020-01-02', interval '0')": (
        "22023",
        "step size",
    ),
    "SELECT count(*) FROM generate_series(1, 1000000000000)": ("54000", "generate_series"),
    "SELECT jsonb_object_agg(s, 1) FROM t": ("22023", "field name must not be null"),
    "SELECT 'abc' ~ '['": ("2201B", "invalid regular expression"),
    "SELECT regexp_replace('abc', '(', 'x')": ("2201B", "invalid regular expression"),
    "SELECT s ~ (s || '(') FROM t": ("2201B", "invalid regular expression"),
    "SELECT length(repeat(s, 2000000000)) FROM t": ("54000", "requested length too large"),
    "SELECT length(lpad(s, 2000000000)) FROM t": ("54000", "requested length too large"),
    "SELECT to_date('2020-13-01', 'YYYY-MM-DD')": ("22008", "out of range"),
    "SELECT to_timestamp('2020-01-01 25:00', 'YYYY-MM-DD HH24:MI')": ("22008", "out of range"),
    "SELECT to_date('x', 'YYYY-MM-DD')": ("22007", "does not match"),
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
    "SELECT CASE WHEN id > 9 THEN (SELECT a FROM t) END FROM t": [(None,)] * 3,
    "SELECT id, (SELECT b.a FROM t AS b WHERE b.id < t.id) FROM t WHERE id < 3 ORDER BY id": [
        (1, None),
        (2, 7),
    ],
    "SELECT (SELECT s FROM t AS b WHERE b.id = t.id) FROM t ORDER BY id": [
        ("12",),
        ("x",),
        (None,),
    ],
    "SELECT (SELECT a FROM t WHERE id = 1), (SELECT a FROM t WHERE id = 3), (SELECT a FROM t WHERE id = 4)": [
        (7, None, None)
    ],
    "SELECT repeat('a', 60) LIKE '" + "%a" * 30 + "b'": [(False,)],
    "SELECT repeat('a', 60) LIKE repeat('%a', 30) || s FROM t ORDER BY id": [
        (False,),
        (False,),
        (None,),
    ],
    "SELECT repeat('a', 60) SIMILAR TO '"
    + "%a" * 30
    + "b', 'a.b.c' SIMILAR TO '%.%.c', 'axbxc' SIMILAR TO '%.%.c'": [(False, True, False)],
    "SELECT repeat('A', 60) ILIKE '" + "%a" * 30 + "', 'äbxÄB' ILIKE '%ÄB%ä_'": [(True, True)],
    "SELECT s || '%_' LIKE s || '\\%_', 'a.c' LIKE '_' || '\\.' || '%', 'a_b%c' ILIKE 'A\\_%\\%' || 'C' FROM t WHERE id = 1": [
        (True, True, True)
    ],
    "SELECT 'Infinity'::float8 * 2, sum(d), sum(d + 'Infinity') FROM t": [
        (math.inf, 0.5, math.inf)
    ],
    "SELECT sum(d) OVER (ORDER BY id) FROM t ORDER BY id": [(1.5,), (0.5,), (0.5,)],
    "SELECT sum(DISTINCT d) FILTER (WHERE id < 3), avg(d) FROM t": [(0.5, 0.25)],
    "SELECT count(*) FROM generate_series(1, 100000) AS a, generate_series(3, 1, -1) AS b": [
        (300000,)
    ],
    "SELECT jsonb_object_agg(s, 1) FILTER (WHERE id < 3) FROM t": [({"12": 1, "x": 1},)],
    "SELECT lpad('a', 3) || repeat('b', 2) || repeat('b', -1)": [("  abb",)],
    "SELECT row(null, null) IS NULL, row(1, null) IS NULL, row(1, null) IS NOT NULL, row(1, 2) IS NOT NULL": [
        (True, False, False, True)
    ],
    "SELECT (date '2020-08-11 BC')::text, (date '0001-01-01' - 1)::text, (timestamptz '0044-03-15 12:00+00 BC')::text": [
        ("2020-08-11 BC", "0001-12-31 BC", "0044-03-15 12:00:00+00 BC")
    ],
    "SELECT ('00' || s || '-08-11 BC')::date::text, ('1' || s || '00-01-01')::timestamp::text FROM t WHERE id = 1": [
        ("0012-08-11 BC", "11200-01-01 00:00:00")
    ],
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


def test_a_view_counts_a_subquery_of_several_rows_until_there_is_one(running: Running) -> None:
    client = running.client
    client.execute("CREATE TABLE rate (id INT PRIMARY KEY, k INT, v INT)")
    client.execute("INSERT INTO rate VALUES (1, 1, 10), (2, 2, 20)")
    client.execute(
        "CREATE MATERIALIZED VIEW rated AS SELECT id, (SELECT v FROM rate WHERE k = t.id) AS v FROM t"
    )
    client.execute(
        "CREATE MATERIALIZED VIEW alone AS SELECT id, (SELECT v FROM rate WHERE v > 15) AS v FROM t"
    )
    shown = (
        "SELECT rated.id, rated.v, alone.v FROM rated JOIN alone ON rated.id = alone.id ORDER BY 1"
    )

    def rows() -> list[tuple[object, ...]]:
        client.execute("FLUSH")
        return running.query(shown)

    assert rows() == [(1, 10, 20), (2, 20, 20), (3, None, 20)]
    client.execute("INSERT INTO rate VALUES (3, 1, 30)")
    assert rows() == [(1, None, None), (2, 20, None), (3, None, None)]
    errors = {o.name: o.errors for o in running.engine.status().objects}
    assert errors["rated"]
    assert errors["alone"]
    client.execute("DELETE FROM rate WHERE id = 1")
    assert rows() == [(1, 30, None), (2, 20, None), (3, None, None)]
    client.execute("DELETE FROM rate WHERE id = 2")
    assert rows() == [(1, 30, 30), (2, None, 30), (3, None, 30)]
    for name in ("rated", "alone"):
        client.execute(f"DROP MATERIALIZED VIEW {name}".encode())
    client.execute("DROP TABLE rate")


def test_years_that_python_does_not_have(running: Running) -> None:
    """psycopg cannot hold them either: it is asked for the texts and bytes as they come."""
    client = running.client
    client.execute(
        "CREATE TABLE far (id INT PRIMARY KEY, d DATE, m TIMESTAMP, z TIMESTAMPTZ, l DATE[])"
    )
    texts = {
        1: (
            "2020-08-11 BC",
            "0001-02-03 04:05:06.7 BC",
            "4713-12-01 00:00:00+00 BC",
            '{"0044-03-15 BC",2020-01-01}',
        ),
        2: (
            "99999-01-01",
            "10000-01-01 00:00:00",
            "12345-06-07 08:09:10.123456+00",
            "{5874897-12-31}",
        ),
    }
    for id, row in texts.items():
        written = ", ".join(f"'{x}'" for x in row)
        client.execute(f"INSERT INTO far VALUES ({id}, {written})".encode())
    client.execute("FLUSH")
    for sql in (
        "SELECT * FROM far ORDER BY id",
        "SELECT id, d + 0, m + interval '0', z + interval '0', l || d FROM far ORDER BY id",
    ):
        plain = client.pgconn.exec_params(sql.encode(), [])
        binary = client.pgconn.exec_params(sql.encode(), [], result_format=1)
        assert (plain.error_message, binary.error_message) == (b"", b"")
        for at, row in enumerate(texts.values()):
            found = [plain.get_value(at, n) for n in range(1, 5)]
            assert [x.decode() for x in found[:3] if x] == list(row[:3])
            assert (found[3] or b"").decode().startswith(row[3][:-1])
            (days,) = struct.unpack("!i", binary.get_value(at, 1) or b"")
            asked = client.execute(
                "SELECT d = date '2000-01-01' + %s FROM far WHERE id = %s", (days, at + 1)
            )
            assert asked.fetchone() == (True,)
    far = client.pgconn.exec_params(b"SELECT id FROM far WHERE d = $1", [b"2020-08-11 BC"], [1082])
    assert far.get_value(0, 0) == b"1"
    client.execute("DROP TABLE far")
