"""Manifests that PyIceberg writes, read by our reader and by PyIceberg's."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

from icestream.lake import avro

SCHEMA = Schema(*(NestedField(n, f"c{n}", LongType(), required=False) for n in range(1, 4)))


def data_file(number: int) -> DataFile:
    counts = {n: number * n for n in range(1, 4)}
    bounds = {n: struct.pack("<q", -number * n) for n in range(1, 4)}
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"/lake/ü/{number}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=number * 1_000_000_007,
        file_size_in_bytes=number,
        column_sizes=counts,
        value_counts=counts,
        null_value_counts=counts,
        nan_value_counts={},
        lower_bounds=bounds,
        upper_bounds=bounds,
        split_offsets=[4, number],
        sort_order_id=None,
    )


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_manifest_is_read_as_pyiceberg_reads_it(tmp_path: Path, codec: str) -> None:
    io, file = PyArrowFileIO(), tmp_path / "manifest.avro"
    output = io.new_output(str(file))
    spec = UNPARTITIONED_PARTITION_SPEC
    with write_manifest(2, spec, SCHEMA, output, 1, codec) as writer:
        for number in range(300):
            writer.add_entry(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED, snapshot_id=1, data_file=data_file(number)
                )
            )
    theirs = writer.to_manifest_file().fetch_manifest_entry(io, discard_deleted=False)
    ours = avro.records(file.read_bytes())
    assert len(ours) == len(theirs) == 300
    for mine, entry in zip(ours, theirs, strict=True):
        found, expected = mine["data_file"], entry.data_file
        assert mine["status"] == entry.status
        assert found["content"] == expected.content
        for name in ("file_path", "record_count", "file_size_in_bytes", "split_offsets"):
            assert found[name] == getattr(expected, name)
        for name in ("value_counts", "lower_bounds", "upper_bounds"):
            pairs = {pair["key"]: pair["value"] for pair in found[name]}
            assert pairs == getattr(expected, name)


def test_other_files_are_refused() -> None:
    with pytest.raises(ValueError, match="not an Avro file"):
        avro.records(b"PAR1")
