"""Between epochs: expire snapshots that nothing needs and merge small files of the embedded lake's tables.

Runs in the epoch loop's own thread, so it never races with the engine's commits. Failures are told and the
stream goes on: a table is none the worse for being tidied later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from icestream.config import EngineSettings
from icestream.lake.catalogs import LAKE, Lake
from icestream.lake.log import EpochLog
from icestream.lake.stamp import Record
from icestream.lake.table import LakeTable
from icestream.maintenance.policy import TIERS, Tier, tier_to_merge, to_expire

CHECK_EVERY = 8
"""Commits to a table between two looks at it."""


class Housekeeper:
    """Looks after the tables of the embedded lake."""

    def __init__(self, lake: Lake, settings: EngineSettings, notice: Callable[[str], None]) -> None:
        self.lake = lake
        self.settings = settings
        self.notice = notice
        self._seen: dict[str, int | None] = {}
        self._commits: Counter[str] = Counter()
        self._files: Counter[str] = Counter()

    def after_epoch(self, tables: Mapping[str, LakeTable], log: EpochLog, record: Record) -> None:
        """Called when an epoch is complete."""
        for key, table in [*tables.items(), ("", log.table)]:
            if table.parts[0] != LAKE:
                continue
            head = log.head if table is log.table else record.objects[key].snapshot
            if self._seen.get(key) == head:
                continue
            self._seen[key] = head
            self._commits[key] += 1
            if self._commits[key] % CHECK_EVERY:
                continue
            try:
                if table is not log.table:
                    self._merge(key, table)
                self._expire(table, _needed(key, record), 2 if table is log.table else None)
            except (Py4JJavaError, PySparkException) as error:
                self.notice(f"tidying {table.name} failed: {str(error).splitlines()[0][:200]}")

    def _expire(self, table: LakeTable, needed: set[int], retained: int | None) -> None:
        java = table.load()
        keep = self.settings.retained_snapshots if retained is None else retained
        expired = to_expire(list(table.ancestry(java)), needed, keep)
        if expired:
            operation = java.expireSnapshots()
            for snapshot in expired:
                operation.expireSnapshotId(snapshot)
            operation.cleanExpiredFiles(True).commit()

    def _merge(self, key: str, table: LakeTable) -> None:
        """Merge the lowest tier of files that has gathered enough of them."""
        head = table.head()
        files = int(head.summary.get("total-data-files", 0)) if head else 0
        if files - self._files[key] < self.settings.merge_small_files_at:
            return
        largest = max(t.below for t in TIERS)
        small = self.lake.spark.table(f"{table.sql}.files").filter(
            F.col("file_size_in_bytes") < largest
        )
        sizes = [row[0] for row in small.select("file_size_in_bytes").limit(10_000).collect()]
        tier = tier_to_merge(sizes, self.settings.merge_small_files_at)
        if tier is not None:
            self._rewrite(table, tier)
        after = table.head()
        self._files[key] = int(after.summary.get("total-data-files", 0)) if after else 0

    def _rewrite(self, table: LakeTable, tier: Tier) -> None:
        options = {
            "min-file-size-bytes": tier.below,
            "max-file-size-bytes": tier.target * 2,
            "target-file-size-bytes": tier.target,
            "min-input-files": 2,
        }
        pairs = ", ".join(f"'{k}', '{v}'" for k, v in options.items())
        name = ".".join(table.parts[1:])
        self.lake.spark.sql(
            f"CALL {table.parts[0]}.system.rewrite_data_files("
            f"table => '{name}', options => map({pairs}))"
        )


def _needed(key: str, record: Record) -> set[int]:
    """Snapshots of an object's table that the record or a reader of the object still refers to."""
    at = record.objects.get(key)
    needed = {at.snapshot} if at is not None else set()
    for reader in record.objects.values():
        offset = (reader.position or {}).get(f"@{key}")
        if offset is not None:
            needed.add(offset["snapshot"])
    return {s for s in needed if s is not None}
