"""The watchdog of the JVM, against a process that stands for one."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from icestream.errors import JvmLostError
from icestream.lake.jvm import check_jvm
from icestream.runtime import jvm_watchdog
from icestream.runtime.jvm_watchdog import IDLE_JOB, NO_ANSWER, JvmWatchdog, Symptoms


class Session:
    """As much of a Spark session as says which process the JVM is."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        self.proc = subprocess.Popen(command)
        self.sparkContext = self
        self._gateway = self


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(jvm_watchdog, "TICK", 0.02)
    made = Session()
    yield made
    made.proc.kill()
    made.proc.wait()


def watch(session: Any, probe: jvm_watchdog.Probe) -> JvmWatchdog:
    return JvmWatchdog(session, period=0.05, patience=0.4, probe=probe)


def test_a_jvm_that_never_answers_is_ended(session: Any) -> None:
    never = threading.Event()

    def hang() -> None:
        never.wait()

    watch(session, hang)
    session.proc.wait(20)
    with pytest.raises(JvmLostError, match=f"has ended .{NO_ANSWER} for 0 s"):
        check_jvm(session)
    never.set()


def test_a_jvm_that_refuses_connections_is_ended(session: Any) -> None:
    def refuse() -> None:
        raise ConnectionRefusedError

    watch(session, refuse)
    session.proc.wait(20)
    with pytest.raises(JvmLostError, match=NO_ANSWER):
        check_jvm(session)


def test_a_jvm_that_has_lost_a_job_is_ended(session: Any) -> None:
    watch(session, lambda: IDLE_JOB)
    session.proc.wait(20)
    with pytest.raises(JvmLostError, match=IDLE_JOB):
        check_jvm(session)


def test_a_jvm_that_is_well_now_and_then_lives(session: Any) -> None:
    asked = threading.Event()
    answers = iter([IDLE_JOB, None] * 12)

    def probe() -> str | None:
        answer = next(answers, None)
        if answer is None:
            asked.set()
        return answer

    watchdog = watch(session, probe)
    assert asked.wait(20)
    with pytest.raises(subprocess.TimeoutExpired):
        session.proc.wait(1.5)
    watchdog.stop()
    check_jvm(session)


def test_the_time_for_which_this_process_was_suspended_does_not_count() -> None:
    symptoms = Symptoms(60)
    for seconds in (1.0, 7200.0, 1.0):
        assert symptoms.note(NO_ANSWER, seconds) is None
    assert symptoms.note(None, 1.0) is None
    for _ in range(60):
        assert symptoms.note(NO_ANSWER, 1.0) is None
    assert symptoms.note(NO_ANSWER, 1.0) == f"{NO_ANSWER} for 60 s"


@pytest.mark.parametrize("code", [3, 52])
def test_an_exit_code_that_means_no_memory_is_told(session: Any, code: int) -> None:
    session.proc.kill()
    session.proc.wait()
    session.proc = subprocess.Popen([sys.executable, "-c", f"raise SystemExit({code})"])
    session.proc.wait()
    with pytest.raises(JvmLostError, match=f"exit code {code}: it ran out of memory"):
        check_jvm(session)
