"""Authentication of clients: trust on loopback, or a password checked by SCRAM.

The exchange is done by `scramp` (RFC 5802, RFC 7677). Over TLS it can be bound to the server's certificate
(SCRAM-SHA-256-PLUS with tls-server-end-point, RFC 5929). Only keys derived from a password are kept.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from asn1crypto import pem
from asn1crypto.x509 import Certificate
from scramp import ScramException, ScramMechanism
from scramp.core import CBindData
from scramp.utils import ServerError

from icestream.errors import ConfigError
from icestream.server.backend import StateError
from icestream.server.messages import ProtocolError

MECHANISM = "SCRAM-SHA-256"
BOUND_MECHANISM = "SCRAM-SHA-256-PLUS"
BINDING_TYPE = "tls-server-end-point"

_USER_NAME = re.compile(r"^([^,]*,[^,]*,)n=[^,]*")
_UNHASHED_SIGNATURES = ("ed25519", "ed448")

ScramKeys = tuple[bytes, bytes, bytes, int]
"""Salt, stored key, server key, iterations."""


def derive_keys(password: str) -> ScramKeys:
    """The keys that check a password, with a new salt."""
    try:
        keys: ScramKeys = ScramMechanism(MECHANISM).make_auth_info(password)
    except ScramException as error:
        raise ConfigError(
            "the password has a character that SASLprep (RFC 4013) forbids",
            remedy="choose a password without control characters and unassigned code points",
        ) from error
    return keys


def hash_certificate(content: bytes) -> bytes | None:
    """Channel binding data of the first certificate in a PEM file.

    None if the certificate's signature algorithm names no hash function: clients cannot bind to it.
    """
    blocks = pem.unarmor(content, multiple=True)
    der = next(block for kind, _, block in blocks if kind == "CERTIFICATE")
    if Certificate.load(der).signature_algo in _UNHASHED_SIGNATURES:
        return None
    return bytes(CBindData.from_der(der))


@dataclass(frozen=True)
class Access:
    """Keys by user name. Without any, connections from this machine are trusted and others are refused.

    `certificate_hash` is the channel binding data of the TLS certificate.
    """

    keys: Mapping[str, ScramKeys] = field(default_factory=dict, repr=False)
    certificate_hash: bytes | None = None
    _decoy: ScramKeys = field(
        default_factory=lambda: derive_keys(secrets.token_hex()),
        init=False,
        repr=False,
        compare=False,
    )

    def start_exchange(self, user: str, address: str, encrypted: bool) -> ScramExchange | None:
        """The exchange that a user must complete; None if no password is needed."""
        if self.keys:
            keys = self.keys.get(user) or self._decoy_keys(user)
            return ScramExchange(user, keys, self.certificate_hash if encrypted else None)
        if not _is_loopback(address):
            raise StateError(
                "28000",
                "without a password, connections are accepted only from the server's own machine",
                remedy="give the server a password",
            )
        return None

    def _decoy_keys(self, user: str) -> ScramKeys:
        """Keys that no password has, so that an unknown user cannot be told from a known one."""
        salt, stored_key, server_key, iterations = self._decoy
        return hmac.digest(salt, user.encode(), "sha256"), stored_key, server_key, iterations


class ScramExchange:
    """The server's side of one exchange: `begin`, then `finish`. `mechanisms` are those offered, the best first."""

    def __init__(
        self,
        user: str,
        keys: ScramKeys,
        certificate_hash: bytes | None = None,
        nonce: str | None = None,
    ) -> None:
        self._user = user
        self._keys = keys
        self._binding = (BINDING_TYPE, certificate_hash) if certificate_hash else None
        self._nonce = nonce
        self.mechanisms = (BOUND_MECHANISM, MECHANISM) if self._binding else (MECHANISM,)

    def begin(self, mechanism: str, data: bytes) -> bytes:
        """The client's first message → the challenge."""
        if mechanism not in self.mechanisms:
            raise ProtocolError(f"the authentication mechanism {mechanism} was not offered")
        try:
            text = data.decode()
            self._server = ScramMechanism(mechanism).make_server(
                lambda _: self._keys, self._binding, self._nonce
            )
            # PostgreSQL's clients leave the user name empty, which RFC 5802 forbids: that of the startup message counts.
            self._server.set_client_first(_USER_NAME.sub(r"\1n=*", text))
            self._server.client_first_bare = text.split(",", 2)[2]
            return str(self._server.get_server_first()).encode()
        except (UnicodeDecodeError, ScramException) as error:
            raise self._convert_error(error) from error

    def finish(self, data: bytes) -> bytes:
        """The client's proof → the server's signature; raises for a wrong password."""
        try:
            self._server.set_client_final(data.decode())
            return str(self._server.get_server_final()).encode()
        except (UnicodeDecodeError, ScramException) as error:
            raise self._convert_error(error) from error

    def _convert_error(self, error: Exception) -> StateError | ProtocolError:
        match getattr(error, "server_error", None):
            case ServerError.INVALID_PROOF:
                return StateError(
                    "28P01", f'password authentication failed for user "{self._user}"'
                )
            case ServerError.CHANNEL_BINDINGS_DONT_MATCH:
                return StateError("28000", "SCRAM channel binding check failed")
            case ServerError.SERVER_DOES_SUPPORT_CHANNEL_BINDING:
                return StateError("28000", "SCRAM channel binding negotiation error")
            case (
                ServerError.CHANNEL_BINDING_NOT_SUPPORTED
                | ServerError.UNSUPPORTED_CHANNEL_BINDING_TYPE
            ):
                return StateError(
                    "0A000",
                    "this type of channel binding is not supported here",
                    remedy=f"use TLS and {BINDING_TYPE}, or connect with channel_binding=disable",
                )
        return ProtocolError("malformed SCRAM message")


def _is_loopback(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return (mapped or parsed).is_loopback
