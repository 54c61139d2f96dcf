"""The loop of a pipeline goes on whatever fails beside its epochs. Epochs are scripted here: no JVM is needed."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JNetworkError

from icestream.config import EngineSettings, Home
from icestream.engine import Engine
from icestream.errors import FencedError, JvmLostError
from icestream.fallbacks import FallbackCounter
from icestream.lake.position import Offset
from icestream.lake.stamp import Record
from icestream.observe import status as observe
from icestream.observe.report import EpochReport
from icestream.runtime import snapshot
from icestream.runtime.failures import describe_error
from icestream.runtime.health import PipelineHealth
from icestream.runtime.pipeline_loop import PipelineLoop

ENDED = [sys.executable, "-c", "raise SystemExit(52)"]


class Unprintable(Exception):
    """An error whose text is in a JVM that is gone."""

    def __str__(self) -> str:
        raise Py4JNetworkError("the connection is closed")


class Loop:
    """A pipeline whose epochs are calls of these functions; after the last it is stopped."""

    is_throttled = False

    def __init__(self, *epochs: Callable[[], None]) -> None:
        self.told: list[str] = []
        counters = SimpleNamespace(fallbacks=FallbackCounter("small change"))
        self.lake: Any = SimpleNamespace(spark=self, jvm=counters)
        self.sparkContext = self
        self._gateway = SimpleNamespace(proc=None)
        self.record = Record("p", 1, 0, 0, 0)
        self.health = PipelineHealth(self.told.append, lambda type, **info: None)
        self.state = SimpleNamespace(paused=False)
        self.epochs = list(epochs)
        self.stop = threading.Event()
        self.find_culprits: Callable[[], bool] = lambda: False
        self.tidy: Callable[[], None] = nothing
        settings, spark = EngineSettings(epoch_interval=0.001), cast(Any, self)
        self.run = PipelineLoop(self, spark, self.health, settings, self.told.append).run

    def settle(self) -> None:
        """Nothing was interrupted."""

    def look_at_clock(self) -> None:
        """There are no views."""

    def poll_ends(self, goal: dict[str, Offset], patience: float | None) -> dict[str, Offset]:
        return {}

    def is_answered(self, goal: dict[str, Offset]) -> bool:
        return True

    def step(
        self, goal: dict[str, Offset] | None = None, *, force: bool = False
    ) -> EpochReport | None:
        if not self.epochs:
            self.stop.set()
            return None
        self.epochs.pop(0)()
        self.record = Record("p", self.record.incarnation, 0, self.record.epoch + 1, 0)
        return EpochReport(self.record.epoch)

    def loop(self, **options: Any) -> None:
        """Run as a server does."""
        thread = threading.Timer(60, self.stop.set)
        thread.start()
        try:
            self.run(self.stop, keep_going=True, **options)
        finally:
            thread.cancel()


def nothing() -> None:
    """An epoch that goes well."""


def raiser(error: Exception) -> Callable[..., Any]:
    def fail(*_: object) -> Any:
        raise error

    return fail


ERRORS = [
    OSError(28, "No space left on device"),
    sqlite3.OperationalError("disk I/O error"),
    Py4JNetworkError("Answer from Java side is empty"),
    RuntimeError("unforeseen"),
    Unprintable(),
]
named = pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)


@named
def test_an_epoch_that_fails_is_tried_again(error: Exception) -> None:
    loop = Loop(raiser(error), nothing)
    states: list[bool] = []
    loop.loop(changed=lambda: states.append(loop.health.trouble is not None))
    assert loop.record.epoch == 1
    assert states == [True, False]
    assert any("trying again in" in text for text in loop.told)


@named
def test_tables_that_cannot_be_tidied_stop_nothing(error: Exception) -> None:
    loop = Loop(nothing, nothing)
    loop.tidy = raiser(error)
    loop.loop()
    assert loop.record.epoch == 2
    assert sum(text.startswith("tidying failed") for text in loop.told) == 2


@named
def test_who_is_to_blame_may_stay_unknown(error: Exception) -> None:
    loop = Loop(raiser(OSError("the disk is full")), nothing)
    loop.find_culprits = raiser(error)
    loop.loop()
    assert loop.record.epoch == 1


def test_a_successor_ends_the_loop_from_everywhere() -> None:
    for spoil in ("housekeeper", "culprits", "epoch"):
        loop = Loop(nothing)
        if spoil == "housekeeper":
            loop.tidy = raiser(FencedError("taken over"))
        else:
            loop.epochs = [raiser(FencedError("taken over") if spoil == "epoch" else OSError())]
            loop.find_culprits = raiser(FencedError("taken over"))
        with pytest.raises(FencedError):
            loop.loop()


@pytest.mark.parametrize("where", ["epoch", "culprits", "housekeeper", "backoff"])
def test_a_jvm_that_has_ended_ends_the_loop(where: str) -> None:
    def end(*_: object) -> Any:
        loop._gateway.proc = subprocess.Popen(ENDED)
        loop._gateway.proc.wait()
        raise Unprintable

    loop = Loop(
        end if where == "epoch" else nothing if where == "housekeeper" else raiser(OSError())
    )
    if where == "housekeeper":
        loop.tidy = end
    if where == "culprits":
        loop.find_culprits = end

    def changed() -> None:
        if where == "backoff":
            loop._gateway.proc = subprocess.Popen(ENDED)
            loop._gateway.proc.wait()

    with pytest.raises(JvmLostError, match="it ran out of memory"):
        loop.loop(changed=changed)


@pytest.mark.parametrize("error", [OSError(28, "No space left"), TypeError("no JSON")])
def test_a_status_that_cannot_be_written_stops_nothing(
    error: Exception, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    engine = Engine(Home.at(tmp_path / "home"), notice=told.append)
    engine.resources.opened = loop = Loop(nothing, nothing)  # type: ignore[assignment]
    engine.live = True
    monkeypatch.setattr(observe, "write", raiser(error))
    monkeypatch.setattr(snapshot, "status_of", lambda *_: observe.Status())
    engine.run(loop.stop)
    assert loop.record.epoch == 2
    assert told[0].startswith("the status cannot be written: No ") or "no JSON" in told[0]


def test_messages_and_reports_that_cannot_be_printed_stop_nothing(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = raiser(OSError(28, "No space left on device"))
    engine = Engine(Home.at(tmp_path / "home"), notice=full)
    engine.resources.opened = loop = Loop(nothing, nothing)  # type: ignore[assignment]
    monkeypatch.setattr(observe, "write", full)
    monkeypatch.setattr(snapshot, "status_of", lambda *_: observe.Status())
    engine.run(loop.stop, report=full)
    assert loop.record.epoch == 2


def test_an_error_without_a_text_has_a_name() -> None:
    assert describe_error(Unprintable()).message == "Unprintable"
