"""What comes and goes in a table or materialized view, epoch by epoch, from where one stands in it."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from icestream.catalog.objects import MaterializedView, Table
from icestream.errors import SqlError
from icestream.lake import changes, small
from icestream.lake.catalogs import Lake
from icestream.lake.fold import DELETE, OFFSET, OP
from icestream.lake.log import EpochLog
from icestream.lake.stamp import ObjectAt
from icestream.lake.table import EMPTY, LakeTable, Snapshot
from icestream.runtime.query import values_of
from icestream.runtime.spool import collect

INSERT, REMOVE, UPDATE_INSERT, UPDATE_DELETE = "Insert", "Delete", "UpdateInsert", "UpdateDelete"
Stored = Table | MaterializedView


@dataclass(frozen=True)
class Change:
    """A row that came, or went. An update is two of them, one after the other."""

    op: str
    values: tuple[Any, ...]
    epoch: int
    time: int | None
    """When its epoch was, in milliseconds since 1970; None for a row that was there before."""
    position: int
    """The snapshot at which all of its epoch is in."""


@dataclass(frozen=True)
class _Step:
    """What one epoch did to the table, between two snapshots; from None: all that is there."""

    start: int | None
    end: int
    epoch: int
    time: int | None


class Follower:
    """Follows the changes of one object. `at` is the snapshot it has seen all of; None: not even the rows that are there."""

    def __init__(
        self, object: Stored, spark: SparkSession, scratch: Path, at: int | None = None
    ) -> None:
        self.object = object
        self.at = at
        self._scratch = scratch
        self._lake = Lake(spark)
        self._log = EpochLog.of(self._lake)
        self._whole: ObjectAt | None = None

    def changes(self) -> Generator[Change]:
        """All up to the newest complete epoch."""
        whole = None if self.at is not None else self._whole or self._newest()
        if whole is not None and whole.snapshot is not None:
            yield from self._rows(_Step(None, whole.snapshot, whole.epoch, None))
            self.at = whole.snapshot
        for step in self._steps():
            yield from self._rows(step)
            self.at = step.end

    def pin(self) -> None:
        """Begin with the rows that are there now."""
        self._whole = self._newest()

    def now(self) -> int:
        """The position after everything that is there."""
        found = self._newest()
        return EMPTY if found is None or found.snapshot is None else found.snapshot

    def since(self, moment: int, *, or_oldest: bool = False) -> int:
        """The position after all epochs up to a moment (in milliseconds since 1970); an error if it is gone.

        `or_oldest`: the oldest one that is kept instead.
        """
        found = self._newest()
        if found is None or found.snapshot is None:
            return EMPTY
        oldest = EMPTY
        for snapshot in self._chain(found):
            stamp = snapshot.stamp
            if snapshot.parent is None or (stamp and stamp.time // 1000 <= moment):
                return snapshot.id if stamp and stamp.time // 1000 <= moment else EMPTY
            oldest = snapshot.id
        if or_oldest:
            return oldest
        raise self._gone(f"at {moment}")

    def _newest(self) -> ObjectAt | None:
        record = self._log.newest()
        return None if record is None else record.objects.get(self.object.key)

    def _steps(self) -> list[_Step]:
        found = self._newest()
        if found is None or found.snapshot is None or self.at in (None, found.snapshot):
            return []
        passed: list[Snapshot] = []
        for snapshot in self._chain(found):
            if snapshot.id == self.at:
                break
            passed.append(snapshot)
        else:
            if self.at != EMPTY or passed[-1].parent is not None:
                raise self._gone(f"snapshot {self.at}")
        steps: list[_Step] = []
        start = None if self.at == EMPTY else self.at
        for snapshot in reversed(passed):
            stamp = snapshot.stamp
            if stamp is not None and not stamp.fence:
                steps.append(_Step(start, snapshot.id, stamp.epoch, stamp.time // 1000))
                start = snapshot.id
        if not steps:
            self.at = found.snapshot
        return steps

    def _table(self, at: ObjectAt) -> LakeTable:
        assert at.table is not None
        return self._lake.table(*at.table.split(".", 2), owned=True)

    def _chain(self, at: ObjectAt) -> Iterator[Snapshot]:
        """The snapshots from the newest complete one back, up to where one is no longer kept."""
        parent: int | None = at.snapshot
        for snapshot in self._table(at).ancestry():
            if snapshot.id == parent:
                yield snapshot
                parent = snapshot.parent
            elif parent != at.snapshot:
                return

    def _gone(self, what: str) -> SqlError:
        return SqlError(
            f"the changes of {self.object.name} since {what} are no longer kept",
            remedy="begin anew with FULL, or give the subscription a longer retention",
        )

    # -- rows ------------------------------------------------------------------------------------

    def _rows(self, step: _Step) -> Iterator[Change]:
        names = [c.name for c in self.object.columns]
        key = _key(self.object)
        told = None if key is None else [names.index(k) for k in key if k in names]
        paired = told if key is not None and len(told or ()) == len(key) else None
        before: tuple[int, Change] | None = None
        for op, offset, values in self._sorted(step, names, [] if paired is None else key or ()):
            kind = REMOVE if op == DELETE else INSERT
            change = Change(kind, values, step.epoch, step.time, step.end)
            if before is not None:
                old, before = before, None
                if op == DELETE or old[0] != offset or not _same(old[1], change, paired):
                    yield old[1]
                else:
                    if old[1].values != values:
                        yield replace(old[1], op=UPDATE_DELETE)
                        yield replace(change, op=UPDATE_INSERT)
                    continue
            if op == DELETE and paired is not None:
                before = offset, change
            else:
                yield change
        if before is not None:
            yield before[1]

    def _sorted(
        self, step: _Step, names: Sequence[str], key: Sequence[str]
    ) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        """The changes of a step: those of a key one after the other, what went before what came."""
        at = self._newest()
        assert at is not None
        table = self._table(at)
        order = [OFFSET, *key, OP]
        with ExitStack() as held:
            few = _few(table, step, order)
            if few is None:
                frame = changes.delta(table, step.start, step.end, held).orderBy(*order)
                spool = held.enter_context(closing(collect(frame, self._scratch)))
            types = [c.type for c in self.object.columns]
            for batch in few.to_batches() if few is not None else spool.batches():
                columns = [values_of(batch[n], t) for n, t in zip(names, types, strict=True)]
                marks = batch[OP].to_pylist(), batch[OFFSET].to_pylist()
                yield from zip(*marks, zip(*columns, strict=True), strict=True)


def _few(table: LakeTable, step: _Step, order: Sequence[str]) -> pa.Table | None:
    """The changes of a step, read by the driver itself; None: that is for Spark to do."""
    if step.start is None:
        return None
    schema = small.can_write(table, table.holding(step.end))
    found = None if schema is None else changes.few(table, step.start, step.end, schema, {})
    return None if found is None else found.sort_by([(name, "ascending") for name in order])


def _key(object: Stored) -> tuple[str, ...] | None:
    """The columns that tell an object's rows apart; None if rows may be alike."""
    if isinstance(object, Table):
        return object.primary_key or None
    key = object.stages[-1].key
    return None if key is None else tuple(key)


def _same(old: Change, new: Change, key: Sequence[int] | None) -> bool:
    return key is not None and all(old.values[k] == new.values[k] for k in key)
