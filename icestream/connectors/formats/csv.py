"""FORMAT PLAIN ENCODE CSV: one record a payload, its fields in the order of the columns, or of its file's header.

An empty field is NULL unless it is quoted (`,,` against `,"",`). Records without quotes, of which most data consists,
are split a whole batch at a time; the others one by one. Values follow the same rules as text in JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icestream import types as t
from icestream.connectors.formats import Decoded, Decoder, FieldSpec, blocks, check_not_null, values

SEVERAL = "more than one record"
"""The reason where a line break, or a carriage return alone, stands outside of quotes."""


@dataclass(frozen=True)
class CsvDecoder:
    """Decodes delimited text into the given columns."""

    fields: tuple[FieldSpec, ...]
    delimiter: str = ","
    headed: bool = False
    """Whether records come with the header of their file."""

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """Every payload as a row, or its reason. The fields are in the order of the columns."""
        return self._decode(payloads, None)

    def decode_below(self, headers: pa.BinaryArray, payloads: pa.BinaryArray) -> Decoded:
        """The same of records with the headers they are below; NULL: the fields are in the order of the columns."""
        parts: list[Decoded] = []
        start = 0
        for header, same in groupby(headers.to_pylist()):
            count = sum(1 for _ in same)
            parts.append(self._decode(payloads.slice(start, count), header))
            start += count
        return blocks.joined(parts) if parts else self.decode(payloads)

    def _decode(self, payloads: pa.BinaryArray, written: bytes | None) -> Decoded:
        header: Header | None = None
        if written is not None:
            header = Header(written, self.delimiter, tuple(f.name for f in self.fields))
        careful = Careful(self.fields, self.delimiter, header)
        fast = None
        if self.fields and (header is None or header.error is None):
            fast = partial(self._fast, header)
        return check_not_null(
            self.fields, blocks.decode(payloads, self.fields, fast, careful.record)
        )

    def _fast(self, header: Header | None, payloads: pa.BinaryArray) -> list[pa.Array] | None:
        """All records at once; None where one of them needs the careful way."""
        width = len(self.fields)
        order: Sequence[int | None] = range(width)
        if header is not None and header.order is not None:
            assert header.width is not None
            width, order = header.width, header.order
        try:
            texts = payloads.cast(pa.string())
            if pc.any(pc.match_substring_regex(texts, r'["\r\n]')).as_py():
                return None
            split = pc.split_pattern(texts, self.delimiter)
            if not pc.all(pc.equal(pc.list_value_length(split), width)).as_py():
                return None
            flat = split.flatten()
            places = pa.array(range(0, len(flat), width), pa.int64())
            columns = []
            for index, field in zip(order, self.fields, strict=True):
                if index is None:
                    columns.append(pa.nulls(len(payloads), t.arrow_type(field.type)))
                    continue
                column = vectorised(flat.take(pc.add(places, index)), field.type)
                if column is None:
                    return None
                columns.append(column)
        except pa.ArrowException:
            return None
        return columns


def below_headers(decoder: Decoder) -> CsvDecoder | None:
    """The decoder, if it needs the headers of the records' files."""
    return decoder if isinstance(decoder, CsvDecoder) and decoder.headed else None


class Header:
    """Where each declared column stands in a file, by the file's first record."""

    def __init__(self, record: bytes, delimiter: str, names: tuple[str, ...]) -> None:
        self.error: str | None = None
        """Why nobody can tell."""
        self.holds_data = False
        """Whether what stands in its place may be records."""
        self.width: int | None = None
        self.order: list[int | None] | None = None
        """None: the columns are in the declared order already."""
        try:
            found = [(n or "").strip() for n in split(record.decode(errors="replace"), delimiter)]
        except ValueError as error:
            self.error = f"the header line of the file is not valid: {error}"
            self.holds_data = str(error) == SEVERAL
            return
        self.width = len(found)
        if found != list(names):
            folded = {n.lower(): i for i, n in reversed(list(enumerate(found)))}
            exact = {n: i for i, n in reversed(list(enumerate(found)))}
            self.order = [exact.get(n, folded.get(n.lower())) for n in names]
            if names and all(at is None for at in self.order):
                self.holds_data = True
                self.error = (
                    "the header line of the file names none of the columns: "
                    "a file without a header needs without_header = 'true'"
                )


class Careful:
    """The definition: one payload at a time."""

    def __init__(
        self, fields: tuple[FieldSpec, ...], delimiter: str, header: Header | None = None
    ) -> None:
        self.fields = fields
        self.delimiter = delimiter
        self.header = header
        self.readers = [reader(f.type) for f in fields]

    def record(self, payload: bytes) -> Sequence[Any]:
        """The values of the payload's fields, or ValueError with the reason."""
        if self.header is not None and self.header.error is not None:
            raise ValueError(self.header.error)
        items = split(blocks.text_of(payload), self.delimiter)
        if self.header is not None and self.header.order is not None:
            if len(items) != self.header.width:
                raise ValueError(f"{len(items)} fields where the header has {self.header.width}")
            items = [None if at is None else items[at] for at in self.header.order]
        if len(items) != len(self.fields):
            raise ValueError(f"{len(items)} fields where {len(self.fields)} are declared")
        row = []
        for field, read, item in zip(self.fields, self.readers, items, strict=True):
            try:
                row.append(None if item is None else read(item))
            except ValueError as error:
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
                raise ValueError(SEVERAL)
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


_SAFE: dict[t.Type, str] = {
    t.VARCHAR: "",
    t.SMALLINT: "^-?[0-9]{1,18}$",
    t.INTEGER: "^-?[0-9]{1,18}$",
    t.BIGINT: "^-?[0-9]{1,18}$",
    t.DOUBLE: r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$",
    t.DATE: "^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}$",
    t.TIMESTAMP: "^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}"
    r"(\.[0-9]{1,6})?$",
}
"""Texts that Arrow reads just as `reader` does."""


def vectorised(column: pa.StringArray, type: t.Type) -> pa.Array | None:
    """The column of those texts; None where one is not of the form that Arrow surely reads right."""
    column = pc.if_else(pc.equal(pc.binary_length(column), 0), None, column)
    pattern = _SAFE.get(type)
    if isinstance(type, t.NumericType) and type.precision > type.scale:
        fraction = rf"(\.[0-9]{{1,{type.scale}}})?" if type.scale else ""
        pattern = rf"^-?[0-9]{{1,{type.precision - type.scale}}}{fraction}$"
    if pattern is None:
        empty = column.null_count == len(column)
        return pa.nulls(len(column), t.arrow_type(type)) if empty else None
    safe = not pattern or pc.all(pc.match_substring_regex(column, pattern), min_count=0).as_py()
    return column.cast(t.arrow_type(type)) if safe else None
