"""The bytes of one client: messages as they are complete, answers with back-pressure, the switch to TLS.

All of it runs in the event loop. Reading goes on while a query runs, so that a client that leaves is noticed,
until more than `AHEAD` bytes wait; from there on the system is asked.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

from icestream.server import messages
from icestream.server.messages import First, Message, ProtocolError

AHEAD = 256 * 1024
LOOK = 0.5
"""Seconds between two looks at whether a client is there that has sent more than is read."""
_ESTABLISHED = 1
_KEEP_ALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6))


class Wire(asyncio.Protocol):
    """One socket. `gone` is true once nothing more can come."""

    def __init__(self, on_made: Callable[[Wire], None]) -> None:
        self.gone = False
        self.encrypted = False
        self.on_gone: Callable[[], None] = lambda: None
        self.closed = asyncio.get_running_loop().create_future()
        self._on_made = on_made
        self._buffer = bytearray()
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._looking: asyncio.TimerHandle | None = None
        """The next look at whether the client is there, while nothing is read of it."""
        self._transport: asyncio.Transport

    # -- called by the loop ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        connected: socket.socket = transport.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEP_ALIVE:
            if hasattr(socket, name):
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self._on_made(self)

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        self._buffer += data
        self._arrived.set()
        if len(self._buffer) > AHEAD and self._looking is None:
            self._transport.pause_reading()
            self._looking = asyncio.get_running_loop().call_later(LOOK, self._look)

    def eof_received(self) -> None:
        """The client closed its side."""
        self._leave()

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is closed."""
        self._leave()
        if not self.closed.done():
            self.closed.set_result(None)

    def pause_writing(self) -> None:
        """The client reads more slowly than we write."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """It caught up."""
        self._writable.set()

    def _look(self) -> None:
        """Whether the client is still there, of whom nothing is read at present."""
        self._looking = None
        if self.gone:
            return
        if _is_closed(self._transport.get_extra_info("socket")):
            self._leave()
        else:
            self._looking = asyncio.get_running_loop().call_later(LOOK, self._look)

    def _leave(self) -> None:
        if not self.gone:
            self.gone = True
            if self._looking is not None:
                self._looking.cancel()
            self._arrived.set()
            self._writable.set()
            self.on_gone()

    # -- called by the server --------------------------------------------------------------------

    @property
    def address(self) -> str:
        """Where the client is."""
        peer = self._transport.get_extra_info("peername")
        return str(peer[0]) if peer else ""

    async def first(self) -> First | None:
        """The next message of a start-up; None if the client is gone."""
        while not self.gone:
            if found := messages.first(self._buffer):
                return found
            await self._more()
        return None

    async def message(self) -> Message | None:
        """The next message of a client that is not in yet: a small one; None if it is gone."""
        while not self.gone:
            if found := messages.message(self._buffer, messages.SMALL_LIMIT):
                return found
            await self._more()
        return None

    async def batch(self) -> list[Message]:
        """All messages that are there, at least one; none if the client is gone."""
        found: list[Message] = []
        while not self.gone:
            try:
                while one := messages.message(self._buffer):
                    found.append(one)
            except ProtocolError:
                if not found:  # what came before it is answered first
                    raise
            if found:
                break
            await self._more()
        return found

    async def _more(self) -> None:
        self._arrived.clear()
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        self._transport.resume_reading()
        await self._arrived.wait()

    async def send(self, data: bytes) -> None:
        """Write, and wait until the client has taken most of it."""
        self.write(data)
        await self._writable.wait()

    def write(self, data: bytes) -> None:
        """Write without waiting; nothing if the client is gone."""
        if not self.gone:
            self._transport.write(data)

    async def secure(self, context: ssl.SSLContext, patience: float) -> None:
        """Accept TLS; bytes that came before it are not taken for encrypted ones."""
        if self._buffer:
            raise ProtocolError("received unencrypted data after SSL request")
        self.write(b"S")
        try:
            self._transport = await asyncio.get_running_loop().start_tls(
                self._transport, self, context, server_side=True, ssl_handshake_timeout=patience
            )  # type: ignore[assignment]
            self.encrypted = True
        except OSError:
            self.abort()

    def close(self) -> None:
        """Send what is written, then close."""
        self._leave()
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._leave()
        self._transport.abort()
        if not self.closed.done():
            self.closed.set_result(None)


def _is_closed(connected: socket.socket) -> bool:
    """Whether the other side has closed a connection, as far as the system tells without reading."""
    info: int | None = getattr(socket, "TCP_INFO", None)
    if info is None:
        return False
    try:
        return connected.getsockopt(socket.IPPROTO_TCP, info, 1)[0] != _ESTABLISHED
    except OSError:
        return False
