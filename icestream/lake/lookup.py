"""Rows of a table by the values of some of its columns, at a cost that follows the keys, not the table.

A covering index holds the rows' columns beside the key, so a look-up opens no data file: executors search the runs,
and what they find counts if its file is live in the snapshot asked for and the file's deletion vector spares it. Small
tables, and those that cannot be indexed, are scanned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StructType,
)

from icestream.errors import NotSupportedError
from icestream.lake import keys as canonical_keys
from icestream.lake.columns import access_properties, row_type
from icestream.lake.files import LiveFiles, RecentFiles, recent
from icestream.lake.index import KeyIndex
from icestream.lake.java_types import JavaTable
from icestream.lake.keyed import PER_TASK, TOGETHER
from icestream.lake.runs import LostRunError, Rows
from icestream.lake.table import LakeTable, Snapshot
from icestream.types import backtick

SMALL = 20_000
"""Rows of a table below which a scan is about as fast as an index, which need not be made then."""
BROADCAST = 1_000_000
"""Keys that a scan hands to every task."""
BATCH = 10_000
INTEGERS = (ByteType, ShortType, IntegerType, LongType)
FLOATS = (FloatType, DoubleType)


class Lookup:
    """Rows of a table by the values of some of its columns.

    There may be one object at a time for a table, a key and columns: it has the index to itself. Look-ups of one table
    may share what is known of its files, `files`.
    """

    def __init__(
        self,
        table: LakeTable,
        key: Sequence[str],
        columns: Sequence[str],
        root: Path,
        *,
        files: RecentFiles | None = None,
    ) -> None:
        self.table = table
        self.key = tuple(key)
        self.columns = tuple(columns)
        self.index = KeyIndex(table, key, root, carried=columns)
        self._files = files or RecentFiles(table)
        self._schema: tuple[str, int] | None = None
        self._types: tuple[StructType, StructType] | None = None
        """Of the key and of the columns."""
        self._lives: dict[int, LiveFiles] = {}
        """The snapshots that the index was made for."""
        self._found: dict[int, Rows | None] = {}
        """How rows of a snapshot are found; None: by a scan."""
        self._lock = Lock()

    def rows(self, keys: DataFrame, snapshot: int | None, count: int | None = None) -> DataFrame:
        """The table's rows at `snapshot` (`columns`, typed as Spark reads them) that have one of the keys.

        `keys` has the key's columns in their order, under any names. NULL equals NULL, -0.0 equals 0.0, NaN equals
        NaN. Each row comes once, also if its key is given repeatedly. `snapshot` is the head, or one since the last
        commit but one that changed rows (any other is scanned); None is the empty table. `count`: about how many
        keys there are.

        The index is made complete now, the frame is lazy. It can be used until rows have been looked up at
        two later snapshots. A run that turns out to be damaged only then fails the job that uses the frame, and
        is deleted; the next call makes it again.
        """
        if snapshot is None:
            _, columns = self._typed()
            return self.table.jvm.spark.createDataFrame([], columns)
        with self._lock:
            rows = self._rows_at(snapshot)
        types, columns = self._typed()
        names = [f"_key{i}" for i in range(len(self.key))]
        named = keys.toDF(*names)
        given = [f.dataType for f in keys.schema.fields]
        theirs = [f.dataType for f in types.fields]
        if rows is None or not all(map(_comparable, given, theirs)):
            return self._scanned(named, snapshot, count)
        for n, g, t in zip(names, given, theirs, strict=True):
            if isinstance(g, NullType):
                named = named.withColumn(n, F.lit(None).cast(t))
        search = _Search(rows, to_arrow_schema(columns))
        return self._gathered(named, count).mapInArrow(search.run, columns)

    def mend(self, error: Exception) -> bool:
        """Whether a job failed because a run is damaged. Then the next look-up has it made again."""
        with self._lock:
            self._lives, self._found = {}, {}
            return self.index.lose(error)

    def drop(self, uuid: str) -> None:
        """Delete all indexes of the table."""
        with self._lock:
            self.index.drop(uuid)
            self._schema = self._types = None
            self._lives, self._found = {}, {}

    # -- the index -------------------------------------------------------------------------------

    def _rows_at(self, snapshot: int) -> Rows | None:
        """How rows of a snapshot are found. Asked again for a snapshot that is known, it costs nothing."""
        if not (snapshot in self._found and self.index.sound()):
            if not (snapshot in self._lives and self.index.sound()):
                self._cover(snapshot)
            live = self._lives.get(snapshot)
            self._found[snapshot] = None if live is None else self._searchable(live)
        return self._found[snapshot]

    def _cover(self, snapshot: int) -> None:
        """Make the index complete for the newest snapshots, if that is worth while and possible."""
        java = self.table.load()
        self._read_types(java)
        snapshots = recent(self.table, java)
        asked = next((s for s in snapshots if s.id == snapshot), None)
        if asked is None:
            return
        self._lives, self._found = {}, {}
        try:
            self.index.open(java)
            if self._is_small(asked):
                return
            lives = self._files.of(java, snapshots)
            if any(live.vectors() is None for live in lives):
                return
            self.index.cover(lives[-1], lives[:-1])
        except NotSupportedError:
            return
        self._lives = {live.snapshot: live for live in lives if live.snapshot is not None}

    def _is_small(self, snapshot: Snapshot) -> bool:
        """Whether to scan rather than to make an index; one that is there is used."""
        rows = snapshot.summary.get("total-records")
        return rows is not None and int(rows) < SMALL and not self.index.runs()

    def _searchable(self, live: LiveFiles) -> Rows:
        places = live.vectors() or {}
        files = {number: places[f] for number, f in self.index.numbers(live).items()}
        properties = access_properties(live.java, (v.location for v in places.values() if v))
        return Rows(str(self.index.folder), self.index.runs(), files, properties)

    def _read_types(self, java: JavaTable) -> None:
        schema = (str(java.uuid()), int(java.schema().schemaId()))
        if schema != self._schema:
            fields = row_type(self.table, java, (*self.key, *self.columns)).fields
            count = len(self.key)
            self._schema = schema
            self._types = StructType(fields[:count]), StructType(fields[count:])

    def _typed(self) -> tuple[StructType, StructType]:
        if self._types is None:
            self._read_types(self.table.load())
        assert self._types is not None
        return self._types

    # -- frames ----------------------------------------------------------------------------------

    def _gathered(self, keys: DataFrame, count: int | None) -> DataFrame:
        """Equal keys in one task."""
        if count is not None and count <= TOGETHER:
            return keys.coalesce(1)
        tasks = self.table.jvm.spark.sparkContext.defaultParallelism
        if count is not None:
            tasks = max(tasks, -(-count // PER_TASK))
        types = dict(keys.dtypes)
        columns = [
            F.when(F.isnan(n), float("nan")).otherwise(F.col(n) + 0.0)
            if types[n] in ("float", "double")
            else F.col(n)
            for n in keys.columns
        ]
        return keys.repartition(tasks, *columns)

    def _scanned(self, keys: DataFrame, snapshot: int, count: int | None) -> DataFrame:
        reader = self.table.jvm.spark.read.format("iceberg").option("snapshot-id", snapshot)
        frame = reader.load(self.table.sql)
        same = [
            F.col(backtick(name)).eqNullSafe(F.col(n))
            for name, n in zip(self.key, keys.columns, strict=True)
        ]
        given = keys if count is not None and count > BROADCAST else F.broadcast(keys)
        columns = [F.col(backtick(name)) for name in self.columns]
        return frame.join(given, same, "left_semi").select(*columns)


def _comparable(given: DataType, theirs: DataType) -> bool:
    """Whether values of two types are equal in Spark if their canonical forms are."""
    return (
        given == theirs
        or isinstance(given, NullType)
        or (isinstance(given, INTEGERS) and isinstance(theirs, INTEGERS))
        or (isinstance(given, FLOATS) and isinstance(theirs, FLOATS))
    )


@dataclass(frozen=True)
class _Search:
    """What an executor does with the keys it got."""

    rows: Rows
    schema: pa.Schema

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of those keys."""
        collected = [b for b in batches if b.num_rows]
        if not collected:
            return
        asked = pa.Table.from_batches(collected)
        try:
            for found in self.rows.of(distinct(asked), self.schema.names):
                yield from found.cast(self.schema).to_batches(max_chunksize=BATCH)
        except LostRunError as lost:
            (Path(self.rows.folder) / lost.name).unlink(missing_ok=True)
            raise


def distinct(asked: pa.Table) -> list[pa.Array]:
    """The keys in their canonical form, each once."""
    names = [f"key{i}" for i in range(asked.num_columns)]
    key = pa.table([canonical_keys.canonical(c) for c in asked.columns], names=names)
    return [c.combine_chunks() for c in key.group_by(names).aggregate([]).columns]
