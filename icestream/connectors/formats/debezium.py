"""FORMAT DEBEZIUM ENCODE JSON: change events of a database, as Debezium writes them to Kafka.

An event is an envelope {before, after, source, op, …}, inside {"schema", "payload"} or by itself. `Careful` is the
definition; `debezium_fast` reads whole blocks.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icestream import types as t
from icestream.connectors.formats import Changes, FieldSpec, blocks, values
from icestream.connectors.formats import changes as ch
from icestream.connectors.formats import connect_json as connect
from icestream.connectors.formats.json import document
from icestream.lake.fold import DELETE, OP, TRUNCATE, UNSET, UPSERT

PLACEHOLDER = "__debezium_unavailable_value"


@dataclass(frozen=True)
class DebeziumDecoder:
    """Change events into upserts, deletes and truncates of rows."""

    fields: tuple[FieldSpec, ...]
    numbers: str = values.GUESS
    ignore_key: bool = False
    placeholder: str = PLACEHOLDER
    decimals: str = "guess"
    partial = True

    @property
    def reads_key(self) -> bool:
        """Whether deletes may be told by the record's key."""
        return not self.ignore_key

    @property
    def reading(self) -> connect.Reading:
        """How values without a schema are read."""
        return connect.Reading(self.numbers, debezium=True, decimals=self.decimals)

    @property
    def keys(self) -> tuple[FieldSpec, ...]:
        """The columns of the primary key that are columns of the row."""
        return tuple(f for f in self.fields if f.key and f.source is None)

    @property
    def tombstone(self) -> int | None:
        """What a record without a payload does. A delete event stands before each, so it may be left out."""
        by_key = not self.ignore_key and all(f.source is None for f in self.fields if f.key)
        return ch.BY_KEY if by_key else None

    def changes(self, keys: pa.BinaryArray, payloads: pa.BinaryArray) -> Changes:
        """None, one or two changes for each event."""
        op = pc.if_else(keys.is_valid(), pa.scalar(self.tombstone, pa.int16()), None)
        outcomes = ch.with_tombstones(payloads, op, self._read)
        return ch.changes(self.fields, outcomes, keys, ch.KeyDecoder(self.keys, self.reading))

    def fast(self) -> blocks.Fast | None:
        """The fast way through a batch."""
        from icestream.connectors.formats.debezium_fast import Fast

        return Fast(self).decode

    def _read(self, payloads: pa.BinaryArray) -> ch.Outcomes:
        fields = (*self.fields, *self.marks)
        decoded = blocks.decode(payloads, fields, self.fast(), Careful(self).record)
        width = len(self.fields)
        op, unset, *old = decoded.columns[width:]
        return ch.Outcomes(decoded.columns[:width], op, decoded.errors, unset, old)

    @property
    def marks(self) -> tuple[FieldSpec, ...]:
        """What is read beside the columns: the outcome, the values that are not told, the key before."""
        old = (FieldSpec(f"before {f.name}", f.type) for f in self.keys)
        return (FieldSpec(OP, t.SMALLINT), FieldSpec(UNSET, t.array(t.INTEGER)), *old)


@dataclass(frozen=True)
class Unavailable:
    """How Debezium writes a large value that did not change and that the database did not send along."""

    text: str

    @cached_property
    def raw(self) -> bytes:
        """Its bytes: each is an item where the value is an array of numbers."""
        return self.text.encode()

    @cached_property
    def items(self) -> tuple[str, ...]:
        """What the single item of an array of texts is."""
        named = uuid.UUID(bytes=hashlib.md5(self.raw, usedforsecurity=False).digest(), version=3)
        return self.text, self.base64, str(named)

    @cached_property
    def base64(self) -> str:
        """How it is written for bytes."""
        return base64.b64encode(self.raw).decode()

    def texts(self, type: t.Type) -> tuple[str, ...]:
        """How it is written for a column of that type, if as a text."""
        written = (self.text, f'{{"{self.text}":"{self.text}"}}')
        return written if type == t.VARCHAR else (*written, self.base64)

    def stands_for(self, value: Any, type: t.Type) -> bool:
        """Whether a value says nothing but that it did not change, or a part of it does: no part can be kept alone."""
        match type, value:
            case t.StructType(fields=fields), dict():
                picked = values.pick(value, [(f.name, lambda v: v) for f in fields])
                if any(self.stands_for(picked[f.name], f.type) for f in fields):
                    return True
            case t.ArrayType(element=element), list():
                if any(self.stands_for(item, element) for item in value):
                    return True
            case t.MapType(key=of_key, value=of_value), dict():
                if any(
                    self.stands_for(k, of_key) or self.stands_for(v, of_value)
                    for k, v in value.items()
                ):
                    return True
        match value:
            case str():
                return value in self.texts(type)
            case [str() as item]:
                return item in self.items
            case list():
                return value == list(self.raw)
            case dict():
                return value == {self.text: self.text}
        return False


class Careful:
    """The definition: one event at a time."""

    def __init__(self, decoder: DebeziumDecoder) -> None:
        self.decoder = decoder
        self.unavailable = Unavailable(decoder.placeholder)
        self.row = tuple(f for f in decoder.fields if f.source is None)
        self.nothing = [None] * len(decoder.fields)
        self.no_key = [None] * len(decoder.keys)
        self._known: tuple[Any, dict[str, Any]] | None = None

    def record(self, payload: bytes) -> Sequence[Any]:
        """The values of the columns, then those of the marks; or ValueError with the reason."""
        value, schema = connect.unwrap(document(payload))
        if value is None and schema is not None:
            return [*self.nothing, self.decoder.tombstone, None, *self.no_key]
        if not isinstance(value, dict):
            raise ValueError("the payload is not a JSON object")
        op = value.get("op")
        match op:
            case "r" | "c" | "u":
                return self._upsert(value, schema)
            case "d":
                return self._delete(value, schema)
            case "t" if any(f.source is not None for f in self.decoder.fields if f.key):
                raise ValueError("a TRUNCATE of one of the tables that the topic holds")
            case "t":
                return [*self.nothing, TRUNCATE, None, *self.no_key]
            case "m":
                return [*self.nothing, None, None, *self.no_key]
            case None if _stands_aside(value):
                return [*self.nothing, None, None, *self.no_key]
            case None:
                raise ValueError("the payload has no op: it is not a Debezium envelope")
        raise ValueError(f"{values.show(op)} is not an op of Debezium")

    def _upsert(self, value: dict[str, Any], schema: connect.Schema | None) -> Sequence[Any]:
        after = value.get("after")
        if not isinstance(after, dict):
            raise ValueError(f"op {value['op']} without the row after it")
        found = values.pick(after, self._converters(schema)["after"])
        unset = [i for i, f in enumerate(self.decoder.fields) if found.get(f.name) is UNTOLD]
        told = {name: None if item is UNTOLD else item for name, item in found.items()}
        row = self._row(told, value, schema)
        if value["op"] == "u":
            before = self._key(value, schema)
            if before is not None and before != {name: told[name] for name in before}:
                return [*row, ch.MOVED, unset or None, *before.values()]
        return [*row, UPSERT, unset or None, *self.no_key]

    def _delete(self, value: dict[str, Any], schema: connect.Schema | None) -> Sequence[Any]:
        before = self._key(value, schema)
        if before is None and self.decoder.ignore_key:
            raise ValueError("op d without the key of its row")
        op = ch.BY_KEY if before is None else DELETE
        return [*self._row(before or {}, value, schema), op, None, *self.no_key]

    def _row(
        self, row: dict[str, Any], value: dict[str, Any], schema: connect.Schema | None
    ) -> list[Any]:
        """The columns: those of the row, and those that INCLUDE takes from the event's source."""
        source = value.get("source")
        source = source if isinstance(source, dict) else {}
        converters = self._converters(schema)["source"]
        return [
            row.get(f.name) if f.source is None else _included(f, source, converters)
            for f in self.decoder.fields
        ]

    def _key(self, value: dict[str, Any], schema: connect.Schema | None) -> dict[str, Any] | None:
        """The key of the row before, if it is all there."""
        before = value.get("before")
        if not self.decoder.keys:
            return {}
        if not isinstance(before, dict):
            return None
        key = values.pick(before, self._converters(schema)["key"])
        return None if any(item is None for item in key.values()) else key

    def _converters(self, schema: connect.Schema | None) -> dict[str, Any]:
        """The converters of all that is read by that schema; one after the other has the same."""
        if self._known is None or self._known[0] != schema:
            reading = self.decoder.reading
            after, before = connect.child(schema, "after"), connect.child(schema, "before")
            source = connect.child(schema, "source")

            def by(f: FieldSpec, inside: connect.Schema | None) -> values.Convert:
                return connect.converter(f.type, connect.child(inside, f.name), reading)

            self._known = (
                schema,
                {
                    "after": [(f.name, self._told(f.type, by(f, after))) for f in self.row],
                    "key": [(f.name, by(f, before)) for f in self.decoder.keys],
                    "source": {
                        f.name: connect.converter(f.type, connect.child(source, f.source), reading)
                        for f in self.decoder.fields
                        if f.source is not None
                    },
                },
            )
        return self._known[1]

    def _told(self, type: t.Type, convert: values.Convert) -> values.Convert:
        stands_for = self.unavailable.stands_for
        return lambda value: UNTOLD if stands_for(value, type) else convert(value)


UNTOLD = object()


def _included(
    field: FieldSpec, source: dict[str, Any], converters: dict[str, values.Convert]
) -> Any:
    item = source.get(field.source or "")
    try:
        return None if item is None else converters[field.name](item)
    except ValueError as error:
        raise ValueError(f"{field.name}: {error}") from None


def _stands_aside(value: dict[str, Any]) -> bool:
    """Whether it is a heartbeat, a change of a schema, or a transaction's begin or end."""
    return (
        value.keys() == {"ts_ms"}
        or {"source", "ddl"} <= value.keys()
        or (value.get("status") in ("BEGIN", "END") and "id" in value)
    )
