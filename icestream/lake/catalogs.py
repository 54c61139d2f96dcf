"""Iceberg catalogs as Spark sees them: the embedded lake, and the foreign ones that sinks and sources name."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import sqlite3
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from icestream.config import Home
from icestream.errors import ConnectorError, LakeError
from icestream.home_log import log_failure
from icestream.lake.access import LAKE as LAKE
from icestream.lake.access import check_table_folders
from icestream.lake.access import home_of as home_of
from icestream.lake.dml_log import DmlLog
from icestream.lake.jvm import (
    Jvm,
    has_synced_files,
    is_missing,
    java_message,
    set_application_setting,
)
from icestream.lake.table import LakeTable
from icestream.secrecy import HIDDEN, REDACTED
from icestream.types import DOUBLE, REAL, Type, backtick, stored_spark_type

_LOG = logging.getLogger(__name__)

SYSTEM = "icestream"
"""The namespace of the engine's own tables: epoch logs, ledgers."""
OWNER = "icestream.object"

TABLE_PROPERTIES = {
    "write.metadata.previous-versions-max": "20",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.parquet.compression-codec": "zstd",
}


TIMEOUTS: Mapping[str, Mapping[str, str]] = {
    "rest": {
        "rest.client.connection-timeout-ms": "10000",
        "rest.client.socket-timeout-ms": "30000",
    },
    "hive": {"hadoop.hive.metastore.client.socket.timeout": "30s"},
}
"""Properties that bound the calls of foreign catalogs, by type: without them a call may never return."""


@dataclass(frozen=True)
class CatalogSpec:
    """A catalog's name in Spark and its Iceberg properties, secrets among them: never print it."""

    name: str
    properties: Mapping[str, str] = field(repr=False)

    @classmethod
    def foreign(cls, properties: Mapping[str, str]) -> CatalogSpec:
        """A catalog named by its properties, so that equal ones are one."""
        digest = hashlib.sha256(json.dumps(dict(properties), sort_keys=True).encode()).hexdigest()
        return cls(f"foreign_{digest[:12]}", dict(properties))

    def spark_conf(self) -> dict[str, str]:
        """The Spark settings that make the catalog known."""
        prefix = f"spark.sql.catalog.{self.name}"
        conf = {prefix: "org.apache.iceberg.spark.SparkCatalog", f"{prefix}.cache-enabled": "false"}
        properties = {**TIMEOUTS.get(self.properties.get("type", ""), {}), **self.properties}
        return conf | {f"{prefix}.{k}": v for k, v in properties.items()}


BUSY_TIMEOUT = 60_000
"""Milliseconds that a commit waits for another process that has the catalog locked."""


def embedded(home: Home) -> CatalogSpec:
    """The home's own catalog: JDBC on SQLite, readable by PyIceberg's SqlCatalog under the name `lake`."""
    return CatalogSpec(
        LAKE,
        {
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{home.lake_catalog}?busy_timeout={BUSY_TIMEOUT}&journal_mode=WAL&synchronous=FULL",
            "jdbc.schema-version": "V1",
            "warehouse": home.warehouse.as_uri(),
        },
    )


def check_embedded(home: Home) -> None:
    """Raise if the file of the home's own catalog is damaged. Spark would only say that there is no such catalog."""
    if not Path(home.lake_catalog).exists():
        return
    try:
        with closing(sqlite3.connect(f"file:{home.lake_catalog}?mode=ro", uri=True)) as database:
            database.execute("SELECT count(*) FROM sqlite_master").fetchall()
    except sqlite3.OperationalError:
        log_failure(_LOG, "the embedded catalog cannot be looked at")
        return  # locked or not readable: that may pass, and Spark says it
    except sqlite3.DatabaseError as error:
        raise LakeError(
            f"the catalog {home.lake_catalog} is damaged: {error}",
            remedy="restore the home from a backup",
        ) from error


_SAFE_FOLDER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")


class Lake:
    """All tables the engine touches, in the embedded catalog and in foreign ones."""

    def __init__(self, spark: SparkSession, dml: DmlLog | None = None) -> None:
        self.spark = spark
        self.jvm = Jvm(spark)
        self._dml = dml
        self._namespaces: set[tuple[str, ...]] = set()

    @property
    def dml(self) -> DmlLog:
        """The log of statements of the home; opened for writing by the pipeline alone."""
        if self._dml is None:
            self._dml = DmlLog(home_of(self.spark) / "dml")
        return self._dml

    @cached_property
    def is_synced(self) -> bool:
        """Whether local files are durable once Spark has closed them (see `runtime.java_library`)."""
        return has_synced_files(self.spark)

    def use(self, spec: CatalogSpec) -> None:
        """Make a foreign catalog known to the session."""
        for key, value in spec.spark_conf().items():
            # Spark's events hide only settings that the application has too.
            if re.search(REDACTED, key) or re.search(REDACTED, value):
                set_application_setting(self.spark, key, HIDDEN)
            self.spark.conf.set(key, value)

    def table(self, *name: str, owned: bool) -> LakeTable:
        """The table of that name; it need not exist yet."""
        return LakeTable(self.jvm, name, owned=owned)

    def exists(self, table: LakeTable) -> bool:
        """Whether the catalog has that table."""
        check_table_folders(self.spark, table.parts)
        try:
            self.jvm.load(table.sql)
        except (Py4JJavaError, PySparkException) as error:
            if is_missing(error):
                return False
            raise self.unreachable(table, error) from error
        return True

    def unreachable(self, table: LakeTable, error: Exception) -> ConnectorError:
        """The catalog failed, and not for want of the table."""
        text = (
            java_message(error) if isinstance(error, Py4JJavaError) else str(error).splitlines()[0]
        )
        return ConnectorError(
            f"the catalog of {'.'.join(table.parts[1:])} cannot be used: {text}",
            object=table.name,
            remedy="check catalog.type, catalog.uri, warehouse.path and the credentials",
        )

    def create(
        self,
        table: LakeTable,
        columns: Sequence[tuple[str, Type]],
        *,
        partition_by: str | None = None,
        order_key: str | None = None,
        properties: Mapping[str, str] | None = None,
        format_version: int = 3,
        required: Collection[str] = (),
        identifier: Sequence[str] = (),
    ) -> None:
        """Create the table, and its namespace where that is missing. `identifier`: what other engines take as its key."""
        check_table_folders(self.spark, table.parts)
        self.create_namespace(table.parts[:-1])
        body = ", ".join(
            f"{backtick(n)} {stored_spark_type(t)}{' NOT NULL' if n in required else ''}"
            for n, t in columns
        )
        merged = TABLE_PROPERTIES | {"format-version": str(format_version)} | dict(properties or {})
        props = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in merged.items())
        partitions = f" PARTITIONED BY ({partition_by})" if partition_by else ""
        own = self._own_location(table)
        location = f" LOCATION {literal(own)}" if own else ""
        text = (
            f"CREATE TABLE {table.sql} ({body}) USING iceberg{partitions}{location} "
            f"TBLPROPERTIES ({props})"
        )
        try:
            self.spark.sql(text)
            if order_key:
                self.spark.sql(f"ALTER TABLE {table.sql} WRITE ORDERED BY {order_key}")
            if identifier and not any(t in (REAL, DOUBLE) for n, t in columns if n in identifier):
                names = ", ".join(map(backtick, identifier))
                self.spark.sql(f"ALTER TABLE {table.sql} SET IDENTIFIER FIELDS {names}")
        except (Py4JJavaError, PySparkException) as error:
            raise self.unreachable(table, error) from error

    def _own_location(self, table: LakeTable) -> str | None:
        """Where a table of the embedded lake goes, unless the catalog's choice will do.

        The catalog makes folders of names as they are: one with `/` or `..` would lead out of the warehouse. And the
        folder of that name may have the files of a table that was renamed.
        """
        if table.parts[0] != LAKE:
            return None
        warehouse = str(self.spark.conf.get(f"spark.sql.catalog.{LAKE}.warehouse"))
        safe = [part if _SAFE_FOLDER.fullmatch(part) else "table" for part in table.parts[1:]]
        if safe == list(table.parts[1:]):
            folder = Path(unquote(urlsplit(warehouse).path)).joinpath(*safe)
            if not any(path.is_file() for path in folder.rglob("*")):
                return None
        return "/".join([warehouse, *safe[:-1], f"{safe[-1]}-{uuid.uuid4().hex[:12]}"])

    def rename(self, table: LakeTable, *name: str) -> None:
        """Give a table another name in its catalog; its files stay where they are, and whoever holds it follows."""
        self.create_namespace(name[:-1])
        try:
            self.spark.sql(f"ALTER TABLE {table.sql} RENAME TO {'.'.join(map(backtick, name[1:]))}")
        except (Py4JJavaError, PySparkException) as error:
            raise self.unreachable(table, error) from error
        table.parts = name

    def create_namespace(self, name: tuple[str, ...]) -> None:
        """Create the namespace if it is missing."""
        if name in self._namespaces:
            return
        try:
            self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {'.'.join(map(backtick, name))}")
        except (Py4JJavaError, PySparkException) as error:
            raise self.unreachable(self.table(*name, "*", owned=False), error) from error
        self._namespaces.add(name)

    def tables(self, *namespace: str) -> list[LakeTable]:
        """All tables of a namespace."""
        rows = self.spark.sql(f"SHOW TABLES IN {'.'.join(map(backtick, namespace))}").collect()
        return [self.table(*namespace, row.tableName, owned=True) for row in rows]

    def drop(self, table: LakeTable) -> None:
        """Drop the table, if it is there, and its files: in the driver, where Spark's PURGE would run jobs."""
        name = self.jvm.texts(table.parts[1:])
        identifier = self.jvm.iceberg.catalog.TableIdentifier.of(name)
        self.jvm.catalog(table.parts[0]).dropTable(identifier, True)


def owner_of(table: LakeTable) -> str | None:
    """The key of the object whose table it is; None for a table that the engine did not make."""
    return dict(table.load().properties()).get(OWNER)


def literal(text: str) -> str:
    """A string literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
