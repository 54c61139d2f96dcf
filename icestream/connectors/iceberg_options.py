"""How a statement names an Iceberg catalog, and the properties that Iceberg wants for it.

The options are RisingWave's. None of them: the embedded lake. What would make the client load foreign
code (a catalog class, a JDBC driver by URL) is not among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from icestream.errors import NotSupportedError, Place, SqlError
from icestream.file_access import NamedFile, local_path, table_folders
from icestream.sql.options import OptionSpec, Settings

CATALOG_OPTIONS: tuple[OptionSpec, ...] = (
    OptionSpec(
        "catalog.type",
        choices=("storage", "rest", "glue", "hive", "jdbc"),
        help="the kind of catalog; without any catalog option: the embedded lake",
    ),
    OptionSpec("catalog.name", help="the catalog's name; a JDBC catalog keeps its tables under it"),
    OptionSpec("catalog.uri", help="its address: http(s)://…, thrift://… or jdbc:sqlite:…"),
    OptionSpec("catalog.credential", secret=True, help="REST: client_id:client_secret for OAuth 2"),
    OptionSpec("catalog.token", secret=True, help="REST: a bearer token"),
    OptionSpec("catalog.scope", help="REST: the scope to ask for"),
    OptionSpec("catalog.oauth2_server_uri", help="REST: where tokens are given out"),
    OptionSpec("catalog.jdbc.user", help="JDBC: the user"),
    OptionSpec("catalog.jdbc.password", secret=True, help="JDBC: the password"),
    OptionSpec("warehouse.path", help="where tables live: s3://bucket/path or a directory"),
    OptionSpec("s3.region", help="the region of the bucket, and of Glue"),
    OptionSpec("s3.endpoint", help="another server that speaks S3"),
    OptionSpec("s3.access.key", secret=True, help="the access key"),
    OptionSpec("s3.secret.key", secret=True, help="the secret key"),
    OptionSpec("s3.path.style.access", "bool", help="the bucket in the path, not in the host name"),
    OptionSpec("glue.endpoint", help="another server that speaks Glue"),
    OptionSpec(
        "glue.id", help="the Glue catalog's id: the account's, unless another one shares its own"
    ),
)

CONNECTION_OPTIONS: tuple[OptionSpec, ...] = (
    OptionSpec("type", required=True, choices=("iceberg",), help="what the connection is for"),
    *CATALOG_OPTIONS,
)
"""CREATE CONNECTION … WITH (type = 'iceberg', …)"""

TABLE_OPTIONS: tuple[OptionSpec, ...] = (
    OptionSpec("connection", help="a CREATE CONNECTION that names the catalog"),
    OptionSpec("database.name", default="public", help="the table's namespace"),
    OptionSpec("table.name", required=True, help="the table"),
)

SQLITE_PARAMETERS = {
    "busy_timeout": r"\d{1,9}",
    "journal_mode": "(?i:delete|truncate|persist|wal)",
}
_S3 = ("s3.region", "s3.endpoint", "s3.access.key", "s3.secret.key", "s3.path.style.access")
_ICEBERG_NAMES = {
    "catalog.uri": "uri",
    "catalog.credential": "credential",
    "catalog.token": "token",
    "catalog.scope": "scope",
    "catalog.oauth2_server_uri": "oauth2-server-uri",
    "catalog.jdbc.user": "jdbc.user",
    "catalog.jdbc.password": "jdbc.password",
    "warehouse.path": "warehouse",
    "s3.region": "client.region",
    "s3.endpoint": "s3.endpoint",
    "s3.access.key": "s3.access-key-id",
    "s3.secret.key": "s3.secret-access-key",
    "s3.path.style.access": "s3.path-style-access",
    "glue.endpoint": "glue.endpoint",
    "glue.id": "glue.id",
}
_NEEDS = {
    "storage": ("warehouse.path",),
    "rest": ("catalog.uri",),
    "glue": ("warehouse.path",),
    "hive": ("catalog.uri",),
    "jdbc": ("catalog.uri", "catalog.name", "warehouse.path"),
}
_ONLY_FOR = {
    "catalog.credential": ("rest",),
    "catalog.token": ("rest",),
    "catalog.scope": ("rest",),
    "catalog.oauth2_server_uri": ("rest",),
    "catalog.jdbc.user": ("jdbc",),
    "catalog.jdbc.password": ("jdbc",),
    "catalog.uri": ("rest", "hive", "jdbc"),
    "glue.endpoint": ("glue",),
    "glue.id": ("glue",),
}


def catalog_type(settings: Settings) -> str | None:
    """The kind of catalog; None is the embedded lake. A warehouse alone is a `storage` catalog."""
    declared = settings.optional("catalog.type")
    return declared or ("storage" if settings["warehouse.path"] is not None else None)


def check_catalog(settings: Settings) -> None:
    """Options that need or exclude each other, without any I/O."""
    if "table.name" in settings:
        parts = (*settings.string("database.name").split("."), settings.string("table.name"))
        place = settings.place("table.name") or settings.place("database.name")
        check_table_name(parts, settings.what, place)
    kind = catalog_type(settings)
    if kind is None:
        for name in _ICEBERG_NAMES:
            if settings[name] is not None:
                raise SqlError(
                    f"{settings.what}: {name} needs catalog.type",
                    place=settings.place(name),
                    remedy="catalog.type = 'rest', 'glue', 'hive', 'jdbc' or 'storage'",
                )
        return
    for name in _NEEDS[kind]:
        if settings[name] is None:
            raise SqlError(
                f"{settings.what} needs the option {name} beside catalog.type = '{kind}'",
                place=settings.place("catalog.type"),
            )
    for name, kinds in _ONLY_FOR.items():
        if settings[name] is not None and kind not in kinds:
            raise SqlError(
                f"{settings.what}: {name} has no meaning for catalog.type = '{kind}'",
                place=settings.place(name),
            )
    if (settings["s3.access.key"] is None) != (settings["s3.secret.key"] is None):
        raise SqlError(f"{settings.what} needs s3.access.key and s3.secret.key, both or neither")
    _check_places(settings, kind)


def _check_places(settings: Settings, kind: str) -> None:
    """Warehouses and addresses that the packages at hand can open."""
    warehouse = settings.optional("warehouse.path") or ""
    if (scheme := foreign_scheme(warehouse)) is not None:
        raise NotSupportedError(
            f"a warehouse on {scheme}://",
            place=settings.place("warehouse.path"),
            remedy="s3://…, hdfs://… or a directory",
        )
    if kind == "storage" and _on_s3(settings):
        raise NotSupportedError(
            "catalog.type = 'storage' on S3, where renaming a file is not atomic",
            place=settings.place("catalog.type"),
            remedy="catalog.type = 'rest', 'glue' or 'jdbc' with the same warehouse",
        )
    uri = settings.optional("catalog.uri") or ""
    if kind == "rest":
        check_http(uri, "catalog.uri", settings.place("catalog.uri"))
    if kind == "jdbc" and not uri.startswith("jdbc:sqlite:"):
        raise NotSupportedError(
            "a JDBC catalog other than SQLite's",
            place=settings.place("catalog.uri"),
            remedy="catalog.uri = 'jdbc:sqlite:/path/catalog.db'",
        )
    name = settings.optional("catalog.name") or ""
    if kind == "jdbc" and (name in ("lake", "spark_catalog") or not _plain(name)):
        raise SqlError(
            f"{settings.what}: a JDBC catalog cannot be called {name!r}",
            place=settings.place("catalog.name"),
            remedy="a name of letters, digits, - and _ that is not the embedded lake's",
        )
    if kind == "jdbc":
        sqlite_file(uri, settings.place("catalog.uri"))


def foreign_scheme(warehouse: str) -> str | None:
    """The scheme of a warehouse that the packages at hand cannot open."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", warehouse)
    if scheme is None or scheme[1].lower() in ("file", "s3", "s3a", "hdfs"):
        return None
    return scheme[1].lower()


def check_http(uri: str, option: str, place: Place | None) -> None:
    """Raise if the address of a REST catalog is none of a web server."""
    if not re.match(r"https?://[^/\s]", uri, re.IGNORECASE):
        raise SqlError(f"{option} of a REST catalog begins with http:// or https://", place=place)


def sqlite_file(uri: str, place: Place | None) -> str:
    """The file of a `jdbc:sqlite:` catalog. Other forms would open what the path does not show: a URL, a resource of
    the class path, an extension."""
    path, _, parameters = uri.removeprefix("jdbc:sqlite:").partition("?")
    pairs = [pair.partition("=") for pair in parameters.split("&") if pair]
    known = all(re.fullmatch(SQLITE_PARAMETERS.get(n.lower(), "(?!)"), v) for n, _, v in pairs)
    if not path.startswith("/") or not known:
        raise SqlError(
            "a SQLite catalog is an absolute path, with no parameters but "
            "busy_timeout (milliseconds) and journal_mode (delete, truncate, persist or wal)",
            place=place,
            remedy="jdbc:sqlite:/path/catalog.db",
        )
    return path


def named_files(settings: Settings) -> list[NamedFile]:
    """The local files of the catalog that the options name."""
    kind = catalog_type(settings)
    if kind is None:
        return []
    properties = {"type": kind}
    properties |= {
        iceberg: str(settings[name])
        for name, iceberg in (("warehouse.path", "warehouse"), ("catalog.uri", "uri"))
        if settings[name] is not None
    }
    places = {n: settings.place(n) for n in ("warehouse.path", "catalog.uri")}
    tables = []
    if "table.name" in settings:
        tables = [(*settings.string("database.name").split("."), settings.string("table.name"))]
    return catalog_files(properties, "warehouse.path", "catalog.uri", places, tables)


def catalog_files(
    properties: Mapping[str, str],
    warehouse: str,
    uri: str,
    places: Mapping[str, Place | None],
    tables: Iterable[Sequence[str]] = (),
) -> list[NamedFile]:
    """The local files of a catalog with these Iceberg properties. `warehouse` and `uri` are the names of the options;
    `tables` are those that the statement names in it."""
    found = []
    location = properties.get("warehouse")
    # A REST catalog's warehouse is a name that means something to the server, unless it is a location.
    if location is not None and (
        properties["type"] != "rest" or ":" in location or "/" in location
    ):
        path = local_path(location)
        if path is not None:
            found.append(NamedFile(warehouse, path, places[warehouse], is_warehouse=True))
            found += [
                NamedFile(f"{warehouse} with the table's name", folder, places[warehouse])
                for table in tables
                for folder in table_folders(path, table)
            ]
    if properties["type"] == "jdbc":
        found.append(NamedFile(uri, sqlite_file(properties["uri"], places[uri]), places[uri]))
    return found


def check_table_name(parts: Sequence[str], what: str, place: Place | None) -> None:
    """A catalog may make folders of these names, so that none may lead elsewhere."""
    for part in parts:
        if part in ("", ".", "..") or re.search(r"[/\\\0]", part):
            raise SqlError(
                f"{what}: {part!r} cannot be a part of a table's name",
                place=place,
                remedy="a name without / and \\ that is not . or ..",
            )


def _plain(name: str) -> bool:
    return bool(name) and all(c.isalnum() or c in "-_" for c in name)


def _on_s3(settings: Settings) -> bool:
    warehouse = (settings.optional("warehouse.path") or "").lower()
    return warehouse.startswith(("s3://", "s3a://")) or any(settings[n] is not None for n in _S3)


def needs_aws(settings: Settings) -> bool:
    """Whether the Java packages of the group `aws` have to be on the class path."""
    return catalog_type(settings) == "glue" or _on_s3(settings)


def catalog_properties(settings: Settings) -> dict[str, str]:
    """The Iceberg properties of the catalog that the options name; empty is the embedded lake.

    They hold secrets: never print them.
    """
    check_catalog(settings)
    kind = catalog_type(settings)
    if kind is None:
        return {}
    properties = {"type": "hadoop" if kind == "storage" else kind}
    for name, iceberg in _ICEBERG_NAMES.items():
        value = settings[name]
        if value is not None:
            properties[iceberg] = str(value).lower() if isinstance(value, bool) else str(value)
    if kind == "jdbc":
        properties["jdbc.schema-version"] = "V1"
    if _on_s3(settings):
        properties["io-impl"] = "org.apache.iceberg.aws.s3.S3FileIO"
    return properties
