"""A real single-node Kafka broker as a child process: for the demo, for people who try things, for tests.

KRaft (broker and controller in one JVM), loopback only, topics created on first use. The data
directory outlives the process: a broker started on it again has its topics and offsets.
"""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from icestream.dev.child import HOST, Child, connects, free_ports
from icestream.dev.jars import Progress, class_path, resolve
from icestream.dev.java import find_java

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
    """

    def __init__(
        self,
        data_dir: Path,
        port: int = 0,
        *,
        heap: str = "512m",
        partitions: int = 1,
        listeners: Mapping[str, tuple[int, str]] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """`listeners` adds name → (port, security protocol), which `config`, the broker's own settings, sets up."""
        self.data_dir = Path(data_dir).absolute()
        self.port = port
        self.heap = heap
        self.partitions = partitions
        self.listeners = dict(listeners or {})
        self.config = dict(config or {})
        self._child: Child | None = None

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
        return self._child.pid if self._child and self._child.running else None

    def start(self, timeout: float = 120, progress: Progress | None = None) -> Self:
        """Formats the data directory if it is new, starts the JVM and waits until it answers.

        A port chosen here may be taken by someone else before Kafka binds it: then others are
        tried. Raises ConnectorError with the end of the log if the broker does not come up.
        """
        if self.pid is not None:
            return self
        jars = resolve("broker", progress)
        self.data_dir.mkdir(parents=True, exist_ok=True)
        (self.data_dir / "log4j2.properties").write_text(_LOGGING)
        chosen_here = self.port == 0
        for chances_left in (2, 1, 0):
            own_port, controller = free_ports(2)
            self.port = own_port if chosen_here else self.port
            self._configure(controller)
            self._format(jars)
            child = self._run(jars, "kafka.Kafka", f"-Xmx{self.heap}")
            if child.ready(partial(self._answers, child), timeout):
                self._child = child
                return self
            child.stop()
            if not chances_left or "Address already in use" not in child.output():
                break
        raise child.failure()

    def stop(self) -> None:
        """Stops the broker: politely, then by force. Returns when it is gone."""
        if self._child is not None:
            self._child.stop()

    def kill(self) -> None:
        """Ends the broker at once, as a crash would."""
        if self._child is not None:
            self._child.kill()

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
        clients = {"PLAINTEXT": (self.port, "PLAINTEXT"), **self.listeners}
        addresses = [f"{name}://{HOST}:{port}" for name, (port, _) in clients.items()]
        protocols = [f"{name}:{protocol}" for name, (_, protocol) in clients.items()]
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{HOST}:{controller}",
            "listeners": ",".join([*addresses, f"CONTROLLER://{HOST}:{controller}"]),
            "advertised.listeners": ",".join(addresses),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join([*protocols, "CONTROLLER:PLAINTEXT"]),
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
            **self.config,
        }
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        (self.data_dir / "server.properties").write_text(text)

    def _format(self, jars: Sequence[Path]) -> None:
        """Gives a new data directory its cluster id; does nothing on a used one."""
        if (self.data_dir / "data" / "meta.properties").exists():
            return
        # A leading - would be taken for an option: Kafka's own ids never have one either.
        cluster = "i" + urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
        arguments = ("format", "-t", cluster, "-c")
        tool = self._run(jars, "kafka.tools.StorageTool", "-Xmx128m", *arguments)
        if tool.wait() != 0:
            raise tool.failure()

    def _run(self, jars: Sequence[Path], main: str, heap: str, *arguments: str) -> Child:
        """A Kafka program with this broker's properties as its last argument."""
        command = [
            str(find_java().executable),
            *(heap, "-Xms64m", "-XX:+UseSerialGC", "-Djava.awt.headless=true"),
            f"-Dlog4j2.configurationFile={self.data_dir / 'log4j2.properties'}",
            *("-cp", class_path(jars), main, *arguments),
            str(self.data_dir / "server.properties"),
        ]
        return Child("the Kafka broker", command, self.log_file)

    def _answers(self, child: Child) -> bool:
        return READY_LINE in child.output() and connects(self.port)
