"""Objects → what an epoch does. The runtime executes the plan and EXPLAIN prints it, so the two cannot drift apart.

A `Feed` brings records in (a source, or the connector of a table); a `Task` computes the new rows of one stored
object or sink from its inputs' deltas and commits or delivers them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from icestream.catalog.objects import (
    Connector,
    MaterializedView,
    Object,
    Sink,
    Source,
    Table,
    Watermark,
    dead_key,
)
from icestream.kafka_connect.config import Destination
from icestream.lake.fold import OFFSET, OP, PARTITION, STREAM, Upsert
from icestream.plan.delta import changes_of
from icestream.plan.linear import relations_read
from icestream.plan.logical import Node
from icestream.plan.stages import Stage
from icestream.types import BIGINT, INTEGER, VARCHAR, Type

Feeding = Source | Table | Connector
Writing = Table | MaterializedView | Sink | Connector

CARRIED: dict[str, Type] = {OP: INTEGER, STREAM: VARCHAR, PARTITION: INTEGER, OFFSET: BIGINT}
"""What each change of a row carries through a query. The types are nominal: Spark's own pass through as they are."""


@dataclass(frozen=True)
class Feed:
    """Records from outside, decoded once an epoch for all that read them."""

    object: Feeding

    @property
    def key(self) -> str:
        """The identity of the feed's positions in the epoch log."""
        return self.object.key

    @property
    def dead_key(self) -> str:
        """The identity of its dead-letter table in the epoch log."""
        return dead_key(self.object.key)


@dataclass(frozen=True)
class Task:
    """New rows of one object. `query` None: the feed's rows as they are. A connector has a task a table."""

    object: Writing
    feeds: tuple[str, ...]
    """Keys of the feeds it reads."""
    tables: tuple[str, ...]
    """Keys of the stored objects it reads."""
    query: Node | None
    interval: float
    """Seconds between its commits; 0: every epoch."""
    level: int
    destination: Destination | None = None
    """Which of a connector's tables it fills."""
    stage: Stage | None = None
    """Which of a view's tables it keeps up to date."""
    foreign: tuple[str, ...] = ()
    """Keys of the feeds that it reads as a whole, to look rows up."""
    marks: Mapping[str, Watermark] = field(default_factory=dict)
    """The watermarks of its feeds."""
    marked: tuple[str, ...] = ()
    """Those of the stored objects it reads that have a watermark of their own."""
    into: str | None = None
    """Of a part: the key of the task whose table takes its changes in."""
    parts: tuple[Task, ...] = ()
    """What sinks bring into its table beside its own feed, in the order of their creation."""

    @property
    def readers(self) -> tuple[Task, ...]:
        """Itself and its parts: each reads inputs of its own, and one commit takes in what all of them bring."""
        return (self, *self.parts)

    @property
    def committer(self) -> str:
        """The key of the task that commits what it brings."""
        return self.into or self.key

    @property
    def has_mark(self) -> bool:
        """Whether it knows a watermark."""
        return bool(self.marks or self.marked)

    @property
    def key(self) -> str:
        """The identity of the task's state in the epoch log."""
        if self.stage is not None:
            return self.stage.relation
        return self.object.key + (f"/{self.destination.table}" if self.destination else "")

    @property
    def upsert(self) -> Upsert | None:
        """How the task's rows replace those that are there; None: they are added."""
        if self.stage is not None:
            return _maintained(self.stage)
        return self.object.upsert if isinstance(self.object, Table | Sink) else None

    @property
    def parallelism(self) -> int | None:
        """Into how many parts its rows are cut when they are written; None: as many as Spark finds right."""
        value = self.object.altered.settings.get("parallelism")
        return None if value is None else int(value)

    @property
    def hidden(self) -> bool:
        """Whether its table is the engine's own business."""
        return self.stage is not None and self.key != self.object.key

    @property
    def columns(self) -> tuple[tuple[str, Type], ...]:
        """The columns of the table that it fills."""
        columns = self.stage.columns if self.stage is not None else self.object.columns
        return tuple((c.name, c.type) for c in columns)

    @property
    def grows(self) -> bool:
        """Whether rows are only ever added to its table."""
        if self.stage is not None:
            return self.stage.appends
        return not (isinstance(self.object, Table) and self.object.changing)

    @property
    def changes(self) -> Node | None:
        """The query over its inputs' changes, for a task that must know what happened to each row.

        Its columns are the object's and those of `CARRIED`. None: the new rows are enough.
        """
        if not isinstance(self.object, Sink) or self.query is None or self.stage is not None:
            return None
        wanted = self.object.upsert is not None or self.object.drops_deletes or self.into
        return changes_of(self.query, CARRIED) if wanted else None


@dataclass(frozen=True)
class Plan:
    """All feeds that somebody reads, and the tasks in an order in which inputs come first."""

    feeds: tuple[Feed, ...]
    tasks: tuple[Task, ...]

    @property
    def levels(self) -> list[list[Task]]:
        """Tasks that depend only on earlier levels, together."""
        depth = max((t.level for t in self.tasks), default=-1) + 1
        return [[t for t in self.tasks if t.level == n] for n in range(depth)]

    @property
    def readers(self) -> list[Task]:
        """The tasks and their parts."""
        return [reader for task in self.tasks for reader in task.readers]


def make_plan(objects: Iterable[Object]) -> Plan:
    """The plan of a home's objects, given in the order of their creation."""
    feeding: dict[str, Feeding] = {}
    tasks: dict[str, Task] = {}
    for object in objects:
        if isinstance(object, Source | Connector) or (isinstance(object, Table) and object.ingest):
            feeding[object.key] = object
        if isinstance(object, Connector):
            for destination in object.config.destinations:
                task = Task(object, (object.key,), (), None, object.config.interval, 0, destination)
                tasks[task.key] = task
        if isinstance(object, Table) and object.ingest:
            marks = {object.key: object.watermark} if object.watermark else {}
            tasks[object.key] = Task(object, (object.key,), (), None, 0, 0, marks=marks)
        if isinstance(object, MaterializedView | Sink):
            for stage in object.stages:
                foreign = stage.looked_up
                feeds, tables = _inputs(
                    [r for r in stage.reads if r not in foreign], feeding, tasks
                )
                marks = _watermarks(feeds, feeding)
                waited = stage.waits_for
                marked = tuple(k for k in tables if k in waited and tasks[k].has_mark)
                tasks[stage.relation] = Task(
                    object, feeds, tables, stage.plan, 0, 0,
                    stage=stage, foreign=foreign, marks=marks, marked=marked,
                )  # fmt: skip
        if isinstance(object, Sink | Table) and object.query is not None:
            feeds, tables = _inputs(relations_read(object.query), feeding, tasks)
            target = object.into if isinstance(object, Sink) else None
            into = target.key if target is not None else None
            task = Task(
                object, feeds, tables, object.query, _interval(object), 0,
                marks=_watermarks(feeds, feeding), into=into,
            )  # fmt: skip
            if into is None:
                tasks[task.key] = task
            else:
                tasks[into] = replace(tasks[into], parts=(*tasks[into].parts, task))
    levels = _levels(tasks)
    planned = [replace(task, level=levels[key]) for key, task in tasks.items()]
    read = [reader for task in planned for reader in task.readers]
    used = {key for reader in read for key in (*reader.feeds, *reader.foreign)}
    return Plan(
        tuple(Feed(o) for key, o in feeding.items() if key in used),
        tuple(sorted(planned, key=lambda t: (t.level, t.object.id))),
    )


Keys = tuple[str, ...]


def _inputs(
    read: Sequence[str], feeding: Mapping[str, Feeding], tasks: Mapping[str, Task]
) -> tuple[Keys, Keys]:
    """The feeds among relations, and the stored objects."""
    tables = tuple(k for k in read if k in tasks)
    return tuple(k for k in read if k in feeding and k not in tables), tables


def _watermarks(feeds: Sequence[str], feeding: Mapping[str, Feeding]) -> dict[str, Watermark]:
    """The watermarks that feeds declare."""
    objects = {k: feeding[k] for k in feeds}
    return {
        k: o.watermark
        for k, o in objects.items()
        if isinstance(o, Source | Table) and o.watermark is not None
    }


def _levels(tasks: Mapping[str, Task]) -> dict[str, int]:
    """How many others come before each task: it is after all that it and its parts read."""
    found: dict[str, int] = {}

    def level(key: str) -> int:
        if key not in found:
            read = {k for reader in tasks[key].readers for k in reader.tables}
            found[key] = max((level(k) + 1 for k in read), default=0)
        return found[key]

    return {key: level(key) for key in tasks}


def _maintained(stage: Stage) -> Upsert | None:
    """How the changes of a stage are applied to its table."""
    if stage.appends:
        return None
    if stage.identity is None:
        return Upsert(stage.bag, "bag")
    return Upsert(stage.identity, "overwrite" if stage.netted else "net")


def _interval(object: Object) -> float:
    if isinstance(object, Sink) and object.connector == "iceberg":
        return object.settings.number("commit_checkpoint_interval")
    return 0
