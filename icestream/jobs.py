"""Statements that take long: views being filled over history, one after the other, while the pipeline goes on."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from icestream import faults, interrupts
from icestream.catalog.catalog import Catalog, Change
from icestream.catalog.objects import MaterializedView, Object
from icestream.catalog.replace import check_replaceable, swapped
from icestream.catalog.store import Store
from icestream.errors import FencedError, SqlError
from icestream.home_log import log_failure
from icestream.identity import object_names
from icestream.interrupts import Interrupt, StatementCancelledError
from icestream.observe.events import Events
from icestream.runtime.turns import Turns
from icestream.sql.masking import mask_text

if TYPE_CHECKING:
    from icestream.runtime.backfill import Backfill
    from icestream.runtime.object_set import Ready
    from icestream.runtime.pipeline import Pipeline


_LOG = logging.getLogger(__name__)

LARGE_RECORDS = "LargeRecordsException"
"""What an error says that `CheckSize.java` has raised."""

AGAIN = 0.2
"""Seconds after which a job that does not end is cancelled again."""


PATIENCE = 10.0
"""Seconds in which jobs should end when the engine stops."""
FIRST_WAIT, LONGEST_WAIT = 2.0, 60.0
"""Seconds before the first and, at most, before every later retry of a job."""


class Host(Protocol):
    """The engine, as jobs see it."""

    store: Store
    catalog: Catalog
    turns: Turns
    events: Events

    @property
    def notice(self) -> Callable[[str], None]:
        """Where to tell what nobody waits for."""

    @property
    def pipeline(self) -> Pipeline:
        """The open pipeline."""


@dataclass
class Job:
    """One statement under way. Its id is that of the object it makes."""

    change: Change
    background: bool
    """Whether nobody waits for it: then it is taken up again after a restart."""
    interrupt: Interrupt = field(default_factory=Interrupt)
    """That of the statement, if it waits: cancelling one cancels the other."""
    created: float = field(default_factory=time.time)
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)
    backfill: Backfill | None = None
    adopted: bool = False
    """Whether the store has it: from then on it is there, whatever happens."""
    failures: int = 0
    """How often it has failed for a reason that may pass."""
    trouble: str = ""
    """That reason."""
    large_records: bool = False
    """Whether a source that it reads has large records."""
    not_before: float = 0.0
    """When it may be tried again."""
    left: bool = False
    """Whether this process has lost its JVM or its home, so that the next one takes it up."""

    @property
    def id(self) -> int:
        """What CANCEL JOBS names."""
        return self.change.object.id

    @property
    def statement(self) -> str:
        """The statement, as it may be shown."""
        return mask_text(self.change.said)

    @property
    def progress(self) -> str:
        """How far it is."""
        progress = "0.00%" if self.backfill is None else str(self.backfill.progress)
        if not self.failures:
            return progress
        return f"{progress}, failed {self.failures} times: {self.trouble}"

    def cancel(self) -> None:
        """Make it end soon, as if it had never begun; nothing happens once it is adopted."""
        self.interrupt.cancel(f"job {self.id} was cancelled: {self.statement.splitlines()[0]}")

    def wait(self) -> None:
        """Return when it is done; raise if it failed or was cancelled."""
        with self.interrupt.waiting("IPC", "Backfill"):
            self.done.wait()
        if isinstance(self.error, StatementCancelledError):
            raise SqlError(self.error.reason, code="57014")
        if self.error is not None:
            raise self.error


class Jobs:
    """The jobs of an engine; they wait for each other, and for their turn to begin and to end."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._jobs: dict[int, Job] = {}
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._worker: threading.Thread | None = None
        self._closing = False

    def __iter__(self) -> Iterator[Job]:
        return iter(sorted(self._jobs.values(), key=lambda job: job.id))

    def submit(self, change: Change, *, background: bool) -> Job:
        """Begin with a statement as soon as those before it are done. Called in turn."""
        if self._closing:
            raise SqlError("the engine stops", remedy="try again when it runs")
        if background:
            self.host.store.begin_job(change.object.id, change.said, time.time())
        job = self._accepted(change, background)
        self._queue.put(job)
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="icestream-jobs", daemon=True)
            self._worker.start()
        return job

    def do(self, change: Change) -> None:
        """Carry a statement out here and now."""
        job = self._accepted(change, background=False)
        while not self._carried(job):
            pass
        job.wait()

    def _accepted(self, change: Change, background: bool) -> Job:
        interrupt = Interrupt() if background else interrupts.current()
        job = self._jobs[change.object.id] = Job(change, background, interrupt)
        self.host.catalog.reserve(change.object)
        return job

    def cancel(self, ids: Sequence[int]) -> list[Job]:
        """Cancel jobs; those that there are."""
        found = [self._jobs[id] for id in ids if id in self._jobs]
        for job in found:
            job.cancel()
        return found

    def over(self, keys: set[str]) -> list[Job]:
        """The jobs whose object reads one of these."""
        return [job for job in self if keys & set(job.change.object.depends)]

    def close(self) -> None:
        """Stop what is under way; what runs in the background begins anew at the next start.

        A job that does not stop in time, because Spark does not return, is left: it was cancelled, so it makes no change
        any more, and the next start sweeps what it leaves.
        """
        self._closing = True
        end = time.monotonic() + PATIENCE
        if self._worker is not None:
            self._queue.put(None)
        while True:
            for job in self:
                job.cancel()
            if self._worker is None or not self._worker.is_alive() or time.monotonic() > end:
                break
            self._worker.join(AGAIN)
        for job in self:
            job.done.set()

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            try:
                if time.monotonic() < job.not_before and not job.interrupt.cancelled:
                    time.sleep(AGAIN)
                elif self._carried(job):
                    continue
                self._queue.put(job)
            except Exception:
                _LOG.exception("job %s could not be ended", job.id)

    def _carried(self, job: Job) -> bool:
        """Carry a job out, or find that it fails for good. False: it is to be tried again."""
        try:
            with job.interrupt.bound():
                try:
                    self._carry_out(job)
                except Exception as error:
                    interrupts.check()  # then that is what it failed for
                    if self._postpone(job, error):
                        log_failure(_LOG, "job %d failed and is tried again", job.id)
                        return False
                    raise
        except BaseException as error:
            job.error = error
        try:
            self._tell_failure(job)
        finally:
            with interrupts.shield():
                self._end(job)
        return True

    def _tell_failure(self, job: Job) -> None:
        if (
            job.error is None
            or not job.background
            or isinstance(job.error, StatementCancelledError)
        ):
            return
        log_failure(_LOG, "job %d failed", job.id, error=job.error)
        self.host.notice(f"job {job.id} failed: {job.error}")
        reason = str(job.error).partition("\n")[0]
        self.host.events.add("CREATE_STREAM_JOB_FAIL", definition=job.statement, error=reason)

    def _postpone(self, job: Job, error: Exception) -> bool:
        """Whether a job that has failed is tried again: one that was acknowledged, after what may pass."""
        from icestream.lake.jvm import is_jvm_lost
        from icestream.runtime.failures import describe_error, may_pass, retry_delay

        job.left = isinstance(error, FencedError) or is_jvm_lost(self.host.pipeline.lake.spark)
        if job.adopted or job.left:
            return False
        if LARGE_RECORDS in str(error) and not job.large_records:
            job.large_records = True
            return True
        if not job.background or not may_pass(error):
            return False
        job.interrupt.reopen()
        wait = retry_delay(job.failures, FIRST_WAIT, LONGEST_WAIT)
        job.failures += 1
        job.not_before = time.monotonic() + wait
        job.backfill = None
        job.trouble = describe_error(error).message
        self.host.notice(f"job {job.id} failed: {job.trouble}; it is tried again in {wait:.0f} s")
        return True

    def _carry_out(self, job: Job) -> None:
        from icestream.runtime.backfill import Backfill

        interrupts.check()
        host, new = self.host, job.change.object
        answers = host.pipeline.ask_new([*host.catalog, new])
        with host.turns, host.pipeline.answers.using(answers):
            self._check_inputs(new)
            if not self.has_history(new):
                self._adopt(job, None)
                return
            with interrupts.shield():
                fill = Backfill(host.pipeline, list(host.catalog), new, job.large_records)
            host.pipeline.housekeeper.pinned = fill.pinned
        job.backfill = fill
        try:
            with job.interrupt.on_cancel(fill.stop):
                ready = fill.run()
            with host.turns:
                self._adopt(job, ready)
        except BaseException:
            if job.adopted:
                raise
            with interrupts.shield(), host.turns:
                fill.discard()
            raise
        fill.close()

    def _end(self, job: Job) -> None:
        try:
            with self.host.turns:
                del self._jobs[job.id]
                self._release(job)
        finally:
            job.done.set()

    def _release(self, job: Job) -> None:
        """Forget that it is under way. May be repeated."""
        host = self.host
        host.pipeline.housekeeper.pinned = set()
        host.catalog.release(job.change.object)
        if job.background and (job.adopted or not (self._closing or job.left)):
            with suppress(FencedError):  # then it is the successor's
                host.store.end_job(job.id)

    def has_history(self, object: Object) -> bool:
        """Whether a new object begins with what is there already; else it begins with the next epoch."""
        if not isinstance(object, MaterializedView):
            return False
        from icestream.runtime.backfill import feeds_of

        known = self.host.pipeline.record.sources
        return all(key in known for key in feeds_of(list(self.host.catalog), object))

    # -- the end of a job ------------------------------------------------------------------------

    def _adopt(self, job: Job, ready: Ready | None) -> None:
        """Make an object real whose tables are filled already, in the place of another one if it is to replace it."""
        change = job.change
        host, catalog, name = self.host, self.host.catalog, change.object.name
        self._check_inputs(change.object)
        if change.replaces is not None:
            check_replaceable(change.replaces, catalog)
        catalog.learn(change)
        try:
            host.pipeline.attach(list(catalog), host.store.plan + 1, ready=ready)
            if change.replaces is None:
                catalog.keep([name])
                job.adopted = True
            else:
                self._swap(job, change.replaces)
        except BaseException:
            if not job.adopted:
                catalog.forget([name])
                with interrupts.shield():
                    host.pipeline.attach(list(catalog), host.store.plan)
            raise
        self._release(job)

    def _check_inputs(self, new: Object) -> None:
        gone = set(new.depends) - {o.key for o in self.host.catalog}
        if gone:
            raise SqlError(
                f"{object_names(gone)}, which {new.name} reads, was dropped or replaced meanwhile"
            )

    def _swap(self, job: Job, old: Object) -> None:
        """The new object gets the name of the old one, which goes: one step in the store, which the tables follow."""
        host, catalog, new = self.host, self.host.catalog, job.change.object
        after, going = swapped(catalog, new, old)
        catalog.exchange(after, new.name, going)
        job.adopted = True
        faults.reach("view-exchanged")
        host.pipeline.attach(list(catalog), host.store.plan)
        host.pipeline.discard([old])
