from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from icestream import types as t
from icestream.kafka_connect import inference
from icestream.kafka_connect.inference import Alteration, NewColumn
from icestream.kafka_connect.records import Reading
from icestream.kafka_connect.tables import table_columns

LOGICAL = "org.apache.kafka.connect.data."


def seen(values: list[Any], **reading: Any) -> inference.Description:
    """What two batches of the values look like, after the journey from the executors."""
    payloads = [v if v is None or isinstance(v, bytes) else json.dumps(v).encode() for v in values]
    half = len(payloads) // 2
    batches = [pa.array(p, pa.binary()) for p in (payloads[:half], payloads[half:])]
    found = [inference.describe(b, Reading(**reading)).records.to_json() for b in batches]
    return inference.merged(json.loads(json.dumps(found)), fold=Reading(**reading).case_insensitive)


def types(values: list[Any], **reading: Any) -> dict[str, str]:
    return {c.name: str(c.type) for c in inference.columns_of(seen(values, **reading))}


def with_schema(payload: Any, **fields: Any) -> dict[str, Any]:
    items = [{"field": k, **(v if isinstance(v, dict) else {"type": v})} for k, v in fields.items()]
    return {"schema": {"type": "struct", "fields": items}, "payload": payload}


def test_types_without_a_schema() -> None:
    record = {
        "id": 1, "price": 1.5, "name": "x", "ok": True, "at": "2024-01-01T00:00:00Z", "none": None,
        "empty": [], "nothing": {}, "tags": ["a"], "inner": {"a": 1, "b": [{"c": 0.5}]},
        "": 1, "a.b": 1,
    }  # fmt: skip
    assert types([record] * 4) == {
        "id": "bigint",
        "price": "double precision",
        "name": "varchar",
        "ok": "boolean",
        "at": "varchar",
        "tags": "varchar[]",
        "inner": "struct<a bigint, b struct<c double precision>[]>",
    }


def test_whole_numbers_and_fractions_are_one_kind() -> None:
    assert types([{"n": 1}, {"n": 1.5}, {"n": 2**70}]) == {"n": "double precision"}


def test_most_records_decide() -> None:
    values = [{"id": n, "name": "x"} for n in range(200)]
    values[7]["id"] = "poison"
    values[150]["name"] = {"odd": 1}
    assert types(values) == {"id": "bigint", "name": "varchar"}
    one_by_one = inference.describe(pa.array([b"{", b"[1]", b'{"a":1}'], pa.binary()), Reading())
    assert one_by_one.bad == 2


def test_fields_gather_from_all_records() -> None:
    values: list[Any] = [{"a": 1}, None, {"b": {"x": 1}}, {"b": {"y": "t"}, "c": [None, 2]}]
    assert types(values) == {"a": "bigint", "b": "struct<x bigint, y varchar>", "c": "bigint[]"}


def test_only_records_for_the_table_count() -> None:
    values = [{"kind": "a", "x": 1}, {"kind": "b", "y": 1}, {"z": 1}] * 50
    route = {"route_field": ("kind",), "route": "a"}
    assert types(values, **route) == {"kind": "varchar", "x": "bigint"}
    assert types([{"m": {"k": 7}, "x": 1}, {"m": {"k": 8}, "y": 1}], route_field=("m", "k"), route="7") == {
        "m": "struct<k bigint>",
        "x": "bigint",
    }  # fmt: skip


def test_names_that_differ_by_case() -> None:
    values = [{"Id": 1}, {"ID": 2}]
    assert types(values) == {"Id": "bigint", "ID": "bigint"}
    assert types(values, case_insensitive=True) == {"Id": "bigint"}


def test_types_of_a_schema() -> None:
    value = with_schema(
        {},
        a="int8", b="int16", c="int32", d="int64", e="float", f="double", g="boolean", h="string",
        i="bytes",
        j={"type": "bytes", "name": LOGICAL + "Decimal", "parameters": {"scale": "2"}},
        k={"type": "int32", "name": LOGICAL + "Date"},
        l={"type": "int32", "name": LOGICAL + "Time"},
        m={"type": "int64", "name": LOGICAL + "Timestamp", "optional": True},
        n={"type": "array", "items": {"type": "int32"}},
        o={"type": "map", "keys": {"type": "string"}, "values": {"type": "double"}},
        p={"type": "struct", "fields": [{"field": "q", "type": "string"}]},
    )  # fmt: skip
    found = inference.columns_of(seen([value] * 4))
    assert {c.name: str(c.type) for c in found} == {
        "a": "integer", "b": "integer", "c": "integer", "d": "bigint", "e": "real",
        "f": "double precision", "g": "boolean", "h": "varchar", "i": "bytea",
        "j": "numeric(38,2)", "k": "date", "l": "time", "m": "timestamptz", "n": "integer[]",
        "o": "map(varchar,double precision)", "p": "struct<q varchar>",
    }  # fmt: skip
    assert {c.name for c in found if not c.required} == {"m"}


def test_a_required_field_that_some_records_lack_is_optional() -> None:
    values = [with_schema({}, a="int32", b="int32"), with_schema({}, a="int64")]
    assert inference.columns_of(seen(values)) == [
        NewColumn("a", t.BIGINT, True),
        NewColumn("b", t.INTEGER, False),
    ]


def test_what_a_table_has_to_become() -> None:
    have = [
        ("i", t.INTEGER), ("r", t.REAL), ("s", t.struct(("a", t.BIGINT))),
        ("l", t.array(t.struct(("x", t.BIGINT)))), ("n", t.numeric(5, 2)), ("small", t.INTEGER),
    ]  # fmt: skip
    values = [{"i": 2**40, "r": 0.5, "s": {"a": 1, "b": {"c": "x"}}, "l": [{"y": True}], "new": 1, "small": 5}]  # fmt: skip
    assert inference.alterations(have, seen(values)) == [
        Alteration(("i",), t.BIGINT),
        Alteration(("s", "b"), t.struct(("c", t.VARCHAR)), add=True),
        Alteration(("l", "element", "y"), t.BOOLEAN, add=True),
        Alteration(("new",), t.BIGINT, add=True),
    ]
    decimal = {"type": "bytes", "name": LOGICAL + "Decimal", "parameters": {"scale": "2", "connect.decimal.precision": "9"}}  # fmt: skip
    assert inference.alterations(have, seen([with_schema({}, r="double", n=decimal)])) == [
        Alteration(("r",), t.DOUBLE),
        Alteration(("n",), t.numeric(9, 2)),
    ]
    assert inference.alterations(have, seen([{"I": 1}]), fold=True) == []


def test_the_columns_of_a_table() -> None:
    def field(name: str, type: Any, required: bool = False) -> dict[str, Any]:
        return {"id": 1, "name": name, "required": required, "type": type}

    inner = {"type": "struct", "fields": [field("a", "decimal(9, 2)")]}
    items = {"type": "list", "element-id": 2, "element": inner, "element-required": False}
    schema = {"type": "struct", "fields": [field("id", "long", True), field("items", items)]}
    columns = table_columns(json.dumps(schema))
    assert [(c.name, str(c.type), c.not_null) for c in columns] == [
        ("id", "bigint", True),
        ("items", "struct<a numeric(9,2)>[]", False),
    ]
    for type in ("uuid", "time", "fixed[3]", "timestamp_ns"):
        with pytest.raises(ValueError, match=r"column x is .* cannot be written"):
            table_columns(json.dumps({"fields": [field("x", type)]}))
