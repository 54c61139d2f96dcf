"""What is read of feeds in one epoch, decoded once for all who ask, and what the rows say of watermarks."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from icestream.catalog.graph import Task
from icestream.catalog.objects import Source, Table, Watermark
from icestream.functions.spark import render
from icestream.lake.fold import OFFSET, OP, PARTITION, STREAM
from icestream.lake.position import Offset, Range, Ranges
from icestream.lake.stamp import ObjectAt
from icestream.observe.report import EpochReport
from icestream.runtime.feeds import OpenFeed, Rows
from icestream.types import backtick


@dataclass(frozen=True)
class Late:
    """What a range of rows says of a watermark."""

    newest: Mapping[str, int]
    """How far each partition has come."""
    count: int
    """Rows that come too late for the watermark before."""


class Reads:
    """The ranges of feeds that an epoch reads."""

    def __init__(
        self,
        feeds: Mapping[str, OpenFeed],
        now: str,
        report: EpochReport,
        counters: MutableMapping[str, int],
    ) -> None:
        self.feeds = feeds
        self.now = now
        self.report = report
        self.counters = counters
        self._rows: dict[tuple[str, str, bool], Rows] = {}
        self.ranges: list[tuple[str, Range]] = []
        """Everything that was asked for."""
        self._late: dict[tuple[str, str, int | None], Late] = {}

    def rows(self, key: str, range: Range, *, as_changes: bool = False) -> Rows:
        """The rows of a range, as they are or as changes with their place."""
        at = (key, repr(range), as_changes)
        if at not in self._rows:
            feed = self.feeds[key]
            read = feed.changes if as_changes else feed.rows
            self._rows[at] = read(range, self.now)
            self.ranges.append((key, range))
        return self._rows[at]

    def known(self, key: str, range: Range) -> Rows | None:
        """The rows of just this range, if they have been asked for."""
        either = [self._rows.get((key, repr(range), changes)) for changes in (False, True)]
        return next((rows for rows in either if rows is not None), None)

    def count(self) -> None:
        """Report how much was read of each feed. After reading: some sources know it only then."""
        for key, range in self.ranges:
            records = self.feeds[key].source.count(range.start, range.end)
            if records is not None:
                self.report.records[key] = max(records, self.report.records.get(key, 0))

    def note_large_records(self) -> None:
        """Remember which feeds have had large records: the others are no longer suspected. After reading."""
        filled = {(key, repr(range)) for key, range in self.ranges if not range.empty}
        for (key, range, _), rows in self._rows.items():
            feed = self.feeds[key]
            if (key, range) in filled:
                feed.had_large_records |= rows.large is not None and bool(rows.large.value)
                feed.source.has_large_records = feed.had_large_records

    def suspect_large_records(self) -> None:
        """The epoch has failed, perhaps because of large records that nobody expected."""
        for key, _ in self.ranges:
            source = self.feeds[key].source
            source.has_large_records = source.raw

    def release(self) -> None:
        """Let go of rows that were kept for several readers."""
        for rows in self._rows.values():
            rows.release()

    # -- watermarks ------------------------------------------------------------------------------

    def reached(
        self,
        task: Task,
        before: Offset,
        feeds: Mapping[str, Range],
        objects: Mapping[str, ObjectAt],
    ) -> Offset:
        """The watermarks of a task's inputs with this epoch; what holds for its rows is the least of them.

        Of a feed, it is the least among the partitions that have given rows in the epoch: each is ordered on its own.
        """
        marks: dict[str, int | None] = dict(before["inputs"])
        parts: dict[str, dict[str, int]] = dict(before["parts"])
        for key, mark in task.marks.items():
            if not feeds[key].empty:
                newest = self.newest(key, feeds[key], mark, marks.get(key)).newest
                known_parts = parts.get(key, {})
                parts[key] = known_parts | {
                    p: max(m, known_parts.get(p, m)) for p, m in newest.items()
                }
                least_part = min((parts[key][p] for p in newest), default=None)
                found = [m for m in (marks.get(key), least_part) if m is not None]
                marks[key] = max(found, default=None)
        for key in task.marked:
            of_table = objects[key].position.mark
            assert of_table is not None
            marks[key] = of_table["mark"]
        known = [marks.get(k) for k in (*task.marks, *task.marked)]
        least = None if None in known else min(m for m in known if m is not None)
        return {"mark": least, "inputs": marks, "parts": parts}

    def newest(self, key: str, range: Range, mark: Watermark, before: int | None) -> Late:
        """What the rows of a range say of the watermark."""
        at = (key, repr(range), before)
        if at not in self._late:
            rows = self.placed(key, range)
            rows.share()
            value = F.expr(f"unix_micros(CAST(({render(mark.expr)}) AS TIMESTAMP))")
            late = F.lit(0) if before is None else F.sum(F.when(is_late(mark, before), 1))
            groups = rows.frame.groupBy(PARTITION).agg(
                F.max(value).alias("mark"), late.alias("late")
            )
            found = groups.collect()
            count = sum(row["late"] or 0 for row in found)
            newest = {str(r[PARTITION]): r["mark"] for r in found if r["mark"] is not None}
            self._late[at] = Late(newest, count)
            if count:
                self.report.late[key] = count
                self.counters[f"{key}.late"] = self.counters.get(f"{key}.late", 0) + count
        return self._late[at]

    def placed(self, key: str, range: Range) -> Rows:
        """The rows of a feed with a watermark, with the place they had."""
        return self.rows(key, range, as_changes=self.by_place(key))

    def in_time(self, task: Task, key: str, ranges: Ranges) -> DataFrame:
        """The rows of a feed without those that come too late."""
        if key not in task.marks:
            return self.rows(key, ranges.feeds[key]).frame
        frame = self._punctual(self.placed(key, ranges.feeds[key]).frame, task, key, ranges)
        return frame.drop(OP, STREAM, PARTITION, OFFSET) if self.by_place(key) else frame

    def changes_in_time(self, task: Task, key: str, ranges: Ranges) -> DataFrame:
        """The same as changes."""
        frame = self.rows(key, ranges.feeds[key], as_changes=True).frame
        return frame if key not in task.marks else self._punctual(frame, task, key, ranges)

    def late_letters(self, feed: OpenFeed, range: Range) -> DataFrame | None:
        """The rows that came too late, where they are to be kept."""
        object = feed.object
        if not isinstance(object, Source | Table) or object.watermark is None:
            return None
        counted = {
            before: late.count
            for (key, at, before), late in self._late.items()
            if (key, at) == (feed.key, repr(range))
        }
        before = next((b for b, count in counted.items() if count), None)
        if before is None or object.late_rows != "keep":
            return None
        rows = self.placed(feed.key, range).frame.filter(is_late(object.watermark, before))
        reason = f"late: {object.watermark.column} is before the watermark"
        return feed.as_letters(rows, [c.name for c in object.columns], reason)

    def _punctual(self, frame: DataFrame, task: Task, key: str, ranges: Ranges) -> DataFrame:
        assert ranges.mark is not None
        before = ranges.mark.start["inputs"].get(key)
        return frame if before is None else frame.filter(~is_late(task.marks[key], before))

    def by_place(self, key: str) -> bool:
        """Whether rows of a feed have to be read as changes to have their place."""
        return self.feeds[key].upsert is None


def is_late(mark: Watermark, before: int) -> F.Column:
    """Whether a row comes after the watermark has passed its time. One without a time never does."""
    late = F.expr(f"unix_micros(CAST({backtick(mark.column)} AS TIMESTAMP)) < {before}L")
    return F.coalesce(late, F.lit(False))
