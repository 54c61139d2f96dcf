"""INSERT, UPDATE, DELETE and SELECT: rows in, rows changed, rows out."""

from __future__ import annotations

from icestream.errors import NotSupportedError, SqlError
from icestream.sql.cursor import Cursor
from icestream.sql.queries import expression, expressions, query
from icestream.sql.statements import Delete, Insert, Query, Select, Update

_RETURNING = ("RETURNING",)


def select(cursor: Cursor) -> Select:
    """A query on its own."""
    made = query(cursor)
    cursor.finish()
    return Select(cursor.start, cursor.text, made)


def insert(cursor: Cursor) -> Insert:
    """INSERT INTO table [(columns)] query [RETURNING …]"""
    cursor.expect("INSERT", "INTO")
    table = cursor.name("the name of a table")
    columns: tuple[str, ...] = ()
    if cursor.at("(") and not (cursor.at("SELECT", ahead=1) or cursor.at("WITH", ahead=1)):
        place = cursor.place()
        columns = cursor.identifiers("a column name")
        if len(set(columns)) < len(columns):
            raise SqlError("a column is there twice", place=place)
    for words in (("DEFAULT", "VALUES"), ("ON", "CONFLICT")):
        if cursor.at(*words):
            raise NotSupportedError(f"INSERT … {' '.join(words)}", place=cursor.place())
    made = query(cursor, _RETURNING, ("ON", "CONFLICT"))
    if cursor.at("ON", "CONFLICT"):
        raise NotSupportedError(
            "INSERT … ON CONFLICT",
            place=cursor.place(),
            remedy="declare ON CONFLICT with the table: CREATE TABLE … ON CONFLICT …",
        )
    returned = _returning(cursor)
    return Insert(cursor.start, cursor.text, table, columns, made, returned)


def update(cursor: Cursor) -> Update:
    """UPDATE table SET column = value, … [WHERE …] [RETURNING …]"""
    cursor.expect("UPDATE")
    table = cursor.name("the name of a table")
    cursor.expect("SET")
    assignments: dict[str, Query] = {}
    while True:
        if cursor.at("("):
            raise NotSupportedError("UPDATE … SET (a, b) = (…)", place=cursor.place())
        place = cursor.place()
        column = cursor.identifier("a column name")
        if column in assignments:
            raise SqlError(f"column {column} is set twice", place=place)
        cursor.expect("=")
        if cursor.at("DEFAULT"):
            raise NotSupportedError(
                "UPDATE … SET column = DEFAULT", place=cursor.place(), remedy="write its value"
            )
        stops = ((",",), ("WHERE",), ("FROM",), _RETURNING)
        assignments[column] = expression(cursor, "a value", *stops)
        if not cursor.accept(","):
            break
    if cursor.at("FROM"):
        raise NotSupportedError("UPDATE … FROM", place=cursor.place())
    where = _where(cursor)
    returned = _returning(cursor)
    return Update(cursor.start, cursor.text, table, tuple(assignments.items()), where, returned)


def delete(cursor: Cursor) -> Delete:
    """DELETE FROM table [WHERE …] [RETURNING …]"""
    cursor.expect("DELETE", "FROM")
    table = cursor.name("the name of a table")
    if cursor.at("USING"):
        raise NotSupportedError("DELETE … USING", place=cursor.place())
    where = _where(cursor)
    returned = _returning(cursor)
    return Delete(cursor.start, cursor.text, table, where, returned)


def _where(cursor: Cursor) -> Query | None:
    return expression(cursor, "a condition", _RETURNING) if cursor.accept("WHERE") else None


def _returning(cursor: Cursor) -> tuple[Query, ...]:
    found = expressions(cursor, "a value", alias=True) if cursor.accept("RETURNING") else ()
    cursor.finish()
    return found
