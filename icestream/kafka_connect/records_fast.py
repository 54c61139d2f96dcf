"""Kafka Connect's records by the block, where Arrow gives what `records.Careful` gives."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icestream import types as t
from icestream.connectors.formats import FieldSpec, blocks
from icestream.connectors.formats.json import sampled
from icestream.connectors.formats.json_fast import Columns, Reader, finish, plain_reader
from icestream.kafka_connect.convert import UNIT
from icestream.kafka_connect.records import Reading, envelope
from icestream.kafka_connect.schema import DATE, INTEGERS, TIME, TIMESTAMP, ConnectSchema

_HIDDEN = rb"\\u00[67]"  # an escape that may be a letter of "schema" or "payload"
_CLOCK = 19  # characters of 2024-02-29T12:30:45


def fast_reader(
    fields: tuple[FieldSpec, ...], reading: Reading, payloads: pa.BinaryArray
) -> blocks.Fast | None:
    """The fast way for records like the first of these; None if there is none."""
    try:
        return _build(fields, reading, payloads)
    except Exception:  # the careful way decides about odd records
        return None


def _build(
    fields: tuple[FieldSpec, ...], reading: Reading, payloads: pa.BinaryArray
) -> blocks.Fast | None:
    sample = [p for p in payloads[:3].to_pylist() if p is not None]
    if not sample or not fields:
        return None
    found = envelope(sample[0]) if reading.schemas is not False else None
    if found is None and reading.schemas:
        return None
    prefix, schema = found or (b"", None)
    if schema is not None and (schema.type != "struct" or schema.default is not None):
        return None
    wanted = _with_route(fields, reading, schema)
    if wanted is None:
        return None
    start = pa.array([p[len(prefix) : -1] if prefix else p for p in sample], pa.binary())
    fold = reading.case_insensitive
    known = _known_fields(wanted, schema, fold)
    columns = Columns.like(
        tuple(field for field, _ in known),
        sampled(start),
        lambda field, value: _reader(field.type, _field_schema(schema, field.name, fold), value),
    )
    if columns is None:
        return None
    exact = [name for _, name in known]
    route = reading.route_field[0] if reading.route_field else None
    for number, (name, key) in enumerate(zip(exact, columns.keys, strict=True)):
        is_given = schema is not None or not fold or columns.fields[number].name == route
        if is_given and key != name:
            return None
    return _Fast(fields, reading, prefix, columns).decode


def _known_fields(
    fields: tuple[FieldSpec, ...], schema: ConnectSchema | None, fold: bool
) -> list[tuple[FieldSpec, str]]:
    """The fields that records have by their schema, each with its name there. Connect drops all others."""
    if schema is None:
        return [(f, f.name) for f in fields]
    return [(f, name) for f in fields if (name := schema.find(f.name, fold)) is not None]


def _field_schema(schema: ConnectSchema | None, name: str, fold: bool) -> ConnectSchema | None:
    found = schema.find(name, fold) if schema is not None else None
    return schema.fields[found] if schema is not None and found is not None else None


class _Fast:
    """Blocks of records that look like the first one."""

    def __init__(
        self, fields: tuple[FieldSpec, ...], reading: Reading, prefix: bytes, columns: Columns
    ) -> None:
        self.fields = fields
        self.reading = reading
        self.prefix = prefix
        self.columns = columns

    def decode(self, payloads: pa.BinaryArray) -> list[pa.Array] | None:
        """The columns and which rows to keep, or None where only the careful way is right."""
        if self.prefix:
            alike = pc.and_(pc.starts_with(payloads, self.prefix), pc.ends_with(payloads, b"}"))
            if not pc.all(alike).as_py():
                return None
            payloads = pc.binary_slice(payloads, len(self.prefix), -1)
        elif self.reading.schemas is None and _may_be_envelope(payloads):
            return None
        read = self.columns.decode(payloads)
        if read is None:
            return None
        by_name = dict(zip((f.name for f in self.columns.fields), read, strict=True))
        columns = [
            by_name[f.name] if f.name in by_name else pa.nulls(len(payloads), t.arrow_type(f.type))
            for f in self.fields
        ]
        return [*columns, self._kept(by_name, len(payloads))]

    def _kept(self, columns: dict[str, pa.Array], length: int) -> pa.BooleanArray:
        if not self.reading.route_field:
            return pa.repeat(pa.scalar(True), length)
        column = columns[self.reading.route_field[0]]
        for _ in self.reading.route_field[1:]:
            column = column.flatten()[0]
        found = column.dictionary_encode()
        matches = self.reading.matching(found.dictionary)
        return pc.fill_null(matches.take(found.indices), False)


def _with_route(
    fields: tuple[FieldSpec, ...], reading: Reading, schema: ConnectSchema | None
) -> tuple[FieldSpec, ...] | None:
    """The fields, among them the one that the route looks at; None where that cannot be read so."""
    if not reading.route_field:
        return fields
    for name in reading.route_field if schema is not None else ():
        schema = schema.fields.get(name) if schema is not None else None
        if schema is None or schema.default is not None or schema.type not in ("struct", "string"):
            return None
    first, *rest = reading.route_field
    for field in fields:
        if field.name == first:
            return fields if not rest and field.type == t.VARCHAR else None
    type: t.Type = t.VARCHAR
    for name in reversed(rest):
        type = t.struct((name, type))
    return (*fields, FieldSpec(first, type))


def _may_be_envelope(payloads: pa.BinaryArray) -> bool:
    named = pc.match_substring(payloads, b'"payload"')
    if pc.any(named).as_py():
        named = pc.and_(named, pc.match_substring(payloads, b'"schema"'))
        if pc.any(named).as_py():
            return True
    escaped = pc.any(pc.match_substring(payloads, b"\\u00")).as_py()
    return bool(escaped and pc.any(pc.match_substring_regex(payloads, _HIDDEN)).as_py())


# -- the readers of columns --------------------------------------------------------------------------


def _reader(type: t.Type, schema: ConnectSchema | None, sample: Any) -> Reader | None:
    """The reader of a column whose values mean what `convert.converter` says; None where Arrow cannot read them."""
    if schema is not None and schema.default is not None:
        return None
    kind = schema.time_kind if schema is not None else None
    match type:
        case t.SMALLINT | t.INTEGER | t.BIGINT if kind == TIME:
            return Reader(pa.int64(), lambda c: _milliseconds(c).cast(t.arrow_type(type)))
        case t.TIME if kind in (None, TIME) and isinstance(sample, int):
            return Reader(pa.int64(), lambda c: finish(_milliseconds(c), t.TIME, None))
        case t.TIMESTAMP if kind in (None, TIMESTAMP) and isinstance(sample, int):
            return Reader(pa.int64(), _local_numbers)
        case t.TIMESTAMP if kind is None:
            return Reader(pa.string(), _local_texts)
    is_plain = _means_the_same(type, schema) and not _has_local_time(type)
    return plain_reader(type, sample, UNIT) if is_plain else None


def _means_the_same(type: t.Type, schema: ConnectSchema | None) -> bool:
    """Whether a value of that schema is in such a column what it is without a schema."""
    if schema is None:
        return True
    if schema.default is not None:
        return False
    match type:
        case t.ArrayType(element=element):
            return schema.type == "array" and _means_the_same(element, schema.element)
        case t.StructType(fields=fields):
            return schema.type == "struct" and all(
                f.name in schema.fields and _means_the_same(f.type, schema.fields[f.name])
                for f in fields
            )
        case t.TIMESTAMP | t.TIMESTAMPTZ if schema.time_kind is not None:
            return schema.time_kind == TIMESTAMP
        case t.DATE if schema.time_kind is not None:
            return schema.time_kind == DATE
        case t.SMALLINT | t.INTEGER | t.BIGINT | t.DOUBLE | t.REAL | t.NumericType():
            return schema.time_kind != TIME and schema.type in (
                *INTEGERS,
                "float",
                "double",
                "string",
            )
    return schema.time_kind is None and schema.type in (
        *INTEGERS,
        "float",
        "double",
        "boolean",
        "string",
    )


def _has_local_time(type: t.Type) -> bool:
    """Whether a value holds a timestamp without zone, or a time, at any depth: Arrow reads those otherwise."""
    match type:
        case t.ArrayType(element=element):
            return _is_local(element) or _has_local_time(element)
        case t.StructType(fields=fields):
            return any(_is_local(f.type) or _has_local_time(f.type) for f in fields)
    return False


def _is_local(type: t.Type) -> bool:
    return type in (t.TIMESTAMP, t.TIME)


def _milliseconds(column: pa.Array) -> pa.Array:
    """Milliseconds as microseconds."""
    return pc.multiply_checked(column, 1000)


def _local_numbers(column: pa.Array) -> pa.Array:
    return finish(column, t.TIMESTAMPTZ, 1000).cast(t.arrow_type(t.TIMESTAMP))


def _local_texts(column: pa.StringArray) -> pa.Array:
    """Texts without a zone, or with Z. Arrow's cast raises for all other zones, which the careful way leaves aside."""
    has_zone = pc.ends_with(column, "Z")
    if pc.any(has_zone).as_py():
        is_whole = pc.greater(pc.utf8_length(column), _CLOCK)
        if not pc.all(pc.or_(pc.invert(has_zone), is_whole)).as_py():
            raise pa.ArrowInvalid("a date with a zone")
        column = pc.if_else(has_zone, pc.utf8_slice_codeunits(column, 0, -1), column)
    return finish(column.cast(pa.timestamp("us")), t.TIMESTAMP, None)
