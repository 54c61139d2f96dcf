"""Statements of a text, and parameters in it."""

from __future__ import annotations

import datetime as dt
import time
from decimal import Decimal

import pytest
from sqlglot import exp

from icestream.errors import Place, SqlError
from icestream.interrupts import Interrupt, StatementCancelledError
from icestream.plan.query import Relation, bind_query
from icestream.server.literals import (
    filled,
    literal,
    marked,
    marked_at,
    parameters,
    statements,
    typed,
    types,
)
from icestream.sql import parse
from icestream.sql.statements import Select
from icestream.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    INTERVAL,
    NUMERIC,
    REAL,
    SMALLINT,
    VARCHAR,
    Type,
    array,
)
from tests.tricks import TRICKS


def test_statements_keep_their_places() -> None:
    sql = "select 1;\n -- a; comment\n; select 'a;b' /* ; */ ; ;select\n$$;$$"
    found = statements(sql)
    assert [s.text.strip() for s in found] == [
        "select 1",
        "select 'a;b' /* ; */",
        "select\n$$;$$",
    ]
    lines = sql.split("\n")
    for each in found:
        assert sql[each.start :].startswith(each.said)
        for at, line in enumerate(each.said.split("\n"), start=1):
            place = each.locate(Place("", at, 1, line))
            assert place is not None
            assert lines[place.line - 1][place.column - 1 :].startswith(line)
    assert found[0].locate(Place("", 1, 1, "another text")) is None
    assert found[0].locate(Place("", 2, 1)) is None


def test_many_statements_cost_linear_time() -> None:
    def time_of(count: int) -> float:
        text = ";\n".join(["insert into t values (1, 'a')"] * count)
        begun = time.process_time()
        assert len(statements(text)) == count
        return time.process_time() - begun

    time_of(100)
    assert time_of(8000) < 8 * max(0.05, time_of(2000))


def test_many_parameters_cost_linear_time() -> None:
    count = 60_000
    sql = "insert into t values " + ", ".join(f"(${at + 1})" for at in range(count))
    begun = time.process_time()
    assert parameters(sql) == count
    assert marked(sql, [None] * count).count("$") == count
    assert filled(sql, [1] * count, [SMALLINT] * count).count("smallint") == count
    assert time.process_time() - begun < 10


def test_long_loops_are_cancelled() -> None:
    interrupt = Interrupt()
    interrupt.cancel()
    with interrupt.bound():
        for ask in (lambda: statements("select 1; select 2"), lambda: marked("select $1", [None])):
            with pytest.raises(StatementCancelledError):
                ask()


@pytest.mark.parametrize(
    ("sql", "counts"),
    [
        ("select 1 limit $1", True),
        ("select 1 OFFSET\n  $1", True),
        ("select 1 fetch first $1 rows only", False),
        ("select nolimit $1", False),
        ("select $1", False),
    ],
)
def test_counts_of_rows_are_plain_numbers(sql: str, counts: bool) -> None:
    assert filled(sql, [5], [BIGINT]) == sql.replace("$1", "5" if counts else "CAST('5' AS bigint)")


@pytest.mark.parametrize(
    ("value", "type", "text"),
    [
        (5, SMALLINT, "CAST('5' AS smallint)"),
        (-5, BIGINT, "CAST('-5' AS bigint)"),
        (1.5, REAL, "CAST('1.5' AS real)"),
        (float("nan"), DOUBLE, "CAST('NaN' AS double precision)"),
        (None, INTEGER, "CAST(NULL AS integer)"),
        (True, BOOLEAN, "TRUE"),
        ("it's", VARCHAR, "CAST('it''s' AS varchar)"),
        ([], array(INTEGER), "CAST('{}' AS integer[])"),
        (["a b", None], array(VARCHAR), "CAST('{\"a b\",NULL}' AS varchar[])"),
        ([[1], [2]], array(SMALLINT), "CAST('{{1},{2}}' AS smallint[][])"),
        (dt.timedelta(1), INTERVAL, "CAST('1 day' AS interval)"),
    ],
)
def test_values_keep_their_types(value: object, type: Type, text: str) -> None:
    assert typed(value, type) == text
    (statement,) = parse(f"select {text}", env={})
    assert isinstance(statement, Select)
    node = bind_query(statement.query, lambda name: None)
    nests = isinstance(value, list) and value and isinstance(value[0], list)
    assert node.columns[0].type == (array(type) if nests else type)


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
