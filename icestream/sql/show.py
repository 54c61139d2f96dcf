"""SHOW, DESCRIBE, SET, FLUSH, WAIT, CANCEL and VACUUM: looking at the engine and steering the session."""

from __future__ import annotations

from icestream.sql.alter import object_kind
from icestream.sql.cursor import Cursor
from icestream.sql.statements import (
    CancelJobs,
    Describe,
    Flush,
    Name,
    Pause,
    Resume,
    SetVariable,
    Show,
    ShowCreate,
    Vacuum,
    Wait,
)

_LISTS = (
    ("SOURCES",), ("TABLES",), ("INTERNAL", "TABLES"), ("VIEWS",), ("MATERIALIZED", "VIEWS"),
    ("SINKS",), ("CONNECTIONS",), ("CONNECTORS",), ("SECRETS",), ("SUBSCRIPTIONS",), ("INDEXES",), ("COLUMNS",),
    ("JOBS",), ("CLUSTER",), ("PROCESSLIST",), ("SCHEMAS",), ("DATABASES",), ("FUNCTIONS",),
    ("USERS",), ("CURSORS",), ("PARAMETERS",), ("ALL",), ("TRANSACTION", "ISOLATION", "LEVEL"),
)  # fmt: skip
_OF_AN_OBJECT = ("indexes", "columns")


def show(cursor: Cursor) -> Show | ShowCreate:
    """SHOW list [FROM name] [LIKE '…'] | SHOW CREATE kind name | SHOW setting"""
    cursor.expect("SHOW")
    if cursor.accept("CREATE"):
        kind = object_kind(cursor)
        name = cursor.name(f"the name of the {kind}")
        cursor.finish()
        return ShowCreate(cursor.start, cursor.text, kind, name)
    for words in _LISTS:
        if cursor.accept(*words):
            return _list(cursor, " ".join(words).lower())
    if cursor.accept("TIME", "ZONE"):
        what = "timezone"
    else:
        what = _setting(cursor, "what to show (SOURCES, TABLES, …) or the name of a setting")
    cursor.finish()
    return Show(cursor.start, cursor.text, what)


def _list(cursor: Cursor, what: str) -> Show:
    name: Name | None = None
    if what in _OF_AN_OBJECT:
        cursor.expect("FROM")
        name = cursor.name("the name of a table, view or source")
    elif cursor.accept("FROM"):
        name = cursor.name("the name of a schema")
    like = cursor.string("a pattern as a string") if cursor.accept("LIKE") else None
    cursor.finish()
    return Show(cursor.start, cursor.text, what, name, like)


def _setting(cursor: Cursor, what: str) -> str:
    parts = [cursor.identifier(what)]
    while cursor.accept("."):
        parts.append(cursor.identifier(what))
    return ".".join(parts)


def describe(cursor: Cursor) -> Describe:
    """DESCRIBE name"""
    cursor.next()
    name = cursor.name("the name of a table, view, source or sink")
    cursor.finish()
    return Describe(cursor.start, cursor.text, name)


def set_variable(cursor: Cursor) -> SetVariable:
    """SET [SESSION | LOCAL] name = | TO value | DEFAULT"""
    cursor.expect("SET")
    if not cursor.at("=", ahead=1):
        _ = cursor.accept("SESSION") or cursor.accept("LOCAL")
    if cursor.accept("TIME", "ZONE"):
        name = "timezone"
    else:
        name = _setting(cursor, "the name of a setting")
        if not cursor.accept("="):
            cursor.expect("TO")
    value = None if cursor.accept("DEFAULT") else _values(cursor)
    cursor.finish()
    return SetVariable(cursor.start, cursor.text, name, value)


def _values(cursor: Cursor) -> str:
    found = [_value(cursor)]
    while cursor.accept(","):
        found.append(_value(cursor))
    return ", ".join(found)


def _value(cursor: Cursor) -> str:
    sign = "-" if cursor.accept("-") else ""
    token = cursor.peek()
    if token.kind == "number":
        return sign + cursor.next().text
    if sign or token.kind not in ("word", "name", "string"):
        cursor.fail("a number" if sign else "a value")
    cursor.next()
    return token.text.lower() if token.kind == "word" else token.text


def flush(cursor: Cursor) -> Flush:
    """FLUSH"""
    cursor.expect("FLUSH")
    cursor.finish()
    return Flush(cursor.start, cursor.text)


def cancel(cursor: Cursor) -> CancelJobs:
    """CANCEL JOB[S] number [, …]"""
    cursor.expect("CANCEL")
    if not cursor.accept("JOB"):
        cursor.expect("JOBS")
    ids = [cursor.integer("the number of a job")]
    while cursor.accept(","):
        ids.append(cursor.integer("the number of a job"))
    cursor.finish()
    return CancelJobs(cursor.start, cursor.text, tuple(ids))


def wait(cursor: Cursor) -> Wait:
    """WAIT"""
    cursor.expect("WAIT")
    cursor.finish()
    return Wait(cursor.start, cursor.text)


def pause(cursor: Cursor) -> Pause:
    """PAUSE"""
    cursor.expect("PAUSE")
    cursor.finish()
    return Pause(cursor.start, cursor.text)


def resume(cursor: Cursor) -> Resume:
    """RESUME"""
    cursor.expect("RESUME")
    cursor.finish()
    return Resume(cursor.start, cursor.text)


def vacuum(cursor: Cursor) -> Vacuum:
    """VACUUM [FULL] name"""
    cursor.expect("VACUUM")
    full = cursor.accept("FULL")
    name = cursor.name("the name of a table")
    cursor.finish()
    return Vacuum(cursor.start, cursor.text, name, full)
