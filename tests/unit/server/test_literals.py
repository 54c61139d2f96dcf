"""Statements of a text, and parameters in it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from icestream.errors import SqlError
from icestream.plan.query import Relation, bind_query
from icestream.server.literals import filled, literal, marked, parameters, statements, types
from icestream.sql import parse
from icestream.sql.statements import Select
from icestream.types import BIGINT, INTEGER, NUMERIC, VARCHAR, array


def test_statements_keep_their_places() -> None:
    sql = "select 1;\n -- a; comment\n; select 'a;b' /* ; */ ; ;select $$;$$"
    found = statements(sql)
    assert [s.strip() for s in found] == ["select 1", "select 'a;b' /* ; */", "select $$;$$"]
    for each in found:
        at, end = len(each) - len(each.lstrip()), len(each.rstrip())
        assert sql[at:end] == each[at:end]
        assert [len(line) for line in each.split("\n")] == [
            len(line) for line in sql.split("\n")[: each.count("\n") + 1]
        ]


def test_parameters_are_not_looked_for_in_texts() -> None:
    sql = "select $1, '$2', \"$3\", $tag$ $4 $tag$ /* $5 */ -- $6\n, $2"
    assert parameters(sql) == 2
    assert filled(sql, ["it's", None]).startswith("select 'it''s', '$2', \"$3\"")
    assert filled(sql, [1, 2]).endswith(", 2")
    with pytest.raises(SqlError, match=r"no parameter \$2"):
        filled(sql, [1])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (-5, "(-5)"),
        (1.5, "CAST('1.5' AS DOUBLE PRECISION)"),
        (Decimal("1.50"), "CAST('1.50' AS NUMERIC)"),
        (b"\x01\xff", r"CAST('\x01ff' AS BYTEA)"),
        (dt.date(2026, 1, 2), "CAST('2026-01-02' AS DATE)"),
        (dt.datetime(2026, 1, 2, 3, 4), "CAST('2026-01-02 03:04:00' AS TIMESTAMP)"),
        ([1, None], "ARRAY[1, NULL]"),
    ],
)
def test_values_as_sql_writes_them(value: object, text: str) -> None:
    assert literal(value) == text


def test_a_place_asks_for_a_type() -> None:
    columns = (("id", INTEGER), ("many", array(INTEGER)), ("texts", array(VARCHAR)), ("n", NUMERIC))
    sql = (
        "SELECT id FROM wide WHERE id = ANY($1) AND many = $2 AND texts = $3 AND n > $4 AND id < $5"
    )
    given = (None, None, None, None, BIGINT)
    (select,) = parse(marked(sql, given), "", {})
    assert isinstance(select, Select)
    node = bind_query(select.query, lambda name: Relation("wide", "wide", columns))
    found = types(sql, given, node)
    assert found == (array(INTEGER), array(INTEGER), array(VARCHAR), NUMERIC, BIGINT)
