"""Session windows: which rows are one session, what is asked of it, and what is refused."""

from __future__ import annotations

import textwrap

import pytest

from icestream.errors import NotSupportedError, SqlError
from icestream.plan.spark import render
from tests.unit.plan.tables import bind, columns, shape
from tests.unit.plan.timed import run

OVER = "OVER (PARTITION BY who ORDER BY ts SESSION WITH GAP INTERVAL '5 minutes')"
VIEWS = [
    (1, 0, "a"), (1, 1, "b"), (1, 3, "a"), (1, 10, "c"),
    (2, 5, "c"), (2, 5.5, "d"),
]  # fmt: skip


def test_a_session_is_a_few_plain_windows() -> None:
    sql = (
        "SELECT id, count(*) OVER (PARTITION BY customer ORDER BY at "
        "SESSION WITH GAP INTERVAL '5 minutes') AS n FROM orders"
    )
    assert shape(sql) == textwrap.dedent("""\
        Project id, count AS n
          Window count(*) OVER (PARTITION BY customer, session ORDER BY at ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS count
            Window sum(begins) OVER (PARTITION BY customer ORDER BY at) AS session
              Project id, customer, at, CASE WHEN at < (previous + INTERVAL '5 minutes') THEN 0 ELSE 1 END AS begins
                Window lag(at) OVER (PARTITION BY customer ORDER BY at) AS previous
                  Scan orders (id, customer, at)""")
    text = render(bind(sql), {"orders#1": "orders"})
    assert "SESSION" not in text
    assert text.count(" OVER (") == 3


def test_the_bounds_of_sessions_are_the_times_of_their_first_and_last_row() -> None:
    rows = run(f"SELECT who, ts, first_value(ts) {OVER}, last_value(ts) {OVER} FROM clicks", clicks=VIEWS)  # fmt: skip
    assert rows == [
        (1, 0, 0, 3),
        (1, 1, 0, 3),
        (1, 3, 0, 3),
        (1, 10, 10, 10),
        (2, 5, 5, 5.5),
        (2, 5.5, 5, 5.5),
    ]


def test_any_aggregate_looks_at_the_whole_session() -> None:
    rows = run(
        f"SELECT who, ts, count(*) {OVER}, max(what) {OVER}, count(*) FILTER (WHERE what = 'a') {OVER} FROM clicks",
        clicks=VIEWS,
    )
    assert [r[2:] for r in rows] == [(3, "b", 2)] * 3 + [(1, "c", 0)] + [(2, "d", 0)] * 2


def test_sessions_can_be_grouped_by_their_start() -> None:
    rows = run(
        f"SELECT who, s, count(DISTINCT what) FROM (SELECT *, first_value(ts) {OVER} AS s FROM clicks) GROUP BY who, s",
        clicks=VIEWS,
    )
    assert rows == [(1, 0, 2), (1, 10, 1), (2, 5, 2)]


@pytest.mark.parametrize(("second", "sessions"), [(4.99, 1), (5, 2), (5.01, 2)])
def test_a_row_at_the_gap_begins_a_new_session(second: float, sessions: int) -> None:
    rows = run(
        f"SELECT DISTINCT first_value(ts) {OVER} FROM clicks",
        clicks=[(1, 0, "a"), (1, second, "b")],
    )
    assert len(rows) == sessions


def test_a_session_may_be_longer_than_the_gap() -> None:
    clicks = [(1, 4 * i, "x") for i in range(20)]
    assert set(run(f"SELECT count(*) {OVER} FROM clicks", clicks=clicks)) == {(20,)}


def test_rows_of_equal_times_and_rows_without_one_stay_together() -> None:
    clicks = [(1, 0, "a"), (1, 0, "b"), (1, None, "c"), (1, None, "d"), (None, 0, "e")]
    rows = run(f"SELECT what, count(*) {OVER} FROM clicks", clicks=clicks)
    assert rows == [("a", 2), ("b", 2), ("c", 2), ("d", 2), ("e", 1)]


def test_a_named_window_and_several_gaps_in_one_query() -> None:
    rows = run(
        "SELECT ts, count(*) OVER w, count(*) OVER (ORDER BY ts SESSION WITH GAP '2 minutes') FROM clicks "
        "WINDOW w AS (ORDER BY ts SESSION WITH GAP INTERVAL '5 minutes')",
        clicks=[(1, 0, "a"), (2, 1, "b"), (1, 4, "c"), (1, 20, "d")],
    )
    assert rows == [(0, 3, 2), (1, 3, 2), (4, 3, 1), (20, 1, 1)]


def test_sessions_along_a_number_beside_an_ordinary_window() -> None:
    rows = run(
        "SELECT price, count(*) OVER (ORDER BY price SESSION WITH GAP 10), row_number() OVER (ORDER BY price) FROM prices",
        prices=[(1, 0, 1), (1, 0, 10), (1, 0, 20)],
    )
    assert rows == [(1, 2, 1), (10, 2, 2), (20, 1, 3)]


def test_sessions_over_groups() -> None:
    rows = run(
        "SELECT ts, sum(n) OVER (ORDER BY ts SESSION WITH GAP INTERVAL '5 minutes') "
        "FROM (SELECT ts, count(*) AS n FROM clicks GROUP BY ts)",
        clicks=[(1, 0, "a"), (2, 0, "b"), (1, 4, "c"), (1, 20, "d")],
    )
    assert rows == [(0, 3), (4, 3), (20, 1)]


# -- the table function ---------------------------------------------------------------------------


def test_the_function_gives_bounds_whose_end_the_session_does_not_reach() -> None:
    rows = run(
        "SELECT who, what, window_start, window_end FROM session(clicks PARTITION BY who, ts, INTERVAL '5 minutes')",
        clicks=VIEWS,
    )
    assert rows == [
        (1, "a", 0, 8),
        (1, "a", 0, 8),
        (1, "b", 0, 8),
        (1, "c", 10, 15),
        (2, "c", 5, 10.5),
        (2, "d", 5, 10.5),
    ]


def test_the_function_partitions_by_nothing_or_by_several() -> None:
    clicks = [(1, 0, "a"), (2, 4, "a"), (1, 8, "b")]
    whole = run("SELECT DISTINCT window_start, window_end FROM SESSION(clicks, ts, INTERVAL '5' MINUTE) AS s", clicks=clicks)  # fmt: skip
    assert whole == [(0, 13)]
    parts = run(
        "SELECT s.who, s.window_start FROM session((SELECT * FROM clicks WHERE who > 0) PARTITION BY who, what, ts, '5 min') s",
        clicks=clicks,
    )
    assert parts == [(1, 0), (1, 8), (2, 4)]


def test_the_function_shows_the_columns_of_the_relation_and_the_bounds() -> None:
    names = [n for n, _ in columns("SELECT * FROM session(orders, at, INTERVAL '1 hour')")]
    assert names == ["id", "customer", "item", "price", "at", "tags", "window_start", "window_end"]


def test_dates_become_timestamps() -> None:
    sql = "SELECT window_start, window_end FROM session((SELECT at::date AS d FROM orders) PARTITION BY d, d, INTERVAL '1 day')"
    assert columns(sql) == [
        ("window_start", "timestamp"),
        ("window_end", "timestamp"),
    ]


# -- what is refused ------------------------------------------------------------------------------

WRONG = [
    ("count(*) OVER (PARTITION BY id »SESSION WITH GAP INTERVAL '1 hour')", "expected ORDER BY, found SESSION", None),
    ("count(*) OVER (ORDER BY at SESSION WITH GAP»)", "expected a gap, found )", None),
    ("count(*) OVER (ORDER BY at, id SESSION WITH GAP INTERVAL »'1 hour')", "SESSION requires exactly one ORDER BY column", None),
    ("count(*) OVER (ORDER BY at DESC SESSION WITH GAP INTERVAL »'1 hour')", "SESSION with ORDER BY … DESC", "ascending"),
    ("count(*) OVER (ORDER BY item SESSION WITH GAP »'1')", "a text has no distances to tell sessions apart by", "order by a time"),
    ("count(*) OVER (ORDER BY at SESSION WITH GAP »5)", "the gap along a timestamp without time zone cannot be a integer", "INTERVAL"),
    ("count(*) OVER (ORDER BY id SESSION WITH GAP INTERVAL »'1 hour')", "the gap along a integer cannot be a interval", "a number"),
    ("count(*) OVER (ORDER BY at SESSION WITH GAP INTERVAL »'-1 hour')", "the gap of a session cannot be negative", None),
    ("count(*) OVER (ORDER BY id SESSION WITH GAP »id)", "the gap of a session must be a constant", None),
    ("row_number() OVER (ORDER BY at SESSION WITH GAP INTERVAL »'1 hour')", "row_number looks at the whole partition, not at a session", "PARTITION BY"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message", "remedy"), WRONG)
def test_a_wrong_frame_is_refused(call: str, message: str, remedy: str | None) -> None:
    _refused(f"SELECT {call} FROM orders", message, remedy)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM »session(orders, at)", "session takes a relation, a time column and a gap"),
        ("SELECT * FROM »session(orders, at, '1 hour', '2')", "session takes a relation"),
        ("SELECT * FROM session(orders PARTITION BY id, at»)", "expected a time column and a gap"),
        ("SELECT * FROM session(orders, »price, '1 hour')", "the time of session must be a column"),
        ("SELECT * FROM session(»1, at, '1 hour')", "expected a relation here"),
    ],
)
def test_a_wrong_function_is_refused(sql: str, message: str) -> None:
    _refused(sql, message, None)


def _refused(marked: str, message: str, remedy: str | None) -> None:
    before, _, after = marked.partition("»")
    with pytest.raises(SqlError) as caught:
        bind(before + after)
    assert message in caught.value.message
    assert caught.value.place is not None
    assert caught.value.place.column == len(before) + 1, str(caught.value)
    assert remedy is None or remedy in (caught.value.remedy or "")
    assert isinstance(caught.value, NotSupportedError) == ("DESC" in message)
