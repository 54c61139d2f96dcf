"""The log of a home: what is written, how often, and that no secret is in it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from icestream import home_log
from icestream.config import EngineSettings, Home
from icestream.engine import Engine
from icestream.home_log import HomeLog, RepeatedFailures, log_failure, log_suppressed
from icestream.secrecy import KNOWN, remember_secret

CANARY = "c4n4ry-Log7"
LOG = logging.getLogger("icestream.runtime.pipeline")


@pytest.fixture(autouse=True)
def logger(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """The engine's logger as a new process has it: engines of other tests may still be open."""
    logger = logging.getLogger("icestream")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr(logger, "level", logging.NOTSET)
    return logger


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "logs"
    KNOWN.clear()


def fail(text: str = "the broker said no") -> None:
    raise OSError(text)


def log_one(text: str = "the broker said no") -> None:
    try:
        fail(text)
    except OSError:
        log_failure(LOG, "epoch %d failed and is tried again", 7)


def written(folder: Path) -> str:
    return (folder / home_log.FILE).read_text()


def test_a_failure_is_written_with_its_traceback(folder: Path) -> None:
    log = HomeLog(folder)
    log.open()
    log_one()
    log.close()
    first, *rest = written(folder).splitlines()
    assert first.endswith("WARNING icestream.runtime.pipeline: epoch 7 failed and is tried again")
    assert rest[0] == "Traceback (most recent call last):"
    assert rest[-1] == "OSError: the broker said no"


def test_repeated_failures_are_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_log, "LINE_EVERY", 0.0)
    log = HomeLog(folder)
    log.open()
    for number in range(3):
        log_one(f"no answer from 10.0.0.{number}")
    log_one("another reason")
    log.close()
    text = written(folder)
    assert text.count("Traceback") == 2
    assert "epoch 7 failed and is tried again (OSError, 3 times now)\n" in text


def test_repeated_failures_are_counted_by_time() -> None:
    repeats = RepeatedFailures()
    kind = ("here", "OSError", "there", "no")
    told = []
    for second in range(0, 3700, 10):
        found = repeats.count(kind, float(second))
        told.append((found.has_traceback, found.is_silent))
    assert sum(has for has, _ in told) == 2
    assert sum(not silent for _, silent in told) == 62
    assert repeats.count(kind, 3705.0).count == 371
    for number in range(home_log.REMEMBERED + 5):
        repeats.count(("here", "OSError", str(number)), 0.0)
    assert len(repeats._known) == home_log.REMEMBERED


def test_json_is_an_object_per_line(folder: Path) -> None:
    log = HomeLog(folder, format="json")
    log.open()
    LOG.info("epoch %s", "done")
    log_one()
    log.close()
    plain, failure = map(json.loads, written(folder).splitlines())
    assert (plain["level"], plain["logger"], plain["message"]) == ("info", LOG.name, "epoch done")
    assert (failure["error"], failure["repeated"], failure["level"]) == ("OSError", 1, "warning")
    assert failure["traceback"].endswith("OSError: the broker said no")


@pytest.mark.parametrize(
    ("level", "shown"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)]
)
def test_the_level_decides_what_is_written(folder: Path, level: str, shown: int) -> None:
    log = HomeLog(folder, level)
    log.open()
    for each in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        LOG.log(each, "something")
    log.close()
    assert len(written(folder).splitlines()) == shown


@pytest.mark.parametrize("format", home_log.FORMATS)
def test_no_secret_is_written_or_passed_on(
    folder: Path, format: str, caplog: pytest.LogCaptureFixture
) -> None:
    remember_secret(f"{CANARY} \"'\n{CANARY}")
    remember_secret(CANARY)
    log = HomeLog(folder, "debug", format)
    log.open()
    log_one(f"http://user:unknown@host refused {CANARY} password='{CANARY}'")
    LOG.warning("sasl.password=%s", CANARY, stack_info=True)
    LOG.error("bearer %s", f'"{CANARY}\n{CANARY}"')
    LOG.warning("%d", CANARY)  # a wrong format string
    log.close()
    assert CANARY not in written(folder)
    assert "user:<hidden>@host" in written(folder)
    formatter = logging.Formatter()
    passed = [formatter.format(record) for record in caplog.records]
    assert len(passed) == 4
    assert not [text for text in passed if CANARY in text]


def test_the_terminal_shows_warnings_but_no_retries(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    log = HomeLog(folder, "debug")
    log.open()
    LOG.info("not shown")
    log_one()
    LOG.warning("shown")
    log.close()
    assert capsys.readouterr().err == "shown\n"
    LOG.warning("shown as before")
    assert capsys.readouterr().err == "shown as before\n"


def test_logging_is_as_before_when_all_are_closed(
    folder: Path, tmp_path: Path, logger: logging.Logger
) -> None:
    first, second = HomeLog(folder), HomeLog(tmp_path / "other", "debug")
    first.open()
    second.open()
    LOG.debug("only in the second")
    second.close()
    LOG.info("only in the first")
    first.close()
    assert (logger.handlers, logger.propagate, logger.level) == ([], True, logging.NOTSET)
    assert "only in the first" in written(folder)
    assert "only in the second" in written(tmp_path / "other")
    assert "second" not in written(folder)


def test_the_file_is_rolled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_log, "ROLL_AT", 1000)
    log = HomeLog(folder)
    log.open()
    for _ in range(100):
        LOG.info("x" * 100)
    log.close()
    assert len(list(folder.iterdir())) == home_log.KEPT + 1
    assert all(path.stat().st_size <= 1000 for path in folder.iterdir())


def test_a_file_that_cannot_be_written_stops_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").write_text("a file")
    log = HomeLog(tmp_path / "logs")
    log.open()
    LOG.info("lost")
    log.close()
    assert capsys.readouterr().err == ""


def test_an_engine_writes_what_it_tells(tmp_path: Path) -> None:
    home = Home.at(tmp_path)
    with Engine(home, EngineSettings(log_format="json"), env={}) as engine:
        engine.notice("before it owns the home")
        assert not home.logs.exists()
        engine.resources.own()
        engine.notice(f"it said password='{CANARY}'")
    told = [json.loads(line)["message"] for line in written(home.logs).splitlines()]
    assert told == [
        "before it owns the home",
        "this process owns the home, incarnation 1",
        "it said password=<hidden>",
    ]


def test_what_is_suppressed_is_logged(folder: Path) -> None:
    log = HomeLog(folder)
    log.open()
    with log_suppressed(LOG, "it could not be closed", OSError):
        fail()
    with pytest.raises(ValueError, match="other"), log_suppressed(LOG, "no", OSError):
        raise ValueError("other")
    log.close()
    assert "it could not be closed\nTraceback" in written(folder)
