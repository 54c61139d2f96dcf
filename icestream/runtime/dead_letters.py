"""The dead letters of an epoch: records that did not decode or came too late, one table a feed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from icestream.catalog.graph import Task
from icestream.lake.position import Range, Ranges
from icestream.lake.staging import Staged, stage
from icestream.lake.stamp import Stamp
from icestream.runtime.epoch_context import EpochContext
from icestream.runtime.feeds import OpenFeed


@dataclass(frozen=True)
class StagedLetters:
    """The dead letters of one range of a feed; None: there are none."""

    feed: OpenFeed
    range: Range
    staged: Staged | None


class DeadLetterWriter:
    """Writes the dead letters of every feed that was read up to the cut."""

    def __init__(self, context: EpochContext, stamped: Mapping[str, Stamp]) -> None:
        self.context = context
        self.stamped = stamped

    def stage(self, read: Iterable[tuple[Task, Ranges]]) -> list[StagedLetters]:
        """Find and stage them, by what the tasks of a level have read."""
        context = self.context
        reached = [pair for task, ranges in read for pair in _feed_ends(task, ranges)]
        letters: list[StagedLetters] = []
        for key, feed in context.open.feeds.items():
            end, dead = context.cut.ends.get(key), feed.feed.key.dead_letters
            if end is None or all(pair != (key, end) for pair in reached):
                continue
            if context.at[dead].epoch == context.cut.epoch:
                continue
            if dead in self.stamped:
                stamp, table = self.stamped[dead], context.open.dead_letters[key]
                context.finish(dead, table, stamp.ranges, stamp.rows)
            elif key not in context.cut.held:  # else they are found when it can be read again
                range = Range(context.record.offset(dead, key), end)
                letters.append(StagedLetters(feed, range, self._stage_feed(feed, range)))
        return letters

    def _stage_feed(self, feed: OpenFeed, range: Range) -> Staged | None:
        reads = self.context.reads
        rows = reads.known(feed.key, range)  # only a read of just this range tells
        look = rows is None or bool(self.stamped) or feed.may_have_letters(rows)
        late = reads.late_letters(feed, range)
        if range.empty or not (look or late is not None):
            return None
        letters = feed.letters(range)
        letters = letters if late is None else letters.unionByName(late)
        return stage(letters, self.context.open.dead_letters[feed.key].table)

    def commit(self, letters: Iterable[StagedLetters]) -> None:
        """Make them visible."""
        for one in letters:
            feed, staged = one.feed, one.staged
            table = self.context.open.dead_letters[feed.key]
            ranges = Ranges({feed.key: one.range})
            self.context.commit_rows(feed.feed.key.dead_letters, ranges, staged, table)
            self.context.report.dead[feed.key] = staged.rows if staged else 0


def _feed_ends(task: Task, ranges: Ranges) -> list[tuple[str, object]]:
    """How far a task, and the sinks into its table, have read each feed."""
    sinks = [ranges.sinks[r.key] for r in task.readers if r.key in ranges.sinks]
    return [(key, r.end) for own in (ranges, *sinks) for key, r in own.feeds.items()]
