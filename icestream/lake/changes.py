"""What happened to a table between two of its snapshots, as a frame.

`changes` gives the rows that were added to a table which only grows; `delta` also those that went, each with what
happened to it. They serve what stands on a table, replay of an epoch whose commit is already there, sinks with a
longer commit interval, and Iceberg tables as sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from icestream.errors import NotSupportedError, RangeLostError
from icestream.lake import small, vectors
from icestream.lake.files import LiveFile, LiveFiles, live_rows, rows_at
from icestream.lake.fold import DELETE, OFFSET, OP, PARTITION, STREAM, UPSERT
from icestream.lake.java_types import JavaFile, JavaSnapshot, JavaTable
from icestream.lake.jvm import iterate
from icestream.lake.table import LakeTable
from icestream.lake.vectors import Bits
from icestream.types import backtick

_COUNTS = (
    "added-records",
    "deleted-records",
    "added-position-deletes",
    "removed-position-deletes",
)
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
        raise _lost(table, start)
    reader = spark.read.format("iceberg")
    return reader.option("start-snapshot-id", start).option("end-snapshot-id", end).load(table.sql)


def appended(frame: DataFrame) -> DataFrame:
    """Rows of a table that only grows, as changes in the order in which they were written."""
    return _as_changes(frame, UPSERT, F.col("_row_id"))


def delta(
    table: LakeTable,
    start: int | None,
    end: int,
    held: ExitStack,
    known: Mapping[str, LiveFile] | None = None,
) -> DataFrame:
    """All changes of a table's rows in (start, end], those that went (DELETE) and those that came (UPSERT).

    Compactions are skipped: between two of them the changes are netted, and numbered in OFFSET. The frame can be
    used until `held` is closed. `known` data files need not be looked up in the table.
    """
    if start is None:
        reader = table.jvm.spark.read.format("iceberg").option("snapshot-id", end)
        return _as_changes(reader.load(table.sql), UPSERT, F.lit(0))
    java = table.holding(end)
    parts: list[DataFrame] = []
    for number, segment in enumerate(_segments(table, java, start, end)):
        parts += segment.frames(table, java, number, held, known or {})
    if not parts:
        return _as_changes(table.jvm.spark.table(table.sql).limit(0), UPSERT, F.lit(0))
    frame = parts[0]
    for part in parts[1:]:
        frame = frame.unionByName(part)
    return frame


def few(
    table: LakeTable, start: int, end: int, schema: pa.Schema, known: Mapping[str, LiveFile]
) -> pa.Table | None:
    """What `delta` gives, read by the driver itself. None: that is for Spark to do."""
    java = table.holding(end)
    found: list[pa.Table] = []
    for number, segment in enumerate(_segments(table, java, start, end)):
        for op, chosen in segment.chosen(table, java, known):
            table.check_files(file.location for file, _ in chosen)
            rows = small.read(schema, chosen)
            if rows is None:
                return None
            count = len(rows)
            marks = {
                OP: pa.array([op] * count, pa.int8()),
                STREAM: pa.array([""] * count, pa.string()),
                PARTITION: pa.array([0] * count, pa.int32()),
                OFFSET: pa.array([number] * count, pa.int64()),
            }
            for name, column in marks.items():
                rows = rows.append_column(name, column)
            found.append(rows)
    return pa.concat_tables(found) if found else None


def changed(table: LakeTable, start: int | None, end: int | None) -> int:
    """About how many rows came and went in (start, end], as the snapshots say."""
    total, within = 0, False
    for snapshot in table.ancestry(table.holding(end)):
        within |= snapshot.id == end
        if snapshot.id == start:
            break
        if not within or snapshot.operation == "replace":
            continue
        if start is None:
            return int(snapshot.summary.get("total-records", 0))
        counts = {k: int(snapshot.summary.get(k, 0)) for k in _COUNTS}
        marked = counts["added-position-deletes"] - counts["removed-position-deletes"]
        total += counts["added-records"] + counts["deleted-records"] + max(0, marked)
    return total


def _as_changes(frame: DataFrame, op: int, offset: F.Column) -> DataFrame:
    hidden = {"_row_id", "_last_updated_sequence_number"}
    return frame.select(
        *[backtick(c) for c in frame.columns if c not in hidden],
        F.lit(op).cast("tinyint").alias(OP),
        F.lit("").alias(STREAM),
        F.lit(0).alias(PARTITION),
        offset.cast("bigint").alias(OFFSET),
    )


@dataclass
class _Segment:
    """What commits without a compaction among them did to the data files: net, from before the first to the last."""

    last: int
    added: dict[str, JavaFile] = field(default_factory=dict)
    removed: dict[str, JavaFile] = field(default_factory=dict)
    vector: dict[str, JavaFile] = field(default_factory=dict)
    """The newest vector of a data file."""
    before: dict[str, JavaFile | None] = field(default_factory=dict)
    """The vector that a data file had before the segment."""

    def take(self, table: LakeTable, java: JavaTable, snapshot: JavaSnapshot) -> None:
        """Add the next snapshot, in the order of time."""
        io = java.io()
        self.last = snapshot.snapshotId()
        for file in iterate(snapshot.addedDataFiles(io)):
            self.added[str(file.location())] = file
        for delete in iterate(snapshot.removedDeleteFiles(io)):
            self.before.setdefault(_referenced(table, delete), delete)
        for delete in iterate(snapshot.addedDeleteFiles(io)):
            location = _referenced(table, delete)
            self.before.setdefault(location, None)
            self.vector[location] = delete
        for file in iterate(snapshot.removedDataFiles(io)):
            location = str(file.location())
            self.vector.pop(location, None)
            if self.added.pop(location, None) is None:
                self.removed[location] = file

    def frames(
        self,
        table: LakeTable,
        java: JavaTable,
        number: int,
        held: ExitStack,
        known: Mapping[str, LiveFile],
    ) -> Iterator[DataFrame]:
        """The rows that went, then those that came."""
        gone = self._from(self._gone(table, java), table, java, known)
        if gone:
            frame = held.enter_context(rows_at(table, java, gone))
            yield _as_changes(frame, DELETE, F.lit(number))
        if self.added:
            paired = [(f, self.vector.get(location)) for location, f in self.added.items()]
            fresh = [LiveFile.of(f, [] if v is None else [v]) for f, v in paired]
            frame = held.enter_context(live_rows(table, java, fresh))
            yield _as_changes(frame, UPSERT, F.lit(number))

    def chosen(
        self, table: LakeTable, java: JavaTable, known: Mapping[str, LiveFile]
    ) -> Iterator[tuple[int, list[tuple[LiveFile, Bits | None]]]]:
        """Where the rows that went are, then where those are that came; None: all rows of a file."""
        yield DELETE, list(self._from(self._gone(table, java), table, java, known))
        came: list[tuple[LiveFile, Bits | None]] = []
        for location, file in self.added.items():
            dead = self.vector.get(location)
            bits: Bits | None = None
            if dead is not None:
                bits = Bits()
                bits.add_range(0, file.recordCount())
                bits -= vectors.read(java, [dead], location, table.jvm)
            came.append((LiveFile.of(file), bits))
        yield UPSERT, came

    def _from(
        self,
        gone: Mapping[str, Bits],
        table: LakeTable,
        java: JavaTable,
        known: Mapping[str, LiveFile],
    ) -> list[tuple[LiveFile, Bits]]:
        """Positions with the files they are in."""
        files = {location: LiveFile.of(file) for location, file in self.removed.items()}
        if not gone.keys() <= files.keys() | known.keys():
            known = LiveFiles(table, java, self.last)
        return [(files.get(loc) or known[loc], bits) for loc, bits in gone.items()]

    def _gone(self, table: LakeTable, java: JavaTable) -> dict[str, Bits]:
        """Positions of files from before the segment that were live then and are not any more."""
        gone: dict[str, Bits] = {}
        for location, vector in self.vector.items():
            if location not in self.added:
                old = self.before.get(location)
                now = vectors.read(java, [vector], location, table.jvm)
                then = vectors.read(java, [old] if old is not None else [], location, table.jvm)
                gone[location] = now - then
        for location, file in self.removed.items():
            old = self.before.get(location)
            everything = Bits()
            everything.add_range(0, file.recordCount())
            gone[location] = everything - vectors.read(
                java, [old] if old is not None else [], location, table.jvm
            )
        return {location: bits for location, bits in gone.items() if bits}


def _segments(table: LakeTable, java: JavaTable, start: int, end: int) -> list[_Segment]:
    chain: list[JavaSnapshot] = []
    snapshot = java.snapshot(end)
    while snapshot is not None and snapshot.snapshotId() != start:
        chain.append(snapshot)
        parent = snapshot.parentId()
        snapshot = java.snapshot(parent) if parent is not None else None
    if snapshot is None:
        raise _lost(table, start)
    segments: list[_Segment] = []
    compacted = True
    for snapshot in reversed(chain):
        if str(snapshot.operation()) == "replace":
            compacted = True
            continue
        if compacted:
            segments.append(_Segment(start))
        compacted = False
        segments[-1].take(table, java, snapshot)
    return segments


def _referenced(table: LakeTable, delete: JavaFile) -> str:
    """The data file a vector is for."""
    if str(delete.format()) != "PUFFIN":
        raise NotSupportedError(
            f"reading the changes of {table.name} across delete files that are not deletion vectors"
        )
    return str(delete.referencedDataFile())


def _lost(table: LakeTable, start: int) -> RangeLostError:
    return RangeLostError(
        f"{table.name} no longer keeps snapshot {start}, so what came after it cannot be read",
        object=table.name,
        remedy="keep snapshots longer (history.expire.max-snapshot-age-ms), "
        "then drop and create the object to start over",
    )
