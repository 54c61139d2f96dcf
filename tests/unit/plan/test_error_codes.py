"""A refused query has PostgreSQL's SQLSTATE, and values that are easily misread are right."""

from __future__ import annotations

import pytest

from icestream.errors import NotSupportedError, SqlError
from icestream.functions.expressions import Interval, Literal
from icestream.plan.logical import Project, Window
from icestream.plan.spark import render
from icestream.types import DOUBLE, REAL
from tests.unit.plan.tables import bind

DIGITS = "9" * 5000
SECOND = 1_000_000
CODES = [
    ("SELECT id FROM orders LIMIT -1", "2201W"),
    ("SELECT id FROM orders OFFSET -1", "2201X"),
    (f"SELECT id FROM orders LIMIT {DIGITS}", "22003"),
    ("SELECT id FROM orders LIMIT 9223372036854775808", "22003"),
    ("SELECT id FROM orders ORDER BY 2", "42P10"),
    (f"SELECT id FROM orders ORDER BY {DIGITS}", "42P10"),
    ("SELECT id FROM orders GROUP BY 5", "42P10"),
    ("SELECT id FROM orders ORDER BY (2)", "42P10"),
    ("SELECT id FROM orders UNION SELECT 2 ORDER BY 2", "42P10"),
    ("WITH a AS (SELECT 1), a AS (SELECT 2) SELECT 1", "42712"),
    ("SELECT 1 FROM orders, orders", "42712"),
    ("SELECT sum(id) OVER w FROM orders WINDOW w AS (), w AS (ORDER BY id)", "42P20"),
    ("SELECT sum(id) OVER (w PARTITION BY id) FROM orders WINDOW w AS ()", "42P20"),
    ("SELECT sum(id) OVER (w ORDER BY id) FROM orders WINDOW w AS (ORDER BY id)", "42P20"),
    ("SELECT sum(id) OVER (w ORDER BY id) FROM orders WINDOW w AS (ROWS UNBOUNDED PRECEDING)", "42P20"),
    ("SELECT sum(id) OVER w FROM orders WINDOW w AS (w ORDER BY id)", "42704"),
    ("SELECT sum(DISTINCT id ORDER BY price) FROM orders", "42P10"),
    ("SELECT string_agg(DISTINCT id::text, ',' ORDER BY id) FROM orders", "42P10"),
    (f"SELECT {DIGITS}", "22003"),
    ("SELECT 1e99999999999999999999", "22003"),
    (f"SELECT 1e{DIGITS}", "22003"),
    ("SELECT '1'::float(54)", "22023"),
]  # fmt: skip
MISSING = [
    "SELECT '1.5 s'::interval(0)",
    "SELECT interval(0) '1.5 s'", "SELECT INTERVAL '1.5' SECOND(0)", "SELECT INTERVAL '1-2' YEAR TO MONTH",
]  # fmt: skip


@pytest.mark.parametrize(("text", "code"), CODES, ids=[text[:60] for text, _ in CODES])
def test_codes(text: str, code: str) -> None:
    with pytest.raises(SqlError) as caught:
        bind(text)
    assert caught.value.code == code
    assert caught.value.place is not None


@pytest.mark.parametrize("text", MISSING)
def test_what_is_missing_is_not_skipped(text: str) -> None:
    with pytest.raises(NotSupportedError) as caught:
        bind(text)
    assert caught.value.place is not None
    assert caught.value.place.column > 7


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("INTERVAL '5 days 3' HOUR", Interval(0, 5, 3 * 3600 * SECOND)),
        ("INTERVAL '1 day 2' MINUTE", Interval(0, 1, 120 * SECOND)),
        ("INTERVAL '1 day 02:03:04'", Interval(0, 1, 7384 * SECOND)),
        ("INTERVAL '1.5' DAY", Interval(0, 1, 0)),
        ("INTERVAL '2' WEEKS", Interval(0, 14, 0)),
    ],
)
def test_intervals(text: str, value: Interval) -> None:
    node = bind(f"SELECT {text} AS x")
    assert isinstance(node, Project)
    assert node.items[0].expr == Literal(node.items[0].expr.type, value)


def test_an_interval_takes_in_nothing_that_follows_it() -> None:
    with pytest.raises(SqlError, match=r"interval \+ integer"):
        bind("SELECT INTERVAL '1 day' + 5")


def test_sizes_of_floats() -> None:
    node = bind("SELECT '1'::float(24) AS a, '1'::float(25) AS b, '1'::float AS c")
    assert [column.type for column in node.columns] == [REAL, DOUBLE, DOUBLE]


def test_halves_of_seconds_are_rounded_away_from_the_year_2000() -> None:
    text = render(bind("SELECT at::timestamp(0) AS x FROM orders"), {"orders#1": "t"})
    assert "946684800000000" in text


@pytest.mark.parametrize(
    "text",
    [
        "sum(id) OVER (w ORDER BY price) FROM orders WINDOW w AS (PARTITION BY customer)",
        "sum(id) OVER v FROM orders WINDOW w AS (PARTITION BY customer), v AS (w ORDER BY price)",
    ],
)
def test_a_window_takes_over_what_it_names(text: str) -> None:
    alone = bind("SELECT sum(id) OVER (PARTITION BY customer ORDER BY price) FROM orders")
    assert bind(f"SELECT {text}") == alone
    assert isinstance(alone, Project)
    assert isinstance(alone.input, Window)
