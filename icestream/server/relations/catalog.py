"""A model with what several relations must agree on: OIDs of keys, types of columns, owners."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from icestream.server.relations.datatypes import BUILT_IN, PgType, arrays, own, shown
from icestream.server.relations.model import Column, Model, Object
from icestream.types import Type

Row = dict[str, Any]
"""The columns of a row that say something; the others take the empty value of their type."""

Rows = Callable[["Catalog"], Iterable[Row]]
"""What gives the rows of a relation."""

PG_CATALOG, INFORMATION_SCHEMA, RW_CATALOG = 11, 13000, 13001
SYSTEM_SCHEMAS = {
    "pg_catalog": PG_CATALOG,
    "information_schema": INFORMATION_SCHEMA,
    "rw_catalog": RW_CATALOG,
}
RELKINDS = {
    "table": "r", "materialized view": "m", "view": "v", "index": "i",
    "source": "f",  # a stream that is elsewhere: clients list it among foreign tables
    "sink": "s", "subscription": "u",
}  # fmt: skip
"""What pg_class calls the kinds of objects that are relations."""


def key_index(oid: int) -> int:
    """The OID of the index behind an object's primary key."""
    return oid | 1 << 29


def key_constraint(oid: int) -> int:
    """The OID of an object's primary key."""
    return oid | 1 << 30


@dataclass(frozen=True)
class Index:
    """An index, created or of a primary key: its OID, name, what it is on, and the columns it has."""

    oid: int
    name: str
    on: Object
    key: tuple[str, ...]
    include: tuple[str, ...] = ()
    primary: bool = True


@dataclass(frozen=True)
class Catalog:
    """A model with what is derived from it once: types that only it has, procedures, owners."""

    model: Model
    own_types: dict[Type, PgType]
    procedures: dict[str, int]
    """Input and output functions of types."""
    owners: dict[str, int]
    schemas: dict[str, int]

    def type(self, column: Column) -> PgType:
        """The type of a column."""
        return shown(column.type, self.own_types)

    def types(self) -> list[PgType]:
        """All of pg_type."""
        return [*BUILT_IN.values(), *arrays(self.own_types)]

    def relations(self) -> Iterator[Object]:
        """The objects that are relations."""
        return (o for o in self.model.objects if o.kind in RELKINDS)

    def keyed(self) -> Iterator[Object]:
        """The relations that have a primary key."""
        return (o for o in self.relations() if o.primary_key)

    def indexes(self) -> Iterator[Index]:
        """All indexes: those that were created and those of primary keys."""
        by_oid = {object.oid: object for object in self.model.objects}
        for object in self.keyed():
            yield Index(key_index(object.oid), f"{object.name}_pkey", object, object.primary_key)
        for index in self.relations():
            if index.kind == "index" and (on := by_oid.get(index.on or 0)):
                key = tuple(column.name for column in index.columns)
                yield Index(index.oid, index.name, on, key, index.include, primary=False)

    def comments(self) -> Iterator[tuple[int, int, str]]:
        """(relation, number of the column or 0, comment)"""
        for object in self.relations():
            if object.comment:
                yield object.oid, 0, object.comment
            for number, column in enumerate(object.columns, 1):
                if column.comment:
                    yield object.oid, number, column.comment


def catalog(model: Model) -> Catalog:
    """What rows are made from."""
    mine = own(tuple(c.type for o in model.objects for c in o.columns))
    names = sorted(
        {name for type in [*BUILT_IN.values(), *mine.values()] for name in procedures_of(type)}
    )
    return Catalog(
        model,
        mine,
        {name: 14000 + number for number, name in enumerate(names)},
        {user.name: user.oid for user in model.users},
        SYSTEM_SCHEMAS | {schema.name: schema.oid for schema in model.schemas},
    )


def procedures_of(type: PgType) -> tuple[str, str, str, str]:
    """The functions that read and print values of a type: in, out, receive, send."""
    stem = type.input.removesuffix("in")
    return (type.input, f"{stem}out", f"{stem}recv", f"{stem}send")
