"""Files → Arrow batches, on the executors: lines of text, records of CSV, rows of Parquet.

Everything goes through Arrow's own file systems, so that S3 needs no further Java packages. Line files are
decompressed by their ending (.gz, .bz2, .zst, .lz4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from icestream import types as t
from icestream.connectors.csv_records import read_records, split_lines
from icestream.connectors.files_identity import FileEntry, Storage, content, open_recorded
from icestream.connectors.formats import values
from icestream.connectors.formats.decimals import to_numeric
from icestream.errors import ConnectorError
from icestream.types import Type, arrow_type

CHUNK = 8 << 20
BATCH_ROWS = 20_000
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Piece:
    """What one task reads of a file: all of it, or some row groups of a Parquet file."""

    file: FileEntry
    groups: tuple[int, ...] | None = None
    size: int = 0


@dataclass(frozen=True)
class CsvLayout:
    """What CSV files look like: with a header line or without."""

    delimiter: str
    names: tuple[str, ...]
    header: bool


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
        with open_recorded(storage, system, file, name) as opened:
            stream = content(opened, file)
            records = _csv_records(stream, csv) if csv else _line_records(stream)
            for numbers, payloads, header in records:
                for at in range(0, len(payloads), BATCH_ROWS):
                    part = payloads.slice(at, BATCH_ROWS)
                    yield _raw(file, numbers.slice(at, BATCH_ROWS), part, columns, header)


def _raw(
    file: FileEntry,
    numbers: pa.Array,
    payloads: pa.BinaryArray,
    columns: Sequence[str],
    header: bytes | None = None,
) -> pa.RecordBatch:
    """Raw records. The key of one in a CSV file is the file's header, where that says something."""
    rows = len(payloads)
    made = {
        "stream": lambda: pa.repeat(file.path, rows),
        "partition": lambda: pa.nulls(rows, pa.int32()),
        "offset": lambda: numbers,
        "timestamp": lambda: pa.repeat(pa.scalar(file.modified, pa.timestamp("us", "UTC")), rows),
        "key": lambda: pa.repeat(pa.scalar(header, pa.binary()), rows),
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


def _line_records(stream: Any) -> Iterator[tuple[pa.Array, pa.BinaryArray, None]]:
    number = 0
    for block in _blocks(stream):
        lines = split_lines(block)
        numbers = pa.array(range(number, number + len(lines)), pa.int64())
        number += len(lines)
        filled = pc.greater(pc.binary_length(lines), 0)
        yield numbers.filter(filled), lines.filter(filled), None


def _csv_records(
    stream: Any, layout: CsvLayout
) -> Iterator[tuple[pa.Array, pa.BinaryArray, bytes | None]]:
    """Like lines, but a line break between quotes is part of the record; with the header, which names the fields."""
    return read_records(_blocks(stream), layout.delimiter, layout.names, has_header=layout.header)


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
        with (
            open_recorded(storage, system, piece.file, name) as opened,
            pq.ParquetFile(opened) as file,
        ):
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
    if isinstance(type, t.NumericType):
        return _decimals(array, type)
    return array if array.type == target else array.cast(target)


def _decimals(array: pa.Array, type: t.NumericType) -> pa.Array:
    """Arrow's own cast of decimals overflows without an error, and refuses integers that would fit."""
    if pa.types.is_integer(array.type):
        array = array.cast(pa.decimal128(38, 0))
    if pa.types.is_decimal128(array.type) or pa.types.is_decimal256(array.type):
        return array if array.type == arrow_type(type) else to_numeric(array, type)
    return array.cast(arrow_type(type))
