"""The column list of CREATE SOURCE and CREATE TABLE: columns, generated columns, keys, watermarks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from icestream.errors import NotSupportedError, Place, SqlError, did_you_mean
from icestream.sql.cursor import Cursor
from icestream.sql.queries import expression
from icestream.sql.statements import Column, Query, Watermark
from icestream.sql.types import type_of

_NOT_YET = ("UNIQUE", "CHECK", "FOREIGN", "REFERENCES", "COLLATE", "EXCLUDE")


@dataclass
class ColumnList:
    """What stands between the brackets, as it is being read."""

    columns: list[Column] = field(default_factory=list)
    watermarks: list[Watermark] = field(default_factory=list)
    key: list[tuple[str, Place]] = field(default_factory=list)
    key_place: Place | None = None
    wildcard: bool = False

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The key's columns, from PRIMARY KEY at a column or in the list."""
        return tuple(name for name, _ in self.key)

    def check(self, *, typed: bool, others: Iterable[str | None] = ()) -> None:
        """After all clauses: names are unique, have types, and keys and watermarks name columns."""
        names: set[str] = set()
        for column in self.columns:
            if column.name in names:
                raise SqlError(f"column {column.name} is there twice", place=column.place)
            names.add(column.name)
            if typed and column.type is None and column.generated is None:
                raise SqlError(f"column {column.name} has no type", place=column.place)
        if self.wildcard or not self.columns or not typed:
            return  # the connector or the query brings the columns
        given = set(others)
        names.update(name for name in given if name)
        used = [*self.key, *((mark.column, mark.place) for mark in self.watermarks)]
        for name, place in used:
            unnamed = None in given and name.startswith("_rw_")  # what an INCLUDE without AS makes
            if name not in names and not unnamed:
                remedy = did_you_mean(name, names)
                raise SqlError(f"there is no column {name}", place=place, remedy=remedy)


def column_list(cursor: Cursor) -> ColumnList:
    """(column | * | PRIMARY KEY (…) | WATERMARK …, …), a last comma is allowed"""
    found = ColumnList()
    cursor.expect("(")
    while True:
        _item(cursor, found)
        if not cursor.accept(",") or cursor.at(")"):
            break
    if not cursor.accept(")"):
        cursor.fail(", or )")
    return found


def _item(cursor: Cursor, found: ColumnList) -> None:
    if cursor.at("*"):
        if found.wildcard:
            raise SqlError("* is there twice", place=cursor.place())
        cursor.expect("*")
        found.wildcard = True
    elif cursor.at("WATERMARK", "FOR"):
        found.watermarks.append(watermark(cursor))
    elif cursor.at("PRIMARY", "KEY") or cursor.at("CONSTRAINT"):
        _key(cursor, found)
    elif cursor.peek().upper in _NOT_YET:
        raise NotSupportedError(f"{cursor.found().upper()} constraints", place=cursor.place())
    else:
        place = cursor.place()
        column = column_definition(cursor)
        found.columns.append(column)
        if column.primary_key:
            _once(found, place)
            found.key = [(column.name, place)]


def _key(cursor: Cursor, found: ColumnList) -> None:
    if cursor.accept("CONSTRAINT"):
        cursor.identifier("the name of the constraint")
    place = cursor.place()
    cursor.expect("PRIMARY", "KEY")
    _once(found, place)
    cursor.expect("(")
    while True:
        place = cursor.place()
        name = cursor.identifier("a column name")
        if name in found.primary_key:
            raise SqlError(f"column {name} is in the primary key twice", place=place)
        found.key.append((name, place))
        if not cursor.accept(","):
            break
    cursor.expect(")")


def _once(found: ColumnList, place: Place) -> None:
    if found.key_place:
        raise SqlError(
            "a second PRIMARY KEY",
            place=place,
            remedy="write PRIMARY KEY (a, b) for a key of several columns",
            code="42P16",
        )
    found.key_place = place


def column_definition(cursor: Cursor) -> Column:
    """name [type] [NOT NULL | PRIMARY KEY | DEFAULT … | AS …]…"""
    place = cursor.place()
    column = Column(cursor.identifier("a column name"), None, place)
    if not (cursor.at(",") or cursor.at(")") or cursor.at("AS") or cursor.peek().kind == "end"):
        column = replace(column, type=type_of(cursor))
    while True:
        token = cursor.peek()
        if cursor.accept("NOT", "NULL"):
            column = replace(column, not_null=True)
        elif cursor.accept("NULL"):
            pass
        elif cursor.accept("PRIMARY", "KEY"):
            column = replace(column, primary_key=True)
        elif cursor.accept("DEFAULT"):
            if column.default or column.generated:
                raise SqlError("a second value for the column", place=cursor.place(token))
            column = replace(column, default=_column_expression(cursor, "a default"))
        elif cursor.at("AS") or cursor.at("GENERATED", "ALWAYS", "AS"):
            if column.default or column.generated:
                raise SqlError("a second value for the column", place=cursor.place(token))
            cursor.accept("GENERATED", "ALWAYS")
            cursor.expect("AS")
            column = replace(column, generated=_column_expression(cursor, "an expression"))
            cursor.accept("STORED")
        elif token.upper in _NOT_YET:
            raise NotSupportedError(f"{token.upper} constraints", place=cursor.place())
        else:
            return column


def _column_expression(cursor: Cursor, what: str) -> Query:
    """Up to the next constraint; the NOT NULL of IS NOT NULL is none."""
    return expression(
        cursor, what, (",",), ("PRIMARY", "KEY"), ("DEFAULT",), ("STORED",), ("NOT", "NULL")
    )


def watermark(cursor: Cursor) -> Watermark:
    """WATERMARK FOR column AS expression [WITH TTL]"""
    cursor.expect("WATERMARK", "FOR")
    place = cursor.place()
    column = cursor.identifier("a column name")
    cursor.expect("AS")
    value = expression(cursor, "an expression", (",",), ("WITH", "TTL"))
    return Watermark(column, value, place, ttl=cursor.accept("WITH", "TTL"))
