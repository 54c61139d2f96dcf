"""Deleted positions of data files: reading whatever form they have, writing deletion vectors or position deletes.

A deletion vector is a roaring bitmap in a Puffin file: a length, a magic number, the bitmap, a checksum. A data file has
at most one, so a new one holds all that was deleted before as well. Each has a Puffin file of its own: a reader in wide use
(DuckDB 1.5) mixes up several vectors of one file.
"""

from __future__ import annotations

import io
import json
import struct
import uuid
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from icestream.lake.java_types import JavaFile, JavaObject, JavaTable
from icestream.lake.jvm import Jvm
from icestream.lake.recent import Recent

if TYPE_CHECKING:
    from icestream.lake.files import LiveFile

Bits = BitMap64

BLOB = "deletion-vector-v1"
PUFFIN = b"PFA1"
MAGIC = bytes((0xD1, 0xD3, 0x39, 0x64))
PATH_ID, POSITION_ID = 2147483546, 2147483545
ROW_POSITION = 2147483645
WRITERS = 4
"""Delete files written at a time."""
REMEMBERED = 32 << 20
"""Bytes of vectors that are kept in memory."""


def read(java: JavaTable, deletes: Sequence[JavaFile], location: str, jvm: Jvm) -> Bits:
    """The positions of a data file that vectors and position delete files of any kind have deleted."""
    if not deletes:
        return Bits()
    alone = len(deletes) == 1 and str(deletes[0].format()) == "PUFFIN"
    at = _place(deletes[0]) if alone else None
    known = _recent.get(at) if at is not None else None
    if known is not None:
        return known.copy()
    files = jvm.list(deletes)
    loader = jvm.iceberg.data.BaseDeleteLoader(_Opener(java.io()))
    index = loader.loadPositionDeletes(files, location)
    bits = Bits() if index.isEmpty() else decode(bytes(index.serialize().array()))
    if at is not None:
        _remember(at, bits)
    return bits


_recent: Recent[tuple[str, int], Bits] = Recent(REMEMBERED)


def _remember(at: tuple[str, int], bits: Bits) -> None:
    _recent.keep(at, bits.copy(), len(bits.serialize()))


def _place(delete: JavaFile) -> tuple[str, int]:
    return str(delete.location()), int(delete.contentOffset() or 0)


class _Opener:
    """How Iceberg's loader opens a delete file."""

    def __init__(self, files: JavaObject) -> None:
        self.files = files

    def apply(self, file: JavaFile) -> JavaObject:
        """Called by Iceberg."""
        return self.files.newInputFile(file.location())

    class Java:
        """Py4J: the Java interface this class implements."""

        implements = ("java.util.function.Function",)


def encode(bits: Bits) -> bytes:
    """The blob of a deletion vector."""
    body = MAGIC + bits.serialize()
    return struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def decode(blob: bytes) -> Bits:
    """The positions in such a blob."""
    return Bits.deserialize(blob[8:-4])


def write_vectors(
    java: JavaTable, marked: Sequence[tuple[LiveFile, Bits]], jvm: Jvm, *, remember: bool = True
) -> list[JavaFile]:
    """A Puffin file with a vector for each data file; gives the delete files to commit."""
    provider, access = java.locationProvider(), java.io()
    describe = _Describer(java, jvm.iceberg.FileFormat.PUFFIN, jvm)

    def write(one: tuple[LiveFile, Bits]) -> JavaFile:
        file, bits = one
        location = provider.newDataLocation(f"{uuid.uuid4()}-vector.puffin")
        blob = encode(bits)
        content = puffin(blob, file.location, len(bits))
        out = access.newOutputFile(location).createOrOverwrite()
        out.write(content)
        out.close()
        if remember:
            _remember((location, len(PUFFIN)), bits)
        described = describe(file, location, len(content), len(bits))
        placed = described.withContentOffset(len(PUFFIN)).withContentSizeInBytes(len(blob))
        return cast(JavaFile, placed.build())

    if len(marked) <= WRITERS:
        return [write(one) for one in marked]
    with ThreadPoolExecutor(WRITERS) as pool:
        return list(pool.map(write, marked))


def puffin(blob: bytes, location: str, count: int) -> bytes:
    """A Puffin file with one vector."""
    vector = {
        "type": BLOB,
        "fields": [ROW_POSITION],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": len(PUFFIN),
        "length": len(blob),
        "properties": {"referenced-data-file": location, "cardinality": str(count)},
    }
    footer = json.dumps({"blobs": [vector], "properties": {"created-by": "icestream"}}).encode()
    end = struct.pack("<i", len(footer)) + bytes(4)
    return PUFFIN + blob + PUFFIN + footer + end + PUFFIN


def write_position_deletes(
    java: JavaTable, marked: Sequence[tuple[LiveFile, Bits]], jvm: Jvm
) -> list[JavaFile]:
    """For format version 2: a position delete file for each data file."""
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(PATH_ID)}),
            pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(POSITION_ID)}),
        ]
    )
    describe = _Describer(java, jvm.iceberg.FileFormat.PARQUET, jvm)
    measure = jvm.iceberg.parquet.ParquetUtil.fileMetrics
    config = jvm.iceberg.MetricsConfig.forPositionDelete(java)
    provider, access = java.locationProvider(), java.io()
    written = []
    for file, bits in marked:
        name = f"{uuid.uuid4()}-deletes.parquet"
        spec, partitioned = describe.spec(file)
        location = (
            provider.newDataLocation(spec, file.java.partition(), name)
            if partitioned
            else provider.newDataLocation(name)
        )
        positions = pa.array(bits.to_array(), pa.int64())
        paths = pa.repeat(file.location, len(positions))
        buffer = io.BytesIO()
        pq.write_table(pa.table([paths, positions], schema=schema), buffer, compression="zstd")
        out = access.newOutputFile(location).createOrOverwrite()
        out.write(buffer.getvalue())
        out.close()
        metrics = measure(access.newInputFile(location), config)
        described = describe(file, location, buffer.tell(), len(bits))
        written.append(described.withMetrics(metrics).build())
    return written


class _Describer:
    """Builders of delete files, each of its data file's own spec and partition: any other would resurrect rows under
    a filter."""

    def __init__(self, java: JavaTable, format: JavaObject, jvm: Jvm) -> None:
        self.java, self.format = java, format
        self.builder = jvm.iceberg.FileMetadata.deleteFileBuilder
        self._specs: dict[int, tuple[JavaObject, bool]] = {}

    def spec(self, file: LiveFile) -> tuple[JavaObject, bool]:
        """The data file's spec, and whether it partitions."""
        number = file.java.specId()
        if number not in self._specs:
            spec = self.java.specs().get(number)
            self._specs[number] = (spec, not spec.isUnpartitioned())
        return self._specs[number]

    def __call__(self, file: LiveFile, location: str, size: int, count: int) -> JavaObject:
        spec, partitioned = self.spec(file)
        builder = (
            self.builder(spec)
            .ofPositionDeletes()
            .withFormat(self.format)
            .withPath(location)
            .withFileSizeInBytes(size)
            .withRecordCount(count)
            .withReferencedDataFile(file.location)
        )
        return builder.withPartition(file.java.partition()) if partitioned else builder
