"""Primary keys: which columns may be one, and what a table or an upsert sink does with rows of the same key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from icestream import types as t
from icestream.catalog.objects import Ingest
from icestream.connectors.base import Column
from icestream.connectors.formats import registry as formats
from icestream.errors import NotSupportedError, Place, SqlError, did_you_mean
from icestream.lake.fold import Upsert
from icestream.sql import statements as st
from icestream.sql.options import Settings
from icestream.types import Type

CONFLICTS: dict[st.OnConflict, str] = {
    "overwrite": "overwrite",
    "do nothing": "nothing",
    "do update if not null": "fill",
}

_POSITIONS = ("partition", "offset", "timestamp", "header", "payload", "file")
"""What INCLUDE takes from a record that differs for every change of one row."""


def can_be_key(type: Type) -> bool:
    """Whether rows can be told apart by values of the type, in every engine that reads the table."""
    nested = isinstance(type, t.ArrayType | t.StructType | t.MapType)
    return not nested and type not in (t.JSONB, t.INTERVAL)


def can_be_version(type: Type) -> bool:
    """Whether values of the type say which change is newer."""
    return can_be_key(type) and type not in (t.BOOLEAN, t.BYTEA)


# -- tables ------------------------------------------------------------------------------------------


def table_key(
    statement: st.CreateTable, ingest: Ingest, columns: Sequence[Column], what: str
) -> Upsert | None:
    """What PRIMARY KEY, ON CONFLICT, WITH VERSION COLUMN and the format say together; None without a key."""
    _check_format(statement, ingest, what)
    key = statement.primary_key
    if not key:
        for clause, asked in (
            ("ON CONFLICT", statement.on_conflict),
            ("WITH VERSION COLUMN", statement.version_columns),
        ):
            if asked:
                raise SqlError(
                    f"{what} has {clause}, but no primary key",
                    place=statement.place,
                    remedy="add PRIMARY KEY (…), or leave it out",
                )
        return None
    known = {c.name: c for c in columns}
    for name in key:
        _check_key_column(_column(known, name, "PRIMARY KEY", what, statement), statement, what)
    _check_positions(statement, ingest, what)
    upsert = Upsert(key, _conflict(statement, what), statement.version_columns)
    _check_version(statement, upsert, known, what)
    return upsert


def whole_row(columns: Sequence[Column]) -> Upsert | None:
    """How a table without a key is changed by statements. None where rows cannot be told apart: they are only added."""
    filled = [c for c in columns if c.generated is None]
    if not all(can_be_key(c.type) for c in filled):
        return None
    return Upsert(tuple(c.name for c in filled), "bag")


def with_key(columns: Sequence[Column], upsert: Upsert | None) -> tuple[Column, ...]:
    """The columns, those of the key NOT NULL."""
    key = upsert.key if upsert else ()
    return tuple(replace(c, not_null=c.not_null or c.name in key) for c in columns)


def _check_format(statement: st.CreateTable, ingest: Ingest, what: str) -> None:
    """A format of changes needs a key, and a table whose rows may change."""
    if not gives_changes(ingest):
        return
    place = statement.format.place if statement.format else statement.place
    if statement.append_only:
        raise SqlError(
            f"{what} is APPEND ONLY, and FORMAT {ingest.format} changes and deletes rows",
            place=place,
            remedy="leave out APPEND ONLY",
        )
    if not statement.primary_key:
        remedy = "add PRIMARY KEY (…) with the columns of the key"
        if ingest.format == "UPSERT":
            remedy = (
                "name the columns that the message's key holds: PRIMARY KEY (id); "
                "or take the key as it is: INCLUDE KEY AS rw_key and PRIMARY KEY (rw_key)"
            )
        raise SqlError(
            f"{what} needs a primary key: FORMAT {ingest.format} says which row a message changes by its key",
            place=place,
            remedy=remedy,
        )


def gives_changes(ingest: Ingest) -> bool:
    """Whether the format gives changes of rows, not rows."""
    if ingest.format is None or ingest.encode is None:
        return False
    return formats.lookup(ingest.format, ingest.encode).changes is not None


def _check_key_column(column: Column, statement: st.CreateTable, what: str) -> None:
    place = _place(statement, column.name)
    if column.generated is not None:
        raise NotSupportedError(
            f"a generated column in a primary key ({column.name} of {what})",
            place=place,
            remedy="use the columns that it is computed from",
        )
    if not can_be_key(column.type):
        raise SqlError(
            f"{what}: {column.name} is {column.type}, which cannot be in a primary key",
            place=place,
            remedy="a number, text, bytea, boolean, date or time can",
        )


def _check_positions(statement: st.CreateTable, ingest: Ingest, what: str) -> None:
    """The key of a row stays the same from one of its changes to the next."""
    for include in ingest.includes:
        name = ingest.name_of(include)
        if gives_changes(ingest) and include.what in _POSITIONS and name in statement.primary_key:
            raise SqlError(
                f"{what}: {name} differs with every message, so no change would find its row",
                place=include.place,
                remedy="the primary key has to be the row's own",
            )


def _conflict(statement: st.CreateTable, what: str) -> str:
    if not statement.append_only:
        return CONFLICTS[statement.on_conflict or "overwrite"]
    if statement.on_conflict not in (None, "do nothing"):
        raise SqlError(
            f"{what} is APPEND ONLY: a row that is there cannot be replaced",
            place=statement.place,
            remedy="ON CONFLICT DO NOTHING, or leave out APPEND ONLY",
        )
    return "nothing"


def _check_version(
    statement: st.CreateTable, upsert: Upsert, known: dict[str, Column], what: str
) -> None:
    clause = "WITH VERSION COLUMN"
    if upsert.version and upsert.conflict == "nothing":
        raise SqlError(
            f"{what}: {clause} has no meaning where the first row of a key stays",
            place=statement.place,
            remedy="leave out the version column, or ON CONFLICT DO NOTHING",
        )
    for at, name in enumerate(upsert.version):
        column = _column(known, name, clause, what, statement)
        wrong = None
        if name in upsert.key:
            wrong = "is in the primary key, so all rows of a key have the same"
        elif name in upsert.version[:at]:
            wrong = "is there twice"
        elif not can_be_version(column.type):
            wrong = f"is {column.type}, which does not say what is newer"
        if wrong:
            raise SqlError(
                f"{what}: {clause}: {name} {wrong}",
                place=_place(statement, name),
                remedy="a number, text, date or time that grows with every change",
            )


def _column(
    known: dict[str, Column], name: str, clause: str, what: str, statement: st.CreateTable
) -> Column:
    if name not in known:
        raise SqlError(
            f"{what}: {clause} names {name!r}, which is no column",
            place=statement.place,
            remedy=did_you_mean(name, known) or "the columns are " + ", ".join(known),
        )
    return known[name]


def _place(statement: st.CreateTable, name: str) -> Place:
    """Where a column is declared, as far as it is."""
    return next((c.place for c in statement.columns if c.name == name), statement.place)


# -- sinks -------------------------------------------------------------------------------------------


def sink_key(
    settings: Settings, columns: Sequence[Column], passed: tuple[str, ...] | None, place: Place
) -> Upsert:
    """The key of an upsert sink: the option primary_key, else the key that its query passes on."""
    given = tuple(settings.list("primary_key"))
    place = settings.place("primary_key") or place
    key = given or passed
    if not key:
        raise SqlError(
            f"{settings.what} needs the option primary_key: type = 'upsert' replaces rows by their key",
            place=settings.place("type") or place,
            remedy="primary_key = 'a, b'",
        )
    types = {c.name: c.type for c in columns}
    for at, name in enumerate(key):
        if name not in types:
            raise SqlError(
                f"{settings.what}: primary_key names {name!r}, which is no column",
                place=place,
                remedy=did_you_mean(name, types) or "the columns are " + ", ".join(types),
            )
        if name in key[:at]:
            raise SqlError(f"{settings.what}: primary_key has {name} twice", place=place)
        if not can_be_key(types[name]):
            raise SqlError(
                f"{settings.what}: {name} is {types[name]}, which cannot be in a primary key",
                place=place,
                remedy="a number, text, bytea, boolean, date or time can",
            )
    return Upsert(key)
