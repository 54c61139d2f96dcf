"""The front of the server: sockets in an event loop of its own thread, statements in a bounded pool of threads.

A connection that waits costs a socket and nothing else. What one client sends never harms another: its
connection ends with an error. A client that leaves has its query cancelled and its session closed.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Thread
from typing import ParamSpec, TypeVar

from icestream.errors import ConfigError
from icestream.server import failures, startup
from icestream.server.auth import Access
from icestream.server.backend import Backend, Client, StateError
from icestream.server.connection import Connection
from icestream.server.messages import CancelRequest
from icestream.server.wire import Wire

_LOG = logging.getLogger(__name__)
_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass
class _Talk:
    """A client that was let in."""

    secret: int
    connection: Connection | None = None


class Listener:
    """A server for a backend; `start` and `stop` it, or use it in a `with`. Port 0 takes any that is free."""

    def __init__(
        self,
        backend: Backend,
        *,
        host: str = "127.0.0.1",
        port: int = 4566,
        access: Access | None = None,
        tls: ssl.SSLContext | None = None,
        connections: int = 256,
        threads: int = 256,
        patience: float = 60.0,
    ) -> None:
        """`patience` is how many seconds a client may take to come in."""
        self._backend = backend
        self._host, self._port = host, port
        self._access = access or Access()
        self._tls = tls
        self._limit = connections
        self._patience = patience
        self.on_clients: Callable[[int], None] = lambda clients: None
        """Told how many clients there are, whenever one comes or goes."""
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="icestream-session")
        self._cancels = ThreadPoolExecutor(16, thread_name_prefix="icestream-cancel")
        self._loop: asyncio.AbstractEventLoop
        self._thread: Thread | None = None
        self._numbers = itertools.count(1)
        self._talks: dict[int, _Talk] = {}
        self._tasks: dict[asyncio.Task[None], Wire] = {}
        self._interrupts: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    def __enter__(self) -> Listener:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port it listens on."""
        if self._server is None or not self._server.sockets:
            return self._host, self._port
        host, port, *_ = self._server.sockets[0].getsockname()
        return host, port

    @property
    def clients(self) -> int:
        """How many are connected."""
        return len(self._talks)

    def start(self) -> None:
        """Listen. Returns when clients can connect."""
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="icestream-server", daemon=True)
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        except OSError as error:
            self.stop()
            raise ConfigError(
                f"cannot listen on {self._host}:{self._port}: {error.strerror or error}",
                remedy="choose another port, or stop what listens there",
            ) from error

    def stop(self, grace: float = 5.0) -> None:
        """Say good-bye to all clients, cancel what they run, and close; waits so many seconds at most."""
        if self._thread is None or not self._thread.is_alive():
            return
        asyncio.run_coroutine_threadsafe(self._stop(grace), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        for pool in (self._pool, self._cancels):
            pool.shutdown(wait=False, cancel_futures=True)

    async def _listen(self) -> None:
        self._server = await self._loop.create_server(
            lambda: Wire(self._welcome), self._host, self._port, backlog=512
        )

    async def _stop(self, grace: float) -> None:
        if self._server:
            self._server.close()
        wires = list(self._tasks.values())
        for wire in wires:
            _say_farewell(wire)
        waiting = [*self._tasks, *(wire.closed for wire in wires)]
        if waiting:
            await asyncio.wait(waiting, timeout=grace)
        if self._tasks:
            _LOG.warning("%d sessions did not end in time", len(self._tasks))
        for task, wire in list(self._tasks.items()):
            wire.abort()
            task.cancel()
        for wire in wires:
            wire.abort()
        for interrupt in self._interrupts:
            interrupt.cancel()
        await asyncio.sleep(0)

    def _welcome(self, wire: Wire) -> None:
        """A socket was accepted. Those of clients that are not in yet are limited as well."""
        if len(self._tasks) >= 2 * self._limit + 16:
            wire.abort()
            return
        task = self._loop.create_task(self._serve(wire))
        self._tasks[task] = wire
        task.add_done_callback(self._tasks.pop)

    async def _serve(self, wire: Wire) -> None:
        try:
            async with asyncio.timeout(self._patience):
                client = await startup.enter(wire, self._access, self._tls, self._patience)
            if isinstance(client, CancelRequest):
                self._cancel(client)
            elif client:
                await self._talk(wire, client)
        except TimeoutError:
            _LOG.info("a client at %s did not come in in time", wire.address)
        except Exception as error:  # even a mistake of ours costs this client its connection only
            wire.write(failures.response(error, fatal=True))
        finally:
            wire.close()
            await asyncio.wait([wire.closed], timeout=self._patience)  # while it reads the rest
            wire.abort()

    async def _talk(self, wire: Wire, client: Client) -> None:
        """A client that was let in, to its end."""
        if len(self._talks) >= self._limit:
            raise StateError("53300", "sorry, too many clients already")
        process = next(self._numbers)
        talk = self._talks[process] = _Talk(secrets.randbits(32))
        self._tell_clients()
        try:
            signals = replace(
                client,
                process=process,
                cancel=lambda: self._soon(self._interrupt, talk),
                terminate=lambda: self._soon(_say_farewell, wire),
            )
            talk.connection = await self._work(self._open, signals)
            wire.on_gone = lambda: self._interrupt(talk)
            wire.write(await self._work(talk.connection.greeting, process, talk.secret))
            while not talk.connection.over and (batch := await wire.batch()):
                pieces = talk.connection.answer(batch)
                while not wire.gone and (piece := await self._work(next, pieces, b"")):
                    await wire.send(piece)
                if wire.gone:
                    await self._work(pieces.close)
        except asyncio.CancelledError:
            talk.connection = None  # it did not stop in time: what it runs still has the session
            raise
        finally:
            del self._talks[process]
            self._tell_clients()
            if talk.connection:
                await self._work(talk.connection.close)

    def _open(self, client: Client) -> Connection:
        session = self._backend.open(client)
        try:
            return Connection(session, client)
        except BaseException:
            session.close()
            raise

    async def _work(self, function: Callable[_P, _T], *args: _P.args, **options: _P.kwargs) -> _T:
        return await self._loop.run_in_executor(self._pool, lambda: function(*args, **options))

    def _tell_clients(self) -> None:
        try:
            self.on_clients(self.clients)
        except Exception:  # a full disk must not cost a client its connection
            _LOG.warning("the number of clients could not be announced", exc_info=True)

    def _soon(self, function: Callable[_P, None], *args: _P.args, **options: _P.kwargs) -> None:
        """Have something called in the event loop."""
        with suppress(RuntimeError):  # the loop is closed, and with it all connections
            self._loop.call_soon_threadsafe(lambda: function(*args, **options))

    def _cancel(self, request: CancelRequest) -> None:
        talk = self._talks.get(request.process)
        if talk and talk.secret == request.secret & 0xFFFFFFFF:
            self._interrupt(talk)

    def _interrupt(self, talk: _Talk) -> None:
        """Stop what a client runs, if anything."""
        if talk.connection:
            task = self._loop.create_task(self._insist(talk.connection))
            self._interrupts.add(task)
            task.add_done_callback(self._interrupts.discard)

    async def _insist(self, connection: Connection) -> None:
        """Cancel until it has ended; not in the pool, which may be full of what is to be stopped."""
        step, pause = connection.cancel, 0.02
        while await self._loop.run_in_executor(self._cancels, step):
            await asyncio.sleep(pause)
            step, pause = connection.insist, min(1.0, 2 * pause)


def _say_farewell(wire: Wire) -> None:
    """End a connection; what it runs is cancelled."""
    error = StateError("57P01", "terminating connection due to administrator command")
    wire.write(failures.response(error, fatal=True))
    wire.close()
