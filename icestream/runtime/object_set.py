"""Makes the running plan that of the objects of the home: start, restart and DDL are one path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from icestream import interrupts
from icestream.catalog.graph import IngestTask, Task, make_plan
from icestream.catalog.objects import Object
from icestream.errors import SqlError
from icestream.identity import object_name
from icestream.lake.position import Offset
from icestream.lake.stamp import ObjectAt
from icestream.runtime.follow import fit_columns, is_outdated, rename_tables
from icestream.runtime.new_objects import NewObjects
from icestream.runtime.open_objects import OpenObjects
from icestream.runtime.outside_answers import AnswersInTurn
from icestream.runtime.pipeline_state import PipelineState
from icestream.runtime.recovery import Recovery


@dataclass(frozen=True)
class Ready:
    """What a backfill has made of a new object: where each of its tables stands."""

    objects: Mapping[str, ObjectAt]
    counters: Mapping[str, int]
    sources: Mapping[str, Offset]
    """How far the feeds were read that it reads."""


class ObjectSet:
    """The objects of a pipeline."""

    def __init__(
        self,
        state: PipelineState,
        open: OpenObjects,
        recovery: Recovery,
        answers: AnswersInTurn,
        *,
        after_crash: bool,
    ) -> None:
        """`after_crash`: the last process of this home did not come to an orderly end."""
        self.state = state
        self.open = open
        self.recovery = recovery
        self.answers = answers
        self.new_objects = NewObjects(state, open, answers)
        self._after_crash = after_crash

    def attach(
        self,
        objects: Sequence[Object],
        plan_version: int,
        fence: bool = False,
        ready: Ready | None = None,
    ) -> None:
        """Make the running plan that of these objects. What the record does not know yet is prepared and added, or taken
        in where it is `ready`; what it knows and the objects lack is forgotten. It is done or undone as a whole, whether
        the statement is cancelled meanwhile or not."""
        with interrupts.shield():
            self._attach(objects, plan_version, fence, ready)

    def _attach(
        self, objects: Sequence[Object], plan_version: int, fence: bool, ready: Ready | None
    ) -> None:
        if not fence:
            self.recovery.settle()
        state = self.state
        before, old_plan = state.record, self.open.plan
        plan = make_plan(objects)
        known = {t.key: t.columns for t in old_plan.tasks}
        reshaped = [
            t for t in plan.tasks
            if isinstance(t, IngestTask) and known.get(t.key) != t.columns
            and t.key in before.objects
        ]  # fmt: skip
        try:
            self.open.open(plan)
            self._follow(reshaped)
            if fence:
                self._suspect_large_records()
                self.recovery.recover()
                before = state.record
            self._renew(reshaped, None if fence else plan_version)
            if ready is not None:
                self._take_in(ready)
            self.new_objects.add(plan)
        except BaseException:
            taken = ready.objects if ready is not None else {}
            kept = {k: v for k, v in state.record.objects.items() if k not in taken}
            state.record = replace(state.record, objects=kept)
            self.open.open(old_plan)
            self.open.forget_removed()
            raise
        self.open.forget_removed()
        keys = plan.by_key.keys() | {f.key.dead_letters for f in plan.feeds}
        objects_at = {k: v for k, v in state.record.objects.items() if k in keys}
        sources = {k: v for k, v in state.record.sources.items() if k in self.open.feeds}
        after = (objects_at, sources, plan_version)
        if after != (before.objects, before.sources, before.plan):
            state.commit(plan=plan_version, objects=objects_at, sources=sources)

    def _suspect_large_records(self) -> None:
        """After a crash, which they may have caused, the first epoch reads records as if they were large."""
        for feed in self.open.feeds.values():
            feed.source.has_large_records = self._after_crash and feed.source.raw

    def _take_in(self, ready: Ready) -> None:
        """Go on from where a backfill has come."""
        for key, at in ready.objects.items():
            table = self.open.table(key)
            table.head, table.uuid = at.snapshot, at.uuid
        record = self.state.record
        objects = {**record.objects, **ready.objects}
        counters = {**record.counters, **{k: n for k, n in ready.counters.items() if n}}
        sources = {**ready.sources, **record.sources}
        self.state.record = replace(record, objects=objects, counters=counters, sources=sources)

    def _follow(self, reshaped: Sequence[Task]) -> None:
        """Give tables the names and columns that their objects have by now."""
        state = self.state
        renamed = rename_tables(state.lake, self.open.lake_tables(), state.record)
        if renamed:
            state.commit(objects={**state.record.objects, **renamed})
        for task in reshaped:
            fit_columns(state.lake, self.open.table(task.key).table, task.columns)

    def _renew(self, reshaped: Sequence[Task], plan_version: int | None) -> None:
        """Record a snapshot with the present columns of tables; with a plan version it has to be made first."""
        state = self.state
        objects = dict(state.record.objects)
        for task in reshaped:
            opened, at = self.open.table(task.key), objects[task.key]
            if not is_outdated(opened.table, at):
                continue
            if plan_version is not None:
                mark = replace(state.make_mark(), plan=plan_version)
                _, opened.head = opened.table.fence(mark, at.snapshot)
            objects[task.key] = replace(at, snapshot=opened.head)
        state.record = replace(state.record, objects=objects)

    # -- positions of a source -------------------------------------------------------------------

    def reset_source(self, key: str) -> str:
        """Let a source go on after records that are lost: in the record, and for every object that lags behind it. Gives
        its name."""
        self.recovery.settle()
        feed, record = self.open.feeds.get(key), self.state.record
        if feed is None:
            name = object_name(key)
            raise SqlError(f"nothing reads {name}, so it has no position", object=name)

        def reset(offset: Offset) -> Offset:
            return self.answers.reset_of(feed, offset)

        objects = {
            k: replace(at, position=at.position.move_feed(key, reset))
            for k, at in record.objects.items()
        }
        sources = {**record.sources, key: reset(record.sources[key])}
        self.state.commit(sources=sources, objects=objects)
        return feed.object.name

    def offsets_in(self, key: str) -> list[Offset]:
        """Where the record and every object that lags behind it are in a source."""
        record = self.state.record
        offsets = [record.sources[key]]
        for at in record.objects.values():
            offsets += at.position.offsets_in(key)
        return [offset for n, offset in enumerate(offsets) if offset not in offsets[:n]]
