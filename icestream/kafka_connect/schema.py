"""The schema inside a JSON value, as Connect's JsonConverter writes it, and what it changes in the payload.

Most types mean the same with and without a schema: a date is a number of days, a timestamp one of milliseconds. Only bytes
and decimals (base64), maps with other keys than text, and default values have to be put right.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any

INTEGERS = ("int8", "int16", "int32", "int64")
SCALARS = (*INTEGERS, "float", "double", "boolean", "string", "bytes")
_ALIASES = {"float32": "float", "float64": "double"}
DECIMAL = "org.apache.kafka.connect.data.Decimal"
DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"

_EXACT = Context(prec=1000)


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


def parse_schema(raw: Any) -> ConnectSchema:
    """The schema of that JSON; ValueError if it is none."""
    if not isinstance(raw, dict) or not isinstance(raw.get("type"), str):
        raise ValueError("the schema of the value is not a Connect schema")
    type = _ALIASES.get(raw["type"], raw["type"])
    fields: dict[str, ConnectSchema] = {}
    key = element = None
    if type == "struct":
        for item in raw.get("fields") or ():
            if not isinstance(item, dict) or not isinstance(item.get("field"), str):
                raise ValueError("the schema of the value has a field without a name")
            fields[item["field"]] = parse_schema(item)
    elif type == "array":
        element = parse_schema(raw.get("items"))
    elif type == "map":
        key, element = parse_schema(raw.get("keys")), parse_schema(raw.get("values"))
    elif type not in SCALARS:
        raise ValueError(f"the schema of the value has an unknown type {type!r}")
    parameters = raw.get("parameters") or {}
    return ConnectSchema(
        type,
        bool(raw.get("optional", False)),
        raw.get("name"),
        _whole(parameters.get("scale")),
        _whole(parameters.get("connect.decimal.precision")),
        raw.get("default"),
        fields,
        key,
        element,
    )


def _whole(text: Any) -> int:
    try:
        return int(text or 0)
    except (TypeError, ValueError):
        raise ValueError(f"the schema of the value has a decimal with {text!r}") from None


def plain(schema: ConnectSchema) -> bool:
    """Whether payloads of that schema mean what they would mean without it."""
    inner = [*schema.fields.values(), schema.element, schema.key]
    return (
        schema.type not in ("bytes", "map")
        and schema.default is None
        and all(plain(s) for s in inner if s is not None)
    )


def restore(value: Any, schema: ConnectSchema) -> Any:
    """A payload with its bytes, decimals, maps and defaults put right; ValueError if it does not fit."""
    if value is None:
        if schema.default is None:
            return None
        value = schema.default
    match schema.type:
        case "bytes":
            return _decimal(value, schema) if schema.logical == DECIMAL else _bytes(value)
        case "struct":
            if not isinstance(value, dict):
                raise ValueError("the payload has something else where its schema has a struct")
            known = {name: restore(value.get(name), s) for name, s in schema.fields.items()}
            return {n: v for n, v in known.items() if n in value or v is not None}
        case "array" if schema.element is not None:
            if not isinstance(value, list):
                raise ValueError("the payload has something else where its schema has an array")
            return [restore(item, schema.element) for item in value]
        case "map" if schema.element is not None and schema.key is not None:
            pairs = list(value.items()) if isinstance(value, dict) else value
            if not isinstance(pairs, list) or any(
                not isinstance(p, list | tuple) or len(p) != 2 for p in pairs
            ):
                raise ValueError("the payload has something else where its schema has a map")
            return {_text(k): restore(v, schema.element) for k, v in pairs}
    return value


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise ValueError("the payload has bytes that are not base64") from None


def _decimal(value: Any, schema: ConnectSchema) -> Decimal:
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return Decimal(value)
    return Decimal(int.from_bytes(_bytes(value), "big", signed=True)).scaleb(-schema.scale, _EXACT)


def _text(key: Any) -> str:
    if isinstance(key, bool):
        return str(key).lower()
    return str(key)
