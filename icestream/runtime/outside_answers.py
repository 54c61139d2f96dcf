"""What systems outside say about new objects, asked before a statement's turn, so that nothing is waited for in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

from icestream.catalog.graph import Feed, Plan, Task
from icestream.catalog.objects import Connector, Ingest, Sink
from icestream.lake.catalogs import LAKE, Lake
from icestream.lake.stamp import Offset, Record
from icestream.lake.table import LakeTable
from icestream.runtime.destinations import open_feed
from icestream.runtime.outside_calls import AHEAD_SECONDS, call_outside
from icestream.runtime.parts import brought
from icestream.runtime.targets import open_target


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
    wanted = {feed.key for feed in plan.feeds if feed.dead_key not in record.objects}
    for task in plan.tasks:
        at = record.objects.get(task.key)
        if at is None:
            wanted.update(task.feeds)
        for part in task.parts:
            if at is None or brought(part.key) not in (at.position or {}):
                wanted.update(part.feeds)
    return wanted


def _ask_start(feed: Feed, lake: Lake) -> Offset | None:
    """Where a feed starts; None if that cannot be asked without making something."""
    with closing(open_feed(feed, lake)) as opened:
        return opened.source.start() if opened.source.asks_only else None


def _may_be_outside(task: Task) -> bool:
    object = task.object
    if isinstance(object, Connector):
        return True
    return isinstance(object, Sink) and task.stage is None and object.connector == "iceberg"


def _ask_target(task: Task, lake: Lake) -> None:
    """Look whether the catalog of a new sink answers."""
    target = open_target(task, lake)
    if isinstance(target, LakeTable) and is_outside(target):
        lake.exists(target)
