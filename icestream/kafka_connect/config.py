"""The options of a CREATE CONNECTOR → a checked configuration: what to read, where to write, how records are routed.

Everything that can be wrong without asking a server is found here, at the key that is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from icestream.connectors import kafka_options, patterns
from icestream.connectors.iceberg_options import (
    check_http,
    check_table_name,
    foreign_scheme,
    sqlite_file,
)
from icestream.errors import NotSupportedError, Place, SqlError
from icestream.kafka_connect import keys
from icestream.sql.environment import resolve
from icestream.sql.options import OptionSpec, Secrets, Settings, Spec, check
from icestream.sql.statements import Option, Options

BOOTSTRAP = "KAFKA_BOOTSTRAP_SERVERS"
"""The environment variable that stands in for a Connect worker's own bootstrap.servers."""
OWN_NAMESPACES = ("public", "dead_letters", "icestream")
"""Namespaces of the embedded lake whose tables are the engine's."""

_PROVIDER = re.compile(r"\$\{[A-Za-z][\w-]*:[^}]*\}")
_JAAS = re.compile(
    r"\s*org\.apache\.kafka\.common\.security\.(?:plain\.Plain|scram\.Scram)LoginModule\s+required"
    r"((?:\s+\w+\s*=\s*(?:\"(?:[^\"\\]|\\.)*\"|[^\s;\"]+))*)\s*;\s*"
)
_JAAS_PAIR = re.compile(r"(\w+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s;\"]+))")
_PART = re.compile(
    r"\s*(?:(\w+)\s*\(\s*([^(),]+?)\s*(?:,\s*([^(),]+?)\s*)?\)|([^(),\s][^(),]*?))\s*"
)
_TRANSFORMS = {"year", "years", "month", "months", "day", "days", "hour", "hours"}
_SIZED = {"bucket", "truncate"}


@dataclass(frozen=True)
class Destination:
    """One table that the connector writes."""

    table: str
    """namespace.table, as written."""
    route: str | None = None
    """The pattern that the route field's whole value must match; None: every record."""
    partition_by: str | None = None
    """How the table is partitioned if the connector creates it: 'day(ts), bucket(16, id)'."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Namespace and name."""
        return tuple(self.table.split("."))


@dataclass(frozen=True)
class ConnectorConfig:
    """What a connector does."""

    kafka: Settings
    """The options of the Kafka source that it is."""
    destinations: tuple[Destination, ...]
    catalog: Mapping[str, str] | None = field(default=None, repr=False)
    """Iceberg's properties of the catalog, secrets among them; None: the embedded lake."""
    catalog_name: str = "iceberg"
    route_field: tuple[str, ...] = ()
    auto_create: bool = False
    evolve: bool = False
    force_optional: bool = False
    case_insensitive: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    """Of a table that it creates."""
    interval: float = 300.0
    """Seconds between commits."""
    schemas: bool | None = None
    """Whether values carry their schema; None: each record shows it."""

    @property
    def needs_aws(self) -> bool:
        """Whether the Java packages of the group `aws` have to be on the class path."""
        return self.catalog is not None and _on_aws(self.catalog)


def configure(
    options: Options, what: str, env: Mapping[str, str], secrets: Secrets | None, place: Place
) -> ConnectorConfig:
    """The configuration that the options give; `what` names the connector in errors."""
    for option in options.values():
        _refuse(option)
    written = {k: o for k, o in options.items() if k not in keys.OFF_ONLY and k != "name"}
    tables = _table_names(options.get("iceberg.tables"), env)
    settings = check(
        written, (*keys.KEYS, *_of_tables(tables)), what=what, env=env, secrets=secrets, place=place
    )
    catalog, route = _catalog(settings), settings.optional("iceberg.tables.route-field")
    return ConnectorConfig(
        kafka=_kafka(settings, env, place),
        destinations=_destinations(settings, embedded=catalog is None),
        catalog=catalog,
        catalog_name=settings.string("iceberg.catalog"),
        route_field=tuple(route.split(".")) if route else (),
        auto_create=settings.boolean("iceberg.tables.auto-create-enabled"),
        evolve=settings.boolean("iceberg.tables.evolve-schema-enabled"),
        force_optional=settings.boolean("iceberg.tables.schema-force-optional"),
        case_insensitive=settings.boolean("iceberg.tables.schema-case-insensitive"),
        properties=_properties(settings),
        interval=settings.integer("iceberg.control.commit.interval-ms") / 1000,
        schemas=settings["value.converter.schemas.enable"],
    )


def _refuse(option: Option) -> None:
    key = option.key
    if key in keys.OFF_ONLY and option.value.strip().lower() != "false":
        raise NotSupportedError(f"{key}: {keys.OFF_ONLY[key]}", place=option.place)
    for pattern, what in keys.REFUSED:
        if re.fullmatch(pattern, key) and key not in keys.KNOWN_CATALOG_CLASSES:
            raise NotSupportedError(f"{key}: {what}", place=option.place)
    if _PROVIDER.search(option.value):
        raise NotSupportedError(
            f"{key}: values from Connect's configuration providers",
            place=option.value_place,
            remedy="put the value into the environment and write ${NAME}",
        )


# -- tables ------------------------------------------------------------------------------------------


def _table_names(option: Option | None, env: Mapping[str, str]) -> list[str]:
    """The tables, before anything is checked: they name further keys."""
    text = resolve(option.value, env, option.value_place) if option else ""
    return [t.strip() for t in text.split(",") if t.strip()]


def _of_tables(tables: list[str]) -> list[Spec]:
    return [
        OptionSpec(f"iceberg.table.{table}.{name}")
        for table in dict.fromkeys(tables)
        for name in ("route-regex", "partition-by")
    ]


def _destinations(settings: Settings, *, embedded: bool) -> tuple[Destination, ...]:
    place = settings.place("iceberg.tables")
    found: dict[str, Destination] = {}
    for table in settings.list("iceberg.tables"):
        parts = table.split(".")
        if len(parts) < 2 or not all(parts):
            raise SqlError(
                f"iceberg.tables: {table!r} is not namespace.table", place=place, remedy="db.orders"
            )
        check_table_name(parts, "iceberg.tables", place)
        if embedded and parts[0] in OWN_NAMESPACES:
            raise SqlError(
                f"iceberg.tables: {table} would be the engine's own", place=place,
                remedy="choose another namespace",
            )  # fmt: skip
        if table in found:
            raise SqlError(f"iceberg.tables: {table} is there twice", place=place)
        found[table] = Destination(table, _route(settings, table), _partition(settings, table))
    return tuple(found.values())


def _route(settings: Settings, table: str) -> str | None:
    key = f"iceberg.table.{table}.route-regex"
    pattern, routed = settings.optional(key), settings["iceberg.tables.route-field"]
    if routed and pattern is None:
        raise SqlError(
            f"{settings.what} needs {key} beside iceberg.tables.route-field: "
            "without it no record would reach the table",
            place=settings.place("iceberg.tables.route-field"),
        )
    if pattern is None:
        return None
    if not routed:
        raise SqlError(
            f"{key} needs iceberg.tables.route-field: the field it is compared with",
            place=settings.place(key),
        )
    try:
        patterns.check(pattern)
    except ValueError as error:
        raise SqlError(
            f"{key} is not a regular expression that is supported: {error}",
            place=settings.place(key),
            remedy="it is read as RE2 does: without look-around, back-references and possessive quantifiers",
        ) from None
    return pattern


def _partition(settings: Settings, table: str) -> str | None:
    """The table's partitioning in the order of arguments that the engine's own sinks use."""
    key = f"iceberg.table.{table}.partition-by"
    if settings[key] is None:
        key = "iceberg.tables.default-partition-by"
    text = settings.optional(key)
    if not text or not text.strip():
        return None
    return ", ".join(
        _part(part, key, settings.place(key)) for part in re.split(r",(?![^()]*\))", text)
    )


def _part(part: str, key: str, place: Place | None) -> str:
    found = _PART.fullmatch(part)
    if found is None:
        raise SqlError(f"{key}: {part.strip()!r} is no partition", place=place)
    transform, first, second, column = found.groups()
    if column is not None:
        return str(column)
    name = transform.lower()
    if name in _TRANSFORMS and second is None:
        return f"{name}({first})"
    if name in _SIZED and second is not None:
        size, column = (first, second) if first.isdigit() else (second, first)
        if size.isdigit() and int(size):
            return f"{name}({size}, {column})"
    raise SqlError(
        f"{key}: {part.strip()!r} is no partition",
        place=place,
        remedy="a column, year(c), month(c), day(c), hour(c), bucket(c, 16) or truncate(c, 10)",
    )


def _properties(settings: Settings) -> dict[str, str]:
    prefix = "iceberg.tables.auto-create-props."
    found = settings.under(prefix)
    for name in found:
        if name.startswith("icestream."):
            raise SqlError(
                f"{prefix}{name} is the engine's own property", place=settings.place(prefix + name)
            )
    if found.get("format-version", "3") not in ("2", "3"):
        raise SqlError(
            f"{prefix}format-version accepts 2 or 3",
            place=settings.place(f"{prefix}format-version"),
        )
    return found


# -- the catalog -------------------------------------------------------------------------------------

_NEEDS = {
    "rest": ("uri",),
    "hive": ("uri",),
    "glue": ("warehouse",),
    "hadoop": ("warehouse",),
    "jdbc": ("uri", "warehouse"),
}


def _catalog(settings: Settings) -> dict[str, str] | None:
    """Iceberg's properties of the catalog; None, the embedded lake, if no key speaks of one."""
    prefix = "iceberg.catalog."
    given = settings.under(prefix)
    if not given:
        return None
    declared = given.pop("type", None)
    implied = keys.CATALOG_CLASSES.get(given.pop("catalog-impl", ""))
    kind = declared or implied
    if kind is None:
        raise SqlError(
            f"{settings.what} needs the option iceberg.catalog.type",
            place=settings.place(prefix + next(iter(given))),
            remedy="one of " + ", ".join(_NEEDS),
        )
    if declared and implied and declared != implied:
        raise SqlError(
            f"iceberg.catalog.catalog-impl is not of the type {declared}",
            place=settings.place(f"{prefix}catalog-impl"),
        )
    kind_key = f"{prefix}{'type' if declared else 'catalog-impl'}"
    for name in _NEEDS[kind]:
        if not given.get(name):
            raise SqlError(
                f"{settings.what} needs the option {prefix}{name} beside {kind_key}",
                place=settings.place(kind_key),
            )
    properties = {"type": kind, **given}
    _check_places(settings, properties)
    if kind == "jdbc":
        properties.setdefault("jdbc.schema-version", "V1")
    if kind != "rest" and _on_s3(properties):
        properties.setdefault("io-impl", keys.S3_FILE_IO)
    return properties


def _check_places(settings: Settings, properties: Mapping[str, str]) -> None:
    """Warehouses and addresses that the packages at hand can open."""
    kind, warehouse = properties["type"], properties.get("warehouse", "")
    scheme = foreign_scheme(warehouse)
    if kind != "rest" and scheme is not None:
        raise NotSupportedError(
            f"iceberg.catalog.warehouse on {scheme}://",
            place=settings.place("iceberg.catalog.warehouse"),
            remedy="s3://…, hdfs://… or a directory",
        )
    if kind == "hadoop" and _on_s3(properties):
        raise NotSupportedError(
            "iceberg.catalog.type = 'hadoop' on S3, where renaming a file is not atomic",
            place=settings.place("iceberg.catalog.warehouse"),
            remedy="a rest, glue or jdbc catalog with the same warehouse",
        )
    if kind == "rest":
        place = settings.place("iceberg.catalog.uri")
        check_http(properties["uri"], "iceberg.catalog.uri", place)
    if kind != "jdbc":
        return
    if not properties["uri"].startswith("jdbc:sqlite:"):
        raise NotSupportedError(
            "iceberg.catalog.uri: a JDBC catalog other than SQLite's",
            place=settings.place("iceberg.catalog.uri"),
            remedy="jdbc:sqlite:/path/catalog.db",
        )
    sqlite_file(properties["uri"], settings.place("iceberg.catalog.uri"))
    name = settings.string("iceberg.catalog")
    if name in ("lake", "spark_catalog") or not re.fullmatch(r"[\w-]+", name):
        raise SqlError(
            f"iceberg.catalog: a JDBC catalog cannot be called {name!r} here",
            place=settings.place("iceberg.catalog"),
            remedy="a name of letters, digits, - and _ that is not the embedded lake's",
        )


def _on_s3(properties: Mapping[str, str]) -> bool:
    warehouse = properties.get("warehouse", "").lower()
    return warehouse.startswith(("s3://", "s3a://")) or any(k.startswith("s3.") for k in properties)


def _on_aws(properties: Mapping[str, str]) -> bool:
    return (
        properties["type"] == "glue"
        or _on_s3(properties)
        or properties.get("io-impl") == keys.S3_FILE_IO
        or "client.region" in properties
        or properties.get("rest.sigv4-enabled") == "true"
    )


# -- Kafka -------------------------------------------------------------------------------------------


def _kafka(settings: Settings, env: Mapping[str, str], place: Place) -> Settings:
    """The same connection as options of a Kafka source."""
    if (settings["topics"] is None) == (settings["topics.regex"] is None):
        raise SqlError(f"{settings.what} needs topics (or topics.regex, not both)", place=place)
    values = {
        "topic": settings.optional("topics"),
        "topic.regex": settings.optional("topics.regex"),
        "properties.bootstrap.server": _bootstrap(settings, env, place),
    }
    if settings["topics.regex"] is not None:
        _check_regex("topics.regex", settings)
    for prefix in reversed(keys.CLIENTS):
        for name, value in settings.under(prefix).items():
            values |= _client(name, value, settings, prefix + name)
    if (values.get("properties.security.protocol") or "").startswith("SASL"):
        for name, wanted in (("mechanism", "mechanism"), ("username", "jaas.config")):
            if not values.get(f"properties.sasl.{name}"):
                raise SqlError(
                    f"{settings.what} logs in with SASL and needs {keys.CLIENTS[0]}sasl.{wanted}",
                    place=place,
                )
    options = {
        key: Option(key, value.replace("${", "$${"), place, place)
        for key, value in values.items()
        if value is not None
    }
    kafka = check(options, kafka_options.OPTIONS, what=settings.what, env={}, place=place)
    kafka_options.check(kafka)
    return kafka


def _check_regex(key: str, settings: Settings) -> None:
    try:
        re.compile(settings.string(key))
    except re.error as error:
        raise SqlError(
            f"{key} is not a regular expression: {error}", place=settings.place(key)
        ) from None


def _bootstrap(settings: Settings, env: Mapping[str, str], place: Place) -> str:
    names = ["bootstrap.servers", *(f"{p}bootstrap.servers" for p in keys.CLIENTS)]
    given = next((settings.string(n) for n in names if settings[n]), env.get(BOOTSTRAP))
    if not given:
        raise SqlError(
            f"{settings.what} does not say where Kafka is: a Connect worker knows it, this engine does not",
            place=place,
            remedy=f"set the environment variable {BOOTSTRAP}, or add the key bootstrap.servers",
        )
    return given


def _client(name: str, value: str, settings: Settings, key: str) -> dict[str, str | None]:
    """One property of the Kafka client as options of a source."""
    if name == "bootstrap.servers":
        return {}
    if name == "auto.offset.reset":
        return {"scan.startup.mode": value}
    if name != "sasl.jaas.config":
        return {f"properties.{name}": value}
    found = _JAAS.fullmatch(value)
    pairs = (
        {m[1]: m[2] if m[2] is not None else m[3] for m in _JAAS_PAIR.finditer(found[1])}
        if found
        else {}
    )
    if set(pairs) != {"username", "password"}:
        raise NotSupportedError(
            f"{key} other than PlainLoginModule or ScramLoginModule with a username and a password",
            place=settings.place(key),
        )
    return {
        f"properties.sasl.{name}": re.sub(r"\\(.)", r"\1", text) for name, text in pairs.items()
    }
