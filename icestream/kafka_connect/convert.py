"""One JSON value → a value of a column's type, by the value's Connect schema where there is one.

Only what a column takes is looked at: a field that no column asks for can hold anything.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from icestream import types as t
from icestream.connectors.formats import values
from icestream.kafka_connect.schema import (
    DATE,
    TIME,
    ConnectSchema,
    check_array,
    check_map,
    check_struct,
    restore,
    restore_bytes,
)

UNIT = "milli"
"""A number for a timestamp is milliseconds."""
DAY_MS = 86_400_000
Convert = values.Convert
FieldTypes = Sequence[tuple[str, t.Type]]


def pick_fields(
    value: Mapping[str, Any], fields: FieldTypes, schema: ConnectSchema | None, fold: bool
) -> list[Any]:
    """The values of columns out of an object, or ValueError with the column's name and the reason."""
    return Picker(fields, schema, fold).pick(value)


class Picker:
    """Takes the values of columns out of objects that have all the same schema, or none."""

    def __init__(self, fields: FieldTypes, schema: ConnectSchema | None, fold: bool) -> None:
        self.fold = fold
        self.fields = [self._field(name, type, schema) for name, type in fields]

    def _field(
        self, name: str, type: t.Type, schema: ConnectSchema | None
    ) -> tuple[str, str | None, Any, Convert]:
        """The column's name, the name in the object (None: any case), the default, and the converter."""
        if schema is None or schema.type not in ("struct", "map"):
            return name, None, None, converter(type, None, self.fold)
        if schema.type == "map":
            return name, None, None, converter(type, schema.element, self.fold)
        found = schema.find(name, self.fold)
        if found is None:  # Connect drops fields that the schema does not have
            return name, name, None, _drop
        inner = schema.fields[found]
        return name, found, inner.default, converter(type, inner, self.fold)

    def pick(self, value: Mapping[str, Any]) -> list[Any]:
        """The values, or ValueError with the column's name and the reason."""
        folded: dict[str, Any] | None = None
        result: list[Any] = []
        for name, source, default, convert in self.fields:
            item = value.get(source or name)
            if item is None and source is None and self.fold and name not in value:
                if folded is None:
                    folded = {k.lower(): v for k, v in value.items()}
                item = folded.get(name.lower())
            if item is None:
                item = default
            try:
                result.append(None if item is None else convert(item))
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        return result


def _drop(value: Any) -> None:
    return None


def converter(type: t.Type, schema: ConnectSchema | None, fold: bool) -> Convert:
    """A function from a JSON value (not None) to a value of that type, or ValueError."""
    kind = schema.type if schema is not None else None
    match type:
        case t.ArrayType(element=element):
            inner = schema.element if schema is not None and kind == "array" else None
            return _array(element, inner, fold)
        case t.StructType(fields=fields):
            return _struct([(f.name, f.type) for f in fields], schema, fold)
        case t.MapType():
            return _map(type, schema, fold)
    plain = _plain(type)
    if schema is None:
        return plain
    if schema.time_kind is not None:
        return lambda v: _from_count(v, type, schema, plain)
    if type == t.VARCHAR or kind in ("struct", "array", "map"):
        return lambda v: plain(restore(v, schema))
    if kind == "bytes":
        return lambda v: plain(restore_bytes(v, schema))
    return plain


def _plain(type: t.Type) -> Convert:
    match type:
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
        case t.JSONB:
            return lambda v: values.to_jsonb(values.parse(as_json(v)))
    return values.converter(type, UNIT)


def _from_count(value: Any, type: t.Type, schema: ConnectSchema, plain: Convert) -> Any:
    """A date, time or timestamp, which Connect writes as a number of days or milliseconds."""
    if not isinstance(value, int) or isinstance(value, bool):
        return plain(value)
    kind = schema.time_kind
    match type:
        case t.VARCHAR | t.JSONB:
            return plain(value)
        case t.TIMESTAMP | t.TIMESTAMPTZ if kind != TIME:
            return plain(value * DAY_MS if kind == DATE else value)
        case t.DATE if kind != TIME:
            return plain(value if kind == DATE else value // DAY_MS)
        case t.TIME if kind == TIME:
            return plain(value)
        case t.DATE | t.TIME | t.TIMESTAMP | t.TIMESTAMPTZ | t.BOOLEAN | t.BYTEA:
            raise ValueError(f"{(kind or '').rpartition('.')[2]} is not a valid {type}")
    return plain(value * 1000 if kind == TIME else value)  # a column of numbers has microseconds


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
    return as_json(value)


def as_json(value: Any) -> str:
    """Any value as JSON, bytes as base64."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_number)


def _number(value: Any) -> Any:
    if isinstance(value, Decimal):
        number = float(value)
        return number if abs(number) != float("inf") else str(value)
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


def _local_instant(value: Any) -> int:
    """A timestamp without zone: of a text with one, what the clock showed."""
    if isinstance(value, str):
        return values.clock_reading(value)
    return int(values.converter(t.TIMESTAMPTZ, UNIT)(value))


def _array(element: t.Type, schema: ConnectSchema | None, fold: bool) -> Convert:
    inner = converter(element, schema, fold)
    default = schema.default if schema is not None else None

    def convert(value: Any) -> Any:
        if not isinstance(value, list):
            raise ValueError("not an array")
        items = (default if v is None else v for v in check_array(value))
        return [None if v is None else inner(v) for v in items]

    return convert


def _struct(fields: FieldTypes, schema: ConnectSchema | None, fold: bool) -> Convert:
    picker = Picker(fields, schema, fold)

    def convert(value: Any) -> Any:
        if schema is not None and schema.type == "map":
            value = dict(check_map(value))
        if not isinstance(value, dict):
            raise ValueError("not an object")
        return dict(zip((n for n, _ in fields), picker.pick(value), strict=True))

    return convert


def _map(type: t.MapType, schema: ConnectSchema | None, fold: bool) -> Convert:
    key = converter(type.key, None, fold)
    is_struct = schema is not None and schema.type == "struct"
    inner = schema.element if schema is not None and schema.type == "map" else None
    element = converter(type.value, inner, fold)
    default = inner.default if inner is not None else None
    known = schema.fields if schema is not None and is_struct else {}
    by_name = {n: converter(type.value, s, fold) for n, s in known.items()}

    def convert(value: Any) -> Any:
        if is_struct:
            pairs = [(n, v) for n, v in check_struct(value).items() if n in by_name]
        elif inner is not None:
            pairs = [(k, default if v is None else v) for k, v in check_map(value)]
        elif isinstance(value, dict):
            pairs = list(value.items())
        else:
            raise ValueError("not an object")
        return [(key(k), None if v is None else by_name.get(k, element)(v)) for k, v in pairs]

    return convert
