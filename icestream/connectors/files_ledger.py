"""The ledger of a file source: every file that was ever found, in the order in which it was found.

It is a small Iceberg table that only grows, so "the first n files" means the same for ever: after a restart,
for a replay, and for two processes that find files at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import pyarrow as pa

from icestream.connectors.files_read import FileEntry
from icestream.errors import LakeError
from icestream.lake import small
from icestream.lake.catalogs import LAKE, OWNER, SYSTEM, Lake
from icestream.lake.stamp import Stamp
from icestream.types import BIGINT, VARCHAR

COLUMNS = (("sequence", BIGINT), ("path", VARCHAR), ("size", BIGINT), ("modified", BIGINT))
ATTEMPTS = 3


def ledger_table(key: str) -> str:
    """The name of a source's ledger in the lake's own namespace."""
    return f"files_{key.rpartition('#')[2]}"


class Ledger:
    """The files of one source. Loaded at the first use, then kept in memory."""

    def __init__(self, lake: Lake, key: str) -> None:
        self.lake = lake
        self.key = key
        self.table = lake.table(LAKE, SYSTEM, ledger_table(key), owned=True)
        self.files: list[FileEntry] = []
        self.seen: dict[str, FileEntry] = {}
        self._head: int | None = None
        self._loaded = False

    def load(self, again: bool = False) -> None:
        """Read the table; make it if the source is new."""
        if self._loaded and not again:
            return
        if not self.lake.exists(self.table):
            self.lake.create(self.table, COLUMNS, properties={OWNER: self.key})
        head = self.table.head()
        self._head = head.id if head else None
        self.files = []
        if self._head is not None:
            reader = self.lake.spark.read.format("iceberg").option("snapshot-id", self._head)
            rows = sorted(reader.load(self.table.sql).collect(), key=lambda r: int(r.sequence))
            if [r.sequence for r in rows] != list(range(len(rows))):
                raise LakeError(
                    f"the ledger {self.table.name} was changed by somebody else",
                    object=self.table.name,
                )
            self.files = [FileEntry(r.path, r.size, r.modified) for r in rows]
        self.seen = {f.path: f for f in self.files}
        self._loaded = True

    def add(self, found: Callable[[], Iterable[FileEntry]]) -> None:
        """Append the files that are new, by time and path; `found` is asked again if another process was quicker."""
        self.load()
        for attempt in range(ATTEMPTS):
            new = sorted(
                (f for f in found() if f.path not in self.seen), key=lambda f: (f.modified, f.path)
            )
            if not new:
                return
            try:
                self._append(new)
                return
            except LakeError:  # another process was quicker, or the table was tidied
                if attempt + 1 == ATTEMPTS:
                    raise
                self.load(again=True)

    def _append(self, new: list[FileEntry]) -> None:
        first = len(self.files)
        rows = pa.table(
            {
                "sequence": pa.array(range(first, first + len(new)), pa.int64()),
                "path": [f.path for f in new],
                "size": pa.array([f.size for f in new], pa.int64()),
                "modified": pa.array([f.modified for f in new], pa.int64()),
            }
        )
        java = self.table.load()
        schema = small.can_write(self.table, java)
        assert schema is not None
        staged = small.write(self.table, java, schema, rows)
        stamp = Stamp(
            pipeline=f"files:{self.key}",
            incarnation=0,
            plan=0,
            epoch=first + len(new),
            time=time.time_ns() // 1000,
            rows=len(new),
        )
        self._head = self.table.append(staged.files, stamp, self._head)
        self.files += new
        self.seen |= {f.path: f for f in new}
