"""Sources that fail, hang and come back, without Spark: they delay nobody else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from icestream.errors import ConnectorError, FencedError, RangeLostError
from icestream.lake.position import Offset
from icestream.runtime import failures, source_monitor
from icestream.runtime.failures import describe_error, retry_delay
from icestream.runtime.source_monitor import SourceMonitor
from tests.engine import await_condition


class Answers:
    """A source that answers as it is told."""

    def __init__(self, answer: Callable[[], int], *, is_local: bool = False) -> None:
        self.answer = answer
        self.is_local = is_local
        self.asked = 0

    def latest(self, since: Offset) -> Offset:
        self.asked += 1
        return {"n": self.answer()}


def fail(error: Exception) -> Callable[[], int]:
    def answer() -> int:
        raise error

    return answer


SINCE = {"good#1": {"n": 0}, "bad#2": {"n": 0}}


@pytest.fixture
def monitor(monkeypatch: pytest.MonkeyPatch) -> Iterator[SourceMonitor]:
    monkeypatch.setattr(failures, "FIRST_RETRY", 0.05)
    monkeypatch.setattr(failures, "LAST_RETRY", 0.1)
    made = SourceMonitor()
    yield made
    made.close()


def test_a_source_that_fails_is_left_out_and_comes_back(monitor: SourceMonitor) -> None:
    told: list[str] = []
    monitor.notice = told.append
    good, bad = Answers(lambda: 1), Answers(fail(ConnectorError("no broker", remedy="look")))
    sources = {"good#1": good, "bad#2": bad}
    assert monitor.poll(sources, SINCE) == {"good#1": {"n": 1}}
    began = monitor["bad#2"].since
    assert str(monitor["bad#2"]) == "no broker (hint: look)"
    asked = bad.asked

    def asks_again() -> bool:
        monitor.poll(sources, SINCE)
        return bad.asked >= asked + 3

    await_condition(asks_again, "it is asked again and again", 10)
    assert monitor["bad#2"].since == began
    assert monitor["bad#2"].attempts >= 3
    bad.answer = lambda: 7
    await_condition(
        lambda: monitor.poll(sources, SINCE).get("bad#2") == {"n": 7}, "it comes back", 10
    )
    assert not monitor
    assert told == ["bad: no broker; it is tried again, others go on", "bad is back"]


def test_a_source_that_hangs_delays_others_once_and_is_shown(
    monitor: SourceMonitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_monitor, "SLOW", 0.0)
    hangs = threading.Event()

    def wait() -> int:
        assert hangs.wait(30)
        return 3

    sources = {"good#1": Answers(lambda: 1), "bad#2": Answers(wait)}
    assert monitor.poll(sources, SINCE, patience=0.05) == {"good#1": {"n": 1}}
    assert "has not answered" in monitor["bad#2"].message
    began = time.monotonic()
    for _ in range(20):
        assert monitor.poll(sources, SINCE, patience=5) == {"good#1": {"n": 1}}
    assert time.monotonic() - began < 4  # nobody waits for it any more
    hangs.set()
    await_condition(lambda: "bad#2" in monitor.poll(sources, SINCE), "it comes back", 10)
    assert not monitor


def test_answers_that_were_awaited_stay_for_the_next_poll(monitor: SourceMonitor) -> None:
    release = threading.Event()
    sources = {"good#1": Answers(lambda: 1), "bad#2": Answers(lambda: 1 + release.wait(30))}
    assert monitor.poll(sources, SINCE, patience=0.2) == {"good#1": {"n": 1}}
    began = time.monotonic()
    monitor.await_answers(["bad#2", "gone#3"], began + 0.2)
    assert 0.15 < time.monotonic() - began < 5
    threading.Timer(0.1, release.set).start()
    monitor.await_answers(["bad#2"], time.monotonic() + 30)
    assert time.monotonic() - began < 10
    assert monitor.poll(sources, SINCE, patience=0.0)["bad#2"] == {"n": 2}
    assert sources["bad#2"].asked == 1


def test_an_answer_for_an_older_position_is_not_used(monitor: SourceMonitor) -> None:
    release = threading.Event()
    source = Answers(lambda: int(release.wait(30)))
    assert monitor.poll({"bad#2": source}, SINCE, patience=0.0) == {}
    moved = {"bad#2": {"n": 5}}
    release.set()
    await_condition(
        lambda: monitor.poll({"bad#2": source}, moved) == {"bad#2": {"n": 1}}, "asked anew", 10
    )
    assert source.asked == 2


def test_a_range_that_cannot_be_read_fails_until_one_was_read(monitor: SourceMonitor) -> None:
    sources = {"bad#2": Answers(lambda: 9)}
    monitor.poll(sources, SINCE)
    monitor.fail("bad#2", RangeLostError("a file is gone"), reading=True)
    assert monitor["bad#2"].lost
    await_condition(lambda: bool(monitor.poll(sources, SINCE)), "it may be tried again", 10)
    assert "bad#2" in monitor  # it answers, which proves nothing
    monitor.fail("bad#2", RangeLostError("a file is gone"), reading=True)
    assert monitor["bad#2"].attempts == 2
    monitor.recover(["bad#2"])
    assert not monitor


def test_a_successor_is_no_failure_of_a_source(monitor: SourceMonitor) -> None:
    with pytest.raises(FencedError):
        monitor.poll({"bad#2": Answers(fail(FencedError("gone")), is_local=True)}, SINCE)


def test_errors_of_workers_are_recognized() -> None:
    text = (
        "An exception was thrown from the Python worker.\nTraceback (most recent call last):\n"
        '  File "files_identity.py", line 79\n'
        "icestream.errors.RangeLostError: source s: file a is gone, before it was read\n  hint: x"
    )
    found = describe_error(RuntimeError(text))
    assert (found.message, found.lost) == ("source s: file a is gone, before it was read", True)
    assert describe_error(OSError(28, "No space left")).message == "[Errno 28] No space left"


def test_backoff_grows_with_jitter_and_is_bounded() -> None:
    delays = [retry_delay(n, 0.5, 30.0) for n in range(40)]
    assert 0.3 < delays[0] < 0.7
    assert all(22 < d < 38 for d in delays[8:])
    assert len(set(delays)) == 40
