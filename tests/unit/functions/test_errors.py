"""What cannot be bound: one sentence as PostgreSQL words it, with the place and a suggestion."""

from __future__ import annotations

import pytest

from icestream.errors import NotSupportedError, SqlError
from tests.unit.functions.support import bound


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("i + b", "operator does not exist: integer + boolean"),
        ("s = 1", "operator does not exist: text = integer"),
        ("s + 1", "operator does not exist: text + integer"),
        ("-s", "operator does not exist: - text"),
        ("i IN ('1', b)", "operator does not exist: integer = boolean"),
        ("i AND b", "argument of AND must be type boolean, not type integer"),
        ("NOT i", "argument of NOT must be type boolean, not type integer"),
        ("CASE WHEN i THEN 1 END", "argument of CASE/WHEN must be type boolean, not type integer"),
        ("CASE WHEN b THEN 1 ELSE day END", "CASE types integer and date cannot be matched"),
        ("coalesce(i, day)", "function coalesce(integer, date) does not exist"),
        ("ARRAY[1, b]", "ARRAY types integer and boolean cannot be matched"),
        ("lower(i)", "function lower(integer) does not exist"),
        ("lowr(s)", "function lowr(text) does not exist"),
        ("day + '1 day'", "operator date + unknown is not unique"),
        ("b::date", "cannot cast type boolean to date"),
        ("nope", 'column "nope" does not exist'),
        ("t.nope", 'column "t.nope" does not exist'),
        ("x.i", 'missing FROM-clause entry for table "x"'),
        ("id", 'column reference "id" is ambiguous'),
        ("(st).c", 'column "c" not found in data type record'),
        ("(i).c", "column notation .c applied to type integer, which is not a composite type"),
        ("'soon'::interval", 'invalid input syntax for type interval: "soon"'),
        ("'x'::int[]", 'malformed array literal: "x"'),
        ("sum(sum(i))", "aggregate function calls cannot be nested"),
        ("row_number()", "window function row_number requires an OVER clause"),
        ("upper(s) FILTER (WHERE b)", "FILTER specified, but it is not an aggregate function"),
        ("count(*) OVER w", 'window "w" does not exist'),
        ("(i, l) = (1, 2, 3)", "unequal number of entries in row expressions"),
        ("1 = ANY (i)", "op ANY/ALL (array) requires array on right side"),
    ],
)
def test_message(sql: str, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        bound(sql)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("(SELECT 1)", "a subquery in an expression"),
        ("EXISTS (SELECT 1)", "a subquery in an expression"),
        ("i IN (SELECT 1)", "a subquery in an expression"),
        ("1::bit", "type bit"),
        ("to_char(ts, s)", "to_char with a pattern that is not a constant"),
        ("extract(hour FROM day)", "the field 'hour' of type date"),
        ("sum(i) OVER (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW)", "EXCLUDE CURRENT ROW"),
        ("j @> j", "@> and <@ with a document that is not a constant"),
        ("encode(y, 'escape')", "encode with the format 'escape'"),
    ],
)  # fmt: skip
def test_not_supported(sql: str, what: str) -> None:
    with pytest.raises(NotSupportedError) as caught:
        bound(sql)
    assert caught.value.message == f"not supported yet: {what}"


@pytest.mark.parametrize(
    ("sql", "code", "message"),
    [
        ("s LIKE 'ab' ESCAPE 'xx'", "22025", "invalid escape string"),
        ("s LIKE 'ab\\'", "22025", "LIKE pattern must not end with escape character"),
        ("extract(foo FROM ts)", "22023", 'unit "foo" not recognized for type timestamp'),
        ("extract(foo FROM span)", "22023", 'unit "foo" not recognized for type interval'),
        ("date_trunc('foo', ts)", "22023", 'unit "foo" not recognized for type timestamp'),
        ("date_trunc('foo', span)", "22023", 'unit "foo" not recognized for type interval'),
        ("format('%x', 1)", "22023", 'unrecognized format() type specifier "x"'),
        ("format('%', 1)", "22023", "unterminated format() type specifier"),
        ("format('%s%s', 1)", "22023", "too few arguments for format()"),
        ("encode(y, 'foo')", "22023", 'unrecognized encoding: "foo"'),
        ("decode(s, 'foo')", "22023", 'unrecognized encoding: "foo"'),
        ("ntile(0) OVER (ORDER BY i)", "22014", "argument of ntile must be greater than zero"),
        ("nth_value(i, 0) OVER (ORDER BY i)", "22016", "argument of nth_value must be greater than zero"),
        ("percentile_cont(1.5) WITHIN GROUP (ORDER BY d)", "22003", "percentile value 1.5 is not between 0 and 1"),
        ("percentile_disc(-1) WITHIN GROUP (ORDER BY d)", "22003", "percentile value -1 is not between 0 and 1"),
        ("sum(i) OVER (ORDER BY i ROWS BETWEEN -1 PRECEDING AND CURRENT ROW)", "22013", "frame starting offset must not be negative"),
        ("sum(i) OVER (ORDER BY i ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING)", "42P20", "frame starting from following row cannot have preceding rows"),
        ("sum(i) OVER (ORDER BY i ROWS BETWEEN 1 FOLLOWING AND CURRENT ROW)", "42P20", "frame starting from following row cannot have preceding rows"),
        ("sum(i) OVER (ORDER BY i ROWS BETWEEN CURRENT ROW AND 1 PRECEDING)", "42P20", "frame starting from current row cannot have preceding rows"),
        ("sum(i) OVER (ORDER BY i ROWS BETWEEN UNBOUNDED FOLLOWING AND UNBOUNDED FOLLOWING)", "42P20", "frame start cannot be UNBOUNDED FOLLOWING"),
    ],
)  # fmt: skip
def test_constants_that_are_refused(sql: str, code: str, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        bound(sql)
    assert (caught.value.code, caught.value.message) == (code, message)


def test_place_and_remedy() -> None:
    with pytest.raises(SqlError) as caught:
        bound("i + 1 > pricee")
    assert str(caught.value).splitlines() == [
        'q.sql:1:16: column "pricee" does not exist',
        "  SELECT i + 1 > pricee",
        "                 ^",
        "  hint: did you mean 'price'?",
    ]
