"""Who may come in: everybody from this machine, or who knows a password, shown by SCRAM-SHA-256.

A password is kept as a verifier, from which it cannot be had back. The exchange is RFC 5802 with the hash
of RFC 7677, without channel binding.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import re
import secrets
import stringprep
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field

from icestream.server.backend import StateError
from icestream.server.messages import ProtocolError

MECHANISM = "SCRAM-SHA-256"
ITERATIONS = 4096
_VERIFIER = re.compile(r"SCRAM-SHA-256\$(\d+):([^$:]+)\$([^$:]+):([^$:]+)")
_FIRST = re.compile(
    r"(?P<header>(?:n|y|p=[^,]*),(?:a=[^,]*)?,)(?P<bare>n=[^,]*,r=(?P<nonce>[!-+\--~]+)(?:,.*)?)"
)
_FINAL = re.compile(
    r"(?P<signed>c=(?P<binding>[^,]+),r=(?P<nonce>[^,]+)(?:,.*)?),p=(?P<proof>[^,]+)"
)


@dataclass(frozen=True)
class Verifier:
    """What is kept of a password, in PostgreSQL's words: SCRAM-SHA-256$iterations:salt$stored:server."""

    iterations: int
    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    @classmethod
    def of(cls, password: str, salt: bytes | None = None, iterations: int = ITERATIONS) -> Verifier:
        """The verifier of a password, with a salt of its own."""
        salt = salt or secrets.token_bytes(16)
        salted = hashlib.pbkdf2_hmac("sha256", _prepared(password).encode(), salt, iterations)
        stored = hashlib.sha256(_mac(salted, b"Client Key")).digest()
        return cls(iterations, salt, stored, _mac(salted, b"Server Key"))

    @classmethod
    def parse(cls, text: str) -> Verifier:
        """The verifier of its text; ValueError if it is none."""
        found = _VERIFIER.fullmatch(text)
        if found is None:
            raise ValueError("this is not a SCRAM-SHA-256 verifier")
        salt, stored, server = (
            base64.b64decode(part, validate=True) for part in found.groups()[1:]
        )
        if len(stored) != 32 or len(server) != 32:
            raise ValueError("this is not a SCRAM-SHA-256 verifier")
        return cls(int(found[1]), salt, stored, server)

    def __str__(self) -> str:
        salt, stored, server = map(_base64, (self.salt, self.stored_key, self.server_key))
        return f"{MECHANISM}${self.iterations}:{salt}${stored}:{server}"


@dataclass(frozen=True)
class Access:
    """The passwords, by user. Without any, whoever comes from this machine is trusted, and nobody else."""

    verifiers: Mapping[str, Verifier] = field(default_factory=dict)
    _pepper: bytes = field(
        default_factory=lambda: secrets.token_bytes(32), init=False, repr=False, compare=False
    )

    def exchange(self, user: str, address: str) -> Exchange | None:
        """The exchange that a user must pass; None if no password is needed."""
        if self.verifiers:
            known = self.verifiers.get(user)
            return Exchange(known or self._nobody(user), user, known is not None)
        if not _is_loopback(address):
            raise StateError(
                "28000",
                "without a password, connections are accepted only from the server's own machine",
                remedy="give the server a password",
            )
        return None

    def _nobody(self, user: str) -> Verifier:
        """A verifier that no password has: an unknown user looks as a known one does."""
        salt = _mac(self._pepper, user.encode())[:16]
        return Verifier(ITERATIONS, salt, bytes(32), bytes(32))


class Exchange:
    """The server's side of one SCRAM exchange: `first`, then `final`."""

    def __init__(
        self, verifier: Verifier, user: str = "", known: bool = True, nonce: str | None = None
    ) -> None:
        self._verifier = verifier
        self._user = user
        self._known = known
        self._own = nonce or secrets.token_urlsafe(18)
        self._header = self._bare = self._challenge = self._nonce = ""

    def first(self, data: bytes) -> bytes:
        """The client's first message → the challenge."""
        found = _FIRST.fullmatch(_text(data))
        if found is None:
            raise ProtocolError("malformed SCRAM message")
        if found["header"].startswith("p="):
            raise StateError(
                "0A000",
                "channel binding is not supported",
                remedy="connect with channel_binding=disable",
            )
        self._header, self._bare = found["header"], found["bare"]
        self._nonce = found["nonce"] + self._own
        salt = _base64(self._verifier.salt)
        self._challenge = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        return self._challenge.encode()

    def final(self, data: bytes) -> bytes:
        """The client's proof → the server's; a wrong one is an error."""
        found = _FINAL.fullmatch(_text(data))
        if found is None or not self._nonce:
            raise ProtocolError("malformed SCRAM message")
        if found["binding"] != _base64(self._header.encode()) or found["nonce"] != self._nonce:
            raise ProtocolError("SCRAM message does not belong to this exchange")
        signed = ",".join((self._bare, self._challenge, found["signed"])).encode()
        signature = _mac(self._verifier.stored_key, signed)
        try:
            proof = base64.b64decode(found["proof"], validate=True)
        except ValueError:
            proof = b""
        key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        right = hmac.compare_digest(hashlib.sha256(key).digest(), self._verifier.stored_key)
        if not right or not self._known or len(proof) != 32:
            raise StateError("28P01", f'password authentication failed for user "{self._user}"')
        return b"v=" + _base64(_mac(self._verifier.server_key, signed)).encode()


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError("malformed SCRAM message") from error


def _mac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _is_loopback(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback


_PROHIBITED = (
    stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3,
    stringprep.in_table_c4, stringprep.in_table_c5, stringprep.in_table_c6,
    stringprep.in_table_c7, stringprep.in_table_c8, stringprep.in_table_c9, stringprep.in_table_a1,
)  # fmt: skip


def _prepared(password: str) -> str:
    """SASLprep; a password that it forbids is used as it is, as PostgreSQL does."""
    kept = "".join(
        " " if stringprep.in_table_c12(c) else c for c in password if not stringprep.in_table_b1(c)
    )
    text = unicodedata.normalize("NFKC", kept)
    if not text or any(forbids(c) for c in text for forbids in _PROHIBITED):
        return password
    right = [stringprep.in_table_d1(c) for c in text]
    if any(right) and not (
        right[0] and right[-1] and not any(stringprep.in_table_d2(c) for c in text)
    ):
        return password
    return text
