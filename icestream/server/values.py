"""Our types ↔ PostgreSQL's: the OID of a type, and its values as text and as bytes, both ways.

A `Codec` is one type. Types that only catalogs have (oid, name, "char", …) are known by their names too.
Maps have no counterpart and are sent as text; the types of names of objects (regclass, …) are sent as text.
"""

from __future__ import annotations

import json
import re
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from functools import lru_cache, partial
from typing import Any

from icestream import types as t
from icestream.server import arrays, moments, numbers
from icestream.server.backend import StateError
from icestream.types import ArrayType, MapType, NumericType, StructType, Type

TEXT, BINARY = 0, 1
"""The two formats, as messages number them."""


@dataclass(frozen=True)
class Codec:
    """One type on the wire; `type` is what a parameter of it is for the backend."""

    oid: int
    array: int
    size: int
    type: Type
    text: Callable[[Any], str]
    parse: Callable[[str], Any]
    binary: Callable[[Any], bytes]
    unpack: Callable[[bytes], Any]
    modifier: int = -1

    def encoder(self, format: int) -> Callable[[Any], bytes]:
        """What makes the bytes of a value in a format."""
        if format == BINARY:
            return self.binary
        text = self.text
        return lambda value: text(value).encode()

    def decode(self, data: bytes, format: int) -> Any:
        """The value of a parameter."""
        if format == BINARY:
            try:
                return self.unpack(data)
            except (ValueError, ArithmeticError, struct.error) as error:
                raise StateError("22P03", f"these bytes are not of type {self.type}") from error
        text = utf8(data)
        try:
            return self.parse(text)
        except OverflowError as error:
            message = f'value "{text}" is out of range for type {self.type}'
            raise StateError("22003", message) from error
        except (ValueError, ArithmeticError) as error:
            message = f'invalid input syntax for type {self.type}: "{text}"'
            raise StateError("22P02", message) from error


def utf8(data: bytes) -> str:
    """The text that bytes are; a NUL is in no text."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        message = 'invalid byte sequence for encoding "UTF8"'
        raise StateError("22021", message) from error
    if "\0" in text:
        raise StateError("22021", 'invalid byte sequence for encoding "UTF8": 0x00')
    return text


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
            return replace(_VARCHAR, text=text, binary=lambda entries: text(entries).encode())
    if type == t.TIMESTAMPTZ:
        return replace(
            _SCALARS["timestamptz"],
            text=partial(moments.timestamptz_text, zone=zone),
            parse=partial(moments.timestamptz_from_text, zone=zone),
        )
    found = _SCALARS.get(type.name)
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


# -- scalars -----------------------------------------------------------------------------------------


def _integer(form: str) -> tuple[Callable[[Any], bytes], Callable[[bytes], int]]:
    packed = struct.Struct(form)

    def pack(value: Any) -> bytes:
        try:
            return packed.pack(value)
        except struct.error as error:
            raise StateError("22003", f"{value} is out of range") from error

    return pack, lambda data: int(packed.unpack(data)[0])


def _bounded(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"\s*[+-]?[0-9]{1,400}\s*", text):
            raise ValueError
        if not low <= (value := int(text)) < high:
            raise OverflowError
        return value

    return parse


def _bool_parse(text: str) -> bool:
    word = text.strip().lower()
    if word in ("t", "true", "y", "yes", "on", "1"):
        return True
    if word in ("f", "false", "n", "no", "off", "0"):
        return False
    raise ValueError


def _float(form: str) -> dict[str, Any]:
    packed = struct.Struct(form)

    def parse(text: str) -> float:
        if "_" in text:
            raise ValueError
        return unpack(packed.pack(float(text)))

    def unpack(data: bytes) -> float:
        return float(packed.unpack(data)[0])

    return {"parse": parse, "binary": packed.pack, "unpack": unpack}


def _bytea_parse(text: str) -> bytes:
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:])

    def value(found: re.Match[bytes]) -> bytes:
        return b"\\" if found[0] == b"\\\\" else bytes([int(found[1], 8)])

    data = text.encode()
    if not re.fullmatch(rb"(?:[^\\]|\\\\|\\[0-3][0-7]{2})*+", data):
        raise ValueError
    return re.sub(rb"\\(?:\\|([0-3][0-7]{2}))", value, data)


def _json_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _json_parse(text: str) -> str:
    json.loads(text)
    return text


def _jsonb_unpack(data: bytes) -> str:
    if data[:1] != b"\x01":
        raise ValueError
    return _json_parse(data[1:].decode())


def _uuid(value: Any) -> uuid.UUID:
    return value if isinstance(value, uuid.UUID) else uuid.UUID(str(value))


def _vector(element: int, form: str) -> dict[str, Any]:
    """int2vector and oidvector: as text `1 2 3`, else an array that starts at 0."""
    pack, unpack = _integer(form)

    def values(value: Any) -> list[int]:
        return [int(item) for item in (value.split() if isinstance(value, str) else value)]

    return {
        "text": lambda value: " ".join(map(str, values(value))),
        "parse": lambda text: [int(item) for item in text.split()],
        "binary": lambda value: arrays.array_binary(values(value), pack, element, 1, first=0),
        "unpack": lambda data: arrays.array_from_binary(data, lambda oid: unpack),
    }


def _scalars() -> dict[str, Codec]:
    found: dict[str, Codec] = {}

    def add(name: str, oid: int, array: int, size: int, **functions: Any) -> None:
        type: Type = t.scalar(name) or functions.pop("type", t.VARCHAR)
        given: dict[str, Any] = {  # those of a text, unless said otherwise
            "text": str,
            "parse": str,
            "binary": lambda value: str(value).encode(),
            "unpack": utf8,
        } | functions
        found[name] = Codec(oid, array, size, type, **given)

    def add_integer(
        name: str, oid: int, array: int, size: int, form: str, **functions: Any
    ) -> None:
        pack, unpack = _integer(form)
        low, high = (-(2 ** (8 * size - 1)), 2 ** (8 * size - 1)) if form.islower() else (0, 2**32)
        parse = _bounded(low, high)
        add(name, oid, array, size, parse=parse, binary=pack, unpack=unpack, **functions)

    add(
        "boolean", 16, 1000, 1, parse=_bool_parse, text=lambda value: "t" if value else "f",
        binary=lambda value: b"\x01" if value else b"\x00",
        unpack=lambda data: bool(struct.unpack("!?", data)[0]),
    )  # fmt: skip
    add_integer("smallint", 21, 1005, 2, "!h")
    add_integer("integer", 23, 1007, 4, "!i")
    add_integer("bigint", 20, 1016, 8, "!q")
    add_integer("oid", 26, 1028, 4, "!I", type=t.BIGINT)
    add_integer("xid", 28, 1011, 4, "!I", type=t.BIGINT)
    add("real", 700, 1021, 4, text=numbers.real_text, **_float("!f"))
    add("double precision", 701, 1022, 8, text=numbers.double_text, **_float("!d"))
    add(
        "numeric", 1700, 1231, -1, text=numbers.numeric_text, parse=numbers.numeric_from_text,
        binary=numbers.numeric_binary, unpack=numbers.numeric_from_binary,
    )  # fmt: skip
    add("varchar", 1043, 1015, -1)
    add("text", 25, 1009, -1)
    add("unknown", 25, 1009, -1)
    add("bpchar", 1042, 1014, -1)
    add("name", 19, 1003, 64)
    add('"char"', 18, 1002, 1)
    for name in ("regclass", "regtype", "regproc", "regnamespace", "pg_node_tree", "aclitem"):
        add(name, 25, 1009, -1)
    add("int2vector", 22, 1006, -1, type=t.array(t.SMALLINT), **_vector(21, "!h"))
    add("oidvector", 30, 1013, -1, type=t.array(t.BIGINT), **_vector(26, "!I"))
    add(
        "bytea", 17, 1001, -1, text=lambda value: "\\x" + bytes(value).hex(), parse=_bytea_parse,
        binary=bytes, unpack=bytes,
    )  # fmt: skip
    for name, oid, array, size in (
        ("date", 1082, 1182, 4), ("time", 1083, 1183, 8), ("timestamp", 1114, 1115, 8),
        ("interval", 1186, 1187, 16),
    ):  # fmt: skip
        add(
            name, oid, array, size,
            text=getattr(moments, f"{name}_text"), parse=getattr(moments, f"{name}_from_text"),
            binary=getattr(moments, f"{name}_binary"), unpack=getattr(moments, f"{name}_from_binary"),
        )  # fmt: skip
    add(
        "timestamptz", 1184, 1185, 8, text=partial(moments.timestamptz_text, zone=UTC),
        parse=partial(moments.timestamptz_from_text, zone=UTC), binary=moments.timestamptz_binary,
        unpack=moments.timestamptz_from_binary,
    )  # fmt: skip
    add(
        "json", 114, 199, -1, type=t.JSONB, text=_json_text, parse=_json_parse,
        binary=lambda value: _json_text(value).encode(), unpack=lambda data: _json_parse(utf8(data)),
    )  # fmt: skip
    add(
        "jsonb", 3802, 3807, -1, text=_json_text, parse=_json_parse,
        binary=lambda value: b"\x01" + _json_text(value).encode(), unpack=_jsonb_unpack,
    )  # fmt: skip
    add(
        "uuid", 2950, 2951, 16, text=lambda value: str(_uuid(value)),
        parse=lambda text: str(uuid.UUID(text)), binary=lambda value: _uuid(value).bytes,
        unpack=lambda data: str(uuid.UUID(bytes=data)),
    )  # fmt: skip
    return found


_SCALARS = _scalars()
_NUMERIC = _SCALARS["numeric"]
_VARCHAR = _SCALARS["varchar"]
_BY_OID = {found.oid: found for found in reversed(_SCALARS.values())}
_BY_ARRAY = {found.array: found for found in reversed(_SCALARS.values())}


# -- arrays, structs, maps ---------------------------------------------------------------------------


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
