"""Keeps one table of a view up to date: the changes of its stage, from what its inputs were and are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from icestream.catalog.graph import StageTask
from icestream.lake import small
from icestream.lake.keyed import Changes
from icestream.lake.position import Range, Ranges
from icestream.lake.small import FEW
from icestream.lake.staging import Staged
from icestream.plan.maintain import WEIGHT, State, Times
from icestream.runtime.spark_functions import has_functions
from icestream.runtime.task_executors import KeyedExecutor, Result
from icestream.runtime.temp_views import TempViews
from icestream.runtime.views import AS_CHANGES, Computation


class StageExecutor(KeyedExecutor[StageTask]):
    """Applies the delta rule of a stage to its table."""

    def ranges(self) -> Ranges:
        """What is to be read, that the stage has been computed, and the time for one that depends on now()."""
        before = self.context.record.objects[self.task.key].position
        assert before.begun is not None
        clock: Range | None = None
        if self.task.stage.moving:
            assert before.clock is not None
            clock = Range(before.clock, {"time": self.context.cut.time})
        begun = Range(before.begun, {"begun": True})
        return replace(super().ranges(), begun=begun, clock=clock)

    def stage(self, ranges: Ranges) -> Result:
        """Add rows where nothing is taken back; else fold the changes by the stage's key."""
        first, states = self._is_first(ranges), self._states(ranges)
        if self.task.stage.only_adds(states, first=first):
            rows = self._delta(ranges, marks=())
            return None if rows is None else self._append(ranges, rows)
        return self.stage_changes(ranges)

    def changes(self, ranges: Ranges) -> Changes | None:
        """What comes and goes in the stage's table."""
        task, context = self.task, self.context
        frame = self._delta(ranges)
        if frame is None:
            return None
        columns, count = tuple(name for name, _ in task.columns), self.count_changes(ranges)
        fans_out = task.stage.fans_out
        if fans_out and count is not None and count > FEW:
            heads = {key: context.at[key].snapshot for key in task.tables}
            count += sum(context.contents.rows(k, head) for k, head in heads.items() if head)
        return Changes(frame, columns, count, unbounded=fans_out)

    def _append(self, ranges: Ranges, rows: DataFrame) -> Staged:
        """Write rows that are added; few of them by the driver itself."""
        table, count = self.table.table, self.count_changes(ranges)
        if count is not None and count <= FEW:
            java = table.load()
            schema = small.can_write(table, java)
            if schema is not None:
                collected = small.collected(table, rows)
                if collected is not None:
                    return small.write(table, java, schema, collected)
        return self.stage_rows(rows)

    def _is_first(self, ranges: Ranges) -> bool:
        assert ranges.begun is not None
        return not ranges.begun.start.get("begun")

    def _states(self, ranges: Ranges) -> dict[str, State]:
        """What the epoch does to the relations that the stage reads, and to its own table before."""
        task, contents, first = self.task, self.context.contents, self._is_first(ranges)
        states = {k: State(not ranges.feeds[k].empty, empty=first) for k in task.feeds}
        for key, range in ranges.tables.items():
            was_empty = contents.was_empty(key, range.start["snapshot"])
            states[key] = State(not range.empty, was_empty)
        states |= {k: State(False) for k in task.foreign}
        own = contents.was_empty(task.key, self.table.head)
        states[task.stage.relation] = State(True, own)
        return states

    def _times(self, ranges: Ranges) -> Times:
        clock, mark = ranges.clock, ranges.mark
        return Times(
            None if clock is None else clock.start["time"],
            None if mark is None else mark.start["mark"],
            None if mark is None else mark.end["mark"],
            self._shown(),
        )

    def _shown(self) -> int | None:
        """Of a view that shows what is final: the watermark up to which it has done so."""
        stages = self.task.object.stages
        if not any(s.trim is not None for s in stages):
            return None
        shown = self.context.record.objects[stages[-1].relation].position.mark
        assert shown is not None
        mark: int | None = shown["mark"]
        return mark

    def _delta(self, ranges: Ranges, marks: Sequence[str] = AS_CHANGES) -> DataFrame | None:
        """The changes of the stage as a frame."""
        task, context, stage = self.task, self.context, self.task.stage
        contents, own = context.contents, self.table.head

        def face(relation: str, which: str, times: int) -> DataFrame:
            if which == "delta":
                return self._input_delta(relation, times, ranges)
            if relation == stage.relation:
                return contents.all(relation, own)
            if relation in task.foreign:
                return contents.whole(relation)
            at = ranges.tables[relation]
            return contents.all(relation, (at.start if which == "old" else at.end)["snapshot"])

        count = self.count_changes(ranges)

        def find(
            relation: str, which: str, on: Sequence[str], columns: Sequence[str], keys: DataFrame
        ) -> DataFrame:
            if relation in task.foreign:
                return contents.whole(relation)
            if relation == stage.relation:
                return contents.found(relation, own, own, on, columns, keys, count)
            at = ranges.tables[relation]
            head = at.end["snapshot"]
            snapshot = at.start["snapshot"] if which == "old" else head
            return contents.found(relation, snapshot, head, on, columns, keys, count)

        spark, now = context.open.spark, context.cut.now
        checked = context.cancellable and has_functions(spark)
        with TempViews(spark) as views:
            computation = Computation(spark, face, find, now, views, self.failures, checked)
            return computation.changes(
                stage,
                self._states(ranges),
                first=self._is_first(ranges),
                times=self._times(ranges),
                marks=marks,
            )

    def _input_delta(self, relation: str, times: int, ranges: Ranges) -> DataFrame:
        """The changes of an input with their weights."""
        task, reads = self.task, self.context.reads
        if relation not in task.feeds:
            return self.context.contents.weighed(relation, ranges.tables[relation])
        if times > 1:
            read = reads.placed if relation in task.marks else reads.rows
            read(relation, ranges.feeds[relation]).share()
        return reads.in_time(task, relation, ranges).withColumn(WEIGHT, F.lit(1))
