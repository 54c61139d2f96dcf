"""The columns of every system relation, read once from the files beside this module.

`postgres.sql` has PostgreSQL's relations as PostgreSQL declares them, `risingwave.sql` those of rw_catalog.
`views.sql` says which of them are made from others; the rest is stored, and empty unless `tables` fills it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from icestream.server.relations.datatypes import named

SCHEMAS = ("pg_catalog", "information_schema", "rw_catalog")
"""The schemas of the system."""

_FIRST_OID = 12000


@dataclass(frozen=True)
class Relation:
    """A system relation: its columns with PostgreSQL's names of their types."""

    schema: str
    name: str
    oid: int
    kind: str
    """r or v, as pg_class says it."""
    columns: dict[str, str]

    @property
    def place(self) -> str:
        """Where it is in DuckDB, which has relations of its own in schemas of these names."""
        return self.name if self.schema == "main" else f"{inside(self.schema)}.{self.name}"


def inside(schema: str) -> str:
    """What a system schema is called in DuckDB."""
    return f"the_{schema}"


_RELATION = re.compile(r"(TABLE|VIEW) (\w+)\.(\w+)(?: OID (\d+))? \(([^;]*)\);")


@cache
def relations() -> dict[tuple[str, str], Relation]:
    """All system relations, by schema and name."""
    found: dict[tuple[str, str], Relation] = {}
    for file in ("postgres.sql", "risingwave.sql"):
        for kind, schema, name, oid, columns in _RELATION.findall(text(file)):
            types = {}
            for column in " ".join(columns.split()).split(", "):
                title, _, type = column.rpartition(" ")
                types[title] = named(type) or "text"
            found[schema, name] = Relation(
                schema, name, int(oid or _FIRST_OID + len(found)), kind[0].lower().replace("t", "r"), types
            )  # fmt: skip
    return found


def relation(schema: str | None, name: str) -> Relation | None:
    """The system relation of that name; without a schema, pg_catalog's and then rw_catalog's."""
    if schema is None:
        return relations().get(("pg_catalog", name)) or relations().get(("rw_catalog", name))
    return relations().get((schema, name))


def text(file: str) -> str:
    """One of the files beside this module."""
    return files(__package__).joinpath(file).read_text()
