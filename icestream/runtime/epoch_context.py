"""What the tasks of one epoch share: the cut, what is open, what is read, and how far each object has come."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from icestream import faults
from icestream.catalog.graph import Task
from icestream.lake.log import EpochLog
from icestream.lake.position import Offset, Position, Range, Ranges
from icestream.lake.staging import Staged
from icestream.lake.stamp import ObjectAt, Record, Stamp
from icestream.observe.report import EpochReport
from icestream.runtime.contents import Contents
from icestream.runtime.open_objects import OpenObjects, OpenTarget
from icestream.runtime.open_table import OpenTable
from icestream.runtime.reads import Reads


@dataclass(frozen=True)
class Cut:
    """What an epoch takes: its number and time, where it ends in each feed, and who takes part."""

    epoch: int
    time: int
    """Microseconds since 1970; what now() means in this epoch."""
    ends: Mapping[str, Offset]
    due: frozenset[str]
    limit: int | None = None
    """Records that an object which lags behind may catch up in one epoch."""
    held: frozenset[str] = frozenset()
    """Feeds that fail or do not answer: nothing is read of them."""

    @property
    def now(self) -> str:
        """Its time, for Spark."""
        return f"TIMESTAMP_MICROS({self.time})"


class EpochContext:
    """One cut on top of a complete record."""

    def __init__(
        self, open: OpenObjects, log: EpochLog, record: Record, cut: Cut, *, cancellable: bool
    ) -> None:
        """`cancellable`: its Spark jobs may be cancelled."""
        self.open = open
        self.log = log
        self.record = record
        self.cut = cut
        self.cancellable = cancellable
        self.report = EpochReport(cut.epoch)
        self.counters = dict(record.counters)
        self.at = self._pin_positions()
        """Where each object stands, moving on as tasks are committed."""
        self.reads = Reads(open.feeds, cut.now, self.report, self.counters)
        self.contents = Contents(open, cut.now)
        self._commits = 0
        self._lock = threading.Lock()
        self.has_large_records = any(
            open.feeds[key].source.has_large_records and not self.feed_range(task, key).empty
            for task in self.due_readers()
            for key in task.feeds
        )
        """Whether neither the driver nor one batch holds as many records as usual."""

    def _pin_positions(self) -> dict[str, ObjectAt]:
        """The objects' states with every feed spelled out, before the record's own positions move on."""
        plan, sources = self.open.plan, self.record.sources
        feeds: dict[str, tuple[str, ...]] = {t.key: t.feeds for t in plan.tasks}
        feeds |= {f.key.dead_letters: (f.key,) for f in plan.feeds}
        return {
            key: replace(
                at, position=Position({k: sources[k] for k in feeds.get(key, ())}).advance(at.position)
            )
            for key, at in self.record.objects.items()
        }  # fmt: skip

    def due_readers(self) -> list[Task]:
        """The tasks that take part, and the sinks into their tables."""
        return [task for task in self.open.plan.readers if task.committer in self.cut.due]

    def feed_range(self, task: Task, key: str) -> Range:
        """What a task has to read of a feed to reach the cut."""
        start = task.feed_offset(self.record, key)
        if key in self.cut.held:
            return Range(start, start)
        end = self.cut.ends.get(key, self.record.sources[key])
        if start != end:
            end = self.open.feeds[key].source.advance(start, end, self.cut.limit)
        return Range(start, end)

    # -- committing ------------------------------------------------------------------------------

    def make_stamp(self, ranges: Ranges, rows: int) -> Stamp:
        """What a commit of this epoch says of itself."""
        record, cut = self.record, self.cut
        return Stamp(
            record.pipeline, record.incarnation, record.plan,
            cut.epoch, cut.time, ranges, cut.ends, rows, log=self.log.head,
        )  # fmt: skip

    def commit_rows(
        self, key: str, ranges: Ranges, result: Staged | int | None, target: OpenTarget
    ) -> None:
        """Commit rows that are added, if there are any, and note that the object has reached the end of its ranges."""
        rows = result.rows if isinstance(result, Staged) else result
        if isinstance(target, OpenTable) and isinstance(result, Staged) and result.files:
            stamp = self.make_stamp(ranges, result.rows)
            self.note_commit(target, target.table.append(result.files, stamp, target.head))
        self.finish(key, target, ranges, rows or 0)

    def note_commit(self, table: OpenTable, snapshot: int) -> None:
        """A table was committed."""
        table.head = snapshot
        with self._lock:
            self._commits += 1
            first = self._commits == 1
        if first:
            faults.reach("first-table-committed")

    def finish(self, key: str, target: OpenTarget, ranges: Ranges, rows: int) -> None:
        """Note that an object has reached the end of its ranges."""
        position = self.at[key].position.advance(ranges.end)
        reached = replace(self.at[key], epoch=self.cut.epoch, position=position)
        if isinstance(target, OpenTable) and target.uuid is not None:
            reached = replace(reached, uuid=target.uuid, snapshot=target.head)
        self.at[key] = reached
        if rows:
            self.report.rows[key] = rows
            self.counters[key] = self.counters.get(key, 0) + rows
