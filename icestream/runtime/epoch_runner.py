"""Runs epochs one by one, acknowledges them to the sources, and finds whose fault a failed one was."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from icestream.home_log import log_failure
from icestream.identity import object_name
from icestream.lake.stamp import Stamp
from icestream.observe.report import EpochReport
from icestream.runtime.cut_chooser import CutChooser
from icestream.runtime.epoch import Epoch
from icestream.runtime.epoch_context import Cut
from icestream.runtime.failures import describe_error
from icestream.runtime.health import PipelineHealth
from icestream.runtime.open_objects import OpenObjects
from icestream.runtime.pipeline_state import PipelineState

_LOG = logging.getLogger(__name__)


class EpochRunner:
    """The epochs of a pipeline."""

    def __init__(
        self,
        state: PipelineState,
        open: OpenObjects,
        health: PipelineHealth,
        chooser: CutChooser,
        notice: Callable[[str], None],
        event: Callable[..., None],
    ) -> None:
        self.state = state
        self.open = open
        self.health = health
        self.chooser = chooser
        self.notice = notice
        self.event = event
        self.is_interrupted = False
        """Whether an epoch was begun and is not complete."""
        self._failed: Epoch | None = None
        self._error_digits: dict[str, int] = {}
        """Digits of the number of failed expressions that was last reported, by object."""

    def run(self, cut: Cut, stamped: Mapping[str, Stamp] | None = None) -> EpochReport:
        """Run one epoch. `stamped`: tables that carry its stamp already."""
        began = time.monotonic()
        epoch = self._failed = Epoch(self.open, self.state.log, self.state.record, cut, stamped)
        self.is_interrupted = True
        self.chooser.note_begin(began)
        self.state.record = epoch.run()
        self.is_interrupted = False
        self._failed = None
        self.health.sources.recover(key for key, _ in epoch.reads.ranges)
        self.health.sinks.recover(key for key in self.health.sinks.retried() if key in cut.due)
        self.chooser.note_end(cut, began, epoch.report)
        self._report_errors(epoch.report)
        self._acknowledge()
        return epoch.report

    def find_culprits(self) -> bool:
        """Whether sources or sinks made the last epoch fail. They are left out of the next one."""
        epoch, self._failed = self._failed, None
        if epoch is None:
            return False
        return self.health.find_culprits(epoch, self.open)

    def _report_errors(self, report: EpochReport) -> None:
        """An event for the first failed expression of an object, the tenth, the hundredth, …"""
        for key in report.errors:
            total = self.state.record.counters[f"{key}.errors"]
            if len(str(total)) > self._error_digits.get(key, 0):
                self._error_digits[key] = len(str(total))
                name = object_name(key)
                self.event("EXPRESSION_FAIL", object=name, errors=total, epoch=report.epoch)

    def _acknowledge(self) -> None:
        """Tell each source how far it is durable in everything that reads it."""
        record = self.state.record
        for key, feed in self.open.feeds.items():
            readers = [r for r in self.open.plan.readers if key in r.feeds]
            end = record.sources[key]
            if key not in self.health.sources and all(
                r.feed_offset(record, key) == end for r in readers
            ):
                try:
                    feed.source.acknowledge(end)
                except Exception as error:
                    reason = describe_error(error).message
                    log_failure(_LOG, "acknowledging to %s failed", feed.object.name)
                    self.notice(f"{feed.object.name}: acknowledging failed: {reason}")
