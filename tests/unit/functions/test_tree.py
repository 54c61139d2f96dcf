"""The bound tree: what it holds, and the questions the planner asks of it."""

from __future__ import annotations

from icestream import types as t
from icestream.functions import Scope, bind, render
from icestream.functions.expressions import (
    AggregateCall,
    Call,
    Cast,
    ColumnRef,
    Interval,
    Literal,
    Row,
    WindowCall,
    columns_used,
    has_aggregate,
    has_window,
    is_pure,
    is_set_returning,
)
from icestream.functions.registry import REGISTRY
from icestream.sql.dialect import Dialect
from tests.unit.functions.support import bound, rendered


def test_names_fold_as_in_postgresql() -> None:
    assert bound("I") == bound("t.i") == ColumnRef(t.INTEGER, "i", "t")
    assert bound('"Mixed Case"') == ColumnRef(t.INTEGER, "Mixed Case", "t")
    assert bound("u.id") == ColumnRef(t.BIGINT, "id", "u")


def test_unknown_literals_take_the_type_of_their_place() -> None:
    equal = bound("i = '7'")
    assert isinstance(equal, Call)
    assert equal.args[1] == Literal(t.INTEGER, 7)
    assert bound("'2024-02-29'::date") == Literal(t.DATE, "2024-02-29")
    assert bound("INTERVAL '1 year 2 days 03:04:05'") == Literal(
        t.INTERVAL, Interval(12, 2, 11045000000)
    )
    shifted = bound("ts > '2024-02-29T10:00:00'")
    assert isinstance(shifted, Call)
    assert shifted.args[1] == Literal(t.TIMESTAMP, "2024-02-29 10:00:00")


def test_implicit_casts_are_in_the_tree() -> None:
    added = bound("i + l")
    assert isinstance(added, Call)
    assert added.args[0] == Cast(t.BIGINT, ColumnRef(t.INTEGER, "i", "t"), implicit=True)


def test_questions() -> None:
    assert [c.name for c in columns_used(bound("i + l * i"))] == ["i", "l"]
    assert not is_pure(bound("ts < now()"))
    assert is_pure(bound("ts < '2024-01-01'"))
    assert has_aggregate(bound("1 + sum(i)"))
    assert not has_aggregate(bound("sum(i) OVER (ORDER BY l)"))
    assert has_aggregate(bound("rank() OVER (ORDER BY sum(i))"))
    assert has_window(bound("1 + sum(i) OVER (ORDER BY l)"))
    assert is_set_returning(bound("unnest(ia)"))


def test_aggregate_parts() -> None:
    call = bound("string_agg(DISTINCT s, ',' ORDER BY s DESC) FILTER (WHERE b)")
    assert isinstance(call, AggregateCall)
    assert call.distinct
    assert call.filter == ColumnRef(t.BOOLEAN, "b", "t")
    assert call.order_by[0].descending
    assert call.order_by[0].nulls_first
    summed = bound("sum(i)")
    assert isinstance(summed, AggregateCall)
    assert summed.function.accumulator == ("count", "sum")


def test_window_parts() -> None:
    call = bound(
        "sum(i) OVER (PARTITION BY s ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"
    )
    assert isinstance(call, WindowCall)
    assert call.partition_by == (ColumnRef(t.VARCHAR, "s", "t"),)
    assert call.frame is not None
    assert (call.frame.unit, call.frame.start.side, call.frame.end.side) == (
        "ROWS",
        "preceding",
        "current row",
    )


def test_monotone_functions_are_marked() -> None:
    for sql, argument in (
        ("date_trunc('hour', ts)", 1),
        ("ts - interval '5 seconds'", 0),
        ("floor(d)", 0),
    ):
        call = bound(sql)
        assert isinstance(call, Call)
        assert call.function.monotone == argument


def test_subqueries_go_to_the_hook() -> None:
    import sqlglot

    tree = sqlglot.parse_one("i > (SELECT 1)", dialect=Dialect)
    expr = bind(
        tree, Scope.of({"i": t.INTEGER}), lambda n: None, subquery=lambda n: Literal(t.INTEGER, 1)
    )
    assert render(expr) == "(`i` > 1)"


def test_rendering_quotes_and_repeats_nothing() -> None:
    assert rendered('"Mixed Case" + 1') == "try_add(`t`.`Mixed Case`, 1)"
    assert rendered("'it''s ${HOME} \\'") == "'it\\'s \\u0024{HOME} \\\\'"
    assert rendered("left(lower(s || 'x'), 2)").count("lower(") == 1
    assert len(rendered("((((d::text)::float8::text)::float8::text)::float8::text)")) < 20_000
    assert render(bound("now() - interval '1 hour'"), now="TIMESTAMP '2024-01-01'").startswith(
        "try_subtract(TIMESTAMP '2024-01-01', "
    )


def test_row_and_registry() -> None:
    assert isinstance(bound("ROW(1, 's')"), Row)
    assert all(
        f.name == name.removeprefix("over:") for name, rows in REGISTRY.items() for f in rows
    )
