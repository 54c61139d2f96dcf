"""Takes objects into the pipeline that the record does not know: their tables, fences and first positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from icestream.catalog.graph import ConnectorTask, IngestTask, Plan, SinkTask, StageTask, Task
from icestream.catalog.objects import DEAD_LETTER_COLUMNS
from icestream.errors import LakeError, SqlError
from icestream.identity import object_name
from icestream.lake.catalogs import OWNER, owner_of
from icestream.lake.position import Offset, Position
from icestream.lake.stamp import ObjectAt
from icestream.lake.table import LakeTable
from icestream.runtime.open_objects import OpenObjects, OpenTarget
from icestream.runtime.open_table import OpenTable
from icestream.runtime.outside_answers import AnswersInTurn
from icestream.runtime.pipeline_state import PipelineState
from icestream.runtime.targets import prepare


class NewObjects:
    """Adds new objects to the record of a pipeline."""

    def __init__(self, state: PipelineState, open: OpenObjects, answers: AnswersInTurn) -> None:
        self.state = state
        self.lake = state.lake
        self.open = open
        self.answers = answers

    def add(self, plan: Plan) -> None:
        """Prepare objects that the record does not know: tables, fences, where to begin."""
        record = self.state.record
        objects, sources = dict(record.objects), dict(record.sources)
        for feed in plan.feeds:
            key = feed.key.dead_letters
            if key not in objects:
                sources.setdefault(feed.key, self.answers.start_of(self.open.feeds[feed.key]))
                table = self.open.dead_letters[feed.key]
                self._prepare_letters(table.table, key)
                objects[key] = self._fence_first(table, Position())
        for task in plan.tasks:
            if task.key not in objects:
                objects[task.key] = self._add_task(task, sources, objects)
            if isinstance(task, IngestTask):
                objects[task.key] = self._with_sinks(task, objects)
        self.state.record = replace(record, objects=objects, sources=sources)

    def _add_task(
        self, task: Task, sources: Mapping[str, Offset], objects: Mapping[str, ObjectAt]
    ) -> ObjectAt:
        self._check_stages(task)
        target = self.open.targets[task.key]
        self._check_alone(task.key, target)
        begin = self._start(task, sources, objects)
        add = partial(self._add_target, task, target, begin)
        return self.answers.call(add, target, task.object.name)

    def _add_target(self, task: Task, target: OpenTarget, begin: Position) -> ObjectAt:
        """Prepare and fence the table of a new object."""
        if not isinstance(target, OpenTable):
            return ObjectAt(self.state.record.epoch, position=begin)
        table, keyed = target.table, target.keyed
        if keyed and isinstance(task, SinkTask) and self.lake.exists(table):
            keyed.check()
        prepare(task, table, self.lake)
        if isinstance(task, ConnectorTask) and not self.lake.exists(table):
            return ObjectAt(self.state.record.epoch, table.name, position=begin)
        return self._fence_first(target, begin)

    def _fence_first(self, opened: OpenTable, position: Position) -> ObjectAt:
        opened.fence(self.state.make_mark(), None)
        epoch = self.state.record.epoch
        return ObjectAt(epoch, opened.table.name, opened.uuid, opened.head, position)

    def _check_stages(self, task: Task) -> None:
        """A view that has rows already cannot get a new stage: the stage's first delta would count its rows twice."""
        object = task.object
        if isinstance(task, StageTask) and object.key in self.state.record.objects:
            raise LakeError(
                f"{object.kind} {object.name} was made by an older version, which planned it in other stages",
                object=object.name,
                remedy=f"DROP {object.kind.upper()} {object.name} and create it again",
            )

    def _prepare_letters(self, table: LakeTable, key: str) -> None:
        """A feed's dead-letter table. One that is there already, from readers now gone, keeps its letters."""
        if self.lake.exists(table):
            if owner_of(table) == key:
                return
            self.lake.drop(table)
        self.lake.create(table, DEAD_LETTER_COLUMNS, properties={OWNER: key})

    def _check_alone(self, key: str, target: OpenTarget) -> None:
        """A table takes one commit an epoch, so one object writes it."""
        if not isinstance(target, OpenTable):
            return
        for other, table in self.open.lake_tables().items():
            if other != key and table.parts == target.table.parts:
                first, second = object_name(other), object_name(key)
                raise SqlError(
                    f"{'.'.join(table.parts[1:])} would be written by {first} and by {second}",
                    object=second,
                    remedy="unite the rows in one sink's query, or write two tables",
                )

    # -- positions -------------------------------------------------------------------------------

    def _start(
        self, task: Task, sources: Mapping[str, Offset], objects: Mapping[str, ObjectAt]
    ) -> Position:
        """Where a new object begins in each of its inputs."""
        begun: Offset | None = None
        clock: Offset | None = None
        if isinstance(task, StageTask):
            begun = {"begun": False}
            clock = {"time": None} if task.stage.moving else None
        mark: Offset | None = None
        if task.has_mark:
            mark = {"mark": None, "inputs": {}, "parts": {}}
        feeds: dict[str, Offset] = {}
        for key in task.feeds:
            start = self.answers.start_of(self.open.feeds[key])
            if start != sources.get(key):
                feeds[key] = start
        tables = {
            key: {"snapshot": objects[key].snapshot if self._is_empty(key) else None}
            for key in task.tables
        }
        return Position(feeds, tables, begun, clock, mark)

    def _with_sinks(self, task: IngestTask, objects: Mapping[str, ObjectAt]) -> ObjectAt:
        """A table's state with a position for each sink into it; new ones begin, those of dropped sinks are forgotten."""
        at = objects[task.key]
        sinks: dict[str, Position] = {}
        for part in task.parts:
            begun = at.position.sinks.get(part.key, Position())
            if not (begun.feeds.keys() >= {*part.feeds} and begun.tables.keys() >= {*part.tables}):
                begun = self._start(part, {}, objects).advance(begun)
            sinks[part.key] = Position(
                {key: begun.feeds[key] for key in part.feeds},
                {key: begun.tables[key] for key in part.tables},
            )
        return replace(at, position=replace(at.position, sinks=sinks))

    def _is_empty(self, key: str) -> bool:
        head = self.open.table(key).table.head()
        return head is None or head.summary.get("total-records", "0") == "0"
