"""COPY … TO STDOUT: the statement, and the rows of its query as text, CSV or binary.

The server answers it by itself for every backend: it asks for the query behind the COPY. COPY from a client
and files of the server are refused.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, Literal

from icestream.errors import NotSupportedError, SqlError
from icestream.server.arrays import sized
from icestream.server.backend import Column
from icestream.server.literals import without_leading_comments
from icestream.server.values import codec
from icestream.sql.cursor import Cursor
from icestream.sql.source import Source
from icestream.sql.tokens import tokenize

Format = Literal["text", "csv", "binary"]
Line = Callable[[Sequence[Any]], bytes]

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"

_COPY = re.compile(r"\s*copy\b", re.IGNORECASE)
_BACKSLASH = str.maketrans({
    "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
})  # fmt: skip
_OPTIONS = (
    "FORMAT", "DELIMITER", "NULL", "HEADER", "QUOTE", "ESCAPE", "FORCE_QUOTE", "ENCODING",
    "FREEZE", "CSV", "BINARY", "FORCE",
)  # fmt: skip


@dataclass(frozen=True)
class Copy:
    """A COPY to the client. A query in it stands in `query` where it stands in the COPY."""

    query: str
    format: Format = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    quote: str = '"'
    escape: str = '"'
    header: bool = False
    force_quote: tuple[str, ...] | None = ()
    """The columns that are always quoted; None: all."""

    @property
    def placed(self) -> bool:
        """Whether places in the query are places in the COPY: not if only a relation was named."""
        return self.query.startswith(" ")

    def titles(self, columns: Sequence[Column]) -> bytes:
        """What comes before the rows."""
        if self.format == "binary":
            return HEADER
        if not self.header:
            return b""
        return self._line([self._quoted(c.name, False, len(columns)) for c in columns])

    def line(self, columns: Sequence[Column], zone: tzinfo) -> Line:
        """What makes the bytes of a row."""
        codecs = [codec(column.type, zone) for column in columns]
        if self.format == "binary":
            count = struct.pack("!h", len(columns))
            return lambda row: (
                count + b"".join(sized(v, c.binary) for c, v in zip(codecs, row, strict=True))
            )
        force = [self.force_quote is None or column.name in self.force_quote for column in columns]

        def write(row: Sequence[Any]) -> bytes:
            values = zip(codecs, row, force, strict=True)
            return self._line(
                [
                    self.null if v is None else self._quoted(c.text(v), f, len(row))
                    for c, v, f in values
                ]
            )

        return write

    def _line(self, values: list[str]) -> bytes:
        return (self.delimiter.join(values) + "\n").encode()

    def _quoted(self, text: str, force: bool, columns: int) -> str:
        if self.format == "text":
            escaped = text.translate(_BACKSLASH)
            if self.delimiter == "\t":
                return escaped
            return escaped.replace(self.delimiter, "\\" + self.delimiter)
        special = (self.delimiter, self.quote, "\n", "\r")
        end_mark = columns == 1 and text == "\\."
        if not (force or text == self.null or end_mark or any(mark in text for mark in special)):
            return text
        if self.escape != self.quote:
            text = text.replace(self.escape, self.escape * 2)
        return self.quote + text.replace(self.quote, self.escape + self.quote) + self.quote


def is_copy(sql: str) -> bool:
    """Whether a text begins with COPY."""
    return _COPY.match(without_leading_comments(sql)) is not None


def read(sql: str) -> Copy | None:
    """The COPY that a text is; None if it is something else."""
    if not is_copy(sql):
        return None
    tokens = tokenize(Source.open(sql, "<sql>", None))
    words = tokens.tokens
    while words and words[-1].upper == ";":
        words = words[:-1]
    cursor = Cursor(tokens, words, words[-1].end if words else len(sql))
    cursor.expect("COPY")
    query = _query(cursor, sql)
    if cursor.at("FROM"):
        raise NotSupportedError(
            "COPY from the client", place=cursor.place(), remedy="write INSERT INTO … VALUES"
        )
    cursor.expect("TO")
    if not cursor.accept("STDOUT"):
        if cursor.peek().kind == "string" or cursor.at("PROGRAM"):
            raise NotSupportedError(
                "COPY to files of the server", place=cursor.place(), remedy="write TO STDOUT"
            )
        cursor.fail("STDOUT")
    options = _options(cursor)
    cursor.finish()
    return _copy(query, options, cursor)


def _query(cursor: Cursor, sql: str) -> str:
    if not cursor.at("("):
        start = cursor.peek()
        cursor.name("a relation")
        name = cursor.since(start)
        columns = "*"
        if cursor.at("("):
            start = cursor.peek()
            cursor.identifiers("a column")
            columns = cursor.since(start)[1:-1]
        return f"SELECT {columns} FROM {name}"
    cursor.expect("(")
    first, last = cursor.stretch(what="a query")
    cursor.expect(")")
    return re.sub(r"[^\n]", " ", sql[: first.start]) + sql[first.start : last.end]


def _options(cursor: Cursor) -> dict[str, Any]:
    """(FORMAT csv, HEADER true, …), or the older CSV HEADER …"""
    found: dict[str, Any] = {}
    cursor.accept("WITH")
    bracketed = cursor.accept("(")
    while cursor.peek().kind != "end" and not (bracketed and cursor.at(")")):
        place = cursor.place()
        name = cursor.word("an option of COPY", _OPTIONS).lower()
        if name == "force":
            cursor.expect("QUOTE")
            name = "force_quote"
        if name in ("csv", "binary"):
            name, value = "format", name
        else:
            value = _value(cursor, name)
        if name in found:
            raise SqlError(f"option {name} is there twice", place=place)
        found[name] = value
        if bracketed and not cursor.accept(","):
            break
    if bracketed:
        cursor.expect(")")
    return found


def _value(cursor: Cursor, name: str) -> Any:
    if name in ("header", "freeze"):
        if cursor.peek().upper in ("TRUE", "ON", "FALSE", "OFF") or cursor.peek().text in (
            "0",
            "1",
        ):
            return cursor.next().text.upper() in ("TRUE", "ON", "1")
        return True
    if name == "force_quote":
        if cursor.accept("*"):
            return None
        if cursor.at("("):
            return cursor.identifiers("a column")
        columns = [cursor.identifier("a column")]
        while cursor.accept(","):
            columns.append(cursor.identifier("a column"))
        return tuple(columns)
    if name == "format":
        text = cursor.next().text.lower()
        if text not in ("text", "csv", "binary"):
            raise SqlError(f'COPY format "{text}" not recognized', place=cursor.place(cursor.last))
        return text
    cursor.accept("AS")
    return cursor.string(f"the {name} as a string")


def _copy(query: str, options: dict[str, Any], cursor: Cursor) -> Copy:
    format = options.get("format", "text")
    only_csv = {"quote", "escape", "force_quote"} & options.keys()
    if (format != "csv" and only_csv) or (
        format == "binary" and options.keys() - {"format", "freeze"}
    ):
        raise SqlError(f"COPY in format {format} does not take these options", place=cursor.start)
    if options.pop("encoding", "utf8").lower().replace("-", "") not in ("utf8", "unicode"):
        raise NotSupportedError("encodings other than UTF8", place=cursor.start)
    options.pop("freeze", None)
    for name in ("delimiter", "quote", "escape"):
        if len(options.get(name, ",")) != 1 or options.get(name) in ("\n", "\r"):
            raise SqlError(f"the {name} of COPY must be one character", place=cursor.start)
    if format == "csv":
        options = {"delimiter": ",", "null": "", "escape": options.get("quote", '"'), **options}
    return Copy(query, **options)
