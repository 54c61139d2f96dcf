"""The histories of tests/slt through the delta rules, on DuckDB: views end as the files say, however a history is split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import duckdb
import pytest

from icestream.dev.duck import open_duckdb
from icestream.dev.slt.parser import read
from icestream.dev.slt.records import History, Query, Record
from icestream.dev.slt.records import Statement as SqlStatement
from icestream.dev.slt.substitution import substitute
from icestream.plan.logical import Node, OutColumn
from icestream.plan.query import Relation, bind_query
from icestream.plan.stages import Known
from icestream.sql import parse
from icestream.sql.statements import CreateTable, CreateView, Name
from tests.duck import duck_type, quoted, render_duckdb
from tests.maintained import Lake, View

Row = tuple[Any, ...]
FILES = sorted((Path(__file__).parents[2] / "slt" / "histories").glob("*.slt"))


class HistoryCase:
    """A file: its tables and views, its history, and the rows that it expects."""

    def __init__(self, file: Path) -> None:
        records = tuple(read(file))
        (self.history,) = (r for r in records if isinstance(r, History))
        self.relations: dict[str, Relation] = {}
        self.facts: dict[str, Known] = {}
        self.views: dict[str, Node] = {}
        self.expected = _expected(records)
        self.always = _expected(self.history.queries)
        for record in records:
            if isinstance(record, SqlStatement):
                for statement in parse(substitute(record.sql, {}), env={}):
                    self._create(statement)
        self.tables = tuple(self.facts)
        assert set(self.expected) | set(self.always) <= set(self.views)

    def _create(self, statement: object) -> None:
        match statement:
            case CreateTable(name=name):
                columns = tuple((c.name, c.type) for c in statement.columns if c.type)
                key = tuple(c.name for c in statement.columns if c.primary_key)
                self.relations[name.name] = Relation(name.name, name.name, columns)
                self.facts[name.name] = Known(key or None, not key)
            case CreateView(name=name):
                node = self.views[name.name] = bind_query(statement.query, self.relation)
                columns = tuple((c.name, c.type) for c in node.columns)
                self.relations[name.name] = Relation(name.name, name.name, columns, node)

    def relation(self, name: Name) -> Relation:
        return self.relations[name.name]


class Source:
    """The tables of a case in a DuckDB of their own, where the statements of the history run."""

    def __init__(self, case: HistoryCase) -> None:
        self.database: duckdb.DuckDBPyConnection = open_duckdb()
        self.tables = case.tables
        for name in self.tables:
            columns = case.relations[name].columns
            listed = ", ".join(f"{quoted(c)} {duck_type(type)}" for c, type in columns)
            self.database.execute(f"CREATE TABLE {name} ({listed})")

    def run(self, statements: Sequence[SqlStatement]) -> dict[str, list[tuple[Row, int]]]:
        """The changes of each table: rows that went, rows that came."""
        changes: dict[str, list[tuple[Row, int]]] = {name: [] for name in self.tables}
        for statement in statements:
            before = self._content()
            self.database.execute(statement.sql)
            for name, rows in self._content().items():
                changes[name] += [(row, -1) for row in (before[name] - rows).elements()]
                changes[name] += [(row, 1) for row in (rows - before[name]).elements()]
        return changes

    def _content(self) -> dict[str, Counter[Row]]:
        return {
            name: Counter(self.database.execute(f"SELECT * FROM {name}").fetchall())
            for name in self.tables
        }


def _expected(records: Sequence[Record]) -> dict[str, Counter[tuple[str, ...]]]:
    """The rows by the view of each `SELECT * FROM view`."""
    rows = {}
    for record in records:
        if isinstance(record, Query):
            view = record.sql.removeprefix("SELECT * FROM ")
            assert view.isidentifier(), record.place
            rows[view] = Counter(_words(line) for line in record.results)
    return rows


def _words(line: str) -> tuple[str, ...]:
    """A line in its words, numbers without zeros at their end."""
    return tuple(map(_shorten, line.split()))


def _shorten(word: str) -> str:
    try:
        return format(Decimal(word).normalize(), "f")
    except InvalidOperation:
        return word


def _line(row: Row) -> str:
    return " ".join(map(_shown, row))


def _shown(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "t" if value else "f"
        case list():
            return "{" + ",".join(map(_shown, value)) + "}"
    return str(value) or "(empty)"


def check_rows(
    lake: Lake, case: HistoryCase, expected: dict[str, Counter[tuple[str, ...]]], *, stored: bool
) -> None:
    """The views hold these rows: as they are stored, or as their queries give them."""
    for name, rows in expected.items():
        node = case.views[name]
        inputs = {table: lake.table(table) for table in case.tables}
        query = render_duckdb(node, inputs)
        if stored:
            names = ", ".join(quoted(c.name) for c in node.columns)
            query = f"SELECT {names} FROM {lake.table(name)}"
        assert Counter(_words(_line(row)) for row in lake.run(query).fetchall()) == rows, name


@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_views_end_as_expected(file: Path, epochs: int) -> None:
    case = HistoryCase(file)
    lake, source = Lake(seed=1), Source(case)
    for table in case.tables:
        columns = case.relations[table].columns
        lake.create(table, [OutColumn(*column) for column in columns])
    views = [View(lake, node, case.facts, name) for name, node in case.views.items()]
    for part in case.history.split(epochs):
        for table, changes in source.run(part).items():
            lake.feed(table, changes)
        for view in views:
            view.advance()
            view.verify()
        check_rows(lake, case, case.always, stored=True)
        check_rows(lake, case, case.always, stored=False)
    check_rows(lake, case, case.expected, stored=True)


def test_names_are_unique() -> None:
    cases = [HistoryCase(file) for file in FILES]
    names = Counter(name for case in cases for name in case.relations)
    assert [name for name, count in names.items() if count > 1] == []
    assert len(cases) >= 16
