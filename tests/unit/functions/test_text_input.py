"""Text constants of every type: values, errors with their SQLSTATE, and what binding makes of them."""

from __future__ import annotations

import math
import time
from decimal import Decimal
from typing import Any

import pytest

from icestream import types as t
from icestream.errors import SqlError
from icestream.functions.datetime_input import (
    date_text,
    days_of,
    is_common,
    micros_of,
    timestamp_text,
)
from icestream.functions.duckdb import NotTranslatableError
from icestream.functions.duckdb import literal as duckdb_literal
from icestream.functions.expressions import Interval, Literal
from icestream.functions.input_errors import TextInputError
from icestream.functions.text_input import parse_array, parse_text
from icestream.types import Type
from tests.unit.functions.support import bound, rendered

HOUR = 3_600_000_000
VALUES: list[tuple[Type, str, Any]] = [
    (t.BOOLEAN, " TR ", True), (t.BOOLEAN, "of", False), (t.SMALLINT, "-32768", -32768), (t.BIGINT, "\t7\n", 7),
    (t.NUMERIC, "1e3", Decimal("1000.0000000000")), (t.numeric(4, 2), "0.005", Decimal("0.01")),
    (t.NUMERIC, f"{'9' * 28}.{'9' * 10}", Decimal(f"{'9' * 28}.{'9' * 10}")),
    (t.numeric(38, 4), f"-{'9' * 34}.9999", Decimal(f"-{'9' * 34}.9999")),
    (t.numeric(4, 2), "-0.005", Decimal("-0.01")), (t.REAL, "16777217", 16777216.0),
    (t.REAL, "1.00000005960464477540", 1.0000001192092896), (t.DOUBLE, "-inf", -math.inf), (t.DOUBLE, "0x1p3", 8.0),
    (t.DATE, "2020-08-11 BC", "-2019-08-11"), (t.DATE, "J2451187", "1999-01-08"), (t.DATE, "jan 8, 99", "1999-01-08"),
    (t.DATE, "1/8/1999", "1999-01-08"), (t.DATE, "20240229", "2024-02-29"), (t.DATE, "5874897-12-31", "5874897-12-31"),
    (t.DATE, "epoch", "1970-01-01"), (t.DATE, "0001-01-01 BC", "0000-01-01"),
    (t.TIME, "04:05 PM", 16 * HOUR + 300_000_000), (t.TIME, "24:00:00", 24 * HOUR), (t.TIME, "040506+02", 14_706_000_000),
    (t.TIMESTAMP, "2024-01-01 00:00:00.1234567", "2024-01-01 00:00:00.123457"),
    (t.TIMESTAMP, "2024-12-31 23:59:60", "2025-01-01 00:00:00"), (t.TIMESTAMP, "20240101T101112", "2024-01-01 10:11:12"),
    (t.TIMESTAMPTZ, "2024-01-01 00:00 Europe/Berlin", "2023-12-31 23:00:00"),
    (t.TIMESTAMPTZ, "2024-07-01 00:00 PDT", "2024-07-01 07:00:00"), (t.TIMESTAMPTZ, "2024-01-01T00:00Z", "2024-01-01 00:00:00"),
    (t.TIMESTAMPTZ, "2024-10-27 02:30 Europe/Berlin", "2024-10-27 01:30:00"),
    (t.INTERVAL, "1-2 3:4", Interval(14, 0, 3 * HOUR + 240_000_000)), (t.INTERVAL, "1-2 3 4:05", Interval(14, 3, 14_700_000_000)),
    (t.INTERVAL, "1.5 months", Interval(1, 15, 0)), (t.INTERVAL, "P1Y2M3DT4H5M6.5S", Interval(14, 3, 14_706_500_000)),
    (t.INTERVAL, "P0001-02-03T04:05:06", Interval(14, 3, 14_706_000_000)), (t.INTERVAL, "1 day ago", Interval(0, -1, 0)),
    (t.INTERVAL, "-1 day +02:00", Interval(0, -1, 2 * HOUR)), (t.BYTEA, "\\xDE ad", b"\xde\xad"), (t.BYTEA, "a\\\\\\101", b"a\\A"),
    (t.JSONB, ' {"b":[1,2.50],"a":1,"a":"\\u00fc"} ', '{"a": "ü", "b": [1, 2.5]}'), (t.JSONB, "1e3", "1000"),
    (t.JSONB, "1" * 50, "1" * 50),
]  # fmt: skip
ERRORS: list[tuple[Type, str, str, str]] = [
    (t.BOOLEAN, "o", "22P02", 'invalid input syntax for type boolean: "o"'),
    (t.INTEGER, "1.5", "22P02", 'invalid input syntax for type integer: "1.5"'),
    (t.INTEGER, "1_000", "22P02", 'invalid input syntax for type integer: "1_000"'),
    (t.INTEGER, "2147483648", "22003", 'value "2147483648" is out of range for type integer'),
    (t.numeric(4, 2), "99.995", "22003", "numeric field overflow"),
    (t.NUMERIC, "NaN", "22003", '"NaN" is out of range for type numeric'),
    (t.REAL, "1e39", "22003", '"1e39" is out of range for type real'),
    (t.DOUBLE, "1e-400", "22003", '"1e-400" is out of range for type double precision'),
    (t.DATE, "2026-13-45", "22008", 'date/time field value out of range: "2026-13-45"'),
    (t.DATE, "x", "22007", 'invalid input syntax for type date: "x"'),
    (t.TIME, "25:00", "22008", 'date/time field value out of range: "25:00"'),
    (t.TIMESTAMP, "2024-01-01 00:00+16", "22009", 'time zone displacement out of range: "2024-01-01 00:00+16"'),
    (t.TIMESTAMP, "2024-01-01 00:00 Mars/Base", "22023", 'time zone "mars/base" not recognized'),
    (t.TIMESTAMP, "294276-01-01", "22008", 'timestamp out of range: "294276-01-01"'),
    (t.INTERVAL, "soon", "22007", 'invalid input syntax for type interval: "soon"'),
    (t.INTERVAL, "1-12", "22015", 'interval field value out of range: "1-12"'),
    (t.BYTEA, "\\xzz", "22023", 'invalid hexadecimal digit: "z"'),
    (t.BYTEA, "\\xabc", "22023", "invalid hexadecimal data: odd number of digits"),
    (t.JSONB, '{"a":}', "22P02", "invalid input syntax for type json"),
    (t.JSONB, '"\\u0000"', "22P05", "unsupported Unicode escape sequence"),
]  # fmt: skip


@pytest.mark.parametrize(("type", "text", "value"), VALUES)
def test_values(type: Type, text: str, value: Any) -> None:
    assert parse_text(text, type) == value


@pytest.mark.parametrize(("type", "text", "code", "message"), ERRORS)
def test_errors(type: Type, text: str, code: str, message: str) -> None:
    with pytest.raises(TextInputError) as caught:
        parse_text(text, type)
    assert (caught.value.code, caught.value.message) == (code, message)


@pytest.mark.parametrize("text", ["now", "today", "tomorrow", "yesterday", "infinity", "-infinity"])
def test_what_cannot_be_a_constant_says_what_to_write(text: str) -> None:
    for type in (t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ):
        with pytest.raises(TextInputError) as caught:
            parse_text(text, type)
        assert caught.value.remedy


def test_the_zone_of_the_session() -> None:
    assert parse_text("2024-07-01", t.TIMESTAMPTZ, "America/New_York") == "2024-07-01 04:00:00"


def test_arrays() -> None:
    texts, nested = t.array(t.VARCHAR), t.array(t.array(t.INTEGER))
    assert parse_array('{a, "b,c" ,NULL,"NULL",\\ d}', texts) == ["a", "b,c", None, "NULL", " d"]
    assert parse_array(" {} ", texts) == []
    assert parse_array("{{1,2},{},{NULL}}", nested) == [[1, 2], [], [None]]
    for text, code in (
        ("{1,}", "22P02"),
        ("1", "22P02"),
        ("{x}", "22P02"),
        ("[0:1]={1,2}", "0A000"),
    ):
        with pytest.raises(TextInputError) as caught:
            parse_array(text, t.array(t.INTEGER))
        assert caught.value.code == code, text


def test_days_and_microseconds_go_both_ways() -> None:
    for days in (-2_440_588, -719_528, -719_529, -1, 0, 59, 11_016, 2_932_896, 2_145_042_905):
        assert days_of(date_text(days)) == days
    for micros in (-210_866_803_200_000_000, -1, 0, 1, 2**63 - 1):
        assert micros_of(timestamp_text(micros)) == micros
    assert is_common("9999-12-31")
    assert not any(map(is_common, ("0000-01-01", "-0001-01-01", "10000-01-01")))


def test_duckdb_has_no_year_beyond_four_digits() -> None:
    assert duckdb_literal(Literal(t.TIME, 5)) == "CAST('5' AS BIGINT)"
    for value in ("-0043-03-15", "12345-01-01"):
        with pytest.raises(NotTranslatableError):
            duckdb_literal(Literal(t.DATE, value))


def test_literals_of_spark() -> None:
    assert rendered("day = '0044-03-15 BC'") == "(`t`.`day` = DATE '-0043-03-15')"
    assert rendered("tm = '24:00'") == "(`t`.`tm` = 86400000000L)"
    assert rendered("ia = '{1,NULL}'") == "(`t`.`ia` = array(1, CAST(NULL AS INT)))"


def test_a_numeric_is_compared_with_all_digits() -> None:
    assert "1.555" in rendered("price = '1.555'")
    assert "1.56" in rendered("'1.555'::numeric(10,2)")
    assert "1.555" in rendered("coalesce(price, '1.555')")


def test_units_of_intervals() -> None:
    for sql, value in (
        ("interval '1.5 day'", Interval(0, 1, 12 * HOUR)),
        ("interval '1.5' day", Interval(0, 1, 0)),
        ("interval '90' minute", Interval(0, 0, 90 * 60_000_000)),
        ("interval '-1.5' hour", Interval(0, 0, -HOUR)),
    ):
        assert bound(sql) == Literal(t.INTERVAL, value), sql


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("day = '2026-13-45'", "22008"), ("'x'::integer", "22P02"), ("i IN ('1', 'x')", "22P02"), ("coalesce(i, '')", "22P02"),
        ("interval '1 foo'", "22007"), ("'{1,x}'::int[]", "22P02"), ("ts > 'now'", "22007"), ("y = '\\xzz'", "22023"),
    ],
)  # fmt: skip
def test_a_wrong_literal_is_an_error_with_a_place(sql: str, code: str) -> None:
    with pytest.raises(SqlError) as caught:
        bound(sql)
    assert caught.value.code == code
    assert caught.value.place is not None


def test_a_long_bytea_takes_linear_time() -> None:
    began = time.process_time()
    assert parse_text("\\x" + "ab " * 100_000, t.BYTEA) == b"\xab" * 100_000
    assert time.process_time() - began < 5
