"""Messages of PostgreSQL's protocol 3.0 as bytes: what clients send, read strictly, and what the server sends.

Nothing here has a state or touches a socket. A message that breaks the protocol is a ProtocolError, after
which nothing more of that client can be understood.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from icestream.server.backend import StateError

PROTOCOL = 3 << 16
CANCEL, SSL, GSS = (1234 << 16) + 5678, (1234 << 16) + 5679, (1234 << 16) + 5680
STARTUP_LIMIT = 10_000
SMALL_LIMIT = 10_000
LARGE_LIMIT = 64 * 1024 * 1024

_SHORT, _INT = struct.Struct("!h"), struct.Struct("!i")
_PAIR = struct.Struct("!ii")
_ROW = struct.Struct("!cih")
_NULL = _INT.pack(-1)


class ProtocolError(StateError):
    """The client does not speak the protocol."""

    def __init__(self, message: str, code: str = "08P01") -> None:
        super().__init__(code, message)


# -- what clients send -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Startup:
    """The first message: a version and parameters."""

    version: int
    parameters: dict[str, str]


@dataclass(frozen=True)
class CancelRequest:
    """The only message of a connection that wants the query of another one cancelled."""

    process: int
    secret: int


@dataclass(frozen=True)
class EncryptionRequest:
    """May we speak TLS (or GSSAPI) from here on?"""

    tls: bool


@dataclass(frozen=True)
class Query:
    """A text with statements to run."""

    sql: bytes


@dataclass(frozen=True)
class Parse:
    """Prepare a statement; 0 is a parameter type that is left open."""

    name: str
    sql: bytes
    types: tuple[int, ...]


@dataclass(frozen=True)
class Bind:
    """Make a portal of a prepared statement and values."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]


@dataclass(frozen=True)
class Describe:
    """What a statement (S) or portal (P) takes and gives."""

    kind: str
    name: str


@dataclass(frozen=True)
class Execute:
    """Run a portal; a limit of 0 is none."""

    portal: str
    limit: int


@dataclass(frozen=True)
class Close:
    """Forget a statement (S) or portal (P)."""

    kind: str
    name: str


@dataclass(frozen=True)
class Flush:
    """Send what there is."""


@dataclass(frozen=True)
class Sync:
    """The end of a series of messages; errors are forgotten."""


@dataclass(frozen=True)
class Terminate:
    """Good-bye."""


@dataclass(frozen=True)
class Password:
    """An answer in the exchange that authenticates."""

    data: bytes


@dataclass(frozen=True)
class FunctionCall:
    """An old way to call a function; not offered."""


@dataclass(frozen=True)
class CopyInput:
    """Data, end or failure of a COPY FROM STDIN; not offered, so they are late and ignored."""


First = Startup | CancelRequest | EncryptionRequest
Message = (
    Query | Parse | Bind | Describe | Execute | Close | Flush | Sync | Terminate | Password
    | FunctionCall | CopyInput
)  # fmt: skip

_LARGE = b"QPBdF"
_SMALL = b"DECHSXpcf"


class _Body:
    """Reads the parts of a message in order; asking for more than there is breaks the protocol."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, length: int) -> bytes:
        self._at += length
        if length < 0 or self._at > len(self._data):
            raise ProtocolError("insufficient data left in message")
        return self._data[self._at - length : self._at]

    def short(self) -> int:
        return int(_SHORT.unpack(self.take(2))[0])

    def integer(self) -> int:
        return int(_INT.unpack(self.take(4))[0])

    def shorts(self) -> tuple[int, ...]:
        return tuple(self.short() for _ in range(self.count()))

    def count(self) -> int:
        return self.short() & 0xFFFF

    def line(self) -> bytes:
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise ProtocolError("invalid string in message")
        found = self.take(end - self._at)
        self._at += 1
        return found

    def string(self) -> str:
        return self.line().decode(errors="replace")

    def value(self) -> bytes | None:
        length = self.integer()
        return None if length == -1 else self.take(length)

    def kind(self) -> str:
        kind = self.take(1)
        if kind not in (b"S", b"P"):
            raise ProtocolError("a message is for a statement (S) or a portal (P)")
        return kind.decode()

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def finish(self) -> None:
        if self._at != len(self._data):
            raise ProtocolError("invalid message format")


def first(buffer: bytearray) -> First | None:
    """Cut the first message off the buffer, or None if it is not complete yet."""
    if len(buffer) < 4:
        return None
    length = int(_INT.unpack_from(buffer)[0])
    if not 8 <= length <= STARTUP_LIMIT:
        raise ProtocolError("invalid length of startup packet")
    if len(buffer) < length:
        return None
    found = _first(_Body(bytes(buffer[4:length])))
    del buffer[:length]
    return found


def _first(body: _Body) -> First:
    code = body.integer()
    if code in (SSL, GSS):
        body.finish()
        return EncryptionRequest(tls=code == SSL)
    if code == CANCEL:
        request = CancelRequest(body.integer(), body.integer())
        body.finish()
        return request
    if code >> 16 != 3:
        found = f"{code >> 16}.{code & 0xFFFF}"
        raise ProtocolError(f"unsupported frontend protocol {found}: server supports 3.0", "0A000")
    parameters: dict[str, str] = {}
    while name := body.string():
        parameters[name] = body.string()
    body.finish()
    return Startup(code, parameters)


def message(buffer: bytearray, limit: int = LARGE_LIMIT) -> Message | None:
    """Cut the next message off the buffer, or None if it is not complete yet."""
    if not buffer:
        return None
    if buffer[0] not in _LARGE + _SMALL:
        raise ProtocolError(f"invalid frontend message type {buffer[0]}")
    if len(buffer) < 5:
        return None
    length = int(_INT.unpack_from(buffer, 1)[0])
    if not 4 <= length <= (limit if buffer[0] in _LARGE else min(limit, SMALL_LIMIT)):
        raise ProtocolError("invalid message length")
    if len(buffer) < length + 1:
        return None
    body = _Body(bytes(buffer[5 : length + 1]))
    found = _read(chr(buffer[0]), body)
    body.finish()
    del buffer[: length + 1]
    return found


def _read(kind: str, body: _Body) -> Message:
    match kind:
        case "Q":
            return Query(body.line())
        case "P":
            name, sql, count = body.string(), body.line(), body.count()
            return Parse(name, sql, tuple(body.integer() & 0xFFFFFFFF for _ in range(count)))
        case "B":
            portal, statement, formats = body.string(), body.string(), body.shorts()
            values = tuple(body.value() for _ in range(body.count()))
            return Bind(portal, statement, formats, values, body.shorts())
        case "D":
            return Describe(body.kind(), body.string())
        case "E":
            return Execute(body.string(), body.integer())
        case "C":
            return Close(body.kind(), body.string())
        case "p":
            return Password(body.rest())
        case "F":
            body.rest()
            return FunctionCall()
        case "H":
            return Flush()
        case "S":
            return Sync()
        case "X":
            return Terminate()
        case _:
            body.rest()
            return CopyInput()


def sasl_initial(message: Password) -> tuple[str, bytes]:
    """The mechanism that a client chooses, and its first message in it."""
    body = _Body(message.data)
    mechanism, data = body.string(), body.value()
    body.finish()
    return mechanism, data or b""


# -- what the server sends ---------------------------------------------------------------------------


def _frame(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return kind + _INT.pack(len(body) + 4) + body


def _string(text: str) -> bytes:
    return text.replace("\0", "").encode(errors="replace") + b"\0"


def _shorts(values: Sequence[int]) -> bytes:
    return struct.pack(f"!H{len(values)}h", len(values), *values)


PARSE_COMPLETE = _frame(b"1")
BIND_COMPLETE = _frame(b"2")
CLOSE_COMPLETE = _frame(b"3")
NO_DATA = _frame(b"n")
PORTAL_SUSPENDED = _frame(b"s")
EMPTY_QUERY = _frame(b"I")
COPY_DONE = _frame(b"c")
AUTHENTICATED = _frame(b"R", _INT.pack(0))


def sasl(mechanisms: Iterable[str]) -> bytes:
    """Authenticate with one of these."""
    return _frame(b"R", _INT.pack(10), *map(_string, mechanisms), b"\0")


def sasl_continue(data: bytes) -> bytes:
    """The server's part of the exchange."""
    return _frame(b"R", _INT.pack(11), data)


def sasl_final(data: bytes) -> bytes:
    """The end of the exchange."""
    return _frame(b"R", _INT.pack(12), data)


def negotiate(options: Sequence[str]) -> bytes:
    """The newest version there is, and the protocol options that are not known."""
    return _frame(b"v", _PAIR.pack(PROTOCOL, len(options)), *map(_string, options))


def key_data(process: int, secret: int) -> bytes:
    """What a CancelRequest must name."""
    return _frame(b"K", struct.pack("!iI", process, secret))


def parameter_status(name: str, value: str) -> bytes:
    """A setting, as it is now."""
    return _frame(b"S", _string(name), _string(value))


def ready(transaction: str) -> bytes:
    """Waiting for the next query."""
    return _frame(b"Z", transaction.encode())


def command_complete(tag: str) -> bytes:
    """A statement is done."""
    return _frame(b"C", _string(tag))


def error_response(fields: Iterable[tuple[str, str]]) -> bytes:
    """An error, as (letter, text) pairs."""
    return _frame(b"E", *(k.encode() + _string(v) for k, v in fields), b"\0")


def notice_response(fields: Iterable[tuple[str, str]]) -> bytes:
    """A notice, as (letter, text) pairs."""
    return _frame(b"N", *(k.encode() + _string(v) for k, v in fields), b"\0")


def parameter_description(oids: Sequence[int]) -> bytes:
    """The types of a statement's parameters."""
    return _frame(b"t", struct.pack(f"!H{len(oids)}I", len(oids), *oids))


@dataclass(frozen=True)
class Field:
    """A column as RowDescription tells it."""

    name: str
    oid: int
    size: int
    modifier: int
    format: int


def row_description(fields: Sequence[Field]) -> bytes:
    """The columns of the rows to come."""
    parts = [struct.pack("!H", len(fields))]
    for field in fields:
        parts.append(_string(field.name))
        parts.append(
            struct.pack("!ihIhih", 0, 0, field.oid, field.size, field.modifier, field.format)
        )
    return _frame(b"T", *parts)


def data_row(values: Sequence[bytes | None]) -> bytes:
    """One row."""
    parts = [b""]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            parts.append(_INT.pack(len(value)))
            parts.append(value)
    body = b"".join(parts)
    return _ROW.pack(b"D", len(body) + 6, len(values)) + body


def copy_out(format: int, columns: int) -> bytes:
    """Rows come as COPY writes them."""
    return _frame(b"H", struct.pack("!b", format), _shorts([format] * columns))


def copy_data(data: bytes) -> bytes:
    """A piece of them."""
    return _frame(b"d", data)
