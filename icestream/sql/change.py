"""INSERT, UPDATE, DELETE and SELECT: rows in, rows changed, rows out."""

from __future__ import annotations

from sqlglot import exp

from icestream.errors import NotSupportedError, SqlError
from icestream.sql.cursor import Cursor
from icestream.sql.queries import expression, expressions, put_before, query, with_clause
from icestream.sql.session_statements import SystemQuery
from icestream.sql.statements import Delete, Insert, Query, Select, Update

_RETURNING = ("RETURNING",)


def select(cursor: Cursor) -> Select | Insert | SystemQuery:
    """A query on its own, or WITH … INSERT."""
    if cursor.is_system_query():
        return SystemQuery(cursor.start, cursor.text)
    if cursor.at("WITH") and (clause := with_clause(cursor)) is not None:
        return insert(cursor, clause)
    made = query(cursor)
    cursor.finish()
    return Select(cursor.start, cursor.text, made)


def insert(cursor: Cursor, clause: exp.With | None = None) -> Insert:
    """INSERT INTO table [(columns)] query [RETURNING …]; `clause` is the WITH that was read before."""
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
    if clause is not None:
        put_before(clause, made)
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
            word = cursor.next()
            assignments[column] = Query(exp.Var(this="DEFAULT"), word.text, cursor.place(word))
        else:
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
