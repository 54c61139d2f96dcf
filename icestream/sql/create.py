"""CREATE SOURCE, TABLE, VIEW and SINK: the objects that data flows through."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from icestream.errors import Place, SqlError
from icestream.sql.clauses import format_encode, if_not_exists, include, option_list, with_options
from icestream.sql.columns import ColumnList, column_list
from icestream.sql.cursor import Cursor
from icestream.sql.queries import EMIT, query
from icestream.sql.statements import (
    CreateSink,
    CreateSource,
    CreateTable,
    CreateView,
    Format,
    Include,
    Name,
    OnConflict,
    Options,
    Query,
)

_CONFLICTS: tuple[tuple[tuple[str, ...], OnConflict], ...] = (
    (("OVERWRITE",), "overwrite"),
    (("DO", "UPDATE", "FULL"), "overwrite"),
    (("DO", "NOTHING"), "do nothing"),
    (("IGNORE",), "do nothing"),
    (("DO", "UPDATE", "IF", "NOT", "NULL"), "do update if not null"),
)
_ENGINES = ("ICEBERG", "HUMMOCK")


@dataclass
class _Clauses:
    """The clauses after the column list of a source or table, in whatever order they come."""

    seen: set[str] = field(default_factory=set)
    includes: list[Include] = field(default_factory=list)
    options: Options = field(default_factory=dict)
    format: Format | None = None
    append_only: bool = False
    on_conflict: OnConflict | None = None
    version_columns: tuple[str, ...] = ()
    from_source: Name | None = None
    from_table: str | None = None
    query: Query | None = None
    engine: str | None = None

    def once(self, what: str, place: Place) -> None:
        if what in self.seen:
            raise SqlError(f"a second {what}", place=place)
        self.seen.add(what)


def create_source(cursor: Cursor) -> CreateSource:
    """SOURCE [IF NOT EXISTS] name [(…)] …"""
    exists, name = if_not_exists(cursor), cursor.name("the name of the source")
    columns = column_list(cursor) if cursor.at("(") else ColumnList()
    clauses = _Clauses()
    while _shared_clause(cursor, clauses):
        pass
    cursor.finish("INCLUDE, WITH (…) or FORMAT")
    columns.check(typed=True, others=(i.alias for i in clauses.includes))
    return CreateSource(
        **_head(cursor),
        name=name,
        columns=tuple(columns.columns),
        options=clauses.options,
        format=clauses.format,
        includes=tuple(clauses.includes),
        watermarks=tuple(columns.watermarks),
        primary_key=columns.primary_key,
        if_not_exists=exists,
        wildcard=columns.wildcard,
    )


def create_table(cursor: Cursor) -> CreateTable:
    """TABLE [IF NOT EXISTS] name [(…)] … [AS query]"""
    exists, name = if_not_exists(cursor), cursor.name("the name of the table")
    place = cursor.place()
    columns = column_list(cursor) if cursor.at("(") else None
    clauses = _Clauses()
    while _shared_clause(cursor, clauses) or _table_clause(cursor, clauses):
        pass
    cursor.finish("INCLUDE, WITH (…), FORMAT, FROM, ENGINE, APPEND ONLY, ON CONFLICT or AS")
    made = columns or ColumnList()
    if columns is None and not clauses.query and not clauses.options:
        raise SqlError("expected the columns of the table: (name type, …)", place=place)
    made.check(typed=clauses.query is None, others=(i.alias for i in clauses.includes))
    return CreateTable(
        **_head(cursor),
        name=name,
        columns=tuple(made.columns),
        options=clauses.options,
        format=clauses.format,
        includes=tuple(clauses.includes),
        watermarks=tuple(made.watermarks),
        primary_key=made.primary_key,
        if_not_exists=exists,
        wildcard=made.wildcard,
        append_only=clauses.append_only,
        on_conflict=clauses.on_conflict,
        version_columns=clauses.version_columns,
        from_source=clauses.from_source,
        from_table=clauses.from_table,
        query=clauses.query,
        engine=clauses.engine,
    )


def _shared_clause(cursor: Cursor, found: _Clauses) -> bool:
    place = cursor.place()
    if cursor.at("INCLUDE"):
        found.includes.append(include(cursor))
    elif cursor.at("WITH", "("):
        found.once("WITH (…)", place)
        found.options = with_options(cursor)
    elif cursor.at("FORMAT"):
        found.once("FORMAT", place)
        found.format = format_encode(cursor)
    elif cursor.at("ROW", "FORMAT"):
        remedy = "write FORMAT PLAIN ENCODE JSON"
        raise SqlError("ROW FORMAT is the old spelling", place=place, remedy=remedy)
    else:
        return False
    return True


def _table_clause(cursor: Cursor, found: _Clauses) -> bool:
    place = cursor.place()
    if cursor.at("APPEND"):
        found.once("APPEND ONLY", place)
        cursor.expect("APPEND", "ONLY")
        found.append_only = True
    elif cursor.accept("ON", "CONFLICT"):
        found.once("ON CONFLICT", place)
        found.on_conflict = _conflict(cursor)
    elif cursor.accept("WITH", "VERSION", "COLUMN"):
        found.once("WITH VERSION COLUMN", place)
        found.version_columns = cursor.identifiers("a column name")
    elif cursor.accept("FROM"):
        found.once("FROM", place)
        found.from_source = cursor.name("the name of a source")
        cursor.expect("TABLE")
        found.from_table = cursor.string("the upstream table as a string: 'schema.table'")
    elif cursor.accept("ENGINE"):
        found.once("ENGINE", place)
        cursor.expect("=")
        found.engine = cursor.word("an engine", _ENGINES).lower()
    elif cursor.accept("AS"):
        found.once("AS", place)
        found.query = query(cursor)
    else:
        return False
    return True


def _conflict(cursor: Cursor) -> OnConflict:
    for words, meaning in _CONFLICTS:
        if cursor.accept(*words):
            return meaning
    cursor.fail("OVERWRITE, DO NOTHING or DO UPDATE IF NOT NULL")


def create_view(cursor: Cursor, *, materialized: bool, or_replace: bool) -> CreateView:
    """[MATERIALIZED] VIEW [IF NOT EXISTS] name [(columns)] [WITH (…)] AS query [EMIT ON WINDOW CLOSE]"""
    exists, name = if_not_exists(cursor), cursor.name("the name of the view")
    columns = cursor.identifiers("a column name") if cursor.at("(") else ()
    options = with_options(cursor)
    cursor.expect("AS")
    made = query(cursor, EMIT)
    emit = materialized and cursor.accept(*EMIT)
    cursor.finish()
    return CreateView(
        **_head(cursor),
        name=name,
        query=made,
        columns=columns,
        materialized=materialized,
        emit_on_window_close=emit,
        options=options,
        if_not_exists=exists,
        or_replace=or_replace,
    )


def create_sink(cursor: Cursor) -> CreateSink:
    """SINK [IF NOT EXISTS] name [INTO table [(…)]] FROM object | AS query [WITH (…)] [FORMAT …]"""
    exists, name = if_not_exists(cursor), cursor.name("the name of the sink")
    into = from_name = made = None
    into_columns: tuple[str, ...] = ()
    emit = False
    if cursor.accept("INTO"):
        into = cursor.name("the name of a table")
        into_columns = cursor.identifiers("a column name") if cursor.at("(") else ()
    if cursor.accept("FROM"):
        from_name = cursor.name("the name of a table, view or source")
    elif cursor.accept("AS"):
        made = query(cursor, ("WITH", "("), EMIT)
        emit = cursor.accept(*EMIT)
    else:
        cursor.fail("FROM or AS" if into else "FROM, AS or INTO")
    options = option_list(cursor) if cursor.accept("WITH") else {}
    if not options and not into:
        cursor.fail("WITH (connector = …)")
    format = format_encode(cursor) if cursor.at("FORMAT") else None
    cursor.finish()
    return CreateSink(
        **_head(cursor),
        name=name,
        options=options,
        from_name=from_name,
        query=made,
        into=into,
        into_columns=into_columns,
        format=format,
        if_not_exists=exists,
        emit_on_window_close=emit,
    )


def _head(cursor: Cursor) -> dict[str, Any]:
    return {"place": cursor.start, "text": cursor.text}
