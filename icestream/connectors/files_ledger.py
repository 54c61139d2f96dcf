"""The ledger of a file source: every file that was ever found, in the order in which it was found.

It is a small Iceberg table that only grows, so "the first n files" means the same for ever: after a restart,
for a replay, and for two processes that find files at the same time. Only ALTER SOURCE … RESET changes an entry: a
row with the same sequence number and a higher version replaces it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql import functions as F

from icestream.connectors.files_identity import FileEntry
from icestream.errors import LakeError
from icestream.home_log import log_failure
from icestream.identity import ObjectKey
from icestream.lake import small
from icestream.lake.catalogs import LAKE, OWNER, SYSTEM, Lake
from icestream.lake.java_types import JavaTable
from icestream.lake.jvm import iterate
from icestream.lake.stamp import Stamp
from icestream.types import BIGINT, VARCHAR

_LOG = logging.getLogger(__name__)

COLUMNS = (
    ("sequence", BIGINT), ("path", VARCHAR), ("size", BIGINT), ("modified", BIGINT),
    ("etag", VARCHAR), ("version", BIGINT),
)  # fmt: skip
ADDED = {"etag": "STRING", "version": "BIGINT"}
"""Columns that ledgers of earlier versions lack."""
ATTEMPTS = 3


def ledger_table(key: str) -> str:
    """The name of a source's ledger in the lake's own namespace."""
    return f"files_{ObjectKey(key).id}"


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
        self._version = 0

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
            frame = reader.load(self.table.sql)
            for name, type in ADDED.items():
                if name not in frame.columns:
                    frame = frame.withColumn(name, F.lit(None).cast(type))
            newest: dict[int, Row] = {}
            for row in sorted(frame.collect(), key=lambda r: r.version or 0):
                newest[int(row.sequence)] = row
                self._version = max(self._version, row.version or 0)
            rows = [newest[number] for number in sorted(newest)]
            if [r.sequence for r in rows] != list(range(len(rows))):
                raise LakeError(
                    f"the ledger {self.table.name} was changed by somebody else",
                    object=self.table.name,
                )
            self.files = [FileEntry(r.path, r.size, r.modified, r.etag or "") for r in rows]
        self.seen = {f.path: f for f in self.files if not f.skipped}
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
                log_failure(_LOG, "a commit to the ledger of files failed; it is tried again")
                self.load(again=True)

    def amend(self, changed: Mapping[int, FileEntry]) -> None:
        """Replace entries by newer versions of them."""
        if not changed:
            return
        self._version += 1
        self._write(changed)
        for number, file in changed.items():
            self.files[number] = file
        self.seen = {f.path: f for f in self.files if not f.skipped}

    def _append(self, new: list[FileEntry]) -> None:
        self._write(dict(enumerate(new, len(self.files))))
        self.files += new
        self.seen |= {f.path: f for f in new}

    def _write(self, entries: Mapping[int, FileEntry]) -> None:
        files = list(entries.values())
        rows = pa.table(
            {
                "sequence": pa.array(entries, pa.int64()),
                "path": [f.path for f in files],
                "size": pa.array([f.size for f in files], pa.int64()),
                "modified": pa.array([f.modified for f in files], pa.int64()),
                "etag": pa.array([f.etag for f in files], pa.string()),
                "version": pa.array([self._version] * len(files), pa.int64()),
            }
        )
        java = self._load_with_columns()
        schema = small.can_write(self.table, java)
        assert schema is not None
        staged = small.write(self.table, java, schema, rows)
        stamp = Stamp(
            pipeline=f"files:{self.key}",
            incarnation=0,
            plan=self._version,
            epoch=max(len(self.files), max(entries) + 1),
            time=time.time_ns() // 1000,
            rows=len(files),
        )
        self._head = self.table.append(staged.files, stamp, self._head)

    def _load_with_columns(self) -> JavaTable:
        """The table, with the columns that earlier versions lacked."""
        java = self.table.load()
        known = {str(field.name()) for field in iterate(java.schema().columns())}
        missing = {n: type for n, type in ADDED.items() if n not in known}
        if not missing:
            return java
        columns = ", ".join(f"{name} {type}" for name, type in missing.items())
        self.lake.spark.sql(f"ALTER TABLE {self.table.sql} ADD COLUMNS ({columns})")
        return self.table.load()
