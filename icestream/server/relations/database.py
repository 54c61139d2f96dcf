"""The system relations as a DuckDB database in memory, kept equal to a model.

It has no way out: no files, no extensions, no settings that a query could change. A model that differs from the
one before replaces, in one transaction, the relations made from the parts that differ; queries that run
meanwhile go on with what they began with.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Lock
from typing import Any

import duckdb
import pyarrow as pa

from icestream.functions.duckdb import SETTINGS
from icestream.server.relations import tables
from icestream.server.relations.catalog import catalog as catalog_of
from icestream.server.relations.datatypes import duck
from icestream.server.relations.functions import SCHEMA, all_macros
from icestream.server.relations.model import Model, Session
from icestream.server.relations.schema import SCHEMAS, Relation, inside, relations, text
from icestream.server.relations.settings import settings

_ARROW = {
    "BOOLEAN": pa.bool_(), "SMALLINT": pa.int16(), "INTEGER": pa.int32(), "BIGINT": pa.int64(),
    "UINTEGER": pa.uint32(), "UBIGINT": pa.uint64(), "FLOAT": pa.float32(), "DOUBLE": pa.float64(),
    "TIMESTAMPTZ": pa.timestamp("us", tz="UTC"),
}  # fmt: skip


def _arrow(type: str) -> pa.DataType:
    return pa.list_(_arrow(type[:-2])) if type.endswith("[]") else _ARROW.get(type, pa.string())


_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    **SETTINGS,
    "threads": 1,  # relations are small: a thread a query, many queries at once
    "memory_limit": "1GB",
    "temp_directory": "",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}

Signal = Callable[[int, str], bool]
"""Cancels the statement of a backend, or terminates the backend; whether there is one of that number."""

_VIEW = re.compile(r"^VIEW (\w+)\.(\w+) AS\s(.*?);$", re.M | re.S)


class SystemDatabase:
    """Holds the relations. Any number of threads may call `cursor`."""

    def __init__(self, signal: Signal) -> None:
        self._lock = Lock()
        self._loaded: dict[str, list[object]] = {}
        """The parts of a model that each relation was made from."""
        self._started = datetime.now(UTC)
        self._connection = duckdb.connect(":memory:", config=_CONFIG)
        self._connection.create_function(
            "signal_backend", signal, ["INTEGER", "VARCHAR"], "BOOLEAN", side_effects=True
        )
        self._enter(self._connection, Model(), Session())
        self._connection.execute(";\n".join(["BEGIN", *self._declarations(), "COMMIT"]))
        self._connection.execute("SET GLOBAL TimeZone = 'UTC'")
        self._connection.execute("SET GLOBAL enable_external_access = false")
        self._connection.execute("SET GLOBAL lock_configuration = true")

    def cursor(self, model: Model, session: Session, sql: str) -> duckdb.DuckDBPyConnection:
        """A connection on which the relations that a query names are the model's, as the session sees them."""
        with self._lock:
            self._load(model, sql)
            cursor = self._connection.cursor()
        self._enter(cursor, model, session)
        return cursor

    def _enter(self, cursor: duckdb.DuckDBPyConnection, model: Model, session: Session) -> None:
        """Set what functions ask of the session: variables of the connection."""
        path = ["pg_catalog", *(s for s in session.search_path if s != "pg_catalog")]
        variable = {
            "user": session.user,
            "database": session.database,
            "schemas": list(session.search_path),
            "path": path,
            "pid": session.pid,
            "started": self._started,
        }
        cursor.execute("SET VARIABLE session = ?", [variable])
        known = {setting.name.lower(): setting.value for setting in settings(model)}
        known |= {name.lower(): value for name, value in session.settings}
        cursor.execute(
            "SET VARIABLE settings = map(?::VARCHAR[], ?::VARCHAR[])",
            [list(known), list(known.values())],
        )

    def _load(self, model: Model, sql: str) -> None:
        changed = {}
        for name, (_, parts) in tables.STORED.items():
            if name not in tables.RESTLESS or name in sql:
                now = [getattr(model, part) for part in parts]
                if self._loaded.get(name) != now:
                    changed[name] = now
        if not changed:
            return
        catalog = catalog_of(model)
        incoming = {
            name: tables.columns(tables.stored(name), list(tables.STORED[name][0](catalog)))
            for name in changed
        }
        self._connection.execute("BEGIN")
        try:
            for name, columns in incoming.items():
                self._replace(tables.stored(name), columns)
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
        self._loaded |= changed

    def _replace(self, relation: Relation, columns: list[tuple[str, str, list[Any]]]) -> None:
        arrays = {name: pa.array(values, _arrow(type)) for name, type, values in columns}
        typed = ", ".join(f'"{name}"::{type} AS "{name}"' for name, type, _ in columns)
        self._connection.register("incoming", pa.table(arrays))
        self._connection.execute(
            f"CREATE OR REPLACE TABLE {relation.place} AS SELECT {typed} FROM incoming"
        )
        self._connection.unregister("incoming")

    def _declarations(self) -> list[str]:
        """Schemas, tables, functions and views, in the order in which they can be made."""
        views = {(schema, name): query for schema, name, query in _VIEW.findall(text("views.sql"))}
        stored = [r for key, r in relations().items() if key not in views]
        stored += [tables.stored(name) for name in tables.STORED if name.startswith("the_")]
        made = [f"CREATE SCHEMA {schema}" for schema in (SCHEMA, *map(inside, SCHEMAS))]
        for relation in stored:
            columns = ", ".join(f'"{name}" {duck(type)}' for name, type in relation.columns.items())
            made.append(f"CREATE TABLE {relation.place} ({columns})")
        made += [macro.ddl for macro in all_macros()]
        for key, query in views.items():
            relation = relations()[key]
            query = re.sub(r"\b(pg_catalog|information_schema)\.(?=\w+ )", r"the_\1.", f"{query} ")
            columns = ", ".join(f'"{name}"' for name in relation.columns)
            made.append(f"CREATE VIEW {relation.place} ({columns}) AS {query}")
        return made
