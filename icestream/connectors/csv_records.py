"""CSV files → records: which lines belong together, and the file's header, by which a decoder tells field from field.

A quote opens a field only at its beginning, as in `formats.csv`. Lines between quotes are joined, with their line breaks
as they are. Where the joined lines are no record of the right width (a stray quote), only the first line is a broken
record and reading resumes with the second: a stray quote costs one line. A line that leaves a quote open, whether it
begins between quotes or not, ends a field of the record that it continues. So the search for the end of a record stops
after as many of those lines as a record has fields, and every line is scanned a bounded number of times.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from icestream.connectors.formats.csv import Header

MAX_RECORD = 16 << 20
"""Bytes of a record of several lines; a quote that is open for longer is a stray one."""
MAX_FIELDS = 1600
"""Fields of a record of several lines whose width is not known: as many as a table of PostgreSQL has columns."""

Numbered = tuple[int, bytes]
"""The number of a record's first line, and the record."""


class State(Enum):
    """What a scan of one more line found."""

    COMPLETE = "the record ends with the line"
    OPEN = "a quote is open"
    BROKEN = "text after a closing quote"


def scan(line: bytes, delimiter: bytes, *, is_open: bool) -> tuple[State, int]:
    """What the line does to a record, and how many fields end in it. `is_open`: it begins between quotes."""
    at, fields = 0, 0
    end = len(line) - line.endswith(b"\r")
    while True:
        if is_open:
            at = line.find(b'"', at) + 1
            if not at:
                return State.OPEN, fields
            if line.startswith(b'"', at):
                at += 1
                continue
            is_open = False
            if at < end and not line.startswith(delimiter, at):
                return State.BROKEN, fields
        elif line.startswith(b'"', at):
            is_open = True
            at += 1
            continue
        else:
            found = line.find(delimiter, at)
            at = found if found >= 0 else end
        fields += 1
        if at >= end:
            return State.COMPLETE, fields
        at += 1


class RecordSplitter:
    """Joins the lines of a file into records. Give it all lines, then ask for what is left."""

    def __init__(self, delimiter: str, width: int | None) -> None:
        self.delimiter = delimiter.encode()
        self.width = width
        """How many fields a record has; None: not known before the header was read."""
        self._pending: list[Numbered] = []
        self._fields = 0
        self._size = 0

    @property
    def has_pending(self) -> bool:
        """Whether the last line is inside a record."""
        return bool(self._pending)

    @property
    def _has_too_many_fields(self) -> bool:
        """Whether the field whose quote is open is one more than a record has."""
        return self._fields >= (self.width or MAX_FIELDS)

    def push(self, lines: Iterable[Numbered]) -> Iterator[Numbered]:
        """The records that end in these lines. Empty lines between records are left out."""
        queue = deque(lines)
        while queue:
            number, line = queue.popleft()
            if not self._pending and b'"' not in line:
                if line := line.removesuffix(b"\r"):
                    yield number, line
                continue
            state, fields = scan(line, self.delimiter, is_open=self.has_pending)
            self._pending.append((number, line))
            self._fields += fields
            self._size += len(line)
            if state is State.OPEN and self._size <= MAX_RECORD and not self._has_too_many_fields:
                continue
            lines_of_record, width = self._pending, self._fields
            self._pending, self._fields, self._size = [], 0, 0
            first, *rest = lines_of_record
            if rest and (state is not State.COMPLETE or width != (self.width or width)):
                queue.extendleft(reversed(rest))
                rest = []
            joined = b"\n".join(line for _, line in (first, *rest)).removesuffix(b"\r")
            yield first[0], joined

    def finish(self) -> Iterator[Numbered]:
        """The records of the lines that are left: a quote was never closed."""
        while self._pending:
            (number, line), *rest = self._pending
            self._pending, self._fields, self._size = [], 0, 0
            yield number, line.removesuffix(b"\r")
            yield from self.push(rest)


def read_records(
    blocks: Iterable[bytes], delimiter: str, names: tuple[str, ...], *, has_header: bool
) -> Iterator[tuple[pa.Array, pa.BinaryArray, bytes | None]]:
    """The records of blocks of whole lines as they are, with the numbers of their lines, and the header they are below:
    None where they are in the declared order anyway.

    A header that names no column may be a record, in a file without one; so may one in which records end with a carriage
    return alone. It is given as a record too: nothing of a file is left out silently.
    """
    splitter = RecordSplitter(delimiter, None if has_header else len(names) or None)
    header: Header | None = None
    written: bytes | None = None
    for numbers, records in _split_blocks(blocks, splitter):
        if has_header and header is None and len(records):
            header = Header(records[0].as_py(), delimiter, names)
            splitter.width = header.width or 1  # below a broken header all are dead letters
            if header.error is not None or header.order is not None:
                written = records[0].as_py()
            if not header.holds_data:
                numbers, records = numbers.slice(1), records.slice(1)
        yield numbers, records, written


def _split_blocks(
    blocks: Iterable[bytes], splitter: RecordSplitter
) -> Iterator[tuple[pa.Array, pa.BinaryArray]]:
    number = 0
    for block in blocks:
        if not splitter.has_pending and b'"' not in block:
            lines = split_lines(block)
            numbers = pa.array(range(number, number + len(lines)), pa.int64())
            number += len(lines)
            filled = pc.greater(pc.binary_length(lines), 0)
            yield numbers.filter(filled), lines.filter(filled)
            continue
        raw = block.split(b"\n")
        found = splitter.push(enumerate(raw, number))
        number += len(raw)
        yield from _batches(found, splitter)
    yield from _batches(splitter.finish(), splitter)


def _batches(
    found: Iterator[Numbered], splitter: RecordSplitter
) -> Iterator[tuple[pa.Array, pa.BinaryArray]]:
    if splitter.width is None:  # the header comes alone, for it tells the width of the others
        yield _batch(list(islice(found, 1)))
    yield _batch(list(found))


def _batch(records: list[Numbered]) -> tuple[pa.Array, pa.BinaryArray]:
    return (
        pa.array([n for n, _ in records], pa.int64()),
        pa.array([r for _, r in records], pa.binary()),
    )


def split_lines(block: bytes) -> pa.BinaryArray:
    """The lines of a block, without their line breaks."""
    lines = pc.split_pattern(pa.scalar(block, pa.binary()), b"\n").values
    if b"\r" in block:
        lines = pa.array([line.removesuffix(b"\r") for line in lines.to_pylist()], pa.binary())
    return lines
