from __future__ import annotations

import base64
import datetime as dt
import json
import random
import time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from icestream import types as t
from icestream.connectors.formats import FieldSpec, blocks
from icestream.kafka_connect.inference import alterations, columns_of, describe
from icestream.kafka_connect.records import Careful, Reading, RecordReader

ORDER = (
    FieldSpec("id", t.BIGINT, True),
    FieldSpec("name", t.VARCHAR),
    FieldSpec("amount", t.numeric(10, 2)),
    FieldSpec("at", t.TIMESTAMP),
    FieldSpec("seen", t.TIMESTAMPTZ),
    FieldSpec("day", t.DATE),
    FieldSpec("inner", t.struct(("a", t.INTEGER), ("b", t.VARCHAR))),
    FieldSpec("tags", t.array(t.VARCHAR)),
)


def read(values: list[Any], *fields: FieldSpec, **reading: Any) -> tuple[list[Any], list[Any]]:
    """The good rows, and the reasons of the bad ones."""
    payloads = pa.array([v if v is None else _bytes(v) for v in values], pa.binary())
    rows = RecordReader(fields or ORDER, Reading(**reading)).read(payloads)
    names = [f.name for f in fields or ORDER]
    table = pa.RecordBatch.from_arrays(rows.columns, names=names).filter(rows.good)
    bad = [] if rows.errors is None else [e for e in rows.errors.to_pylist() if e is not None]
    return table.to_pylist(), bad


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def enveloped(schema: Any, payload: Any) -> dict[str, Any]:
    return {"schema": schema, "payload": payload}


def struct(**fields: Any) -> dict[str, Any]:
    items = [{"field": k, **(v if isinstance(v, dict) else {"type": v})} for k, v in fields.items()]
    return {"type": "struct", "optional": False, "fields": items}


def test_numbers_for_times_are_milliseconds_and_dates_are_days() -> None:
    rows, bad = read([{"id": 1, "at": 1_700_000_000_000, "seen": 5_000, "day": 1, "name": "x"}])
    assert not bad
    assert rows[0]["at"] == dt.datetime(2023, 11, 14, 22, 13, 20)
    assert rows[0]["seen"] == dt.datetime(1970, 1, 1, 0, 0, 5, tzinfo=dt.UTC)
    assert rows[0]["day"] == dt.date(1970, 1, 2)


def test_a_timestamp_without_zone_keeps_what_the_clock_showed() -> None:
    values = [{"id": 1, "at": "2024-03-01T10:00:00+02:00"}, {"id": 2, "at": "2024-03-01T10:00:00"}]
    rows, _ = read(values)
    assert {row["at"] for row in rows} == {dt.datetime(2024, 3, 1, 10)}


def test_a_text_takes_anything_as_json() -> None:
    values = [{"id": n, "name": v} for n, v in enumerate([1, 1.5, True, {"a": [1, "ü"]}, "s"])]
    rows, bad = read(values)
    assert [row["name"] for row in rows] == ["1", "1.5", "true", '{"a":[1,"ü"]}', "s"]
    assert not bad


def test_names_match_exactly_unless_told_otherwise() -> None:
    fields = (FieldSpec("id", t.BIGINT), FieldSpec("name", t.VARCHAR))
    values = [{"ID": n, "Name": "x"} for n in range(20)]
    assert read(values, *fields)[0][0] == {"id": None, "name": None}
    assert read(values, *fields, case_insensitive=True)[0][0] == {"id": 0, "name": "x"}


def test_tombstones_are_skipped_and_nulls_too() -> None:
    rows, bad = read([None, b"null", {"id": 1}, enveloped(None, None)])
    assert [row["id"] for row in rows] == [1]
    assert not bad


def test_what_breaks_the_schema_has_a_reason() -> None:
    values = [{"id": 1}, b"{", {"id": "x"}, {}, [1], {"id": 2, "inner": 5}, b"\xff", {"id": 1.5}]
    rows, bad = read(values)
    assert [row["id"] for row in rows] == [1]
    assert bad[1] == "id: 'x' is not a valid bigint"
    assert bad[2] == "column id is NULL but declared NOT NULL"
    assert bad[3] == "the value is not a JSON object"
    assert bad[4] == "inner: not an object"
    assert len(bad) == 7


def test_base64_bytes_and_booleans_as_text() -> None:
    fields = (FieldSpec("b", t.BYTEA), FieldSpec("f", t.BOOLEAN), FieldSpec("t", t.TIME))
    rows, bad = read(
        [{"b": "AQI=", "f": "TRUE", "t": 1_500}, {"b": "?", "f": True}, {"f": "no"}], *fields
    )
    assert rows == [{"b": b"\x01\x02", "f": True, "t": 1_500_000}]
    assert bad == ["b: not bytes in base64", "f: 'no' is not a valid boolean"]


def test_routes() -> None:
    values = [{"id": 1, "type": "a1"}, {"id": 2, "type": "b"}, {"id": 3}, {"id": 4, "type": None}]
    route = {"route_field": ("type",), "route": "a.*"}
    assert [r["id"] for r in read(values, **route)[0]] == [1]
    fields = (FieldSpec("type", t.VARCHAR), FieldSpec("id", t.BIGINT, True))
    assert [r["id"] for r in read(values, *fields, **route)[0]] == [1]
    nested = [{"id": n, "meta": {"kind": k}} for n, k in enumerate(["x", "y", 7, "xx"])]
    assert [r["id"] for r in read(nested, route_field=("meta", "kind"), route="x|7")[0]] == [0, 2]


def test_no_value_of_a_route_takes_long() -> None:
    """Python's own matching of one such value would not end."""
    texts = ["a" * 5000 + "!", "a" * 60 + "!", "aaa", "a\n", "", "é", "x" * 200 + "a"]
    values = [{"id": n, "type": text} for n, text in enumerate(texts)]
    for some in (values, [*values, {"id": 7, "type": ["a"]}, {"id": 8, "type": 5}]):
        started = time.process_time()
        rows, bad = read(some, route_field=("type",), route="(a+)+$")
        assert [r["id"] for r in rows] == [2]
        assert not bad
        assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("route", "wanted"),
    [("a|b", ["a", "b"]), ("", [""]), ("(?i)A", ["a"]), ("a.", ["ab"]), (".*", ["a", "b", "ab", "", "1"]),
     (r"\d", ["1"]), (r"[^a\s]", ["b", "1", "٣"]), ("^a$", ["a"])],
)  # fmt: skip
def test_a_route_matches_whole_values_as_java_does(route: str, wanted: list[str]) -> None:
    texts = ["a", "b", "ab", "", "a\n", "1", "٣"]
    wanted = [*wanted, "٣"] if route == ".*" else wanted
    values = [{"id": n, "type": text} for n, text in enumerate(texts)]
    for some in (values, [*values, {"id": 99, "type": {"x": 1}, "other": 1}]):
        rows, _ = read(some, FieldSpec("id", t.BIGINT), route_field=("type",), route=route)
        assert {texts[r["id"]] for r in rows if r["id"] < 99} == set(wanted)


def test_another_tables_records_are_neither_rows_nor_errors() -> None:
    values = [{"type": "b", "id": "bad for this table"}, {"type": "a", "id": 1}]
    rows, bad = read(values, FieldSpec("id", t.BIGINT, True), route_field=("type",), route="a")
    assert rows == [{"id": 1}]
    assert not bad


def test_values_with_their_schema() -> None:
    schema = struct(id="int64", name="string", at={"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"})  # fmt: skip
    values = [enveloped(schema, {"id": n, "name": f"n{n}", "at": 1000}) for n in range(30)]
    for given in (None, True):
        rows, bad = read(values, schemas=given)
        assert not bad
        assert [r["id"] for r in rows] == list(range(30))
        assert rows[3]["at"] == dt.datetime(1970, 1, 1, 0, 0, 1)
    fields = (FieldSpec("payload", t.struct(("id", t.INTEGER))),)
    assert read(values, *fields, schemas=False)[0][4] == {"payload": {"id": 4}}


def test_decimals_bytes_maps_and_defaults_follow_the_schema() -> None:
    amount = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}  # fmt: skip
    pairs = {"type": "map", "keys": {"type": "int32"}, "values": {"type": "bytes"}}
    schema = struct(id="int64", amount=amount, b="bytes", m=pairs, d={"type": "string", "default": "x"})  # fmt: skip
    raw = base64.b64encode((-12345).to_bytes(2, "big", signed=True)).decode()
    payload = {"id": 1, "amount": raw, "b": "AQ==", "m": [[1, "Ag=="]]}
    fields = (
        FieldSpec("amount", t.numeric(10, 2)),
        FieldSpec("b", t.BYTEA),
        FieldSpec("m", t.map_of(t.INTEGER, t.BYTEA)),
        FieldSpec("d", t.VARCHAR),
    )
    rows, bad = read([enveloped(schema, payload)], *fields)
    assert not bad
    assert rows == [{"amount": Decimal("-123.45"), "b": b"\x01", "m": [(1, b"\x02")], "d": "x"}]


def test_schemas_enable_true_wants_envelopes() -> None:
    rows, bad = read([{"id": 1}, enveloped(None, {"id": 2})], schemas=True)
    assert [r["id"] for r in rows] == [2]
    assert bad == ['the value is not {"schema": …, "payload": …}']
    _, bad = read([enveloped({"type": "nonsense"}, {"id": 1})])
    assert bad == ["the schema of the value has an unknown type 'nonsense'"]


def _random_value(rng: random.Random) -> Any:
    record: dict[str, Any] = {"id": rng.choice([1, 2**40, "3", None, 1.5, 2.0, True])}
    record["at"] = rng.choice(["2024-01-01T00:00:00", 1_700_000_000_000, "2024-01-01T00:00:00Z", None])  # fmt: skip
    record["seen"] = rng.choice(["2024-01-01T00:00:00Z", 12, "2024-01-01 00:00:00", 1.5])
    record["amount"] = rng.choice([1, 1.005, "2.5", 10**12, None, "x"])
    record["name"] = rng.choice(["a", 5, {"x": 1}, None, False])
    record["inner"] = rng.choice([{"a": 1}, {"b": 2}, None, {"A": 3}, 4])
    record["type"] = rng.choice(["a", "b", None, 1])
    if rng.random() < 0.3:
        record["ID"] = 9
    if rng.random() < 0.2:
        return enveloped(rng.choice([struct(id="int64", at="int64"), None]), record)
    return record


@pytest.mark.parametrize("seed", range(150))
def test_the_fast_way_agrees_with_the_careful_one(seed: int) -> None:
    rng = random.Random(seed)
    one = _random_value(rng)
    values = [one if rng.random() < 0.8 else _random_value(rng) for _ in range(24)]
    reading = Reading(
        schemas=rng.choice([None, True, False]),
        route_field=rng.choice([(), ("type",)]),
        route="a|1",
        case_insensitive=rng.random() < 0.3,
    )
    payloads = pa.array([_bytes(v) for v in values], pa.binary())
    fast = RecordReader(ORDER, reading).read(payloads)
    careful = Careful(ORDER, reading)
    fields = (*ORDER, FieldSpec("keep", t.BOOLEAN))
    slow = blocks.one_by_one(payloads, fields, careful.record)
    for index, good in enumerate(fast.good.to_pylist()):
        expected = [c[index].as_py() for c in slow.columns]
        if good:
            assert [c[index].as_py() for c in fast.columns] == expected[:-1]
        else:
            assert not expected[-1] or expected[0] is None


# -- findings --------------------------------------------------------------------------------------

LOGICAL = "org.apache.kafka.connect.data."
ODD_SCHEMAS: list[Any] = [
    {"type": "struct", "fields": 5},
    {"type": "struct", "fields": [{"field": "id", "type": "int64", "parameters": ["x"]}]},
    {"type": "struct", "fields": [{"field": "id", "type": "int64", "name": ["x"]}]},
    {"type": "struct", "fields": ["x"]},
    {"type": "struct", "fields": {"id": 1}},
    {"type": "struct", "fields": [{"field": "id", "type": "bytes", "name": LOGICAL + "Decimal", "parameters": {"scale": 9999999}}]},
    {"type": "struct", "fields": [{"field": "id", "type": "bytes", "name": LOGICAL + "Decimal", "parameters": {"scale": "9" * 5000}}]},
    {"type": "array", "items": None},
    {"type": "map", "keys": 1, "values": []},
]  # fmt: skip


@pytest.mark.parametrize("schema", ODD_SCHEMAS, ids=lambda s: json.dumps(s)[:60])
@pytest.mark.parametrize("schemas", [None, True])
def test_an_odd_schema_is_a_dead_letter(schema: Any, schemas: bool | None) -> None:
    good = enveloped(struct(id="int64"), {"id": 1})
    odd = enveloped(schema, {"id": 2})
    for values in ([odd], [good, odd, good], [odd, *[good] * 20], [*[good] * 20, odd]):
        rows, bad = read(values, FieldSpec("id", t.BIGINT), schemas=schemas)
        assert len(rows) == len(values) - 1
        assert len(bad) == 1
        assert "the schema of the value" in bad[0]
        payloads = pa.array([_bytes(v) for v in values], pa.binary())
        seen = describe(payloads, Reading(schemas=schemas))
        assert seen.bad == 1


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "number", ["1e999999999", "-1e999999999", "1e-999999999", "1.5", "NaN", '""', '"0x1"']
)
def test_a_scale_that_is_no_whole_number(number: str) -> None:
    scale = f'{{"field": "v", "type": "bytes", "name": "{LOGICAL}Decimal", "parameters": {{"scale": {number}}}}}'
    payload = f'{{"schema": {{"type": "struct", "fields": [{scale}]}}, "payload": {{"v": "AQ=="}}}}'
    for type in (t.numeric(10, 2), t.VARCHAR, t.DOUBLE):
        rows, bad = read([payload.encode()] * 20, FieldSpec("v", type))
        assert not rows
        assert len(bad) == 20


@pytest.mark.parametrize("first", [None, "x", 5_000, {}])
def test_milliseconds_before_1973_do_not_depend_on_the_batch(first: Any) -> None:
    """Also where the first record has no number there, or the field in another case."""
    fields = (FieldSpec("n", t.BIGINT), FieldSpec("at", t.TIMESTAMP))
    opening = [{"n": 0} if first == {} else {"n": 0, "at": first}]
    values = opening + [{"n": n, "at": 86_400_000 * n} for n in range(1, 40)]
    for key in ("at", "AT"):
        renamed = [{key if k == "at" else k: v for k, v in value.items()} for value in values]
        rows, _ = read(renamed, *fields, case_insensitive=True)
        found = {row["n"]: row["at"] for row in rows if row["n"]}
        start = dt.datetime(1970, 1, 1)
        assert found == {n: start + dt.timedelta(days=n) for n in range(1, 40)}


def test_times_of_a_schema_in_columns_of_each_type() -> None:
    kinds = {"Date": ("int32", 19_000), "Time": ("int32", 43_200_000), "Timestamp": ("int64", -86_400_001)}  # fmt: skip
    expected = {
        ("Date", t.DATE): dt.date(2022, 1, 8),
        ("Date", t.TIMESTAMP): dt.datetime(2022, 1, 8),
        ("Date", t.TIMESTAMPTZ): dt.datetime(2022, 1, 8, tzinfo=dt.UTC),
        ("Date", t.BIGINT): 19_000,
        ("Time", t.TIME): 43_200_000_000,
        ("Time", t.BIGINT): 43_200_000_000,
        ("Time", t.VARCHAR): "43200000",
        ("Timestamp", t.TIMESTAMP): dt.datetime(1969, 12, 30, 23, 59, 59, 999_000),
        ("Timestamp", t.DATE): dt.date(1969, 12, 30),
        ("Timestamp", t.BIGINT): -86_400_001,
    }
    for (kind, type), value in expected.items():
        scalar, number = kinds[kind]
        schema = struct(v={"type": scalar, "name": LOGICAL + kind})
        for count in (1, 30):
            rows, bad = read([enveloped(schema, {"v": number})] * count, FieldSpec("v", type))
            assert not bad
            assert rows == [{"v": value}] * count, (kind, type)
    for kind, type in (
        ("Time", t.TIMESTAMP),
        ("Time", t.DATE),
        ("Date", t.TIME),
        ("Date", t.BOOLEAN),
    ):
        scalar, number = kinds[kind]
        schema = struct(v={"type": scalar, "name": LOGICAL + kind})
        _, bad = read([enveloped(schema, {"v": number})] * 30, FieldSpec("v", type))
        assert bad == [f"v: {kind} is not a valid {type}"] * 30


def test_the_route_field_matches_exactly() -> None:
    """As in Connect, also where columns match in any case."""
    fields = (FieldSpec("id", t.BIGINT), FieldSpec("type", t.VARCHAR))
    route = {"route_field": ("type",), "route": "a", "case_insensitive": True}
    values = [{"ID": 1, "Type": "a"}] * 20 + [{"id": 2, "type": "a"}] * 20
    for some in (values, values[::-1], values[20:], values[:20]):
        for columns in (fields, fields[:1]):
            assert [r["id"] for r in read(some, *columns, **route)[0]] == [2] * some.count(
                values[-1]
            )


def test_fields_that_the_schema_does_not_have_are_dropped() -> None:
    fields = (FieldSpec("id", t.BIGINT), FieldSpec("name", t.VARCHAR))
    values = [enveloped(struct(id="int64"), {"id": 1, "name": "x"})]
    for count in (1, 30):
        assert read(values * count, *fields)[0] == [{"id": 1, "name": None}] * count


def test_a_field_that_no_column_asks_for_can_hold_anything() -> None:
    schema = struct(id="int64", b="bytes", s=struct(x="int32"))
    values = [enveloped(schema, {"id": 1, "b": "?", "s": 5})]
    for count in (1, 30):
        assert read(values * count, FieldSpec("id", t.BIGINT))[0] == [{"id": 1}] * count


def test_columns_for_records_of_any_shape() -> None:
    """Names and types that no table can have are left out, and never raise."""
    deep: Any = 1
    for _ in range(60):
        deep = {"x": deep}
    record = {
        "a": 1,
        "A": 2,
        "b.c": 1,
        "": 1,
        "n\n": 1,
        "x" * 300: 1,
        "deep": deep,
        "s": {"q": 1, "Q": 2},
    }
    seen = describe(pa.array([_bytes(record)], pa.binary()), Reading()).records
    columns = columns_of(seen)
    assert [c.name for c in columns] == ["a", "A", "s"]
    have = [(c.name, c.type) for c in columns]
    assert alterations(have, seen) == []
    many = {f"c{n}": 1 for n in range(5000)}
    seen = describe(pa.array([_bytes(many)], pa.binary()), Reading()).records
    assert len(columns_of(seen)) == 2000


@pytest.mark.parametrize(("scale", "precision", "expected"), [("-5", None, (38, 0)), ("40", "50", (38, 38)), ("3", "2", (3, 3)), ("2", "10", (10, 2))])  # fmt: skip
def test_decimals_of_any_scale(
    scale: str, precision: str | None, expected: tuple[int, int]
) -> None:
    parameters = {"scale": scale} | ({"connect.decimal.precision": precision} if precision else {})
    schema = struct(v={"type": "bytes", "name": LOGICAL + "Decimal", "parameters": parameters})
    seen = describe(pa.array([_bytes(enveloped(schema, {"v": "AQ=="}))], pa.binary()), Reading())
    assert columns_of(seen.records)[0].type == t.numeric(*expected)
