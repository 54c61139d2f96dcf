"""The start of a connection: encryption, who it is, whether that is true."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping

from icestream.server import messages as m
from icestream.server.auth import Access, ScramExchange
from icestream.server.backend import Client, StateError
from icestream.server.wire import Wire

_OPTION = re.compile(r"(?:-c\s*|--)(?P<name>[\w.-]+)=(?P<value>(?:[^\s\\]|\\.)*)\s*")


async def enter(
    wire: Wire, access: Access, tls: ssl.SSLContext | None, patience: float
) -> Client | m.CancelRequest | None:
    """A client that was let in, or what a connection wants cancelled; None if it left."""
    for _ in range(3):  # GSSAPI? TLS? and then it starts
        first = await wire.first()
        if not isinstance(first, m.EncryptionRequest):
            break
        if first.tls and tls and not wire.encrypted:
            await wire.secure(tls, patience)
        else:
            wire.write(b"N")
    if isinstance(first, m.EncryptionRequest):
        raise m.ProtocolError("too many requests for encryption")
    if not isinstance(first, m.Startup):
        return first
    unknown = [name for name in first.parameters if name.startswith("_pq_.")]
    if unknown or first.version > m.PROTOCOL:
        wire.write(m.negotiate(unknown))
    client = _client(first.parameters, wire)
    exchange = access.start_exchange(client.user, client.address, wire.encrypted)
    if exchange and not await _authenticate(wire, exchange):
        return None
    wire.write(m.AUTHENTICATED)
    return client


def _client(parameters: Mapping[str, str], wire: Wire) -> Client:
    given = dict(parameters)
    user = given.pop("user", "")
    if not user:
        raise StateError("28000", "no PostgreSQL user name specified in startup packet")
    if given.pop("replication", "false").lower() not in ("false", "off", "no", "0"):
        raise StateError("0A000", "replication connections are not supported")
    database = given.pop("database", "") or user
    given |= _options(given.pop("options", ""))
    return Client(user, database, given, wire.address, wire.encrypted)


def _options(text: str) -> dict[str, str]:
    """The settings in `-c name=value --other=value`."""
    found: dict[str, str] = {}
    at = len(text) - len(text.lstrip())
    while at < len(text):
        option = _OPTION.match(text, at)
        if option is None:
            raise StateError(
                "42601", f"invalid command-line argument for server process: {text[at:]}"
            )
        name = option["name"].replace("-", "_")
        found[name] = re.sub(r"\\(.)", r"\1", option["value"], flags=re.DOTALL)
        at = option.end()
    return found


async def _authenticate(wire: Wire, exchange: ScramExchange) -> bool:
    """SCRAM; an error if the password is wrong, False if the client left."""
    wire.write(m.sasl(exchange.mechanisms))
    if (answer := await _password(wire)) is None:
        return False
    wire.write(m.sasl_continue(exchange.begin(*m.sasl_initial(answer))))
    if (answer := await _password(wire)) is None:
        return False
    wire.write(m.sasl_final(exchange.finish(answer.data)))
    return True


async def _password(wire: Wire) -> m.Password | None:
    message = await wire.message()
    if message is None or isinstance(message, m.Terminate):
        return None
    if not isinstance(message, m.Password):
        raise m.ProtocolError("expected SASL response")
    return message
