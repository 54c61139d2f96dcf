"""Views and time: watermarks, windows that close, now(), temporal, ASOF and interval joins, sessions."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icestream.lake.catalogs import OWNER, Lake
from icestream.runtime import cut_chooser
from tests.duck import bag
from tests.engine import lake, lake_table
from tests.feeds import Event, Feed, Row, Running
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark

NOON = datetime(2026, 3, 1, 12)


class Clock:
    """What the engine takes for the time, in the place of the module `time`."""

    def __init__(self) -> None:
        self.now = NOON.replace(tzinfo=UTC)
        self.monotonic = time.monotonic

    def time_ns(self) -> int:
        return int(self.now.timestamp()) * 1_000_000_000

    def passes(self, **span: float) -> None:
        self.now += timedelta(**span)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(cut_chooser, "time", found)
    return found


def at(text: str) -> datetime:
    """A minute and a second after noon: 01:30."""
    minutes, _, seconds = text.partition(":")
    return NOON + timedelta(minutes=int(minutes), seconds=int(seconds or 0))


def new(*rows: Row) -> list[Event]:
    return [(None, row) for row in rows]


def gone(*rows: Row) -> list[Event]:
    return [(row, None) for row in rows]


def rows(*expected: Row) -> Counter[Row]:
    return bag(expected)


def hidden(home: Path, view: str) -> list[str]:
    """The tables that the engine keeps for a view beside its own."""
    catalog = lake(home)
    names = [".".join(name) for name in catalog.list_tables("icestream")]
    owners = {n: catalog.load_table(n).properties.get(OWNER, "") for n in names}
    return sorted(n for n, owner in owners.items() if owner.partition("#")[0] == view)


def operations(home: Path, table: str) -> set[str]:
    found = [s.summary for s in lake_table(home, table).snapshots()]
    return {s.operation.value for s in found if s is not None}


def check_law(running: Running, views: dict[str, str], when: object = "") -> None:
    """Every view holds what its query gives as a batch."""
    for name, query in views.items():
        found, expected = running.content(name), running.rows(query)
        assert found == expected, (
            f"{when} {name}: too many {list((found - expected).elements())}, "
            f"missing {list((expected - found).elements())}"
        )


def create(views: dict[str, str]) -> str:
    return "".join(
        f"CREATE MATERIALIZED VIEW {name} AS {query};\n" for name, query in views.items()
    )


# -- watermarks --------------------------------------------------------------------------------------

TUMBLED = "TUMBLE({}, at, INTERVAL '10 minutes') GROUP BY window_start, window_end, who"
CLICKS = "(id INT, who VARCHAR, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '1 minute')"


def late(running: Running, name: str) -> int:
    """The rows of a source or table that came too late, as the log counts them."""
    counters = running.engine.pipeline.record.counters
    return sum(n for key, n in counters.items() if key.startswith(f"{name}#") and "late" in key)


def test_late_rows_are_kept_where_asked(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path, "clicks", ("id", "who", "at"), keyed=False)
    clause = feed.clause.replace("WITH (", "WITH (late_rows = 'keep', ", 1)
    with Running(tmp_path / "home", spark) as running:
        running.execute(
            f"CREATE SOURCE clicks {CLICKS} {clause};"
            "CREATE MATERIALIZED VIEW seen AS SELECT who, count(*) AS n FROM clicks GROUP BY who;"
        )
        for events in (
            [(1, "a", at("30"))],
            [(2, "b", at("5")), (3, "c", at("31")), (4, "d", None)],
        ):
            feed.write(new(*events))
            running.epoch()
        assert running.content("seen") == rows(("a", 1), ("c", 1), ("d", 1))
        assert late(running, "clicks") == 1
    letters = lake_table(tmp_path / "home", "dead_letters.clicks").scan().to_arrow().to_pylist()
    assert [(r["reason"], json.loads(r["payload"])["id"]) for r in letters] == [
        ("late: at is before the watermark", 2)
    ]


@pytest.mark.parametrize("kind", ["SOURCE", "TABLE"])
def test_windows_show_once_when_they_close(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path, "clicks", ("id", "who", "at"), keyed=False)
    script = f"""
      CREATE {kind} clicks {CLICKS} {feed.clause};
      CREATE MATERIALIZED VIEW closed AS SELECT window_start, who, count(*) AS n, max(id) AS newest
        FROM {TUMBLED.format("clicks")} EMIT ON WINDOW CLOSE;
      CREATE MATERIALIZED VIEW open AS SELECT window_start, who, count(*) AS n FROM {TUMBLED.format("clicks")};
      CREATE MATERIALIZED VIEW passed AS SELECT id, at FROM clicks EMIT ON WINDOW CLOSE;
      CREATE MATERIALIZED VIEW people AS SELECT window_start, count(DISTINCT who) AS n
        FROM TUMBLE(clicks, at, INTERVAL '10 minutes') GROUP BY window_start HAVING count(*) > 0 EMIT ON WINDOW CLOSE;
      CREATE MATERIALIZED VIEW over_open AS SELECT window_start, sum(n) AS n FROM open GROUP BY window_start
        EMIT ON WINDOW CLOSE;
      CREATE SINK closed_sink AS SELECT window_end, who, count(*) AS n FROM {TUMBLED.format("clicks")}
        EMIT ON WINDOW CLOSE WITH (connector = 'iceberg', type = 'append-only', database.name = 'out',
        table.name = 'closed', create_table_if_not_exists = 'true', commit_checkpoint_interval = 1);
    """
    first = [(at("0"), "a", 3, 6), (at("0"), "b", 1, 2)]
    second = [(at("10"), "a", 2, 8)]
    with Running(tmp_path / "home", spark) as running:
        running.execute(script)

        def epoch(*events: Row) -> Counter[Row]:
            feed.write(new(*events))
            running.epoch()
            return running.content("closed")

        # up to 08:00
        assert not epoch((1, "a", at("1")), (2, "b", at("5")), (3, "a", at("9")))
        assert running.content("passed") == rows((1, at("1")), (2, at("5")))
        # 07:00 is late, 09:00 is not; up to 09:30
        assert not epoch((4, "a", at("10:30")), (5, "a", at("7")), (6, "a", at("9")))
        assert late(running, "clicks") == 1
        assert running.content("open") == rows(
            (at("0"), "a", 3), (at("0"), "b", 1), (at("10"), "a", 1)
        )
        running.resume()
        # up to 11:00: the first window is over
        assert epoch((8, "a", at("12"))) == rows(*first)
        running.resume()
        # a row for the window that is over, and one that closes the second: up to 24:00
        assert epoch((9, "b", at("5")), (10, "c", at("25"))) == rows(*first, *second)
        assert late(running, "clicks") == 2
        assert epoch((11, "c", at("25:30"))) == rows(*first, *second)
        assert epoch((12, None, None)) == rows(*first, *second), "a row without a time waits"
        assert late(running, "clicks") == 2
        assert running.rows("SELECT * FROM closed") == rows(*first, *second)
        passed = [(1, "1"), (2, "5"), (3, "9"), (4, "10:30"), (6, "9"), (8, "12")]
        assert running.content("passed") == rows(*[(i, at(x)) for i, x in passed])
        sunk = lake_table(running.home, "out.closed").scan().to_arrow().to_pylist()
        assert bag(r.values() for r in sunk) == rows(
            *[(start + timedelta(minutes=10), who, n) for start, who, n, _ in (*first, *second)]
        )
        assert operations(running.home, "public.closed") == {"append"}
        assert operations(running.home, "out.closed") == {"append"}
        (state,) = hidden(running.home, "closed")
        kept = lake_table(running.home, state).scan().to_arrow()
        assert set(kept["window_start"].to_pylist()) == {at("20"), None}, "only what is open"
        assert running.content("people") == rows((at("0"), 2), (at("10"), 1))
        assert running.content("over_open") == rows((at("0"), 4), (at("10"), 2))
        for state in hidden(running.home, "people"):
            kept = lake_table(running.home, state).scan().to_arrow()
            assert set(kept["window_start"].to_pylist()) <= {at("20"), None}, state
        assert len(hidden(running.home, "people")) > 1
        if kind == "TABLE":
            ids = lake_table(running.home, "public.clicks").scan().to_arrow()["id"].to_pylist()
            assert sorted(ids) == [1, 2, 3, 4, 6, 8, 10, 11, 12], "late rows are not in the table"


def test_the_slower_of_two_watermarks_counts(spark: SparkSession, tmp_path: Path) -> None:
    left = Feed(tmp_path, "left", ("id", "who", "at"), keyed=False)
    right = Feed(tmp_path, "right", ("id", "who", "at"), keyed=False)
    with Running(tmp_path / "home", spark) as running:
        running.execute(f"""
          CREATE SOURCE clicks {CLICKS} {left.clause};
          CREATE SOURCE views {CLICKS} {right.clause};
          CREATE MATERIALIZED VIEW both_sides AS SELECT window_start, count(*) AS n
            FROM TUMBLE((SELECT who, at FROM clicks UNION ALL SELECT who, at FROM views), at, INTERVAL '10 minutes')
            GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
        """)
        left.write(new((1, "a", at("1")), (2, "a", at("30"))))
        running.epoch()
        assert not running.content("both_sides"), "of the other one nothing is known"
        right.write(new((3, "a", at("2"))))
        running.epoch()
        assert not running.content("both_sides")
        right.write(new((4, "a", at("12"))))
        running.epoch()
        assert running.content("both_sides") == rows((at("0"), 2))


# -- the clock ---------------------------------------------------------------------------------------


def test_rows_leave_and_come_as_time_passes(
    spark: SparkSession, tmp_path: Path, clock: Clock
) -> None:
    table = Feed(tmp_path, "events", ("id", "at"), keyed=True)
    source = Feed(tmp_path, "plain", ("id", "at"), keyed=False)
    with Running(tmp_path / "home", spark) as running:
        running.execute(f"""
          CREATE TABLE events (id INT PRIMARY KEY, at TIMESTAMPTZ) {table.clause};
          CREATE SOURCE plain (id INT, at TIMESTAMPTZ) {source.clause};
          CREATE MATERIALIZED VIEW recent AS SELECT id FROM events WHERE at > now() - INTERVAL '1 hour';
          CREATE MATERIALIZED VIEW recent_n AS SELECT count(*) AS n FROM recent;
          CREATE MATERIALIZED VIEW due AS SELECT id FROM events WHERE at <= now();
          CREATE MATERIALIZED VIEW plain_recent AS SELECT id FROM plain WHERE at > now() - INTERVAL '1 hour';
        """)

        def epoch(**span: float) -> tuple[list[Any], ...]:
            clock.passes(**span)
            running.epoch()
            (n,) = [int(r[0]) for r in running.content("recent_n")]
            views = [running.content(v) for v in ("recent", "due", "plain_recent")]
            assert sum(views[0].values()) == n
            return tuple(sorted(int(r[0]) for r in view.elements()) for view in views)

        zoned = [(i, NOON.replace(tzinfo=UTC) + timedelta(minutes=m)) for i, m in ((1, -50), (2, 0), (3, 30))]  # fmt: skip
        table.write(new(*zoned))
        source.write(new(*zoned))
        assert epoch() == ([1, 2, 3], [1, 2], [1, 2, 3])
        assert epoch(minutes=10, seconds=1) == ([2, 3], [1, 2], [2, 3])
        running.resume()
        assert epoch(minutes=25) == ([2, 3], [1, 2, 3], [2, 3])
        table.write(gone(zoned[1]))
        assert epoch(minutes=1) == ([3], [1, 3], [2, 3])
        assert epoch(hours=1) == ([], [1, 3], [])
        before = running.engine.pipeline.record.objects
        assert epoch(seconds=5) == ([], [1, 3], [])
        after = running.engine.pipeline.record.objects
        assert {k: o.snapshot for k, o in after.items()} == {
            k: o.snapshot for k, o in before.items()
        }, "a look at the clock alone writes nothing"


# -- joins as of the time of processing ---------------------------------------------------------------

AS_OF = "FOR SYSTEM_TIME AS OF PROCTIME()"


def test_what_was_looked_up_stays(spark: SparkSession, tmp_path: Path) -> None:
    users = Feed(tmp_path, "users", ("id", "country"), keyed=True)
    visits = Feed(tmp_path, "visits", ("id", "who"), keyed=False)
    with Running(tmp_path / "home", spark) as running:
        running.execute(f"""
          CREATE TABLE users (id INT PRIMARY KEY, country VARCHAR) {users.clause};
          CREATE SOURCE visits (id INT, who INT) {visits.clause};
          CREATE MATERIALIZED VIEW found AS
            SELECT v.id, u.country FROM visits v LEFT JOIN users {AS_OF} AS u ON v.who = u.id;
          CREATE MATERIALIZED VIEW known AS
            SELECT v.id, u.country FROM visits v JOIN users {AS_OF} AS u ON v.who = u.id AND u.country <> 'x';
          CREATE MATERIALIZED VIEW by_country AS SELECT country, count(*) AS n FROM found GROUP BY country;
        """)
        users.write(new((1, "de"), (2, "x")))
        visits.write(new((1, 1), (2, 2), (3, 3)))
        running.epoch()
        first = [(1, "de"), (2, "x"), (3, None)]
        assert running.content("found") == rows(*first)
        assert running.content("known") == rows((1, "de"))
        users.write([((1, "de"), (1, "at")), ((2, "x"), None), (None, (3, "fr"))])
        running.epoch()
        assert running.content("found") == rows(*first), "what was joined stays"
        running.resume()
        visits.write(new((4, 1), (5, 2), (6, 3)))
        users.write([((3, "fr"), (3, "it"))])
        running.epoch()
        second = [(4, "at"), (5, None), (6, "it")]
        assert running.content("found") == rows(*first, *second)
        assert running.content("known") == rows((1, "de"), (4, "at"), (6, "it"))
        assert running.content("by_country") == rows(
            ("de", 1), ("x", 1), ("at", 1), ("it", 1), (None, 2)
        )
        assert operations(running.home, "public.found") == {"append"}


def test_looking_up_a_table_that_others_write(spark: SparkSession, tmp_path: Path) -> None:
    orders = Feed(tmp_path, "orders", ("id", "currency", "amount"), keyed=False)
    with Running(tmp_path / "home", spark) as running:
        session = running.engine.spark
        Lake(session).create_namespace(("lake", "theirs"))
        session.sql("CREATE TABLE lake.theirs.rates (currency STRING, rate DECIMAL(10,2)) USING iceberg")  # fmt: skip

        def overwrite(values: str) -> None:
            session.sql(f"INSERT OVERWRITE lake.theirs.rates VALUES {values}")

        overwrite("('usd', 1.10), ('gbp', 0.90)")
        running.execute(f"""
          CREATE SOURCE orders (id INT, currency VARCHAR, amount NUMERIC(10, 2)) {orders.clause};
          CREATE SOURCE rates (currency VARCHAR, rate NUMERIC(10, 2)) WITH (
            connector = 'iceberg', database.name = 'theirs', table.name = 'rates');
          CREATE MATERIALIZED VIEW priced AS SELECT o.id, o.amount * r.rate AS euros
            FROM orders o LEFT JOIN rates {AS_OF} AS r ON o.currency = r.currency;
          CREATE MATERIALIZED VIEW total AS SELECT sum(euros) AS euros FROM priced;
        """)
        orders.write(new((1, "usd", 10), (2, "gbp", 10), (3, "yen", 10)))
        running.epoch()
        first = [(1, 11), (2, 9), (3, None)]
        assert running.content("priced") == rows(*first)
        overwrite("('usd', 2.00), ('yen', 0.50)")
        running.epoch()
        assert running.content("priced") == rows(*first)
        orders.write(new((4, "usd", 10), (5, "gbp", 10)))
        running.epoch()
        running.resume()
        session = running.engine.spark
        session.sql("DELETE FROM lake.theirs.rates WHERE currency = 'usd'")
        orders.write(new((6, "yen", 10), (7, "usd", 1)))
        running.epoch()
        second = [(4, 20), (5, None), (6, 5), (7, None)]
        assert running.content("priced") == rows(*first, *second)
        assert running.content("total") == rows((45,))


# -- ASOF and interval joins, sessions -----------------------------------------------------------------

TIMED = {
    "nearest": "SELECT t.id, q.price FROM trades t ASOF LEFT JOIN quotes q ON t.who = q.who AND t.at >= q.at",
    "in_an_hour": """SELECT t.id, q.id AS quote, q.price FROM trades t JOIN quotes q
      ON t.who = q.who AND q.at BETWEEN t.at AND t.at + INTERVAL '1 hour'""",
    "session_rows": """SELECT id, who, first_value(at) OVER s AS began, count(*) OVER s AS n FROM trades
      WINDOW s AS (PARTITION BY who ORDER BY at SESSION WITH GAP INTERVAL '5 minutes')""",
    "session_totals": """SELECT who, window_start, window_end, count(*) AS n
      FROM SESSION(trades PARTITION BY who, at, INTERVAL '5 minutes') GROUP BY who, window_start, window_end""",
    "plain_sessions": """SELECT who, window_start, count(*) AS n
      FROM SESSION(plain PARTITION BY who, at, INTERVAL '5 minutes') GROUP BY who, window_start, window_end""",
    "plain_nearest": "SELECT p.id, q.price FROM plain p ASOF LEFT JOIN quotes q ON p.who = q.who AND p.at >= q.at",
    "plain_pairs": """SELECT a.id, b.id AS other FROM plain a JOIN plain b
      ON a.who = b.who AND a.id <> b.id AND b.at BETWEEN a.at AND a.at + INTERVAL '3 minutes'""",
}  # fmt: skip


def test_joins_and_sessions_by_time_follow_every_change(
    spark: SparkSession, tmp_path: Path
) -> None:
    trades = Feed(tmp_path, "trades", ("id", "who", "at"), keyed=True)
    quotes = Feed(tmp_path, "quotes", ("id", "who", "at", "price"), keyed=True)
    plain = Feed(tmp_path, "plain", ("id", "who", "at"), keyed=False)
    t1, t2, t3 = (1, "a", at("1")), (2, "a", at("4")), (3, "a", at("12"))
    q1, q2, q3 = (1, "a", at("0"), 10), (2, "a", at("3"), 11), (3, "b", at("50"), 12)
    epochs: Sequence[tuple[Iterable[Event], Iterable[Event], Iterable[Event]]] = [
        (new(t1, t2, t3, (4, "b", at("7"))), new(q1), new(t1, t2)),
        (
            [*new((5, None, at("1")), (6, "a", None)), (t3, (3, "a", at("8:30")))],
            [*new(q2, q3), *gone(q1)],
            new((7, "a", at("8:30")), t3, (8, "b", at("5")), (9, None, None)),
        ),
        (
            [(t2, (2, "b", at("8"))), *gone(t1, (6, "a", None))],
            [(q2, (2, "a", at("20"), 13)), *gone(q3)],
            new((10, "a", at("0"))),
        ),
    ]
    with Running(tmp_path / "home", spark) as running:
        running.execute(
            f"CREATE TABLE trades (id INT PRIMARY KEY, who VARCHAR, at TIMESTAMP) {trades.clause};"
            f"CREATE TABLE quotes (id INT PRIMARY KEY, who VARCHAR, at TIMESTAMP, price INT) {quotes.clause};"
            f"CREATE SOURCE plain (id INT, who VARCHAR, at TIMESTAMP) {plain.clause};"
            + create(TIMED)
        )
        for number, (of_trades, of_quotes, of_plain) in enumerate(epochs):
            trades.write(list(of_trades))
            quotes.write(list(of_quotes))
            plain.write(list(of_plain))
            running.epoch()
            check_law(running, TIMED, number)
            if number == 1:
                running.resume()
