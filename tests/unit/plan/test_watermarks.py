"""When rows are final: the column and the bound, for every kind of node; and that nothing changes below it."""

from __future__ import annotations

import math
import random
from datetime import timedelta
from typing import Any

import duckdb
import pytest

from icestream import types as t
from icestream.functions.expressions import ColumnRef, Literal, columns_used
from icestream.plan.calls import call
from icestream.plan.logical import Filter
from icestream.plan.query import Relation
from icestream.plan.rewrite import substitute
from icestream.plan.text import text
from icestream.plan.watermarks import WATERMARK, Closing, closing, watermarks_read
from tests.duck import bag, connect, duck_type, quoted, render_duckdb
from tests.unit.plan.tables import bind
from tests.unit.plan.timed import COLUMNS, RELATIONS, at

MARKS = {"clicks#1": "ts", "prices#1": "ts"}
SESSION = "OVER (PARTITION BY who ORDER BY ts SESSION WITH GAP INTERVAL '5 minutes')"
TUMBLE = "tumble(clicks, ts, INTERVAL '10 minutes')"
HOP = "hop(clicks, ts, INTERVAL '5 minutes', INTERVAL '10 minutes')"
NOW = "FOR SYSTEM_TIME AS OF PROCTIME()"

# the query; the column, with < or <=; the bound, where w is the watermark
FINAL = [
    ("SELECT * FROM clicks", "ts <", "w"),
    ("SELECT what, ts AS t FROM clicks WHERE who > 1 ORDER BY t", "t <", "w"),
    ("SELECT ts + INTERVAL '1 hour' AS later FROM clicks", "later <", "w + INTERVAL '1 hour'"),
    ("SELECT date_trunc('hour', ts - INTERVAL '5 minutes') AS h FROM clicks", "h <", "date_trunc('hour', w - INTERVAL '5 minutes')"),
    ("SELECT date_trunc('hour', ts) AS h, count(*) AS n FROM clicks GROUP BY 1", "h <", "date_trunc('hour', w)"),
    ("SELECT ts::date AS d, sum(who) AS s FROM clicks GROUP BY 1 HAVING sum(who) > 2", "d <", "w::date"),
    ("SELECT window_end AS e, window_start, count(*) AS n FROM " + TUMBLE + " GROUP BY 1, 2", "e <=", "w"),
    ("SELECT window_start AS s, count(*) AS n FROM " + HOP + " GROUP BY 1", "s <=", "w - INTERVAL '10 minutes'"),
    ("SELECT ts, window_start, window_end FROM " + HOP, "window_end <=", "w"),
    ("SELECT ts, what FROM " + TUMBLE, "ts <", "w"),
    ("SELECT window_end + INTERVAL '1 minute' AS e, max(what) AS m FROM " + TUMBLE + " GROUP BY 1", "e <=", "w + INTERVAL '1 minute'"),
    ("SELECT date_trunc('hour', window_end) AS h, count(*) AS n FROM " + TUMBLE + " GROUP BY 1", "h <", "date_trunc('hour', w)"),
    ("SELECT DISTINCT ts, who FROM clicks", "ts <", "w"),
    ("SELECT DISTINCT ON (ts) ts, who FROM clicks ORDER BY ts, who, what", "ts <", "w"),
    ("SELECT ts, what FROM clicks UNION ALL SELECT ts, price::varchar FROM prices", "ts <", "w"),
    ("SELECT ts, who FROM clicks UNION SELECT ts, who FROM prices", "ts <", "w"),
    ("SELECT ts, who FROM clicks EXCEPT SELECT ts, who FROM prices", "ts <", "w"),
    ("SELECT ts, who FROM clicks INTERSECT ALL SELECT ts, who FROM prices", "ts <", "w"),
    ("SELECT ts, 1 AS n FROM clicks UNION ALL SELECT timestamp '2026-01-01', 2", "ts <", "w"),
    ("SELECT ts, row_number() OVER (PARTITION BY who ORDER BY ts, what) AS n FROM clicks", "ts <", "w"),
    ("SELECT ts, lag(what) OVER (ORDER BY ts, what, who) AS p, count(*) OVER (ORDER BY ts) AS n FROM clicks", "ts <", "w"),
    ("SELECT ts, sum(who) OVER (ORDER BY ts, who ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS n FROM clicks", "ts <", "w"),
    ("SELECT ts, min(what) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '4 minutes' PRECEDING AND CURRENT ROW) AS n FROM clicks", "ts <", "w"),
    ("SELECT ts, count(*) OVER (PARTITION BY ts) AS n FROM clicks", "ts <", "w"),
    ("SELECT e, what, rank() OVER (PARTITION BY e ORDER BY n DESC) AS r FROM (SELECT window_end AS e, what, count(*) AS n FROM " + TUMBLE + " GROUP BY 1, 2)", "e <=", "w"),
    ("SELECT who, first_value(ts) " + SESSION + " AS s, last_value(ts) " + SESSION + " AS e, count(*) " + SESSION + " AS n FROM clicks", "e <=", "w - INTERVAL '5 minutes'"),
    ("SELECT who, window_start AS s, window_end AS e, count(*) AS n FROM session(clicks PARTITION BY who, ts, INTERVAL '5 minutes') GROUP BY 1, 2, 3", "e <=", "w"),
    ("SELECT max(ts) " + SESSION + " AS e, what FROM clicks", "e <=", "w - INTERVAL '5 minutes'"),
    ("SELECT c.ts, p.price FROM clicks c JOIN prices p ON c.who = p.who AND c.ts = p.ts", "ts <", "w"),
    ("SELECT p.ts, c.what FROM clicks c JOIN prices p ON c.who = p.who AND p.ts BETWEEN c.ts AND c.ts + INTERVAL '3 minutes'", "ts <", "w"),
    ("SELECT c.ts, p.price FROM clicks c JOIN prices p ON c.who = p.who AND p.ts BETWEEN c.ts AND c.ts + INTERVAL '3 minutes'", "ts <", "w - INTERVAL '3 minutes'"),
    ("SELECT c.ts, p.price FROM clicks c LEFT JOIN prices p ON c.who = p.who AND p.ts - INTERVAL '1 minute' < c.ts + INTERVAL '2 minutes'", "ts <", "w - INTERVAL '3 minutes'"),
    ("SELECT c.ts, p.price FROM clicks c LEFT JOIN prices p ON c.who = p.who AND p.ts <= c.ts - INTERVAL '2 minutes'", "ts <", "w"),
    ("SELECT p.ts, c.what FROM clicks c, prices p WHERE c.who = p.who AND p.ts >= c.ts AND p.price <> 3", "ts <", "w"),
    ("SELECT b.ts, a.what FROM clicks a, prices p, clicks b WHERE a.ts = p.ts AND p.ts <= b.ts", "ts <", "w"),
    ("SELECT a.ts, b.what FROM clicks a JOIN prices p ON a.who = p.who JOIN clicks b ON a.ts = p.ts AND b.ts = a.ts", "ts <", "w"),
    ("SELECT ts, what FROM clicks c WHERE EXISTS (SELECT 1 FROM prices p WHERE p.who = c.who AND p.ts = c.ts)", "ts <", "w"),
    ("SELECT ts, what FROM clicks c WHERE NOT EXISTS (SELECT 1 FROM prices p WHERE p.who = c.who AND p.ts <= c.ts)", "ts <", "w"),
    ("SELECT c.ts, v.x FROM clicks c JOIN (VALUES (1, 'one'), (2, 'two')) AS v (k, x) ON c.who = v.k", "ts <", "w"),
    ("SELECT a.e, a.n, b.m FROM (SELECT window_end AS e, count(*) AS n FROM " + TUMBLE + " GROUP BY 1) a JOIN "
     "(SELECT window_end AS e, max(price) AS m FROM tumble(prices, ts, INTERVAL '10 minutes') GROUP BY 1) b ON a.e = b.e", "e <=", "w"),
    ("SELECT c.ts, p.price FROM clicks c ASOF JOIN prices p ON c.who = p.who AND c.ts >= p.ts", "ts <", "w"),
    ("SELECT c.ts, p.price FROM clicks c ASOF LEFT JOIN prices p ON c.who = p.who AND c.ts > p.ts", "ts <", "w"),
    ("SELECT c.what, p.ts, p.price FROM clicks c ASOF JOIN prices p ON c.who = p.who AND c.ts <= p.ts", "ts <", "w"),
]  # fmt: skip

NEVER = [
    "SELECT what FROM clicks",
    "SELECT id, at FROM orders",
    "SELECT count(*) AS n FROM clicks",
    "SELECT who, max(ts) AS m FROM clicks GROUP BY who",
    "SELECT ts FROM clicks ORDER BY ts LIMIT 5",
    "SELECT ts FROM clicks WHERE ts > now()",
    "SELECT ts - (who * INTERVAL '1 minute') AS t FROM clicks",
    "SELECT extract(minute FROM ts) AS m, count(*) AS n FROM clicks GROUP BY 1",
    "SELECT ts, lead(ts) OVER (ORDER BY ts) AS n FROM clicks",
    "SELECT ts, lag(ts, -1) OVER (ORDER BY ts) AS n FROM clicks",
    "SELECT ts, ntile(2) OVER (ORDER BY ts) AS n FROM clicks",
    "SELECT ts, row_number() OVER (ORDER BY ts DESC) AS n FROM clicks",
    "SELECT ts, row_number() OVER (ORDER BY ts NULLS FIRST) AS n FROM clicks",
    "SELECT ts, count(*) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS n FROM clicks",
    "SELECT ts, count(*) OVER (PARTITION BY who) AS n FROM clicks",
    "SELECT ts, first_value(ts) " + SESSION + " AS s FROM clicks",
    "SELECT DISTINCT ON (who) who, ts FROM clicks ORDER BY who, ts DESC",
    "SELECT ts FROM clicks UNION ALL SELECT ts + INTERVAL '1 minute' FROM prices",
    "SELECT ts FROM clicks UNION ALL SELECT at FROM orders",
    "SELECT c.ts FROM clicks c JOIN prices p ON c.who = p.who",
    "SELECT c.ts FROM clicks c JOIN prices p ON c.who = p.who AND c.ts <= p.ts",
    "SELECT c.ts FROM clicks c JOIN customers k ON c.who = k.id",
    "SELECT c.ts FROM clicks c LEFT JOIN customers k ON c.who = k.id",
    "SELECT p.ts FROM clicks c LEFT JOIN prices p ON c.who = p.who AND c.ts = p.ts",
    "SELECT p.ts FROM clicks c LEFT JOIN prices p ON c.who = p.who WHERE c.ts = p.ts",
    "SELECT c.ts FROM clicks c, prices p, clicks d WHERE c.ts = p.ts",
    "SELECT c.ts FROM clicks c FULL JOIN prices p ON c.ts = p.ts",
    "SELECT ts FROM clicks c WHERE EXISTS (SELECT 1 FROM prices p WHERE p.who = c.who)",
    "SELECT c.ts FROM clicks c ASOF LEFT JOIN prices p ON c.who = p.who AND c.ts <= p.ts",
]  # fmt: skip


@pytest.mark.parametrize(("sql", "column", "bound"), FINAL)
def test_when_rows_are_final(sql: str, column: str, bound: str) -> None:
    plan = bind(sql, RELATIONS)
    found = closing(plan, MARKS)
    assert found is not None
    assert found.column in plan.names
    assert f"{found.column} {'<=' if found.inclusive else '<'}" == column
    assert text(found.bound).replace(WATERMARK, "w") == bound
    assert columns_used(found.bound) == (ColumnRef(t.TIMESTAMP, WATERMARK),)
    types = {c.name: c.type for c in plan.columns}
    assert found.bound.type == types[found.column]


@pytest.mark.parametrize("sql", NEVER)
def test_rows_that_are_never_final(sql: str) -> None:
    assert closing(bind(sql, RELATIONS), MARKS) is None


def test_without_watermarks_nothing_is_final() -> None:
    for sql, *_ in FINAL:
        assert closing(bind(sql, RELATIONS), {}) is None


def test_a_temporal_join_waits_for_its_left_alone() -> None:
    plan = bind(f"SELECT c.ts, p.price FROM clicks c LEFT JOIN prices {NOW} p ON c.who = p.who", RELATIONS)  # fmt: skip
    assert closing(plan, MARKS) == Closing("ts", ColumnRef(t.TIMESTAMP, WATERMARK), False)
    assert watermarks_read(plan, MARKS) == ("clicks#1",)


def test_the_relations_that_are_waited_for() -> None:
    both = "SELECT c.ts FROM clicks c JOIN prices p ON c.ts = p.ts JOIN clicks d ON c.ts = d.ts"
    assert watermarks_read(bind(both, RELATIONS), MARKS) == ("clicks#1", "prices#1")
    assert watermarks_read(bind("SELECT id FROM orders", RELATIONS), MARKS) == ()
    assert watermarks_read(bind(both, RELATIONS), {"prices#1": "ts"}) == ("prices#1",)


def test_watermarks_of_other_types() -> None:
    days = Relation("days#7", "days", (("d", t.DATE), ("z", t.TIMESTAMPTZ)))
    plan = bind("SELECT window_end, count(*) AS n FROM tumble(days, d, INTERVAL '1 day') GROUP BY 1", {"days": days})  # fmt: skip
    found = closing(plan, {"days#7": "d"})
    assert found is not None
    assert (found.column, found.inclusive, found.bound.type) == ("window_end", True, t.TIMESTAMP)
    assert columns_used(found.bound) == (ColumnRef(t.DATE, WATERMARK),)
    found = closing(bind("SELECT z, d FROM days", {"days": days}), {"days#7": "z"})
    assert found == Closing("z", ColumnRef(t.TIMESTAMPTZ, WATERMARK), False)


# -- the law: what is final stays -------------------------------------------------------------------

DELAY = 3
SEEDS = range(16)
Rows = list[tuple[Any, ...]]


def stream(draw: random.Random, values: str) -> Rows:
    """Rows that are nearly in order; those that come too late are left out."""
    rows: Rows = []
    mark = -math.inf
    for i in range(30):
        late = draw.randrange(-5, 6) + draw.choice([0, 0, 0.5])
        ts = None if draw.random() < 0.05 else i + late
        if ts is None or ts >= mark:
            rows.append((draw.choice([1, 1, 2, None]), at(ts), draw.choice(values)))
        mark = mark if ts is None else max(mark, ts - DELAY)
    return rows


@pytest.fixture(scope="module")
def streams() -> tuple[duckdb.DuckDBPyConnection, dict[tuple[str, int], Rows]]:
    """A database with a stream of clicks and one of prices for every seed, numbered as they come; and the streams."""
    connection = connect()
    made: dict[tuple[str, int], Rows] = {}
    for name, columns in COLUMNS.items():
        declared = ", ".join(f"{quoted(c)} {duck_type(x)}" for c, x in columns)
        connection.execute(f"CREATE TABLE {name} (seed INT, n INT, {declared})")
        for seed in SEEDS:
            draw = random.Random(f"{name} {seed}")
            rows = made[name, seed] = stream(draw, "abc" if name == "clicks" else "01234")
            values = [v for n, row in enumerate(rows) for v in (seed, n, *row)]
            places = ", ".join(["(?, ?, ?, ?, ?)"] * len(rows))
            connection.execute(f"INSERT INTO {name} VALUES {places}", values)
    return connection, made


def first(seed: int, counts: dict[str, int]) -> dict[str, str]:
    """The first rows of each stream, as the tables that a plan reads."""
    return {
        f"{name}#1": f"(SELECT * EXCLUDE (seed, n) FROM {name} WHERE seed = {seed} AND n < {count})"
        for name, count in counts.items()
    }


@pytest.mark.parametrize("sql", [sql for sql, *_ in FINAL])
def test_what_is_final_stays(
    sql: str, streams: tuple[duckdb.DuckDBPyConnection, dict[tuple[str, int], Rows]]
) -> None:
    connection, made = streams
    plan = bind(sql, RELATIONS)
    found = closing(plan, MARKS)
    assert found is not None
    kept = ColumnRef({c.name: c.type for c in plan.columns}[found.column], found.column)
    read = [key.removesuffix("#1") for key in watermarks_read(plan, MARKS)]
    for seed in SEEDS:
        counts = {name: random.Random(f"{name} {seed}").randrange(8, 20) for name in COLUMNS}
        times = [[r[1] for r in made[name, seed][: counts[name]] if r[1]] for name in read]
        mark = min(max(each) for each in times) - timedelta(minutes=DELAY)
        moment = Literal(t.TIMESTAMP, f"{mark:%Y-%m-%d %H:%M:%S.%f}")
        bound = substitute(found.bound, {WATERMARK: moment})
        final = Filter(plan, call("<=" if found.inclusive else "<", kept, bound))
        before, after = (
            bag(connection.execute(render_duckdb(final, first(seed, c))).fetchall())
            for c in (counts, dict.fromkeys(COLUMNS, 100))
        )
        assert before == after
