"""Two relations with times in them, queries over rows of them, run in DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from icestream import types as t
from icestream.plan.query import Relation
from tests.duck import connect, duck_type, quoted, render_duckdb
from tests.unit.plan.tables import bind

COLUMNS = {
    "clicks": (("who", t.INTEGER), ("ts", t.TIMESTAMP), ("what", t.VARCHAR)),
    "prices": (("who", t.INTEGER), ("ts", t.TIMESTAMP), ("price", t.INTEGER)),
}
RELATIONS = {name: Relation(f"{name}#1", name, columns) for name, columns in COLUMNS.items()}


def at(minutes: float | None) -> datetime | None:
    """A moment, in minutes after the start of the day that all tests are about."""
    return None if minutes is None else datetime(2026, 1, 1) + timedelta(minutes=minutes)


def minutes(moment: Any) -> Any:
    """The way back; what is no moment stays as it is."""
    if not isinstance(moment, datetime):
        return moment
    return (moment - datetime(2026, 1, 1)).total_seconds() / 60


def run(sql: str, **tables: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """The rows of a query over such tables, in order; moments as minutes, the second column of a table as well."""
    connection = connect()
    for name, columns in COLUMNS.items():
        declared = ", ".join(f"{quoted(c)} {duck_type(x)}" for c, x in columns)
        connection.execute(f"CREATE TABLE {name} ({declared})")
        rows = [(who, at(moment), value) for who, moment, value in tables.get(name, ())]
        if rows:
            places = ", ".join(["(?, ?, ?)"] * len(rows))
            values = [value for row in rows for value in row]
            connection.execute(f"INSERT INTO {name} VALUES {places}", values)
    text = render_duckdb(bind(sql, RELATIONS), {f"{name}#1": name for name in COLUMNS})
    found = connection.execute(text).fetchall()
    return sorted(
        (tuple(map(minutes, row)) for row in found),
        key=lambda row: [(v is None, v) for v in row],
    )
