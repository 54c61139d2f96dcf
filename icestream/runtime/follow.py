"""Tables follow their objects after an ALTER: names and columns. Every step may be repeated, so one that a crash has cut
short is made up for at the next start."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from icestream import faults
from icestream.errors import SqlError
from icestream.home_log import log_suppressed
from icestream.identity import ObjectKey
from icestream.lake.catalogs import LAKE, SYSTEM, Lake, owner_of
from icestream.lake.stamp import ObjectAt, Record
from icestream.lake.table import LakeTable
from icestream.types import Type, backtick, stored_spark_type

_LOG = logging.getLogger(__name__)


def check_free(lake: Lake, names: Iterable[str]) -> None:
    """Whether the lake has no table of these names but the engine's own; an error otherwise."""
    for name in names:
        clear(lake, lake.table(LAKE, "public", name, owned=True), keep=True)


def rename_tables(
    lake: Lake, tables: Mapping[str, LakeTable], record: Record
) -> dict[str, ObjectAt]:
    """Give tables the names that their objects have now; gives what the record has to say of them then."""
    told = {
        key: replace(at, table=table.name)
        for key, table in tables.items()
        if (at := record.objects.get(key)) and at.table not in (None, table.name)
    }
    moving: list[tuple[str, LakeTable, LakeTable]] = []
    for key in told:
        new, at = tables[key], record.objects[key]
        if new.owned and at.uuid is not None and at.table is not None and not _is(lake, new, at):
            moving.append((key, lake.table(*at.table.split(".", 2), owned=True), new))
    try:
        _move(lake, moving, record)
    except Exception:
        _move_back(lake, moving, record)
        raise
    return told


Moving = Sequence[tuple[str, LakeTable, LakeTable]]
"""Keys of objects, where their tables are, and where they are to be."""


def _move(lake: Lake, moving: Moving, record: Record) -> None:
    wanted = {new.parts for _, _, new in moving}
    for key, old, _ in moving:
        if old.parts in wanted and _is(lake, old, record.objects[key]):
            lake.rename(old, *_aside(key))
            faults.reach("table-renamed")
    for key, old, new in moving:
        aside = lake.table(*_aside(key), owned=True)
        clear(lake, new)
        lake.rename(aside if _is(lake, aside, record.objects[key]) else old, *new.parts)
        faults.reach("table-renamed")


def _move_back(lake: Lake, moving: Moving, record: Record) -> None:
    """Undo what was moved, as far as that can be done now."""
    for key, old, new in reversed(moving):
        for place in (new, lake.table(*_aside(key), owned=True)):
            with log_suppressed(_LOG, "a table could not be moved back", Exception):
                if _is(lake, place, record.objects[key]):
                    lake.rename(place, *old.parts)


def _aside(key: str) -> tuple[str, str, str]:
    """Where the table of an object waits while another one leaves its name."""
    return LAKE, SYSTEM, f"renamed_{ObjectKey(key).identifier}"


def _is(lake: Lake, table: LakeTable, at: ObjectAt) -> bool:
    """Whether this is the table that the record tells of."""
    return lake.exists(table) and table.uuid() == at.uuid


def clear(lake: Lake, table: LakeTable, *, keep: bool = False) -> None:
    """Drop what an object that is gone has left under a name; a table of somebody else is an error."""
    if not lake.exists(table):
        return
    if owner_of(table) is None:
        raise SqlError(
            f"the lake already has a table {table.name} that this engine did not make",
            remedy="choose another name, or drop that table",
        )
    if not keep:
        lake.drop(table)


def fit_columns(lake: Lake, table: LakeTable, columns: Sequence[tuple[str, Type]]) -> None:
    """Add and drop columns until the table has those of its object, in their order."""
    have = [str(field.name()) for field in table.load().schema().columns()]
    names = [name for name, _ in columns]
    for name in have:
        if name not in names:
            lake.spark.sql(f"ALTER TABLE {table.sql} DROP COLUMN {backtick(name)}")
    place = "FIRST"
    for name, type in columns:
        if name not in have:
            lake.spark.sql(
                f"ALTER TABLE {table.sql} ADD COLUMN {backtick(name)} {stored_spark_type(type)} {place}"
            )
        place = f"AFTER {backtick(name)}"
    if names != have:
        faults.reach("columns-changed")


def is_outdated(table: LakeTable, at: ObjectAt) -> bool:
    """Whether the recorded snapshot has other columns than the table has now: a query would see those."""
    java = table.load()
    snapshot = java.snapshot(at.snapshot) if at.snapshot is not None else None
    return snapshot is not None and snapshot.schemaId() != java.schema().schemaId()
