"""The live data files of one snapshot, with what is deleted in each; and reading chosen rows of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock

from pyspark.sql import DataFrame

from icestream.lake import vectors
from icestream.lake.java_types import JavaFile, JavaObject, JavaTable
from icestream.lake.jvm import Jvm, iterate
from icestream.lake.runs import Vector
from icestream.lake.table import LakeTable, Snapshot, snapshot_of
from icestream.lake.vectors import Bits

STEPS = 16
"""Commits that are followed one by one from files that are known; beyond, listing all files is cheaper."""
REACH = 16
"""Snapshots that look-ups may be asked for, at most."""


@dataclass
class LiveFile:
    """A data file, and the delete files that apply to it."""

    java: JavaFile
    location: str
    rows: int
    first_row_id: int | None
    deletes: list[JavaFile] = field(default_factory=list)
    """Deletion vectors and position delete files."""
    equality: list[JavaFile] = field(default_factory=list)
    dead: Bits | None = None
    """The deleted positions, once they have been read."""
    vector: Vector | None = None
    """Where the deletion vector is, once somebody has asked."""

    @classmethod
    def of(cls, java: JavaFile, deletes: Sequence[JavaFile] = ()) -> LiveFile:
        """A data file with those delete files."""
        location = str(java.location())
        return cls(java, location, java.recordCount(), java.firstRowId(), list(deletes))


class LiveFiles(Mapping[str, LiveFile]):
    """All data files of a snapshot by their location."""

    def __init__(self, table: LakeTable, java: JavaTable, snapshot: int | None) -> None:
        self.table = table
        self.java = java
        self.snapshot = snapshot
        self._files: dict[str, LiveFile] = {}
        if snapshot is not None:
            planned = java.newScan().useSnapshot(snapshot).planFiles()
            for task in iterate(planned):
                file = LiveFile.of(task.file())
                for delete in iterate(task.deletes()):
                    positional = str(delete.content()) == "POSITION_DELETES"
                    (file.deletes if positional else file.equality).append(delete)
                self._files[file.location] = file
            planned.close()
            self._check(self._files.values())

    def _check(self, files: Iterable[LiveFile]) -> None:
        """Raise unless the files, and those with their deletes, may be opened."""
        if self.table.is_foreign:
            listed = list(files)
            deletes = [d for file in listed for d in (*file.deletes, *file.equality)]
            locations = [file.location for file in listed]
            self.table.check_files([*locations, *(str(d.location()) for d in deletes)])

    def __getitem__(self, location: str) -> LiveFile:
        return self._files[location]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def upgraded(self, java: JavaTable) -> bool:
        """Whether the files have got row ids since they were listed: with the first commit of format version 3."""
        unknown = any(file.first_row_id is None for file in self._files.values())
        return unknown and java.operations().current().formatVersion() >= 3

    def dead(self, location: str) -> Bits:
        """The positions of a file that are deleted (equality deletes aside)."""
        file = self._files[location]
        if file.dead is None:
            file.dead = vectors.read(self.java, file.deletes, location, self.table.jvm)
        return file.dead

    def vectors(self) -> dict[str, Vector | None] | None:
        """Where the deletion vector of each file is; None if there are deletes of another kind."""
        found: dict[str, Vector | None] = {}
        for location, file in self._files.items():
            if file.deletes and file.vector is None:
                delete = file.deletes[0]
                if len(file.deletes) > 1 or str(delete.format()) != "PUFFIN":
                    return None
                offset, size = delete.contentOffset(), delete.contentSizeInBytes()
                assert offset is not None
                assert size is not None
                file.vector = Vector(str(delete.location()), offset, size)
            if file.equality:
                return None
            found[location] = file.vector
        return found

    def after(self, java: JavaTable, snapshot: int) -> LiveFiles | None:
        """The files of a snapshot whose parent this one is, out of what that commit did; this one stays as it is.

        None if the commit has deletes that are not vectors: then the files have to be listed.
        """
        commit, io = snapshot_of(java, snapshot), java.io()
        files = dict(self._files)
        for gone in iterate(commit.removedDataFiles(io)):
            files.pop(str(gone.location()), None)
        for added in iterate(commit.addedDataFiles(io)):
            file = LiveFile.of(added)
            files[file.location] = file
        removed = {str(d.referencedDataFile()) for d in iterate(commit.removedDeleteFiles(io))}
        marked: set[str] = set()
        for delete in iterate(commit.addedDeleteFiles(io)):
            location = str(delete.referencedDataFile())
            if str(delete.format()) != "PUFFIN" or location not in files:
                return None
            files[location] = replace(files[location], deletes=[delete], dead=None, vector=None)
            marked.add(location)
        if (removed - marked) & files.keys():
            return None
        self._check(
            file for location, file in files.items() if file is not self._files.get(location)
        )
        following = LiveFiles(self.table, java, None)
        following.snapshot, following._files = snapshot, files
        return following

    def advanced(
        self,
        java: JavaTable,
        snapshot: int,
        marked: Mapping[str, tuple[JavaFile, Bits]],
        emptied: Sequence[LiveFile],
    ) -> LiveFiles:
        """The files after a commit of ours on top of this snapshot: what it added, newly marked and removed."""
        self.java, self.snapshot = java, snapshot
        for gone in emptied:
            del self._files[gone.location]
        for location, (delete, dead) in marked.items():
            file = self._files[location]
            kept = [d for d in file.deletes if not replaced(d, delete)]
            file.deletes, file.dead, file.vector = [*kept, delete], dead, None
        for added in iterate(snapshot_of(java, snapshot).addedDataFiles(java.io())):
            file = LiveFile.of(added)
            self._files[file.location] = file
        return self


class RecentFiles:
    """The files of a table's newest snapshots: kept from one look-up to the next, and followed commit by commit."""

    def __init__(self, table: LakeTable) -> None:
        self.table = table
        self._known: dict[int, LiveFiles] = {}
        self._lock = Lock()

    def of(self, java: JavaTable, snapshots: Sequence[Snapshot]) -> list[LiveFiles]:
        """The files of these snapshots, which are given from the newest back; the oldest first."""
        with self._lock:
            for snapshot in reversed(snapshots):
                live = self._followed(java, snapshot.id) or LiveFiles(self.table, java, snapshot.id)
                live.java = java
                self._known[snapshot.id] = live
            self._known = {s.id: self._known[s.id] for s in reversed(snapshots)}
            return list(self._known.values())

    def _followed(self, java: JavaTable, snapshot: int) -> LiveFiles | None:
        path: list[int] = []
        at: int | None = snapshot
        while at is not None and at not in self._known:
            reached = java.snapshot(at)
            if reached is None or len(path) == STEPS:
                return None
            path.append(at)
            at = reached.parentId()
        live = None if at is None else self._known[at]
        for step in reversed(path):
            live = None if live is None else live.after(java, step)
        return live


def recent(table: LakeTable, java: JavaTable) -> list[Snapshot]:
    """The snapshots that rows are looked up at, from the head back: all since the last commit but one that changed rows.

    Compactions and fences change none, however many there are in between.
    """
    found: list[Snapshot] = []
    changing = 0
    for snapshot in table.ancestry(java):
        found.append(snapshot)
        changing += _changes_rows(snapshot)
        if changing == 2 or len(found) == REACH:
            break
    return found


def _changes_rows(snapshot: Snapshot) -> bool:
    what = ("added-data-files", "deleted-data-files", "added-delete-files", "removed-delete-files")
    return snapshot.operation != "replace" and any(w in snapshot.summary for w in what)


def replaced(old: JavaFile, new: JavaFile) -> bool:
    """Whether a new delete file of a data file takes the old one's place: a vector does, if the old one is for that
    file alone."""
    return str(new.format()) == "PUFFIN" and old.referencedDataFile() is not None


@contextmanager
def rows_at(
    table: LakeTable, java: JavaTable, chosen: Sequence[tuple[LiveFile, Bits]]
) -> Iterator[DataFrame]:
    """The rows at chosen positions of some files, as a frame of the table's columns, read by Iceberg's own reader.

    A deletion vector that marks everything else does the choosing. It belongs to no snapshot and is deleted
    when the context ends, so the frame has to be used before.
    """
    others: list[tuple[LiveFile, Bits]] = []
    for file, bits in chosen:
        rest = Bits()
        rest.add_range(0, file.rows)
        others.append((file, rest - bits))
    masks = vectors.write_vectors(java, others, table.jvm, remember=False)
    tasks = [_task(java, f, [m], table.jvm) for (f, _), m in zip(others, masks, strict=True)]
    try:
        with _scan(table, java, tasks) as frame:
            yield frame
    finally:
        for mask in masks:
            java.io().deleteFile(mask.location())


@contextmanager
def live_rows(table: LakeTable, java: JavaTable, files: Sequence[LiveFile]) -> Iterator[DataFrame]:
    """The rows of those files that are not deleted."""
    with _scan(table, java, [_task(java, f, f.deletes, table.jvm) for f in files]) as frame:
        yield frame


@contextmanager
def _scan(table: LakeTable, java: JavaTable, tasks: list[JavaObject]) -> Iterator[DataFrame]:
    """The rows of scan tasks, as a frame."""
    manager = table.jvm.iceberg.spark.ScanTaskSetManager.get()
    key = str(uuid.uuid4())
    manager.stageTasks(java, key, table.jvm.list(tasks))
    try:
        reader = table.jvm.spark.read.format("iceberg").option("scan-task-set-id", key)
        yield reader.load(table.sql)
    finally:
        manager.removeTasks(java, key)


def _task(java: JavaTable, file: LiveFile, deletes: list[JavaFile], jvm: Jvm) -> JavaObject:
    iceberg = jvm.iceberg
    array = jvm.array(iceberg.DeleteFile, deletes)
    everything = iceberg.expressions.Expressions.alwaysTrue()
    return iceberg.BaseFileScanTask(
        file.java,
        array,
        iceberg.SchemaParser.toJson(java.schema()),
        iceberg.PartitionSpecParser.toJson(java.specs().get(file.java.specId())),
        iceberg.expressions.ResidualEvaluator.unpartitioned(everything),
    )
