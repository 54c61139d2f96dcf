"""Servers as child processes: started tethered to their parent, awaited, stopped by their own pid."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from icestream.errors import ConnectorError

HOST = "127.0.0.1"


class Child:
    """A running server process whose output goes to a log file.

    It has a session of its own, so that Ctrl-C in a terminal reaches only the parent, which then
    decides when the child ends. Where `setpriv` is there, it is told to follow a parent (to be
    exact: the thread that started it) that was killed.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_file: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log_file = log_file
        log_file.parent.mkdir(parents=True, exist_ok=True)
        tether = ("setpriv", "--pdeathsig", "TERM") if shutil.which("setpriv") else ()
        with log_file.open("ab") as log:
            self._offset = log.tell()
            self._process = subprocess.Popen(
                [*tether, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=log_file.parent,
                env=_environment(environment or {}),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process has not ended yet."""
        return self._process.poll() is None

    def output(self) -> str:
        """What this process, not an earlier one, has written to the log so far."""
        with self.log_file.open("rb") as log:
            log.seek(self._offset)
            return log.read().decode(errors="replace")

    def ready(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Waits for the condition; False if the process ended first or the time is over."""
        deadline = time.monotonic() + timeout
        while self.running and time.monotonic() < deadline:
            if condition():
                return True
            time.sleep(0.05)
        return False

    def wait(self) -> int:
        """Blocks until the process ends by itself and returns its exit code."""
        return self._process.wait()

    def stop(self, timeout: float = 30) -> None:
        """Asks the process to end, then makes it; returns when it is gone."""
        if self.running:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Ends the process at once, as a crash would."""
        self._process.kill()
        self._process.wait()

    def failure(self, lines: int = 15) -> ConnectorError:
        """The error to raise when the server did not do its work: the end of its log."""
        tail = "\n".join(f"    {line}" for line in self.output().splitlines()[-lines:])
        return ConnectorError(f"{self.name} failed:\n{tail}", remedy=f"see {self.log_file}")


def free_ports(count: int) -> tuple[int, ...]:
    """Loopback ports that nobody listens on at this moment, all different."""
    held = [socket.socket() for _ in range(count)]
    try:
        for each in held:
            each.bind((HOST, 0))
        return tuple(each.getsockname()[1] for each in held)
    finally:
        for each in held:
            each.close()


def connects(port: int) -> bool:
    """Whether something on this machine accepts connections at the port."""
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The parent's environment, without what would change a JVM behind our back."""
    unwanted = {"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "KAFKA_OPTS", "CLASSPATH"}
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    return {**kept, **extra}
