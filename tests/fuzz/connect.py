"""Random records of Kafka Connect: values with a schema and without, damaged schemas too."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from icestream import types as t
from icestream.connectors.formats import FieldSpec
from icestream.kafka_connect import inference
from icestream.kafka_connect.records import Reading, RecordReader, Rows
from tests.fuzz.cases import SIZES, compare, describe_rows
from tests.fuzz.generate import Generator

Json = Any
_CONNECT = "org.apache.kafka.connect.data."
LOGICAL = (("int32", "Date"), ("int32", "Time"), ("int64", "Timestamp"))
ODD_PARTS: tuple[Json, ...] = (
    None, 5, "x", [], ["x"], {}, {"scale": "x"}, {"scale": 9_999_999}, {"scale": "-5"}, {"scale": [1]}, True, "struct",
    "int64", [1], [{"field": 5}], [{"field": "a"}], {"type": "array"}, {"type": "map", "keys": 1}, 1e400, -0.0,
    {"scale": "9" * 5000}, {"connect.decimal.precision": "-1"},
)  # fmt: skip
ODD_KEYS = (
    "type",
    "fields",
    "name",
    "parameters",
    "default",
    "items",
    "keys",
    "values",
    "optional",
    "field",
)


def schema_of(make: Generator, type: t.Type) -> dict[str, Json]:
    """A Connect schema that a column of that type may be filled from."""
    found = _schema(make, type)
    if make.is_odd():
        found["default"] = make.random.choice([1, "x", None, 0, "AQ==", {}, []])
    return found


def _schema(make: Generator, type: t.Type) -> dict[str, Json]:
    if make.is_odd():
        type = make.type(1)
    match type:
        case t.ArrayType(element=element):
            return {"type": "array", "items": schema_of(make, element)}
        case t.MapType(key=_, value=value):
            return {"type": "map", "keys": {"type": "string"}, "values": schema_of(make, value)}
        case t.StructType(fields=fields):
            return struct_of(make, [(f.name, f.type) for f in fields])
        case t.NumericType() if make.chance(0.5):
            scale = type.scale if make.chance(0.6) else make.random.randint(0, 40)
            return {
                "type": "bytes",
                "name": _CONNECT + "Decimal",
                "parameters": {"scale": str(scale)},
            }
        case t.DATE | t.TIME | t.TIMESTAMP | t.TIMESTAMPTZ | t.BIGINT if make.chance(0.6):
            if make.is_odd() or type == t.BIGINT:
                kind, name = make.random.choice(LOGICAL)
            else:
                kind, name = LOGICAL[{t.DATE: 0, t.TIME: 1}.get(type, 2)]
            return {"type": kind, "name": _CONNECT + name}
        case t.BYTEA:
            return {"type": "bytes"}
    scalars = {t.BOOLEAN: "boolean", t.REAL: "float", t.DOUBLE: "double", t.VARCHAR: "string"}
    return {"type": scalars.get(type, make.random.choice(["int32", "int64", "string", "double"]))}


def struct_of(make: Generator, fields: list[tuple[str, t.Type]]) -> dict[str, Json]:
    """The schema of an object; some fields are missing or spelled otherwise."""
    items = []
    for name, type in fields:
        if make.is_odd():
            continue
        items.append(
            {
                "field": make.random.choice([name.upper(), name]) if make.is_odd() else name,
                **schema_of(make, type),
            }
        )
    return {"type": "struct", "fields": items, "optional": False}


def payload_of(make: Generator, schema: Json, type: t.Type | None) -> str:
    """A JSON text for a schema, mostly one that fits it."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if make.is_odd():
        return make.odd()
    if make.chance(make.missing):
        return "null"
    match kind:
        case "bytes":
            return json.dumps(make.base64(make.random.choice([0, 1, 2, 5, 8, 15, 16, 17])))
        case "int32" | "int64" if "name" in schema:
            limit = 90_000_000 if "Time" in str(schema["name"]) else 3_000_000
            return str(make.random.randint(-limit if make.chance(0.3) else 0, limit))
        case "array" if isinstance(type, t.ArrayType):
            items = (
                payload_of(make, schema.get("items"), type.element)
                for _ in range(make.random.randrange(3))
            )
            return "[" + ",".join(items) + "]"
        case "struct":
            inner = {f.name: f.type for f in type.fields} if isinstance(type, t.StructType) else {}
            return _object(make, schema, inner)
    return make.value(type) if type is not None else make.document(1)


def _object(make: Generator, schema: Json, types: dict[str, t.Type]) -> str:
    fields = schema.get("fields")
    items = []
    for field in fields if isinstance(fields, list) else []:
        if (
            isinstance(field, dict)
            and isinstance(field.get("field"), str)
            and not make.chance(make.missing)
        ):
            name = field["field"]
            items.append((name, payload_of(make, field, types.get(name))))
    if make.chance(0.1):
        items += [(n, make.value(type)) for n, type in types.items() if n not in dict(items)]
    if make.is_odd():
        items.append((make.respell("schema"), "1"))
    return "{" + ",".join(f"{json.dumps(n, ensure_ascii=False)}:{v}" for n, v in items) + "}"


def damage(make: Generator, schema: Json) -> Json:
    """A schema with one part of another shape."""
    copy = json.loads(json.dumps(schema))
    places = [copy]
    for place in places:
        fields = place.get("fields")
        inner = [
            *(fields if isinstance(fields, list) else []), place.get("items"), place.get("values"),
        ]  # fmt: skip
        places += [p for p in inner if isinstance(p, dict)]
    make.random.choice(places)[make.random.choice(ODD_KEYS)] = make.random.choice(ODD_PARTS)
    return copy


def make_records(make: Generator, fields: tuple[FieldSpec, ...], route: bool) -> list[bytes | None]:
    """A batch of values, mostly all with the same schema or all without one."""
    types = {f.name: f.type for f in fields}
    schema = struct_of(make, list(types.items()))
    if route and not make.is_odd():
        schema["fields"].append({"field": "type", "type": "string"})
    if make.is_odd():
        schema = damage(make, schema)
    wrapped = make.chance(0.6)
    made: list[bytes | None] = []
    for _ in range(make.random.choice(SIZES)):
        if wrapped != make.is_odd():
            mine = damage(make, schema) if make.is_odd() else schema
            content = _object(make, mine, types) if not make.is_odd() else make.odd()
            text = f'{{"schema": {json.dumps(mine)}, "payload": {content}}}'
            if make.is_odd():
                text = text[:-1] + ', "more": {}}'
        else:
            text = make.object(list(types.items()))
        if route and text.endswith("}") and make.chance(0.9):
            name = make.random.choice(["type", "type", "Type", "TYPE"]) if make.is_odd() else "type"
            kind = make.random.choice(['"a"', '"b"', "1", "null"]) if make.is_odd() else '"a"'
            end = -2 if text.endswith("}}") else -1
            comma = "" if text[end - 1] in "{" else ","
            text = f'{text[:end]}{comma}"{name}":{kind}{text[end:]}'
        payload = text.encode(errors="replace")
        made.append(make.mutate(payload) if make.is_odd() else payload)
        if make.is_odd():
            made[-1] = None
    return made


def _describe(rows: Rows) -> list[str]:
    """The rows for the table and the reasons; what stands in the columns of other records does not matter."""
    described = describe_rows([*rows.columns, rows.good], rows.errors)
    is_skipped = [
        not good and not row.startswith("error")
        for good, row in zip(rows.good.to_pylist(), described, strict=True)
    ]
    return ["skipped" if skip else row for skip, row in zip(is_skipped, described, strict=True)]


def check_connect(seed: int) -> int:
    """Rows of a table both ways; what records look like never raises, and columns can be made of it."""
    make = Generator(seed)
    fields = make.fields(lambda: make.type(1))
    route = make.chance(0.3)
    reading = Reading(
        schemas=make.random.choice([None, None, True, False]),
        route_field=("type",) if route else (),
        route="a|1",
        case_insensitive=make.chance(0.3),
    )
    payloads = make_records(make, fields, route)
    batch = pa.array(payloads, pa.binary())
    reader = RecordReader(fields, reading)
    fast, careful = reader.read(batch), reader.decode(batch, None)
    seen = inference.describe(batch, reading)
    for column in inference.columns_of(seen.records):
        assert t.arrow_type(column.type) is not None
    inference.alterations(
        [(f.name, f.type) for f in fields], seen.records, fold=reading.case_insensitive
    )
    return compare(
        seed,
        payloads,
        _describe(fast),
        _describe(careful),
        (fields, reading),
    )
