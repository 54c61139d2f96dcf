"""JSON by the block: the payloads of a batch are joined with newlines and read by Arrow's JSON reader.

That way is taken only where it provably gives the same rows as `values` does record by record: all payloads are
UTF-8, each begins with `{` and ends with `}` (so a newline between them is always a record's end: `}` directly
followed by `{` occurs nowhere inside a document, and a raw newline inside no string) and the count of rows is
the count of payloads. What Arrow takes and JSON or our rules do not (NaN, the year 0, a key in another case) sends
the block the careful way; a test compares the two ways on random records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from icestream import types as t
from icestream.connectors.formats import FieldSpec, values

_TOP_LEVEL_NULL = re.compile(rb"}\s*null")  # Arrow's reader crashes on it
_NOT_A_NUMBER = re.compile(
    rb"[:\[,]\s*-?(?:NaN|Inf|Infinity)\s*[,}\]]"
)  # Arrow's reader takes them
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % values.MAX_DIGITS)
_LETTER = re.compile(rb"\\u(?:00[4-7]|212[aA])")  # an escape that may hide a letter of a key
_KELVIN = "\u212a".encode()  # its lower case is k
_BLANKS = " \t\r\n"
_WIDE = pa.decimal128(38, 18)
_DAYS = (-719_162, 2_932_896)  # the years 1 to 9999
REFUSED = (pa.ArrowException, ValueError, OverflowError)
"""What reading a block raises where only the careful way is right."""


@dataclass(frozen=True)
class Reader:
    """How Arrow reads the values of a column, and what makes the column's own of them (or raises one of REFUSED)."""

    type: pa.DataType
    finish: Callable[[pa.Array], pa.Array]


@dataclass(frozen=True)
class Columns:
    """The columns of objects that look like a sample: the key of each there, and its reader."""

    fields: tuple[FieldSpec, ...]
    keys: list[str]
    readers: list[Reader]

    @classmethod
    def like(
        cls,
        fields: tuple[FieldSpec, ...],
        sample: dict[str, Any],
        reader: Callable[[FieldSpec, Any], Reader | None],
    ) -> Columns | None:
        """After a look at one object: the case of keys, numbers for times. None where Arrow cannot read a type."""
        folded = {k.lower(): k for k in reversed(sample)}
        keys, readers = [], []
        for field in fields:
            key = field.name if field.name in sample else folded.get(field.name.lower(), field.name)
            found = reader(field, sample.get(key))
            if found is None or any("\ud800" <= c <= "\udfff" for c in key):
                return None
            keys.append(key)
            readers.append(found)
        return cls(fields, keys, readers) if fields and len(set(keys)) == len(keys) else None

    def schema(self) -> list[pa.Field]:
        """What Arrow is to read."""
        return [pa.field(k, r.type) for k, r in zip(self.keys, self.readers, strict=True)]

    def finish(self, read: Sequence[pa.Array]) -> list[pa.Array]:
        """The columns of what Arrow read."""
        return [r.finish(column) for r, column in zip(self.readers, read, strict=True)]

    def decode(self, payloads: pa.BinaryArray) -> list[pa.Array] | None:
        """The columns of payloads that are such objects, or None where only the careful way is right."""
        try:
            found = read_block(payloads, pa.schema(self.schema()))
            if found is None:
                return None
            texts, data, table = found
            read = [column.combine_chunks() for column in table.columns]
            return None if self.respelled(texts, data, read) else self.finish(read)
        except REFUSED:
            return None

    def respelled(self, texts: pa.StringArray, data: bytes, read: Sequence[pa.Array]) -> bool:
        """Whether an object may have a field under another spelling than the one that was read."""
        wanted = set()
        for field, key, column in zip(self.fields, self.keys, read, strict=True):
            if key != field.name or column.null_count:
                wanted.add(key)
            inner = _inner_fields(column, field.type)
            wanted.update(name for name, values in inner if values.null_count)
        if not wanted:
            return False
        if not all(map(str.isascii, wanted)) or _KELVIN in data or _LETTER.search(data):
            return True
        lower = data.lower()
        return any(
            data.count(f'"{key}"'.encode()) != lower.count(f'"{key.lower()}"'.encode())
            and _in_other_case(texts, key)
            for key in wanted
        )


def read_block(
    payloads: pa.BinaryArray, schema: pa.Schema | None
) -> tuple[pa.StringArray, bytes, pa.Table] | None:
    """Payloads read by Arrow: their texts, those joined, and the table; None where Arrow may not be right.

    Only the fields of the schema are read; without one, all fields with the types that Arrow finds.
    """
    texts = _framed(payloads.cast(pa.string()))
    if texts is None:
        return None
    joined = _joined(texts)
    data = joined.to_pybytes()
    if _beyond_arrow(texts, data):
        return None
    table = pj.read_json(
        pa.BufferReader(joined),
        read_options=pj.ReadOptions(use_threads=False, block_size=joined.size + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=schema,
            unexpected_field_behavior="infer" if schema is None else "ignore",
        ),
    )
    return (texts, data, table) if table.num_rows == len(payloads) else None


def _framed(texts: pa.StringArray) -> pa.StringArray | None:
    """The texts, each from `{` to `}`; None if one is not."""
    for attempt in (texts, None):
        some = pc.ascii_trim(texts, _BLANKS) if attempt is None else attempt
        framed = pc.and_(pc.starts_with(some, "{"), pc.ends_with(some, "}"))
        if pc.all(framed).as_py():
            return some
    return None


def _joined(texts: pa.StringArray) -> pa.Buffer:
    """All texts with newlines between them."""
    records = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    return pc.binary_join(records, "\n")[0].as_buffer()


def _beyond_arrow(texts: pa.StringArray, data: bytes) -> bool:
    """Whether Arrow's reader would take what is not JSON to us, or crash."""
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest > 2 * values.MAX_DEPTH and (
        data.count(b"[") + data.count(b"{") > len(texts) + values.MAX_DEPTH
    ):
        opened = pc.add(pc.count_substring(texts, "["), pc.count_substring(texts, "{"))
        if pc.max(opened).as_py() > values.MAX_DEPTH:
            return True
    nested = data.count(b"}") > len(texts)  # else each record has one, at its end
    return bool(
        (nested and b"null" in data and _TOP_LEVEL_NULL.search(data))
        or ((_has(data, b"NaN") or _has(data, b"Inf")) and _NOT_A_NUMBER.search(data))
        or (longest > values.MAX_DIGITS and _LONG_NUMBER.search(data))
    )


def _has(data: bytes, word: bytes) -> bool:
    """Whether the word occurs; its first letter alone is looked for first, which is much faster where it is rare."""
    return word[:1] in data and word in data


def _in_other_case(texts: pa.StringArray, key: str) -> bool:
    """Whether a record has the key, followed by its colon, in another case."""
    pattern = f'"{re.escape(key)}"\\s*:'
    exact = pc.count_substring_regex(texts, pattern)
    loose = pc.count_substring_regex(texts, pattern, ignore_case=True)
    return bool(pc.any(pc.not_equal(exact, loose)).as_py())


def _inner_fields(column: pa.Array, type: t.Type) -> list[tuple[str, pa.Array]]:
    """The fields of the structs in a column, at any depth."""
    match type:
        case t.ArrayType(element=element) if pa.types.is_list(column.type):
            return _inner_fields(column.flatten(), element)
        case t.StructType(fields=fields) if pa.types.is_struct(column.type):
            inner = list(zip(fields, column.flatten(), strict=True))
            deeper = [found for f, c in inner for found in _inner_fields(c, f.type)]
            return [(f.name, c) for f, c in inner] + deeper
    return []


def plain_reader(type: t.Type, sample: Any, numbers: str) -> Reader | None:
    """The reader of a column whose values mean what `values.converter` says; None where Arrow cannot read them."""
    read = _read_type(type, sample, numbers)
    unit = values.NUMBERS[numbers]
    return None if read is None else Reader(read, lambda column: finish(column, type, unit))


def _read_type(type: t.Type, sample: Any, numbers: str) -> pa.DataType | None:
    match type:
        case t.BOOLEAN | t.SMALLINT | t.INTEGER | t.BIGINT | t.DOUBLE | t.VARCHAR:
            return t.arrow_type(type)
        case t.REAL:
            return pa.float64()
        case t.TIMESTAMP | t.TIMESTAMPTZ:
            counted = isinstance(sample, int) and (
                type == t.TIMESTAMP or values.NUMBERS[numbers] != 0
            )
            return pa.int64() if counted else t.arrow_type(type)
        case t.DATE | t.TIME:
            return pa.int64() if isinstance(sample, int) else pa.string()
        case t.NumericType():
            return _WIDE
        case t.ArrayType(element=element):
            inner = _read_type(element, None, numbers)
            return pa.list_(inner) if inner == t.arrow_type(element) else None
        case t.StructType(fields=fields):
            inners = [_read_type(f.type, None, numbers) for f in fields]
            same = all(i == t.arrow_type(f.type) for i, f in zip(inners, fields, strict=True))
            names = {f.name for f in fields}
            return t.arrow_type(type) if same and len(names) == len(fields) else None
    return None


def finish(column: pa.Array, type: t.Type, unit: int | None) -> pa.Array:
    """From the type Arrow read to the column's own; raises ArrowInvalid where values do not fit."""
    target = t.arrow_type(type)
    match type:
        case t.NumericType(scale=scale):
            return pc.round(column, scale, "half_towards_infinity").cast(target)
        case t.REAL:
            narrow = column.cast(target)
            if pc.any(pc.and_(pc.is_inf(narrow), pc.is_finite(column))).as_py():
                raise pa.ArrowInvalid("out of range for real")
            return narrow
        case t.DATE:
            days = column if column.type == pa.int64() else column.cast(target).cast(pa.int32())
            _within(days, *_DAYS)
            return days.cast(pa.int32()).cast(target)
        case t.TIME:
            if column.type != pa.int64():
                return one_by_one(column, type, values.converter(type))
            _within(column, 0, 86_399_999_999)
        case t.TIMESTAMP | t.TIMESTAMPTZ:
            if column.type == pa.int64():
                column = _epochs(column, unit if type == t.TIMESTAMPTZ else None).cast(target)
            _within(column.cast(pa.int64()), *values.MICROSECONDS)
        case t.ArrayType(element=element):
            finish(column.flatten(), element, unit)
        case t.StructType(fields=fields):
            for field, inner in zip(fields, column.flatten(), strict=True):
                finish(inner, field.type, unit)
    return column


def one_by_one(column: pa.Array, type: t.Type, convert: values.Convert) -> pa.Array:
    """A column whose values only the careful way's own function can convert, while the others go fast."""
    items = [None if v is None else convert(v) for v in column.to_pylist()]
    return pa.array(items, t.arrow_type(type))


def _within(column: pa.Array, least: int, most: int) -> None:
    """Dates and times from the year 1 to 9999, as in `values`."""
    found = pc.min_max(column).as_py()
    if found["min"] is not None and not (least <= found["min"] and found["max"] <= most):
        raise pa.ArrowInvalid("out of range")


def _epochs(column: pa.Array, unit: int | None) -> pa.Array:
    """`values.from_epoch`, vectorised."""
    if unit is not None:
        return pc.multiply_checked(column, unit).cast(pa.timestamp("us"))
    size = pc.abs_checked(column)
    result = pc.divide(column, 1000)
    for limit, factor in reversed(values.EPOCH_UNITS):
        capped = pc.if_else(pc.less(size, limit), column, 0)
        result = pc.if_else(pc.less(size, limit), pc.multiply(capped, factor), result)
    return result.cast(pa.timestamp("us"))
