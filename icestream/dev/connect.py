"""A standalone Kafka Connect worker as a child process: for tests and benchmarks against real connectors.

Loopback only, on a free port. A plugin's jars stay off the worker's class path, as Connect wants it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from icestream.dev.child import HOST, Child, free_ports
from icestream.dev.jars import class_path, resolve
from icestream.dev.java import find_java
from icestream.errors import ConnectorError

_GAVE_UP = (
    "unrecoverable exception"  # what Connect logs when a task ends, which the worker survives
)
_LOGGING = """\
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c: %m%n
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
"""


class Worker:
    """A worker whose files are in `folder`; `plugins` are the jars of each connector, by a name.

    `start()` returns when the worker answers, `create()` when all tasks of a connector run. As a
    context manager it starts and stops.
    """

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        plugins: Mapping[str, Sequence[Path]],
        *,
        jars: Sequence[Path] = (),
        java: Sequence[str] = ("-Xmx256m", "-XX:+UseSerialGC"),
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """`jars` is another class path than the group "connect", `java` has options of the JVM."""
        self.folder = Path(folder).absolute()
        self.bootstrap = bootstrap
        self.plugins = plugins
        self.jars = jars
        self.java = java
        self.settings = dict(settings or {})
        (self.port,) = free_ports(1)
        self._child: Child | None = None

    def start(self, timeout: float = 120) -> Self:
        """Starts the JVM and waits until it answers. Raises ConnectorError with the end of its log."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "log4j2.properties").write_text(_LOGGING)
        command = [
            str(find_java().executable),
            *(*self.java, "-Djava.awt.headless=true"),
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            *("-cp", class_path(self.jars or resolve("connect"))),
            *("org.apache.kafka.connect.cli.ConnectStandalone", str(self._configure())),
        ]
        self._child = Child("Kafka Connect", command, self.folder / "connect.log")
        if not self._child.ready(self._answers, timeout):
            self._child.stop()
            raise self._child.failure()
        return self

    def stop(self) -> None:
        """Stops the worker with its connectors. Returns when it is gone."""
        if self._child is not None:
            self._child.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def create(self, name: str, config: Mapping[str, object], timeout: float = 60) -> None:
        """Makes a connector and waits until it and its tasks run; raises with what Connect answered."""
        text = {key: str(value) for key, value in config.items()}
        self._ask("POST", "/connectors", {"name": name, "config": text})
        self.wait(lambda: self.running(name), timeout)

    def delete(self, name: str) -> None:
        """Stops a connector and forgets it."""
        self._ask("DELETE", f"/connectors/{name}")

    def running(self, name: str) -> bool:
        """Whether the connector and its tasks, at least one, run; raises if one of them failed."""
        status = self._ask("GET", f"/connectors/{name}/status")
        parts = [status["connector"], *status["tasks"]]
        for part in parts:
            if part["state"] == "FAILED":
                raise ConnectorError(f"connector {name} failed:\n{part.get('trace', '')}")
        return len(parts) > 1 and all(part["state"] == "RUNNING" for part in parts)

    def offsets(self, name: str) -> list[Any]:
        """How far a source connector is, for each of its partitions: what the broker has confirmed."""
        return list(self._ask("GET", f"/connectors/{name}/offsets")["offsets"])

    def wait(self, condition: Callable[[], bool], timeout: float) -> None:
        """Waits for a condition; raises with the end of the log if it does not come true or a task gives up."""
        child = self._child
        assert child is not None

        def settled() -> bool:
            return _GAVE_UP in child.output() or condition()

        if not child.ready(settled, timeout) or _GAVE_UP in child.output():
            raise child.failure(40)

    def _configure(self) -> Path:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "listeners": f"HTTP://{HOST}:{self.port}",
            "plugin.path": self._plugin_path(),
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "offset.storage.file.filename": self.folder / "offsets",
            "offset.flush.interval.ms": 1000,
            **self.settings,
        }
        path = self.folder / "worker.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def _plugin_path(self) -> Path:
        """A folder of folders, one a plugin, with links to its jars."""
        path = self.folder / "plugins"
        for name, jars in self.plugins.items():
            (path / name).mkdir(parents=True, exist_ok=True)
            for jar in jars:
                link = path / name / jar.name
                link.unlink(missing_ok=True)
                link.symlink_to(jar)
        return path

    def _answers(self) -> bool:
        try:
            return "version" in self._ask("GET", "/")
        except (URLError, OSError, ConnectorError):
            return False

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        request = Request(
            f"http://{HOST}:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urlopen(request, timeout=90) as answer:
                return json.loads(answer.read() or b"null")
        except HTTPError as error:
            raise ConnectorError(
                f"Kafka Connect refused {method} {path}: {error.read().decode(errors='replace')}"
            ) from error
