"""Statements of a text, and parameters in it."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence
from decimal import Decimal

import pytest
from sqlglot import exp

from icestream.errors import SqlError
from icestream.interrupts import Interrupt, StatementCancelledError
from icestream.plan.query import Relation, bind_query
from icestream.server.parameters import (
    count_parameters,
    fill,
    literal_tree,
    mark,
    marked_at,
    typed_tree,
    types_of,
)
from icestream.sql import parse_client_text
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
    numeric,
)
from tests.tricks import TRICKS


def filled(sql: str, values: Sequence[object], types: Sequence[Type | None] = ()) -> exp.Expression:
    """The tree of a query with values in it."""
    (statement,) = parse_client_text(sql)
    made = fill(statement, values, types)
    assert isinstance(made, Select)
    return made.query.tree


def test_statements_keep_their_places() -> None:
    sql = (
        "select 1;\n -- a; comment\n; select 'a;b' /* ; */ ; ;select\n$$;$$; select E'it\\'s; fine'"
    )
    statements = parse_client_text(sql)
    texts = ["select 1", "select 'a;b'", "select\n$$;$$", "select E'it\\'s; fine'"]
    assert [s.text for s in statements] == texts
    lines = sql.split("\n")
    for each in statements:
        assert lines[each.place.line - 1][each.place.column - 1 :].startswith(
            each.text.split("\n")[0]
        )


@pytest.mark.parametrize("separator", [";\n", ";"])
def test_many_statements_cost_linear_time(separator: str) -> None:
    def time_of(count: int) -> float:
        text = separator.join(["show timezone"] * count)
        begun = time.process_time()
        assert len(parse_client_text(text)) == count
        return time.process_time() - begun

    time_of(100)
    assert time_of(8000) < 8 * max(0.05, time_of(2000))


def test_many_parameters_cost_linear_time() -> None:
    count = 60_000
    sql = "insert into t values " + ", ".join(f"(${at + 1})" for at in range(count))
    begun = time.process_time()
    (statement,) = parse_client_text(sql)
    assert count_parameters(statement) == count
    mark(statement, [None] * count)
    fill(statement, [1] * count, [SMALLINT] * count)
    assert time.process_time() - begun < 15


def test_long_loops_are_cancelled() -> None:
    (statement,) = parse_client_text("select $1")
    interrupt = Interrupt()
    interrupt.cancel()
    with interrupt.bound():
        for ask in (
            lambda: parse_client_text("select 1; select 2"),
            lambda: mark(statement, [None]),
        ):
            with pytest.raises(StatementCancelledError):
                ask()


@pytest.mark.parametrize(
    ("sql", "counts"),
    [
        ("select 1 limit $1", True),
        ("select 1 OFFSET\n  $1", True),
        ("select 1 where 1 = $1 limit 2", False),
        ("select $1", False),
    ],
)
def test_counts_of_rows_are_plain_numbers(sql: str, counts: bool) -> None:
    casts = list(filled(sql, [5], [BIGINT]).find_all(exp.Cast))
    assert bool(casts) != counts


@pytest.mark.parametrize(
    ("value", "type", "text"),
    [
        (5, SMALLINT, "5"),
        (-5, BIGINT, "-5"),
        (1.5, REAL, "1.5"),
        (float("nan"), DOUBLE, "NaN"),
        (None, INTEGER, None),
        ("it's", VARCHAR, "it's"),
        ([], array(INTEGER), "{}"),
        (["a b", None], array(VARCHAR), '{"a b",NULL}'),
        ([[1], [2]], array(SMALLINT), "{{1},{2}}"),
        (Decimal("1.50"), numeric(5, 2), "1.50"),
        (dt.timedelta(1), INTERVAL, "1 day"),
    ],
)
def test_values_keep_their_types(value: object, type: Type, text: str | None) -> None:
    tree = typed_tree(value, type)
    assert isinstance(tree, exp.Cast)
    assert tree.this == (exp.Null() if text is None else exp.Literal.string(text))
    (statement,) = parse_client_text("select $1")
    made = fill(statement, [value], [type])
    assert isinstance(made, Select)
    node = bind_query(made.query, lambda name: None)
    nests = isinstance(value, list) and value and isinstance(value[0], list)
    assert node.columns[0].type == (array(type) if nests else type)


def test_truth_values_need_no_cast() -> None:
    assert typed_tree(True, BOOLEAN) == exp.true()


def test_parameters_are_not_looked_for_in_texts() -> None:
    sql = "select $1, '$2', \"$3\", $tag$ $4 $tag$ /* $5 */ -- $6\n, $2 from t"
    (statement,) = parse_client_text(sql)
    assert count_parameters(statement) == 2
    first, *_, last = filled(sql, ["it's", None]).selects
    assert (first, last) == (exp.Literal.string("it's"), exp.Null())
    with pytest.raises(SqlError, match=r"no parameter \$2"):
        fill(statement, [1])


@pytest.mark.parametrize("sql", ["select $0", "select $1, $00", "select $99999"])
def test_numbers_of_parameters_begin_at_one(sql: str) -> None:
    with pytest.raises(SqlError, match="no parameter") as caught:
        parse_client_text(sql)
    assert caught.value.code == "42P02"


@pytest.mark.parametrize("value", TRICKS)
def test_a_parameter_is_data(value: str) -> None:
    """It comes back as the literal, whatever it looks like, and so does what follows it."""
    sql = "select $1 as a, e'it\\'s $1' as b, \"$1\" from t where c = $2"
    tree = filled(sql, [value, value])
    assert [x.this for x in tree.selects[0].find_all(exp.Literal)] == [value]
    assert [x.this for x in tree.args["where"].find_all(exp.Literal)] == [value]
    assert len(tree.selects) == 3


@pytest.mark.parametrize(
    "sql",
    ["create source s with (a = $1)", "-- x\n/* y */ ALTER TABLE t SET a = $1", "set a = $1"],
)
def test_only_queries_and_changes_take_parameters(sql: str) -> None:
    with pytest.raises(SqlError, match="no parameter") as caught:
        parse_client_text(sql)
    assert caught.value.code == "42P02"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (-5, "(-5)"),
        (1.5, "CAST('1.5' AS DOUBLE PRECISION)"),
        (Decimal("1.50"), "CAST('1.50' AS DECIMAL)"),
        (b"\x01\xff", r"CAST('\x01ff' AS BYTEA)"),
        (dt.date(2026, 1, 2), "CAST('2026-01-02' AS DATE)"),
        (dt.datetime(2026, 1, 2, 3, 4), "CAST('2026-01-02 03:04:00' AS TIMESTAMP)"),
        ([1, None], "ARRAY[1, NULL]"),
    ],
)
def test_values_as_sql_writes_them(value: object, text: str) -> None:
    assert literal_tree(value).sql("risingwave") == text


def test_a_place_asks_for_a_type() -> None:
    columns = (("id", INTEGER), ("many", array(INTEGER)), ("texts", array(VARCHAR)), ("n", NUMERIC))
    sql = (
        "SELECT id FROM wide WHERE id = ANY($1) AND many = $2 AND texts = $3 AND n > $4 AND id < $5"
    )
    given = (None, None, None, None, BIGINT)
    (statement,) = parse_client_text(sql)
    marked = mark(statement, given)
    assert isinstance(marked, Select)
    node = bind_query(marked.query, lambda name: Relation("wide", "wide", columns))
    found = types_of(statement, given, node)
    assert found == (array(INTEGER), array(INTEGER), array(VARCHAR), NUMERIC, BIGINT)


@pytest.mark.parametrize(
    ("sql", "values", "expected"),
    [
        ("select (array[10, 20, 30])[$1]", [2], "select (array[10, 20, 30])[2]"),
        ("select (array[10, 20, 30])[$1 + 1]", [2], "select (array[10, 20, 30])[2 + 1]"),
        ("select (array[10, 20, 30])[$1:$2]", [1, 2], "select (array[10, 20, 30])[1:2]"),
        ("select to_char(now(), $1)", ["YYYY-MM"], "select to_char(now(), 'YYYY-MM')"),
        ("select '{}'::jsonb -> $1", ["a"], "select '{}'::jsonb -> 'a'"),
        ("select date_trunc($1, now())", ["day"], "select date_trunc('day', now())"),
    ],
)
def test_values_mean_what_literals_mean(sql: str, values: list[object], expected: str) -> None:
    (statement,), (plain,) = parse_client_text(sql), parse_client_text(expected)
    made = fill(statement, values)
    assert isinstance(made, Select)
    assert isinstance(plain, Select)
    found, wanted = (bind_query(s.query, lambda name: None) for s in (made, plain))
    assert found == wanted


def test_a_literal_is_no_parameter() -> None:
    """A client's own text cannot stand for a parameter while types are looked for."""
    for text in ("\x01$0", "{\x01$0}", "$1", "{$1}"):
        assert marked_at(text) is None
    (statement,) = parse_client_text("select 1 where 'x' = $1")
    marked = mark(statement, [None])
    assert isinstance(marked, Select)
    found = [marked_at(x.this) for x in marked.query.tree.find_all(exp.Literal)]
    assert found.count(0) == 1
