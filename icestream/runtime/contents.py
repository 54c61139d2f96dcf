"""What stored objects hold and held, and what changed in them, read once an epoch for all who ask."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql.types import _parse_datatype_string as parse_type

from icestream import faults
from icestream.catalog.graph import StageTask
from icestream.lake import changes, small
from icestream.lake.columns import row_type
from icestream.lake.fold import CHANGE_SCHEMA, OP
from icestream.lake.position import Offset, Range
from icestream.lake.small import FEW, HOT
from icestream.plan.maintain import WEIGHT
from icestream.runtime.open_objects import OpenObjects
from icestream.runtime.open_table import OpenTable
from icestream.types import backtick

WORTH = 40
"""A look-up pays if less than one row in so many has changed; else the table is scanned."""


class Contents:
    """The stored objects of a pipeline, as one epoch reads them. Frames can be used until it is closed."""

    def __init__(self, objects: OpenObjects, now: str) -> None:
        self.objects = objects
        self.now = now
        self._deltas: dict[tuple[str, str], DataFrame] = {}
        self._at_hand: set[tuple[str, str]] = set()
        """Deltas that the driver holds itself."""
        self._sizes: dict[tuple[str, int], int] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._wholes: dict[str, DataFrame] = {}
        self._held = ExitStack()
        self._lock = threading.RLock()

    def close(self) -> None:
        """Let go of what is kept in memory."""
        self._held.close()

    # -- all rows --------------------------------------------------------------------------------

    def rows(self, key: str, snapshot: int) -> int:
        """How many rows the data files of a table hold."""
        at = (key, snapshot)
        if at not in self._sizes:
            table = self.objects.table(key).table
            found = table.holding(snapshot).snapshot(snapshot)
            rows = None if found is None else found.summary().get("total-records")
            self._sizes[at] = 1 << 62 if rows is None else int(rows)
        return self._sizes[at]

    def was_empty(self, key: str, snapshot: int | None) -> bool:
        """Whether a table surely had no rows."""
        return snapshot is None or self.rows(key, snapshot) == 0

    def is_little(self, key: str, snapshot: int | None) -> bool:
        """Whether a table is so small that the driver may hold it."""
        return snapshot is None or self.rows(key, snapshot) <= HOT

    def all(self, key: str, snapshot: int | None) -> DataFrame:
        """All rows of a stored object at a snapshot."""
        opened = self.objects.table(key)
        if snapshot is not None and self.rows(key, snapshot) <= HOT:
            hot = self._hot(opened, snapshot)
            if hot is not None:
                return hot
        reader = self.objects.spark.read.format("iceberg").option("snapshot-id", str(snapshot))
        return reader.load(opened.table.sql)

    def _hot(self, opened: OpenTable, snapshot: int) -> DataFrame | None:
        """A small table, read by the driver itself and kept as long as it does not change."""
        with self._lock:
            if opened.hot is not None and opened.hot[0] == snapshot:
                return opened.hot[1]
            table = opened.table
            java = table.holding(snapshot)
            schema = small.can_write(table, java)
            if schema is None:
                return None
            rows = small.content(table, java, schema, opened.recent_files(), snapshot)
            if rows is None:
                return None
            columns = row_type(table, java, schema.names)
            frame = self.objects.spark.createDataFrame(rows, columns).coalesce(1)
            opened.hot = (snapshot, frame)
            return frame

    def whole(self, key: str) -> DataFrame:
        """A table of others as it is now: the same for all who look it up in this epoch."""
        with self._lock:
            if key not in self._wholes:
                feed = self.objects.feeds[key]
                start: Offset = {"snapshot": None}  # all of it, wherever a stream would begin
                rows = feed.rows(Range(start, feed.source.latest(start)), self.now)
                self._wholes[key] = rows.frame
            return self._wholes[key]

    def found(
        self,
        key: str,
        snapshot: int | None,
        head: int | None,
        on: Sequence[str],
        columns: Sequence[str],
        keys: DataFrame,
        count: int | None,
    ) -> DataFrame:
        """The rows of a stored object that have one of the keys; all rows, if that is most of them anyway."""
        rows = 0 if head is None else self.rows(key, head)
        if snapshot is None or count is None or rows <= HOT or count > rows // WORTH:
            return self.all(key, snapshot)
        return self.objects.table(key).lookup(on, columns).rows(keys, snapshot, count)

    # -- changes ---------------------------------------------------------------------------------

    def changed(self, key: str, range: Range) -> int:
        """About how many rows of a stored object changed; its snapshots are asked once an epoch."""
        at = (key, repr(range))
        if at not in self._counts:
            table = self.objects.table(key).table
            self._counts[at] = changes.changed(
                table, range.start["snapshot"], range.end["snapshot"]
            )
        return self._counts[at]

    def weighed(self, key: str, range: Range) -> DataFrame:
        """What came and went in a stored object, with weights; read once for all who ask."""
        at = (key, repr(range))
        with self._lock:
            if at not in self._deltas:
                self._deltas[at] = self._read_delta(key, range)
            return self._deltas[at]

    def _read_delta(self, key: str, range: Range) -> DataFrame:
        frame = self.delta(key, range)
        tasks = self.objects.plan.tasks
        readers = [t.stage for t in tasks if isinstance(t, StageTask) and key in t.tables]
        read = {name for stage in readers for name in stage.reads_of(key)}
        columns = [backtick(c) for c in frame.columns if c in read]
        weighed = frame.selectExpr(*columns, f"CAST({OP} AS INT) AS {WEIGHT}")
        if (key, repr(range)) in self._at_hand:
            return weighed
        weighed = weighed.persist(StorageLevel.MEMORY_AND_DISK)
        self._held.callback(weighed.unpersist)
        return weighed

    def delta(self, key: str, range: Range) -> DataFrame:
        """What was added to a stored object and what went, read back from its own commits."""
        at_hand = self._read_few(key, range)
        if at_hand is not None:
            faults.reach("delta-read")
            return at_hand
        if self.objects.plan.by_key[key].grows:
            return changes.appended(self.added(key, range))
        opened = self.objects.table(key)
        assert opened.keyed is not None
        start, end = range.start["snapshot"], range.end["snapshot"]
        frame = changes.delta(opened.table, start, end, self._held, opened.keyed.known)
        faults.reach("delta-read")
        return frame

    def added(self, key: str, range: Range) -> DataFrame:
        """What was added to a stored object, read back from its own commits."""
        table = self.objects.table(key).table
        frame = changes.changes(table, range.start["snapshot"], range.end["snapshot"])
        return self.objects.spark.table(table.sql).limit(0) if frame is None else frame

    def _read_few(self, key: str, range: Range) -> DataFrame | None:
        """Few changes, read by the driver itself."""
        opened = self.objects.table(key)
        table = opened.table
        start, end = range.start["snapshot"], range.end["snapshot"]
        if start is None or self.changed(key, range) > FEW:
            return None
        java = table.holding(end)
        schema = small.can_write(table, java)
        known = opened.keyed.known if opened.keyed is not None else {}
        rows = None if schema is None else changes.few(table, start, end, schema, known)
        if rows is None or schema is None:
            return None
        columns = row_type(table, java, schema.names)
        for name, type in CHANGE_SCHEMA.items():
            if name in rows.column_names:
                columns = columns.add(name, parse_type(type))
        self._at_hand.add((key, repr(range)))
        return self.objects.spark.createDataFrame(rows, columns).coalesce(1)
