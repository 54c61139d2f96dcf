"""COPY … TO STDOUT: the rows of its query as text, CSV or binary."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from icestream.server.arrays import sized
from icestream.server.backend import Column
from icestream.server.values import codec
from icestream.sql.session_statements import CopyOptions

Line = Callable[[Sequence[Any]], bytes]

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"

_BACKSLASH = str.maketrans({
    "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
})  # fmt: skip


@dataclass(frozen=True)
class CopyWriter:
    """Writes the rows of a COPY."""

    options: CopyOptions

    def titles(self, columns: Sequence[Column]) -> bytes:
        """What comes before the rows."""
        if self.options.format == "binary":
            return HEADER
        if not self.options.header:
            return b""
        return self._line([self._quoted(c.name, False, len(columns)) for c in columns])

    def line(self, columns: Sequence[Column], zone: tzinfo) -> Line:
        """What makes the bytes of a row."""
        codecs = [codec(column.type, zone) for column in columns]
        if self.options.format == "binary":
            count = struct.pack("!h", len(columns))
            return lambda row: (
                count + b"".join(sized(v, c.binary) for c, v in zip(codecs, row, strict=True))
            )
        force = [
            self.options.force_quote is None or column.name in self.options.force_quote
            for column in columns
        ]

        def write(row: Sequence[Any]) -> bytes:
            values = zip(codecs, row, force, strict=True)
            return self._line(
                [
                    self.options.null if v is None else self._quoted(c.text(v), f, len(row))
                    for c, v, f in values
                ]
            )

        return write

    def _line(self, values: list[str]) -> bytes:
        return (self.options.delimiter.join(values) + "\n").encode()

    def _quoted(self, text: str, force: bool, columns: int) -> str:
        if self.options.format == "text":
            escaped = text.translate(_BACKSLASH)
            if self.options.delimiter == "\t":
                return escaped
            return escaped.replace(self.options.delimiter, "\\" + self.options.delimiter)
        special = (self.options.delimiter, self.options.quote, "\n", "\r")
        end_mark = columns == 1 and text == "\\."
        if not (
            force or text == self.options.null or end_mark or any(mark in text for mark in special)
        ):
            return text
        if self.options.escape != self.options.quote:
            text = text.replace(self.options.escape, self.options.escape * 2)
        return (
            self.options.quote
            + text.replace(self.options.quote, self.options.escape + self.options.quote)
            + self.options.quote
        )
