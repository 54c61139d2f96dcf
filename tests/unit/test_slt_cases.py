"""The cases of tests/slt are in the engine's dialect: they parse, their queries bind, their views can be kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from icestream.dev.slt.parser import read
from icestream.dev.slt.records import History, Let, Query, Record, Sql, Statement
from icestream.dev.slt.substitution import substitute
from icestream.errors import NotSupportedError, SqlError
from icestream.plan.assignment import Target, bind_assigned
from icestream.plan.query import Relation, bind_query
from icestream.plan.split import stages
from icestream.plan.stages import Known
from icestream.sql import parse
from icestream.sql import statements as st

ROOT = Path(__file__).parents[1] / "slt"
FILES = sorted(ROOT.rglob("*.slt"))
VARIABLES = {"before": "1", "moment": "2024-01-01 00:00:00+00"}
# What is no object of the catalog.
SYSTEM = re.compile(r"information_schema\.|pg_catalog\.|rw_catalog\.|\w\$\w")
SESSION = re.compile(r"(SAVEPOINT|RELEASE|ROLLBACK TO)\b", re.IGNORECASE)
"""Statements that the server's sessions read, not the parser."""


class Names:
    """What a file has created so far."""

    def __init__(self) -> None:
        self.relations: dict[str, Relation] = {}
        self.facts: dict[str, Known] = {}

    def relation(self, name: st.Name) -> Relation:
        if name.name not in self.relations:
            raise SqlError(f'relation "{name}" does not exist', place=name.place)
        return self.relations[name.name]

    def take(self, statement: st.Statement) -> None:
        match statement:
            case st.CreateTable(name=name) if name.name not in self.relations:
                columns = tuple((c.name, c.type) for c in statement.columns if c.type)
                keys = statement.primary_key or tuple(c.name for c in statement.columns if c.primary_key)  # fmt: skip
                self.relations[name.name] = Relation(name.name, name.name, columns, versions=True)
                self.facts[name.name] = Known(keys or None, grows=False)
            case st.CreateView(name=name):
                node = bind_query(statement.query, self.relation)
                names = statement.columns or node.names
                columns = tuple(zip(names, (c.type for c in node.columns), strict=True))
                query = None if statement.materialized else node
                self.relations[name.name] = Relation(name.name, name.name, columns, query)
                self.facts[name.name] = stages(node, name.name, self.facts)[-1].known
            case st.Select():
                bind_query(statement.query, self.relation)
            case st.Insert(table=table, columns=chosen):
                types = dict(self.relation(table).columns)
                targets = [Target(name, name, types[name]) for name in chosen or types]
                bind_assigned(statement.query, self.relation, targets, every=bool(chosen))
            case st.Alter(name=name, column=st.Column() as column) if column.type:
                old = self.relations[name.name]
                added = (*old.columns, (column.name, column.type))
                self.relations[name.name] = Relation(old.key, old.name, added)
            case st.Alter(name=name, new_name=str(new)):
                self.relations[new] = self.relations.pop(name.name)


def all_records(file: Path) -> Iterator[Record]:
    """The records of a file, with those of its histories."""
    for record in read(file):
        yield from (
            (*record.statements, *record.queries) if isinstance(record, History) else (record,)
        )


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_the_dialect(file: Path) -> None:
    names, wrong = Names(), []
    for record in all_records(file):
        fails = isinstance(record, Statement | Query) and record.error is not None
        if not isinstance(record, Sql) or fails or any(c.only for c in record.conditions):
            continue
        sql = substitute(record.sql, VARIABLES)
        if SYSTEM.search(sql) or SESSION.match(sql):
            continue
        try:
            for statement in parse(sql, env={}):
                names.take(statement)
        except NotSupportedError:
            pass  # it is understood, and says so until it is there
        except SqlError as error:
            wrong.append(f"{record.place.file}:{record.place.line}: {error}")
    assert not wrong, "\n".join(wrong)


def test_there_are_many() -> None:
    records = [record for file in FILES for record in all_records(file)]
    assert sum(isinstance(record, Statement | Query | Let) for record in records) > 800
