"""What the engine answers to a statement → what a client is told."""

from __future__ import annotations

import re

from icestream.result import Result
from icestream.server.backend import Column, Notice, Outcome
from icestream.sql import statements as st
from icestream.types import VARCHAR

Changing = st.Insert | st.Update | st.Delete


def outcome(parsed: st.Statement, result: Result, notices: tuple[Notice, ...]) -> Outcome:
    """A result with the tag that PostgreSQL would give; what it says beyond that is a notice."""
    changes = isinstance(parsed, Changing)
    if changes and not result.columns:
        return Outcome(result.message or "", notices=notices)
    if result.columns:
        told = columns(result)
        rows: list[tuple[object, ...]] = list(result.rows)
        if not result.types:
            rows = [tuple(map(_text, row)) for row in rows]
        given = result.message if changes and result.message else "SELECT"
        return Outcome(given, told, rows, notices)
    message = result.message or ""
    name = tag(parsed)
    more = message.removeprefix(name).strip()
    if more and not more.isidentifier():
        notices = (*notices, Notice(message))
    return Outcome(name, notices=notices)


def columns(result: Result) -> tuple[Column, ...]:
    """The columns of a result, texts where their types are not known: the same whatever rows there are."""
    types = result.types or [VARCHAR] * len(result.columns)
    return tuple(map(Column, result.columns, types))


def _text(value: object) -> object:
    return None if value is None else str(value)


def tag(parsed: st.Statement) -> str:
    """CreateMaterializedView → CREATE MATERIALIZED VIEW."""
    words = re.findall(r"[A-Z][a-z]*", type(parsed).__name__)
    text = " ".join(words).upper()
    if isinstance(parsed, st.CreateView) and parsed.materialized:
        return "CREATE MATERIALIZED VIEW"
    if isinstance(parsed, st.Drop | st.Alter):
        return f"{text} {parsed.kind.upper()}"
    if isinstance(parsed, st.SetVariable):
        return "ALTER SYSTEM" if parsed.system else "SET"
    return text
