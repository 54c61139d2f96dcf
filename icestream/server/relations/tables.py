"""The stored relations: what gives their rows, and rows as columns of DuckDB's types."""

from __future__ import annotations

from typing import Any

from icestream.server.relations import lookups, postgres, risingwave
from icestream.server.relations.catalog import Row
from icestream.server.relations.datatypes import REGISTERED, duck
from icestream.server.relations.schema import Relation, relations

STORED = postgres.STORED | risingwave.STORED | lookups.STORED
"""The relations that have rows: what gives them, and the parts of a model that they are made from."""

RESTLESS = (
    "pg_stat_activity",
    "rw_ddl_progress",
    "rw_event_logs",
    "rw_iceberg_files",
    "rw_iceberg_snapshots",
    "rw_spark_fallbacks",
)
"""Relations that change all the time, and that no other is made from: filled only for queries that name them."""


def stored(name: str) -> Relation:
    """The relation behind a name of `STORED`."""
    if name.startswith("the_"):
        columns = lookups.COLUMNS.get(name) or relations()["pg_catalog", "pg_settings"].columns
        return Relation("main", name, 0, "r", columns)
    return relations()["rw_catalog" if name.startswith("rw_") else "pg_catalog", name]


_EMPTY = {
    "bool": False, "int2": 0, "int4": 0, "int8": 0, "oid": 0, "xid": 0, "float4": 0.0,
    "int2vector": [], "oidvector": [], "char": "",
} | dict.fromkeys(REGISTERED, 0)  # fmt: skip


def columns(relation: Relation, rows: list[Row]) -> list[tuple[str, str, list[Any]]]:
    """Rows → (name, DuckDB's type, values) of every column of a relation."""
    empty = _EMPTY if relation.schema == "pg_catalog" else {}
    return [
        (name, duck(type), [row.get(name, empty.get(type)) for row in rows])
        for name, type in relation.columns.items()
    ]
