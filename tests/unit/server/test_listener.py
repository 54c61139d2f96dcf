"""A live listener: hostile bytes, clients that vanish, limits, a clean stop."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from icestream.errors import ConfigError
from icestream.server import messages as m
from icestream.server.backend import Client as ServerClient
from icestream.server.backend import Outcome
from icestream.server.listener import Listener
from tests.unit.server import frames
from tests.unit.server.duck import DuckBackend, DuckSession
from tests.unit.server.frames import SYNC, Client, bind, execute, fields, parse, query

SLOW = "select count(*) from range(100000000) a, range(100000000) b"


def soon(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_one_question(server: Listener) -> None:
    with Client(server.address) as client:
        kinds = "".join(kind for kind, _ in client.start())
        assert kinds.startswith("RS")
        assert kinds.endswith("KZ")
        client.send(query("select 42"))
        assert frames.values(client.until("Z")[1][1]) == [b"42"]


def test_bytes_that_come_one_by_one(server: Listener) -> None:
    with Client(server.address) as client:
        for byte in frames.startup(user="root") + query("select 1"):
            client.send(bytes([byte]))
        client.until("Z")
        assert [kind for kind, _ in client.until("Z")] == ["T", "D", "C", "Z"]


def test_an_older_or_newer_protocol(server: Listener) -> None:
    with Client(server.address) as client:
        client.send(frames.startup(2 << 16))
        assert b"unsupported frontend protocol 2.0" in client.rest()
    with Client(server.address) as client:
        client.send(frames.startup((3 << 16) + 2, user="root", **{"_pq_.moon": "full"}))
        kind, body = client.take()
        assert (kind, body) == ("v", struct.pack("!ii", 3 << 16, 1) + b"_pq_.moon\0")
        client.until("Z")


def test_who_is_it(server: Listener) -> None:
    for parameters, code in (
        ({"database": "dev"}, "28000"),
        ({"user": "root", "replication": "database"}, "0A000"),
        ({"user": "root", "database": "nowhere"}, "3D000"),
        ({"user": "root", "client_encoding": "LATIN1"}, "0A000"),
        ({"user": "root", "options": "-x"}, "42601"),
    ):
        with Client(server.address) as client:
            client.send(frames.startup(**parameters))
            assert f"C{code}\0".encode() in client.rest()


def test_settings_by_options(server: Listener) -> None:
    with Client(server.address) as client:
        told = client.start(options="-c TimeZone=Asia/Kolkata --application-name=a\\ b")
        assert ("S", b"TimeZone\0Asia/Kolkata\0") in told
        assert ("S", b"application_name\0a b\0") in told


def test_encryption_that_is_not_offered(server: Listener) -> None:
    with Client(server.address) as client:
        for code in (m.GSS, m.SSL):
            client.send(struct.pack("!ii", 8, code))
            assert client.socket.recv(1) == b"N"
        client.start()
    with Client(server.address) as client:
        client.send(struct.pack("!ii", 8, m.SSL) * 9)
        assert b"too many requests" in client.rest()


HOSTILE = [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x00\xa5\x01\x00",
    b"\xff" * 100,
    struct.pack("!ii", 2**31 - 1, 3 << 16),
    struct.pack("!iiii", 16, m.CANCEL, 1, 1),
    struct.pack("!ii", 8, 3 << 16),
]
HOSTILE_LATER = [
    b"\0",
    b"!!!!!!!!!!",
    b"Q\xff\xff\xff\xff",
    b"Q\x7f\xff\xff\xff" + b"x" * 1000,
    b"S\0\0\xff\xff\xff",
    frames.frame(b"B", b"\0\0\0\x05"),
    frames.frame(b"p", b"x"),
    frames.frame(b"Q", b"a\0b\0"),
    frames.frame(b"D", b"?\0"),
]


def test_hostile_bytes_cost_one_connection(server: Listener, backend: DuckBackend) -> None:
    with Client(server.address) as witness:
        witness.start()
        for data in HOSTILE:
            with Client(server.address) as client:
                client.send(data)
                client.socket.shutdown(socket.SHUT_WR)
                client.rest()
        for data in HOSTILE_LATER:
            with Client(server.address) as client:
                client.start()
                client.send(query("select 1") + data)
                answer = client.rest()
                assert b"FATAL" in answer
                assert b"08P01" in answer
            witness.send(query("select 1"))
            assert len(witness.until("Z")) == 4
    soon(lambda: backend.opened == backend.closed)


def test_noise(server: Listener, backend: DuckBackend) -> None:
    dice = random.Random(6)
    good = [query("select 1"), parse("select $1::int"), bind(b"1"), execute(), SYNC, query("selec")]
    with Client(server.address) as witness:
        witness.start()
        for turn in range(150):
            data = bytearray(b"".join(dice.choices(good, k=5)))
            for _ in range(dice.randint(0, 5)):
                data[dice.randrange(len(data))] = dice.randrange(256)
            with Client(server.address) as client:
                if turn % 5:
                    client.start()
                else:
                    data[:0] = frames.startup(user="root")
                    data[dice.randrange(20)] ^= 1 << dice.randrange(8)
                client.send(bytes(data[: dice.randrange(len(data))] if turn % 2 else data))
                if turn % 3:
                    client.socket.shutdown(socket.SHUT_WR)
                    client.rest()
        witness.send(query("select 1"))
        assert len(witness.until("Z")) == 4
    soon(lambda: backend.opened == backend.closed)
    soon(lambda: server.clients == 0)


def test_a_client_that_vanishes_is_noticed(server: Listener, backend: DuckBackend) -> None:
    client = Client(server.address)
    client.start()
    client.send(query(SLOW))
    backend.wait(running=1)
    client.socket.close()
    backend.wait(cancelled=1, closed=1)
    assert server.clients == 0
    cancelled = backend.cancelled
    time.sleep(0.1)
    assert backend.cancelled == cancelled


@pytest.mark.parametrize("reset", [False, True])
def test_a_client_that_vanishes_after_sending_much_is_noticed(
    server: Listener, backend: DuckBackend, reset: bool
) -> None:
    """Nothing more is read of it, so its end is not read either."""
    with Client(server.address) as client:
        client.start()
        client.send(query(SLOW))
        backend.wait(running=1)
        client.send(query("select 1") * 30_000)
        if reset:
            linger = struct.pack("ii", 1, 0)
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    backend.wait(cancelled=1, closed=1)


def test_a_client_that_vanishes_between_rows(server: Listener, backend: DuckBackend) -> None:
    client = Client(server.address)
    client.start()
    client.send(query("select repeat('x', 1000) from range(10000000)"))
    client.take()
    client.socket.close()
    backend.wait(closed=1)
    cancelled = backend.cancelled
    time.sleep(0.1)
    assert backend.cancelled == cancelled


def test_a_client_that_does_not_read_holds_back_the_rows(
    server: Listener, backend: DuckBackend
) -> None:
    with Client(server.address) as slow, Client(server.address) as other:
        slow.start()
        slow.send(query("select repeat('x', 1000) from range(10000000)"))
        time.sleep(0.5)
        other.start()
        other.send(query("select 1"))
        assert len(other.until("Z")) == 4
        assert not backend.closed
    soon(lambda: backend.closed == 2)


def test_cancel(server: Listener, backend: DuckBackend) -> None:
    with Client(server.address) as client:
        key = dict(client.start())["K"]
        client.send(query(SLOW))
        backend.wait(running=1)
        for wrong in (key[:4] + bytes(4), bytes(8), key):
            with Client(server.address) as messenger:
                messenger.send(struct.pack("!ii", 16, m.CANCEL) + wrong)
                assert messenger.rest() == b""
        told = client.until("Z")
        assert fields(told[-2][1])["C"] == "57014"
        with Client(server.address) as messenger:
            messenger.send(struct.pack("!ii", 16, m.CANCEL) + key)
            messenger.rest()
        client.send(query("select 1"))
        assert len(client.until("Z")) == 4


def test_cancel_reaches_a_full_pool(backend: DuckBackend) -> None:
    with Listener(backend, port=0, threads=2) as server:
        host, port = server.address
        url = f"host={host} port={port} user=root"
        clients = [psycopg.connect(url, autocommit=True) for _ in range(4)]
        with ThreadPoolExecutor(4) as pool:
            running = [pool.submit(client.execute, SLOW) for client in clients]
            backend.wait(running=2)
            for client in clients:
                client.cancel_safe(timeout=10)
            for one in running:
                with pytest.raises(psycopg.errors.QueryCanceled):
                    one.result(10)
        for client in clients:
            client.close()


def test_too_many_clients(backend: DuckBackend) -> None:
    with Listener(backend, port=0, connections=2) as server:
        clients = [Client(server.address) for _ in range(2)]
        for client in clients:
            client.start()
        with Client(server.address) as late:
            late.send(frames.startup(user="root"))
            assert b"C53300\0" in late.rest()
        clients[0].send(frames.TERMINATE)
        assert clients[0].rest() == b""
        soon(lambda: server.clients == 1)
        with Client(server.address) as next_one:
            next_one.start()
        for client in clients:
            client.socket.close()


def test_who_does_not_come_in_has_to_go(backend: DuckBackend) -> None:
    with Listener(backend, port=0, connections=2, patience=0.3) as server:
        silent = [Client(server.address) for _ in range(30)]
        assert all(client.rest() == b"" for client in silent)
        with Client(server.address) as client:
            client.start()
            time.sleep(0.5)
            client.send(query("select 1"))
            assert len(client.until("Z")) == 4


def test_a_clean_stop(backend: DuckBackend) -> None:
    server = Listener(backend, port=0)
    server.start()
    idle, busy, new = (Client(server.address) for _ in range(3))
    idle.start()
    busy.start()
    busy.send(query(SLOW))
    backend.wait(running=1)
    begun = time.monotonic()
    server.stop()
    assert time.monotonic() - begun < 4
    for client in (idle, busy, new):
        kind, body = client.take()
        assert kind == "E"
        assert fields(body)["C"] == "57P01"
        assert client.rest() == b""
    assert backend.opened == backend.closed == 2
    with pytest.raises(ConnectionRefusedError):
        Client(server.address)
    assert not [t for t in threading.enumerate() if t.name == "icestream-server"]


class Stubborn(DuckBackend):
    """Its sessions do not stop."""

    def open(self, client: ServerClient) -> DuckSession:
        session = super().open(client)
        session.run = self.run  # type: ignore[method-assign]
        return session

    def run(self, statement: object, parameters: object, types: object = ()) -> Outcome:
        self.count(running=1)
        time.sleep(2)
        return Outcome("SLEEP")


def test_a_stop_does_not_wait_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    backend = Stubborn()
    server = Listener(backend, port=0)
    server.start()
    with Client(server.address) as client:
        client.start()
        client.send(query("select 1"))
        backend.wait(running=1)
        begun = time.monotonic()
        server.stop(grace=0.3)
        assert time.monotonic() - begun < 1.5
        assert fields(client.take()[1])["C"] == "57P01"
    assert "1 sessions did not end in time" in caplog.text
    assert not backend.closed
    server.stop()


def test_a_listener_that_never_started(backend: DuckBackend) -> None:
    Listener(backend, port=0).stop()


def test_a_port_that_is_taken(server: Listener, backend: DuckBackend) -> None:
    with pytest.raises(ConfigError, match="cannot listen on"):
        Listener(backend, port=server.address[1]).start()


def test_a_hundred_wait_and_sixteen_ask(server: Listener, url: str) -> None:
    idle = [Client(server.address) for _ in range(100)]
    for client in idle:
        client.start()
    threads = len([t for t in threading.enumerate() if t.name.startswith("icestream-se")])
    assert threads <= 40

    def ask(number: int) -> int:
        with psycopg.connect(url, autocommit=True) as client:
            return sum(
                client.execute("select %s::int + 1", (number,)).fetchone()[0] for _ in range(20)
            )

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(ask, range(16))) == [20 * (number + 1) for number in range(16)]
    for client in idle:
        client.send(query("select 1"))
        assert len(client.until("Z")) == 4
        client.socket.close()
    soon(lambda: server.clients == 0)


def test_a_count_that_cannot_be_announced_costs_nobody_anything(
    server: Listener, backend: DuckBackend
) -> None:
    """Not even where the disk is full."""

    def full(clients: int) -> None:
        raise OSError(28, "No space left on device")

    server.on_clients = full
    for _ in range(3):
        with Client(server.address) as client:
            client.start()
            client.send(query("select 42"))
            assert frames.values(client.until("Z")[1][1]) == [b"42"]
    backend.wait(closed=3)
    soon(lambda: server.clients == 0)
