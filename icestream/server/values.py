"""Our types ↔ PostgreSQL's: the codec of a type or OID, arrays, structs and maps among them.

Types that only catalogs have (oid, name, "char", …) are known by their names too. Maps have no counterpart
and are sent as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, tzinfo
from functools import lru_cache, partial
from typing import Any

from icestream import types as t
from icestream.server import arrays, moments
from icestream.server.backend import StateError
from icestream.server.scalars import SCALARS, Codec
from icestream.types import ArrayType, MapType, NumericType, StructType, Type

_NUMERIC = SCALARS["numeric"]
_BY_OID = {found.oid: found for found in reversed(SCALARS.values())}
_BY_ARRAY = {found.array: found for found in reversed(SCALARS.values())}


@lru_cache(maxsize=1024)
def codec(type: Type, zone: tzinfo = UTC) -> Codec:
    """The codec of a type; instants are written and read in the time zone."""
    match type:
        case NumericType(precision=precision, scale=scale) if type != t.NUMERIC:
            return replace(_NUMERIC, modifier=(precision << 16 | scale) + 4)
        case NumericType():
            return _NUMERIC
        case ArrayType():
            return _array(type, zone)
        case StructType():
            return _struct(type, zone)
        case MapType(key=key, value=value):
            text = partial(_map_text, codec(key, zone), codec(value, zone))
            return replace(
                SCALARS["varchar"], text=text, binary=lambda entries: text(entries).encode()
            )
    if type == t.TIMESTAMPTZ:
        return replace(
            SCALARS["timestamptz"],
            text=partial(moments.timestamptz_text, zone=zone),
            parse=partial(moments.timestamptz_from_text, zone=zone),
        )
    found = SCALARS.get(type.name)
    if found is None:
        raise StateError("0A000", f"values of type {type} cannot be sent to clients")
    return found


@lru_cache(maxsize=256)
def codec_of(oid: int, zone: tzinfo = UTC) -> Codec:
    """The codec of a type that a client declares by its OID."""
    if found := _BY_OID.get(oid):
        return codec(t.TIMESTAMPTZ, zone) if found.type == t.TIMESTAMPTZ else found
    if found := _BY_ARRAY.get(oid):
        element = codec_of(found.oid, zone)
        return _array_codec(element, element.type, 1)
    raise StateError("42704", f"type with OID {oid} does not exist")


def _array(type: ArrayType, zone: tzinfo) -> Codec:
    element: Type = type.element
    depth = 1
    while isinstance(element, ArrayType):
        element = element.element
        depth += 1
    return _array_codec(codec(element, zone), type.element, depth)


def _array_codec(element: Codec, type: Type, depth: int) -> Codec:
    def unpacker(oid: int) -> Callable[[bytes], Any]:
        return element.unpack if oid == element.oid else codec_of(oid).unpack

    return Codec(
        oid=element.array,
        array=element.array,
        size=-1,
        type=t.array(type),
        text=lambda values: arrays.array_text(values, element.text, depth),
        parse=lambda text: arrays.array_from_text(text, element.parse),
        binary=lambda values: arrays.array_binary(values, element.binary, element.oid, depth),
        unpack=lambda data: arrays.array_from_binary(data, unpacker),
        modifier=element.modifier,
    )


def _struct(type: StructType, zone: tzinfo) -> Codec:
    names = [field.name for field in type.fields]
    fields = [codec(field.type, zone) for field in type.fields]

    def values(value: Any) -> Iterable[Any]:
        return [value[name] for name in names] if isinstance(value, Mapping) else value

    def text(value: Any) -> str:
        pairs = zip(fields, values(value), strict=True)
        return arrays.row_text(None if v is None else f.text(v) for f, v in pairs)

    def binary(value: Any) -> bytes:
        pairs = zip(fields, values(value), strict=True)
        return arrays.row_binary([(f.oid, arrays.sized(v, f.binary)) for f, v in pairs])

    def refuse(data: Any) -> Any:
        raise StateError("0A000", "a parameter cannot be a row")

    return Codec(2249, 2287, -1, type, text, refuse, binary, refuse)


def _map_text(key: Codec, value: Codec, entries: Any) -> str:
    """{key:value,…}, each part quoted as the elements of arrays are."""
    pairs = entries.items() if isinstance(entries, Mapping) else entries

    def item(codec: Codec, part: Any) -> str:
        return "NULL" if part is None else arrays.quoted(codec.text(part))

    return "{" + ",".join(f"{item(key, k)}:{item(value, v)}" for k, v in pairs) + "}"
