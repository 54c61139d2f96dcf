"""The golden cases of views: `tests/sql/<feature>/<case>.sql`.

A case creates tables and views, with names that no other case has. Its comments tell the history and the outcome:

    -- + table: 1 | tea | NULL            a row comes
    -- - table: 1 | tea | NULL            it goes
    -- ~ table: 1 | tea | 2 => 1 | rum | 2    it becomes another
    -- = view: tea | 3                    a row that the view holds in the end
    -- ! view: 0                          a row that it holds after every epoch

A view without a row of its own is empty in the end.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from pathlib import Path
from typing import Any

from icestream.types import Type, scalar
from tests.duck import bag

Row = tuple[Any, ...]
Event = tuple[Row | None, Row | None]  # before, after

ROOT = Path(__file__).parent / "sql"


@dataclass(frozen=True)
class GoldenTable:
    """A table of a case."""

    name: str
    columns: tuple[tuple[str, Type], ...]
    declared: str

    @property
    def keyed(self) -> bool:
        """Whether it has a key."""
        return "PRIMARY KEY" in self.declared


@dataclass(frozen=True)
class GoldenCase:
    """A file."""

    name: str
    tables: tuple[GoldenTable, ...]
    views: tuple[tuple[str, str], ...]
    history: tuple[tuple[str, Event], ...]
    expected: dict[str, Counter[Row]]
    always: dict[str, Counter[Row]]

    def cut(self, epochs: int) -> list[tuple[tuple[str, Event], ...]]:
        """The history in that many parts of about the same length."""
        ends = [len(self.history) * n // epochs for n in range(epochs + 1)]
        return [self.history[a:b] for a, b in pairwise(ends)]


def cases() -> list[GoldenCase]:
    """All of them."""
    return [_read(file) for file in sorted(ROOT.glob("*/*.sql"))]


def _read(file: Path) -> GoldenCase:
    text = file.read_text()
    comments = [x for x in text.splitlines() if x.startswith("--")]
    sql = "\n".join(x for x in text.splitlines() if not x.startswith("--"))
    tables = tuple(_tables(sql))
    views = tuple(re.findall(r"CREATE MATERIALIZED VIEW (\w+) AS\s+(.*?);", sql, re.S))
    types = {table.name: [x for _, x in table.columns] for table in tables}
    history: list[tuple[str, Event]] = []
    expected: dict[str, list[Row]] = {name: [] for name, _ in views}
    always: dict[str, list[Row]] = defaultdict(list)
    for line in comments:
        found = re.fullmatch(r"-- ([-+~=!]) (\w+): (.*)", line)
        if found is None:
            continue
        sign, name, rest = found.groups()
        if sign in "=!":
            (expected if sign == "=" else always)[name].append(tuple(map(_told, _split(rest))))
            continue
        rows = [_row(part, types[name]) for part in rest.split("=>")]
        history.append((name, {"+": (None, rows[0]), "-": (rows[0], None)}.get(sign) or (rows[0], rows[1])))  # fmt: skip
    return GoldenCase(
        f"{file.parent.name}/{file.stem}",
        tables,
        views,
        tuple(history),
        {name: bag(rows) for name, rows in expected.items()},
        {name: bag(rows) for name, rows in always.items()},
    )


def _tables(sql: str) -> Iterator[GoldenTable]:
    for name, declared in re.findall(r"CREATE TABLE (\w+) \((.*)\);", sql):
        columns = []
        for part in re.split(r",\s*(?![^(]*\))", declared):
            column, kind = part.replace("PRIMARY KEY", "").strip().split(" ", 1)
            found = scalar(kind)
            assert found is not None, part
            columns.append((column, found))
        yield GoldenTable(name, tuple(columns), declared)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split("|")]


def _row(text: str, types: Sequence[Type]) -> Row:
    return tuple(_value(part, x) for part, x in zip(_split(text), types, strict=True))


def _value(text: str, type: Type) -> Any:
    if text == "NULL":
        return None
    match type.name:
        case "integer" | "bigint":
            return int(text)
        case "numeric":
            return Decimal(text)
        case "double precision":
            return float(text)
        case "boolean":
            return text == "true"
        case "timestamp":
            return datetime.fromisoformat(text)
    return text


def _told(text: str) -> Any:
    """A value of an expected row: what it looks like says what it is."""
    if text in ("NULL", "true", "false"):
        return {"NULL": None, "true": True, "false": False}[text]
    if text.startswith("{"):
        return [_told(part) for part in text[1:-1].split(",") if part]
    if re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", text):
        return datetime.fromisoformat(text)
    try:
        return Decimal(text)
    except InvalidOperation:
        return text
