"""Contenders that stay warm: processes that do one piece of work each time they are told.

The process calls `serve(work)`: `work()` is done once for every line on its standard input, and
what it returns is printed as a JSON object with the seconds it took. The benchmark holds a `Side`.
Sides take turns, so that a neighbour's load falls on all of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).parent.parent


def serve(work: Callable[[], Mapping[str, Any]]) -> None:
    """Says that it is ready, then works line by line until the input ends."""
    print("{}", flush=True)
    for _ in sys.stdin:
        begin = time.monotonic()
        found = dict(work())
        found.setdefault("seconds", time.monotonic() - begin)
        print(json.dumps(found), flush=True)


class Side:
    """A process that serves; a context manager."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        self.command = command
        self.log = log

    def __enter__(self) -> Self:
        with self.log.open("wb") as errors:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                text=True,
            )
        self._answer()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            status = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        if status != 0 and kind is None:
            raise self._failure()

    def work(self) -> dict[str, Any]:
        """One piece of work: what it answered, and the CPU seconds of the process and all below it."""
        assert self.process.stdin is not None
        before = cpu_seconds(self.process.pid)
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        found = self._answer()
        return {**found, "cpu": cpu_seconds(self.process.pid) - before}

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        raise self._failure()

    def _failure(self) -> RuntimeError:
        tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])
        return RuntimeError(f"{self.name} failed, see {self.log}:\n{tail}")


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process, of what runs below it, and of what has ended there and was waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        below = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return own + sum(cpu_seconds(int(child)) for children in below for child in children)
