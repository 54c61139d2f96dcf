"""Kafka values → rows of a table, as Connect's JsonConverter and Iceberg's sink read them together.

The values' own way is `formats.json`'s: all of a block at once where that is right, record by record elsewhere. What
differs is the meaning: numbers for times are milliseconds, bytes are base64, a text column takes anything as JSON, a
value may be {"schema": …, "payload": …}, and a record may be for another table.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icestream import types as t
from icestream.connectors.formats import Decoded, FieldSpec, blocks, check_not_null, values
from icestream.connectors.formats.json import JsonDecoder
from icestream.kafka_connect.schema import ConnectSchema, parse_schema, plain, restore

KEEP = "\0keep"
"""The column beside a row's own: whether the record is for this table at all."""
UNIT = "milli"
_OPENING = re.compile(r'\s*\{\s*"schema"\s*:\s*')
_MIDDLE = re.compile(r'\s*,\s*"payload"\s*:\s*')
_ZONE = r":\d\d(\.\d+)?[+-]\d\d"  # a time with an offset, which Arrow would add
_Convert = values.Convert


@dataclass(frozen=True)
class Reading:
    """How values are to be read: with or without their schema (None: as they look), and which are for the table."""

    schemas: bool | None = None
    route_field: tuple[str, ...] = ()
    route: str | None = None
    case_insensitive: bool = False

    def payload(self, text: str) -> tuple[Any, ConnectSchema | None]:
        """The value's content and its schema, if it carries one; ValueError if it is no JSON that Connect takes."""
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
        schema = parse_schema(value["schema"])
        return restore(value["payload"], schema), schema

    def wants(self, value: Any) -> bool:
        """Whether a record's content is for the table."""
        if value is None:
            return False
        if not self.route_field:
            return True
        for name in self.route_field:
            value = value.get(name) if isinstance(value, dict) else None
        return value is not None and self.matches(as_text(value))

    def matches(self, text: str | None) -> bool:
        """Whether the route field's value is one of the table's."""
        return text is not None and self.pattern.fullmatch(text) is not None

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The route's pattern, compiled where it is used."""
        return re.compile(self.route or "")


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
        careful = _Careful(self.fields, self.reading)
        fields = (*self.fields, FieldSpec(KEEP, t.BOOLEAN))
        fast = _Fast(self.fields, self.reading, payloads).decode
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


class _Careful:
    """The definition: one payload at a time."""

    def __init__(self, fields: tuple[FieldSpec, ...], reading: Reading) -> None:
        self.reading = reading
        fold = reading.case_insensitive
        self.converters = [(f.name, _converter(f.type, fold)) for f in fields]

    def record(self, payload: bytes) -> Sequence[Any]:
        """The columns' values and whether to keep them, or ValueError with the reason."""
        value, _ = self.reading.payload(blocks.text_of(payload))
        if value is not None and not isinstance(value, dict):
            raise ValueError("the value is not a JSON object")
        if value is None or not self.reading.wants(value):
            return [*([None] * len(self.converters)), False]
        picked = _pick(value, self.converters, self.reading.case_insensitive)
        return [*(picked[name] for name, _ in self.converters), True]


# -- all at once -------------------------------------------------------------------------------------


class _Fast:
    """Blocks of records that look like the first one."""

    def __init__(
        self, fields: tuple[FieldSpec, ...], reading: Reading, payloads: pa.BinaryArray
    ) -> None:
        self.fields = fields
        self.reading = reading
        self.local = any("timestamp" in re.findall(r"\w+", str(f.type)) for f in fields)
        self.prefix: bytes | None = None
        self.inner: blocks.Fast | None = None
        sample = [p for p in payloads[:3].to_pylist() if p is not None]
        if reading.schemas is not False and sample:
            found = envelope(sample[0])
            if found is not None and plain(found[1]):
                self.prefix = found[0]
                sample = [p[len(self.prefix) : -1] for p in sample]
        if not sample or (self.prefix is None and reading.schemas):
            return
        wanted, self.route = _with_route(_instants(fields, sample[0]), reading)
        if wanted:
            decoder = JsonDecoder(wanted, UNIT)
            exact = not reading.case_insensitive
            self.inner = decoder.fast(pa.array(sample, pa.binary()), exact=exact)

    def decode(self, payloads: pa.BinaryArray) -> list[pa.Array] | None:
        """The columns and which rows to keep, or None where only the careful way is right."""
        if self.inner is None:
            return None
        if self.prefix is not None:
            stripped = _strip(payloads, self.prefix)
            if stripped is None:
                return None
            payloads = stripped
        elif self.reading.schemas is None and _may_be_envelope(payloads):
            return None
        if self.local and pc.any(pc.match_substring_regex(payloads, _ZONE)).as_py():
            return None
        columns = self.inner(payloads)
        if columns is None:
            return None
        keep = self._kept(columns, len(payloads))
        columns = columns[: len(self.fields)]
        for index, field in enumerate(self.fields):
            if field.type == t.TIMESTAMP:
                columns[index] = columns[index].cast(t.arrow_type(t.TIMESTAMP))
        return [*columns, keep]

    def _kept(self, columns: list[pa.Array], length: int) -> pa.BooleanArray:
        if not self.reading.route_field:
            return pa.array([True] * length, pa.bool_())
        column = columns[self.route]
        for _ in self.reading.route_field[1:]:
            column = column.flatten()[0]
        found = column.dictionary_encode()
        matches = [self.reading.matches(v) for v in found.dictionary.to_pylist()]
        kept = pa.array(matches, pa.bool_()).take(found.indices)
        return pc.fill_null(kept, False)


def _instants(fields: tuple[FieldSpec, ...], sample: bytes) -> tuple[FieldSpec, ...]:
    """Timestamps that are numbers are read as timestamptz, for which a number's unit is fixed."""
    try:
        found = json.loads(sample)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return fields
    return tuple(
        FieldSpec(f.name, t.TIMESTAMPTZ)
        if f.type == t.TIMESTAMP and isinstance(found.get(f.name), int)
        else f
        for f in fields
    )


def _with_route(
    fields: tuple[FieldSpec, ...], reading: Reading
) -> tuple[tuple[FieldSpec, ...], int]:
    """The fields, among them the one that the route looks at, and its number; none where it cannot be read so."""
    if not reading.route_field:
        return fields, 0
    first, *rest = reading.route_field
    for number, field in enumerate(fields):
        if field.name == first:
            return (fields if not rest and field.type == t.VARCHAR else ()), number
    type: t.Type = t.VARCHAR
    for name in reversed(rest):
        type = t.struct((name, type))
    return (*fields, FieldSpec(first, type)), len(fields)


def envelope(payload: bytes) -> tuple[bytes, ConnectSchema] | None:
    """What stands before the payload of {"schema": …, "payload": …}, and the schema; None for all other values."""
    try:
        text = payload.decode()
        opening = _OPENING.match(text)
        if opening is None:
            return None
        raw, end = json.JSONDecoder().raw_decode(text, opening.end())
        middle = _MIDDLE.match(text, end)
        return middle and (text[: middle.end()].encode(), parse_schema(raw))
    except (ValueError, RecursionError):
        return None


def _strip(payloads: pa.BinaryArray, prefix: bytes) -> pa.BinaryArray | None:
    """The payloads inside envelopes that all begin alike."""
    alike = pc.and_(pc.starts_with(payloads, prefix), pc.ends_with(payloads, b"}"))
    if not pc.all(alike).as_py():
        return None
    return pc.binary_slice(payloads, len(prefix), -1)


def _may_be_envelope(payloads: pa.BinaryArray) -> bool:
    return bool(
        pc.any(
            pc.and_(
                pc.match_substring(payloads, b'"schema"'),
                pc.match_substring(payloads, b'"payload"'),
            )
        ).as_py()
    )


# -- one by one --------------------------------------------------------------------------------------


def _converter(type: t.Type, fold: bool) -> _Convert:
    """A function from a JSON value (not None) to a value of that type, or ValueError."""
    match type:
        case t.ArrayType(element=element):
            return _array(_converter(element, fold))
        case t.StructType(fields=fields):
            return _struct([(f.name, _converter(f.type, fold)) for f in fields], fold)
        case t.MapType(key=key, value=value):
            return _map(_converter(key, fold), _converter(value, fold))
        case t.VARCHAR:
            return as_text
        case t.BOOLEAN:
            return _boolean
        case t.BYTEA:
            return _bytea
        case t.TIME:
            return _time
        case t.TIMESTAMP:
            return _local_instant
    return values.converter(type, UNIT)


def as_text(value: Any) -> str:
    """Any value as a text: what is no text is written as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_number)


def _number(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    return as_text(value)


def _boolean(value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return bool(values.converter(t.BOOLEAN)(value))


def _bytea(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (ValueError, binascii.Error):
            pass
    raise ValueError("not bytes in base64")


def _time(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        value = value * 1000
    return int(values.converter(t.TIME)(value))


_OFFSET = re.compile(r"(?<=\d)(?:Z|[+-]\d\d(?::?\d\d)?)$")


def _local_instant(value: Any) -> int:
    """A timestamp without zone: of a text with one, what the clock showed."""
    if isinstance(value, str) and ":" in value:
        value = _OFFSET.sub("", value.strip())
    return int(values.converter(t.TIMESTAMPTZ, UNIT)(value))


def _array(element: _Convert) -> _Convert:
    def convert(value: Any) -> Any:
        if not isinstance(value, list):
            raise ValueError("not an array")
        return [None if v is None else element(v) for v in value]

    return convert


def _struct(fields: list[tuple[str, _Convert]], fold: bool) -> _Convert:
    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError("not an object")
        return _pick(value, fields, fold)

    return convert


def _map(key: _Convert, element: _Convert) -> _Convert:
    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError("not an object")
        return [(key(k), None if v is None else element(v)) for k, v in value.items()]

    return convert


def _pick(value: dict[str, Any], fields: list[tuple[str, _Convert]], fold: bool) -> dict[str, Any]:
    """The fields of an object, converted; names match exactly, or without regard to case."""
    folded = {k.lower(): v for k, v in value.items()} if fold else value
    result: dict[str, Any] = {}
    for name, convert in fields:
        item = value.get(name)
        if item is None and fold and name not in value:
            item = folded.get(name.lower())
        try:
            result[name] = None if item is None else convert(item)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return result


def _no_lone_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        raise ValueError("invalid JSON: a string holds half of a surrogate pair") from None
