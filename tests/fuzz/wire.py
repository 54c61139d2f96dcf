"""Random and mutated messages of PostgreSQL's protocol, in every state of a connection; before it is let in: `authentication`.

    python -m tests.fuzz.wire --count 1000000 --seed 1

Most inputs are given to a connection in this process; some go through a real socket, from the first byte on. Every input ends in
well-formed answers, and in no error that is a mistake of ours; other clients are served all the while.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from icestream.errors import IcestreamError
from icestream.server import messages
from icestream.server.backend import Client
from icestream.server.connection import Connection
from icestream.server.listener import Listener
from icestream.server.service import Service
from tests.fuzz.authentication import ACCESS, AuthenticationFuzzer, tls_context
from tests.fuzz.command import main
from tests.fuzz.mutations import Mutator
from tests.fuzz.served import Watch, check_error, open_service
from tests.unit.server import frames

STATEMENTS = (
    "SELECT 1", "SELECT $1::int + $2", "SELECT * FROM pg_class WHERE oid = $1", "SELECT id FROM t", "", ";", "BEGIN",
    "COMMIT", "ROLLBACK", "SELECT", "SHOW TABLES", "SET TimeZone = 'UTC'", "SELECT 1; SELECT 2; SELECT nothing",
    "DECLARE c CURSOR FOR SELECT 1", "FETCH 1 FROM c", "CLOSE c", "COPY t FROM STDIN", "COPY (SELECT 1) TO STDOUT",
    "DEALLOCATE ALL", "SAVEPOINT a", "ROLLBACK TO a", "INSERT INTO t (id) VALUES ($1)", "SELECT '\u00e9', $3::text[]",
    "PREPARE p AS SELECT $1::int", "EXECUTE p (1)", "SHOW server_version", "SELECT pg_sleep(0)", "EXPLAIN SELECT 1",
    "LISTEN x", "SELECT current_setting('a.b')", "SELECT * FROM generate_series(1, 3)", "DISCARD ALL",
)  # fmt: skip
NAMES = ("", "a", "b", "\u00e9", "x" * 300)
OIDS = (
    0,
    16,
    17,
    20,
    21,
    23,
    25,
    700,
    701,
    1043,
    1082,
    1114,
    1184,
    1186,
    1700,
    2950,
    3802,
    1007,
    99999,
    4294967295,
)
VALUES = (
    None,
    b"",
    b"1",
    b"abc",
    b"\0\0\0\1",
    b"\xff" * 8,
    b"{1,2}",
    b"2024-01-01",
    b"\0" * 16,
    b"NaN",
    b"\x80",
)


class WireFuzzer(Mutator):
    """A client that is wrong on purpose."""

    def __init__(self, service: Service, seed: int) -> None:
        super().__init__(seed)
        self.service = service
        self.connection = self.open()
        self.sent = 0

    def open(self) -> Connection:
        """A connection that was let in."""
        client = Client("root", "dev", {})
        return Connection(self.service.open(client), client)

    # -- messages ---------------------------------------------------------------------------------

    def valid(self) -> bytes:
        """A message as a client would send it; its content need not make sense."""
        r = self.r
        name, portal = r.choice(NAMES), r.choice(NAMES)
        makers: tuple[Callable[[], bytes], ...] = (
            lambda: frames.query(r.choice(STATEMENTS)),
            lambda: frames.parse(
                r.choice(STATEMENTS), name, tuple(r.choices(OIDS, k=r.randrange(4)))
            ),
            lambda: frames.bind(
                *r.choices(VALUES, k=r.randrange(4)),
                portal=portal,
                name=name,
                formats=tuple(r.choices((0, 1, 2, -1), k=r.randrange(4))),
                results=tuple(r.choices((0, 1, 7), k=r.randrange(3))),
            ),
            lambda: frames.describe(r.choice("SPX"), name),
            lambda: frames.execute(portal, r.choice((0, 1, 2, -1, 2147483647))),
            lambda: frames.close(r.choice("SP"), name),
            lambda: frames.SYNC,
            lambda: frames.FLUSH,
            lambda: frames.frame(
                r.choice((b"d", b"c", b"f", b"F", b"p", b"H", b"X", b"z", b"\0")), self.noise(20)
            ),
        )
        return r.choice(makers)()

    def input(self) -> bytes:
        """Some messages, one after the other."""
        made = b""
        for _ in range(self.r.randrange(1, 6)):
            one = self.valid()
            made += self.mutated(one) if self.r.random() < 0.3 else one
        if self.r.random() < 0.02:
            made = self.noise(200)
        return made + (frames.SYNC if self.r.random() < 0.7 else b"")

    # -- in this process --------------------------------------------------------------------------

    def check(self, data: bytes) -> None:
        """Give bytes to the connection; raise AssertionError if it finds a mistake of ours."""
        self.sent += 1
        if self.connection.over or self.sent % 200 == 0:
            self.connection.close()
            self.connection = self.open()
        buffer, batch = bytearray(data), []
        try:
            while one := messages.message(buffer):
                batch.append(one)
        except IcestreamError as error:
            check_error(error, repr(data))
        out = b"".join(self.connection.answer(batch))
        for error in frames.errors(out):
            assert error["C"] != "XX000", f"{error['M']}: {data!r}"

    def check_first(self) -> None:
        """The first message of a client, changed."""
        data = self.mutated(self.r.choice((
            frames.startup(user="root", database="dev"), frames.startup(version=80877103),
            frames.startup(version=80877102), frames.startup(version=80877104), frames.startup(options="-c a=b"),
        )))  # fmt: skip
        try:
            messages.first(bytearray(data))
        except IcestreamError as error:
            check_error(error, repr(data))

    # -- through a socket -------------------------------------------------------------------------

    def check_socket(self, address: tuple[str, int]) -> None:
        """A client from its first byte on; then another one that behaves."""
        r = self.r
        with socket.create_connection(address, timeout=10) as client:
            opening = frames.startup(user="root", database="dev")
            try:
                client.sendall(self.mutated(opening) if r.random() < 0.5 else opening)
                client.sendall(b"".join(self.input() for _ in range(3)) + frames.TERMINATE)
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass
            except OSError:
                pass
        with frames.Client(address) as other:
            other.start()
            other.send(frames.query("SELECT 1"))
            answer = other.until("Z")
            assert "D" in [kind for kind, _ in answer], answer


def run(count: int, seed: int) -> int:
    """Try so many inputs; gives their number."""
    watch = Watch(count)
    with (
        open_service() as service,
        Listener(service, port=0, patience=2) as listener,
        Listener(service, port=0, patience=2, access=ACCESS, tls=tls_context()) as closed,
    ):
        fuzzer, stranger = WireFuzzer(service, seed), AuthenticationFuzzer(seed)
        for number in range(count):
            data = fuzzer.input()
            with watch.input(repr(data)):
                fuzzer.check(data)
                fuzzer.check_first()
            if number % 8 == 0:
                stranger.check_exchange()
            if number % 100 == 0:
                fuzzer.check_socket(listener.address)
                stranger.check_socket(closed.address, data)
        fuzzer.connection.close()
    return count


if __name__ == "__main__":
    main(__doc__, run)
