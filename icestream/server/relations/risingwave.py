"""A model → the rows of rw_catalog."""

from __future__ import annotations

from collections.abc import Iterator

from icestream.server.relations.catalog import Catalog, Row, Rows
from icestream.server.relations.datatypes import shown
from icestream.server.relations.model import Object

_OF_KIND = {
    "rw_tables": "table",
    "rw_materialized_views": "materialized view",
    "rw_views": "view",
    "rw_sources": "source",
    "rw_sinks": "sink",
    "rw_subscriptions": "subscription",
    "rw_indexes": "index",
    "rw_connections": "connection",
    "rw_secrets": "secret",
}
"""The relations that list one kind of objects."""


def _object(catalog: Catalog, each: Object) -> Row:
    """An object, with the columns of all the relations that list it; each takes its own."""
    return {
        "id": each.oid, "name": each.name, "schema_id": catalog.schemas[each.schema],
        "owner": catalog.owners.get(each.owner, 10), "definition": each.definition,
        "append_only": each.append_only, "created_at": each.created, "connector": each.connector,
        "columns": [column.name for column in each.columns], "format": each.format,
        "row_encode": each.encode, "connection_id": each.connection, "provider": each.connector,
        "sink_type": "append-only" if each.append_only else "upsert", "type_": "connection",
        "primary_table_id": each.on, "key_columns": [column.name for column in each.columns],
        "include_columns": list(each.include), "relation_type": each.kind,
    }  # fmt: skip


def _objects(kind: str) -> Rows:
    return lambda catalog: (_object(catalog, o) for o in catalog.model.objects if o.kind == kind)


def rw_relations(catalog: Catalog) -> Iterator[Row]:
    """Everything that has columns."""
    return (_object(catalog, each) for each in catalog.relations())


def rw_columns(catalog: Catalog) -> Iterator[Row]:
    """The columns of all relations."""
    for object in catalog.relations():
        for number, column in enumerate(object.columns, 1):
            type = catalog.type(column)
            yield {
                "relation_id": object.oid, "name": column.name, "position": number, "is_hidden": False,
                "is_primary_key": column.name in object.primary_key, "is_generated": column.generated,
                "is_nullable": column.nullable and column.name not in object.primary_key,
                "generation_expression": column.default if column.generated else None,
                "data_type": str(column.type), "type_oid": type.oid, "type_len": type.length,
                "udt_type": type.name,
            }  # fmt: skip


def rw_schemas(catalog: Catalog) -> Iterator[Row]:
    """Schemas."""
    for name, oid in catalog.schemas.items():
        yield {"id": oid, "name": name, "owner": 10}


def rw_databases(catalog: Catalog) -> Iterator[Row]:
    """Databases."""
    for each in catalog.model.databases:
        yield {"id": each.oid, "name": each.name, "owner": catalog.owners.get(each.owner, 10)}


def rw_users(catalog: Catalog) -> Iterator[Row]:
    """Users."""
    for each in catalog.model.users:
        yield {
            "id": each.oid, "name": each.name, "is_super": each.super, "create_db": each.super,
            "create_user": each.super, "can_login": True,
        }  # fmt: skip


def rw_depend(catalog: Catalog) -> Iterator[Row]:
    """Who reads whom."""
    for reader, read in catalog.model.depends:
        yield {"objid": reader, "refobjid": read}


def rw_functions(catalog: Catalog) -> Iterator[Row]:
    """Functions of queries."""
    for each in catalog.model.functions:
        yield {
            "id": each.oid, "name": each.name, "schema_id": catalog.schemas["pg_catalog"], "type": each.kind,
            "arg_type_ids": [shown(type, catalog.own_types).oid for type in each.arguments],
            "return_type_id": shown(each.result, catalog.own_types).oid,
        }  # fmt: skip


def rw_ddl_progress(catalog: Catalog) -> Iterator[Row]:
    """Statements that run in the background."""
    for job in catalog.model.jobs:
        yield {
            "ddl_id": job.id, "ddl_statement": job.statement, "progress": job.progress,
            "create_type": "BACKGROUND" if job.background else "FOREGROUND", "initialized_at": job.started,
        }  # fmt: skip


def rw_event_logs(catalog: Catalog) -> Iterator[Row]:
    """What happened."""
    for event in catalog.model.events:
        yield {
            "unique_id": event.id,
            "timestamp": event.at,
            "event_type": event.type,
            "info": event.info,
        }


def rw_spark_fallbacks(catalog: Catalog) -> Iterator[Row]:
    """Why Spark did what could have been done without it."""
    for each in catalog.model.fallbacks:
        yield {"kind": each.kind, "reason": each.reason, "count": each.count}


def _names(catalog: Catalog) -> dict[int, Row]:
    """How relations about tables of Iceberg name each object."""
    return {
        each.oid: {"source_id": each.oid, "schema_name": each.schema, "source_name": each.name}
        for each in catalog.model.objects
    }


def rw_iceberg_snapshots(catalog: Catalog) -> Iterator[Row]:
    """Snapshots of the tables behind objects."""
    names = _names(catalog)
    for each in catalog.model.snapshots:
        yield names.get(each.object, {"source_id": each.object}) | {
            "sequence_number": each.sequence, "snapshot_id": each.id, "timestamp_ms": each.at,
            "manifest_list": each.manifest_list, "summary": each.summary,
        }  # fmt: skip


def rw_iceberg_files(catalog: Catalog) -> Iterator[Row]:
    """Files of the tables behind objects."""
    names = _names(catalog)
    for each in catalog.model.files:
        yield names.get(each.object, {"source_id": each.object}) | {
            "content": each.content, "file_path": each.path, "file_format": each.format,
            "record_count": each.rows, "file_size_in_bytes": each.bytes,
        }  # fmt: skip


_OBJECTS = ("objects", "schemas", "users")

STORED: dict[str, tuple[Rows, tuple[str, ...]]] = {
    name: (_objects(kind), _OBJECTS) for name, kind in _OF_KIND.items()
} | {
    "rw_relations": (rw_relations, _OBJECTS),
    "rw_columns": (rw_columns, ("objects",)),
    "rw_schemas": (rw_schemas, ("schemas",)),
    "rw_databases": (rw_databases, ("databases", "users")),
    "rw_users": (rw_users, ("users",)),
    "rw_depend": (rw_depend, ("depends",)),
    "rw_functions": (rw_functions, ("functions", "objects")),
    "rw_ddl_progress": (rw_ddl_progress, ("jobs",)),
    "rw_event_logs": (rw_event_logs, ("events",)),
    "rw_spark_fallbacks": (rw_spark_fallbacks, ("fallbacks",)),
    "rw_iceberg_snapshots": (rw_iceberg_snapshots, ("snapshots", "objects")),
    "rw_iceberg_files": (rw_iceberg_files, ("files", "objects")),
}
"""As in `postgres`."""
