"""The options of Kafka sources and sinks, and the client properties they become.

Only properties from an allow-list reach the client: those that would make it load classes or read files
that the user did not name for that purpose are refused.
"""

from __future__ import annotations

from icestream.connectors import patterns
from icestream.errors import SqlError
from icestream.file_access import NamedFile
from icestream.sql.options import OptionSpec, PrefixSpec, Settings, Spec

PASS_THROUGH = (
    "client.id", "client.rack", "client.dns.lookup", "connections.max.idle.ms",
    "default.api.timeout.ms", "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes",
    "isolation.level", "max.partition.fetch.bytes", "max.poll.records", "metadata.max.age.ms",
    "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms",
    "request.timeout.ms", "retry.backoff.ms", "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms",
)  # fmt: skip

PRODUCER_PASS_THROUGH = (
    "acks", "batch.size", "buffer.memory", "client.id", "compression.type", "delivery.timeout.ms",
    "enable.idempotence", "linger.ms", "max.block.ms", "max.in.flight.requests.per.connection",
    "max.request.size", "request.timeout.ms", "retries", "retry.backoff.ms",
)  # fmt: skip

LARGE_FETCHES = {
    "isolation.level": "read_committed",
    # Spark asks for the partition's first and last offset after every poll: few large polls, then.
    "max.poll.records": "50000",
    # And those questions queue behind a fetch that waits for more to come.
    "fetch.max.wait.ms": "5",
    "max.partition.fetch.bytes": str(8 << 20),
    "fetch.max.bytes": str(64 << 20),
    "receive.buffer.bytes": str(1 << 20),
}
"""What consumers get unless the options say otherwise."""

FEW_RECORDS = 100
"""Records that they poll at most while records are large. A fetch is limited in bytes before it is unpacked, not after."""

LONGEST_TIMEOUT = 60
"""Seconds that a client waits at most for one answer. Longer timeouts are shortened to that."""
_TIMEOUTS = (
    "default.api.timeout.ms", "max.block.ms", "request.timeout.ms",
    "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms",
)  # fmt: skip

CONNECTION: tuple[OptionSpec, ...] = (
    OptionSpec(
        "properties.bootstrap.server",
        required=True,
        aliases=("kafka.brokers", "properties.bootstrap.servers"),
        help="broker addresses, host:port with commas between them",
    ),
    OptionSpec(
        "properties.security.protocol",
        choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        default="PLAINTEXT",
        help="how to talk to the brokers",
    ),
    OptionSpec(
        "properties.sasl.mechanism",
        choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        help="how to log in",
    ),
    OptionSpec("properties.sasl.username", help="the user to log in as"),
    OptionSpec("properties.sasl.password", secret=True, help="its password"),
    OptionSpec("properties.ssl.ca.location", help="a PEM file with the authorities to trust"),
    OptionSpec(
        "properties.ssl.certificate.location", help="a PEM file with the client's certificate"
    ),
    OptionSpec("properties.ssl.key.location", help="a PEM file with the client's private key"),
    OptionSpec("properties.ssl.key.password", secret=True, help="the private key's password"),
    OptionSpec(
        "properties.ssl.endpoint.identification.algorithm",
        choices=("https", "none"),
        default="https",
        help="whether the broker's certificate must name its host",
    ),
    OptionSpec(
        "properties.timeout",
        "int",
        30,
        "seconds to wait for an answer of the brokers, at most 60",
        least=1,
    ),
)

OPTIONS: tuple[Spec, ...] = (
    *CONNECTION,
    OptionSpec("topic", help="the topic, or several with commas between them"),
    OptionSpec("topic.regex", help="instead of topic: all topics whose whole name matches (RE2)"),
    OptionSpec(
        "scan.startup.mode",
        choices=("earliest", "latest", "timestamp"),
        default="earliest",
        help="where to begin when the source is created",
    ),
    OptionSpec(
        "scan.startup.timestamp.millis", "int", help="begin at records of this time (ms since 1970)"
    ),
    OptionSpec("group.id.prefix", default="icestream", help="how the consumer group's name begins"),
    OptionSpec("source_rate_limit", "int", help="records a second that are taken at most", least=1),
    PrefixSpec("properties.", "other consumer properties", PASS_THROUGH),
)


def check(settings: Settings) -> None:
    """Options that need or exclude each other."""
    if (settings["topic"] is None) == (settings["topic.regex"] is None):
        raise SqlError(f"{settings.what} needs the option topic (or topic.regex, not both)")
    if settings["topic.regex"] is not None:
        try:
            patterns.check(settings["topic.regex"])
        except ValueError as error:
            raise SqlError(
                f"topic.regex is not a regular expression: {error}",
                place=settings.place("topic.regex"),
                remedy="it is read as RE2 does: without look-around, back-references and possessive quantifiers",
            ) from None
    timed = settings["scan.startup.timestamp.millis"] is not None
    if settings["scan.startup.mode"] == "timestamp" and not timed:
        raise SqlError(
            "scan.startup.mode = 'timestamp' needs scan.startup.timestamp.millis",
            place=settings.place("scan.startup.mode"),
        )
    check_connection(settings)


def check_connection(settings: Settings) -> None:
    """SASL needs a mechanism, a user and a password."""
    if settings.string("properties.security.protocol").startswith("SASL"):
        for name in ("mechanism", "username", "password"):
            if settings[f"properties.sasl.{name}"] is None:
                raise SqlError(
                    f"{settings.what} logs in with SASL and needs the option properties.sasl.{name}",
                    place=settings.place("properties.security.protocol"),
                )


def named_files(settings: Settings) -> list[NamedFile]:
    """Certificates and keys."""
    names = [f"properties.ssl.{name}.location" for name in ("ca", "certificate", "key")]
    return [
        NamedFile(name, settings.string(name), settings.place(name))
        for name in names
        if settings[name] is not None
    ]


def client_properties(settings: Settings, family: tuple[str, ...] = PASS_THROUGH) -> dict[str, str]:
    """The Java client's properties. They hold secrets: never print them."""
    known = {f"properties.{name}" for name in family}
    properties = {
        name.removeprefix("properties."): str(settings[name])
        for name in settings
        if name in known and settings.given(name)
    }
    for name in set(_TIMEOUTS) & properties.keys():
        if properties[name].isdigit():
            properties[name] = str(min(int(properties[name]), 1000 * LONGEST_TIMEOUT))
    # Once no known broker answers, look for them at the configured addresses again: they may have moved.
    properties["metadata.recovery.strategy"] = "rebootstrap"
    properties["bootstrap.servers"] = settings.string("properties.bootstrap.server")
    properties["security.protocol"] = settings.string("properties.security.protocol")
    if family is PASS_THROUGH:
        properties = LARGE_FETCHES | properties
    return properties | _sasl(settings) | _tls(settings)


def answer_timeout(settings: Settings) -> int:
    """Seconds to wait for one answer of the brokers."""
    return min(settings.integer("properties.timeout"), LONGEST_TIMEOUT)


def _sasl(settings: Settings) -> dict[str, str]:
    if (mechanism := settings.optional("properties.sasl.mechanism")) is None:
        return {}
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    user = _jaas(settings.string("properties.sasl.username"))
    password = _jaas(settings.string("properties.sasl.password"))
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required "
        f"username={user} password={password};",
    }


def _jaas(text: str) -> str:
    """A quoted value. A line break would end it, and what follows would be read as further options."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}
    return '"' + "".join(escapes.get(c, c) for c in text) + '"'


def _tls(settings: Settings) -> dict[str, str]:
    properties: dict[str, str] = {}
    if ca := settings.optional("properties.ssl.ca.location"):
        properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": ca}
    if certificate := settings.optional("properties.ssl.certificate.location"):
        key = settings.optional("properties.ssl.key.location")
        if key is None:
            raise SqlError(
                f"{settings.what} needs properties.ssl.key.location beside the certificate"
            )
        properties |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _file(certificate),
            "ssl.keystore.key": _file(key),
        }
    if password := settings.optional("properties.ssl.key.password"):
        properties["ssl.key.password"] = password
    if settings["properties.ssl.endpoint.identification.algorithm"] == "none":
        properties["ssl.endpoint.identification.algorithm"] = ""
    return properties


def _file(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError as error:
        raise SqlError(f"{path} cannot be read: {error.strerror}") from error
