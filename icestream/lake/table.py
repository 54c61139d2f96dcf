"""One Iceberg table: its snapshots and stamps, and the guarded commit that every write goes through."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from icestream import faults
from icestream.errors import ConnectorError, FencedError, LakeError, SignalError
from icestream.file_access import INSUFFICIENT_PRIVILEGE
from icestream.home_log import log_failure
from icestream.lake.access import LAKE, PATH_PROPERTIES, check_location, check_table_folders
from icestream.lake.java_types import JavaFile, JavaObject, JavaSnapshot, JavaTable
from icestream.lake.jvm import (
    HeadGuard,
    Jvm,
    is_missing,
    iterate,
    java_class,
    java_message,
)
from icestream.lake.stamp import STAMP, Stamp
from icestream.types import backtick

_LOG = logging.getLogger(__name__)

ATTEMPTS = 8
FILE_ACCESS = (
    "org.apache.iceberg.hadoop.HadoopFileIO",
    "org.apache.iceberg.io.ResolvingFileIO",
    "org.apache.iceberg.aws.s3.S3FileIO",
)
"""Iceberg's classes that open files of foreign tables."""
EMPTY = -1
"""In place of a snapshot's id: there is none yet."""


@dataclass(frozen=True)
class Snapshot:
    """A snapshot as the engine looks at it."""

    id: int
    parent: int | None
    operation: str
    summary: Mapping[str, str]
    committed: int = 0
    """Milliseconds since 1970."""

    @property
    def stamp(self) -> Stamp | None:
        """The stamp, if a pipeline of icestream made this snapshot."""
        text = self.summary.get(STAMP)
        return Stamp.from_json(text) if text else None

    @property
    def moment(self) -> int:
        """When it holds from, in milliseconds: the time of its epoch, which is the same in all tables; else of its commit."""
        stamp = self.stamp
        return self.committed if stamp is None or stamp.fence else stamp.time // 1000


def snapshot_of(java: JavaTable, id: int) -> JavaSnapshot:
    """A snapshot that has not expired."""
    found = java.snapshot(id)
    assert found is not None, f"there is no snapshot {id}"
    return found


class HeadMovedError(SignalError):
    """Somebody committed to a shared table after the snapshot that a change was prepared on: prepare it again."""


class LakeTable:
    """A table of any Iceberg catalog, by its full Spark name. `owned` tables have no writer but the engine."""

    def __init__(self, jvm: Jvm, name: tuple[str, ...], *, owned: bool) -> None:
        self.jvm = jvm
        self.parts = name
        self.owned = owned
        self._seen: JavaTable | None = None

    @property
    def name(self) -> str:
        """catalog.namespace.table, as people read it."""
        return ".".join(self.parts)

    @property
    def sql(self) -> str:
        """The name, quoted for Spark SQL."""
        return ".".join(backtick(p) for p in self.parts)

    @property
    def is_foreign(self) -> bool:
        """Whether it belongs to another catalog than the embedded lake's, which may say anything."""
        return self.parts[0] != LAKE

    def load(self) -> JavaTable:
        """The Java table, fresh from its catalog."""
        check_table_folders(self.jvm.spark, self.parts)
        try:
            java = self.jvm.load(self.sql)
        except (Py4JJavaError, PySparkException) as error:
            if is_missing(error):
                raise LakeError(
                    f"table {self.name} is gone",
                    object=self.name,
                    remedy="restore it, or drop the object that writes it",
                ) from error
            text = java_message(error) if isinstance(error, Py4JJavaError) else str(error)
            raise ConnectorError(
                f"table {self.name} cannot be loaded: {text.strip().splitlines()[0]}",
                object=self.name,
            ) from error
        if self.is_foreign:
            properties = java.properties()
            places = [(name, properties.get(name)) for name in PATH_PROPERTIES]
            check_location(self.jvm.spark, self.name, [("location", str(java.location())), *places])
            self._check_file_access(java)
        self._seen = java
        return java

    def _check_file_access(self, java: JavaTable) -> None:
        """Raise if the server of a REST catalog chose another class to open files with: those here are checked."""
        opener = str(java.io().getClass().getName())
        if opener not in FILE_ACCESS:
            raise ConnectorError(
                f"table {self.name}: its catalog asks to open files with {opener}",
                object=self.name,
                remedy=f"io-impl may be {', '.join(FILE_ACCESS)}",
                code=INSUFFICIENT_PRIVILEGE,
            )

    def check_files(self, locations: Iterable[str]) -> None:
        """Raise unless these files may be opened here. The metadata of a foreign table may name any file."""
        if self.is_foreign:
            check_location(self.jvm.spark, self.name, (("file", place) for place in locations))

    def holding(self, snapshot: int | None) -> JavaTable:
        """The Java table with that snapshot in its history: as it was last seen, if that will do."""
        seen = self._seen
        if seen is not None and snapshot is not None and seen.snapshot(snapshot) is not None:
            return seen
        return self.load()

    def head(self, java: JavaTable | None = None) -> Snapshot | None:
        """The current snapshot, or None for a table without one."""
        return next(self.ancestry(java), None)

    def ancestry(self, java: JavaTable | None = None) -> Iterator[Snapshot]:
        """The snapshots from the head back, as far as they are kept; beyond a gap that expiry has left, those with a
        stamp."""
        java = java or self.load()
        current = java.currentSnapshot()
        while current is not None:
            raw = json.loads(self.jvm.iceberg.SnapshotParser.toJson(current))
            parent, summary = raw.get("parent-snapshot-id"), raw["summary"]
            operation, committed = summary.pop("operation"), raw["timestamp-ms"]
            yield Snapshot(raw["snapshot-id"], parent, operation, summary, committed)
            current = java.snapshot(parent) if parent is not None else None
            if current is None and parent is not None:
                current = _stamped_before(java, raw.get("sequence-number", 0))

    def uuid(self) -> str:
        """The table's identity: a table dropped and made again has another."""
        return str(self.load().uuid())

    def append(
        self,
        files: list[JavaFile],
        stamp: Stamp,
        base: int | None,
        extra: Mapping[str, str] | None = None,
    ) -> int:
        """Commit staged files (or none: a fence, a record) with a stamp, exactly once, and give the snapshot's id.

        `base` is the snapshot the caller prepared on. The commit asserts it as the head; what to do
        when something else came in between is decided by `reconcile`.
        """

        def update(java: JavaTable) -> JavaObject:
            operation = java.newAppend() if files else java.newFastAppend()
            for file in files:
                operation.appendFile(file)
            return operation

        return self.commit(update, stamp, base, extra or {})

    def commit(
        self,
        update: Callable[[JavaTable], JavaObject],
        stamp: Stamp,
        base: int | None,
        extra: Mapping[str, str],
        *,
        only_on: int | None = None,
    ) -> int:
        """Run one guarded, stamped snapshot update; any exception counts as an unknown outcome until looked at.

        `only_on`: the update says which rows of that snapshot (EMPTY: of none) go, so it is never moved on top of
        another one.
        """
        failure: Py4JJavaError | None = None
        for attempt in range(ATTEMPTS):
            java = self.load()
            base, done = self.reconcile(java, stamp, base)
            if done is not None:
                return done
            if only_on is not None and only_on != (EMPTY if base is None else base):
                raise HeadMovedError
            operation = update(java)
            operation.set(STAMP, stamp.to_json())
            for key, value in extra.items():
                operation.set(key, value)
            operation.validateWith(HeadGuard(base))
            try:
                operation.commit()
                faults.reach("commit-sent")
                head = java.currentSnapshot()  # it looks again after the commit
            except Py4JJavaError as error:
                self._check_clock(error)
                failure = error
                log_failure(_LOG, "commit %d of %d to %s failed", attempt + 1, ATTEMPTS, self.name)
                if attempt:
                    time.sleep(min(0.05 * 2**attempt, 2.0))
                continue
            if head is not None and head.summary().get(STAMP) == stamp.to_json():
                return int(head.snapshotId())
        java = self.load()
        _, done = self.reconcile(java, stamp, base)
        if done is not None:
            return done
        reason = (
            f"{java_class(failure)}: {java_message(failure)}"
            if failure
            else "the head keeps moving"
        )
        raise ConnectorError(
            f"the commit to {self.name} failed {ATTEMPTS} times: {reason}",
            object=self.name,
            remedy="nothing was lost: the epoch is taken up again",
        )

    def fence(self, mark: Stamp, recorded: int | None) -> tuple[Stamp, int]:
        """Commit an empty snapshot under a new incarnation, so that a paused predecessor can commit nothing more.

        The fence repeats the newest stamp's epoch and ranges. Gives that stamp and the new head. `mark`
        is what the fence says on a table the pipeline has never stamped. Fails if what lies between
        `recorded` and the head is not the engine's own work (or, on shared tables, others').
        """
        for attempt in range(ATTEMPTS):
            java = self.load()
            head = self.head(java)
            newest = self._own_history(java, mark, recorded) or mark
            fence = replace(newest, incarnation=mark.incarnation, plan=mark.plan, fence=True)
            if head is not None and head.stamp == fence:
                return fence, head.id
            operation = java.newFastAppend()
            operation.set(STAMP, fence.to_json())
            operation.validateWith(HeadGuard(head.id if head else None))
            try:
                operation.commit()
            except Py4JJavaError as error:
                self._check_clock(error)
                if attempt + 1 == ATTEMPTS:
                    raise ConnectorError(
                        f"{self.name} cannot be fenced: {java_class(error)}: {java_message(error)}",
                        object=self.name,
                        remedy="check the catalog and the disk: it is tried again",
                    ) from error
                log_failure(_LOG, "fence %d of %d of %s failed", attempt + 1, ATTEMPTS, self.name)
                time.sleep(0.05 * 2**attempt)
        raise ConnectorError(
            f"{self.name} cannot be fenced: its head keeps moving", object=self.name
        )

    def _check_clock(self, error: Py4JJavaError) -> None:
        """Iceberg refuses a snapshot that is more than a minute older than the newest one: name the clock."""
        if "sorted snapshot log entries" in java_message(error):
            raise ConnectorError(
                f"{self.name} has a snapshot that is newer than this machine's clock, so nothing can be committed to it",
                object=self.name,
                remedy="set the clock right; commits go on by themselves once it has passed the newest snapshot",
            ) from error

    def _own_history(self, java: JavaTable, mark: Stamp, recorded: int | None) -> Stamp | None:
        """The newest stamp of the pipeline, after checking everything that came after the recorded snapshot."""
        newest: Stamp | None = None
        passed = recorded is None
        for snapshot in self.ancestry(java):
            passed = passed or snapshot.id == recorded
            stamp = snapshot.stamp
            own = stamp is not None and stamp.pipeline == mark.pipeline
            if own and stamp is not None and newest is None:
                if stamp.incarnation > mark.incarnation:
                    raise FencedError(
                        "another process has taken over this home; this one stops", object=self.name
                    )
                newest = stamp
            if passed and (newest is not None or self.owned):
                break
            if not passed and not own and self.owned and snapshot.operation != "replace":
                raise self._foreign(snapshot, recorded)
        if not passed:
            raise self._lost(recorded)
        return newest

    def _foreign(self, snapshot: Snapshot, base: int | None) -> LakeError:
        return LakeError(
            f"{self.name} belongs to this engine, but somebody else committed "
            f"a snapshot ({snapshot.operation}, {snapshot.id})",
            object=self.name,
            remedy=f"roll the table back to snapshot {base}, then start again; "
            "to change rows from outside use a sink's table",
        )

    def _lost(self, base: int | None) -> LakeError:
        return LakeError(
            f"the recorded snapshot {base} of {self.name} is no longer in its history",
            object=self.name,
            remedy="the table was rolled back, replaced or expired from outside; "
            "drop and create the object to start over",
        )

    def reconcile(
        self, java: JavaTable, stamp: Stamp, base: int | None
    ) -> tuple[int | None, int | None]:
        """Look at what came after `base`. Gives (the head to commit on, own snapshot if it is already there).

        Raises FencedError when a newer incarnation owns the table, LakeError when the table is not
        the one that was recorded or somebody else changed a table the engine owns.
        """
        head: int | None = None
        for index, snapshot in enumerate(self.ancestry(java)):
            if index == 0:
                head = snapshot.id
            if snapshot.id == base:
                return head, None
            mark = snapshot.stamp
            if mark is not None and mark.pipeline == stamp.pipeline:
                if mark.incarnation > stamp.incarnation:
                    raise FencedError(
                        "another process has taken over this home; this one stops and commits nothing more",
                        object=self.name,
                    )
                if mark == stamp:
                    return head, snapshot.id
                raise LakeError(
                    f"{self.name} carries an unexpected stamp of epoch {mark.epoch} "
                    f"(incarnation {mark.incarnation})",
                    object=self.name,
                )
            if self.owned and snapshot.operation != "replace":
                raise self._foreign(snapshot, base)
        if base is None:
            return head, None
        raise self._lost(base)


def _stamped_before(java: JavaTable, number: int) -> JavaSnapshot | None:
    """The newest snapshot with a stamp and a lower sequence number."""
    older = [
        s for s in iterate(java.snapshots())
        if s.sequenceNumber() < number and s.summary().get(STAMP) is not None
    ]  # fmt: skip
    return max(older, key=lambda s: int(s.sequenceNumber()), default=None)
