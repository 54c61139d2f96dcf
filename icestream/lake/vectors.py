"""Deleted positions of data files: reading whatever form they have, writing deletion vectors or position deletes.

A deletion vector is a roaring bitmap in a Puffin file: a length, a magic number, the bitmap, a checksum. A data file has
at most one, so a new one holds all that was deleted before as well.
"""

from __future__ import annotations

import io
import struct
import uuid
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from icestream.lake.jvm import JavaObject, Jvm, iterate

if TYPE_CHECKING:
    from icestream.lake.files import LiveFile

Bits = BitMap64

BLOB = "deletion-vector-v1"
MAGIC = bytes((0xD1, 0xD3, 0x39, 0x64))
PATH_ID, POSITION_ID = 2147483546, 2147483545
ROW_POSITION = 2147483645


def read(java: JavaObject, deletes: Sequence[JavaObject], location: str, jvm: Jvm) -> Bits:
    """The positions of a data file that vectors and position delete files of any kind have deleted."""
    if not deletes:
        return Bits()
    files = jvm.list(deletes)
    loader = jvm.iceberg.data.BaseDeleteLoader(_Opener(java.io()))
    index = loader.loadPositionDeletes(files, location)
    if index.isEmpty():
        return Bits()
    return decode(bytes(index.serialize().array()))


class _Opener:
    """How Iceberg's loader opens a delete file."""

    def __init__(self, files: JavaObject) -> None:
        self.files = files

    def apply(self, file: JavaObject) -> JavaObject:
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
    java: JavaObject, marked: Sequence[tuple[LiveFile, Bits]], jvm: Jvm
) -> list[JavaObject]:
    """One Puffin file with a vector for each data file; gives the delete files to commit."""
    location = java.locationProvider().newDataLocation(f"{uuid.uuid4()}-vectors.puffin")
    puffin = jvm.iceberg.puffin
    writer = puffin.Puffin.write(java.io().newOutputFile(location)).createdBy("icestream").build()
    for file, bits in marked:
        properties = {"referenced-data-file": file.location, "cardinality": str(len(bits))}
        blob = puffin.Blob(
            BLOB,
            jvm.list([ROW_POSITION]),
            -1,
            -1,
            jvm.java.nio.ByteBuffer.wrap(encode(bits)),
            puffin.PuffinCompressionCodec.NONE,
            jvm.map(properties),
        )
        writer.write(blob)
    writer.finish()
    size, blobs = writer.fileSize(), list(iterate(writer.writtenBlobsMetadata()))
    writer.close()
    return [
        _describe(java, file, jvm.iceberg.FileFormat.PUFFIN, location, size, len(bits), jvm)
        .withContentOffset(blob.offset())
        .withContentSizeInBytes(blob.length())
        .build()
        for (file, bits), blob in zip(marked, blobs, strict=True)
    ]


def write_position_deletes(
    java: JavaObject, marked: Sequence[tuple[LiveFile, Bits]], jvm: Jvm
) -> list[JavaObject]:
    """For format version 2: a position delete file for each data file."""
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(PATH_ID)}),
            pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(POSITION_ID)}),
        ]
    )
    written = []
    for file, bits in marked:
        name = f"{uuid.uuid4()}-deletes.parquet"
        spec = java.specs().get(file.java.specId())
        provider = java.locationProvider()
        location = (
            provider.newDataLocation(name)
            if spec.isUnpartitioned()
            else provider.newDataLocation(spec, file.java.partition(), name)
        )
        positions = pa.array(bits.to_array(), pa.int64())
        paths = pa.repeat(file.location, len(positions))
        buffer = io.BytesIO()
        pq.write_table(pa.table([paths, positions], schema=schema), buffer, compression="zstd")
        out = java.io().newOutputFile(location).createOrOverwrite()
        out.write(buffer.getvalue())
        out.close()
        described = _describe(
            java, file, jvm.iceberg.FileFormat.PARQUET, location, buffer.tell(), len(bits), jvm
        )
        metrics = jvm.iceberg.parquet.ParquetUtil.fileMetrics(
            java.io().newInputFile(location), jvm.iceberg.MetricsConfig.forPositionDelete(java)
        )
        written.append(described.withMetrics(metrics).build())
    return written


def _describe(
    java: JavaObject,
    file: LiveFile,
    format: JavaObject,
    location: str,
    size: int,
    count: int,
    jvm: Jvm,
) -> JavaObject:
    """A delete file of the data file's own spec and partition: any other would resurrect rows under a filter."""
    spec = java.specs().get(file.java.specId())
    builder = (
        jvm.iceberg.FileMetadata.deleteFileBuilder(spec)
        .ofPositionDeletes()
        .withFormat(format)
        .withPath(location)
        .withFileSizeInBytes(size)
        .withRecordCount(count)
        .withReferencedDataFile(file.location)
    )
    return builder if spec.isUnpartitioned() else builder.withPartition(file.java.partition())
