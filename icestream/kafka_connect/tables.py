"""The columns of an Iceberg table as the record reader fills them, from the table's schema in Iceberg's JSON form."""

from __future__ import annotations

import json
import re
from typing import Any

from icestream import types as t
from icestream.connectors.formats import FieldSpec

_TYPES = {
    "boolean": t.BOOLEAN, "int": t.INTEGER, "long": t.BIGINT, "float": t.REAL, "double": t.DOUBLE,
    "date": t.DATE, "timestamp": t.TIMESTAMP, "timestamptz": t.TIMESTAMPTZ, "string": t.VARCHAR,
    "binary": t.BYTEA,
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def table_columns(schema: str) -> tuple[FieldSpec, ...]:
    """The columns; ValueError names one that the engine cannot write."""
    return tuple(
        FieldSpec(f["name"], _type(f["type"], f["name"]), f["required"])
        for f in json.loads(schema)["fields"]
    )


def _type(raw: Any, where: str) -> t.Type:
    if isinstance(raw, str):
        if raw in _TYPES:
            return _TYPES[raw]
        if found := _DECIMAL.fullmatch(raw):
            return t.numeric(int(found[1]), int(found[2]))
        raise ValueError(f"column {where} is {raw}, which cannot be written yet")
    match raw["type"]:
        case "struct":
            for field in raw["fields"]:
                _optional(field["required"], f"{where}.{field['name']}")
            fields = ((f["name"], _type(f["type"], f"{where}.{f['name']}")) for f in raw["fields"])
            return t.struct(*fields)
        case "list":
            _optional(raw["element-required"], f"{where}.element")
            return t.array(_type(raw["element"], f"{where}.element"))
        case "map":
            _optional(raw["value-required"], f"{where}.value")
            key, value = _type(raw["key"], f"{where}.key"), _type(raw["value"], f"{where}.value")
            return t.map_of(key, value)
    raise ValueError(f"column {where} is {raw['type']}, which cannot be written yet")


def _optional(required: bool, where: str) -> None:
    if required:
        raise ValueError(f"{where} is required inside a column, which cannot be checked yet")
