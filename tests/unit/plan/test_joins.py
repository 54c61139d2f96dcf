"""Joins over time and joins of other forms: what they become, and their rows."""

from __future__ import annotations

import textwrap

import pytest

from icestream.plan.explain import explain_node
from tests.unit.plan.tables import bind
from tests.unit.plan.timed import RELATIONS, run

CLICKS = [(1, 0, "a"), (1, 10, "b"), (2, 0, "c"), (None, 0, "d")]
PRICES = [(1, 5, 5), (1, 60, 60), (1, 71, 71), (2, 0, 0), (None, 1, 1)]
BETWEEN = "c.who = p.who AND p.ts BETWEEN c.ts AND c.ts + INTERVAL '1 hour'"


def test_an_interval_join_is_an_inner_join_with_its_bounds() -> None:
    plan = bind(f"SELECT what, price FROM clicks c JOIN prices p ON {BETWEEN}", RELATIONS)
    assert explain_node(plan) == textwrap.dedent("""\
        Project what, price
          Inner join on who = who_2 AND (ts_2 >= ts AND ts_2 <= (ts + INTERVAL '1 hour'))
            Scan clicks (who, ts, what)
            Scan prices (who AS who_2, ts AS ts_2, price)""")


INTERVAL = [("a", 5), ("a", 60), ("b", 60), ("c", 0)]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (f"SELECT what, price FROM clicks c JOIN prices p ON {BETWEEN}", INTERVAL),
        (f"SELECT what, price FROM clicks c, prices p WHERE {BETWEEN}", INTERVAL),
        (f"SELECT what, price FROM clicks c CROSS JOIN prices p WHERE {BETWEEN}", INTERVAL),
        (f"SELECT what, price FROM clicks c LEFT JOIN prices p ON {BETWEEN}", [*INTERVAL, ("d", None)]),
        ("SELECT what, price FROM clicks NATURAL JOIN prices", [("c", 0)]),
        ("SELECT what, price FROM clicks JOIN prices USING (who, ts)", [("c", 0)]),
        ("SELECT who, what, price FROM clicks c JOIN prices p USING (who) WHERE c.ts > p.ts", [(1, "b", 5)]),
        ("SELECT what, price FROM clicks c JOIN prices p ON c.who <> p.who AND c.ts = p.ts", [("a", 0)]),
    ],
)  # fmt: skip
def test_rows(query: str, rows: list[tuple[object, ...]]) -> None:
    assert run(query, clicks=CLICKS, prices=PRICES) == rows


@pytest.mark.parametrize("word", ["", "MATERIALIZED", "NOT MATERIALIZED"])
def test_with_queries_may_say_whether_they_are_materialized(word: str) -> None:
    query = (
        f"WITH x AS {word} (SELECT who, count(*) AS n FROM clicks GROUP BY who), y (k, m) AS {word} (SELECT * FROM x) "
        "SELECT k, m, n FROM y JOIN x ON k = who"
    )
    assert run(query, clicks=CLICKS) == [(1, 2, 2), (2, 1, 1)]
