"""A model → what system functions look up: the names of OIDs and texts about them; and the settings."""

from __future__ import annotations

from collections.abc import Iterator

from icestream.server.relations.catalog import Catalog, Row, Rows, key_constraint, key_index
from icestream.server.relations.datatypes import shown
from icestream.server.relations.names import quote
from icestream.server.relations.schema import relations
from icestream.server.relations.settings import settings

COLUMNS = {
    "the_names": {"kind_": "text", "oid_": "oid", "schema_": "text", "raw_": "text", "short_": "text", "full_": "text"},
    "the_texts": {"what_": "text", "oid_": "oid", "part_": "int4", "text_": "text"},
}  # fmt: skip


def the_settings(catalog: Catalog) -> Iterator[Row]:
    """Settings outside any session; pg_settings shows them as the session has them."""
    for setting in settings(catalog.model):
        yield {
            "name": setting.name, "setting": setting.value, "category": "Settings", "context": "user",
            "short_desc": setting.description, "vartype": setting.type, "source": "default",
            "boot_val": setting.value, "reset_val": setting.value,
        }  # fmt: skip


def the_names(catalog: Catalog) -> Iterator[Row]:
    """What OIDs print as, and which names mean them, for reg… types and visibility."""

    def row(kind: str, oid: int, schema: str, name: str, display: str | None = None) -> Row:
        short = display or quote(name)
        full = f"{quote(schema)}.{short}"
        return {
            "kind_": kind,
            "oid_": oid,
            "schema_": schema,
            "raw_": name,
            "short_": short,
            "full_": full,
        }

    for each in relations().values():
        yield row("regclass", each.oid, each.schema, each.name)
    for object in catalog.relations():
        yield row("regclass", object.oid, object.schema, object.name)
        if object.primary_key:
            yield row("regclass", key_index(object.oid), object.schema, f"{object.name}_pkey")
    for type in catalog.types():
        yield row("regtype", type.oid, "pg_catalog", type.display, type.display)
        for alias in (type.name, f"{type.name[1:]}[]"):
            if alias == type.name or type.name.startswith("_"):
                yield row("regtype alias", type.oid, "pg_catalog", alias)
    for name, oid in catalog.procedures.items():
        yield row("regproc", oid, "pg_catalog", name)
    for function in catalog.model.functions:
        yield row("regproc", function.oid, "pg_catalog", function.name)
    for name, oid in catalog.schemas.items():
        yield row("regnamespace", oid, "pg_catalog", name)
    for name, oid in catalog.owners.items():
        yield row("regrole", oid, "pg_catalog", name)


def the_texts(catalog: Catalog) -> Iterator[Row]:
    """What functions say about an OID: definitions, comments, sizes."""

    def row(what: str, oid: int, text: str, part: int = 0) -> Row:
        return {"what_": what, "oid_": oid, "part_": part, "text_": text}

    for object in catalog.relations():
        if object.kind in ("view", "materialized view"):
            yield row("view", object.oid, object.query or object.definition)
        if object.bytes:
            yield row("bytes", object.oid, str(object.bytes))
        if object.primary_key:
            key = ", ".join(map(quote, object.primary_key))
            yield row("constraint", key_constraint(object.oid), f"PRIMARY KEY ({key})")
    for index in catalog.indexes():
        unique = "UNIQUE " if index.primary else ""
        more = f" INCLUDE ({', '.join(map(quote, index.include))})" if index.include else ""
        head = f"CREATE {unique}INDEX {quote(index.name)} ON"
        tail = f"USING btree ({', '.join(map(quote, index.key))}){more}"
        short, full = quote(index.on.name), f"{quote(index.on.schema)}.{quote(index.on.name)}"
        yield row("index", index.oid, f"{head} {full} {tail}")
        pretty = short if index.on.schema == "public" else full
        yield row("index pretty", index.oid, f"{head} {pretty} {tail}")
        for number, column in enumerate(index.key, 1):
            yield row("index", index.oid, quote(column), number)
    for oid, part, comment in catalog.comments():
        yield row("comment", oid, comment, part)
    for function in catalog.model.functions:
        arguments = (shown(type, catalog.own_types).display for type in function.arguments)
        yield row("arguments", function.oid, ", ".join(arguments))
        yield row("result", function.oid, shown(function.result, catalog.own_types).display)


STORED: dict[str, tuple[Rows, tuple[str, ...]]] = {
    "the_settings": (the_settings, ("settings",)),
    "the_names": (the_names, ("objects", "schemas", "users", "functions")),
    "the_texts": (the_texts, ("objects", "functions")),
}
"""As in `postgres`."""
