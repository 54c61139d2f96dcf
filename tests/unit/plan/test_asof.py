"""ASOF joins: the nearest row of the right, for every row of the left; and what is refused."""

from __future__ import annotations

import random
import textwrap
from collections.abc import Sequence
from typing import Any

import pytest

from icestream.errors import NotSupportedError, SqlError
from icestream.plan.explain import explain_node
from icestream.plan.spark import render
from tests.unit.plan.tables import bind
from tests.unit.plan.tables import columns as columns_of
from tests.unit.plan.timed import RELATIONS, run

CLICKS = [(1, 0, "a"), (1, 5, "b"), (1, 10, "c"), (2, 5, "d"), (None, 5, "e"), (3, 5, "f")]
PRICES = [(1, 1, 10), (1, 5, 50), (1, 7, 70), (2, 6, 60), (None, 5, 55)]


def joined(
    condition: str, kind: str = "", **tables: Sequence[Sequence[Any]]
) -> list[tuple[Any, ...]]:
    """What each click meets."""
    return run(
        f"SELECT c.what, p.price FROM clicks c ASOF {kind} JOIN prices p ON {condition}",
        **{"clicks": CLICKS, "prices": PRICES, **tables},
    )


def test_it_is_a_plain_join_between_two_windows() -> None:
    plan = bind(
        "SELECT c.what, p.price FROM clicks c ASOF LEFT JOIN prices p ON c.who = p.who AND c.ts >= p.ts",
        RELATIONS,
    )
    assert explain_node(plan) == textwrap.dedent("""\
        Project what, price
          Filter place = 1
            Window row_number() OVER (PARTITION BY who, ts, row ORDER BY ts_2 DESC NULLS LAST, who_2, price) AS place
              Left join on who = who_2 AND ts >= ts_2
                Window row_number() OVER (PARTITION BY who ORDER BY ts, who, what) AS row
                  Scan clicks (who, ts, what)
                Scan prices (who AS who_2, ts AS ts_2, price)""")
    text = render(plan, {"clicks#1": "clicks", "prices#1": "prices"})
    assert text.count("row_number()") == 2
    assert "LEFT OUTER JOIN" in text


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (">=", [("b", 50), ("c", 70)]),
        (">", [("b", 10), ("c", 70)]),
        ("<=", [("a", 10), ("b", 50), ("d", 60)]),
        ("<", [("a", 10), ("b", 70), ("d", 60)]),
    ],
)
def test_the_nearest_row(operator: str, expected: list[tuple[Any, ...]]) -> None:
    assert joined(f"c.who = p.who AND c.ts {operator} p.ts") == expected
    assert joined(f"c.who = p.who AND c.ts {operator} p.ts", "INNER") == expected
    mirrored = operator.translate(str.maketrans("<>", "><"))
    assert joined(f"p.ts {mirrored} c.ts AND p.who = c.who") == expected


def test_a_left_join_keeps_every_row_of_the_left() -> None:
    rows = joined("c.who = p.who AND c.ts >= p.ts", "LEFT")
    assert rows == [("a", None), ("b", 50), ("c", 70), ("d", None), ("e", None), ("f", None)]
    assert joined("c.who = p.who AND c.ts >= p.ts", "LEFT OUTER") == rows


def test_equal_rows_of_the_left_stay_apart() -> None:
    twice = [(1, 5, "x"), (1, 5, "x")]
    assert joined("c.who = p.who AND c.ts >= p.ts", clicks=twice) == [("x", 50), ("x", 50)]
    assert joined("c.who = p.who AND c.ts >= p.ts", "LEFT", clicks=[(9, 5, "x")] * 3) == [("x", None)] * 3  # fmt: skip


def test_ties_are_settled_by_the_columns_of_the_right() -> None:
    prices = [(1, 5, 30), (1, 5, 20), (1, 5, 40)]
    for order in (prices, prices[::-1]):
        assert joined("c.who = p.who AND c.ts >= p.ts", clicks=[(1, 6, "x")], prices=order) == [("x", 20)]  # fmt: skip


def test_without_equal_columns_all_rows_are_one_key() -> None:
    assert joined("c.ts > p.ts", clicks=[(1, 6, "x"), (2, 0, "y")]) == [("x", 50)]


def test_keys_and_times_may_be_expressions() -> None:
    rows = joined(
        "c.who + 1 = p.who AND c.ts + INTERVAL '2 minutes' >= p.ts",
        clicks=[(1, 4, "x"), (0, 0, "y")],
    )
    assert rows == [("x", 60), ("y", 10)]


def test_further_joins_and_filters_stand_around_it() -> None:
    rows = run(
        "SELECT c.what, p.price, q.price FROM clicks c ASOF JOIN prices p ON c.who = p.who AND c.ts >= p.ts "
        "ASOF LEFT JOIN prices q ON c.who = q.who AND c.ts < q.ts WHERE p.price < 60",
        clicks=CLICKS, prices=PRICES,
    )  # fmt: skip
    assert rows == [("b", 50, 70)]


def test_all_columns_are_there_in_order() -> None:
    names = [n for n, _ in columns_of("SELECT * FROM orders o ASOF JOIN customers c ON o.customer = c.id AND o.id > c.level")]  # fmt: skip
    assert names == ["id", "customer", "item", "price", "at", "tags", "id", "name", "level"]


@pytest.mark.parametrize("seed", range(12))
def test_random_rows_against_a_loop(seed: int) -> None:
    draw = random.Random(seed)
    clicks = [(draw.choice([1, 2, None]), draw.randrange(10), str(i % 7)) for i in range(12)]
    prices = [(draw.choice([1, 2, None]), draw.choice([None, *range(10)]), i) for i in range(12)]
    operator = draw.choice(["<", "<=", ">", ">="])
    tests = {
        "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
        ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    }  # fmt: skip
    expected = []
    for who, ts, what in clicks:
        found = [
            p for p in prices
            if who is not None and p[0] == who and p[1] is not None and tests[operator](ts, p[1])
        ]  # fmt: skip
        sign = -1 if ">" in operator else 1
        nearest = min(found, key=lambda p: (sign * (p[1] or 0), p[2]), default=None)
        expected.append((what, nearest[2] if nearest else None))
    rows = joined(f"c.who = p.who AND c.ts {operator} p.ts", "LEFT", clicks=clicks, prices=prices)
    assert rows == sorted(expected, key=lambda row: [(v is None, v) for v in row])


WRONG = [
    ("o ASOF JOIN customers c ON »o.customer = c.id", "an ASOF join needs exactly one inequality, found none", "a.time >= b.time"),
    ("o ASOF JOIN customers c ON o.id > c.id AND »o.customer < c.level", "an ASOF join needs exactly one inequality, found 2", "a.time >= b.time"),
    ("o ASOF JOIN customers c ON o.id > c.id AND »o.id <> c.level", "this condition in an ASOF join", "WHERE"),
    ("o ASOF JOIN customers c ON o.id > c.id AND »c.level > 3", "this condition in an ASOF join", "WHERE"),
    ("o ASOF JOIN customers c ON »o.id > c.id OR o.id = c.level", "this condition in an ASOF join", "WHERE"),
    ("o ASOF JOIN customers c ON »o.id + c.id > c.id", "this condition in an ASOF join", None),
    ("o ASOF RIGHT JOIN »customers c ON o.id > c.id", "ASOF RIGHT JOIN", "ASOF LEFT JOIN"),
    ("o ASOF FULL JOIN »customers c ON o.id > c.id", "ASOF FULL JOIN", "ASOF LEFT JOIN"),
    ("o ASOF JOIN »customers c USING (id)", "an ASOF join needs ON", "a.time >= b.time"),
    ("o ASOF JOIN customers c ON »o.id > (SELECT 1)", "a subquery in the ON of an ASOF join", None),
]  # fmt: skip


@pytest.mark.parametrize(("clause", "message", "remedy"), WRONG)
def test_a_wrong_join_is_refused(clause: str, message: str, remedy: str | None) -> None:
    before, _, after = f"SELECT 1 FROM orders {clause}".partition("»")
    with pytest.raises(SqlError) as caught:
        bind(before + after)
    assert message in caught.value.message
    assert caught.value.place is not None
    assert caught.value.place.column == len(before) + 1, str(caught.value)
    assert remedy is None or remedy in (caught.value.remedy or "")
    assert isinstance(caught.value, NotSupportedError) == message.startswith(
        ("this", "ASOF", "a sub")
    )
