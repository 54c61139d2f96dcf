"""Which process runs a home: one lock file an incarnation, held by flock for as long as the process lives.

A new process looks at the newest file only. That is what lets `--take-over` go ahead while a paused
predecessor still holds an older one; the fences on the tables keep the predecessor from committing.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from icestream.config import Home
from icestream.errors import ConfigError
from icestream.observe.serving import Serving, announced


class HomeLock:
    """The right to run the pipelines of a home."""

    def __init__(self, home: Home, take_over: bool = False, after: int = 0) -> None:
        """`after` is the newest incarnation that the home remembers, whatever became of its lock files."""
        home.prepare()
        self.directory = home.locks
        newest = max(self._incarnations(), default=0)
        if newest and (pid := _holder(self._path(newest))) is not None and not take_over:
            server = served(home)
            raise ConfigError(
                f"icestream is already running on {home.root} (process {pid}"
                + (f", serving at {server})" if server else ")"),
                remedy="stop it first, or start with --take-over to fence it off"
                + ("; icestream sql talks to it" if server else ""),
            )
        self.after_crash = bool(newest) and self._is_left(newest)
        """Whether the last process did not come to an orderly end."""
        self.incarnation = max(newest, after) + 1
        self._file = self._acquire()
        for old in self._incarnations():
            if old < self.incarnation and _holder(self._path(old)) is None:
                self._path(old).unlink(missing_ok=True)

    def _is_left(self, incarnation: int) -> bool:
        """Whether the process of a lock file did not come to an orderly end."""
        try:
            return self._path(incarnation).stat().st_size > 0
        except FileNotFoundError:  # another process starts, too
            return True

    def _acquire(self) -> int:
        """The lock file of the next free number; another process starting now takes another number."""
        while True:
            path = self._path(self.incarnation)
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
            except FileExistsError:
                raise ConfigError(
                    "another icestream is starting on this home at this very moment",
                    remedy="start it once",
                ) from None
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.write(descriptor, str(os.getpid()).encode())
            return descriptor

    def release(self, *, in_order: bool = True) -> None:
        """Give the home up; the file stays, so that incarnations keep growing. `in_order`: nothing was interrupted."""
        if in_order:
            os.ftruncate(self._file, 0)
        os.close(self._file)

    def _incarnations(self) -> list[int]:
        return [int(p.stem) for p in self.directory.glob("*.lock") if p.stem.isdigit()]

    def _path(self, incarnation: int) -> Path:
        return self.directory / f"{incarnation}.lock"


def running(home: Home) -> int | None:
    """The process that runs this home now, if any."""
    numbers = [int(p.stem) for p in home.locks.glob("*.lock") if p.stem.isdigit()]
    return _holder(home.locks / f"{max(numbers)}.lock") if numbers else None


def served(home: Home) -> Serving | None:
    """The server that runs this home now, if any."""
    found = announced(home)
    return found if found is not None and found.pid == running(home) else None


def _holder(path: Path) -> int | None:
    """The id of the process that holds the file's lock."""
    try:
        with open(path) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read() or 0)
    except FileNotFoundError:
        pass
    return None
