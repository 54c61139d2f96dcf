"""Statements that take long: views being filled over history, one after the other, while the pipeline goes on."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from icestream.catalog.catalog import Change
from icestream.errors import IcestreamError, SqlError
from icestream.sql.masking import mask_text

if TYPE_CHECKING:
    from icestream.engine import Engine
    from icestream.runtime.backfill import Backfill


@dataclass
class Job:
    """One statement under way. Its id is that of the object it makes."""

    change: Change
    background: bool
    """Whether nobody waits for it: then it is taken up again after a restart."""
    created: float = field(default_factory=time.time)
    cancelled: bool = False
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)
    backfill: Backfill | None = None

    @property
    def id(self) -> int:
        """What CANCEL JOBS names."""
        return self.change.object.id

    @property
    def statement(self) -> str:
        """The statement, as it may be shown."""
        return mask_text(self.change.statement.text)

    @property
    def progress(self) -> str:
        """How far it is."""
        return "0.00%" if self.backfill is None else str(self.backfill.progress)

    def cancel(self) -> None:
        """Make it end soon, as if it had never begun."""
        self.cancelled = True
        if self.backfill is not None:
            self.backfill.stop()

    def wait(self) -> None:
        """Return when it is done; raise if it failed or was cancelled."""
        self.done.wait()
        if self.error is not None:
            raise self.error


class Jobs:
    """The jobs of a running engine; they wait for each other, and for their turn to begin and to end."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._jobs: dict[int, Job] = {}
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._worker: threading.Thread | None = None
        self._closing = False

    def __iter__(self) -> Iterator[Job]:
        return iter(sorted(self._jobs.values(), key=lambda job: job.id))

    def submit(self, change: Change, *, background: bool) -> Job:
        """Begin with a statement as soon as those before it are done. Called in turn."""
        job = Job(change, background)
        self.engine.catalog.reserve(change.object)
        if background:
            self.engine.store.begin_job(job.id, change.statement.text, job.created)
        self._jobs[job.id] = job
        self._queue.put(job)
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="icestream-jobs", daemon=True)
            self._worker.start()
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
        """Stop what is under way; what runs in the background begins anew at the next start."""
        self._closing = True
        for job in self:
            job.cancel()
        if self._worker is not None:
            self._queue.put(None)
            self._worker.join()

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            try:
                self._carry_out(job)
            except BaseException as error:
                job.error = _cancelled(job) if job.cancelled else error
                if job.background and not job.cancelled:
                    self.engine.notice(f"job {job.id} failed: {error}")
            finally:
                self._end(job)

    def _carry_out(self, job: Job) -> None:
        from icestream.runtime.backfill import Backfill

        engine = self.engine
        if job.cancelled:
            raise _cancelled(job)
        with engine.turns:
            pipeline = engine.pipeline
            fill = Backfill(pipeline, list(engine.catalog), job.change.object)
            pipeline.housekeeper.pinned = fill.pinned
        job.backfill = fill
        try:
            if job.cancelled:
                raise _cancelled(job)
            ready = fill.run()
            with engine.turns:
                if job.cancelled:
                    raise _cancelled(job)
                engine.adopt(job.change, ready)
        except BaseException:
            with engine.turns:
                fill.discard()
            raise
        fill.close()

    def _end(self, job: Job) -> None:
        engine = self.engine
        with engine.turns:
            engine.pipeline.housekeeper.pinned = set()
            engine.catalog.release(job.change.object)
            if job.background and not self._closing:
                engine.store.end_job(job.id)
            del self._jobs[job.id]
        job.done.set()


def _cancelled(job: Job) -> IcestreamError:
    return SqlError(
        f"job {job.id} was cancelled: {job.change.object.kind} {job.change.object.name}"
    )
