"""The types that are no arrays or structs: their OIDs, and their values as text and as bytes."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from typing import Any

from icestream import types as t
from icestream.functions.input_errors import TextInputError
from icestream.functions.json_input import parse_json
from icestream.functions.text_input import parse_text
from icestream.server import arrays, moments, numbers
from icestream.server.backend import StateError
from icestream.types import Type

TEXT, BINARY = 0, 1
"""The two formats, as messages number them."""

_WRONG = (ValueError, ArithmeticError, RecursionError)


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
            except (*_WRONG, struct.error) as error:
                raise StateError("22P03", f"these bytes are not of type {self.type}") from error
        text = utf8(data)
        try:
            return self.parse(text)
        except TextInputError as error:
            raise StateError(error.code, error.message) from error
        except OverflowError as error:
            message = f'value "{text}" is out of range for type {self.type}'
            raise StateError("22003", message) from error
        except _WRONG as error:
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


def _packed(form: str) -> tuple[Callable[[Any], bytes], Callable[[bytes], int]]:
    packed = struct.Struct(form)

    def pack(value: Any) -> bytes:
        try:
            return packed.pack(value)
        except struct.error as error:
            raise StateError("22003", f"{value} is out of range") from error

    return pack, lambda data: int(packed.unpack(data)[0])


def _whole(form: str, type: Type) -> dict[str, Any]:
    pack, unpack = _packed(form)
    return {"parse": _reader(type), "binary": pack, "unpack": unpack}


def _unsigned() -> dict[str, Any]:
    pack, unpack = _packed("!I")

    def parse(text: str) -> int:
        value = parse_text(text, t.BIGINT)
        if not isinstance(value, int) or not 0 <= value < 2**32:
            raise OverflowError
        return value

    return {"parse": parse, "binary": pack, "unpack": unpack}


def _float(form: str, type: Type) -> dict[str, Any]:
    packed = struct.Struct(form)

    def unpack(data: bytes) -> float:
        return float(packed.unpack(data)[0])

    return {"parse": _reader(type), "binary": packed.pack, "unpack": unpack}


def _reader(type: Type) -> Callable[[str], Any]:
    """What reads texts of a type as SQL does."""
    return lambda text: parse_text(text, type)


def _moment(name: str) -> dict[str, Any]:
    """The functions of `moments` for a type."""
    return {
        "text": getattr(moments, f"{name}_text"),
        "parse": getattr(moments, f"{name}_from_text"),
        "binary": getattr(moments, f"{name}_binary"),
        "unpack": getattr(moments, f"{name}_from_binary"),
    }


def _json_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _json_parse(text: str) -> str:
    parse_json(text)
    return text


def _jsonb_unpack(data: bytes) -> str:
    if data[:1] != b"\x01":
        raise ValueError
    return _json_parse(data[1:].decode())


def _uuid(value: Any) -> uuid.UUID:
    return value if isinstance(value, uuid.UUID) else uuid.UUID(str(value))


def _vector(element: int, form: str) -> dict[str, Any]:
    """int2vector and oidvector: as text `1 2 3`, else an array that starts at 0."""
    pack, unpack = _packed(form)

    def values(value: Any) -> list[int]:
        return [int(item) for item in (value.split() if isinstance(value, str) else value)]

    return {
        "text": lambda value: " ".join(map(str, values(value))),
        "parse": lambda text: [int(item) for item in text.split()],
        "binary": lambda value: arrays.array_binary(values(value), pack, element, 1, first=0),
        "unpack": lambda data: arrays.array_from_binary(data, lambda oid: unpack),
    }


def _scalar(
    name: str, oid: int, array: int, size: int = -1, type: Type = t.VARCHAR, **functions: Any
) -> tuple[str, Codec]:
    """A row of the table; what is not said is as it is for a text."""
    given: dict[str, Any] = {
        "text": str,
        "parse": str,
        "binary": lambda value: str(value).encode(),
        "unpack": utf8,
    }
    return name, Codec(oid, array, size, t.scalar(name) or type, **(given | functions))


SCALARS: dict[str, Codec] = dict((
    _scalar(
        "boolean", 16, 1000, 1, parse=_reader(t.BOOLEAN), text=lambda value: "t" if value else "f",
        binary=lambda value: b"\x01" if value else b"\x00",
        unpack=lambda data: bool(struct.unpack("!?", data)[0]),
    ),
    _scalar("smallint", 21, 1005, 2, **_whole("!h", t.SMALLINT)),
    _scalar("integer", 23, 1007, 4, **_whole("!i", t.INTEGER)),
    _scalar("bigint", 20, 1016, 8, **_whole("!q", t.BIGINT)),
    _scalar("oid", 26, 1028, 4, t.BIGINT, **_unsigned()),
    _scalar("xid", 28, 1011, 4, t.BIGINT, **_unsigned()),
    _scalar("real", 700, 1021, 4, text=numbers.real_text, **_float("!f", t.REAL)),
    _scalar("double precision", 701, 1022, 8, text=numbers.double_text, **_float("!d", t.DOUBLE)),
    _scalar(
        "numeric", 1700, 1231, text=numbers.numeric_text, parse=numbers.numeric_from_text,
        binary=numbers.numeric_binary, unpack=numbers.numeric_from_binary,
    ),
    _scalar("varchar", 1043, 1015),
    _scalar("text", 25, 1009),
    _scalar("bpchar", 1042, 1014),
    _scalar("name", 19, 1003, 64),
    _scalar('"char"', 18, 1002, 1),
    *(_scalar(name, 25, 1009) for name in (
        "unknown", "regclass", "regtype", "regproc", "regprocedure", "regnamespace", "regrole",
        "pg_node_tree", "aclitem",
    )),
    _scalar("int2vector", 22, 1006, type=t.array(t.SMALLINT), **_vector(21, "!h")),
    _scalar("oidvector", 30, 1013, type=t.array(t.BIGINT), **_vector(26, "!I")),
    _scalar(
        "bytea", 17, 1001, text=lambda value: "\\x" + bytes(value).hex(), parse=_reader(t.BYTEA),
        binary=bytes, unpack=bytes,
    ),
    _scalar("date", 1082, 1182, 4, **_moment("date")),
    _scalar("time", 1083, 1183, 8, **_moment("time")),
    _scalar("timestamp", 1114, 1115, 8, **_moment("timestamp")),
    _scalar("interval", 1186, 1187, 16, **_moment("interval")),
    _scalar(
        "timestamptz", 1184, 1185, 8, text=partial(moments.timestamptz_text, zone=UTC),
        parse=partial(moments.timestamptz_from_text, zone=UTC), binary=moments.timestamptz_binary,
        unpack=moments.timestamptz_from_binary,
    ),
    _scalar(
        "json", 114, 199, type=t.JSONB, text=_json_text, parse=_json_parse,
        binary=lambda value: _json_text(value).encode(), unpack=lambda data: _json_parse(utf8(data)),
    ),
    _scalar(
        "jsonb", 3802, 3807, text=_json_text, parse=_json_parse,
        binary=lambda value: b"\x01" + _json_text(value).encode(), unpack=_jsonb_unpack,
    ),
    _scalar(
        "uuid", 2950, 2951, 16, text=lambda value: str(_uuid(value)),
        parse=lambda text: str(uuid.UUID(text)), binary=lambda value: _uuid(value).bytes,
        unpack=lambda data: str(uuid.UUID(bytes=data)),
    ),
))  # fmt: skip
"""By the names of the types. Names of objects (regclass, …) are sent as text."""
