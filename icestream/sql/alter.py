"""ALTER and DROP: changes of objects that exist."""

from __future__ import annotations

from typing import Any

from icestream.errors import NotSupportedError
from icestream.sql.clauses import format_encode, if_exists, if_not_exists, option_list, with_options
from icestream.sql.columns import column_definition
from icestream.sql.cursor import Cursor
from icestream.sql.statements import Alter, Column, Drop, ObjectKind
from icestream.sql.types import type_of

_KINDS: dict[str, ObjectKind] = {
    "SOURCE": "source",
    "TABLE": "table",
    "VIEW": "view",
    "MATERIALIZED": "materialized view",
    "SINK": "sink",
    "CONNECTION": "connection",
    "CONNECTOR": "connector",
    "SECRET": "secret",
    "INDEX": "index",
    "SCHEMA": "schema",
    "SUBSCRIPTION": "subscription",
}
_OTHER_KINDS = (
    "FUNCTION",
    "AGGREGATE",
    "DATABASE",
    "USER",
    "ROLE",
    "SYSTEM",
    "FRAGMENT",
    "COMPACTION",
)
_SETTINGS = (
    "PARALLELISM", "BACKFILL_PARALLELISM", "SOURCE_RATE_LIMIT", "BACKFILL_RATE_LIMIT",
    "SINK_RATE_LIMIT", "DML_RATE_LIMIT", "RESOURCE_GROUP",
)  # fmt: skip


def object_kind(cursor: Cursor) -> ObjectKind:
    """SOURCE | TABLE | [MATERIALIZED] VIEW | …"""
    if cursor.peek().upper in _OTHER_KINDS:
        raise NotSupportedError(cursor.found().upper(), place=cursor.place())
    kind = _KINDS[cursor.word("the kind of an object", _KINDS)]
    if kind == "materialized view":
        cursor.expect("VIEW")
    return kind


def drop(cursor: Cursor) -> Drop:
    """DROP kind [IF EXISTS] name [, …] [CASCADE | RESTRICT]"""
    cursor.expect("DROP")
    kind = object_kind(cursor)
    exists = if_exists(cursor)
    names = [cursor.name(f"the name of the {kind}")]
    while cursor.accept(","):
        names.append(cursor.name(f"the name of the {kind}"))
    cascade = cursor.accept("CASCADE")
    if not cascade:
        cursor.accept("RESTRICT")
    cursor.finish("CASCADE or the end of the statement")
    return Drop(cursor.start, cursor.text, kind, tuple(names), exists, cascade)


def alter(cursor: Cursor) -> Alter:
    """ALTER kind name action"""
    cursor.expect("ALTER")
    kind = object_kind(cursor)
    name = cursor.name(f"the name of the {kind}")
    action, details = _action(cursor, kind)
    cursor.finish()
    return Alter(cursor.start, cursor.text, kind, name, action, **details)


def _action(cursor: Cursor, kind: ObjectKind) -> tuple[str, dict[str, Any]]:
    if cursor.accept("RENAME"):
        cursor.expect("TO")
        return "rename", {"new_name": cursor.identifier("the new name")}
    if cursor.accept("OWNER"):
        cursor.expect("TO")
        return "owner", {"new_name": cursor.identifier("the name of a user")}
    if cursor.accept("SWAP"):
        cursor.expect("WITH")
        return "swap", {"new_name": str(cursor.name(f"the name of the other {kind}"))}
    if cursor.accept("CONNECTOR"):
        cursor.expect("WITH")
        return "connector", {"options": option_list(cursor)}
    if cursor.accept("REFRESH"):
        cursor.expect("SCHEMA")
        return "refresh schema", {}
    for word in ("PAUSE", "RESUME", "RESET"):
        if cursor.accept(word):
            return word.lower(), {}
    if cursor.at("FORMAT"):
        return "format", {"format": format_encode(cursor)}
    if cursor.accept("SET"):
        return _set(cursor)
    if kind == "secret" and (cursor.at("WITH") or cursor.at("AS")):
        options = with_options(cursor)
        cursor.expect("AS")
        return "set secret", {
            "options": options,
            "value": cursor.variable_string("the value as a string"),
        }
    return _column_action(cursor)


def _column_action(cursor: Cursor) -> tuple[str, dict[str, Any]]:
    if cursor.accept("ADD"):
        cursor.accept("COLUMN")
        lenient = if_not_exists(cursor)
        return "add column", {"column": column_definition(cursor), "lenient": lenient}
    if cursor.accept("DROP"):
        cursor.accept("COLUMN")
        lenient = if_exists(cursor)
        name = cursor.identifier("a column name")
        return "drop column", {"column_name": name, "lenient": lenient}
    if cursor.accept("ALTER"):
        cursor.accept("COLUMN")
        place = cursor.place()
        name = cursor.identifier("a column name")
        cursor.accept("SET", "DATA")
        cursor.expect("TYPE")
        return "alter column", {"column": Column(name, type_of(cursor), place), "column_name": name}
    cursor.fail(
        "what to alter",
        remedy="RENAME TO, ADD COLUMN, DROP COLUMN, ALTER COLUMN, SET, OWNER TO, SWAP WITH, "
        "CONNECTOR WITH, REFRESH SCHEMA, FORMAT, PAUSE, RESUME or RESET",
    )


def _set(cursor: Cursor) -> tuple[str, dict[str, Any]]:
    if cursor.at("("):
        return "set", {"options": option_list(cursor)}
    if cursor.accept("SCHEMA"):
        return "set schema", {"new_name": cursor.identifier("the name of a schema")}
    setting = cursor.word("a setting", (*_SETTINGS, "SCHEMA")).lower()
    if not cursor.accept("="):
        cursor.expect("TO")
    value = None
    if not cursor.accept("DEFAULT"):
        if cursor.peek().kind not in ("word", "number", "string"):
            cursor.fail("a value")
        value = cursor.next().text.lower()
    cursor.accept("DEFERRED")
    return f"set {setting}", {"value": value}
