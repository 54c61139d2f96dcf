"""A table that the pipeline writes, with everything that is known of it while it is open."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame

from icestream.lake.files import RecentFiles
from icestream.lake.fold import Upsert
from icestream.lake.keyed import KeyedTable
from icestream.lake.lookup import Lookup
from icestream.lake.stamp import Stamp
from icestream.lake.table import LakeTable


class OpenTable:
    """An Iceberg table with its head, its key index, its lookups and what is kept of its content."""

    def __init__(self, table: LakeTable, indexes: Path) -> None:
        self.table = table
        self.head: int | None = None
        """The snapshot that the next commit builds on."""
        self.uuid: str | None = None
        """The identity of the table that was fenced; None: none was yet."""
        self.keyed: KeyedTable | None = None
        """The upserting side of a table with a key."""
        self.hot: tuple[int, DataFrame] | None = None
        """The content of a small table, and the snapshot it is of."""
        self._indexes = indexes
        self._lookups: dict[tuple[tuple[str, ...], tuple[str, ...]], Lookup] = {}
        self._files: RecentFiles | None = None
        self._lock = threading.RLock()

    def fence(self, mark: Stamp, recorded: int | None, uuid: str | None = None) -> Stamp:
        """Fence the table and build on the fence from now on; gives the newest stamp. `uuid`: its identity, if known."""
        stamp, self.head = self.table.fence(mark, recorded)
        self.uuid = uuid or self.table.uuid()
        return stamp

    def use_key(self, upsert: Upsert | None, tasks: int | None) -> None:
        """Apply changes by this key, with so many Spark tasks; None: rows are added."""
        if upsert is None:
            return
        if self.keyed is None:
            self.keyed = KeyedTable(self.table, upsert, self._indexes)
        self.keyed.tasks = tasks

    def lookup(self, on: Sequence[str], columns: Sequence[str]) -> Lookup:
        """The rows by the values of some columns."""
        at = (tuple(on), tuple(columns))
        with self._lock:
            if at not in self._lookups:
                files = self.recent_files()
                self._lookups[at] = Lookup(self.table, on, columns, self._indexes, files=files)
            return self._lookups[at]

    def recent_files(self) -> RecentFiles:
        """The files of the newest snapshots."""
        with self._lock:
            if self._files is None:
                self._files = RecentFiles(self.table)
            return self._files

    def forget_contents(self) -> None:
        """Let go of what depends on the columns, which have changed."""
        self.keyed = self.hot = self._files = None
        self._lookups = {}

    def drop_indexes(self) -> None:
        """Delete the indexes of a table that is gone."""
        if self.uuid is None:
            return
        indexes = [self.keyed.index] if self.keyed is not None else []
        for index in (*indexes, *(lookup.index for lookup in self._lookups.values())):
            index.drop(self.uuid)
