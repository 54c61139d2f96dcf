from __future__ import annotations

import threading

import pytest

from icestream.runtime.background import Background


def test_it_runs_until_it_is_told_to_stop() -> None:
    ran = threading.Event()

    def run(stop: threading.Event) -> None:
        ran.set()
        stop.wait(30)

    loop = Background(run)
    loop.start()
    loop.start()
    assert ran.wait(10)
    loop.check()
    loop.stop()
    assert loop.stopping
    loop.check()


def test_what_ends_it_is_raised_by_who_asks_next() -> None:
    told: list[BaseException] = []
    over = threading.Event()

    def run(stop: threading.Event) -> None:
        raise ValueError("no")

    def ended(error: BaseException) -> None:
        told.append(error)
        over.set()

    loop = Background(run, ended)
    loop.start()
    assert over.wait(10)
    with pytest.raises(ValueError, match="no"):
        loop.check()
    assert told == [loop.failed]
    loop.stop()


def test_one_that_was_never_started_can_be_stopped() -> None:
    Background(lambda stop: None).stop()
