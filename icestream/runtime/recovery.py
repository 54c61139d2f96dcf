"""Fences every table, and completes the epoch that was interrupted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from icestream import faults, interrupts
from icestream.errors import ConnectorError, FencedError, LakeError
from icestream.home_log import log_failure
from icestream.lake.log import EpochLog
from icestream.lake.stamp import ObjectAt, Stamp
from icestream.runtime.epoch_context import Cut
from icestream.runtime.epoch_runner import EpochRunner
from icestream.runtime.health import PipelineHealth
from icestream.runtime.open_objects import OpenObjects
from icestream.runtime.open_table import OpenTable
from icestream.runtime.pipeline_state import PipelineState, older_home

_LOG = logging.getLogger(__name__)


class Recovery:
    """The recovery of a pipeline, after a start and after an epoch that failed."""

    def __init__(
        self,
        state: PipelineState,
        open: OpenObjects,
        health: PipelineHealth,
        runner: EpochRunner,
        notice: Callable[[str], None],
        event: Callable[..., None],
    ) -> None:
        self.state = state
        self.open = open
        self.health = health
        self.runner = runner
        self.notice = notice
        self.event = event

    def settle(self) -> None:
        """Complete the epoch that was interrupted, if one was. Called before objects change, and before the next epoch."""
        if self.runner.is_interrupted:
            with interrupts.shield():
                self.recover()

    def recover(self) -> None:
        """Fence every table, then complete the epoch that was interrupted, if one was."""
        state = self.state
        state.check_owner()
        state.record = state.log.newest() or state.record
        stamps = self._fence()
        faults.reach("recovery-fenced")
        try:
            self._roll_forward(stamps)
        except FencedError:
            raise
        except Exception:
            log_failure(_LOG, "an epoch could not be completed")
            if not self.runner.find_culprits():
                raise
            self._roll_forward(self._fence())  # without what fails
        self.runner.is_interrupted = False
        self.event("RECOVERY", epoch=state.record.epoch, incarnation=state.incarnation)

    def rejoin_sinks(self) -> None:
        """Try sinks again that have failed, when it is time."""
        self.health.sinks.keep(t.key for t in self.open.plan.tasks)
        for key in self.health.sinks.due():
            table = self.open.tables().get(key)
            try:
                if table is not None and key in self.state.record.objects:
                    self._fence_table(key, table, self.state.record.objects[key])
            except FencedError:
                raise
            except Exception as error:
                self.health.sinks.fail(key, error)
            else:
                self.health.sinks.retry(key)

    def _fence(self) -> dict[str, Stamp]:
        """Fence the tables that the record knows; gives the newest stamp of each. Sinks that cannot be fenced fail."""
        stamps: dict[str, Stamp] = {}
        for key, table in self.open.tables().items():
            at = self.state.record.objects.get(key)
            if at is None or key in self.health.sinks:
                continue
            try:
                stamp = self._fence_table(key, table, at)
            except ConnectorError as error:
                task = self.open.plan.by_key.get(key)
                if task is None or not task.writes_outside:
                    raise
                self.health.sinks.fail(key, error)
                continue
            if stamp is not None:
                stamps[key] = stamp
        return stamps

    def _fence_table(self, key: str, opened: OpenTable, at: ObjectAt) -> Stamp | None:
        """Fence one table; gives its newest stamp, or None for a table that is not there yet."""
        state, table = self.state, opened.table
        if at.uuid is None and not state.lake.exists(table):
            return None  # a connector's table that it will create when there are records
        if at.uuid is not None and table.uuid() != at.uuid:
            raise LakeError(
                f"{table.name} is not the table that was written before: it was dropped and made anew",
                object=key,
                remedy="drop and create the object to start over",
            )
        try:
            stamp = opened.fence(state.make_mark(), at.snapshot, at.uuid)
        except FencedError:
            newest = EpochLog(state.log.table).newest()
            if newest is None or newest.incarnation > state.incarnation:
                raise
            raise older_home(key, "carries the mark of a later start") from None
        if at.epoch < stamp.epoch <= state.record.epoch:
            self._adopt_late_commit(key, opened, at, stamp)
        return stamp

    def _adopt_late_commit(self, key: str, table: OpenTable, at: ObjectAt, stamp: Stamp) -> None:
        """Record what a sink wrote in an epoch that was completed without it, because the answer was lost."""
        record, start = self.state.record, stamp.ranges.start
        self._check_start(key, stamp)
        if not start:
            return
        position = at.position.advance(stamp.ranges.end).behind(record.sources)
        after = replace(at, epoch=stamp.epoch, snapshot=table.head, position=position)
        self.state.record = replace(record, objects={**record.objects, key: after})

    def _check_start(self, key: str, stamp: Stamp) -> None:
        """Whether a commit began where the log says that the object stands; an error otherwise."""
        record = self.state.record
        if not record.objects[key].position.holds(stamp.ranges.start, record.sources):
            raise older_home(key, f"began its epoch {stamp.epoch} elsewhere than the log says")

    def _roll_forward(self, stamps: Mapping[str, Stamp]) -> None:
        """Complete an epoch that some tables carry and the log does not."""
        record, log = self.state.record, self.state.log
        ahead = {k: s for k, s in stamps.items() if s.epoch > record.epoch}
        if not ahead:
            return
        first = next(iter(ahead.values()))
        expected = record.epoch + 1
        logged = {i for s in log.table.ancestry() for i in (s.id, s.parent)}
        for key, stamp in ahead.items():
            if stamp.epoch != expected or stamp.cut != first.cut:
                raise older_home(
                    key,
                    f"was written up to epoch {stamp.epoch}, but the log ends at epoch {record.epoch}",
                )
            if stamp.log is not None and stamp.log not in logged:
                raise older_home(key, f"has an epoch {stamp.epoch} that another log began")
            self._check_start(key, stamp)
        self.notice(f"completing epoch {expected}, which a previous run left unfinished")
        known = record.objects.keys() - self.health.sinks.active()
        due = frozenset(t.key for t in self.open.plan.tasks if t.key in known)
        held = frozenset(self.health.sources)
        self.runner.run(Cut(expected, first.time, first.cut, due, held=held), ahead)
