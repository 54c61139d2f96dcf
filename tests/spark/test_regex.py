"""Regular expressions and LIKE patterns of users on Spark: limited, cancellable, and never the end of a stream or of the JVM."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest
from psycopg import errors
from pyspark.sql import SparkSession

from icestream import types as t
from icestream.config import EngineSettings, Home
from icestream.engine import Engine
from icestream.errors import SqlError
from icestream.functions import Scope, render
from icestream.functions.expression_errors import is_fallible
from icestream.runtime.spark_jobs import raising_sql_errors
from tests.cancels import LIMIT, end_statement
from tests.seeds import draw_seed
from tests.services.test_functions_postgres import TellFailures, bound
from tests.serving import Served, await_condition, serve
from tests.spark_session import spark
from tests.unit.functions.test_patterns import matches

__all__ = ["spark"]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

EXPONENTIAL = r"^(a|aa)+(c)\2$"
"""Over a's without a c. Java remembers where (a+)+ has failed, but not in a pattern with a back-reference."""
HOSTILE = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"
TOO_COMPLEX = "regular expression failed: regular expression is too complex"


@dataclass
class Running:
    """A server with a table of texts and patterns."""

    engine: Engine
    served: Served
    client: psycopg.Connection
    spark: SparkSession

    def query(self, sql: str) -> list[tuple[object, ...]]:
        return self.client.execute(sql.encode()).fetchall()

    def count_tasks(self) -> int:
        executors = self.spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
        return sum(executor.numRunningTasks() for executor in executors)


ROWS = [
    (1, "abc", "b"),
    (2, "abc", "^b"),
    (3, "abc", "("),
    (4, HOSTILE, EXPONENTIAL),
    (5, "ab" * 50_000, "^(a|b)*$"),
    (6, None, "("),
    (7, "abc", None),
    (8, "", "(|)" * 40 + "z"),
    (9, "abc", "a{256}"),
    (10, "a-b-c", "-"),
]
FAILING = {3, 4, 5, 8, 9}


@pytest.fixture(scope="module")
def running(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = Home.at(tmp_path_factory.mktemp("regex") / "home")
    with (
        Engine(home, EngineSettings(epoch_interval=0.1), application=spark) as engine,
        serve(engine) as served,
        served.connect() as client,
    ):
        client.execute("CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR, p VARCHAR)")
        with client.cursor() as cursor:
            cursor.executemany("INSERT INTO t VALUES (%s, %s, %s)", ROWS)
        client.execute("FLUSH")
        yield Running(engine, served, client, spark)


PROBLEMS = {
    3: "invalid regular expression: Unclosed group",
    4: TOO_COMPLEX,
    5: TOO_COMPLEX,
    8: "invalid regular expression: regular expression is too complex",
    9: "invalid regular expression: invalid repetition count(s)",
}
CALLS = {
    "s ~ p": bool,
    "s !~ p": bool,
    "s ~* p": bool,
    "regexp_replace(s, p, '#')": str,
    "regexp_replace(s, p, '#', 'g')": str,
    "regexp_count(s, p)": int,
    "regexp_substr(s, p)": str,
    "regexp_split_to_array(s, p)": list,
}


@pytest.mark.parametrize("id", sorted(FAILING))
@pytest.mark.parametrize("call", ["s ~ p", "regexp_substr(s, p)"])
def test_a_statement_raises_2201b(running: Running, id: int, call: str) -> None:
    with pytest.raises(errors.InvalidRegularExpression) as raised:
        running.query(f"SELECT {call} FROM t WHERE id = {id}")
    assert str(raised.value).splitlines()[0] == PROBLEMS[id]
    await_condition(lambda: not running.count_tasks(), 10)


@pytest.mark.parametrize("call", CALLS)
def test_what_does_not_fail_has_values(running: Running, call: str) -> None:
    good = [str(id) for id, *_ in ROWS if id not in FAILING]
    found = running.query(f"SELECT id, {call} FROM t WHERE id IN ({', '.join(good)})")
    values = dict(found)
    assert values[6] is None
    assert values[7] is None
    assert isinstance(values[1], CALLS[call])
    # nothing is found: NULL, and no error
    assert (values[2] is None) == ("substr" in call)


SHAPES = {
    "regexp_match('abc', '(x)?b')": [None],
    "regexp_match('abc', 'x')": None,
    "substring('abc' from '(x)?b')": None,
    "substring('abc' from 'x')": None,
    "substring('abc' from 'b(.)')": "c",
    "regexp_split_to_array('abc', '')": ["a", "b", "c"],
    "regexp_split_to_array(',a,', ',')": ["", "a", ""],
    r"regexp_replace('abc', '(b)', '[\1\\\&\x$1]')": r"a[b\b\x$1]c",
    r"regexp_replace('abc', 'b', '\2\')": "a\\c",
    "regexp_replace('abcb', 'b', upper('x'))": "aXcb",
    "coalesce(substring('abc' from 'x'), 'none')": "none",
}


def test_values_are_those_of_postgresql(running: Running) -> None:
    """The expected ones were taken from PostgreSQL 15."""
    found = running.query(f"SELECT {', '.join(SHAPES)}")
    assert dict(zip(SHAPES, found[0], strict=True)) == SHAPES


def test_a_view_goes_on_and_counts(running: Running) -> None:
    client = running.client
    client.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT id, s ~ p AS m, regexp_substr(s, p) AS f, regexp_match(s, 'b(.)') AS g FROM t"
    )

    def check() -> None:
        good = running.query(
            "SELECT id, s ~ p, regexp_substr(s, p), regexp_match(s, 'b(.)') FROM t "
            f"WHERE id NOT IN ({', '.join(map(str, FAILING))}) ORDER BY id"
        )
        rows = running.query("SELECT id, m, f, g FROM v ORDER BY id")
        assert [row for row in rows if row[0] not in FAILING] == good
        assert {row[1:3] for row in rows if row[0] in FAILING} == {(None, None)}

    check()
    client.execute("INSERT INTO t VALUES (20, 'xyz', 'y.')")
    client.execute("FLUSH")
    (shown,) = [o for o in running.engine.status().objects if o.name == "v"]
    assert shown.errors == 2 * len(FAILING)  # what matches nothing is no failure
    client.execute("INSERT INTO t VALUES (21, 'x', '[')")
    client.execute("FLUSH")
    client.execute("DELETE FROM t WHERE id = 21")
    client.execute("FLUSH")
    check()
    assert running.query("SELECT m, f, g FROM v WHERE id = 20") == [(True, "yz", None)]
    client.execute("DROP MATERIALIZED VIEW v")
    client.execute("DELETE FROM t WHERE id = 20")
    client.execute("FLUSH")


LONG = {
    "rows": "SELECT count(*) FROM t WHERE repeat('a', 10000000 + id) ~ 'a+b'",
    "constant": "SELECT repeat('a', 10000000) ~ 'a+b'",
    "like": "SELECT count(*) FROM t WHERE repeat('a', 3000000 + id) LIKE '%' || repeat('a', 1000000 + id) || 'b%c'",
}
"""One value takes longer than the limit for a cancel; Spark looks for cancels only between two rows."""


@pytest.mark.parametrize(
    ("what", "cancel"),
    [("rows", "cancel"), ("rows", "timeout"), ("constant", "cancel"), ("like", "cancel")],
)
def test_a_match_that_is_under_way_is_cancelled(running: Running, what: str, cancel: str) -> None:
    sql = LONG[what]

    def has_begun() -> None:
        if what != "constant":
            await_condition(lambda: running.count_tasks() > 0)

    wait = ("IPC", "SparkJob")
    assert end_statement(running.served, sql, cancel, wait=wait, ready=has_begun) < LIMIT
    await_condition(lambda: not running.count_tasks(), 10)


def test_without_the_jar_an_error_says_what_is_missing(spark: SparkSession) -> None:
    with pytest.raises(SqlError, match="functions that this Spark application does not have"), raising_sql_errors():  # fmt: skip
        spark.sql("SELECT icestream_regex_of_another_jar('a', 'b')")


def test_like_patterns_mean_what_like_means(spark: SparkSession) -> None:
    r, cases = random.Random(draw_seed("like")), []
    for _ in range(2000):
        text = "".join(r.choices("aaab%_\\.ä\n😀", k=r.randint(0, 8)))
        tokens = [*"%%%%__aab.ä😀", "\\%", "\\_", "\\\\", "\\a"]
        cases.append((text, "".join(r.choices(tokens, k=r.randint(0, 7)))))
    frame = spark.createDataFrame(cases, "s string, p string").coalesce(1)
    found = frame.selectExpr("s", "p", "icestream_like(s, p)").collect()
    assert [tuple(row) for row in found] == [(s, p, matches(s, p)) for s, p in cases]
    assert 100 < sum(row[2] for row in found) < 1900


N = 100_000
TEXTS = (
    "1" * N + "x", "1." + "1" * N + "x", " " * N + "x", "1" + " " * N + "x", "-" * N, "1 s " * (N // 4), "1 s, " * (N // 5) + "x",
    "00:00 " * (N // 6), "P" + "1" * N, "P1Y" + "1" * N + "M", " ago" * (N // 4) + "x", "1 day" + " " * N + "ago", "2020-01-01" + " " * N + "x",
    "2020-01-01 10:00:00." + "1" * N + "x", "10:00" + " " * N + "x", "0e" + " " * N + "x", "0e" + "0" * N + "x", "e" * N, "1e" + "1" * N,
    "\\x" + "a " * (N // 2) + "z", "\\x" + "ab" * (N // 2), "\\" * (N + 1), "\\101" * (N // 4), '"' + "a" * N, '["' + '\\\\"' * (N // 3),
    "1-1 " * (N // 4), "1." * (N // 2), "1:" * (N // 2), "\n" * N, "\\%" * (N // 2), "%_" * (N // 2), "20200101" * (N // 8) + "x",
    "[" + "1," * (N // 2) + "1]", '["a",' + '"\\u0041",' * (N // 9) + "1]",
)  # fmt: skip
TYPES = (
    "int", "numeric", "numeric(10,2)", "double precision", "boolean", "bytea", "date", "time", "timestamp", "timestamptz", "interval", "jsonb",
)  # fmt: skip
OWN = (
    *(f"CAST(x AS {kind})" for kind in TYPES),
    "to_date(x, 'YYYYMMDD')",
    "to_timestamp(x, 'YYYY-MM-DD HH24:MI:SS')",
    "initcap(x)",
    "quote_ident(x)",
    "decode(x, 'base64')",
    "ARRAY[x]::text",
    "to_jsonb(x)",
    "x LIKE x",
)


@pytest.mark.parametrize("sql", OWN)
def test_the_patterns_of_the_engine_take_one_pass(spark: SparkSession, sql: str) -> None:
    """Of texts of 100,000 characters, and of what is said about those that fail."""
    expr = bound(sql, Scope.of({"x": t.VARCHAR}))
    texts = [render(expr)]
    if is_fallible(expr):
        texts.append(render(expr, failures=TellFailures()))

    def evaluate(length: int) -> float:
        frame = spark.createDataFrame([(x[:length],) for x in TEXTS], "x string").coalesce(1)
        began = time.monotonic()
        for text in texts:
            made = frame.selectExpr(f"length(to_json(struct({text} AS v)))").collect()
            assert len(made) == len(TEXTS)
        return time.monotonic() - began

    planning = evaluate(10)
    assert evaluate(2 * N) < 4 * planning + 20  # a pass for each character takes minutes
