"""A table with a key as a dictionary, random histories for it, and a lake's content to compare with."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from icestream.lake.changes import delta
from icestream.lake.fold import DELETE, OFFSET, OP
from icestream.lake.jvm import Jvm
from icestream.lake.table import LakeTable
from tests.engine import duckdb_count, lake_table
from tests.seeds import draw_seed

COLUMNS = ("lane", "id", "name", "n", "v")
DECLARED = "lane BIGINT, id VARCHAR, name VARCHAR, n INT, v INT, PRIMARY KEY (lane, id)"
RULES = {
    "overwrite": "",
    "nothing": "ON CONFLICT DO NOTHING",
    "fill": "ON CONFLICT DO UPDATE IF NOT NULL",
    "version": "ON CONFLICT OVERWRITE WITH VERSION COLUMN (v)",
}
UNTOLD = object()
Key = tuple[int, str]
Row = tuple[Any, ...]
Content = dict[Key, Row]


def seeded() -> random.Random:
    """The source of a random history."""
    return random.Random(draw_seed("histories by key"))


class Model:
    """What a table with that rule holds."""

    def __init__(self, rule: str = "overwrite") -> None:
        self.rule = rule
        self.rows: Content = {}

    def put(self, row: Row) -> None:
        old = self.rows.get(row[:2])
        if old is not None:
            if self.rule == "nothing" or (self.rule == "version" and _rank(row) < _rank(old)):
                return
            row = tuple(
                before if after is UNTOLD or (self.rule == "fill" and after is None) else after
                for before, after in zip(old, row, strict=True)
            )
        self.rows[row[:2]] = tuple(None if value is UNTOLD else value for value in row)

    def delete(self, key: Key) -> None:
        self.rows.pop(key, None)


def _rank(row: Row) -> int:
    return -1 if row[4] is None else int(row[4])


def random_row(r: random.Random, lane: int, *, untold: bool = False) -> Row:
    name = UNTOLD if untold else r.choice(("x", "y", None, "grüße", ""))
    return lane, r.choice("abc"), name, r.choice((None, *range(5))), r.choice((None, *range(9)))


# -- content -----------------------------------------------------------------------------------------


def content(rows: Iterable[Iterable[Any]]) -> Content:
    found = [tuple(row) for row in rows]
    keyed = {row[:2]: row for row in found}
    assert len(keyed) == len(found), "a key is there twice"
    return keyed


def by_pyiceberg(home: Path, name: str) -> Content:
    table = lake_table(home, name).scan().to_arrow()
    return content(zip(*(table[c].to_pylist() for c in COLUMNS), strict=True))


def by_duckdb(home: Path, name: str) -> Content:
    listed = duckdb_count(home, name, f"list(({', '.join(COLUMNS)}))")
    return content(listed or [])


def difference(found: Content, expected: Content) -> dict[Key, tuple[Row | None, Row | None]]:
    """Nothing, or what differs: key → (found, expected)."""
    keys = sorted(k for k in {*found, *expected} if found.get(k) != expected.get(k))
    return {k: (found.get(k), expected.get(k)) for k in keys[:10]}


# -- deltas ------------------------------------------------------------------------------------------


def lake_table_of(spark: SparkSession, name: str) -> LakeTable:
    return LakeTable(Jvm(spark), ("lake", *name.split(".")), owned=True)


def applied(before: Mapping[Key, Row], table: LakeTable, start: int | None, end: int) -> Content:
    """The content before with the table's delta applied: what it takes back has to be there, what it puts must not."""
    rows = dict(before)
    with ExitStack() as held:
        changes = [
            (row[OFFSET], row[OP], tuple(row[c] for c in COLUMNS))
            for row in delta(table, start, end, held).collect()
        ]
    for _, op, row in sorted(changes, key=lambda change: change[:2]):
        if op == DELETE:
            assert rows.pop(row[:2], None) == row, f"takes back {row}, which was not there"
        else:
            assert row[:2] not in rows, f"puts {row} beside {rows[row[:2]]}"
            rows[row[:2]] = row
    return rows
