"""Runs epochs for the loop and for statements, and tells of them: in the status file, and to whoever waits for one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from icestream import interrupts
from icestream.catalog.catalog import Catalog
from icestream.engine.home_resources import HomeResources
from icestream.errors import FencedError
from icestream.home_log import log_failure
from icestream.observe import status as observe
from icestream.observe.report import EpochReport
from icestream.runtime.writes import PAUSED

if TYPE_CHECKING:
    from icestream.runtime.pipeline import Pipeline

_LOG = logging.getLogger(__name__)


class EpochService:
    """The epochs of a home."""

    def __init__(
        self, resources: HomeResources, fallbacks: Callable[[], list[observe.FallbackStatus]]
    ) -> None:
        self._resources = resources
        self._fallbacks = fallbacks
        self.turns = resources.turns
        self.advanced = threading.Condition()
        """Told after every epoch."""
        self._runs = 0
        self._telling = threading.Lock()

    @property
    def catalog(self) -> Catalog:
        """All objects."""
        return self._resources.catalog

    @property
    def opened(self) -> Pipeline | None:
        """The pipeline, if it is open."""
        return self._resources.opened

    def run(
        self, stop: threading.Event, *, once: bool, report: Callable[[EpochReport], None]
    ) -> None:
        """Advance the pipeline until `stop` is set, or until everything that is there now is in.

        A server goes on whatever fails, but for a successor that took over, so that queries are answered.
        """
        resources = self._resources
        pipeline = resources.pipeline
        if once and pipeline.state.paused:
            resources.notice(PAUSED)
            return

        def after(epoch: EpochReport) -> None:
            self.after_epoch(epoch)
            try_telling(lambda: report(epoch))

        self.write_status("running")
        self._runs += 1
        try:
            pipeline.run(
                stop,
                once=once,
                strict=not resources.live,
                keep_going=resources.live,
                report=after,
                changed=lambda: self.write_status("running"),
                turn=self.turns,
            )
        except (FencedError, interrupts.StatementCancelledError):
            raise  # the status is the successor's now, or that of the pipeline that goes on
        except BaseException as error:
            from icestream.runtime.failures import describe_error

            log_failure(_LOG, "the pipeline has failed", level=logging.ERROR)
            self.write_status("failed", message=describe_error(error).message)
            raise
        finally:
            self._runs -= 1
        if not self._runs:
            self.write_status("stopped")

    def take_in_all(self) -> None:
        """Run epochs until everything that is there now is in, or the statement is cancelled."""
        interrupt = interrupts.current()
        stop = threading.Event()
        with interrupt.waiting("IPC", "Flush"), interrupt.on_cancel(stop.set):
            self.run(stop, once=True, report=lambda report: None)
        interrupt.check()

    def flush(self) -> None:
        """Take in all statements, and what sources have now, up to an epoch's worth."""
        pipeline = self._resources.pipeline
        if pipeline.state.paused:
            self._resources.notice(PAUSED)
            return
        with interrupts.current().waiting("IPC", "Flush"):
            pipeline.flush(self.after_epoch, self.turns)

    def pause(self, paused: bool) -> None:
        """Take nothing in, or go on."""
        self._resources.own()
        self._resources.store.pause(paused)
        if self.opened is not None:
            self.opened.state.paused = paused
            self.write_status("running" if self._runs else "stopped")

    def after_epoch(self, report: EpochReport) -> None:
        """Tell of an epoch: in the status, and to whoever waits for one."""
        _LOG.debug("epoch %d took %.3f s", report.epoch, report.seconds)
        self.write_status("running", report)
        with self.advanced:
            self.advanced.notify_all()

    def write_status(
        self, state: str, epoch: EpochReport | None = None, message: str | None = None
    ) -> None:
        """Write the status file. That it cannot be written is only told."""
        from icestream.runtime.snapshot import status_of

        pipeline = self.opened
        assert pipeline is not None
        if state == "running" and pipeline.state.paused:
            state = "paused"
        try:
            with self._telling:
                status = status_of(pipeline, state, epoch, message)
                status.fallbacks = self._fallbacks()
                observe.write(self._resources.home, status)
        except Exception as error:  # a full disk, above all: it must not stop the pipeline
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            log_failure(_LOG, "the status cannot be written")
            self._resources.notice(f"the status cannot be written: {reason}")


def try_telling(tell: Callable[[], None]) -> None:
    """Tell somebody something. The disk that it is printed to may be full: that stops nothing. That nobody reads it any more
    is for the caller."""
    try:
        tell()
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        _LOG.warning("a message could not be printed: %s", error)
