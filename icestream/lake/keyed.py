"""Upserts: changes in, one atomic commit out, without reading the table.

One Spark job decodes, shuffles by key, folds, finds the old rows in the key index and writes the new ones; the driver
gets the positions that go as bitmaps, and commits both together. The commit holds only on the snapshot that was
looked up; when somebody else comes in between, everything is looked up again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
from pyspark import Accumulator, StorageLevel
from pyspark.accumulators import AccumulatorParam
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from icestream import faults
from icestream.errors import ConnectorError, SqlError
from icestream.lake import small, vectors
from icestream.lake.files import LiveFile, LiveFiles, replaced, rows_at
from icestream.lake.fold import (
    CHANGE_SCHEMA,
    NOT_THERE,
    OFFSET,
    OP,
    PARTITION,
    STORED,
    STREAM,
    TRUNCATE,
    UNSET,
    Outcome,
    Upsert,
    fold,
    net,
)
from icestream.lake.index import KeyIndex
from icestream.lake.java_types import JavaFile, JavaObject, JavaTable
from icestream.lake.runs import Hits, LostRunError, Run, probe
from icestream.lake.staging import Staged, stage
from icestream.lake.stamp import Stamp
from icestream.lake.table import EMPTY, HeadMovedError, LakeTable
from icestream.lake.vectors import Bits
from icestream.types import backtick

ROW_ID = "_row_id"
TOGETHER = 20_000
"""Changes that one task folds without a shuffle."""
PER_TASK = 500_000
ATTEMPTS = 3
EXPECTED = 20
"""Epochs after one with untold values that begin by fetching stored rows."""


def AS_IT_IS(frame: DataFrame) -> DataFrame:
    """The frame."""
    return frame


@dataclass(frozen=True)
class Changes:
    """Changes to apply: a frame with the columns of CHANGE_SCHEMA beside `columns`, and what is known of it."""

    frame: DataFrame
    columns: tuple[str, ...]
    count: int | None = None
    """How many there are, about."""
    truncates: Accumulator[int] | None = None
    """Counts, once the frame was read, changes that empty the table."""
    unset: Accumulator[int] | None = None
    """Counts, once the frame was read, values that a change does not tell."""
    finish: Callable[[DataFrame], DataFrame] = field(default=AS_IT_IS)
    """From `columns` to all columns of the table; others pass through."""
    partial: bool = False
    """Whether it is known that changes leave values unset, so that stored rows are fetched first."""
    unbounded: bool = False
    """Whether there may be far more than `count` says: one row of a join may have many partners."""


@dataclass(frozen=True)
class StagedChanges:
    """Everything a commit needs, prepared on one snapshot."""

    base: int | None
    schema: int
    """The table's schema that the rows were written with."""
    staged: Staged
    marked: Mapping[str, tuple[JavaFile, Bits]]
    """The new delete file of each data file that has one, and all positions deleted in it then."""
    outdated: Sequence[JavaFile]
    """Delete files that the new ones take the place of."""
    emptied: Sequence[LiveFile] = ()
    """Data files that go as a whole."""
    rows: int = 0
    """Keys whose row changed, came or went."""

    @property
    def empty(self) -> bool:
        """Whether nothing changes."""
        return not (self.staged.files or self.marked or self.emptied)


class KeyedTable:
    """The upserting side of a table."""

    def __init__(self, table: LakeTable, upsert: Upsert, indexes: Path) -> None:
        self.table = table
        self.upsert = upsert
        self.index = KeyIndex(table, upsert.key, indexes)
        self.tasks: int | None = None
        """Tasks that many changes are shuffled to; None: as many as there are cores."""
        self._live: LiveFiles | None = None
        self._untold = 0
        """Epochs for which values that a change does not tell are expected."""

    # -- preparing -------------------------------------------------------------------------------

    def check(self) -> None:
        """Whether the table can be upserted into: delete files, the key's columns, their types; an error otherwise."""
        java = self.table.load()
        version = java.operations().current().formatVersion()
        if version < 2:
            raise SqlError(
                f"{self.table.name} has format version {version}, which knows no deletes",
                remedy="ALTER TABLE … SET TBLPROPERTIES ('format-version' = '3') in Spark upgrades it",
            )
        self.index.open(java)

    def stage(self, changes: Changes) -> StagedChanges:
        """Fold the changes, write the new rows, find and mark the old ones. Nothing is visible yet."""
        live = self._files()
        if changes.truncates is not None and changes.truncates.value:
            return self._stage_after_truncates(changes, live)
        with_stored = self.upsert.needs_stored or self._untold > 0 or changes.partial
        if with_stored:
            result = self._stage_with_stored(changes, live)
        else:
            result = self._stage(changes.frame, changes, live)
        if changes.truncates is not None and changes.truncates.value:
            self.discard(result)
            return self._stage_after_truncates(changes, live)
        if changes.unset is not None:
            self._untold = EXPECTED if changes.unset.value else max(self._untold - 1, 0)
            if changes.unset.value and not with_stored:
                self.discard(result)
                return self._stage_with_stored(changes, live)
        return result

    def discard(self, staged: StagedChanges) -> None:
        """Delete the files of changes that will not be committed."""
        deletes = {str(delete.location()) for delete, _ in staged.marked.values()}
        access = self.table.load().io()
        for location in [*(str(f.location()) for f in staged.staged.files), *sorted(deletes)]:
            access.deleteFile(location)

    @property
    def known(self) -> Mapping[str, LiveFile]:
        """The data files as this object knows them, which may be too few."""
        return self._live if self._live is not None else {}

    def _files(self) -> LiveFiles:
        """The table's files at its head, all of them indexed."""
        java = self.table.load()
        current = java.currentSnapshot()
        head = None if current is None else int(current.snapshotId())
        if self._live is None or self._live.snapshot != head:
            self._live = LiveFiles(self.table, java, head)
        self._live.java = java
        self.index.cover(self._live)
        faults.reach("index-covered")
        return self._live

    def _stage(self, frame: DataFrame, changes: Changes, live: LiveFiles) -> StagedChanges:
        if changes.count is not None and changes.count <= small.FEW and changes.finish is AS_IT_IS:
            schema = small.can_write(self.table, live.java)
            staged_here = self._stage_here(frame, changes, live, schema) if schema else None
            if staged_here is not None:
                return staged_here
        for _ in range(ATTEMPTS):
            found = self.table.jvm.spark.sparkContext.accumulator({}, _Union())
            vanished = self.table.jvm.spark.sparkContext.accumulator(0)
            work = self._work(changes.columns, live, found, vanished)
            rows = self._gathered(frame, changes).mapInArrow(work.run, self._schema(frame, changes))
            try:
                staged = stage(changes.finish(rows), self.table, format="parquet")
                break
            except Exception as error:
                if not self._mend(error, live):
                    raise
        else:
            raise self._damaged()
        return self._mark(staged, found.value, live, staged.rows + vanished.value)

    def _stage_here(
        self, frame: DataFrame, changes: Changes, live: LiveFiles, schema: pa.Schema
    ) -> StagedChanges | None:
        """The same by the driver itself, for few changes; None if they come to more than that."""
        rows = frame.filter(F.col(OP) != TRUNCATE)
        collected = small.collected(self.table, rows, bounded=not changes.unbounded)
        if collected is None:
            return None
        for _ in range(ATTEMPTS):
            found: _Sum[dict[int, Bits]] = _Sum({}, _Union().addInPlace)
            vanished: _Sum[int] = _Sum(0, int.__add__)
            work = self._work(changes.columns, live, found, vanished)
            try:
                made = list(work.run(iter(collected.to_batches())))
                break
            except LostRunError as error:
                if not self._mend(error, live):
                    raise
        else:
            raise self._damaged()
        table = pa.Table.from_batches(made) if made else schema.empty_table()
        staged = small.write(self.table, live.java, schema, table)
        faults.reach("files-written")
        return self._mark(staged, found.value, live, staged.rows + vanished.value)

    def _mark(
        self, staged: Staged, found: Mapping[int, Bits], live: LiveFiles, rows: int
    ) -> StagedChanges:
        """Write the delete files for the positions found that are not deleted yet; a file with no other rows goes."""
        numbers = self.index.numbers(live)
        hit: list[tuple[LiveFile, Bits, Bits]] = []
        emptied: list[LiveFile] = []
        for number, bits in found.items():
            if number in numbers:
                file = live[numbers[number]]
                dead = live.dead(file.location)
                if not (new := bits - dead):
                    continue
                if len(dead) + len(new) == file.rows:
                    emptied.append(file)
                else:
                    hit.append((file, new, dead | new))
        deletes: list[JavaFile] = []
        if hit:
            if live.java.operations().current().formatVersion() >= 3:
                together = [(file, all) for file, _, all in hit]
                deletes = vectors.write_vectors(live.java, together, self.table.jvm)
            else:
                fresh = [(file, new) for file, new, _ in hit]
                deletes = vectors.write_position_deletes(live.java, fresh, self.table.jvm)
            faults.reach("vectors-written")
        marked = {f.location: (d, all) for (f, _, all), d in zip(hit, deletes, strict=True)}
        outdated = [
            old for location, (new, _) in marked.items()
            for old in live[location].deletes if replaced(old, new)
        ]  # fmt: skip
        schema = live.java.schema().schemaId()
        return StagedChanges(live.snapshot, schema, staged, marked, outdated, emptied, rows)

    def _damaged(self) -> ConnectorError:
        return ConnectorError(
            f"the key index of {self.table.name} is damaged again and again",
            object=self.table.name,
            remedy=f"look at the disk of {self.index.root}; everything there may be deleted",
        )

    def _mend(self, error: Exception, live: LiveFiles) -> bool:
        """Whether an error was a lost run, which has then been made again."""
        lost = self.index.lose(error)
        if lost:
            self.index.cover(live)
        return lost

    def _work(
        self,
        columns: tuple[str, ...],
        live: LiveFiles,
        found: Accumulator[dict[int, Bits]] | _Sum[dict[int, Bits]],
        vanished: Accumulator[int] | _Sum[int],
    ) -> _Work:
        numbers = self.index.numbers(live)
        dead = {
            number: vectors.encode(live.dead(location))
            for number, location in numbers.items()
            if live[location].deletes
        }
        first = {n: live[location].first_row_id for n, location in numbers.items()}
        runs, folder = self.index.runs(), str(self.index.folder)
        return _Work(columns, self.upsert, folder, runs, first, dead, found, vanished)

    def _gathered(self, frame: DataFrame, changes: Changes) -> DataFrame:
        """All changes of a key in one task."""
        frame = frame.filter(F.col(OP) != TRUNCATE)
        few = changes.count is not None and changes.count <= TOGETHER
        if few and not changes.unbounded:
            return frame.coalesce(1)
        tasks = self.tasks or self.table.jvm.spark.sparkContext.defaultParallelism
        if changes.count is not None and self.tasks is None:
            tasks = max(tasks, -(-changes.count // PER_TASK))
        types = dict(frame.dtypes)
        keys = [
            F.when(F.isnan(backtick(k)), float("nan")).otherwise(F.col(backtick(k)) + 0.0)
            if types[k] in ("float", "double")
            else F.col(backtick(k))
            for k in self.upsert.key
        ]
        return frame.repartition(tasks, *keys)

    def _schema(self, frame: DataFrame, changes: Changes) -> str:
        types = {f.name: f.dataType.simpleString() for f in frame.schema.fields}
        columns = [f"{backtick(n)} {types[n]}" for n in changes.columns]
        return ", ".join([*columns, f"{ROW_ID} BIGINT"])

    # -- when the outcome depends on what is stored -----------------------------------------------

    def _stage_with_stored(self, changes: Changes, live: LiveFiles) -> StagedChanges:
        """Fetch the stored rows of the changed keys first, and let them take part as the oldest changes."""
        frame = changes.frame.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            chosen = self._locate(frame, changes, live)
            if not chosen:
                return self._stage(frame, changes, live)
            with rows_at(self.table, live.java, chosen) as stored:
                extra = {OP: STORED, STREAM: "", PARTITION: -1, OFFSET: -1}
                hidden = [
                    F.lit(extra.get(n)).cast(t).alias(n)
                    for n, t in CHANGE_SCHEMA.items()
                    if n != UNSET or UNSET in frame.columns
                ]
                columns = [F.col(backtick(n)) for n in changes.columns]
                both = frame.unionByName(stored.select(*columns, *hidden))
                count = changes.count and changes.count + sum(len(bits) for _, bits in chosen)
                return self._stage(
                    both, Changes(both, changes.columns, count, finish=changes.finish), live
                )
        finally:
            frame.unpersist()

    def _locate(
        self, frame: DataFrame, changes: Changes, live: LiveFiles
    ) -> list[tuple[LiveFile, Bits]]:
        """Where the stored rows of the changed keys are; only those that matter."""
        if not self.upsert.needs_stored:
            frame = frame.filter(F.col(UNSET).isNotNull())
        for _ in range(ATTEMPTS):
            found = self.table.jvm.spark.sparkContext.accumulator({}, _Union())
            vanished = self.table.jvm.spark.sparkContext.accumulator(0)
            work = self._work(changes.columns, live, found, vanished)
            try:
                self._gathered(frame, changes).mapInArrow(work.locate, "unused INT").count()
                break
            except Exception as error:
                if not self._mend(error, live):
                    raise
        else:
            raise self._damaged()
        numbers = self.index.numbers(live)
        chosen: list[tuple[LiveFile, Bits]] = []
        for number, bits in found.value.items():
            if number in numbers and (rows := bits - live.dead(numbers[number])):
                chosen.append((live[numbers[number]], rows))
        return chosen

    def _stage_after_truncates(self, changes: Changes, live: LiveFiles) -> StagedChanges:
        """Empty the table, then apply what came after the last TRUNCATE (of each partition)."""
        marks = (
            changes.frame.filter(F.col(OP) == TRUNCATE)
            .groupBy(STREAM, PARTITION)
            .agg(F.max(OFFSET).alias("until"))
            .collect()
        )
        frame = changes.frame
        for mark in marks:
            here = (F.col(STREAM) == mark[STREAM]) & (F.col(PARTITION) == mark[PARTITION])
            frame = frame.filter(~(here & (F.col(OFFSET) <= mark["until"])))
        nothing = LiveFiles(self.table, live.java, None)
        staged = self._stage(frame, changes, nothing)
        gone = sum(f.rows - len(live.dead(f.location)) for f in live.values())
        everything = list(live.values())
        return replace(
            staged,
            base=live.snapshot,
            marked={},
            outdated=(),
            emptied=everything,
            rows=staged.rows + gone,
        )

    # -- committing ------------------------------------------------------------------------------

    def commit(self, staged: StagedChanges, stamp: Stamp, base: int | None) -> int:
        """Commit everything at once, on the very snapshot it was prepared on; HeadMovedError if that is not the head."""

        def update(java: JavaTable) -> JavaObject:
            if java.schema().schemaId() != staged.schema:
                raise HeadMovedError
            if not staged.marked and not staged.emptied:
                append = java.newAppend()
                for file in staged.staged.files:
                    append.appendFile(file)
                return append
            delta = java.newRowDelta()
            for file in staged.staged.files:
                delta.addRows(file)
            for delete, _ in staged.marked.values():
                delta.addDeletes(delete)
            for delete in staged.outdated:
                delta.removeDeletes(delete)
            for live in staged.emptied:
                delta.removeRows(live.java)
                for delete in live.deletes:
                    if delete.referencedDataFile() is not None:
                        delta.removeDeletes(delete)
            delta.validateFromSnapshot(staged.base)
            delta.validateDataFilesExist(self.table.jvm.list(staged.marked))
            delta.validateDeletedFiles()
            delta.validateNoConflictingDeleteFiles()
            return delta

        only_on = EMPTY if staged.base is None else staged.base
        snapshot = self.table.commit(update, stamp, base, {}, only_on=only_on)
        java = self.table.holding(snapshot)
        head = java.currentSnapshot()
        on_top = head is not None and head.snapshotId() == snapshot
        if self._live is not None and self._live.upgraded(java):
            self._live = None
        if on_top and self._live is not None and self._live.snapshot == staged.base:
            self._live = self._live.advanced(java, snapshot, staged.marked, staged.emptied)
        else:
            self._live = None
        return snapshot


class _Union(AccumulatorParam):  # type: ignore[misc]
    """Positions by file, united: adding the same again changes nothing, so repeated tasks do no harm."""

    def zero(self, value: dict[int, Bits]) -> dict[int, Bits]:
        """Nothing."""
        return {}

    def addInPlace(self, one: dict[int, Bits], other: dict[int, Bits]) -> dict[int, Bits]:
        """Both."""
        for number, bits in other.items():
            one[number] = one[number] | bits if number in one else bits
        return one


T = TypeVar("T")


@dataclass
class _Sum(Generic[T]):
    """An accumulator in the driver."""

    value: T
    plus: Callable[[T, T], T]

    def add(self, more: T) -> None:
        """Take more in."""
        self.value = self.plus(self.value, more)


@dataclass(frozen=True)
class _Work:
    """What an executor does with the changes of the keys it got."""

    columns: tuple[str, ...]
    upsert: Upsert
    folder: str
    runs: tuple[Run, ...]
    first: Mapping[int, int | None]
    """The first row id of each file that counts. An index from before the table had row ids does not know them."""
    dead: Mapping[int, bytes]
    found: Accumulator[dict[int, Bits]] | _Sum[dict[int, Bits]]
    vanished: Accumulator[int] | _Sum[int]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The new rows; the positions of the old ones are added to `found`."""
        collected = [b for b in batches if b.num_rows]
        if not collected:
            return
        settle = net if self.upsert.conflict in ("net", "bag") else fold
        outcome = settle(pa.Table.from_batches(collected), self.columns, self.upsert)
        hits = probe(self.folder, self.runs, outcome.hashes, outcome.keys)
        by_file = list(self._by_file(hits.file, hits.position))
        rows = np.full(len(outcome.hashes), -1, np.int64)
        existed = np.zeros(len(outcome.hashes), bool)
        for number, chosen, positions in by_file:
            living = chosen[~np.isin(positions, self._dead(number))]
            existed[hits.probe[living]] = True
            rows[hits.probe[living]] = self._row_ids(
                number, hits.row[living], hits.position[living]
            )
        if outcome.gone is not None:
            yield from self._bag(outcome, hits, by_file)
            return
        stays = np.zeros(len(existed), bool)
        if self.upsert.conflict == "nothing":  # the row that is there is the first
            stays = existed & ~outcome.cleared
        for number, chosen, positions in by_file:
            self.found.add({number: Bits(positions[~stays[hits.probe[chosen]]])})
        comes = ~stays[outcome.key_of_row]
        if outcome.returning is not None:  # it came and went, and was never stored
            comes &= existed[outcome.key_of_row] | ~outcome.returning
        existed[outcome.key_of_row] = False
        self.vanished.add(int(existed.sum()))
        ids = rows[outcome.key_of_row][comes]
        column = pa.array(ids, pa.int64(), mask=ids < 0)
        new = outcome.rows if comes.all() else outcome.rows.filter(pa.array(comes))
        yield from new.append_column(ROW_ID, column).to_batches(max_chunksize=65_536)

    def _bag(
        self, outcome: Outcome, hits: Hits, by_file: list[tuple[int, np.ndarray, np.ndarray]]
    ) -> Iterator[pa.RecordBatch]:
        """As many rows go as are taken back; which of those that are alike does not matter. One that is not stored came in
        this commit, with another sign of a zero."""
        assert outcome.gone is not None
        left = outcome.gone.copy()
        for number, chosen, positions in by_file:
            living = ~np.isin(positions, self._dead(number))
            asked, places = hits.probe[chosen][living], positions[living]
            order = np.argsort(asked, kind="stable")
            asked, places = asked[order], places[order]
            first = np.searchsorted(asked, asked)
            taken = np.arange(len(asked)) - first < left[asked]
            np.subtract.at(left, asked[taken], 1)
            self.found.add({number: Bits(places[taken])})
        rows = outcome.rows
        if left.any():
            never = np.zeros(len(rows), bool)
            for key in np.flatnonzero(left):
                never[np.flatnonzero(outcome.key_of_row == key)[: left[key]]] = True
            if never.sum() < left.sum():
                raise ValueError(NOT_THERE)
            rows = rows.filter(pa.array(~never))
        self.vanished.add(int(outcome.gone.sum() - left.sum()))
        ids = pa.nulls(len(rows), pa.int64())
        yield from rows.append_column(ROW_ID, ids).to_batches(max_chunksize=65_536)

    def locate(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """No rows: only the positions of the old ones."""
        collected = [b.select([OP, *self.upsert.key]) for b in batches if b.num_rows]
        if collected:
            from icestream.lake import keys

            table = pa.Table.from_batches(collected).group_by(list(self.upsert.key)).aggregate([])
            key = [keys.canonical(table[name]) for name in self.upsert.key]
            hits = probe(self.folder, self.runs, keys.hashes(key), key)
            for number, _, positions in self._by_file(hits.file, hits.position):
                self.found.add({number: Bits(positions)})
        yield from ()

    def _by_file(
        self, files: np.ndarray, positions: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """(file number, indices of its hits, their positions) for the files that count."""
        order = np.argsort(files, kind="stable")
        numbers, starts = np.unique(files[order], return_index=True)
        ends = np.append(starts, len(order))[1:]
        for number, start, end in zip(numbers, starts, ends, strict=True):
            if int(number) in self.first:
                chosen = order[start:end]
                yield int(number), chosen, positions[chosen]

    def _row_ids(self, number: int, rows: np.ndarray, positions: np.ndarray) -> np.ndarray:
        first = self.first[number]
        return rows if first is None else np.where(rows < 0, first + positions, rows)

    def _dead(self, number: int) -> np.ndarray:
        blob = self.dead.get(number)
        return np.asarray(vectors.decode(blob).to_array() if blob else [], np.int64)
