"""Drops tables of the embedded lake whose objects are gone."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from icestream.catalog.objects import (
    DEAD_LETTERS,
    Connector,
    MaterializedView,
    Object,
    Source,
    Table,
)
from icestream.identity import ObjectKey
from icestream.lake.catalogs import LAKE, SYSTEM, Lake, owner_of
from icestream.lake.table import LakeTable


def drop_unowned_tables(lake: Lake, known: Collection[LakeTable], keys: Collection[str]) -> None:
    """Drop tables of objects that are not there: what a process has left that died while it filled a view."""
    names = {table.parts for table in known}
    for schema in ("public", SYSTEM):
        lake.create_namespace((LAKE, schema))
        for table in lake.tables(LAKE, schema):
            owner = None if table.parts in names else owner_of(table)
            if owner is not None and ObjectKey(owner).is_object and owner not in keys:
                lake.drop(table)


def drop_tables_of(lake: Lake, objects: Sequence[Object]) -> None:
    """Drop the tables of objects that are gone. Targets of sinks stay: they are the user's."""
    for object in objects:
        if object.kind in (Table.kind, MaterializedView.kind):
            table = lake.table(LAKE, object.schema, object.name, owned=True)
            if lake.exists(table) and owner_of(table) == object.key:
                lake.drop(table)
        if object.kind == Table.kind:
            lake.dml.forget(object.key, lake.dml.head)
        if object.kind in (Source.kind, Table.kind, Connector.kind):
            lake.drop(lake.table(LAKE, DEAD_LETTERS, object.name, owned=True))
    gone = {object.key for object in objects}
    for table in lake.tables(LAKE, SYSTEM):
        if owner_of(table) in gone:
            lake.drop(table)
