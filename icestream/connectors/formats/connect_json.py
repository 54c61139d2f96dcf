"""JSON as Kafka Connect writes it: the schema beside the payload, and what a value means by it.

Debezium's databases have more types than JSON; its schema names the encoding of each field (its semantic type). Without
the schema part the declared type of the column and the form of the value decide.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icestream import types as t
from icestream.connectors.formats import values
from icestream.connectors.formats.decimals import from_unscaled, to_numeric
from icestream.connectors.formats.json_fast import Reader, finish, one_by_one, plain_reader

Schema = Mapping[str, Any]
"""A schema as it stands in the JSON; nothing in it is certain."""

_CONNECT, _DEBEZIUM = "org.apache.kafka.connect.data.", "io.debezium.time."
_DECIMAL = _CONNECT + "Decimal"
_VARIABLE = "io.debezium.data.VariableScaleDecimal"
_DAY = 86_400_000_000
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_MAX_SCALE = 16_383  # PostgreSQL's
_MAX_DIGITS = 131_072  # before the point, likewise
_MAX_BYTES = 61_500
"""Bytes of a number's digits: as many as PostgreSQL's longest has. Converting more takes time."""
_OPENING = re.compile(r'\s*\{\s*"schema"\s*:\s*')
_MIDDLE = re.compile(r'\s*,\s*"payload"\s*:\s*')


@dataclass(frozen=True)
class Reading:
    """How values are read where no schema tells."""

    numbers: str = values.GUESS
    """timestamptz.handling.mode: a key of `values.NUMBERS`."""
    debezium: bool = False
    """Whether they are Debezium's, else plain JSON's."""
    decimals: str = "guess"
    """decimal.handling.mode: whether text for a numeric is base64 (precise), a number (string), or as it looks."""


# -- the schema part ---------------------------------------------------------------------------------


def unwrap(value: Any) -> tuple[Any, Schema | None]:
    """The payload of {"schema": …, "payload": …} and its schema; any other value as it is."""
    if isinstance(value, dict) and value.keys() == {"schema", "payload"}:
        schema, payload = value["schema"], value["payload"]
        if isinstance(schema, dict) and isinstance(schema.get("type"), str):
            return payload, schema
        if schema is None and (payload is None or isinstance(payload, dict)):
            return payload, None
    return value, None


def opening(payload: bytes) -> tuple[bytes, Schema] | None:
    """What stands before the payload in {"schema": …, "payload": …}, and the schema; None for other values."""
    try:
        text = payload.decode()
        found = _OPENING.match(text)
        if found is None:
            return None
        _, end = json.JSONDecoder().raw_decode(text, found.end())
        middle = _MIDDLE.match(text, end)
        if middle is None:
            return None
        _, schema = unwrap(values.parse(f"{text[: middle.end()]}null}}"))
        return None if schema is None else (text[: middle.end()].encode(), schema)
    except Exception:  # any JSON can stand where a schema should be
        return None


def strip(payloads: pa.BinaryArray, prefix: bytes) -> pa.BinaryArray | None:
    """The payloads inside envelopes that all begin alike; None if one does not."""
    if not prefix:
        return payloads
    alike = pc.and_(pc.starts_with(payloads, prefix), pc.ends_with(payloads, b"}"))
    return pc.binary_slice(payloads, len(prefix), -1) if pc.all(alike).as_py() else None


def may_be_wrapped(payloads: pa.BinaryArray) -> bool:
    """Whether one of the payloads may be {"schema": …, "payload": …}."""
    if pc.any(pc.match_substring(payloads, 'payload"')).as_py():
        return True
    return bool(pc.any(pc.match_substring_regex(payloads, r"\\u00[67]")).as_py())


def child(schema: Schema | None, name: str) -> Schema | None:
    """The schema of a struct's field; names match exactly, else without regard to case."""
    fields = schema.get("fields") if schema else None
    if not isinstance(fields, list):
        return None
    known = {
        f["field"]: f for f in fields if isinstance(f, dict) and isinstance(f.get("field"), str)
    }
    folded = {k.lower(): f for k, f in known.items()}
    return known.get(name, folded.get(name.lower()))


def _part(schema: Schema | None, name: str) -> Schema | None:
    found = schema.get(name) if schema else None
    return found if isinstance(found, dict) else None


def _semantic(schema: Schema | None) -> str | None:
    name = schema.get("name") if schema else None
    return name if isinstance(name, str) else None


def _scale(schema: Schema | None) -> int:
    scale = (_part(schema, "parameters") or {}).get("scale", 0)
    try:
        return int(scale) if isinstance(scale, str | int) else 0
    except ValueError:
        return 0


# -- one by one --------------------------------------------------------------------------------------


def converter(type: t.Type, schema: Schema | None, reading: Reading) -> values.Convert:
    """A function that turns one JSON value (not None) into a value of that type, or raises ValueError."""
    plain = values.converter(type, reading.numbers)
    if schema is None and not reading.debezium:
        return plain
    counted = _COUNTED.get(_semantic(schema) or "")
    match type:
        case t.ArrayType(element=element):
            return values.array(converter(element, _part(schema, "items"), reading))
        case t.StructType(fields=fields):
            return values.struct(
                [(f.name, converter(f.type, child(schema, f.name), reading)) for f in fields]
            )
        case t.MapType(key=key, value=value):
            return values.mapping(
                values.converter(key), converter(value, _part(schema, "values"), reading)
            )
        case t.DATE | t.TIME | t.TIMESTAMP | t.TIMESTAMPTZ if counted is not None:
            return lambda v: counted.convert(v, type) if _whole(v) else plain(v)
        case t.DATE:
            return lambda v: plain(v.strip().removesuffix("Z") if isinstance(v, str) else v)
        case t.BOOLEAN:
            return lambda v: plain(bool(v) if _whole(v) and v in (0, 1) else v)
        case t.BYTEA:
            return _bytes
        case t.JSONB:
            return _jsonb
        case t.VARCHAR if _semantic(schema) in (_DECIMAL, _VARIABLE):
            return lambda v: _plain_text(plain, _number(v, type, schema, reading))
    if isinstance(type, t.NumericType) or _semantic(schema) in (_DECIMAL, _VARIABLE):
        return lambda v: plain(_number(v, type, schema, reading))
    return plain


@dataclass(frozen=True)
class _Counted:
    """A date, a time of day or an instant as a whole number of some unit."""

    kind: str
    factor: int
    divisor: int = 1

    def fits(self, type: t.Type) -> bool:
        """Whether a column of that type can take it."""
        return (type == t.TIME) == (self.kind == "time")

    def convert(self, value: int, type: t.Type) -> Any:
        if not self.fits(type):
            raise ValueError(f"a {self.kind} is not a valid {type}")
        micros = abs(value) * self.factor // self.divisor
        micros = micros if value >= 0 else -micros
        if type == t.DATE:
            micros //= _DAY
        return _IN_MICROSECONDS[type](micros)

    def reader(self, type: t.Type) -> Reader | None:
        """The same for a block."""
        if not self.fits(type):
            return None

        def convert(column: pa.Array) -> pa.Array:
            if type == t.DATE and self.factor == _DAY:
                return finish(column, type, None)
            column = pc.divide(pc.multiply_checked(column, self.factor), self.divisor)
            if type == t.DATE:
                column = finish(column.cast(pa.timestamp("us")), t.TIMESTAMP, None)
                return column.cast(t.arrow_type(type))
            return finish(column, type if type == t.TIME else t.TIMESTAMPTZ, 1).cast(
                t.arrow_type(type)
            )

        return Reader(pa.int64(), convert)


_COUNTED = {
    _DEBEZIUM + "Date": _Counted("date", _DAY),
    _CONNECT + "Date": _Counted("date", _DAY),
    _DEBEZIUM + "Time": _Counted("time", 1000),
    _CONNECT + "Time": _Counted("time", 1000),
    _DEBEZIUM + "MicroTime": _Counted("time", 1),
    _DEBEZIUM + "NanoTime": _Counted("time", 1, 1000),
    _DEBEZIUM + "Timestamp": _Counted("timestamp", 1000),
    _CONNECT + "Timestamp": _Counted("timestamp", 1000),
    _DEBEZIUM + "MicroTimestamp": _Counted("timestamp", 1),
    _DEBEZIUM + "NanoTimestamp": _Counted("timestamp", 1, 1000),
}
"""Semantic types that are whole numbers. All others are texts, which say themselves what they mean."""

_IN_MICROSECONDS: dict[t.Type, values.Convert] = {
    t.DATE: values.converter(t.DATE),
    t.TIME: values.converter(t.TIME),
    t.TIMESTAMP: values.converter(t.TIMESTAMPTZ, "micro"),
    t.TIMESTAMPTZ: values.converter(t.TIMESTAMPTZ, "micro"),
}


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any, type: t.Type, schema: Schema | None, reading: Reading) -> Any:
    """A number out of its bytes; what is not written so is left to the plain rules."""
    if isinstance(value, dict) and {"scale", "value"} <= value.keys():
        return _unscaled(value["value"], value["scale"])
    if not isinstance(value, str):
        return value
    if _semantic(schema) == _DECIMAL:
        return _unscaled(value, _scale(schema))
    if schema is not None or not isinstance(type, t.NumericType) or reading.decimals == "string":
        return value
    if reading.decimals == "guess" and values.is_number(value):
        return value
    return _unscaled(value, type.scale)


def _unscaled(value: Any, scale: Any) -> Decimal:
    if not _whole(scale) or abs(scale) > _MAX_SCALE:
        raise ValueError(f"{values.show(scale)} is not a valid scale")
    raw = _base64(value)
    if len(raw) > _MAX_BYTES:
        raise ValueError(f"{values.show(value)} has too many digits")
    return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-scale, _EXACT)


def _plain_text(plain: values.Convert, value: Any) -> Any:
    if not isinstance(value, Decimal):
        return plain(value)
    if value.adjusted() > _MAX_DIGITS or int(value.as_tuple().exponent) < -_MAX_SCALE:
        raise ValueError(f"{values.show(value)} is out of range")
    return format(value, "f")


def _base64(value: Any) -> bytes:
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except (TypeError, ValueError):
        raise ValueError(f"{values.show(value)} is not base64") from None


def _bytes(value: Any) -> bytes:
    if isinstance(value, str) and value.startswith("\\x"):
        return bytes(values.converter(t.BYTEA)(value))
    return _base64(value)


def _jsonb(value: Any) -> str:
    """Text is a JSON document; anything else is itself."""
    if isinstance(value, str):
        try:
            value = values.parse(value)
        except json.JSONDecodeError:
            raise ValueError(f"{values.show(value)} is not a valid jsonb") from None
    return values.to_jsonb(value)


# -- all at once -------------------------------------------------------------------------------------


def reader(type: t.Type, schema: Schema | None, sample: Any, reading: Reading) -> Reader | None:
    """The reader of a column whose values mean what `converter` says; None where Arrow cannot read them."""
    plain = plain_reader(type, sample, reading.numbers)
    if schema is None and not reading.debezium:
        return plain
    semantic = _semantic(schema)
    counted = _COUNTED.get(semantic or "")

    def slowly(read: pa.DataType) -> Reader:
        convert = converter(type, schema, reading)
        return Reader(read, lambda column: one_by_one(column, type, convert))

    match type:
        case t.DATE | t.TIME | t.TIMESTAMP | t.TIMESTAMPTZ if counted is not None:
            return counted.reader(type)
        case t.DATE if isinstance(sample, str) and sample.endswith("Z"):
            return slowly(pa.string())
        case t.BOOLEAN if _whole(sample):
            return slowly(pa.int64())
        case t.BYTEA | t.JSONB:
            return slowly(pa.string()) if sample is None or isinstance(sample, str) else None
        case t.NumericType() if semantic == _DECIMAL and 0 <= _scale(schema) <= 38:
            convert = converter(type, schema, reading)
            return Reader(pa.string(), lambda c: _decimals(c, type, _scale(schema), convert))
        case t.ArrayType(element=element) if not _is_plain(type, schema):
            first = sample[0] if isinstance(sample, list) and sample else None
            inner = reader(element, _part(schema, "items"), first, reading)
            simple = inner is not None and inner.type in (pa.int64(), pa.string())
            return slowly(pa.list_(inner.type)) if inner is not None and simple else None
        case t.StructType() | t.MapType():
            return plain if _is_plain(type, schema) else None
    if semantic == _VARIABLE or (isinstance(type, t.NumericType) and isinstance(sample, dict)):
        return slowly(pa.struct([("scale", pa.int32()), ("value", pa.string())]))
    if semantic == _DECIMAL:
        return slowly(pa.string())
    if isinstance(type, t.NumericType) and schema is None:
        texts = isinstance(sample, str) or reading.decimals == "precise"
        return slowly(pa.string()) if texts else plain
    return plain


def _is_plain(type: t.Type, schema: Schema | None) -> bool:
    """Whether a value of that type means the same as in plain JSON, at any depth."""
    match type:
        case t.ArrayType(element=element):
            return _is_plain(element, _part(schema, "items"))
        case t.StructType(fields=fields):
            return all(_is_plain(f.type, child(schema, f.name)) for f in fields)
        case t.NumericType() | t.MapType() | t.BYTEA | t.JSONB | t.DATE:
            return False
    return _semantic(schema) not in (*_COUNTED, _DECIMAL, _VARIABLE)


def _decimals(
    column: pa.StringArray, type: t.NumericType, scale: int, convert: values.Convert
) -> pa.Array:
    """Decimals out of base64: Arrow keeps them as the same integers, only of 16 bytes and the other way round."""
    if scale != type.scale:
        return from_unscaled(map(_unscaled_integer, column.to_pylist()), scale, type)
    parts = []
    for text in column.to_pylist():
        raw = b"\0" if text is None else binascii.a2b_base64(text, strict_mode=True)
        if not 0 < len(raw) < 16:
            return one_by_one(column, type, convert)
        parts.append(raw[::-1].ljust(16, b"\xff" if raw[0] & 0x80 else b"\0"))
    buffers = [column.is_valid().buffers()[1], pa.py_buffer(b"".join(parts))]
    wide = pa.Array.from_buffers(pa.decimal128(38, scale), len(column), buffers)
    return to_numeric(wide, type)


def _unscaled_integer(text: str | None) -> int | None:
    if text is None:
        return None
    return int.from_bytes(binascii.a2b_base64(text, strict_mode=True), "big", signed=True)
