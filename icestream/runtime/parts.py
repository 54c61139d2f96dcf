"""What an epoch works with: the open parts of a pipeline, the cut it takes, and the names of positions."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from icestream.catalog.graph import Plan, Task
from icestream.lake.files import RecentFiles
from icestream.lake.keyed import KeyedTable
from icestream.lake.log import EpochLog
from icestream.lake.lookup import Lookup
from icestream.lake.stamp import Offset, Record
from icestream.lake.table import LakeTable
from icestream.runtime.error_counts import ErrorCounts
from icestream.runtime.feeds import OpenFeed
from icestream.runtime.targets import Target

BEGUN = "!begun"
"""The name under which it is kept whether a view has been computed at all."""
CLOCK = "!clock"
"""When a view that depends on now() was last computed."""
MARK = "!mark"
"""The watermarks that an object has reached."""


def stored(key: str) -> str:
    """The name under which an object's position in a stored object is kept, apart from feeds of the same key."""
    return f"@{key}"


def brought(key: str) -> str:
    """The name under which a table keeps the positions that a sink into it has in its inputs."""
    return f">{key}"


def position(record: Record, task: Task, key: str) -> Offset:
    """How far a task, or a part of one, has read an input."""
    if task.into is None:
        return record.position(task.key, key)
    offset: Offset = record.position(task.into, brought(task.key))[key]
    return offset


@dataclass(frozen=True)
class Cut:
    """What an epoch takes: its number and time, where it ends in each feed, and who takes part."""

    epoch: int
    time: int
    """Microseconds since 1970; what now() means in this epoch."""
    ends: Mapping[str, Offset]
    due: frozenset[str]
    limit: int | None = None
    """Records that an object which lags behind may catch up in one epoch."""
    held: frozenset[str] = frozenset()
    """Feeds that fail or do not answer: nothing is read of them."""

    @property
    def now(self) -> str:
        """Its time, for Spark."""
        return f"TIMESTAMP_MICROS({self.time})"


@dataclass
class Runtime:
    """The open parts of a pipeline that an epoch works with."""

    spark: SparkSession
    plan: Plan
    log: EpochLog
    feeds: dict[str, OpenFeed]
    targets: dict[str, Target]
    keyed: dict[str, KeyedTable]
    """The upserting side of targets that have a key."""
    letters: dict[str, LakeTable]
    """Dead-letter tables by feed."""
    heads: dict[str, int | None]
    """The snapshot that the next commit to each object's table builds on."""
    uuids: dict[str, str]
    indexes: Path
    errors: ErrorCounts
    """Failed expressions of the objects."""
    lookups: dict[str, dict[tuple[tuple[str, ...], tuple[str, ...]], Lookup]] = field(
        default_factory=dict
    )
    """Indexes of stored objects by other columns than their key, by object."""
    files: dict[str, RecentFiles] = field(default_factory=dict)
    """What is known of the files of stored objects that are looked up."""
    hot: dict[str, tuple[int, DataFrame]] = field(default_factory=dict)
    """The content of small tables, and the snapshot it is of."""
    lock: threading.RLock = field(default_factory=threading.RLock)

    def table(self, key: str) -> LakeTable:
        """The table of a stored object."""
        table = self.targets[key]
        assert isinstance(table, LakeTable)
        return table

    def lookup(self, key: str, on: Sequence[str], columns: Sequence[str]) -> Lookup:
        """The rows of a stored object by the values of some columns."""
        at = (tuple(on), tuple(columns))
        with self.lock:
            own = self.lookups.setdefault(key, {})
            if at not in own:
                files = self.files_of(key)
                own[at] = Lookup(self.table(key), on, columns, self.indexes, files=files)
            return own[at]

    def files_of(self, key: str) -> RecentFiles:
        """The files of a stored object's newest snapshots."""
        with self.lock:
            if key not in self.files:
                self.files[key] = RecentFiles(self.table(key))
            return self.files[key]
