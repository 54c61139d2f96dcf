"""Random change events: Debezium's envelopes with a schema part and without, and upserts with their keys."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa

from icestream import types as t
from icestream.connectors.formats import ChangeDecoder, Changes, FieldSpec, blocks, values
from icestream.connectors.formats.changes import KeyDecoder
from icestream.connectors.formats.debezium import PLACEHOLDER, DebeziumDecoder, Unavailable
from icestream.connectors.formats.upsert import UpsertDecoder
from tests.fuzz.cases import SIZES, compare, describe_rows
from tests.fuzz.connect import damage, struct_of
from tests.fuzz.generate import Generator

Json = Any
_TIMES = ("Date", "Time", "MicroTime", "NanoTime", "Timestamp", "MicroTimestamp", "NanoTimestamp", "ZonedTimestamp", "ZonedTime")  # fmt: skip
KEY_TYPES = (t.INTEGER, t.BIGINT, t.VARCHAR, t.numeric(12, 2), t.DATE, t.TIMESTAMP, t.BYTEA)


class SlowDebezium(DebeziumDecoder):
    """Every event by itself."""

    def fast(self) -> blocks.Fast | None:
        """None: the careful way for all."""
        return None


class SlowUpsert(UpsertDecoder):
    """Every record by itself."""

    def fast(self, payloads: pa.BinaryArray) -> blocks.Fast | None:
        """None: the careful way for all."""
        return None


def row_schema(make: Generator, fields: list[tuple[str, t.Type]]) -> dict[str, Json]:
    """The schema of a row, with Debezium's own semantic types."""
    schema = struct_of(make, fields)
    types = dict(fields)
    for item in schema["fields"]:
        if types.get(item["field"]) in (t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ) and make.chance(
            0.5
        ):
            item["name"] = "io.debezium.time." + make.random.choice(_TIMES)
    return schema


def make_value(make: Generator, type: t.Type, schema: Json) -> str:
    """A value of a row; sometimes the placeholder, at any depth."""
    if make.chance(make.placeholders):
        unavailable = Unavailable(PLACEHOLDER)
        forms = [
            PLACEHOLDER,
            unavailable.base64,
            [PLACEHOLDER],
            list(unavailable.raw),
            {PLACEHOLDER: PLACEHOLDER},
        ]
        return json.dumps(make.random.choice(forms if make.odds else forms[:1]))
    if isinstance(type, t.StructType) and not make.is_odd():
        return (
            "{"
            + ",".join(
                f"{json.dumps(f.name)}:{make_value(make, f.type, None)}" for f in type.fields
            )
            + "}"
        )
    kind = schema.get("type") if isinstance(schema, dict) else None
    if make.is_odd():
        return make.odd()
    if kind == "bytes" or type in (t.BYTEA,):
        return json.dumps(make.base64(make.random.choice([0, 1, 2, 5, 15, 16, 17])))
    if isinstance(schema, dict) and "name" in schema and make.chance(0.9):
        return str(
            make.random.randint(0, 10_000)
            if "Date" in str(schema["name"])
            else make.random.randint(0, 86_000_000)
        )
    if type == t.JSONB:
        return json.dumps(make.document(1))
    return make.value(type)


def make_row(
    make: Generator, fields: tuple[FieldSpec, ...], schema: Json, keys: dict[str, str]
) -> str:
    """A row: the given texts for its key, any others for the rest."""
    if make.is_odd():
        return make.odd()
    known = (
        {f["field"]: f for f in schema["fields"] if isinstance(f.get("field"), str)}
        if isinstance(schema, dict)
        else {}
    )
    items = []
    for field in fields:
        if field.source is None and not make.chance(make.missing if not field.key else make.odds):
            text = keys.get(field.name) or make_value(make, field.type, known.get(field.name))
            items.append((make.respell(field.name) if make.is_odd() else field.name, text))
    return "{" + ",".join(f'"{n}":{v}' for n, v in items) + "}"


def make_event(make: Generator, fields: tuple[FieldSpec, ...], schema: Json) -> str:
    """An envelope."""
    op = make.random.choice(["c", "r", "u", "u", "d"])
    op = make.random.choice(["t", "m", "x", None, 1]) if make.is_odd() else op
    known = {f["field"]: f for f in schema["fields"]} if schema else {}

    def key() -> dict[str, str]:
        return {
            f.name: make_value(make, f.type, known.get(f.name))
            for f in fields
            if f.key and not f.source
        }

    old = key()
    new = old if make.chance(0.9) else key()
    before = make_row(make, fields, schema, old) if op == "d" or make.chance(0.3) else "null"
    after = "null" if op == "d" and not make.is_odd() else make_row(make, fields, schema, new)
    source = f'{{"db": "shop", "lsn": {make.random.randrange(9)}}}'
    source = make.odd() if make.is_odd() else source
    parts = [
        ("before", before),
        ("after", after),
        ("source", source),
        ("op", json.dumps(op)),
        ("ts_ms", "1"),
    ]
    if make.is_odd():
        parts.pop(make.random.randrange(len(parts)))
    return "{" + ",".join(f'"{n}":{v}' for n, v in parts) + "}"


def make_fields(make: Generator) -> tuple[FieldSpec, ...]:
    """Columns with a key, and some that INCLUDE takes from the source."""
    rest = tuple(replace(f, not_null=False) for f in make.fields() if f.name != "id")
    count = make.random.choice([1, 1, 1, 2])
    keys = tuple(
        FieldSpec(n, make.random.choice(KEY_TYPES if make.odds else KEY_TYPES[:3]), key=True)
        for n in ("id", "key2")[:count]
    )
    included = (FieldSpec("db", t.VARCHAR, source="db"), FieldSpec("lsn", t.BIGINT, source="lsn"))
    return (*keys, *rest, *(included[: make.random.randrange(3)] if make.chance(0.3) else ()))


def _envelope_schema(make: Generator, fields: tuple[FieldSpec, ...], row: Json) -> Json:
    """The schema of the events; of the row before it may say something else."""
    before = row if make.chance(0.9) else row_schema(make, [(f.name, f.type) for f in fields])
    parts = {
        "before": before,
        "after": row,
        "source": {"type": "struct", "fields": [{"field": "db", "type": "string"}]},
    }
    items = [{"field": n, **p} for n, p in parts.items() if not make.is_odd()]
    schema: Json = {"type": "struct", "fields": [*items, {"field": "op", "type": "string"}]}
    return damage(make, schema) if make.is_odd() else schema


def _run(
    decoder: ChangeDecoder, keys: list[bytes | None], payloads: list[bytes | None]
) -> list[str]:
    found: Changes = decoder.changes(pa.array(keys, pa.binary()), pa.array(payloads, pa.binary()))
    unset = (
        found.unset if found.unset is not None else pa.nulls(len(found.op), pa.list_(pa.int32()))
    )
    rows = describe_rows([found.record, found.op, unset, *found.columns], None)
    errors = found.errors.to_pylist() if found.errors is not None else []
    return [*rows, *(f"record {i}: {e}" for i, e in enumerate(errors) if e is not None)]


def _make_key(make: Generator, fields: tuple[FieldSpec, ...]) -> bytes | None:
    if make.is_odd():
        return make.random.choice(
            [
                None,
                b"x",
                b"7",
                b"{}",
                b'{"ID": 1}',
                b"\xff",
                b"[",
                make.odd().encode(errors="replace"),
            ]
        )
    keys = [(f.name, f.type) for f in fields if f.key and not f.source]
    return make.object(keys).encode(errors="replace")


def check_debezium(seed: int) -> int:
    """Change events both ways."""
    make = Generator(seed)
    make.placeholders = make.random.choice([0.0, 0.0, 0.02])
    fields = make_fields(make)
    options = {
        "numbers": make.random.choice(list(values.NUMBERS)),
        "ignore_key": make.chance(0.2),
        "decimals": make.random.choice(["guess", "guess", "precise", "string"]),
    }
    wrapped = make.chance(0.5)
    row = row_schema(make, [(f.name, f.type) for f in fields if not f.source])
    schema = _envelope_schema(make, fields, row)
    payloads: list[bytes | None] = []
    for _ in range(make.random.choice(SIZES)):
        if wrapped != make.is_odd():
            mine = damage(make, schema) if make.is_odd() else schema
            text = f'{{"schema": {json.dumps(mine)}, "payload": {make_event(make, fields, row)}}}'
        else:
            text = make_event(make, fields, None)
        payload = text.encode(errors="replace")
        payload = make.mutate(payload) if make.is_odd() else payload
        payloads.append(None if make.chance(0.02) else payload)
    keys = [_make_key(make, fields) for _ in payloads]
    fast = _run(DebeziumDecoder(fields, **options), keys, payloads)  # type: ignore[arg-type]
    careful = _run(SlowDebezium(fields, **options), keys, payloads)  # type: ignore[arg-type]
    return compare(seed, [*payloads], fast, careful, (fields, options))


def check_upsert(seed: int) -> int:
    """Rows and tombstones with their keys, with a schema or without, both ways."""
    make = Generator(seed)
    make.placeholders = 0.0
    fields = tuple(f for f in make_fields(make) if not f.source)
    numbers = make.random.choice(list(values.NUMBERS))
    row = row_schema(make, [(f.name, f.type) for f in fields])
    wrapped = make.chance(0.5)
    payloads: list[bytes | None] = []
    for _ in range(make.random.choice(SIZES)):
        if wrapped != make.is_odd():
            mine = damage(make, row) if make.is_odd() else row
            text = f'{{"schema": {json.dumps(mine)}, "payload": {make_row(make, fields, row, {})}}}'
        else:
            text = make_row(make, fields, None, {})
        payload = text.encode(errors="replace")
        payload = make.mutate(payload) if make.is_odd() else payload
        payloads.append(None if make.chance(0.05) else payload)
    keys = [_make_key(make, fields) for _ in payloads]
    fast = _run(UpsertDecoder(fields, numbers), keys, payloads)
    careful = _run(SlowUpsert(fields, numbers), keys, payloads)
    _check_keys(seed, fields, UpsertDecoder(fields, numbers), keys)
    return compare(seed, payloads, fast, careful, (fields, numbers))


def _check_keys(
    seed: int, fields: tuple[FieldSpec, ...], decoder: UpsertDecoder, keys: list[bytes | None]
) -> None:
    """The keys of records, both ways."""
    found = KeyDecoder(tuple(f for f in fields if f.key), decoder.reading)
    batch = pa.array([k for k in keys if k is not None], pa.binary())
    careful = blocks.one_by_one(batch, found.fields, found.record)
    fast = found.decode(batch)
    compare(
        seed,
        batch.to_pylist(),
        describe_rows(fast.columns, fast.errors),
        describe_rows(careful.columns, careful.errors),
        ("keys", found.fields),
    )
