"""The system relations as a DuckDB database in memory, kept equal to a model.

It has no way out: no files, no extensions, no settings that a query could change. A model that differs from the
one before replaces, in one transaction, the relations made from the parts that differ; queries that run
meanwhile go on with what they began with.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from threading import Lock
from typing import Any

import duckdb
import pyarrow as pa

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
    "threads": 1,  # relations are small: a thread a query, many queries at once
    "memory_limit": "1GB",
    "temp_directory": "",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}

_VIEW = re.compile(r"^VIEW (\w+)\.(\w+) AS\s(.*?);$", re.M | re.S)


class SystemDatabase:
    """Holds the relations. Any number of threads may call `cursor`."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._model: Model | None = None
        self._started = datetime.now(UTC)
        self._connection = duckdb.connect(":memory:", config=_CONFIG)
        self._enter(self._connection, Model(), Session())
        self._connection.execute(";\n".join(["BEGIN", *self._declarations(), "COMMIT"]))
        self._connection.execute("SET GLOBAL TimeZone = 'UTC'")
        self._connection.execute("SET GLOBAL enable_external_access = false")
        self._connection.execute("SET GLOBAL lock_configuration = true")

    def cursor(self, model: Model, session: Session) -> duckdb.DuckDBPyConnection:
        """A connection on which the relations are those of the model, as the session sees them."""
        with self._lock:
            if model is not self._model:
                self._load(model)
                self._model = model
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

    def _load(self, model: Model) -> None:
        catalog, before = catalog_of(model), self._model
        self._connection.execute("BEGIN")
        for name, (rows, parts) in tables.STORED.items():
            if before is None or any(getattr(model, p) != getattr(before, p) for p in parts):
                relation = tables.stored(name)
                self._replace(relation, tables.columns(relation, rows(catalog)))
        self._connection.execute("COMMIT")

    def _replace(self, relation: Relation, columns: list[tuple[str, str, list[Any]]]) -> None:
        incoming = pa.table(
            {name: pa.array(values, _arrow(type)) for name, type, values in columns}
        )
        self._connection.register("incoming", incoming)
        typed = ", ".join(f'"{name}"::{type} AS "{name}"' for name, type, _ in columns)
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
