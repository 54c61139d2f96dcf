"""Objects → what an epoch does. The runtime has one executor for each type of task, and EXPLAIN prints the tasks.

A `Feed` brings records in (a source, or the connector of a table). A `Task` fills one table or sink from the changes of
its inputs:

    IngestTask        the rows of a feed → a table, with the changes of the sinks into it
    StageTask         the changes of its inputs → one of the tables that keep a view up to date
    SinkTask          a query over the changes of its inputs → a table of others, or a system outside
    ConnectorTask     raw records → one of the tables of a connector
    SinkIntoTask      a query over the changes of its inputs → changes that the IngestTask of its table commits
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from icestream.catalog.objects import (
    Connector,
    MaterializedView,
    Object,
    Sink,
    Source,
    Table,
    Watermark,
)
from icestream.identity import ObjectKey
from icestream.kafka_connect.config import Destination
from icestream.lake.fold import OFFSET, OP, PARTITION, STREAM, Upsert
from icestream.lake.position import Offset
from icestream.lake.stamp import Record
from icestream.plan.delta import changes_of
from icestream.plan.linear import relations_read
from icestream.plan.logical import Node
from icestream.plan.stages import Stage
from icestream.types import BIGINT, INTEGER, VARCHAR, Type

Feeding = Source | Table | Connector

CARRIED: dict[str, Type] = {OP: INTEGER, STREAM: VARCHAR, PARTITION: INTEGER, OFFSET: BIGINT}
"""What each change of a row carries through a query. The types are nominal: Spark's own pass through as they are."""


@dataclass(frozen=True)
class Feed:
    """Records from outside, decoded once an epoch for all that read them."""

    object: Feeding

    @property
    def key(self) -> ObjectKey:
        """The identity of the feed's positions in the epoch log."""
        return self.object.key


@dataclass(frozen=True)
class Task:
    """What an epoch computes for one object from its inputs."""

    object: Object
    feeds: tuple[str, ...]
    """Keys of the feeds it reads."""
    tables: tuple[str, ...] = ()
    """Keys of the stored objects it reads."""
    marks: Mapping[str, Watermark] = field(default_factory=dict)
    """The watermarks of its feeds."""
    level: int = field(default=0, kw_only=True)

    @property
    def foreign(self) -> tuple[str, ...]:
        """Keys of the feeds that it reads as a whole, to look rows up."""
        return ()

    @property
    def marked(self) -> tuple[str, ...]:
        """Those of the stored objects it reads that have a watermark of their own."""
        return ()

    @property
    def interval(self) -> float:
        """Seconds between its commits; 0: every epoch."""
        return 0

    @property
    def hidden(self) -> bool:
        """Whether its table is the engine's own business."""
        return False

    @property
    def grows(self) -> bool:
        """Whether rows are only ever added to its table."""
        return True

    @property
    def writes_outside(self) -> bool:
        """Whether nothing in the pipeline depends on what it writes."""
        return False

    @property
    def key(self) -> str:
        """The identity of the task's state in the epoch log."""
        return self.object.key

    @property
    def committer(self) -> str:
        """The key of the task that commits what it computes."""
        return self.key

    @property
    def readers(self) -> tuple[Task, ...]:
        """Itself and the sinks into its table: each reads inputs of its own, and one commit takes in the changes of all."""
        return (self,)

    @property
    def has_mark(self) -> bool:
        """Whether it knows a watermark."""
        return bool(self.marks or self.marked)

    @property
    def upsert(self) -> Upsert | None:
        """How the task's rows replace those that are there; None: they are added."""
        return None

    @property
    def parallelism(self) -> int | None:
        """Into how many parts its rows are cut when they are written; None: as many as Spark finds right."""
        value = self.object.altered.settings.get("parallelism")
        return None if value is None else int(value)

    @property
    def columns(self) -> tuple[tuple[str, Type], ...]:
        """The columns of the table that it fills."""
        return tuple((c.name, c.type) for c in self.object.columns)

    @property
    def changes(self) -> Node | None:
        """The query over its inputs' changes, for a task that must know what happened to each row.

        Its columns are the object's and those of `CARRIED`. None: the new rows are enough.
        """
        return None

    def feed_offset(self, record: Record, feed: str) -> Offset:
        """How far it has read a feed."""
        return record.offset(self.key, feed)

    def table_offset(self, record: Record, table: str) -> Offset:
        """The snapshot up to which it has read a stored object."""
        return record.objects[self.key].position.tables[table]

    def has_begun(self, record: Record) -> bool:
        """Whether it has been computed at all."""
        return True


@dataclass(frozen=True)
class SinkIntoTask(Task):
    """What a sink brings into a table of the home."""

    object: Sink
    into: str = field(kw_only=True)
    """The key of the task whose table takes its changes in."""

    @property
    def committer(self) -> str:
        """The key of the task that commits what it computes."""
        return self.into

    @cached_property
    def changes(self) -> Node:
        """The query over its inputs' changes."""
        return changes_of(self.object.query, CARRIED)

    def feed_offset(self, record: Record, feed: str) -> Offset:
        """How far it has read a feed. Its table keeps that."""
        return record.objects[self.into].position.sinks[self.key].feeds[feed]

    def table_offset(self, record: Record, table: str) -> Offset:
        """The snapshot up to which it has read a stored object."""
        return record.objects[self.into].position.sinks[self.key].tables[table]


@dataclass(frozen=True)
class IngestTask(Task):
    """The rows of a feed, stored in a table."""

    object: Table
    parts: tuple[SinkIntoTask, ...] = field(default=(), kw_only=True)
    """The sinks into the table, in the order of their creation."""

    @property
    def readers(self) -> tuple[Task, ...]:
        """Itself and the sinks into its table."""
        return (self, *self.parts)

    @property
    def upsert(self) -> Upsert | None:
        """How rows of the same key replace each other."""
        return self.object.upsert

    @property
    def grows(self) -> bool:
        """Whether rows are only ever added."""
        return not self.object.changing


@dataclass(frozen=True)
class StageTask(Task):
    """One of the tables that keep a view, or the query of a sink, up to date."""

    object: MaterializedView | Sink
    stage: Stage = field(kw_only=True)
    foreign: tuple[str, ...] = field(default=(), kw_only=True)
    marked: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def key(self) -> str:
        """The identity of the stage's table."""
        return self.stage.relation

    @property
    def upsert(self) -> Upsert | None:
        """How the changes of the stage are applied to its table."""
        stage = self.stage
        if stage.appends:
            return None
        if stage.identity is None:
            return Upsert(stage.bag, "bag")
        return Upsert(stage.identity, "overwrite" if stage.netted else "net")

    @property
    def hidden(self) -> bool:
        """Whether it is not the table of the object itself."""
        return self.key != self.object.key

    @property
    def columns(self) -> tuple[tuple[str, Type], ...]:
        """The columns of the stage's table."""
        return tuple((c.name, c.type) for c in self.stage.columns)

    @property
    def grows(self) -> bool:
        """Whether rows are only ever added."""
        return self.stage.appends

    def has_begun(self, record: Record) -> bool:
        """Whether it has been computed at all."""
        begun = record.objects[self.key].position.begun
        assert begun is not None
        return bool(begun["begun"])


@dataclass(frozen=True)
class SinkTask(Task):
    """Rows of a query, delivered to a table of others or to a system outside."""

    object: Sink

    @property
    def writes_outside(self) -> bool:
        """Whether nothing in the pipeline depends on what it writes."""
        return True

    @property
    def interval(self) -> float:
        """Seconds between its commits."""
        if self.object.connector == "iceberg":
            return self.object.settings.number("commit_checkpoint_interval")
        return 0

    @property
    def upsert(self) -> Upsert | None:
        """How rows of the same key replace each other."""
        return self.object.upsert

    @cached_property
    def changes(self) -> Node | None:
        """The query over its inputs' changes."""
        wanted = self.object.upsert is not None or self.object.drops_deletes
        return changes_of(self.object.query, CARRIED) if wanted else None


@dataclass(frozen=True)
class ConnectorTask(Task):
    """One of the tables that a connector fills."""

    object: Connector
    destination: Destination = field(kw_only=True)

    @property
    def writes_outside(self) -> bool:
        """Whether nothing in the pipeline depends on what it writes."""
        return True

    @property
    def key(self) -> str:
        """The identity of the destination."""
        return self.object.key.part(self.destination.table)

    @property
    def interval(self) -> float:
        """Seconds between its commits."""
        return self.object.config.interval


@dataclass(frozen=True)
class Plan:
    """All feeds that somebody reads, and the tasks in an order in which inputs come first."""

    feeds: tuple[Feed, ...] = ()
    tasks: tuple[Task, ...] = ()

    @cached_property
    def levels(self) -> list[list[Task]]:
        """Tasks that depend only on earlier levels, together."""
        depth = max((t.level for t in self.tasks), default=-1) + 1
        return [[t for t in self.tasks if t.level == n] for n in range(depth)]

    @cached_property
    def readers(self) -> list[Task]:
        """The tasks, and the sinks into their tables."""
        return [reader for task in self.tasks for reader in task.readers]

    @cached_property
    def by_key(self) -> dict[str, Task]:
        """The tasks by their keys."""
        return {task.key: task for task in self.tasks}

    def select(self, new: Object) -> Plan:
        """The part of the plan that is about one object, with the tables that it reads."""
        own = [t for t in self.tasks if t.object.key == new.key]
        feeds = {key for t in own for key in (*t.feeds, *t.foreign)}
        tables = {key for t in own for key in (t.key, *t.tables)}
        return Plan(
            tuple(f for f in self.feeds if f.key in feeds),
            tuple(t for t in self.tasks if t.key in tables),
        )


def make_plan(objects: Iterable[Object]) -> Plan:
    """The plan of a home's objects, given in the order of their creation."""
    builder = _PlanBuilder()
    for object in objects:
        builder.add(object)
    return builder.finish()


class _PlanBuilder:
    """The tasks of the objects so far."""

    def __init__(self) -> None:
        self._feeding: dict[str, Feeding] = {}
        self._tasks: dict[str, Task] = {}

    def add(self, object: Object) -> None:
        """Add the tasks of an object that reads only those before it."""
        if isinstance(object, Source | Table | Connector):
            self._feeding[object.key] = object
        match object:
            case Connector():
                for destination in object.config.destinations:
                    self._add(ConnectorTask(object, (object.key,), destination=destination))
            case Table():
                marks = self._watermarks([object.key])
                self._add(IngestTask(object, (object.key,), marks=marks))
            case MaterializedView():
                self._add_stages(object)
            case Sink():
                self._add_stages(object)
                self._add_sink(object)

    def _add(self, task: Task) -> None:
        self._tasks[task.key] = task

    def _add_stages(self, object: MaterializedView | Sink) -> None:
        for stage in object.stages:
            foreign, waited = stage.looked_up, stage.waits_for
            feeds, tables = self._inputs([r for r in stage.reads if r not in foreign])
            marked = tuple(k for k in tables if k in waited and self._tasks[k].has_mark)
            marks = self._watermarks(feeds)
            self._add(
                StageTask(object, feeds, tables, marks, stage=stage, foreign=foreign, marked=marked)
            )

    def _add_sink(self, sink: Sink) -> None:
        feeds, tables = self._inputs(relations_read(sink.query))
        if sink.into is None:
            self._add(SinkTask(sink, feeds, tables, self._watermarks(feeds)))
            return
        table = self._tasks[sink.into.key]
        assert isinstance(table, IngestTask)
        part = SinkIntoTask(sink, feeds, tables, into=table.key)
        self._add(replace(table, parts=(*table.parts, part)))

    def _inputs(self, read: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The feeds among relations, and the stored objects."""
        tables = tuple(k for k in read if k in self._tasks)
        return tuple(k for k in read if k in self._feeding and k not in tables), tables

    def _watermarks(self, feeds: Sequence[str]) -> dict[str, Watermark]:
        """The watermarks that feeds declare."""
        objects = {k: self._feeding[k] for k in feeds}
        return {
            k: o.watermark
            for k, o in objects.items()
            if isinstance(o, Source | Table) and o.watermark is not None
        }

    def finish(self) -> Plan:
        """The plan of all of them."""
        levels = self._levels()
        planned = [replace(task, level=levels[key]) for key, task in self._tasks.items()]
        read = [reader for task in planned for reader in task.readers]
        used = {key for reader in read for key in (*reader.feeds, *reader.foreign)}
        return Plan(
            tuple(Feed(o) for key, o in self._feeding.items() if key in used),
            tuple(sorted(planned, key=lambda t: (t.level, t.object.id))),
        )

    def _levels(self) -> dict[str, int]:
        """How many others come before each task: it is after all that it and the sinks into its table read."""
        known: dict[str, int] = {}

        def level(key: str) -> int:
            if key not in known:
                read = {k for reader in self._tasks[key].readers for k in reader.tables}
                known[key] = max((level(k) + 1 for k in read), default=0)
            return known[key]

        return {key: level(key) for key in self._tasks}
