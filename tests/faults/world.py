"""What a cell of the fault matrix runs against: a broker, a server process that is started again when it ends, and the
tools that hurt them (a library that fails the disk and moves the clock, a proxy before a REST catalog)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import psycopg

from icestream.dev.broker import Broker
from icestream.dev.child import HOST, free_ports
from tests.engine import MEMORY, start
from tests.services import kafka
from tests.services.rest_catalog import RestCatalogServer

PATIENCE = float(os.environ.get("FAULT_PATIENCE", "120"))
"""Seconds that the engine may take to be right again after a fault is over."""


@cache
def fault_library() -> Path:
    """The compiled `shim.c`."""
    source = Path(__file__).with_name("shim.c")
    library = Path(tempfile.mkdtemp(prefix="icestream-shim-")) / "shim.so"
    command = ["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


class Proxy:
    """A TCP proxy on loopback in front of an HTTP server. `mode` says what it does to the traffic."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.mode = "pass"
        """pass, down (connections are closed), slow (answers are late), unknown (answers to POST are lost)."""
        self.troubled = 0
        """Connections and answers that were closed, late or lost."""
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.mode == "down":
                self.troubled += 1
                client.close()
                continue
            with suppress(OSError):
                server = socket.create_connection((HOST, self.target))
                sent = [b""]
                for source, sink, answers in ((client, server, False), (server, client, True)):
                    threading.Thread(
                        target=self._pump, args=(source, sink, sent, answers), daemon=True
                    ).start()

    def _pump(
        self, source: socket.socket, sink: socket.socket, sent: list[bytes], answers: bool
    ) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not answers and data[:5] in (b"POST ", b"GET /", b"HEAD "):
                    sent[0] = data[:5]
                if self.mode == "down":
                    self.troubled += 1
                    break
                if self.mode == "slow" and answers:
                    self.troubled += 1
                    time.sleep(1.0)
                if self.mode == "unknown" and answers and sent[0] == b"POST ":
                    self.troubled += 1
                    break
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class ServerProcess:
    """`icestream serve` on a home, restarted by whoever finds it dead, as a supervisor would."""

    def __init__(self, home: Path, control: Path | None = None, memory: str = MEMORY) -> None:
        self.home = home
        self.control = control
        """The file that steers the fault library; None: started without it."""
        self.memory = memory
        self.process: subprocess.Popen[str] | None = None
        self.port = 0
        self.errors: list[str] = []

    def begin(self, *arguments: str, fault: str | None = None) -> None:
        """Start it and wait until it answers; raises AssertionError with what it said if it does not."""
        environment = {"ICESTREAM_FAULT": fault} if fault else {}
        if self.control is not None:
            environment |= {"LD_PRELOAD": str(fault_library()), "FAULT_SHIM": str(self.control)}
        command = ("serve", "--home", self.home, "--port", "0", "--memory", self.memory)
        self.process = start(*command, *arguments, env=environment)
        self.errors = []
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        stderr = self.process.stderr
        threading.Thread(target=lambda: self.errors.extend(stderr), daemon=True).start()
        for line in self.process.stdout:
            if line.startswith("ready"):
                words = line.split()
                self.port = int(words[words.index("-p") + 1])
                threading.Thread(target=self.process.stdout.read, daemon=True).start()
                return
        self.process.wait()
        raise AssertionError(f"the server did not start: {''.join(self.errors)[-2000:]}")

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def ensure(self) -> None:
        """Start it again if it has ended. Tries until PATIENCE is over, as a supervisor would."""
        end = time.monotonic() + PATIENCE
        while not self.alive:
            try:
                self.begin()
            except AssertionError:
                if time.monotonic() > end:
                    raise
                time.sleep(1)

    def kill(self) -> None:
        """SIGKILL to the server, its JVM and its Python workers."""
        if self.process is not None:
            for pid in self.children(""):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if that does not help."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()

    def children(self, word: str) -> list[int]:
        """Processes of the server's session whose command line has a word: Python workers have a group of their own."""
        assert self.process is not None
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with suppress(OSError, IndexError):
                session = int((entry / "stat").read_text().rpartition(")")[2].split()[3])
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if session == self.process.pid and word in line:
                    found.append(int(entry.name))
        return found

    def connect(self) -> psycopg.Connection:
        """A connection in autocommit mode."""
        url = f"host=127.0.0.1 port={self.port} user=root dbname=dev connect_timeout=20"
        return psycopg.connect(url, autocommit=True)


class World:
    """One cell's surroundings. The broker may be shared by cells that do not hurt it."""

    def __init__(self, folder: Path, broker: Broker, *, shim: bool = False) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.broker = broker
        self.bootstrap = broker.bootstrap
        """What sources name as their broker."""
        self.control = folder / "control"
        self.hits = folder / "control.hits"
        """The processes that the fault library has failed: a line each."""
        self.home = folder / "home"
        self.server = ServerProcess(self.home, self.control if shim else None)
        self.proxy: Proxy | None = None
        self.rest: RestCatalogServer | None = None
        self.messages: list[str] = []
        """What clients were told while the fault was on."""
        self.topic = kafka.create_topic(broker.bootstrap, f"m-{folder.name}-{os.getpid()}", 2)

    def close(self) -> None:
        self.server.kill()
        if self.proxy is not None:
            self.proxy.close()

    def produce(self, records: list[tuple[str, str | None]]) -> None:
        kafka.produce(self.broker.bootstrap, self.topic, records)

    def consume(self) -> list[tuple[int, int, object, object]]:
        return kafka.consume(self.broker.bootstrap, self.topic)

    def execute(self, *statements: str) -> None:
        """Run statements; each must succeed."""
        with self.server.connect() as client:
            for statement in statements:
                client.execute(statement)

    def query(self, text: str) -> list[tuple[object, ...]]:
        with self.server.connect() as client:
            return client.execute(text).fetchall()

    def attempt(self, what: Callable[[], None]) -> bool:
        """Run something that a fault may break. True: it went well."""
        try:
            what()
        except (psycopg.Error, OSError, AssertionError) as error:
            self.messages.append(f"{type(error).__name__}: {error}".strip())
            return False
        return True

    def await_success(self, what: Callable[[], None], patience: float = PATIENCE) -> None:
        """Repeat until it goes well, starting the server again if it ends. The last failure is raised."""
        end = time.monotonic() + patience
        while True:
            self.server.ensure()
            try:
                return what()
            except (psycopg.Error, OSError, AssertionError):
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)


@contextmanager
def rest_catalog(world: World) -> Iterator[Proxy]:
    """A REST catalog for the world's sinks, behind a proxy."""
    with RestCatalogServer(world.folder / "rest") as server:
        world.rest = server
        world.proxy = Proxy(server.port)
        try:
            yield world.proxy
        finally:
            world.proxy.close()


def second_address(broker: Broker) -> int:
    """A free port that the broker can move to."""
    (port,) = free_ports(1)
    assert port != broker.port
    return port
