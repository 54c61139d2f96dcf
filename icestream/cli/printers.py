"""Results as text: a table for people, JSON lines and CSV for programs. One function a format."""

from __future__ import annotations

import csv
import datetime as dt
import json
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from icestream.result import Result


def print_result(result: Result, format: str) -> None:
    """Print one result to standard output; messages go to standard error for programs' formats."""
    if not result.columns:
        if result.message:
            print(result.message, file=sys.stdout if format == "table" else sys.stderr)
        return
    FORMATS[format](result)


def _table(result: Result) -> None:
    table = Table(show_edge=False, header_style="bold", pad_edge=False)
    for column in result.columns:
        table.add_column(column, overflow="fold")
    for row in result.rows:
        table.add_row(*[_text(v) for v in row])
    console = Console(soft_wrap=not sys.stdout.isatty(), width=None if sys.stdout.isatty() else 200)
    console.print(table, markup=False)
    rows = len(result.rows)
    print(f"({rows} row{'' if rows == 1 else 's'})")


def _json(result: Result) -> None:
    for row in result.rows:
        print(
            json.dumps(dict(zip(result.columns, map(_plain, row), strict=True)), ensure_ascii=False)
        )


def _csv(result: Result) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(result.columns)
    for row in result.rows:
        writer.writerow(["" if v is None else _text(v) for v in row])


FORMATS = {"table": _table, "json": _json, "csv": _csv}


def _text(value: Any) -> str:
    """A value as psql would show it."""
    match value:
        case None:
            return ""
        case bool():
            return "t" if value else "f"
        case dt.datetime():
            return value.isoformat(sep=" ")
        case bytes() | bytearray():
            return "\\x" + bytes(value).hex()
        case dict() | list() | tuple():
            return json.dumps(_plain(value), ensure_ascii=False)
        case _:
            return str(value)


def _plain(value: Any) -> Any:
    """A value as JSON can carry it; numbers that JSON would round are texts."""
    match value:
        case bool() | int() | str() | None:
            return value
        case float():
            return value if value == value and abs(value) != float("inf") else str(value)
        case dt.datetime() | dt.date():
            return value.isoformat()
        case bytes() | bytearray():
            return "\\x" + bytes(value).hex()
        case dict():
            return {str(k): _plain(v) for k, v in value.items()}
        case list():
            return [_plain(v) for v in value]
        case tuple() if hasattr(value, "asDict"):
            return {k: _plain(v) for k, v in value.asDict().items()}
        case _:
            return str(value)
