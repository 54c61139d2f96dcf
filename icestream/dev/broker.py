"""A real single-node Kafka broker as a child process: for the demo, for people who try things, for tests.

KRaft (broker and controller in one JVM), loopback only, topics created on first use. The data
directory outlives the process: a broker started on it again has its topics and offsets.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from icestream.dev.jars import Progress, class_path, resolve
from icestream.dev.java import find_java
from icestream.errors import ConnectorError

HOST = "127.0.0.1"
READY_LINE = "Kafka Server started"
MAX_MESSAGE_BYTES = 8 * 1024 * 1024

_LOGGING = """\
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c: %m%n
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
"""


class Broker:
    """An embedded broker on a data directory.

    `start()` returns when clients can connect, `stop()` when the process is gone; both may be
    repeated, and a restarted broker keeps its port. As a context manager it starts and stops.
    It also dies with the thread that started it, where the system can tell it to.
    """

    def __init__(
        self, data_dir: Path, port: int = 0, *, heap: str = "512m", partitions: int = 1
    ) -> None:
        self.data_dir = Path(data_dir).absolute()
        self.port = port
        self.heap = heap
        self.partitions = partitions
        self._process: subprocess.Popen[bytes] | None = None
        self._own_port = port == 0

    @property
    def bootstrap(self) -> str:
        """The address clients connect to; known once the broker has started."""
        return f"{HOST}:{self.port}"

    @property
    def log_file(self) -> Path:
        """What the JVM printed, over all starts."""
        return self.data_dir / "broker.log"

    @property
    def pid(self) -> int | None:
        """The process id while the broker runs."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if self._process and running else None

    def start(self, timeout: float = 120, progress: Progress | None = None) -> Self:
        """Formats the data directory if it is new, starts the JVM and waits until it answers.

        A port chosen here may be taken by someone else before Kafka binds it: then another one is
        tried. Raises ConnectorError with the end of the log if the broker does not come up.
        """
        if self.pid is not None:
            return self
        jars = resolve("broker", progress)
        self.data_dir.mkdir(parents=True, exist_ok=True)
        (self.data_dir / "log4j2.properties").write_text(_LOGGING)
        deadline = time.monotonic() + timeout
        for chance in (2, 1, 0):
            port, controller = free_ports(2)
            self.port = self.port or port
            self._configure(controller)
            self._format(jars)
            offset = self.log_file.stat().st_size if self.log_file.exists() else 0
            self._process = self._spawn(jars, "kafka.Kafka", f"-Xmx{self.heap}")
            if self._ready(offset, deadline):
                return self
            output = self._output(offset)
            self.stop()
            if chance and "Address already in use" in output:
                self.port = 0 if self._own_port else self.port
                continue
            raise ConnectorError(
                f"the Kafka broker did not start:\n{_tail(output)}", remedy=f"see {self.log_file}"
            )
        raise AssertionError("unreachable")

    def stop(self, timeout: float = 30) -> None:
        """Stops the broker: politely, then by force. Returns when it is gone."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self) -> None:
        """Ends the broker at once, as a crash would."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def wait(self) -> int:
        """Blocks until the broker ends by itself and returns its exit code."""
        return self._process.wait() if self._process else 0

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _configure(self, controller: int) -> None:
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{HOST}:{controller}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": self.data_dir / "data",
            "auto.create.topics.enable": "true",
            "num.partitions": self.partitions,
            "message.max.bytes": MAX_MESSAGE_BYTES,
            "replica.fetch.max.bytes": MAX_MESSAGE_BYTES,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 4,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "log.retention.hours": -1,
            # A broker that was killed registers again once its old session is over: soon.
            "broker.session.timeout.ms": 2000,
            "broker.heartbeat.interval.ms": 500,
        }
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        (self.data_dir / "server.properties").write_text(text)

    def _format(self, jars: Sequence[Path]) -> None:
        """Gives a new data directory its cluster id; does nothing on a used one."""
        if (self.data_dir / "data" / "meta.properties").exists():
            return
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = self._spawn(
            jars, "kafka.tools.StorageTool", "-Xmx128m", "format", "-t", cluster, "-c"
        )
        if tool.wait() != 0:
            raise ConnectorError(
                f"cannot format {self.data_dir} for Kafka:\n{_tail(self._output(0))}",
                remedy=f"see {self.log_file}, or start on an empty directory",
            )

    def _spawn(
        self, jars: Sequence[Path], main: str, heap: str, *arguments: str
    ) -> subprocess.Popen[bytes]:
        """A Kafka program with this broker's properties as last argument, output to the log.

        It gets a session of its own, so that Ctrl-C in a terminal reaches only the parent, which
        then decides when the broker ends; setpriv makes it follow a parent that was killed.
        """
        tether = ("setpriv", "--pdeathsig", "TERM") if shutil.which("setpriv") else ()
        command = [
            *tether,
            str(find_java().executable),
            *(heap, "-Xms64m", "-XX:+UseSerialGC", "-Djava.awt.headless=true"),
            f"-Dlog4j2.configurationFile={self.data_dir / 'log4j2.properties'}",
            *("-cp", class_path(jars), main, *arguments),
            str(self.data_dir / "server.properties"),
        ]
        with self.log_file.open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.data_dir,
                env=_environment(),
                start_new_session=True,
            )

    def _ready(self, offset: int, deadline: float) -> bool:
        """True once the broker says so and takes connections; False if it ended or is late."""
        while self.pid is not None and time.monotonic() < deadline:
            if READY_LINE in self._output(offset) and _connects(self.port):
                return True
            time.sleep(0.05)
        return False

    def _output(self, offset: int) -> str:
        with self.log_file.open("rb") as log:
            log.seek(offset)
            return log.read().decode(errors="replace")


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


def _connects(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False


def _environment() -> dict[str, str]:
    """The parent's environment without what would change the JVM or attach agents to it."""
    unwanted = {"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "KAFKA_OPTS", "CLASSPATH"}
    return {name: value for name, value in os.environ.items() if name not in unwanted}


def _tail(text: str, lines: int = 15) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])
