"""The feeds and targets of a plan, open. A change of the plan keeps those that go on."""

from __future__ import annotations

from pathlib import Path

from icestream.catalog.graph import Plan, Task
from icestream.catalog.objects import DEAD_LETTERS
from icestream.connectors.base import Sink as OutsideSink
from icestream.lake.catalogs import LAKE, Lake
from icestream.lake.table import LakeTable
from icestream.runtime.destinations import open_feed
from icestream.runtime.error_counts import ErrorCounts
from icestream.runtime.feeds import OpenFeed
from icestream.runtime.open_table import OpenTable
from icestream.runtime.targets import open_target

OpenTarget = OpenTable | OutsideSink


class OpenObjects:
    """What an epoch reads and writes."""

    def __init__(self, lake: Lake, indexes: Path) -> None:
        self.lake = lake
        self.spark = lake.spark
        self.indexes = indexes
        self.errors = ErrorCounts(lake.spark)
        """Failed expressions of the objects."""
        self.plan = Plan()
        self.feeds: dict[str, OpenFeed] = {}
        self.targets: dict[str, OpenTarget] = {}
        """By the keys of tasks."""
        self.dead_letters: dict[str, OpenTable] = {}
        """Dead-letter tables by feed."""
        self._removed: dict[str, OpenTable] = {}
        """Tables that the plan lacks, until it is sure that they do not come back."""

    def table(self, key: str) -> OpenTable:
        """The table of a stored object."""
        table = self.targets[key]
        assert isinstance(table, OpenTable)
        return table

    def tables(self) -> dict[str, OpenTable]:
        """Every Iceberg table that the pipeline writes, by the key it has in the record."""
        targets = {k: t for k, t in self.targets.items() if isinstance(t, OpenTable)}
        letters = {f.key.dead_letters: self.dead_letters[f.key] for f in self.plan.feeds}
        return targets | letters

    def lake_tables(self) -> dict[str, LakeTable]:
        """The same, as the lake has them."""
        return {key: opened.table for key, opened in self.tables().items()}

    def feed_tables(self) -> dict[str, list[LakeTable]]:
        """Tables that connectors keep for themselves, by feed."""
        return {key: feed.source.tables() for key, feed in self.feeds.items()}

    def open(self, plan: Plan) -> None:
        """Open the connectors and tables of a plan, keeping those that are open already."""
        before, self.plan = self.plan.by_key, plan
        feeds = {f.key: f for f in plan.feeds}
        for key in [k for k in self.feeds if k not in feeds]:
            closed = self.feeds.pop(key)
            closed.close()
            self._removed[closed.feed.key.dead_letters] = self.dead_letters.pop(key)
        for key in [k for k in self.targets if k not in plan.by_key]:
            target = self.targets.pop(key)
            if isinstance(target, OpenTable):
                self._removed[key] = target
        for key, feed in feeds.items():
            if key in self.feeds and self.feeds[key].feed != feed:
                self.feeds.pop(key).close()
            if key not in self.feeds:
                self.feeds[key] = open_feed(feed, self.lake)
                self.feeds[key].failures = self.errors.handler(feed.object.id)
                table = self.lake.table(LAKE, DEAD_LETTERS, feed.object.name, owned=True)
                known = self.dead_letters.get(key) or self._removed.pop(feed.key.dead_letters, None)
                self.dead_letters[key] = known or OpenTable(table, self.indexes)
                self.dead_letters[key].table = table
        for key, task in plan.by_key.items():
            self._open_target(before.get(key), task)

    def _open_target(self, before: Task | None, task: Task) -> None:
        key = task.key
        if key in self.targets and before is not None and before.object != task.object:
            self._reopen(before, task)
        if key in self._removed:
            self.targets[key] = self._removed.pop(key)
        if key not in self.targets:
            made = open_target(task, self.lake)
            self.targets[key] = (
                OpenTable(made, self.indexes) if isinstance(made, LakeTable) else made
            )
        target = self.targets[key]
        if isinstance(target, OpenTable):
            target.use_key(task.upsert, task.parallelism)

    def _reopen(self, before: Task, task: Task) -> None:
        """Follow a change of an object that goes on. Whoever holds its table has it under its present name."""
        target = self.targets[task.key]
        if not isinstance(target, OpenTable):
            self.targets.pop(task.key)
            target.close()
            return
        wanted = open_target(task, self.lake)
        assert isinstance(wanted, LakeTable)
        target.table.parts = wanted.parts
        if before.columns != task.columns:
            target.forget_contents()

    def forget_removed(self) -> None:
        """Delete the indexes of tables that the plan lacks: it stays as it is."""
        for table in self._removed.values():
            table.drop_indexes()
        self._removed.clear()

    def close(self) -> None:
        """Close all connectors."""
        for feed in self.feeds.values():
            feed.close()
        for target in self.targets.values():
            if not isinstance(target, OpenTable):
                target.close()
