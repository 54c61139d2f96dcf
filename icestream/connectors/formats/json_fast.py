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
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from icestream import types as t
from icestream.connectors.formats import FieldSpec, values
from icestream.connectors.formats.decimals import to_numeric

_TOP_LEVEL_NULL = re.compile(rb"}\s*null")  # Arrow's reader crashes on it
_NOT_A_NUMBER = re.compile(
    rb"[:\[,]\s*-?(?:NaN|Inf|Infinity)\s*[,}\]]"
)  # Arrow's reader takes them
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % values.MAX_DIGITS)
_LONG_EXPONENT = re.compile(rb"[eE][+-]?[0-9]{18}")  # more than Python's decimals take
_DIGITS_AS_ZEROS = bytes.maketrans(b"0123456789", b"0" * 10)
_LETTER = re.compile(rb"\\u(?:00[4-7]|212[aA])")  # an escape that may hide a letter of a key
_KELVIN = "\u212a".encode()  # its lower case is k
_BLANKS = " \t\r\n"
_WIDE = pa.decimal256(38, 38)
"""Holds every number of at most 38 digits at a scale of 38; see `_read_type`."""
_MANTISSA = re.compile(rb'(?:^|[:,\[\s"])[+-]?[0-9]*(?:\.([0-9]*))?$')
_EXPONENT = re.compile(rb'-([0-9]+)[\s,}\]"]')
_HIDDEN_NUMBER = re.compile(rb"\\u00(?:2[bBdDeE]|3[0-9]|45|65)")
_MAX_NUMBER = 100  # characters on either side of an exponent's mark that are looked at
_DAYS = (-719_162, 2_932_896)  # the years 1 to 9999
REFUSED = (pa.ArrowException, ValueError, OverflowError)
"""What reading a block raises where only the careful way is right."""


@dataclass(frozen=True)
class Reader:
    """How Arrow reads the values of a column, and what makes the column's own of them (or raises one of REFUSED)."""

    type: pa.DataType
    finish: Callable[[pa.Array], pa.Array]
    wide: Reader | None = None
    """A slower reader, which also reads numbers of more digits."""

    @property
    def max_scale(self) -> int | None:
        """The largest scale of a number that Arrow reads right here; None: no numerics are read."""
        if not pa.types.is_decimal(self.type):
            return None
        return 76 if self.type == _WIDE else 38


@dataclass
class Columns:
    """The columns of objects that look like a sample: the key of each there, and its reader."""

    fields: tuple[FieldSpec, ...]
    keys: list[str]
    readers: list[Reader]
    needs_wide: bool = False
    """Set by the first block that only the wide readers could read: the next blocks begin with them."""

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

        def read(columns: Columns) -> list[pa.Array] | None:
            found = read_block(payloads, pa.schema(columns.schema()), columns.max_scale())
            if found is None:
                return None
            texts, data, table = found
            arrays = [column.combine_chunks() for column in table.columns]
            return None if columns.respelled(texts, data, arrays) else columns.finish(arrays)

        return self.attempt(read)

    def attempt(self, read: Callable[[Columns], list[pa.Array] | None]) -> list[pa.Array] | None:
        """What `read` gives for these readers, or for the wide ones where it raises; None where both raise."""
        wide = self.widened()
        for columns in (self, wide) if wide and not self.needs_wide else (wide or self,):
            try:
                found = read(columns)
            except REFUSED:
                continue
            self.needs_wide = columns is wide and found is not None
            return found
        return None

    def widened(self) -> Columns | None:
        """The same columns with wide readers; None where no reader has another."""
        if not any(r.wide for r in self.readers):
            return None
        return replace(self, readers=[r.wide or r for r in self.readers])

    def max_scale(self) -> int | None:
        """The largest scale of a number that all numeric readers read right; None: there are none."""
        return min((s for r in self.readers if (s := r.max_scale) is not None), default=None)

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
    payloads: pa.BinaryArray, schema: pa.Schema | None, max_scale: int | None = None
) -> tuple[pa.StringArray, bytes, pa.Table] | None:
    """Payloads read by Arrow: their texts, those joined, and the table; None where Arrow may not be right.

    Only the fields of the schema are read; without one, all fields with the types that Arrow finds. `max_scale`: raise
    where a number has a larger scale, as Arrow reads beyond a table of its own then.
    """
    texts = _framed(payloads.cast(pa.string()))
    if texts is None:
        return None
    joined = _joined(texts)
    data = joined.to_pybytes()
    if _beyond_arrow(texts, data):
        return None
    if max_scale is not None:
        _check_scales(data, max_scale)
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
        or (b"0" * 18 in data.translate(_DIGITS_AS_ZEROS) and _LONG_EXPONENT.search(data))
    )


def _check_scales(data: bytes, max_scale: int) -> None:
    """Raise ArrowInvalid where a number with a negative exponent has a larger scale than that."""
    if _has(data, b"\\u00") and _HIDDEN_NUMBER.search(data):
        raise pa.ArrowInvalid("an escape that may be a part of a number")
    letters = np.frombuffer(data, np.uint8)
    minus = np.flatnonzero(letters[1:] == ord("-"))
    for at in minus[(letters[minus] | 0x20) == ord("e")].tolist():
        exponent = _EXPONENT.match(data, at + 1, at + _MAX_NUMBER)
        mantissa = exponent and _MANTISSA.search(data[max(0, at - _MAX_NUMBER) : at])
        if exponent and mantissa and len(mantissa[1] or b"") + int(exponent[1]) > max_scale:
            raise pa.ArrowInvalid("a number of a large scale")


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
    if read is None:
        return None

    def convert(column: pa.Array) -> pa.Array:
        return finish(column, type, unit)

    has_wide = isinstance(type, t.NumericType) and read != _WIDE
    return Reader(read, convert, Reader(_WIDE, convert) if has_wide else None)


def _read_type(type: t.Type, sample: Any, numbers: str) -> pa.DataType | None:
    """The type that Arrow is to read.

    Arrow moves a decimal to the type's scale without a check for overflow. So the digits that it accepts (the
    precision) and the zeros that it appends (at most the scale) must fit: 38 digits in 128 bits, 76 in 256.
    """
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
        case t.NumericType(scale=scale):
            return _WIDE if scale == 38 else pa.decimal128(38 - scale, scale)
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
        case t.NumericType():
            return to_numeric(column, type)
        case t.DOUBLE:
            if pc.any(pc.is_inf(column)).as_py():  # Arrow's reading of 1.8e308
                raise pa.ArrowInvalid("out of range for double precision")
        case t.REAL:
            narrow = column.cast(target)
            if pc.any(pc.is_inf(narrow)).as_py():
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
