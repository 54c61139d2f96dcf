"""Random and mutated messages of a client that must show a password, and of one that asks for TLS first.

Whoever does not show the right password is never let in; every refusal is an error that a client may be told.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import ssl
import struct
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from icestream.errors import IcestreamError
from icestream.server import messages
from icestream.server.auth import MECHANISM, Access, derive_keys
from tests.fuzz.mutations import Mutator
from tests.fuzz.served import check_error
from tests.services import certificates
from tests.unit.server import frames

PASSWORD = "pencil"
ACCESS = Access({"root": derive_keys(PASSWORD)})
FIRST = b"n,,n=,r=rOprNGfwEbeRWgbNEkqO"
FIRSTS = (
    FIRST, b"y,,n=root,r=a", b"p=tls-server-end-point,,n=,r=a", b"n,a=root,n=,r=a", b"n,,n=,r=a,x=1", b"n,,m=1,n=,r=a", b"",
)  # fmt: skip
MECHANISMS = (MECHANISM, "SCRAM-SHA-256-PLUS", "PLAIN", "")
INITIAL = frames.frame(b"p", MECHANISM.encode() + b"\0" + struct.pack("!i", len(FIRST)) + FIRST)
"""The choice of the mechanism and the first message, as they should be."""


def tls_context() -> ssl.SSLContext:
    """That of a server with a certificate of its own."""
    with tempfile.TemporaryDirectory() as folder:
        _, keystore = certificates.make(Path(folder))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keystore)
    return context


@cache
def salt_password(password: str, salt: bytes, iterations: int) -> bytes:
    """The slow part of an answer, once for each user."""
    return hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)


def answer_challenge(first: bytes, challenge: bytes, password: str) -> bytes:
    """A client's last message."""
    parts = dict(p.split(b"=", 1) for p in challenge.split(b","))
    salted = salt_password(password, base64.b64decode(parts[b"s"]), int(parts[b"i"]))
    key = hmac.digest(salted, b"Client Key", "sha256")
    header, bare = first[:3], first[3:]
    open = b"c=" + base64.b64encode(header) + b",r=" + parts[b"r"]
    signature = hmac.digest(
        hashlib.sha256(key).digest(), b",".join((bare, challenge, open)), "sha256"
    )
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return open + b",p=" + base64.b64encode(proof)


class AuthenticationFuzzer(Mutator):
    """A client that is wrong on purpose before it is let in."""

    def initial(self, data: bytes) -> bytes:
        """The choice of a mechanism, with the first message in it."""
        mechanism = MECHANISM if self.r.random() < 0.8 else self.r.choice(MECHANISMS)
        return frames.frame(b"p", mechanism.encode() + b"\0" + struct.pack("!i", len(data)) + data)

    def wrong(self, data: bytes) -> bytes:
        """Another message in the place of a right one."""
        match self.r.randrange(4):
            case 0:
                return self.noise(60)
            case 1:
                return self.r.choice((frames.query("SELECT 1"), frames.SYNC, frames.TERMINATE))
        return self.mutated(data)

    def check_exchange(self) -> None:
        """Both messages of an exchange in this process, one of them changed."""
        exchange = ACCESS.start_exchange(
            self.r.choice(("root", "root", "eve", "")), "127.0.0.1", encrypted=False
        )
        assert exchange is not None
        first = self.r.choice(FIRSTS)
        initial = self.initial(first)
        if self.r.random() < 0.5:
            initial = self.mutated(initial)
        final = b""
        try:
            opened = messages.message(bytearray(initial))
            if not isinstance(opened, messages.Password):
                return
            mechanism, data = messages.sasl_initial(opened)
            challenge = exchange.begin(mechanism, data)
            final = self.wrong(answer_challenge(first, challenge, PASSWORD + "s"))
            exchange.finish(final)
        except IcestreamError as error:
            check_error(error, repr((initial, final)))
            return
        raise AssertionError(f"let in without the password: {(initial, final)!r}")

    # -- through a socket -------------------------------------------------------------------------

    def check_socket(self, address: tuple[str, int], behind: bytes) -> None:
        """A client that sends something wrong somewhere; then one with the right password. `behind` is what the first one
        sends as if it were let in."""
        with frames.Client(address) as client:
            with suppress(OSError):  # the server has left already
                if self.r.random() < 0.2:
                    self.break_tls(client)
                else:
                    self.pretend(client, behind)
                client.socket.shutdown(socket.SHUT_WR)
            got = client.rest()
        assert messages.AUTHENTICATED not in got, got
        self.check_entry(address)

    def break_tls(self, client: frames.Client) -> None:
        """Agree upon TLS, and send something else."""
        client.send(struct.pack("!ii", 8, messages.SSL))
        assert client.socket.recv(1) == b"S"
        hello = b"\x16\x03\x01" + self.noise(80)
        client.send(self.r.choice((self.noise(100), frames.startup(user="root"), hello)))

    def pretend(self, client: frames.Client, behind: bytes) -> None:
        """Show no password or a wrong one, and go on as if it were right."""
        client.send(frames.startup(user="root", database="dev"))
        client.take()
        if self.r.random() < 0.3:
            client.send(self.wrong(INITIAL) + behind)
        else:
            client.send(INITIAL)
            _, challenge = client.take()
            final = frames.frame(b"p", answer_challenge(FIRST, challenge[4:], PASSWORD + "s"))
            client.send((self.wrong(final) if self.r.random() < 0.7 else final) + behind)

    def check_entry(self, address: tuple[str, int]) -> None:
        """Who knows the password is let in."""
        with frames.Client(address) as client:
            client.send(frames.startup(user="root", database="dev"))
            client.take()
            client.send(INITIAL)
            _, challenge = client.take()
            client.send(frames.frame(b"p", answer_challenge(FIRST, challenge[4:], PASSWORD)))
            assert ("R", messages.AUTHENTICATED[5:]) in client.until("Z")
