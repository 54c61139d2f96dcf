"""SHOW, DESCRIBE, FLUSH, WAIT, CANCEL and VACUUM: looking at the engine and steering the session."""

from __future__ import annotations

from icestream.sql.alter import object_kind
from icestream.sql.cursor import Cursor
from icestream.sql.session import setting_name, special_name
from icestream.sql.statements import (
    CancelJobs,
    Describe,
    Flush,
    Name,
    Pause,
    Resume,
    Show,
    ShowCreate,
    Vacuum,
    Wait,
)

_LISTS = (
    ("SOURCES",), ("TABLES",), ("INTERNAL", "TABLES"), ("VIEWS",), ("MATERIALIZED", "VIEWS"),
    ("SINKS",), ("CONNECTIONS",), ("CONNECTORS",), ("SECRETS",), ("SUBSCRIPTIONS",), ("INDEXES",), ("COLUMNS",),
    ("JOBS",), ("CLUSTER",), ("PROCESSLIST",), ("SCHEMAS",), ("DATABASES",), ("FUNCTIONS",),
    ("USERS",), ("CURSORS",), ("SUBSCRIPTION", "CURSORS"), ("PARAMETERS",), ("ALL",),
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
    what = special_name(cursor) or setting_name(
        cursor, "what to show (SOURCES, TABLES, …) or the name of a setting"
    )
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


def describe(cursor: Cursor) -> Describe:
    """DESCRIBE name"""
    cursor.next()
    name = cursor.name("the name of a table, view, source or sink")
    cursor.finish()
    return Describe(cursor.start, cursor.text, name)


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
