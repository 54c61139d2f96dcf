"""Temporal joins: FOR SYSTEM_TIME AS OF PROCTIME() marks the join and changes nothing else; what is refused."""

from __future__ import annotations

import textwrap

import pytest

from icestream import types as t
from icestream.errors import NotSupportedError, SqlError
from icestream.plan.logical import Join, walk
from icestream.plan.query import Relation
from icestream.plan.spark import render
from tests.unit.plan.tables import bind, shape

NOW = "FOR SYSTEM_TIME AS OF PROCTIME()"
VIEW = Relation("v#9", "v", (("id", t.BIGINT),), bind("SELECT id FROM customers"))


def test_the_join_is_marked_and_explained() -> None:
    assert shape(f"SELECT o.id, c.name FROM orders o JOIN customers {NOW} AS c ON o.customer = c.id") == textwrap.dedent("""\
        Project id, name
          Temporal inner join on customer = id_2
            Scan orders (id, customer)
            Scan customers (id AS id_2, name)""")  # fmt: skip


@pytest.mark.parametrize(
    "clause",
    [
        f"JOIN customers {NOW} c ON o.customer = c.id",
        f"INNER JOIN customers {NOW} AS c ON o.customer = c.id",
        f"LEFT JOIN customers {NOW} AS c ON o.customer = c.id AND c.level > 2",
        "LEFT OUTER JOIN customers FOR SYSTEM_TIME AS OF NOW() AS c ON o.customer = c.id",
        "JOIN customers for system_time as of proctime() AS c USING (id)",
        f"NATURAL JOIN customers {NOW} AS c",
    ],
)
def test_inner_and_left_joins(clause: str) -> None:
    plain = clause.replace(NOW, "").replace("FOR SYSTEM_TIME AS OF NOW()", "").replace("for system_time as of proctime()", "")  # fmt: skip
    plans = [bind(f"SELECT o.item, c.name FROM orders o {c}") for c in (clause, plain)]
    (join,) = (n for n in walk(plans[0]) if isinstance(n, Join))
    assert join.temporal
    assert join.kind == ("left" if "LEFT" in clause else "inner")
    inputs = {"orders#1": "orders", "customers#2": "customers"}
    assert render(plans[0], inputs) == render(plans[1], inputs)
    assert not any(n.temporal for n in walk(plans[1]) if isinstance(n, Join))


def test_several_in_a_row_and_under_a_view() -> None:
    inner = bind(f"SELECT o.id FROM orders o JOIN customers {NOW} c ON o.id = c.id")
    view = Relation("w#9", "w", (("id", t.INTEGER),), inner)
    plan = bind(
        f"SELECT w.id FROM w JOIN customers {NOW} c ON w.id = c.id LEFT JOIN orders {NOW} o ON o.id = w.id",
        {"w": view},
    )
    assert [n.temporal for n in walk(plan) if isinstance(n, Join)] == [True, True, True]


WRONG = [
    (f"SELECT 1 FROM »orders {NOW}", SqlError, "FOR SYSTEM_TIME AS OF PROCTIME() does not belong here", "right of a JOIN"),
    (f"SELECT 1 FROM orders o, »customers {NOW} c", SqlError, "FOR SYSTEM_TIME AS OF PROCTIME() does not belong here", "right of a JOIN"),
    (f"SELECT 1 FROM orders o RIGHT JOIN »customers {NOW} c ON o.id = c.id", SqlError, "a temporal join cannot be a right join", "LEFT JOIN"),
    (f"SELECT 1 FROM orders o FULL JOIN »customers {NOW} c ON o.id = c.id", SqlError, "a temporal join cannot be a full join", "LEFT JOIN"),
    (f"SELECT 1 FROM orders o CROSS JOIN »customers {NOW} c", SqlError, "a temporal join needs ON or USING", None),
    (f"SELECT 1 FROM orders o ASOF JOIN »customers {NOW} c ON o.id > c.id", SqlError, "a join is temporal or ASOF, not both", None),
    (f"SELECT 1 FROM orders o JOIN »v {NOW} ON o.id = v.id", SqlError, '"v" is a query', "a materialized view"),
    (f"WITH x AS (SELECT 1 AS id) SELECT 1 FROM orders o JOIN »x {NOW} ON o.id = x.id", SqlError, '"x" is a query', "a materialized view"),
    (f"SELECT (SELECT 1 FROM orders o JOIN »customers {NOW} c ON o.id = c.id)", NotSupportedError, "a temporal join in a subquery", "FROM"),
    (f"SELECT 1 FROM orders o JOIN customers {NOW} c ON »o.id IN (SELECT 1)", NotSupportedError, "a subquery in the ON of a temporal join", None),
]  # fmt: skip


@pytest.mark.parametrize(("marked", "kind", "message", "remedy"), WRONG)
def test_refused(marked: str, kind: type[SqlError], message: str, remedy: str | None) -> None:
    before, _, after = marked.partition("»")
    with pytest.raises(SqlError) as caught:
        bind(before + after, {"v": VIEW})
    assert message in caught.value.message
    assert type(caught.value) is kind
    assert caught.value.place is not None
    assert caught.value.place.column == len(before) + 1, str(caught.value)
    assert remedy is None or remedy in (caught.value.remedy or "")
