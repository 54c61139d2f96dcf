"""FORMAT DEBEZIUM ENCODE JSON: what events do, every encoding of a value, and that the vectorised way says nothing else."""

from __future__ import annotations

import base64
import datetime as dt
import json
import pickle
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icestream import types as t
from icestream.connectors.formats import FieldSpec, blocks, registry
from icestream.connectors.formats.debezium import PLACEHOLDER, DebeziumDecoder, Unavailable
from icestream.lake.fold import OFFSET, OP, PARTITION, STREAM, UNSET
from icestream.sql.options import Setting, Settings
from tests.unit.formats.changes import reasons, run, same, told

UTC = dt.UTC
ID = FieldSpec("id", t.INTEGER, not_null=True, key=True)
NAME = FieldSpec("name", t.VARCHAR)
FIELDS = (ID, NAME)
MANY = 20


class Slow(DebeziumDecoder):
    def fast(self) -> blocks.Fast | None:
        return None


def event(op: str, before: Any = None, after: Any = None, **more: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op, "ts_ms": 1700000000000, **more}


def wrap(payload: Any, **columns: Any) -> dict[str, Any]:
    """The event with its schema part; `columns` are the schemas of the row's fields."""
    row = {"type": "struct", "fields": [{"field": n, **s} for n, s in columns.items()]}
    both = [{**row, "field": "before"}, {**row, "field": "after"}]
    return {"schema": {"type": "struct", "fields": both}, "payload": payload}


PLAIN = {"id": {"type": "int32"}, "name": {"type": "string"}}


# -- what events do ----------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("decoder", [DebeziumDecoder(FIELDS), Slow(FIELDS)])
def test_events(decoder: DebeziumDecoder, wrapped: bool) -> None:
    row = {"id": 1, "name": "a"}
    events: list[Any] = [
        event("r", None, row),
        event("c", None, row),
        event("u", None, {"id": 1, "name": None}),
        event("u", row, {"id": 1, "name": "b"}),
        event("u", row, {"id": 2, "name": "c"}),
        event("d", {"id": 2, "name": "c"}, None),
        event("d", {"id": 3, "name": None}, None),
        event("d", None, None),
        event("d", {"name": "x"}, None),
        event("t"),
        event("m", message={"prefix": "p", "content": "AA=="}),
    ]
    records = [({"id": 9}, wrap(e, **PLAIN) if wrapped else e) for e in events]
    changes = run(decoder, [*records, ({"id": 8}, None), (None, None)])
    assert reasons(changes) == {}
    assert told(changes) == [
        (0, 1, 1, "a"),
        (1, 1, 1, "a"),
        (2, 1, 1, None),
        (3, 1, 1, "b"),
        (4, -1, 1, None),
        (4, 1, 2, "c"),
        (5, -1, 2, None),
        (6, -1, 3, None),
        (7, -1, 9, None),
        (8, -1, 9, None),
        (9, 0, None, None),
        (11, -1, 8, None),
    ]


def test_whole_batches_go_the_fast_way() -> None:
    """Inserts, updates, deletes and tombstones, with the schema part and without."""
    row = {"id": 1, "name": "a"}
    some = [event("c", None, row), event("u", row, row), event("d", row, None), None]
    for wrapped in (False, True):
        records = [({"id": 1}, e and (wrap(e, **PLAIN) if wrapped else e)) for e in some * 10]
        fast = DebeziumDecoder(FIELDS).fast()
        assert fast is not None
        payloads = [json.dumps(v).encode() for _, v in records if v]
        assert fast(pa.array(payloads, pa.binary())) is not None
        same(run(DebeziumDecoder(FIELDS), records), run(Slow(FIELDS), records))


ASIDE = [
    {"ts_ms": 1},
    {"source": {}, "ts_ms": 1, "databaseName": "d", "ddl": "DROP TABLE t", "tableChanges": []},
    {"status": "BEGIN", "id": "571", "ts_ms": 1, "event_count": None},
]


@pytest.mark.parametrize("payload", [*ASIDE, wrap(None)], ids=str)
def test_skipped(payload: Any) -> None:
    assert told(run(DebeziumDecoder(FIELDS, ignore_key=True), [(None, payload)])) == []


REFUSED = [
    (b"{", "invalid JSON: "),
    (b"\xff", "the payload is not UTF-8"),
    ([1], "the payload is not a JSON object"),
    ({"id": 1, "name": "unwrapped"}, "the payload has no op: it is not a Debezium envelope"),
    (event("x"), "'x' is not an op of Debezium"),
    ({"op": 1}, "1 is not an op of Debezium"),
    (event("c"), "op c without the row after it"),
    (event("u", None, [1]), "op u without the row after it"),
    (event("c", None, {"id": "x"}), "id: 'x' is not a valid integer"),
    (event("u", {"id": "x"}, {"id": 1}), "id: 'x' is not a valid integer"),
    (event("c", None, {"name": "x"}), "column id is NULL but part of the primary key"),
    (event("d"), "the record has no key, which tells the row"),
    (event("d", {"name": "x"}), "the record has no key, which tells the row"),
]


@pytest.mark.parametrize(("payload", "reason"), REFUSED, ids=str)
def test_refused(payload: Any, reason: str) -> None:
    """Alone, and among events that go the fast way."""
    good = event("c", None, {"id": 1, "name": "a"})
    changes = run(DebeziumDecoder(FIELDS), [(None, e) for e in [good] * MANY + [payload]])
    assert list(reasons(changes)) == [MANY]
    assert reasons(changes)[MANY].startswith(reason)
    assert len(changes.op) == MANY


def test_ignore_key() -> None:
    decoder = DebeziumDecoder(FIELDS, ignore_key=True)
    assert not decoder.reads_key
    changes = run(decoder, [(b"?", None), (b"?", event("d")), (b"?", event("d", {"id": 1}))])
    assert told(changes) == [(2, -1, 1, None)]
    assert reasons(changes) == {1: "op d without the key of its row"}


def test_not_null_is_for_rows_that_tell() -> None:
    fields = (ID, FieldSpec("name", t.VARCHAR, not_null=True))
    events = [
        event("d", {"id": 1}),
        event("u", None, {"id": 1, "name": PLACEHOLDER}),
        event("u", None, {"id": 1}),
    ]
    changes = run(DebeziumDecoder(fields), [(None, e) for e in events])
    assert told(changes) == [(0, -1, 1, None), (1, 1, 1, None, [1])]
    assert reasons(changes) == {2: "column name is NULL but declared NOT NULL"}


def test_a_composite_key() -> None:
    fields = (ID, FieldSpec("at", t.DATE, not_null=True, key=True), NAME)
    row = {"id": 1, "at": 0, "name": "a"}
    events = [event("u", row, {**row, "at": 1}), event("d", {"id": 1, "at": None})]
    changes = run(DebeziumDecoder(fields), [({"id": 5, "at": 2}, e) for e in events])
    first, second, third = (dt.date(1970, 1, day) for day in (1, 2, 3))
    assert told(changes) == [
        (0, -1, 1, first, None),
        (0, 1, 1, second, "a"),
        (1, -1, 5, third, None),
    ]


def test_include_source() -> None:
    """Also as a part of the key; a tombstone, which has no source, is left out then."""
    table = FieldSpec("tbl", t.VARCHAR, not_null=True, key=True, source="table")
    fields = (ID, table, FieldSpec("at", t.TIMESTAMPTZ, source="ts_ms"))
    source = {"table": "orders", "ts_ms": 1700000000000, "lsn": 1}
    moment = dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    records = [
        ({"id": 1}, event("c", None, {"id": 1}, source=source)),
        ({"id": 1}, event("u", {"id": 1}, {"id": 2}, source=source)),
        ({"id": 1}, event("d", {"id": 1}, source=source)),
        ({"id": 1}, event("d", source=source)),
        ({"id": 1}, None),
        ({"id": 1}, event("c", None, {"id": 1})),
        ({"id": 1}, event("c", None, {"id": 1}, source={"table": "t", "ts_ms": "x"})),
        (None, event("t", source=source)),
    ]
    changes = run(DebeziumDecoder(fields), records)
    assert told(changes) == [
        (0, 1, 1, "orders", moment),
        (1, -1, 1, "orders", moment),
        (1, 1, 2, "orders", moment),
        (2, -1, 1, "orders", moment),
        (3, -1, 1, "orders", moment),
    ]
    assert reasons(changes) == {
        5: "column tbl is NULL but part of the primary key",
        6: "at: 'x' is not a valid timestamptz",
        7: "a TRUNCATE of one of the tables that the topic holds",
    }
    same(changes, run(Slow(fields), records))


def test_a_change_of_the_schema_in_the_middle() -> None:
    """Both parts of the batch are read by their own schema."""
    fields = (ID, FieldSpec("at", t.TIMESTAMP))
    row = event("c", None, {"id": 1, "at": 1_000_000})
    milli = {"type": "int64", "name": "io.debezium.time.Timestamp"}
    micro = {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}
    records = [(None, wrap(row, **PLAIN, at=s)) for s in (milli, micro) for _ in range(MANY)]
    columns = run(DebeziumDecoder(fields), records).columns[1].to_pylist()
    assert (
        columns
        == [dt.datetime(1970, 1, 1, 0, 16, 40)] * MANY + [dt.datetime(1970, 1, 1, 0, 0, 1)] * MANY
    )


# -- values that are not told ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (t.VARCHAR, PLACEHOLDER),
        (t.VARCHAR, f'{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}'),
        (t.JSONB, PLACEHOLDER),
        (t.BYTEA, "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="),
        (t.NUMERIC, "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="),
        (t.array(t.VARCHAR), [PLACEHOLDER]),
        (t.array(t.VARCHAR), ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]),
        (t.array(t.INTEGER), list(PLACEHOLDER.encode())),
        (t.map_of(t.VARCHAR, t.VARCHAR), {PLACEHOLDER: PLACEHOLDER}),
    ],
    ids=str,
)
def test_unavailable(type: t.Type, value: Any) -> None:
    fields = (ID, FieldSpec("v", type))
    events = [event("u", None, {"id": 1, "v": v}) for v in (None, value)]
    for decoder in (DebeziumDecoder(fields), Slow(fields)):
        changes = run(decoder, [(None, e) for e in events[:1] * MANY + events])
        assert reasons(changes) == {}
        assert told(changes)[-2:] == [(MANY, 1, 1, None), (MANY + 1, 1, 1, None, [1])]


def test_unavailable_is_a_whole_value() -> None:
    fields = (ID, NAME, FieldSpec("a", t.array(t.VARCHAR)))
    near = {"id": 1, "name": PLACEHOLDER + "!", "a": [f"{PLACEHOLDER} x", "x"]}
    assert told(run(DebeziumDecoder(fields), [(None, event("u", None, near))])) == [
        (0, 1, *near.values())
    ]
    decoder = DebeziumDecoder(FIELDS, placeholder="?")
    changes = run(decoder, [(None, event("u", None, {"id": 1, "name": n})) for n in ("?", "x")])
    assert told(changes) == [(0, 1, 1, None, [1]), (1, 1, 1, "x")]
    assert not Unavailable("?").stands_for(PLACEHOLDER, t.VARCHAR)


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (t.struct(("x", t.VARCHAR), ("y", t.INTEGER)), {"x": PLACEHOLDER, "y": 1}),
        (t.struct(("x", t.VARCHAR), ("y", t.INTEGER)), {"X": PLACEHOLDER, "y": 1}),
        (t.struct(("x", t.struct(("y", t.VARCHAR)))), {"x": {"y": PLACEHOLDER}}),
        (t.struct(("x", t.array(t.VARCHAR))), {"x": [PLACEHOLDER]}),
        (t.array(t.struct(("x", t.VARCHAR))), [{"x": "a"}, {"x": PLACEHOLDER}]),
        (t.struct(("b", t.BYTEA)), {"b": base64.b64encode(PLACEHOLDER.encode()).decode()}),
        (t.array(t.array(t.INTEGER)), list(PLACEHOLDER.encode())),
        (t.array(t.VARCHAR), ["a", PLACEHOLDER]),
        (t.array(t.BYTEA), ["YQ==", base64.b64encode(PLACEHOLDER.encode()).decode()]),
        (t.map_of(t.VARCHAR, t.VARCHAR), {"k": PLACEHOLDER}),
        (t.map_of(t.VARCHAR, t.VARCHAR), {"a": "b", PLACEHOLDER: "c"}),
        (t.map_of(t.VARCHAR, t.array(t.VARCHAR)), {"a": ["b", PLACEHOLDER]}),
        (t.struct(("m", t.map_of(t.VARCHAR, t.VARCHAR))), {"m": {"k": PLACEHOLDER}}),
        (t.array(t.struct(("m", t.map_of(t.VARCHAR, t.VARCHAR)))), [{"m": {"k": PLACEHOLDER}}]),
    ],
    ids=str,
)
def test_unavailable_inside_a_value(type: t.Type, value: Any) -> None:
    """The stored value stays: a placeholder is never stored as a part of one."""
    fields = (ID, FieldSpec("v", type))
    events = [event("u", None, {"id": 1, "v": v}) for v in (None, value)]
    for decoder in (DebeziumDecoder(fields), Slow(fields)):
        changes = run(decoder, [(None, e) for e in events[:1] * MANY + events])
        assert reasons(changes) == {}
        assert told(changes)[-1] == (MANY + 1, 1, 1, None, [1])


def test_a_schema_that_says_something_else_of_the_row_before() -> None:
    """The key before is read by its own schema."""
    fields = (FieldSpec("at", t.TIMESTAMP, key=True), NAME)
    row = {"at": 1_000, "name": "x"}
    payload = wrap(event("u", row, row), at=debezium("Timestamp"), name={"type": "string"})
    payload["schema"]["fields"][0] = {"field": "before", "type": "struct", "fields": []}
    for decoder in (DebeziumDecoder(fields), Slow(fields)):
        found = told(run(decoder, [(None, payload)] * MANY))
        assert [op for _, op, *_ in found[:2]] == [-1, 1]
        assert found[0][2] == dt.datetime(1970, 1, 1, 0, 16, 40)
        assert found[1][2] == dt.datetime(1970, 1, 1, 0, 0, 1)


@pytest.mark.timeout(20)
def test_a_decimal_of_a_million_bytes() -> None:
    fields = (ID, FieldSpec("v", t.VARCHAR), FieldSpec("n", t.numeric(10, 2)))
    value = base64.b64encode(b"\x7f" * 1_000_000).decode()
    schema = connect("Decimal", "bytes", scale="2")
    row = {"id": 1, "v": value, "n": value}
    payload = wrap(event("c", None, row), id={"type": "int32"}, v=schema, n=schema)
    for decoder in (DebeziumDecoder(fields), Slow(fields)):
        assert "too many digits" in reasons(run(decoder, [(None, payload)] * 3))[0]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("number", ["1e999999999", "-1e999999999", "1e-999999999"])
def test_numbers_of_a_large_exponent(number: str) -> None:
    """As a value and as a scale: refused before a text of a gigabyte is made of it."""
    fields = (ID, FieldSpec("v", t.VARCHAR))
    for value, scale in ((number, '"2"'), ('"AQ=="', number)):
        text = json.dumps(
            wrap(event("c", None, {"id": 1, "v": "V"}), v=connect("Decimal", "bytes", scale="S"))
        )
        payload = text.replace('"V"', value).replace('"S"', scale).encode()
        both = [
            run(decoder(fields), [(None, payload)] * MANY) for decoder in (DebeziumDecoder, Slow)
        ]
        same(*both)
        assert len(reasons(both[0])) == (MANY if scale == '"2"' else 0)


def test_a_schema_that_is_no_json() -> None:
    payload = wrap(event("c", None, {"id": 1, "name": "x"}), **PLAIN)
    text = (
        json.dumps(payload)
        .replace('"type": "struct"', '"version": NaN, "type": "struct"', 1)
        .encode()
    )
    for decoder in (DebeziumDecoder(FIELDS), Slow(FIELDS)):
        assert len(reasons(run(decoder, [(None, text)] * MANY))) == MANY


# -- every encoding ----------------------------------------------------------------------------------


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def named(name: str, type: str = "int64", **parameters: str) -> dict[str, Any]:
    return {"type": type, "name": name, "parameters": parameters}


def debezium(name: str, type: str = "int64") -> dict[str, Any]:
    return named(f"io.debezium.time.{name}", type)


def connect(name: str, type: str = "int64", **parameters: str) -> dict[str, Any]:
    return named(f"org.apache.kafka.connect.data.{name}", type, **parameters)


DAY = dt.date(2024, 2, 29)
AT = dt.datetime(2024, 2, 29, 12, 30, 15, 123456)
EPOCH = dt.datetime(1970, 1, 1)
MICROS = (AT - EPOCH) // dt.timedelta(microseconds=1)
MILLIS, NANOS = MICROS // 1000, MICROS * 1000 + 999
AT_MILLIS = AT.replace(microsecond=123000)
CLOCK = ((12 * 60 + 30) * 60 + 15) * 1_000_000
VARIABLE = named("io.debezium.data.VariableScaleDecimal", "struct")
NUMBER = t.numeric(10, 2)

ENCODINGS: list[tuple[t.Type, dict[str, Any] | None, Any, Any]] = [
    (t.DATE, debezium("Date", "int32"), 19782, DAY),
    (t.DATE, connect("Date", "int32"), 19782, DAY),
    (t.DATE, debezium("IsoDate", "string"), "2024-02-29Z", DAY),
    (t.DATE, None, "2024-02-29", DAY),
    (t.DATE, None, "2024-02-29Z", DAY),
    (t.DATE, None, 19782, DAY),
    (t.DATE, None, -1, dt.date(1969, 12, 31)),
    (t.DATE, debezium("Timestamp"), -1, dt.date(1969, 12, 31)),
    (t.TIME, debezium("Time", "int32"), CLOCK // 1000, CLOCK),
    (t.TIME, connect("Time", "int32"), CLOCK // 1000, CLOCK),
    (t.TIME, debezium("MicroTime"), CLOCK + 1, CLOCK + 1),
    (t.TIME, debezium("NanoTime"), CLOCK * 1000 + 999, CLOCK),
    (t.TIME, debezium("ZonedTime", "string"), "12:30:15Z", CLOCK),
    (t.TIME, debezium("IsoTime", "string"), "12:30:15Z", CLOCK),
    (t.TIME, None, "12:30:15", CLOCK),
    (t.TIME, None, CLOCK, CLOCK),
    *[
        case
        for type, zone in ((t.TIMESTAMP, None), (t.TIMESTAMPTZ, UTC))
        for case in (
            (type, debezium("Timestamp"), MILLIS, AT_MILLIS.replace(tzinfo=zone)),
            (type, connect("Timestamp"), MILLIS, AT_MILLIS.replace(tzinfo=zone)),
            (type, connect("Timestamp"), 1, (EPOCH + dt.timedelta(0, 0, 1000)).replace(tzinfo=zone)),
            (type, debezium("MicroTimestamp"), MICROS, AT.replace(tzinfo=zone)),
            (type, debezium("MicroTimestamp"), -1, (EPOCH - dt.timedelta(0, 0, 1)).replace(tzinfo=zone)),
            (type, debezium("NanoTimestamp"), NANOS, AT.replace(tzinfo=zone)),
            (type, debezium("ZonedTimestamp", "string"), "2024-02-29T13:30:15.123456+01:00", AT.replace(tzinfo=zone)),
            (type, debezium("IsoTimestamp", "string"), "2024-02-29T12:30:15.123456Z", AT.replace(tzinfo=zone)),
            (type, debezium("Date", "int32"), 19782, dt.datetime(2024, 2, 29, tzinfo=zone)),
            (type, None, MILLIS, AT_MILLIS.replace(tzinfo=zone)),
            (type, None, MICROS, AT.replace(tzinfo=zone)),
            (type, None, NANOS, AT.replace(tzinfo=zone)),
            (type, None, "2024-02-29T12:30:15.123456Z", AT.replace(tzinfo=zone)),
        )
    ],
    (NUMBER, connect("Decimal", "bytes", scale="2"), b64(b"\x04\xd2"), Decimal("12.34")),
    (NUMBER, connect("Decimal", "bytes", scale="2"), b64(b"\xff"), Decimal("-0.01")),
    (NUMBER, connect("Decimal", "bytes", scale="3"), b64(b"\x30\x39"), Decimal("12.35")),
    (NUMBER, connect("Decimal", "bytes", scale="0"), b64(b"\x0c"), Decimal("12.00")),
    (NUMBER, connect("Decimal", "bytes", scale="-2"), b64(b"\x0c"), Decimal("1200.00")),
    (NUMBER, connect("Decimal", "bytes", scale="2"), b64(bytes(20) + b"\x01"), Decimal("0.01")),
    (NUMBER, connect("Decimal", "bytes", scale="2"), 12.34, Decimal("12.34")),
    (t.BIGINT, connect("Decimal", "bytes", scale="0"), b64(b"\x7f"), 127),
    (t.DOUBLE, connect("Decimal", "bytes", scale="1"), b64(b"\x05"), 0.5),
    (t.VARCHAR, connect("Decimal", "bytes", scale="9"), b64(b"\x05"), "0.000000005"),
    (NUMBER, VARIABLE, {"scale": 1, "value": b64(b"\x7f")}, Decimal("12.70")),
    (t.VARCHAR, VARIABLE, {"scale": 1, "value": b64(b"\x7f")}, "12.7"),
    (NUMBER, {"type": "string"}, "12.34", Decimal("12.34")),
    (NUMBER, {"type": "string"}, "1234", Decimal("1234.00")),
    (NUMBER, {"type": "double"}, 12.34, Decimal("12.34")),
    (NUMBER, None, "12.34", Decimal("12.34")),
    (NUMBER, None, "1234", Decimal("1234.00")),
    (NUMBER, None, 12.34, Decimal("12.34")),
    (NUMBER, None, b64(b"\x04\xd2"), Decimal("12.34")),
    (NUMBER, None, {"scale": 1, "value": b64(b"\x7f")}, Decimal("12.70")),
    (t.BYTEA, {"type": "bytes"}, b64(b"\x00\xff"), b"\x00\xff"),
    (t.BYTEA, None, b64(b"\x00\xff"), b"\x00\xff"),
    (t.BYTEA, None, "", b""),
    (t.BYTEA, None, "\\x00ff", b"\x00\xff"),
    (t.BYTEA, named("io.debezium.data.Bits", "bytes", length="9"), b64(b"\x01\x01"), b"\x01\x01"),
    (t.JSONB, named("io.debezium.data.Json", "string"), '{"b":1.50,"a":[]}', '{"a": [], "b": 1.5}'),
    (t.JSONB, None, '{"b":1.50,"a":[]}', '{"a": [], "b": 1.5}'),
    (t.JSONB, None, "null", "null"),
    (t.JSONB, {"type": "map"}, {"k": "v"}, '{"k": "v"}'),
    (t.BOOLEAN, {"type": "boolean"}, True, True),
    (t.BOOLEAN, {"type": "int16"}, 1, True),
    (t.BOOLEAN, None, 0, False),
    (t.VARCHAR, named("io.debezium.data.Uuid", "string"), "b68a35a7", "b68a35a7"),
    (t.VARCHAR, named("io.debezium.data.Enum", "string", allowed="a,b"), "a", "a"),
    (t.BIGINT, debezium("MicroDuration"), 5, 5),
    (t.VARCHAR, debezium("Interval", "string"), "P1Y", "P1Y"),
    (t.BIGINT, debezium("MicroTimestamp"), MICROS, MICROS),
    (t.DOUBLE, {"type": "double"}, "NaN", pytest.approx(float("nan"), nan_ok=True)),
    (t.array(t.INTEGER), {"type": "array", "items": {"type": "int32"}}, [1, None], [1, None]),
    (t.array(t.DATE), {"type": "array", "items": debezium("Date", "int32")}, [19782, None], [DAY, None]),
    (t.array(t.BYTEA), {"type": "array", "items": {"type": "bytes"}}, [b64(b"\xff")], [b"\xff"]),
    (t.array(NUMBER), {"type": "array", "items": connect("Decimal", "bytes", scale="2")}, [b64(b"\x7f")], [Decimal("1.27")]),
    (t.map_of(t.VARCHAR, t.VARCHAR), {"type": "map"}, {"k": "v", "n": None}, [("k", "v"), ("n", None)]),
    (t.struct(("x", t.DOUBLE), ("wkb", t.BYTEA)), named("io.debezium.data.geometry.Point", "struct"),
     {"x": 1.5, "wkb": b64(b"\x01"), "srid": None}, {"x": 1.5, "wkb": b"\x01"}),
]  # fmt: skip

WRONG = [
    (t.DATE, debezium("MicroTime"), 5, "v: a time is not a valid date"),
    (t.TIME, debezium("MicroTimestamp"), 5, "v: a timestamp is not a valid time"),
    (t.TIME, debezium("Time", "int32"), 86_400_000, "v: 86400000000 is not a valid time"),
    (t.TIMESTAMP, debezium("MicroTimestamp"), 2**63 - 1, "is out of range"),
    (t.TIMESTAMPTZ, debezium("Timestamp"), 2**63 - 1, "is out of range"),
    (t.DATE, debezium("Date", "int32"), 2**40, "is out of range for date"),
    (NUMBER, connect("Decimal", "bytes", scale="2"), b64(b"\x7f" * 6), "is out of range for numeric"),
    (NUMBER, connect("Decimal", "bytes", scale="2"), "12.34", "v: '12.34' is not base64"),
    (NUMBER, connect("Decimal", "bytes", scale="99999"), "AA==", "v: 99999 is not a valid scale"),
    (NUMBER, VARIABLE, {"scale": True, "value": "AA=="}, "v: True is not a valid scale"),
    (NUMBER, VARIABLE, {"scale": 1}, "is not a valid numeric"),
    (NUMBER, {"type": "string"}, "AA==", "v: 'AA==' is not a valid numeric"),
    (NUMBER, None, "12,34", "v: '12,34' is not base64"),
    (t.BYTEA, None, "a", "v: 'a' is not base64"),
    (t.BYTEA, None, 1, "v: 1 is not base64"),
    (t.JSONB, None, "{", "v: '{' is not a valid jsonb"),
    (t.BOOLEAN, None, 2, "v: 2 is not a valid boolean"),
    (t.INTERVAL, debezium("MicroDuration"), 5, "v: an interval cannot be read from JSON"),
]  # fmt: skip


def decoded(type: t.Type, schema: dict[str, Any] | None, value: Any, decoder: type) -> Any:
    """A batch of that value: the fast way where there is one."""
    payload: Any = event("u", None, {"id": 1, "v": value})
    if schema is not None:
        payload = wrap(payload, id={"type": "int32"}, v=schema)
    fields = (ID, FieldSpec("v", type))
    return run(decoder(fields), [(None, payload)] * (9 if decoder is DebeziumDecoder else 1))


@pytest.mark.parametrize(("type", "schema", "value", "expected"), ENCODINGS, ids=str)
def test_encodings(type: t.Type, schema: dict[str, Any] | None, value: Any, expected: Any) -> None:
    for decoder in (DebeziumDecoder, Slow):
        changes = decoded(type, schema, value, decoder)
        assert reasons(changes) == {}
        found = changes.columns[1].to_pylist()
        assert found == [expected] * len(found)


@pytest.mark.parametrize(("type", "schema", "value", "reason"), WRONG, ids=str)
def test_wrong_values(type: t.Type, schema: dict[str, Any] | None, value: Any, reason: str) -> None:
    for decoder in (DebeziumDecoder, Slow):
        changes = decoded(type, schema, value, decoder)
        assert len(changes.op) == 0
        assert reason in reasons(changes)[0]


@pytest.mark.parametrize(
    ("mode", "value", "expected"),
    [("precise", "1234", "-26588.24"), ("string", "1234", "1234.00"), ("precise", 5, "5.00")],
)
def test_decimal_handling_mode(mode: str, value: Any, expected: str) -> None:
    fields = (ID, FieldSpec("v", NUMBER))
    records = [(None, event("c", None, {"id": 1, "v": value}))] * 9
    changes = run(DebeziumDecoder(fields, decimals=mode), records)
    assert changes.columns[1].to_pylist() == [Decimal(expected)] * 9


@pytest.mark.parametrize(
    "schema", [{"type": "struct", "fields": 5}, {"type": "struct", "fields": [1, {"field": "after"}]},
               {"type": "", "fields": [{"field": "after", "fields": [{"field": "v", "name": [], "parameters": 3}]}]}],
    ids=str,
)  # fmt: skip
def test_schemas_that_make_no_sense(schema: Any) -> None:
    """They say nothing, and break nothing."""
    payload = {"schema": schema, "payload": event("c", None, {"id": 1, "v": "2.50"})}
    changes = run(DebeziumDecoder((ID, FieldSpec("v", NUMBER))), [(None, payload)] * 9)
    assert told(changes) == [(i, 1, 1, Decimal("2.50")) for i in range(9)]


# -- the whole batch ---------------------------------------------------------------------------------


def batch(*records: tuple[Any, Any]) -> pa.RecordBatch:
    raw = [v if v is None else json.dumps(v).encode() for _, v in records]
    columns = {
        "stream": pa.array(["s"] * len(raw)),
        "partition": pa.array([3] * len(raw), pa.int32()),
        "offset": pa.array(range(10, 10 + len(raw)), pa.int64()),
        "timestamp": pa.nulls(len(raw), pa.timestamp("us", "UTC")),
        "key": pa.array([k for k, _ in records], pa.large_binary()),
        "value": pa.array(raw, pa.large_binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def test_what_the_executors_do() -> None:
    """INCLUDE key AS k, PRIMARY KEY (k): changes with their places, and dead letters."""
    from icestream.runtime.decode import Carried, ChangeDecoding, letters_of

    key = Carried("key", "k", t.BYTEA, key=True)
    decoding = ChangeDecoding(DebeziumDecoder((NAME,)), (key,))
    assert decoding.raw_columns() == ["value", "key", "stream", "partition", "offset"]
    records = batch(
        (b"a", event("c", None, {"name": "x"})),
        (None, event("c", None, {"name": "x"})),
        (b"a", event("u", None, {"name": PLACEHOLDER})),
        (None, event("t")),
        (b"a", {"name": "x"}),
        (b"a", event("d")),
        (b"a", None),
        (None, None),
    )
    rows, errors = decoding.apply(records)
    assert rows.schema.names == ["name", "k", OP, UNSET, STREAM, PARTITION, OFFSET]
    assert [tuple(row.values()) for row in rows.to_pylist()] == [
        ("x", b"a", 1, None, "s", 3, 10),
        (None, b"a", 1, [0], "s", 3, 12),
        (None, None, 0, None, "s", 3, 13),
        (None, b"a", -1, None, "s", 3, 15),
        (None, b"a", -1, None, "s", 3, 16),
    ]
    letters = letters_of(records, errors).to_pylist()
    assert [(letter["offset"], letter["reason"]) for letter in letters] == [
        (11, "column k is NULL but part of the primary key"),
        (14, "the payload has no op: it is not a Debezium envelope"),
    ]


def test_the_registry() -> None:
    options = {
        "timestamptz.handling.mode": Setting("milli"),
        "ignore_key": Setting(True),
        "unavailable.value.placeholder": Setting("?"),
        "decimal.handling.mode": Setting("string"),
    }
    found = registry.change_decoder("DEBEZIUM", "JSON", FIELDS, Settings("table t", options))
    assert pickle.loads(pickle.dumps(found)) == DebeziumDecoder(
        FIELDS, "milli", True, "?", "string"
    )


# -- the two ways agree ------------------------------------------------------------------------------

MIXED = (
    ID,
    NAME,
    FieldSpec("n", t.numeric(12, 3)),
    FieldSpec("ts", t.TIMESTAMPTZ),
    FieldSpec("day", t.DATE),
    FieldSpec("b", t.BYTEA),
    FieldSpec("j", t.JSONB),
    FieldSpec("ok", t.BOOLEAN),
    FieldSpec("a", t.array(t.INTEGER)),
    FieldSpec("db", t.VARCHAR, source="db"),
)
SCHEMAS: dict[str, dict[str, Any]] = {
    "id": {"type": "int32"}, "name": {"type": "string"},
    "n": connect("Decimal", "bytes", scale="3"), "ts": debezium("MicroTimestamp"),
    "day": debezium("Date", "int32"), "b": {"type": "bytes"},
    "j": named("io.debezium.data.Json", "string"), "ok": {"type": "boolean"},
}  # fmt: skip
ODD: list[Any] = [
    None, None, 0, -1, 1.5, 1e300, 2**31, 2**63, MICROS, MILLIS, "", "1", "12.5", "x", "é😀", "AQ==", "null",
    "{}", "2024-02-29", "2024-02-29T12:00:00Z", True, False, [], [1, None], ["x"], {}, {"scale": 2, "value": "AQ=="},
    PLACEHOLDER, b64(PLACEHOLDER.encode()), list(PLACEHOLDER.encode()), [PLACEHOLDER],
]  # fmt: skip


class Maker:
    """Random records, most of them as they should be."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.odds = self.random.choice([0, 0, 0.02, 0.2])
        self.wrapped = self.random.random() < 0.5

    def odd(self) -> bool:
        return self.random.random() < self.odds

    def value(self, name: str) -> Any:
        chance = self.random
        if self.odd():
            return chance.choice(ODD)
        if chance.random() < 0.1 and name != "id":
            return chance.choice([None, PLACEHOLDER]) if name in ("name", "j") else None
        raw = chance.getrandbits(30).to_bytes(5, "big")
        return {
            "id": chance.randrange(3), "name": chance.choice(["a", "é", "b\n"]),
            "n": b64(raw) if self.wrapped else chance.randrange(10**6) / 1000,
            "ts": MICROS + chance.getrandbits(30), "day": chance.randrange(20000), "b": b64(raw),
            "j": chance.choice(["{}", '{"z":1,"a":[2.50]}', "1"]), "ok": chance.random() < 0.5,
            "a": [1, None],
        }[name]  # fmt: skip

    def row(self) -> Any:
        if self.odd():
            return self.random.choice(ODD)
        names = [f.name for f in MIXED if f.source is None]
        return {n.upper() if self.odd() else n: self.value(n) for n in names if not self.odd()}

    def event(self) -> Any:
        op: Any = self.random.choices("rcudtm", [4, 4, 8, 3, self.odds, self.odds])[0]
        op = self.random.choice(["x", None, 1, {}]) if self.odd() else op
        before = self.row() if op == "d" or self.random.random() < 0.2 else None
        if op == "u" and isinstance(before, dict) and not self.odd():
            before["id"] = 1
        found = event(op, before, None if op == "d" else self.row(), source={"db": "shop"})
        if op == "u" and isinstance(found["after"], dict) and before is not None:
            found["after"]["id"] = 1 if self.random.random() < 0.9 else 2
        if self.odd():
            found["source"] = self.random.choice(ODD)
        if self.odd():
            found.pop(self.random.choice(list(found)))
        return found

    def record(self) -> tuple[Any, Any]:
        key: Any = {"id": self.random.randrange(3)}
        key = self.random.choice([None, b"x", b"7", {"ID": 1}, {}]) if self.odd() else key
        if self.random.random() < 0.1:
            return key, None
        found = wrap(self.event(), **SCHEMAS) if self.wrapped != self.odd() else self.event()
        text = json.dumps(found, ensure_ascii=self.random.random() < 0.5).encode()
        if self.odd():
            at = self.random.randrange(len(text))
            text = (
                text[:at]
                + self.random.choice([b"", b"}", b'"', b"\xff", b"0", b" "])
                + text[at + 1 :]
            )
        return key, text  # fmt: skip


@settings(max_examples=20, deadline=None, database=None)
@given(st.integers(0, 2**32))
def test_the_two_ways_agree(seed: int) -> None:
    make = Maker(seed)
    records = [make.record() for _ in range(30)]
    same(run(DebeziumDecoder(MIXED), records), run(Slow(MIXED), records))
