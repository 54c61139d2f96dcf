"""Watches the JVM: one that no longer answers, or has lost track of a job, is ended, so that nobody waits for it for ever.

A JVM that runs out of memory may live on and do nothing: without the thread that accepts connections, or with a scheduler
that has lost a message. `JvmGuard.java` ends it where it notices that itself; this is for the rest. The pipeline's loop finds
that the JVM has ended, and the process ends with an error, so that its supervisor starts it again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from pyspark.sql import SparkSession

from icestream.home_log import log_failure
from icestream.lake.jvm import end_jvm, is_jvm_lost, is_stopped, memory_guard

_LOG = logging.getLogger(__name__)

PERIOD = 5.0
"""Seconds between two questions."""
PATIENCE = 60.0
"""Seconds without an answer, or with a job that nobody works on, after which the JVM is ended."""
TICK = 1.0
"""Seconds between two looks at the answer."""

NO_ANSWER = "it has not answered"
IDLE_JOB = "no thread has worked on a job that somebody waits for"
STOPPED = "its Spark session has been stopped"

Probe = Callable[[], str | None]
"""Asks the JVM: None if all is well, or what is wrong with it. It may raise, and it may never return."""


def install_guard(spark: SparkSession) -> None:
    """Let the JVM end itself if a thread ends for lack of memory. Without the engine's jar it does not."""
    guard = memory_guard(spark)
    if guard is not None:
        guard.install()


class Symptoms:
    """What is wrong with a JVM, and for how long.

    Time is counted in steps of at most two ticks: a process that was suspended does not blame the JVM for it.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.what: str | None = None
        """What is wrong at the moment."""
        self._seconds = 0.0

    def note(self, what: str | None, seconds: float) -> str | None:
        """Note what is wrong now; gives the reason to end the JVM once something has been wrong for too long."""
        self.what = what
        self._seconds = 0.0 if what is None else self._seconds + min(seconds, 2 * TICK)
        return f"{what} for {self.patience:.0f} s" if self._seconds > self.patience else None


class JvmWatchdog:
    """A thread that asks the JVM every few seconds whether it is well."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        period: float = PERIOD,
        patience: float = PATIENCE,
        probe: Probe | None = None,
    ) -> None:
        self._spark = spark
        self._period = period
        self._symptoms = Symptoms(patience)
        self._probe = probe or (lambda: find_symptom(spark))
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="icestream-jvm-watchdog", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop watching. Called before the session is stopped."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        question = _Question(self._probe)
        looked = time.monotonic()
        while not self._stop.wait(TICK) and not is_jvm_lost(self._spark):
            now = time.monotonic()
            what = question.answer if question.done.is_set() else self._symptoms.what or NO_ANSWER
            reason = self._symptoms.note(what, now - looked)
            looked = now
            if reason is not None:
                end_jvm(self._spark, reason)
                return
            if question.done.is_set() and now - question.asked >= self._period:
                question = _Question(self._probe)


class _Question:
    """A probe in a thread of its own: that opens a connection of its own, and it may hang."""

    def __init__(self, probe: Probe) -> None:
        self.asked = time.monotonic()
        self.answer: str | None = None
        self.done = threading.Event()
        self._probe = probe
        threading.Thread(target=self._ask, name="icestream-jvm-probe", daemon=True).start()

    def _ask(self) -> None:
        try:
            self.answer = self._probe()
        except Exception:
            log_failure(_LOG, "the JVM could not be asked")
            self.answer = NO_ANSWER
        self.done.set()


def find_symptom(spark: SparkSession) -> str | None:
    """What is wrong with a JVM that answers: its session was stopped by Spark itself, or a job is not worked on."""
    if is_stopped(spark):
        return STOPPED
    guard = memory_guard(spark)
    local = spark.sparkContext.master.startswith("local")
    if local and guard is not None and guard.hasIdleJob():
        return IDLE_JOB
    return None
