"""Values on the wire: what goes out comes back, and the bytes are PostgreSQL's."""

from __future__ import annotations

import contextlib
import json
import math
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icestream import types as t
from icestream.functions.expressions import Interval
from icestream.functions.far_dates import FarDate, FarTimestamp
from icestream.server.backend import StateError
from icestream.server.parameters import literal_tree
from icestream.server.scalars import BINARY, TEXT
from icestream.server.values import codec, codec_of
from icestream.types import Type

NO_NUL = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
STRINGS = st.text(NO_NUL, max_size=20)
FLOATS = st.floats(allow_nan=False)
MICRO = st.integers(-(2**40), 2**40)
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    t.BOOLEAN: st.booleans(),
    t.SMALLINT: st.integers(-(2**15), 2**15 - 1),
    t.INTEGER: st.integers(-(2**31), 2**31 - 1),
    t.BIGINT: st.integers(-(2**63), 2**63 - 1),
    t.REAL: st.floats(allow_nan=False, width=32),
    t.DOUBLE: FLOATS,
    t.NUMERIC: st.decimals(allow_nan=False, allow_infinity=False, places=10, min_value=-(10**17), max_value=10**17)
    | st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30, places=0),
    t.VARCHAR: STRINGS,
    t.BYTEA: st.binary(max_size=20),
    t.DATE: st.dates(),
    t.TIME: st.times(),
    t.TIMESTAMP: st.datetimes(),
    t.TIMESTAMPTZ: st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9999, 12, 30), timezones=st.just(UTC)),
    t.INTERVAL: st.builds(
        Interval, st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**62), 2**62)
    ),
    t.JSONB: st.recursive(st.none() | st.booleans() | st.integers() | STRINGS, st.lists, max_leaves=5).map(json.dumps),
    Type("uuid"): st.uuids().map(str),
    Type("json"): st.dictionaries(STRINGS, st.integers(), max_size=3).map(json.dumps),
    Type("oid"): st.integers(0, 2**32 - 1),
    Type("name"): STRINGS,
    Type("text"): STRINGS,
}  # fmt: skip


def typed() -> st.SearchStrategy[tuple[Type, Any]]:
    def pair(type: Type) -> st.SearchStrategy[tuple[Type, Any]]:
        return VALUES[type].map(lambda value: (type, value))

    return st.sampled_from(list(VALUES)).flatmap(pair)


def there_and_back(type: Type, value: Any, format: int, zone: Any = UTC) -> Any:
    found = codec(type, zone)
    return found.decode(found.encoder(format)(value), format)


@given(
    typed(),
    st.sampled_from([TEXT, BINARY]),
    st.sampled_from(["UTC", "Asia/Kolkata", "America/New_York"]),
)
def test_a_value_comes_back(pair: tuple[Type, Any], format: int, zone: str) -> None:
    type, value = pair
    assert there_and_back(type, value, format, ZoneInfo(zone)) == value


@given(typed(), st.sampled_from([TEXT, BINARY]))
def test_what_a_client_declares_by_oid(pair: tuple[Type, Any], format: int) -> None:
    type, value = pair
    declared = codec_of(codec(type).oid)
    assert declared.decode(codec(type).encoder(format)(value), format) == value


@given(st.data(), st.sampled_from(list(VALUES)), st.sampled_from([TEXT, BINARY]))
def test_arrays_come_back(data: st.DataObject, type: Type, format: int) -> None:
    values = data.draw(st.lists(st.none() | VALUES[type], max_size=4))
    assert there_and_back(t.array(type), values, format) == values
    rows = data.draw(
        st.lists(st.lists(VALUES[type], min_size=2, max_size=2), min_size=1, max_size=3)
    )
    assert there_and_back(t.array(t.array(type)), rows, format) == rows


@given(st.binary(max_size=40), st.sampled_from([TEXT, BINARY]), st.data())
def test_any_bytes_are_a_value_or_a_clear_error(
    raw: bytes, format: int, data: st.DataObject
) -> None:
    type = data.draw(st.sampled_from(list(VALUES)))
    for one in (type, t.array(type)):
        with contextlib.suppress(StateError):
            codec(one).decode(raw, format)


@given(st.floats())
def test_the_shortest_text_of_a_double(value: float) -> None:
    found = float(codec(t.DOUBLE).text(value))
    assert found == value or (math.isnan(value) and math.isnan(found))


@pytest.mark.parametrize(
    ("type", "value", "text"),
    [
        (t.BOOLEAN, True, "t"),
        (t.DOUBLE, 1e15, "1e+15"),
        (t.DOUBLE, 123456789012345.0, "123456789012345"),
        (t.DOUBLE, 1234567890123456.0, "1.234567890123456e+15"),
        (t.DOUBLE, 1e-5, "1e-05"),
        (t.DOUBLE, 0.0001, "0.0001"),
        (t.DOUBLE, -0.0, "-0"),
        (t.DOUBLE, math.inf, "Infinity"),
        (t.REAL, struct.unpack("!f", struct.pack("!f", 0.1))[0], "0.1"),
        (t.REAL, 1e6, "1e+06"),
        (t.REAL, 123456.0, "123456"),
        (t.REAL, 16777216.0, "1.6777216e+07"),
        (t.REAL, -math.inf, "-Infinity"),
        (t.NUMERIC, Decimal("1E+3"), "1000"),
        (t.NUMERIC, Decimal("-0.50"), "-0.50"),
        (t.NUMERIC, Decimal("NaN"), "NaN"),
        (t.NUMERIC, 7, "7"),
        (t.BYTEA, b"\x00\xff", "\\x00ff"),
        (t.DATE, date(1, 2, 3), "0001-02-03"),
        (t.TIME, 3_600_000_001, "01:00:00.000001"),
        (t.TIME, time(1, 2, 3), "01:02:03"),
        (t.TIMESTAMP, datetime(2026, 11, 16, 1, 2, 3, 500000), "2026-11-16 01:02:03.5"),
        (t.TIMESTAMPTZ, datetime(2026, 11, 16, 1, 2, 3, tzinfo=UTC), "2026-11-16 01:02:03+00"),
        (t.INTERVAL, timedelta(days=-1, seconds=1), "-1 days +00:00:01"),
        (t.INTERVAL, (14, 3, 14_706_789_000), "1 year 2 mons 3 days 04:05:06.789"),
        (t.INTERVAL, {"months": -1, "days": 0, "microseconds": -1}, "-1 mons -00:00:00.000001"),
        (t.INTERVAL, Interval(0, 0, 0), "00:00:00"),
        (t.JSONB, {"a": [1]}, '{"a": [1]}'),
        (t.array(t.VARCHAR), ["a", "b c", "", "NULL", None, 'q"', "\\"], '{a,"b c","","NULL",NULL,"q\\"","\\\\"}'),
        (t.array(t.array(t.INTEGER)), [[1, 2], [3]], "{{1,2},{3}}"),
        (t.struct(("a", t.INTEGER), ("b", t.VARCHAR), ("c", t.DATE)), (1, 'x "y"', None), '(1,"x ""y""",)'),
        (t.struct(("a", t.BOOLEAN), ("b", t.VARCHAR)), {"b": "", "a": True}, '(t,"")'),
        (t.array(t.struct(("a", t.INTEGER), ("b", t.INTEGER))), [(1, 2)], '{"(1,2)"}'),
        (t.map_of(t.VARCHAR, t.INTEGER), {"a": 1, "b c": None}, '{a:1,"b c":NULL}'),
        (Type("int2vector"), [1, 2], "1 2"),
        (Type('"char"'), "r", "r"),
        (Type("regclass"), "t", "t"),
    ],
)  # fmt: skip
def test_texts_are_those_of_postgresql(type: Type, value: Any, text: str) -> None:
    assert codec(type).encoder(TEXT)(value).decode() == text


@pytest.mark.parametrize(
    ("type", "value", "data"),
    [
        (t.NUMERIC, Decimal("12345.678"), "0003000100000003000109291a7c"),
        (t.NUMERIC, Decimal("-0.0001"), "0001ffff400000040001"),
        (t.NUMERIC, Decimal(0), "0000000000000000"),
        (t.NUMERIC, Decimal("10000"), "00010001000000000001"),
        (t.NUMERIC, Decimal("NaN"), "00000000c0000000"),
        (t.DATE, date(2000, 1, 2), "00000001"),
        (t.TIMESTAMP, datetime(2000, 1, 1, 0, 0, 1), "00000000000f4240"),
        (t.INTERVAL, Interval(1, 2, 3), "00000000000000030000000200000001"),
        (t.JSONB, "[]", "015b5d"),
        (t.array(t.INTEGER), [1, None], "000000010000000100000017000000020000000100000004" "00000001ffffffff"),
        (t.array(t.INTEGER), [], "000000000000000000000017"),
        (t.struct(("a", t.SMALLINT), ("b", t.SMALLINT)), (1, None), "0000000200000015000000020001" "00000015ffffffff"),
        (Type("int2vector"), "1 2", "0000000100000000000000150000000200000000000000020001000000020002"),
    ],
)  # fmt: skip
def test_bytes_are_those_of_postgresql(type: Type, value: Any, data: str) -> None:
    assert codec(type).encoder(BINARY)(value).hex() == data


@pytest.mark.parametrize("format", [TEXT, BINARY])
@pytest.mark.parametrize(
    ("type", "text", "value"),
    [
        (t.DATE, "2020-08-11 BC", FarDate(-1_456_730)),
        (t.DATE, "0001-12-31 BC", FarDate(-719_163)),
        (t.DATE, "0001-01-01", date.min),
        (t.DATE, "10000-01-01", FarDate(2_932_897)),
        (t.TIMESTAMP, "0315-08-02 01:39:22.072064 BC", FarTimestamp(-(2**56))),
        (t.TIMESTAMPTZ, "0315-08-02 01:39:22.072064+00 BC", FarTimestamp(-(2**56), zoned=True)),
        (t.TIMESTAMPTZ, "10000-01-01 00:00:00+00", FarTimestamp(253_402_300_800_000_000, zoned=True)),
    ],
)  # fmt: skip
def test_years_that_python_does_not_have(type: Type, text: str, value: Any, format: int) -> None:
    found = codec(type)
    assert found.text(value) == text
    data = text.encode() if format == TEXT else found.encoder(BINARY)(value)
    assert found.decode(data, format) == value
    assert literal_tree(value).this.this == text


def test_a_time_zone() -> None:
    found = codec(t.TIMESTAMPTZ, ZoneInfo("Asia/Kolkata"))
    instant = datetime(2026, 1, 1, tzinfo=UTC)
    assert found.text(instant) == "2026-01-01 05:30:00+05:30"
    assert found.decode(b"2026-01-01 05:30", TEXT) == instant
    assert (
        codec(t.array(t.TIMESTAMPTZ), ZoneInfo("Asia/Kolkata")).text([instant])
        == '{"2026-01-01 05:30:00+05:30"}'
    )


@pytest.mark.parametrize(
    ("oid", "text", "code"),
    [
        (23, b"x", "22P02"), (23, b"2147483648", "22003"), (23, b"1_0", "22P02"), (1700, b"1e999999999", "22003"),
        (16, b"maybe", "22P02"), (1082, b"tomorrow", "22007"), (25, b"\xff", "22021"), (25, b"a\0b", "22021"),
        (3802, b"{", "22P02"), (3802, b"[" * 100_000, "54001"), (1007, b"{1,{2}", "22P02"), (1007, b"{1,,2}", "22P02"), (1007, b"1", "22P02"),
    ],
)  # fmt: skip
def test_wrong_texts(oid: int, text: bytes, code: str) -> None:
    with pytest.raises(StateError) as caught:
        codec_of(oid).decode(text, TEXT)
    assert caught.value.code == code


def test_what_cannot_be_said() -> None:
    with pytest.raises(StateError, match="OID 99999"):
        codec_of(99999)
    with pytest.raises(StateError, match="cannot be sent"):
        codec(Type("moon"))
    with pytest.raises(StateError, match="differ in length"):
        codec(t.array(t.array(t.INTEGER))).binary([[1], [1, 2]])


def test_modifiers() -> None:
    assert codec(t.numeric(10, 2)).modifier == (10 << 16 | 2) + 4
    assert codec(t.NUMERIC).modifier == -1
