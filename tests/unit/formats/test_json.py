"""FORMAT PLAIN ENCODE JSON: what is accepted, and that the vectorised way never says anything else."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from icestream import types as t
from icestream.connectors.formats import Decoded, FieldSpec, blocks, check_not_null, values
from icestream.connectors.formats.json import Careful, JsonDecoder

UTC = dt.UTC


def decode(type: t.Type, *payloads: str | bytes | None, mode: str = values.GUESS) -> Decoded:
    decoder = JsonDecoder((FieldSpec("a", type),), mode)
    raw = [p.encode() if isinstance(p, str) else p for p in payloads]
    return decoder.decode(pa.array(raw, pa.binary()))


def one(type: t.Type, payload: str | bytes | None, mode: str = values.GUESS) -> Any:
    decoded = decode(type, payload, mode=mode)
    assert decoded.errors is None, decoded.errors
    return decoded.columns[0][0].as_py()


def reason(type: t.Type, payload: str | bytes | None, mode: str = values.GUESS) -> str:
    decoded = decode(type, payload, mode=mode)
    assert decoded.errors is not None, decoded.columns
    assert decoded.columns[0].null_count == 1
    return str(decoded.errors[0].as_py())


POINT = t.struct(("x", t.INTEGER), ("y", t.struct(("z", t.VARCHAR))))

ACCEPTED = [
    (t.BOOLEAN, '{"a": true}', True),
    (t.SMALLINT, '{"a": -32768}', -32768),
    (t.INTEGER, '{"a": 12}', 12),
    (t.INTEGER, '{"a": "12"}', 12),
    (t.INTEGER, '{"a": 12.0}', 12),
    (t.INTEGER, '{"a": 1.2e1}', 12),
    (t.INTEGER, '{"a": null}', None),
    (t.INTEGER, "{}", None),
    (t.INTEGER, ' \t{"a": 1}\r\n', 1),
    (t.INTEGER, '{"A": 1}', 1),
    (t.INTEGER, '{"A": 1, "a": 2}', 2),
    (t.INTEGER, '{"a": null, "A": 2}', None),
    (t.INTEGER, '{"a": 1, "a": 2}', 2),
    (t.INTEGER, '{"\\u0061": 1}', 1),
    (t.INTEGER, '{"b": {"a": 5}, "a": 1, "c": ["a", {}]}', 1),
    (t.BIGINT, '{"a": 9223372036854775807}', 2**63 - 1),
    (t.REAL, '{"a": 0.1}', pytest.approx(0.1)),
    (t.DOUBLE, '{"a": 0.1}', 0.1),
    (t.DOUBLE, '{"a": "-Infinity"}', float("-inf")),
    (t.DOUBLE, '{"a": 12345678901234567890}', 1.2345678901234567e19),
    (t.VARCHAR, '{"a": "grün \\ud83d\\ude00 \\u0000"}', "grün 😀 \x00"),
    (t.VARCHAR, '{"a": 1.10}', "1.10"),
    (t.VARCHAR, '{"a": false}', "false"),
    (t.VARCHAR, '{"a": ""}', ""),
    (t.numeric(38, 18), '{"a": 12345678901234567890.123456789012345678}',
     Decimal("12345678901234567890.123456789012345678")),
    (t.numeric(38, 0), f'{{"a": {10**38 - 1}}}', Decimal(10**38 - 1)),
    (t.numeric(10, 2), '{"a": "1.005"}', Decimal("1.01")),
    (t.numeric(10, 2), '{"a": -1.005}', Decimal("-1.01")),
    (t.numeric(4, 2), '{"a": 1e-300}', Decimal("0.00")),
    (t.BYTEA, '{"a": "\\\\x00ff"}', b"\x00\xff"),
    (t.BYTEA, '{"a": "é"}', "é".encode()),
    (t.DATE, '{"a": "2024-02-29"}', dt.date(2024, 2, 29)),
    (t.DATE, '{"a": 19782}', dt.date(2024, 2, 29)),
    (t.TIME, '{"a": "12:34:56.5"}', 45_296_500_000),
    (t.TIMESTAMP, '{"a": "2024-02-29T12:00:00"}', dt.datetime(2024, 2, 29, 12)),
    (t.TIMESTAMP, '{"a": "2024-02-29 12:00:00.123456789"}',
     dt.datetime(2024, 2, 29, 12, 0, 0, 123457)),
    (t.TIMESTAMP, '{"a": "2024-02-29 12:00:00.1234565"}',
     dt.datetime(2024, 2, 29, 12, 0, 0, 123456)),
    (t.TIMESTAMP, '{"a": "2024-02-29 12:00:00.1234575"}',
     dt.datetime(2024, 2, 29, 12, 0, 0, 123458)),
    (t.TIMESTAMP, '{"a": "2024-02-29T23:59:59.99999951"}', dt.datetime(2024, 3, 1)),
    (t.TIMESTAMP, '{"a": "2024-02-29T23:59:59.9999994"}',
     dt.datetime(2024, 2, 29, 23, 59, 59, 999999)),
    (t.TIMESTAMP, '{"a": "1969-12-31T23:59:59.9999999"}', dt.datetime(1970, 1, 1)),
    (t.TIMESTAMPTZ, '{"a": "2024-02-29T23:59:59.9999999+02:00"}',
     dt.datetime(2024, 2, 29, 22, tzinfo=UTC)),
    (t.TIMESTAMPTZ, '{"a": "20240229T235959,9999999-0200"}', dt.datetime(2024, 3, 1, 2, tzinfo=UTC)),
    (t.TIMESTAMPTZ, '{"a": "2024-02-29T12:00:00+01:00:00.0000019"}',
     dt.datetime(2024, 2, 29, 10, 59, 59, 999999, tzinfo=UTC)),
    (t.TIME, '{"a": "12:34:56.1234567"}', 45_296_123_457),
    (t.TIME, '{"a": "23:59:59.9999999"}', 86_400_000_000),
    (t.TIMESTAMP, f'{{"a": "2024-02-29T12:00:00.{"0" * 400}1"}}', dt.datetime(2024, 2, 29, 12)),
    (t.TIMESTAMPTZ, '{"a": "2024-02-29T12:00:00+02:00"}', dt.datetime(2024, 2, 29, 10, tzinfo=UTC)),
    (t.TIMESTAMPTZ, '{"a": "2024-02-29T12:00:00Z"}', dt.datetime(2024, 2, 29, 12, tzinfo=UTC)),
    (t.TIMESTAMPTZ, '{"a": "2024-02-29"}', dt.datetime(2024, 2, 29, tzinfo=UTC)),
    *[
        (t.TIMESTAMPTZ, f'{{"a": {number}}}', dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC))
        for number in (1700000000, 1700000000_000, 1700000000_000000, 1700000000_000000000)
    ],
    (t.TIMESTAMPTZ, '{"a": 1700000000.25}',
     dt.datetime(2023, 11, 14, 22, 13, 20, 250000, tzinfo=UTC)),
    (t.TIMESTAMPTZ, '{"a": 1700000000000.5}',
     dt.datetime(2023, 11, 14, 22, 13, 20, 500, tzinfo=UTC)),
    (t.TIMESTAMPTZ, '{"a": -1}', dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
    (t.JSONB, '{"a": {"bb": 1.50, "a": [null, true, "x"]}}',
     '{"a": [null, true, "x"], "bb": 1.5}'),
    (t.JSONB, '{"a": 1e3}', "1000"),
    (t.JSONB, '{"a": null}', None),
    (t.array(t.INTEGER), '{"a": [1, null, 3]}', [1, None, 3]),
    (t.array(t.array(t.VARCHAR)), '{"a": [["x"], null, []]}', [["x"], None, []]),
    (t.array(t.DATE), '{"a": ["2024-01-01"]}', [dt.date(2024, 1, 1)]),
    (POINT, '{"a": {"x": 1, "y": {"z": "q", "more": 1}}}', {"x": 1, "y": {"z": "q"}}),
    (POINT, '{"a": {"X": 1, "Y": {"Z": "q"}}}', {"x": 1, "y": {"z": "q"}}),
    (POINT, '{"a": {}}', {"x": None, "y": None}),
    (t.array(POINT), '{"a": [{"x": 1}, null]}', [{"x": 1, "y": None}, None]),
    (t.map_of(t.VARCHAR, t.INTEGER), '{"a": {"k": 1, "l": null}}', [("k", 1), ("l", None)]),
]  # fmt: skip

REFUSED = [
    (t.INTEGER, "", "invalid JSON: Expecting value"),
    (t.INTEGER, "{", "invalid JSON"),
    (t.INTEGER, '{"a": 1', "invalid JSON"),
    (t.INTEGER, '{"a": 1}{"a": 2}', "invalid JSON: Extra data"),
    (t.INTEGER, '{"a": 1}\n{"a": 2}', "invalid JSON: Extra data"),
    (t.INTEGER, "null", "not a JSON object"),
    (t.INTEGER, "[1]", "not a JSON object"),
    (t.INTEGER, '"a"', "not a JSON object"),
    (t.INTEGER, None, "NULL"),
    (t.INTEGER, b'{"a": "\xff"}', "not UTF-8"),
    (t.VARCHAR, '{"a": "\\ud800"}', "surrogate"),
    (t.VARCHAR, '{"a": "\\uDC00 x"}', "surrogate"),
    (t.INTEGER, '{"\\uD800": 1}', "surrogate"),
    (t.VARCHAR, '{"a": "two\nlines"}', "invalid JSON"),
    (t.INTEGER, '{"a": 1.5}', "a: 1.5 is not a valid integer"),
    (t.INTEGER, '{"a": true}', "not a valid integer"),
    (t.INTEGER, '{"a": "1_000"}', "not a valid integer"),
    (t.INTEGER, '{"a": 2147483648}', "out of range for integer"),
    (t.INTEGER, '{"a": 1e999999999}', "out of range for integer"),
    (t.INTEGER, f'{{"a": {"9" * 5000}}}', "4300"),
    (t.INTEGER, f'{{"a": 1, "b": {"9" * 5000}}}', "4300"),
    (t.DOUBLE, '{"a": NaN}', "NaN is not a number"),
    (t.DOUBLE, '{"b": -Infinity}', "-Infinity is not a number"),
    (t.DOUBLE, '{"a": 1e400}', "out of range"),
    (t.DOUBLE, '{"a": 1e99999999999999999999}', "out of range"),
    (t.BOOLEAN, '{"k": [5e-99999999999999999999]}', "out of range"),
    (t.BOOLEAN, '{"k": 5E+999999999999999999999, "a": true}', "out of range"),
    (t.REAL, '{"a": 3.4028235677973366e38}', "out of range"),
    (t.BOOLEAN, '{"a": 1}', "not a valid boolean"),
    (t.VARCHAR, '{"a": {"b": 1}}', "not a valid varchar"),
    (t.numeric(4, 2), '{"a": 99.995}', "out of range"),
    (t.numeric(4, 2), '{"a": 1e999999999}', "out of range"),
    (t.NUMERIC, '{"a": "NaN"}', "not a valid numeric"),
    (t.DATE, '{"a": "2023-02-29"}', "not a valid date"),
    (t.DATE, '{"a": "0000-01-01"}', "not a valid date"),
    (t.DATE, '{"a": 99999999999}', "out of range"),
    (t.TIME, '{"a": "25:00"}', "not a valid time"),
    (t.TIMESTAMPTZ, '{"a": "soon"}', "not a valid timestamptz"),
    (t.TIMESTAMPTZ, '{"a": "0001-01-01T00:00:00+10:00"}', "out of range"),
    (t.TIMESTAMPTZ, '{"a": "9999-12-31T23:59:59-10:00"}', "out of range"),
    (t.TIMESTAMP, '{"a": "9999-12-31T23:59:59.9999999"}', "out of range"),
    (t.TIMESTAMP, '{"a": "2024-02-30T00:00:00.1234567"}', "'2024-02-30T00:00:00.1234567' is not"),
    (t.TIMESTAMP, '{"a": 99999999999999999999}', "out of range"),
    (t.TIMESTAMP, '{"a": 1e999999999}', "out of range"),
    (t.JSONB, '{"a": 1e999999999}', "out of range for jsonb"),
    (t.BYTEA, '{"a": "\\\\xzz"}', "not a valid bytea"),
    (t.array(t.INTEGER), '{"a": [1, "x"]}', "'x' is not a valid integer"),
    (t.array(t.INTEGER), '{"a": {}}', "not an array"),
    (POINT, '{"a": {"x": "q"}}', "a: x: 'q' is not a valid integer"),
    (POINT, '{"a": 1}', "not an object"),
    (t.INTERVAL, '{"a": "1 day"}', "interval"),
    (t.INTEGER, '{"a": 1, "b": ' + "[" * 5000 + "]" * 5000 + "}", "nested too deeply"),
    (t.JSONB, '{"a": ' + '{"a": ' * 300 + "1" + "}" * 301, "nested too deeply"),
]  # fmt: skip


def _name(case: object) -> str:
    return str(case)[:40]


@pytest.mark.parametrize(("type", "payload", "expected"), ACCEPTED, ids=_name)
def test_accepted(type: t.Type, payload: str, expected: Any) -> None:
    """Alone, and in the middle of a batch that goes the fast way."""
    assert one(type, payload) == expected
    many = decode(type, *(["{}"] * 40), payload, *(["{}"] * 40))
    assert many.errors is None
    assert many.columns[0][40].as_py() == expected


@pytest.mark.parametrize(("type", "payload", "expected"), REFUSED, ids=_name)
def test_refused(type: t.Type, payload: str | bytes | None, expected: str) -> None:
    assert expected in reason(type, payload)
    many = decode(type, *(["{}"] * 40), payload, *(["{}"] * 40))
    assert many.errors is not None
    assert [i for i, e in enumerate(many.errors) if e.is_valid] == [40]


@pytest.mark.parametrize(
    ("mode", "value", "expected"),
    [
        ("micro", "1700000000000000", dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
        ("micro", "1", dt.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
        ("milli", "1", dt.datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)),
        ("milli", "1.5", dt.datetime(1970, 1, 1, 0, 0, 0, 1500, tzinfo=UTC)),
        ("milli", '"1970-01-01T00:00:01Z"', dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ("utc_string", '"1970-01-01T01:00:00+01:00"', dt.datetime(1970, 1, 1, tzinfo=UTC)),
        ("utc_without_suffix", '"1970-01-01 00:00:00"', dt.datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
def test_timestamptz_handling_mode(mode: str, value: str, expected: dt.datetime) -> None:
    payload = f'{{"a": {value}}}'
    assert one(t.TIMESTAMPTZ, payload, mode) == expected
    many = decode(t.TIMESTAMPTZ, *[payload] * 40, mode=mode)
    assert many.columns[0].to_pylist() == [expected] * 40


def test_timestamptz_handling_mode_refuses_numbers() -> None:
    assert "not a valid timestamptz" in reason(t.TIMESTAMPTZ, '{"a": 1}', "utc_string")
    assert "out of range" in reason(t.TIMESTAMPTZ, f'{{"a": {10**18}}}', "milli")


def test_not_null() -> None:
    fields = (FieldSpec("a", t.INTEGER, not_null=True), FieldSpec("b", t.INTEGER, not_null=True))
    decoded = JsonDecoder(fields).decode(
        pa.array([b'{"a": 1, "b": 2}', b'{"b": 2}', b'{"a": 1, "b": null}', b"nonsense"])
    )
    assert decoded.errors is not None
    good, first, second, bad = decoded.errors.to_pylist()
    assert good is None
    assert first == "column a is NULL but declared NOT NULL"
    assert second == "column b is NULL but declared NOT NULL"
    assert bad.startswith("invalid JSON")


def test_two_megabytes_among_small_records() -> None:
    large = json.dumps({"a": "x" * 2_000_000})
    decoded = decode(t.VARCHAR, *['{"a": "s"}'] * 100, large, *['{"a": "s"}'] * 100)
    assert decoded.errors is None
    assert len(decoded.columns[0][100].as_py()) == 2_000_000


def test_no_payload_and_no_column() -> None:
    assert len(decode(t.INTEGER).columns[0]) == 0
    decoded = JsonDecoder(()).decode(pa.array([b"{}", b"["] * 20))
    assert decoded.columns == []
    assert decoded.errors is not None
    assert decoded.errors.null_count == 20


# -- the two ways agree ----------------------------------------------------------------------------

FIELDS = (
    FieldSpec("i", t.INTEGER),
    FieldSpec("l", t.BIGINT),
    FieldSpec("d", t.DOUBLE),
    FieldSpec("r", t.REAL),
    FieldSpec("n", t.numeric(12, 3)),
    FieldSpec("s", t.VARCHAR),
    FieldSpec("b", t.BOOLEAN),
    FieldSpec("ts", t.TIMESTAMPTZ),
    FieldSpec("tl", t.TIMESTAMP),
    FieldSpec("dt", t.DATE),
    FieldSpec("tm", t.TIME),
    FieldSpec("ar", t.array(t.BIGINT)),
    FieldSpec("st", t.struct(("x", t.INTEGER), ("Y", t.VARCHAR), ("at", t.TIMESTAMP))),
)

numbers = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.integers(-5, 5).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(
        [
            "0",
            "-0",
            "-0.0",
            "1e5",
            "1E+2",
            "1e400",
            "1e-400",
            "0.0000000000000000001",
            "123456789.1235",
            "999999999.9995",
            "01",
            "1.",
            ".5",
            "-",
            "+1",
            "NaN",
            "Infinity",
            "-Infinity",
            "Inf",
            "0x1",
            "1700000000",
            "1700000000000",
            "3.4028235677973366e38",
        ]
    ),
)
clock = st.from_regex(
    r"(0000|0001|1969|2024|9999)-(01|02|12|13)-(01|29|31)"
    r"([T ](00|23|24)(:(00|59|60)(:(00|59|60)([.]([0-9]{1,9}|9{6,8}|[0-9]{6}50?))?)?)?"
    r"(Z|[+]02:00|-10:00|[+]0230|[+]25:00)?)?",
    fullmatch=True,
)
texts = st.one_of(
    clock,
    st.sampled_from(["12", " 12 ", "1_0", "NaN", "Info", "x, Inf", "true", "", "12:30", "25:00"]),
    st.text(max_size=5),
).map(lambda s: json.dumps(s, ensure_ascii=False))
escaped = st.sampled_from(
    ['"\\ud800"', '"\\uDC00"', '"\\ud83d\\ude00"', '"\\u0041"', '"\\x"', '"\n"']
)
scalars = st.one_of(numbers, texts, escaped, st.sampled_from(["null", "true", "false", "nul", ""]))
keys = st.sampled_from(
    [f.name for f in FIELDS]
    + ["I", "S", "TS", "x", "X", "Y", "y", "at", "AT", "\\u0069", "\\u0049"]
)


def _array(items: list[str]) -> str:
    return "[" + ",".join(items) + "]"


def _object(items: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f'"{k}":{v}' for k, v in items) + "}"


documents = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(_array),
        st.lists(st.tuples(keys, inner), max_size=4).map(_object),
    ),
    max_leaves=6,
)
by_type: dict[str, st.SearchStrategy[str]] = {
    "i": st.integers(-(2**31), 2**31).map(str),
    "l": st.integers(-(2**63), 2**63).map(str),
    "d": numbers,
    "r": numbers,
    "n": st.decimals(-(10**9), 10**9, places=5, allow_nan=False).map(str),
    "s": texts,
    "b": st.sampled_from(["true", "false"]),
    "ts": st.one_of(clock.map(json.dumps), st.integers(0, 2 * 10**12).map(str)),
    "tl": clock.map(json.dumps),
    "dt": st.dates().map(lambda d: json.dumps(d.isoformat())),
    "tm": st.times().map(lambda d: json.dumps(d.isoformat())),
    "ar": st.lists(st.integers(-9, 9).map(str), max_size=3).map(_array),
    "st": st.lists(st.tuples(st.sampled_from(["x", "Y", "y", "at"]), scalars), max_size=3).map(
        _object
    ),
}
fitting = st.sampled_from(sorted(by_type)).flatmap(
    lambda key: st.tuples(st.just(key), st.one_of(by_type[key], st.just("null")))
)
likely = st.lists(fitting, max_size=6, unique_by=lambda kv: kv[0]).map(_object)
framing = st.sampled_from(
    ["{}", "{}", "{}", " {}\n", "{}{{}}", "{}null{{}}", "{}\nnull\n{{}}", "[{}]", "{},", "\ufeff{}"]
)
records = st.one_of(
    likely,
    likely,
    st.lists(st.tuples(keys, documents), max_size=5).map(_object),
    documents,
    st.tuples(framing, likely).map(lambda p: p[0].format(p[1])),
).map(str.encode)
payloads = st.lists(
    st.one_of(records, records, records, st.binary(max_size=6), st.none()), max_size=30
)


def canonical(decoded: Decoded) -> list[Any]:
    """Rows by position, with what Python cannot tell apart by == made plain."""
    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in decoded.columns]
    rows = list(zip(*[c.to_pylist() for c in columns], strict=True))
    bad = decoded.errors.to_pylist() if decoded.errors is not None else [None] * len(rows)
    return [
        str(e) if e is not None else repr(r).replace("-0.0", "0.0")
        for r, e in zip(rows, bad, strict=True)
    ]


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(payloads, st.sampled_from([1, 3, 8]), st.sampled_from([values.GUESS, "milli", "utc_string"]))
@example([b'{"A":1,"s":"i"}', b'{"I":1,"s":"i"}'] * 9, 8, values.GUESS)
@example([b'{"I":1}', b'{"I":1,"i":2}'] * 9, 8, values.GUESS)
@example([b'{"st":{"X":1}}', b'{"st":{"x":1}}'] * 9, 8, values.GUESS)
@example(
    [b'{"ts":"2024-01-01T23:59:59.9999999Z"}', b'{"ts":"2024-01-01T23:59:59.1Z"}'] * 9,
    8,
    values.GUESS,
)
@example(
    [b'{"tl":"9999-12-31T23:59:59.9999999"}', b'{"st":{"at":"2024-01-01T00:00:00.1234567"}}'] * 9,
    8,
    values.GUESS,
)
@example([b'{"tm":"23:59:59.9999999"}', b'{"tm":"23:59:59.1"}'] * 9, 8, values.GUESS)
@example([b'{"ts":"0000-01-01"}', b'{"st":{"at":"0000-01-01"}}'] * 9, 8, values.GUESS)
def test_both_ways_agree(some: list[bytes | None], small: int, mode: str) -> None:
    batch = pa.array(some, pa.binary())
    slow = check_not_null(FIELDS, blocks.one_by_one(batch, FIELDS, Careful(FIELDS, mode).record))
    before, blocks.SMALL = blocks.SMALL, small
    try:
        fast = JsonDecoder(FIELDS, mode).decode(batch)
    finally:
        blocks.SMALL = before
    assert canonical(fast) == canonical(slow)


def test_the_fast_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ordinary records, words that look like numbers among them, never go the careful way."""

    def fail(*_: object) -> None:
        raise AssertionError("the careful way was taken")

    monkeypatch.setattr(blocks, "one_by_one", fail)
    fields = (*FIELDS[:9], FieldSpec("msg", t.VARCHAR))
    payload = json.dumps(
        {"i": 1, "l": 2, "d": 0.5, "r": 1.5, "n": 1.2345, "s": "x", "b": True, "msg": "Info, NaNa",
         "ts": "2024-01-01T00:00:00Z", "tl": "2024-01-01T00:00:00", "other": {"k": [None]}}
    )  # fmt: skip
    decoded = JsonDecoder(fields).decode(
        pa.array([payload.encode(), payload.encode() + b"\n"] * 50)
    )
    assert decoded.errors is None
    assert decoded.columns[4][0].as_py() == Decimal("1.235")
