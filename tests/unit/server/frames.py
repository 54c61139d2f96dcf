"""What a client sends, as bytes, and what it gets, cut into messages: a client that can be wrong on purpose."""

from __future__ import annotations

import socket
import struct


def frame(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def startup(version: int = 3 << 16, **parameters: str) -> bytes:
    pairs = b"".join(f"{k}\0{v}\0".encode() for k, v in parameters.items())
    body = struct.pack("!i", version) + pairs + b"\0"
    return struct.pack("!i", len(body) + 4) + body


def query(sql: str) -> bytes:
    return frame(b"Q", sql.encode() + b"\0")


def parse(sql: str, name: str = "", types: tuple[int, ...] = ()) -> bytes:
    oids = struct.pack(f"!h{len(types)}I", len(types), *types)
    return frame(b"P", f"{name}\0{sql}\0".encode() + oids)


def bind(
    *values: bytes | None,
    portal: str = "",
    name: str = "",
    formats: tuple[int, ...] = (),
    results: tuple[int, ...] = (),
) -> bytes:
    def shorts(items: tuple[int, ...]) -> bytes:
        return struct.pack(f"!h{len(items)}h", len(items), *items)

    sized = b"".join(
        struct.pack("!i", -1) if v is None else struct.pack("!i", len(v)) + v for v in values
    )
    count = struct.pack("!h", len(values))
    return frame(
        b"B", f"{portal}\0{name}\0".encode() + shorts(formats) + count + sized + shorts(results)
    )


def describe(kind: str, name: str = "") -> bytes:
    return frame(b"D", f"{kind}{name}\0".encode())


def execute(portal: str = "", limit: int = 0) -> bytes:
    return frame(b"E", portal.encode() + b"\0" + struct.pack("!i", limit))


def close(kind: str, name: str = "") -> bytes:
    return frame(b"C", f"{kind}{name}\0".encode())


SYNC, FLUSH, TERMINATE = frame(b"S"), frame(b"H"), frame(b"X")


def cut(data: bytes) -> list[tuple[str, bytes]]:
    """The messages that bytes are."""
    found = []
    while data:
        length = struct.unpack_from("!i", data, 1)[0]
        assert len(data) > length
        found.append((chr(data[0]), data[5 : length + 1]))
        data = data[length + 1 :]
    return found


def kinds(data: bytes) -> str:
    return "".join(kind for kind, _ in cut(data))


def fields(body: bytes) -> dict[str, str]:
    """Those of an error or a notice."""
    return {part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part}


def errors(data: bytes) -> list[dict[str, str]]:
    return [fields(body) for kind, body in cut(data) if kind == "E"]


def values(body: bytes) -> list[bytes | None]:
    """Those of a row."""
    found: list[bytes | None] = []
    at = 2
    for _ in range(struct.unpack_from("!h", body)[0]):
        length = struct.unpack_from("!i", body, at)[0]
        at += 4 + max(0, length)
        found.append(None if length < 0 else body[at - length : at])
    return found


class Client:
    """A bare socket."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=10)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def take(self) -> tuple[str, bytes]:
        head = self._exactly(5)
        return chr(head[0]), self._exactly(struct.unpack("!i", head[1:])[0] - 4)

    def until(self, kind: str) -> list[tuple[str, bytes]]:
        found = [self.take()]
        while found[-1][0] != kind:
            found.append(self.take())
        return found

    def start(self, **parameters: str) -> list[tuple[str, bytes]]:
        self.send(startup(**({"user": "root", "database": "dev"} | parameters)))
        return self.until("Z")

    def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        found = b""
        try:
            while data := self.socket.recv(65536):
                found += data
        except ConnectionError:
            pass
        return found

    def _exactly(self, length: int) -> bytes:
        found = b""
        while len(found) < length:
            data = self.socket.recv(length - len(found))
            if not data:
                raise ConnectionError
            found += data
        return found
