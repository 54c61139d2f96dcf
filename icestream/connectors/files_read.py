"""Files → Arrow batches, on the executors: lines of text, records of CSV, rows of Parquet.

Everything goes through Arrow's own file systems, so that S3 needs no further Java packages. Line files are
decompressed by their ending (.gz, .bz2, .zst, .lz4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pf
import pyarrow.parquet as pq

from icestream import types as t
from icestream.connectors.formats import values
from icestream.connectors.formats.csv import split
from icestream.errors import ConnectorError, RangeLostError
from icestream.types import Type, arrow_type

CHUNK = 8 << 20
BATCH_ROWS = 20_000
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Storage:
    """Where files live: this machine, or a bucket. It holds keys: never print it."""

    bucket: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def open(self) -> pf.FileSystem:
        """The file system, as Arrow sees it."""
        if self.bucket is None:
            return pf.LocalFileSystem()
        options = dict(self.options)
        if endpoint := options.pop("endpoint", None):
            parts = urlsplit(endpoint if "//" in endpoint else f"https://{endpoint}")
            options |= {"endpoint_override": parts.netloc, "scheme": parts.scheme}
        return pf.S3FileSystem(**options)

    def location(self, path: str) -> str:
        """The path that the file system wants for a file's own."""
        return path if self.bucket is None else f"{self.bucket}/{path}"


@dataclass(frozen=True)
class FileEntry:
    """One file, as it was when it was first seen."""

    path: str
    size: int
    modified: int
    """Microseconds since 1970."""


@dataclass(frozen=True)
class Piece:
    """What one task reads of a file: all of it, or some row groups of a Parquet file."""

    file: FileEntry
    groups: tuple[int, ...] | None = None
    size: int = 0


@dataclass(frozen=True)
class CsvLayout:
    """CSV files with a header line: records are put in the order of the declared columns."""

    delimiter: str
    names: tuple[str, ...]
    header: bool


def check_unchanged(files: Sequence[FileEntry], found: Sequence[pf.FileInfo], name: str) -> None:
    """Raise RangeLostError for the first file that is gone or is no longer what was seen."""
    for file, info in zip(files, found, strict=True):
        if info.type != pf.FileType.File:
            lost = f"file {file.path} is gone"
        elif info.size != file.size:
            lost = f"file {file.path} had {file.size} bytes and has {info.size} now"
        else:
            continue
        raise RangeLostError(
            f"source {name}: {lost}, before it was read",
            object=name,
            remedy="put it back as it was; write files under a name that begins with . or _ "
            "and rename them when they are complete",
        )


def line_batches(
    storage: Storage,
    pieces: Sequence[Piece],
    columns: Sequence[str],
    csv: CsvLayout | None,
    name: str,
) -> Iterator[pa.RecordBatch]:
    """Raw records of line files: one a line (or one a CSV record), empty lines left out."""
    system = storage.open()
    for piece in pieces:
        file = piece.file
        location = storage.location(file.path)
        check_unchanged([file], system.get_file_info([location]), name)
        with system.open_input_stream(location) as stream:
            records = _csv_records(stream, csv) if csv else _line_records(stream)
            for numbers, payloads in records:
                for at in range(0, len(payloads), BATCH_ROWS):
                    part = payloads.slice(at, BATCH_ROWS)
                    yield _raw(file, numbers.slice(at, BATCH_ROWS), part, columns)


def _raw(
    file: FileEntry, numbers: pa.Array, payloads: pa.BinaryArray, columns: Sequence[str]
) -> pa.RecordBatch:
    rows = len(payloads)
    made = {
        "stream": lambda: pa.repeat(file.path, rows),
        "partition": lambda: pa.nulls(rows, pa.int32()),
        "offset": lambda: numbers,
        "timestamp": lambda: pa.repeat(pa.scalar(file.modified, pa.timestamp("us", "UTC")), rows),
        "key": lambda: pa.nulls(rows, pa.binary()),
        "headers": lambda: pa.nulls(rows, _HEADERS),
        "value": lambda: payloads,
    }
    return pa.RecordBatch.from_arrays([made[c]() for c in columns], names=list(columns))


def _blocks(stream: Any) -> Iterator[bytes]:
    """A stream's bytes in blocks of whole lines, without the last newline of each."""
    rest = b""
    while len(rest) < len(_BOM) and (some := stream.read(len(_BOM) - len(rest))):
        rest += some
    rest = rest.removeprefix(_BOM)
    while chunk := stream.read(max(CHUNK, len(rest))):
        data = rest + chunk
        cut = data.rfind(b"\n")
        if cut < 0:
            rest = data
            continue
        yield data[:cut]
        rest = data[cut + 1 :]
    if rest:
        yield rest.removesuffix(b"\n")


def _line_records(stream: Any) -> Iterator[tuple[pa.Array, pa.BinaryArray]]:
    number = 0
    for block in _blocks(stream):
        lines = _lines(block)
        numbers = pa.array(range(number, number + len(lines)), pa.int64())
        number += len(lines)
        filled = pc.greater(pc.binary_length(lines), 0)
        yield numbers.filter(filled), lines.filter(filled)


def _lines(block: bytes) -> pa.BinaryArray:
    lines = pc.split_pattern(pa.scalar(block, pa.binary()), b"\n").values
    if b"\r" in block:
        lines = pa.array([line.removesuffix(b"\r") for line in lines.to_pylist()], pa.binary())
    return lines


def _csv_records(stream: Any, layout: CsvLayout) -> Iterator[tuple[pa.Array, pa.BinaryArray]]:
    """Like lines, but a line break between quotes is part of the record; the header names the fields."""
    order: list[int | None] | None = None
    header = layout.header
    for numbers, records in _whole_records(stream):
        if header and len(records):
            header = False
            order = _order(records[0].as_py(), layout)
            numbers, records = numbers.slice(1), records.slice(1)
        if order is not None:
            records = pa.array(
                [_ordered(r, order, layout) for r in records.to_pylist()], pa.binary()
            )
        yield numbers, records


def _whole_records(stream: Any) -> Iterator[tuple[pa.Array, pa.BinaryArray]]:
    number, began, pending = 0, 0, b""
    for block in _blocks(stream):
        lines = _lines(block)
        if not pending and b'"' not in block:
            numbers = pa.array(range(number, number + len(lines)), pa.int64())
            number += len(lines)
            filled = pc.greater(pc.binary_length(lines), 0)
            yield numbers.filter(filled), lines.filter(filled)
            continue
        starts, records = [], []
        for line in lines.to_pylist():
            began = began if pending else number
            number += 1
            record = pending + b"\n" + line if pending else line
            if record.count(b'"') % 2:  # an open quote: the record goes on
                pending = record
                continue
            pending = b""
            if record:
                starts.append(began)
                records.append(record)
        yield pa.array(starts, pa.int64()), pa.array(records, pa.binary())
    if pending:  # a quote that is never closed: the decoder says so
        yield pa.array([began], pa.int64()), pa.array([pending], pa.binary())


def _order(header: bytes, layout: CsvLayout) -> list[int | None] | None:
    """Where each declared column is in the file; None if they are in the declared order already."""
    names = [(n or "").strip() for n in split(header.decode(errors="replace"), layout.delimiter)]
    if names == list(layout.names):
        return None
    folded = {n.lower(): i for i, n in reversed(list(enumerate(names)))}
    exact = {n: i for i, n in reversed(list(enumerate(names)))}
    return [len(names), *(exact.get(n, folded.get(n.lower())) for n in layout.names)]


def _ordered(record: bytes, order: list[int | None], layout: CsvLayout) -> bytes:
    """The record with its fields in the declared order; one that is broken stays as it is."""
    try:
        items = split(record.decode(), layout.delimiter)
    except ValueError:
        return record
    if len(items) != order[0]:
        return record
    return layout.delimiter.join(
        "" if i is None or (item := items[i]) is None else '"' + item.replace('"', '""') + '"'
        for i in order[1:]
    ).encode()


# -- Parquet -----------------------------------------------------------------------------------------


def row_groups(storage: Storage, file: FileEntry, target: int) -> list[Piece]:
    """A large Parquet file in pieces of about `target` bytes."""
    meta = pq.ParquetFile(storage.location(file.path), filesystem=storage.open()).metadata
    share = file.size // max(meta.num_row_groups, 1)
    width = max(1, target // max(share, 1))
    return [
        Piece(file, tuple(range(g, min(g + width, meta.num_row_groups))), share * width)
        for g in range(0, meta.num_row_groups, width)
    ]


def parquet_batches(
    storage: Storage, pieces: Sequence[Piece], columns: Sequence[tuple[str, Type | None]], name: str
) -> Iterator[pa.RecordBatch]:
    """Typed rows: columns by name, in their declared types, NULL where the file has none.

    A column without a type is one of the raw record's: where the row was.
    """
    system = storage.open()
    for piece in pieces:
        location = storage.location(piece.file.path)
        check_unchanged([piece.file], system.get_file_info([location]), name)
        with pq.ParquetFile(location, filesystem=system) as file:
            known = file.schema_arrow.names
            folded = {n.lower(): n for n in reversed(known)}
            found = {c: c if c in known else folded.get(c.lower()) for c, type in columns if type}
            groups = piece.groups or tuple(range(file.metadata.num_row_groups))
            number = (
                sum(file.metadata.row_group(g).num_rows for g in range(groups[0])) if groups else 0
            )
            wanted = sorted({n for n in found.values() if n is not None})
            for batch in file.iter_batches(BATCH_ROWS, row_groups=list(groups), columns=wanted):
                numbers = pa.array(range(number, number + len(batch)), pa.int64())
                number += len(batch)
                raw = _raw(piece.file, numbers, numbers, ["stream", "offset", "timestamp"])
                yield pa.RecordBatch.from_arrays(
                    [
                        raw.column(c)
                        if type is None
                        else _typed(batch, found[c], c, type, piece.file)
                        for c, type in columns
                    ],
                    names=[c for c, _ in columns],
                )


def _typed(
    batch: pa.RecordBatch, source: str | None, column: str, type: Type, file: FileEntry
) -> pa.Array:
    if source is None:
        return pa.nulls(len(batch), arrow_type(type))
    array = batch.column(source)
    try:
        return conform(array, type)
    except (pa.ArrowException, ValueError) as error:
        raise ConnectorError(
            f"file {file.path}: column {column} is {array.type} and does not fit {type}: {error}"
        ) from None


def conform(array: pa.Array, type: Type) -> pa.Array:
    """An array in the Arrow type of ours; raises where a value does not fit. Times lose what is below 1 µs."""
    target = arrow_type(type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    match type:
        case t.JSONB:
            texts = array.cast(pa.string()).to_pylist()
            return pa.array(
                [None if v is None else values.to_jsonb(values.parse(v)) for v in texts], target
            )
        case t.TIME if pa.types.is_time(array.type):
            return array.cast(pa.time64("us"), safe=False).cast(target)
        case t.TIMESTAMP | t.TIMESTAMPTZ if pa.types.is_timestamp(array.type):
            return array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(target)
        case t.DATE if pa.types.is_timestamp(array.type):
            return array.cast(target, safe=False)
    return array if array.type == target else array.cast(target)
