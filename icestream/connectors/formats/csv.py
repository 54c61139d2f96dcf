"""FORMAT PLAIN ENCODE CSV: one record a payload, its fields in the order of the columns.

An empty field is NULL unless it is quoted (`,,` against `,"",`). Records without quotes, of which most data consists,
are split a whole batch at a time; the others one by one. Values follow the same rules as text in JSON.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icestream import types as t
from icestream.connectors.formats import Decoded, FieldSpec, check_not_null, values


@dataclass(frozen=True)
class CsvDecoder:
    """Decodes delimited text into the given columns."""

    fields: tuple[FieldSpec, ...]
    delimiter: str = ","

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """Every payload as a row, or its reason."""
        batch = _Batch(self.fields, self.delimiter)
        return check_not_null(self.fields, batch.decode(payloads))


class _Batch:
    """The work on one batch of payloads."""

    def __init__(self, fields: tuple[FieldSpec, ...], delimiter: str) -> None:
        self.fields = fields
        self.delimiter = delimiter
        self.types = [t.arrow_type(f.type) for f in fields]
        self.converters = [reader(f.type) for f in fields]

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        fast = self._fast(payloads)
        return self._slow(payloads) if fast is None else Decoded(fast, None)

    def _fast(self, payloads: pa.BinaryArray) -> list[pa.Array] | None:
        """All records at once; None where one of them needs the careful way."""
        try:
            texts = payloads.cast(pa.string())
            if (
                texts.null_count
                or pc.any(pc.match_substring_regex(texts, '["\\r\\n\\x00]')).as_py()
            ):
                return None
            split = pc.split_pattern(texts, self.delimiter)
            if not pc.all(pc.equal(pc.list_value_length(split), len(self.fields))).as_py():
                return None
            flat = split.flatten()
            places = pa.array(range(0, len(flat), len(self.fields)), pa.int64())
            columns = []
            for index, (field, type) in enumerate(zip(self.fields, self.types, strict=True)):
                column = flat.take(pc.add(places, index))
                cast = vectorised(column, field.type, type)
                if cast is None:
                    return None
                columns.append(cast)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        return columns

    def _slow(self, payloads: pa.BinaryArray) -> Decoded:
        rows: list[list[Any]] = []
        errors: list[str | None] = []
        empty: list[Any] = [None] * len(self.fields)
        for payload in payloads:
            try:
                rows.append(self._record(payload.as_py()))
                errors.append(None)
            except (ValueError, RecursionError, csv.Error) as error:
                rows.append(empty)
                errors.append(str(error))
        columns = [pa.array([r[i] for r in rows], type) for i, type in enumerate(self.types)]
        bad = any(e is not None for e in errors)
        return Decoded(columns, pa.array(errors, pa.string()) if bad else None)

    def _record(self, payload: bytes | None) -> list[Any]:
        if payload is None:
            raise ValueError("the payload is NULL")
        try:
            text = payload.decode()
        except UnicodeDecodeError:
            raise ValueError("the payload is not UTF-8") from None
        items = split(text, self.delimiter)
        if len(items) != len(self.fields):
            raise ValueError(f"{len(items)} fields where {len(self.fields)} are declared")
        row = []
        for field, convert, item in zip(self.fields, self.converters, items, strict=True):
            try:
                row.append(None if item is None else convert(item))
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{field.name}: {error}") from None
        return row


def split(text: str, delimiter: str) -> list[str | None]:
    """The fields of one record; None for an empty one without quotes. Quotes are doubled inside quotes."""
    items: list[str | None] = []
    text = text.removesuffix("\n").removesuffix("\r")
    at = 0
    while True:
        if text.startswith('"', at):
            item, at = _quoted(text, at + 1)
            if at < len(text) and not text.startswith(delimiter, at):
                raise ValueError(f"text after a closing quote, in field {len(items) + 1}")
            items.append(item)
        else:
            end = text.find(delimiter, at)
            end = len(text) if end < 0 else end
            plain = text[at:end]
            if "\n" in plain or "\r" in plain:
                raise ValueError("more than one record")
            items.append(plain or None)
            at = end
        if at >= len(text):
            return items
        at += len(delimiter)


def _quoted(text: str, at: int) -> tuple[str, int]:
    """The text up to the closing quote, and the position after that."""
    parts = []
    while True:
        end = text.find('"', at)
        if end < 0:
            raise ValueError("a quote is not closed")
        parts.append(text[at:end])
        if not text.startswith('"', end + 1):
            return '"'.join(parts), end + 1
        at = end + 2


def reader(type: t.Type) -> Callable[[str], Any]:
    """Text → a value of that type; jsonb, arrays, structs and maps are written as JSON."""
    convert = values.converter(type)
    match type:
        case t.JSONB | t.ArrayType() | t.StructType() | t.MapType():
            return lambda text: convert(values.parse(text))
        case t.BOOLEAN:
            return _boolean
        case t.DATE | t.TIME | t.TIMESTAMP | t.TIMESTAMPTZ:
            return lambda text: convert(_number(text))
    return convert


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word in ("true", "t", "1", "yes", "on", "y"):
        return True
    if word in ("false", "f", "0", "no", "off", "n"):
        return False
    raise ValueError(f"{text!r} is not a valid boolean")


def _number(text: str) -> Any:
    """An epoch number where the text is one, else the text."""
    plain = text.strip()
    digits = plain.removeprefix("-")
    return int(plain) if digits.isascii() and digits.isdigit() and len(digits) != 8 else text


def vectorised(column: pa.StringArray, type: t.Type, target: pa.DataType) -> pa.Array | None:
    """The column of those texts, where Arrow reads them just as `reader` does; None where it may not."""
    column = pc.if_else(pc.equal(pc.binary_length(column), 0), None, column)
    match type:
        case t.VARCHAR:
            return column
        case t.SMALLINT | t.INTEGER | t.BIGINT:
            plain = pc.match_substring_regex(column, r"^-?[0-9]{1,18}$")
            return column.cast(target) if _all(plain) else None
        case t.DOUBLE:
            plain = pc.match_substring_regex(column, r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$")
            return column.cast(target) if _all(plain) else None
        case t.NumericType(precision=precision, scale=scale) if scale >= 0:
            whole = precision - scale
            if whole < 1:
                return None
            pattern = rf"^-?[0-9]{{1,{whole}}}" + (rf"(\.[0-9]{{1,{scale}}})?$" if scale else "$")
            return column.cast(target) if _all(pc.match_substring_regex(column, pattern)) else None
        case t.DATE:
            plain = pc.match_substring_regex(column, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
            return column.cast(target) if _all(plain) else None
        case t.TIMESTAMP:
            pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$"
            return column.cast(target) if _all(pc.match_substring_regex(column, pattern)) else None
    if column.null_count == len(column):
        return pa.nulls(len(column), target)
    return None


def _all(matches: pa.BooleanArray) -> bool:
    return bool(pc.all(matches, min_count=0).as_py())
