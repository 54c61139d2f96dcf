"""Kafka values → rows of a table, as Connect's JsonConverter and Iceberg's sink read them together.

The values' own way is `formats.json`'s: all of a block at once where that is right, record by record elsewhere. What
differs is the meaning: numbers for times are milliseconds, bytes are base64, a text column takes anything as JSON, a
value may be {"schema": …, "payload": …}, and a record may be for another table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icestream import types as t
from icestream.connectors import patterns
from icestream.connectors.formats import Decoded, FieldSpec, blocks, check_not_null, values
from icestream.kafka_connect.convert import Picker, as_text
from icestream.kafka_connect.schema import ConnectSchema, check_map, parse_schema, restore

KEEP = "\0keep"
"""The column beside a row's own: whether the record is for this table at all."""
_SHORT, _KNOWN = 100, 10_000
_OPENING = re.compile(r'\s*\{\s*"schema"\s*:\s*')
_MIDDLE = re.compile(r'\s*,\s*"payload"\s*:\s*')


@dataclass(frozen=True)
class Reading:
    """How values are to be read: with or without their schema (None: as they look), and which are for the table."""

    schemas: bool | None = None
    route_field: tuple[str, ...] = ()
    route: str | None = None
    case_insensitive: bool = False

    def payload(self, text: str) -> tuple[Any, ConnectSchema | None]:
        """The value's content and its schema, if it carries one; ValueError if it is no JSON that Connect takes."""
        value, raw = self.unwrap(text)
        return value, None if raw is None else parse_schema(raw)

    def unwrap(self, text: str) -> tuple[Any, Any]:
        """The same with the schema as it stands there."""
        try:
            value = values.parse(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"invalid JSON: {error}") from None
        if "\\u" in text:
            _no_lone_surrogates(value)
        enveloped = isinstance(value, dict) and value.keys() == {"schema", "payload"}
        if self.schemas and not enveloped:
            raise ValueError('the value is not {"schema": …, "payload": …}')
        if not enveloped or self.schemas is False:
            return value, None
        if value["schema"] is None:
            return value["payload"], None
        if self.schemas is None and not (
            isinstance(value["schema"], dict) and isinstance(value["schema"].get("type"), str)
        ):
            return value, None
        return value["payload"], value["schema"]

    def wants(self, value: Any, schema: ConnectSchema | None = None) -> bool:
        """Whether a record's content is for the table. The names of the route field match exactly, as in Connect."""
        if value is None:
            return False
        if not self.route_field:
            return True
        for name in self.route_field:
            if schema is not None and schema.type == "struct":
                schema = schema.fields.get(name)
                if schema is None:
                    return False
            elif schema is not None:
                schema = schema.element
            value = value.get(name) if isinstance(value, dict) else None
            if value is None and schema is not None:
                value = schema.default
        found = value if schema is None else restore(value, schema)
        return found is not None and self._matches(as_text(found))

    def _matches(self, text: str) -> bool:
        known = self._known.get(text)
        if known is None:
            (known,) = self.matching(pa.array([text], pa.string())).to_pylist()
            if len(text) <= _SHORT and len(self._known) < _KNOWN:
                self._known[text] = known
        return known

    def matching(self, texts: pa.Array) -> pa.BooleanArray:
        """Whether values of the route field are those of the table; NULL is none."""
        found = pc.match_substring_regex(texts, patterns.whole(self.route or ""))
        return pc.fill_null(found, False)

    @cached_property
    def _known(self) -> dict[str, bool]:
        """Short values that were looked at before."""
        return {}


@dataclass(frozen=True)
class Rows:
    """A batch after reading: the columns, which records are for the table, and what is wrong with those that fail."""

    columns: list[pa.Array]
    good: pa.BooleanArray
    errors: pa.Array | None


@dataclass(frozen=True)
class RecordReader:
    """Fills the columns of one table. A small picklable value, sent to the executors."""

    fields: tuple[FieldSpec, ...]
    reading: Reading

    def read(self, payloads: pa.BinaryArray) -> Rows:
        """Every payload as a row, skipped, or its reason. NULL payloads (tombstones) are skipped."""
        from icestream.kafka_connect.records_fast import fast_reader

        fast = fast_reader(self.fields, self.reading, payloads)
        return self.decode(payloads, fast)

    def decode(self, payloads: pa.BinaryArray, fast: blocks.Fast | None) -> Rows:
        """The same, with that fast way."""
        careful = Careful(self.fields, self.reading)
        fields = (*self.fields, FieldSpec(KEEP, t.BOOLEAN))
        decoded = blocks.decode(payloads, fields, fast, careful.record)
        keep = decoded.columns[-1]
        checked = check_not_null(self.fields, Decoded(decoded.columns[:-1], decoded.errors))
        errors = checked.errors
        if errors is None:
            return Rows(checked.columns, keep, None)
        skipped = pc.fill_null(pc.invert(keep), pc.is_null(payloads))
        errors = pc.if_else(skipped, pa.scalar(None, pa.string()), errors)
        good = pc.and_(pc.fill_null(keep, False), errors.is_null())
        return Rows(checked.columns, good, errors if errors.null_count < len(errors) else None)


class Careful:
    """The definition: one payload at a time."""

    def __init__(self, fields: tuple[FieldSpec, ...], reading: Reading) -> None:
        self.reading = reading
        self.fields = [(f.name, f.type) for f in fields]
        self.without_schema = Picker(self.fields, None, reading.case_insensitive)
        self._known: tuple[Any, ConnectSchema, Picker] | None = None

    def record(self, payload: bytes) -> Sequence[Any]:
        """The columns' values and whether to keep them, or ValueError with the reason."""
        value, raw = self.reading.unwrap(blocks.text_of(payload))
        schema, picker = (None, self.without_schema) if raw is None else self._by_schema(raw)
        if value is None and schema is not None:
            value = schema.default
        if schema is not None and schema.type == "map" and value is not None:
            value = dict(check_map(value))
        if value is not None and not isinstance(value, dict):
            raise ValueError("the value is not a JSON object")
        if value is None or not self.reading.wants(value, schema):
            return [*([None] * len(self.fields)), False]
        return [*picker.pick(value), True]

    def _by_schema(self, raw: Any) -> tuple[ConnectSchema, Picker]:
        """What a schema means; one record after the other has the same."""
        if self._known is None or self._known[0] != raw:
            schema = parse_schema(raw)
            picker = Picker(self.fields, schema, self.reading.case_insensitive)
            self._known = raw, schema, picker
        return self._known[1:]


def envelope(payload: bytes) -> tuple[bytes, ConnectSchema] | None:
    """What stands before the payload of {"schema": …, "payload": …}, and the schema; None for all other values."""
    try:
        text = payload.decode()
        opening = _OPENING.match(text)
        if opening is None:
            return None
        _, end = json.JSONDecoder().raw_decode(text, opening.end())
        middle = _MIDDLE.match(text, end)
        if middle is None:
            return None
        whole: Mapping[str, Any] = values.parse(f"{text[: middle.end()]}null}}")
        if "\\u" in text[: middle.end()]:
            _no_lone_surrogates(whole)
        return text[: middle.end()].encode(), parse_schema(whole["schema"])
    except Exception:  # any JSON can stand where a schema should be
        return None


def _no_lone_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        raise ValueError("invalid JSON: a string holds half of a surrogate pair") from None
