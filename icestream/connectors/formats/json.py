"""FORMAT PLAIN ENCODE JSON: one JSON object a record.

The fast way: the payloads of a batch are joined with newlines and read by Arrow's JSON reader with an explicit
schema. It is taken only where it provably gives the same rows as `values` does record by record: all
payloads are UTF-8, each begins with `{` and ends with `}` (so a newline between them is always a record's
end: `}` directly followed by `{` occurs nowhere inside a document, and a raw newline inside no string) and the
count of rows is the count of payloads. A block that fails is halved until the culprits stand alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from icestream import types as t
from icestream.connectors.formats import Decoded, FieldSpec, check_not_null, values

SMALL = 8  # below this many records a failing block is read one by one
_TOP_LEVEL_NULL = re.compile(rb"}\s*null")  # Arrow's reader crashes on it
_WIDE = pa.decimal128(38, 18)


@dataclass(frozen=True)
class JsonDecoder:
    """Decodes JSON objects into the given columns; fields the columns do not name are ignored."""

    fields: tuple[FieldSpec, ...]
    numbers: str = values.GUESS
    """timestamptz.handling.mode: what a number means for a timestamptz."""

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """Every payload as a row, or its reason."""
        batch = _Batch(self.fields, self.numbers)
        return check_not_null(self.fields, batch.decode(payloads))


class _Batch:
    """The work on one batch: which names and shapes its records have, and what was decoded so far."""

    def __init__(self, fields: tuple[FieldSpec, ...], numbers: str) -> None:
        self.fields = fields
        self.numbers = numbers
        self.types = [t_arrow(f.type) for f in fields]
        self.converters = [(f.name, values.converter(f.type, numbers)) for f in fields]
        self.parts: list[Decoded] = []
        self.keys: list[str] = []

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        self.schema = self._fast_schema(payloads)
        self._block(payloads)
        if len(self.parts) == 1:
            return self.parts[0]
        columns = [
            pa.concat_arrays([p.columns[i] for p in self.parts]) for i in range(len(self.fields))
        ]
        if all(p.errors is None for p in self.parts):
            return Decoded(columns, None)
        errors = [
            pa.nulls(len(p.columns[0]), pa.string()) if p.errors is None else p.errors
            for p in self.parts
        ]
        return Decoded(columns, pa.concat_arrays(errors))

    def _block(self, payloads: pa.BinaryArray) -> None:
        columns = self._fast(payloads) if self.schema is not None else None
        if columns is not None:
            self.parts.append(Decoded(columns, None))
        elif len(payloads) <= SMALL or self.schema is None:
            self.parts.append(self._slow(payloads))
        else:
            half = len(payloads) // 2
            self._block(payloads.slice(0, half))
            self._block(payloads.slice(half))

    def _fast_schema(self, payloads: pa.BinaryArray) -> pa.Schema | None:
        """The schema for Arrow's reader, after a look at the first record: its key's case, numbers for times."""
        sample: dict[str, Any] = {}
        for payload in payloads[:3]:
            try:
                found = values.parse(payload.as_py().decode())
            except (ValueError, AttributeError, RecursionError):
                continue
            if isinstance(found, dict):
                sample = found
                break
        folded = {k.lower(): k for k in reversed(sample)}
        fields = []
        for field in self.fields:
            key = field.name if field.name in sample else folded.get(field.name.lower(), field.name)
            self.keys.append(key)
            type = fast_type(field.type, sample.get(key))
            if type is None:
                return None
            fields.append(pa.field(key, type))
        if len(set(self.keys)) < len(self.keys):
            return None
        return pa.schema(fields)

    def _fast(self, payloads: pa.BinaryArray) -> list[pa.Array] | None:
        """All records of the block at once, or None where only the careful way is right."""
        assert self.schema is not None
        if payloads.null_count:
            return None
        try:
            texts = payloads.cast(pa.string())
            framed = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
            if not pc.all(framed).as_py():
                return None
            joined = pc.binary_join(
                pa.ListArray.from_arrays(pa.array([0, len(payloads)], pa.int32()), payloads), b"\n"
            )[0].as_buffer()
            text = joined.to_pybytes()
            if b"null" in text and _TOP_LEVEL_NULL.search(text):
                return None
            if b"NaN" in text or b"Inf" in text:
                return None
            table = pj.read_json(
                pa.BufferReader(joined),
                read_options=pj.ReadOptions(use_threads=False, block_size=joined.size + 1),
                parse_options=pj.ParseOptions(
                    explicit_schema=self.schema, unexpected_field_behavior="ignore"
                ),
            )
            if table.num_rows != len(payloads):
                return None
            columns = [
                finish(table.column(i).combine_chunks(), field.type, type)
                for i, (field, type) in enumerate(zip(self.fields, self.types, strict=True))
            ]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
            return None
        return None if self._other_case(texts, columns) else columns

    def _other_case(self, texts: pa.StringArray, columns: list[pa.Array]) -> bool:
        """Whether a record that seems to lack a field has it in another case."""
        for key, column in zip(self.keys, columns, strict=True):
            if not column.null_count:
                continue
            rows = texts.filter(column.is_null())
            quoted = f'"{key}"'
            loose = pc.match_substring(rows, quoted, ignore_case=True)
            exact = pc.match_substring(rows, quoted)
            if pc.any(pc.and_not(loose, exact)).as_py():
                return True
        return False

    def _slow(self, payloads: pa.BinaryArray) -> Decoded:
        rows: list[dict[str, Any]] = []
        errors: list[str | None] = []
        empty: dict[str, Any] = {}
        for payload in payloads:
            try:
                rows.append(self._record(payload.as_py()))
                errors.append(None)
            except (ValueError, RecursionError) as error:
                rows.append(empty)
                errors.append(_reason(error))
        columns = [
            pa.array([r.get(f.name) for r in rows], type)
            for f, type in zip(self.fields, self.types, strict=True)
        ]
        bad = any(e is not None for e in errors)
        return Decoded(columns, pa.array(errors, pa.string()) if bad else None)

    def _record(self, payload: bytes | None) -> dict[str, Any]:
        if payload is None:
            raise ValueError("the payload is NULL")
        try:
            text = payload.decode()
        except UnicodeDecodeError:
            raise ValueError("the payload is not UTF-8") from None
        value = values.parse(text)
        if not isinstance(value, dict):
            raise ValueError("the payload is not a JSON object")
        if "\\ud" in text:
            text.encode()  # keeps the common path free of the check below
            _no_lone_surrogates(value)
        return values.pick(value, self.converters)


def _no_lone_surrogates(value: Any) -> None:
    try:
        values.to_jsonb(value).encode()
    except UnicodeEncodeError:
        raise ValueError("invalid JSON: a string holds half of a surrogate pair") from None


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "invalid JSON: nested too deeply"
    if type(error).__name__ == "JSONDecodeError":
        return f"invalid JSON: {error}"
    return str(error)


def t_arrow(type: t.Type) -> pa.DataType:
    """The Arrow type of a decoded column."""
    return t.arrow_type(type)


def fast_type(type: t.Type, sample: Any) -> pa.DataType | None:
    """The type under which Arrow's reader may read a field of ours; None where it cannot."""
    match type:
        case t.BOOLEAN | t.SMALLINT | t.INTEGER | t.BIGINT | t.DOUBLE | t.VARCHAR:
            return t.arrow_type(type)
        case t.REAL:
            return pa.float64()
        case t.TIMESTAMP | t.TIMESTAMPTZ:
            return pa.int64() if isinstance(sample, int) else t.arrow_type(type)
        case t.DATE | t.TIME:
            return pa.string()
        case t.NumericType():
            return _WIDE
        case t.ArrayType(element=element):
            inner = fast_type(element, None)
            return pa.list_(inner) if inner == t.arrow_type(element) else None
        case t.StructType(fields=fields):
            inners = [fast_type(f.type, None) for f in fields]
            same = all(i == t.arrow_type(f.type) for i, f in zip(inners, fields, strict=True))
            return t.arrow_type(type) if same else None
    return None


def finish(column: pa.Array, type: t.Type, target: pa.DataType) -> pa.Array:
    """From the type Arrow read to the column's own; raises ArrowInvalid where values do not fit."""
    match type:
        case t.NumericType(scale=scale):
            return pc.round(column, scale, "half_towards_infinity").cast(target)
        case t.REAL:
            narrow = column.cast(target)
            if pc.any(pc.and_(pc.is_inf(narrow), pc.is_finite(column))).as_py():
                raise pa.ArrowInvalid("out of range for real")
            return narrow
        case t.DATE:
            return column.cast(target)
        case t.TIME:
            return column.cast(pa.time64("us")).cast(pa.int64())
        case t.TIMESTAMP | t.TIMESTAMPTZ if column.type == pa.int64():
            return _epochs(column).cast(target)
    return column


def _epochs(column: pa.Array) -> pa.Array:
    """`values.from_epoch`, vectorised."""
    size = pc.abs_checked(column)
    result = pc.divide(column, 1000)
    for limit, factor in reversed(values.EPOCH_UNITS):
        capped = pc.if_else(pc.less(size, limit), column, 0)
        result = pc.if_else(pc.less(size, limit), pc.multiply(capped, factor), result)
    return result.cast(pa.timestamp("us"))
