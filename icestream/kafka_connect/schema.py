"""The schema inside a JSON value, as Connect's JsonConverter writes it.

Nothing in it is certain: a record can carry any JSON where its schema should be. `parse_schema` raises ValueError, which
makes the record a dead letter.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any

INTEGERS = ("int8", "int16", "int32", "int64")
SCALARS = (*INTEGERS, "float", "double", "boolean", "string", "bytes")
_ALIASES = {"float32": "float", "float64": "double"}
DECIMAL = "org.apache.kafka.connect.data.Decimal"
DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"

MAX_SCALE = 16_383
"""The largest scale of a decimal, PostgreSQL's."""
MAX_BYTES = 61_500
"""Bytes of a decimal's digits: as many as PostgreSQL's longest has. Converting more takes time."""
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


@dataclass(frozen=True)
class ConnectSchema:
    """A type of Connect's."""

    type: str
    optional: bool = False
    logical: str | None = None
    scale: int = 0
    precision: int = 0
    """Of a decimal, where its schema tells (connect.decimal.precision); 0: not told."""
    default: Any = None
    fields: Mapping[str, ConnectSchema] = field(default_factory=dict)
    key: ConnectSchema | None = None
    element: ConnectSchema | None = None
    """Of an array's items, or a map's values."""

    @property
    def time_kind(self) -> str | None:
        """DATE, TIME or TIMESTAMP, where the value is a number that means one."""
        return self.logical if (self.type, self.logical) in _TIMES else None

    def find(self, name: str, fold: bool) -> str | None:
        """The struct's field for a column: of that name, or (`fold`) the last that differs by case alone."""
        if name in self.fields or not fold:
            return name if name in self.fields else None
        return {n.lower(): n for n in self.fields}.get(name.lower())


_TIMES = (("int32", DATE), ("int32", TIME), ("int64", TIMESTAMP))


def parse_schema(raw: Any) -> ConnectSchema:
    """The schema of that JSON; ValueError if it is none."""
    if not isinstance(raw, dict) or not isinstance(raw.get("type"), str):
        raise ValueError("the schema of the value is not a Connect schema")
    type = str(_ALIASES.get(raw["type"], raw["type"]))
    fields: dict[str, ConnectSchema] = {}
    key = element = None
    if type == "struct":
        for item in _part(raw, "fields", list):
            if not isinstance(item, dict) or not isinstance(item.get("field"), str):
                raise ValueError("the schema of the value has a field without a name")
            fields[item["field"]] = parse_schema(item)
    elif type == "array":
        element = parse_schema(raw.get("items"))
    elif type == "map":
        key, element = parse_schema(raw.get("keys")), parse_schema(raw.get("values"))
    elif type not in SCALARS:
        raise ValueError(f"the schema of the value has an unknown type {type[:40]!r}")
    parameters = _part(raw, "parameters", dict)
    scale = _whole(parameters.get("scale"))
    if abs(scale) > MAX_SCALE:
        raise ValueError(f"the schema of the value has a decimal with a scale of {scale}")
    return ConnectSchema(
        type,
        bool(raw.get("optional", False)),
        _part(raw, "name", str) or None,
        scale,
        max(0, min(_whole(parameters.get("connect.decimal.precision")), 1000)),
        raw.get("default"),
        fields,
        key,
        element,
    )


def _part(raw: Mapping[str, Any], name: str, kind: type) -> Any:
    """A part of a schema, empty where it is missing."""
    found = raw.get(name)
    if found is not None and not isinstance(found, kind):
        raise ValueError(
            f"the schema of the value has {name!r} in a form that Connect does not know"
        )
    return kind() if found is None else found


def _whole(text: Any) -> int:
    if text is None:
        return 0
    try:
        if isinstance(text, str | int):
            return int(text)
    except ValueError:
        pass
    raise ValueError(f"the schema of the value has a decimal with {text!r:.40}")


def restore(value: Any, schema: ConnectSchema) -> Any:
    """A payload with its bytes, decimals, maps and defaults put right; ValueError if it does not fit."""
    if value is None:
        if schema.default is None:
            return None
        value = schema.default
    match schema.type:
        case "bytes":
            return restore_bytes(value, schema)
        case "struct":
            items = check_struct(value).items()
            known = {n: restore(v, schema.fields[n]) for n, v in items if n in schema.fields}
            missing = {n: s.default for n, s in schema.fields.items() if n not in known}
            return known | {
                n: restore(v, schema.fields[n]) for n, v in missing.items() if v is not None
            }
        case "array" if schema.element is not None:
            return [restore(item, schema.element) for item in check_array(value)]
        case "map" if schema.element is not None:
            return {k: restore(v, schema.element) for k, v in check_map(value)}
    return value


def check_struct(value: Any) -> dict[str, Any]:
    """The object that a struct is, or ValueError."""
    if not isinstance(value, dict):
        raise ValueError("the payload has something else where its schema has a struct")
    return value


def check_array(value: Any) -> list[Any]:
    """The list that an array is, or ValueError."""
    if not isinstance(value, list):
        raise ValueError("the payload has something else where its schema has an array")
    return value


def check_map(value: Any) -> list[tuple[str, Any]]:
    """The pairs of a map, with their keys as texts; or ValueError."""
    pairs = list(value.items()) if isinstance(value, dict) else value
    if not isinstance(pairs, list) or any(
        not isinstance(p, list | tuple) or len(p) != 2 for p in pairs
    ):
        raise ValueError("the payload has something else where its schema has a map")
    return [(_text(k), v) for k, v in pairs]


def restore_bytes(value: Any, schema: ConnectSchema) -> bytes | Decimal:
    """Bytes, or a decimal where the schema names one; or ValueError."""
    if schema.logical != DECIMAL:
        return _bytes(value)
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return Decimal(value)
    raw = _bytes(value)
    if len(raw) > MAX_BYTES:
        raise ValueError("the payload has a decimal of too many digits")
    return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-schema.scale, _EXACT)


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (ValueError, binascii.Error):
            pass
    raise ValueError("the payload has bytes that are not base64")


def _text(key: Any) -> str:
    if isinstance(key, bool):
        return str(key).lower()
    return str(key)
