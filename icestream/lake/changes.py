"""`changes(table, s0, s1)`: what happened to a table between two of its snapshots, as a frame.

It serves replay of an epoch whose commit is already there, sinks with a longer commit interval, and
Iceberg tables as sources.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from icestream.errors import NotSupportedError, RangeLostError
from icestream.lake.table import LakeTable

CONTENT_KEEPING = ("append", "replace")


def changes(table: LakeTable, start: int | None, end: int | None) -> DataFrame | None:
    """Rows added in (start, end]; None when there are none to read. `start` None means from the beginning.

    Snapshots of kind `replace` (compaction) change no content and are skipped. A range whose start is
    no longer kept raises RangeLostError; one that removes rows is not an append-only range.
    """
    if end is None or start == end:
        return None
    spark = table.jvm.spark
    if start is None:
        return spark.read.format("iceberg").option("snapshot-id", end).load(table.sql)
    java = table.load()
    snapshot = java.snapshot(end)
    while snapshot is not None and snapshot.snapshotId() != start:
        if str(snapshot.operation()) not in CONTENT_KEEPING:
            raise NotSupportedError(
                f"reading {table.name} as a stream across a snapshot that changes or deletes rows "
                f"({snapshot.operation()}, {snapshot.snapshotId()})",
                remedy="read tables that are only appended to",
            )
        parent = snapshot.parentId()
        snapshot = java.snapshot(parent) if parent is not None else None
    if snapshot is None:
        raise RangeLostError(
            f"{table.name} no longer keeps snapshot {start}, so what came after it cannot be read",
            object=table.name,
            remedy="keep snapshots longer (history.expire.max-snapshot-age-ms), "
            "then drop and create the object to start over",
        )
    reader = spark.read.format("iceberg")
    return reader.option("start-snapshot-id", start).option("end-snapshot-id", end).load(table.sql)
