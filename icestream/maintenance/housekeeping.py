"""Between epochs: expire snapshots that nothing needs and merge small files of the embedded lake's tables.

Runs in the epoch loop's own thread, so it never races with the engine's commits. Failures are told and the
stream goes on: a table is none the worse for being tidied later.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import functions as F

from icestream.config import EngineSettings
from icestream.errors import FencedError
from icestream.home_log import log_failure
from icestream.lake.catalogs import LAKE, Lake
from icestream.lake.log import EpochLog
from icestream.lake.pins import SnapshotPins
from icestream.lake.stamp import Record
from icestream.lake.table import LakeTable
from icestream.maintenance.policy import TARGET, TIERS, Tier, tier_to_merge, to_expire

_LOG = logging.getLogger(__name__)

CHECK_EVERY = 8
"""Commits to a table between two looks at it."""


class Housekeeper:
    """Looks after the tables of the embedded lake."""

    def __init__(self, lake: Lake, settings: EngineSettings, notice: Callable[[str], None]) -> None:
        self.lake = lake
        self.settings = settings
        self.notice = notice
        self.pinned: set[int] = set()
        """Snapshots that somebody reads beside the pipeline."""
        self.pins = SnapshotPins()
        """Snapshots that queries read."""
        self.promised: Callable[[], Mapping[str, float]] = dict
        """For how many seconds the snapshots of objects' tables are to be kept, by the objects' keys."""
        self._seen: dict[str, int | None] = {}
        self._commits: Counter[str] = Counter()
        self._files: Counter[str] = Counter()

    def after_epoch(
        self,
        tables: Mapping[str, LakeTable],
        feed_tables: Mapping[str, Sequence[LakeTable]],
        log: EpochLog,
        record: Record,
    ) -> None:
        """Called when an epoch is complete, with the tables of objects and those that feeds keep for themselves."""
        pinned = self.pins.snapshots()
        if pinned is None:
            return  # a query is choosing its snapshots: after the next epoch
        kept, promised = needed(record) | self.pinned | pinned, self.promised()
        for key, table in tables.items():
            if table.parts[0] == LAKE and key in record.objects:
                since = record.time - int(promised[key] * 1e6) if key in promised else None
                self._look_after(table, record.objects[key].snapshot, kept, since=since)
        for own in feed_tables.values():
            for table in own:
                self._look_after(table, record.epoch, kept)
        self._look_after(log.table, log.head, set(), retained=2)

    def _look_after(
        self,
        table: LakeTable,
        mark: int | None,
        needed: set[int],
        retained: int | None = None,
        since: int | None = None,
    ) -> None:
        """Tidy a table once it has changed (its `mark` did) often enough; all `since` a time is kept."""
        if self._seen.get(table.name) == mark:
            return
        self._seen[table.name] = mark
        self._commits[table.name] += 1
        if self._commits[table.name] % CHECK_EVERY:
            return
        try:
            if retained is None:
                self._merge(table)
            self._expire(table, needed, retained, since)
        except FencedError:
            raise
        except Exception as error:
            log_failure(_LOG, "tidying %s failed", table.name)
            self.notice(f"tidying {table.name} failed: {str(error).splitlines()[0][:200]}")

    def _expire(
        self,
        table: LakeTable,
        needed: set[int],
        retained: int | None,
        since: int | None = None,
    ) -> None:
        java = table.load()
        keep = self.settings.retained_snapshots if retained is None else retained
        expired = to_expire(list(table.ancestry(java)), needed, keep, since)
        if expired:
            operation = java.expireSnapshots()
            for snapshot in expired:
                operation.expireSnapshotId(snapshot)
            operation.cleanExpiredFiles(True).commit()

    def _merge(self, table: LakeTable) -> None:
        """Merge the lowest tier of files that has gathered enough of them."""
        head = table.head()
        files = int(head.summary.get("total-data-files", 0)) if head else 0
        if files - self._files[table.name] < self.settings.merge_small_files_at:
            return
        largest = max(t.below for t in TIERS)
        small = self.lake.spark.table(f"{table.sql}.data_files").filter(
            F.col("file_size_in_bytes") < largest
        )
        sizes = [row[0] for row in small.select("file_size_in_bytes").limit(10_000).collect()]
        tier = tier_to_merge(sizes, self.settings.merge_small_files_at)
        if tier is not None:
            self._rewrite(table, tier)
        after = table.head()
        self._files[table.name] = int(after.summary.get("total-data-files", 0)) if after else 0

    def _rewrite(self, table: LakeTable, tier: Tier) -> None:
        options = {
            "min-file-size-bytes": tier.below,
            "max-file-size-bytes": 1 << 50,  # large files stay as they are
            "target-file-size-bytes": TARGET,
            "min-input-files": 2,
        }
        pairs = ", ".join(f"'{k}', '{v}'" for k, v in options.items())
        name = ".".join(table.parts[1:])
        self.lake.spark.sql(
            f"CALL {table.parts[0]}.system.rewrite_data_files("
            f"table => '{name}', options => map({pairs}))"
        )


def needed(record: Record) -> set[int]:
    """Every snapshot that the record names, of whatever table: where objects stand, and where their readers do."""
    positions = [at.position for at in record.objects.values()]
    positions += [sink for position in positions for sink in position.sinks.values()]
    offsets = [*record.sources.values()]
    offsets += [o for position in positions for _, o in position.own()]
    offsets += [inner for o in offsets for inner in o.values() if isinstance(inner, dict)]
    named = [o.get("snapshot") for o in offsets] + [at.snapshot for at in record.objects.values()]
    return {s for s in named if isinstance(s, int)}  # a topic may be called "snapshot"
