"""A server that cannot open its lake yet retries; one that never can ends at once."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from errno import EROFS

import pytest

from icestream.errors import ConfigError, ConnectorError, FencedError, IcestreamError, LakeError
from icestream.server import opening
from icestream.server.opening import open_patiently


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "FIRST_WAIT", 0.01)


def failing(error: Exception, times: int) -> tuple[Callable[[], None], list[int]]:
    calls: list[int] = []

    def open() -> None:
        calls.append(1)
        if len(calls) <= times:
            raise error

    return open, calls


@pytest.mark.parametrize(
    "error",
    [
        ConnectorError("the catalog cannot be used: [SQLITE_BUSY] The database file is locked"),
        OSError(EROFS, "Read-only file system"),
        sqlite3.OperationalError("database is locked"),
        IcestreamError("the disk is full", code="53100"),
    ],
)
def test_what_may_pass_is_retried(error: Exception) -> None:
    open, calls = failing(error, 3)
    notices: list[str] = []
    open_patiently(open, notices.append, threading.Event())
    assert len(calls) == 4
    assert len(notices) == 3, "one line for each attempt"
    assert all("trying again in" in text for text in notices)


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("icestream is already running on this home"),
        FencedError("another process has taken over"),
        LakeError("t is not the table that was written before"),
        ConnectorError("[SQLITE_NOTADB] File opened that is not a database file"),
        ValueError("a bug"),
    ],
)
def test_what_cannot_pass_ends_the_start_at_once(error: Exception) -> None:
    open, calls = failing(error, 1)
    with pytest.raises(type(error)):
        open_patiently(open, lambda text: None, threading.Event())
    assert len(calls) == 1


def test_the_start_is_given_up_in_the_end_and_when_the_server_stops() -> None:
    open, calls = failing(ConnectorError("locked"), 1 << 30)
    with pytest.raises(ConnectorError):
        open_patiently(open, lambda text: None, threading.Event(), patience=0.2)
    assert len(calls) > 1
    stop = threading.Event()
    stop.set()
    open, calls = failing(ConnectorError("locked"), 1 << 30)
    with pytest.raises(ConnectorError):
        open_patiently(open, lambda text: None, stop)
    assert len(calls) == 1
