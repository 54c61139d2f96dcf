"""Statements of a text, and parameters in it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from sqlglot import exp

from icestream.errors import SqlError
from icestream.plan.query import Relation, bind_query
from icestream.server.literals import (
    filled,
    literal,
    marked,
    marked_at,
    parameters,
    statements,
    types,
)
from icestream.sql import parse
from icestream.sql.statements import Select
from icestream.types import BIGINT, INTEGER, NUMERIC, VARCHAR, array
from tests.tricks import TRICKS


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


@pytest.mark.parametrize("sql", ["select $0", "drop $0view v", "select $1, $00", "select $99999"])
def test_numbers_of_parameters_begin_at_one(sql: str) -> None:
    for ask in (lambda: filled(sql, [1]), lambda: marked(sql, [None]), lambda: parameters(sql)):
        with pytest.raises(SqlError, match="no parameter") as caught:
            ask()
        assert caught.value.code == "42P02"


@pytest.mark.parametrize("value", TRICKS)
def test_a_parameter_is_data(value: str) -> None:
    """It comes back as the literal, whatever it looks like, and so does what follows it."""
    text = filled("select $1 as a, e'it\\'s $1' as b, \"$1\" from t where c = $2", [value, value])
    (statement,) = parse(text, env={})
    assert isinstance(statement, Select)
    tree = statement.query.tree
    assert [x.this for x in tree.selects[0].find_all(exp.Literal)] == [value]
    assert [x.this for x in tree.args["where"].find_all(exp.Literal)] == [value]
    assert len(tree.selects) == 3


@pytest.mark.parametrize(
    "sql",
    ["create source s with (a = $1)", "-- x\n/* y */ ALTER TABLE t SET a = $1", "set a = $1"],
)
def test_only_queries_and_changes_take_parameters(sql: str) -> None:
    for ask in (lambda: filled(sql, ["${HOME}"]), lambda: marked(sql, [None])):
        with pytest.raises(SqlError, match="no parameter") as caught:
            ask()
        assert caught.value.code == "42P02"


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


def test_a_literal_is_no_parameter() -> None:
    """A client's own text cannot stand for a parameter while types are looked for."""
    for text in ("\x01$0", "{\x01$0}", "$1", "{$1}"):
        assert marked_at(text) is None
    (statement,) = parse(marked("select 1 where 'x' = $1", [None]), env={})
    assert isinstance(statement, Select)
    found = [marked_at(x.this) for x in statement.query.tree.find_all(exp.Literal)]
    assert found.count(0) == 1
