"""What systems outside say about new objects, asked before a statement's turn, so that nothing is waited for in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from icestream.catalog.graph import ConnectorTask, Feed, IngestTask, Plan, SinkTask, Task
from icestream.catalog.objects import Ingest
from icestream.lake.catalogs import LAKE, Lake
from icestream.lake.position import Offset
from icestream.lake.stamp import Record
from icestream.lake.table import LakeTable
from icestream.runtime.destinations import open_feed
from icestream.runtime.feeds import OpenFeed
from icestream.runtime.open_table import OpenTable
from icestream.runtime.outside_calls import AHEAD_SECONDS, IN_TURN_SECONDS, call_outside
from icestream.runtime.targets import open_target

T = TypeVar("T")


@dataclass(frozen=True)
class Answers:
    """What systems outside have said before the turn of a statement."""

    starts: Mapping[str, tuple[Ingest | None, Offset]] = field(default_factory=dict)
    """Where feeds start, by the name of their object. Its id may change until the statement has its turn."""
    resets: Sequence[tuple[Offset, Offset]] = ()
    """Positions of the source that is reset, before and after."""

    def start_of(self, feed: Feed) -> Offset | None:
        """Where a feed starts, if that was asked."""
        ingest, start = self.starts.get(feed.object.name, (None, None))
        return start if start is not None and ingest == feed.object.ingest else None

    def reset_of(self, position: Offset) -> Offset | None:
        """The position after the reset, if that was asked."""
        return next((after for before, after in self.resets if before == position), None)


class AnswersInTurn:
    """The answers of the statement that has the turn. What was not asked before is asked now, for a short time."""

    def __init__(self) -> None:
        self.current: Answers | None = None
        """None: the statement asks in turn, as long as that takes."""

    @contextmanager
    def using(self, answers: Answers | None) -> Iterator[None]:
        """Use answers while objects change. Called in turn."""
        before, self.current = self.current, answers
        try:
            yield
        finally:
            self.current = before

    def start_of(self, feed: OpenFeed) -> Offset:
        """Where a feed starts."""
        if self.current is None or not feed.source.asks_only:
            return feed.source.start()
        start = self.current.start_of(feed.feed)
        if start is not None:
            return start
        return call_outside(feed.source.start, feed.object.name, IN_TURN_SECONDS)

    def reset_of(self, feed: OpenFeed, position: Offset) -> Offset:
        """Where a source goes on from a position once it is reset."""
        reset = partial(feed.source.reset, position)
        if self.current is None or not feed.source.asks_only:
            return reset()
        after = self.current.reset_of(position)
        return call_outside(reset, feed.object.name, IN_TURN_SECONDS) if after is None else after

    def call(self, work: Callable[[], T], target: object, name: str) -> T:
        """Do something with a target, for a short time if it is in a catalog outside."""
        table = target.table if isinstance(target, OpenTable) else target
        if self.current is not None and is_outside(table):
            return call_outside(work, name, IN_TURN_SECONDS)
        return work()


def ask_new(plan: Plan, record: Record, lake: Lake) -> Answers:
    """Ask for all that the objects of a plan need and the record does not know. Changes nothing."""
    new = [task for task in plan.tasks if task.key not in record.objects]
    wanted = _feeds_to_start(plan, record)
    starts: dict[str, tuple[Ingest | None, Offset]] = {}
    for feed in plan.feeds:
        if feed.key in wanted:
            start = call_outside(partial(_ask_start, feed, lake), feed.object.name, AHEAD_SECONDS)
            if start is not None:
                starts[feed.object.name] = feed.object.ingest, start
    for task in new:
        if _may_be_outside(task):
            call_outside(partial(_ask_target, task, lake), task.object.name, AHEAD_SECONDS)
    return Answers(starts)


def ask_reset(feed: Feed, positions: Sequence[Offset], lake: Lake) -> Answers:
    """Ask where a source goes on from these positions once it is reset."""

    def ask() -> list[tuple[Offset, Offset]]:
        with closing(open_feed(feed, lake)) as opened:
            if not opened.source.asks_only:
                return []
            return [(position, opened.source.reset(position)) for position in positions]

    return Answers(resets=call_outside(ask, feed.object.name, AHEAD_SECONDS))


def is_outside(target: object) -> bool:
    """Whether a table is in a catalog that is not the home's own."""
    return isinstance(target, LakeTable) and target.parts[0] != LAKE


def _feeds_to_start(plan: Plan, record: Record) -> set[str]:
    wanted: set[str] = {
        feed.key for feed in plan.feeds if feed.key.dead_letters not in record.objects
    }
    for task in plan.tasks:
        at = record.objects.get(task.key)
        if at is None:
            wanted.update(task.feeds)
        for part in task.parts if isinstance(task, IngestTask) else ():
            if at is None or part.key not in at.position.sinks:
                wanted.update(part.feeds)
    return wanted


def _ask_start(feed: Feed, lake: Lake) -> Offset | None:
    """Where a feed starts; None if that cannot be asked without making something."""
    with closing(open_feed(feed, lake)) as opened:
        return opened.source.start() if opened.source.asks_only else None


def _may_be_outside(task: Task) -> bool:
    if isinstance(task, ConnectorTask):
        return True
    return isinstance(task, SinkTask) and task.object.connector == "iceberg"


def _ask_target(task: Task, lake: Lake) -> None:
    """Look whether the catalog of a new sink answers."""
    target = open_target(task, lake)
    if isinstance(target, LakeTable) and is_outside(target):
        lake.exists(target)
