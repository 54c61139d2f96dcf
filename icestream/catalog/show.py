"""SHOW, SHOW CREATE, DESCRIBE and EXPLAIN: answers from the catalog alone."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

from icestream.catalog.catalog import Catalog
from icestream.catalog.keys import CONFLICTS
from icestream.catalog.objects import (
    Connector,
    MaterializedView,
    Object,
    Sink,
    Source,
    Table,
    View,
    hidden_table,
)
from icestream.catalog.variables import VARIABLES
from icestream.errors import NotSupportedError, SqlError, did_you_mean
from icestream.plan.explain import explain_node
from icestream.plan.explain_stages import explain_stages
from icestream.plan.query import bind_query
from icestream.result import Result
from icestream.sql import statements as st
from icestream.types import quote

KINDS = {
    "sources": "source",
    "tables": "table",
    "views": "view",
    "materialized views": "materialized view",
    "sinks": "sink",
    "connections": "connection",
    "connectors": "connector",
    "secrets": "secret",
    "indexes": "index",
    "subscriptions": "subscription",
}

CONFLICT_WORDS = {rule: words for words, rule in CONFLICTS.items()}


def show(statement: st.Show | st.ShowCreate, catalog: Catalog) -> Result:
    """SHOW what, or SHOW CREATE kind name."""
    if isinstance(statement, st.ShowCreate):
        found = catalog.names().find(statement.name, broken=True)
        if found.kind != statement.kind:
            raise SqlError(f'"{statement.name}" is a {found.kind}', place=statement.name.place)
        text = catalog.definition(found.name)
        return Result(columns=("Name", "Create Sql"), rows=[(f"public.{found.name}", text)])
    what = statement.what.lower()
    if what in KINDS:
        names = [o.name for o in catalog if o.kind == KINDS[what]]
        return Result(
            columns=("Name",), rows=[(n,) for n in sorted(names) if _like(n, statement.like)]
        )
    if what == "columns" and statement.name is not None:
        return _columns(catalog.names().find(statement.name))
    if what == "schemas":
        return Result(columns=("Name",), rows=[("dead_letters",), ("public",)])
    if what == "paused":
        return Result(columns=("paused",), rows=[(str(catalog.store.paused).lower(),)])
    if what == "databases":
        return Result(columns=("Name",), rows=[("dev",)])
    settings = {name: v.default for name, v in VARIABLES.items()} | catalog.store.settings()
    if what == "all":
        rows = [(n, v, VARIABLES[n].note if n in VARIABLES else "") for n, v in settings.items()]
        return Result(columns=("Name", "Setting", "Description"), rows=sorted(rows))
    if what in settings:
        return Result(columns=(what,), rows=[(settings[what],)])
    known = [*KINDS, "columns", "jobs", "schemas", "databases", "all", *settings]
    if what in ("cluster", "processlist", "functions", "cursors"):
        raise NotSupportedError(f"SHOW {what.upper()}", place=statement.place)
    raise SqlError(
        f"there is nothing called {what!r} to show",
        place=statement.place,
        remedy=did_you_mean(what, known) or "SHOW " + ", ".join(KINDS),
        code="42704",
    )


def describe(statement: st.Describe, catalog: Catalog) -> Result:
    """DESCRIBE name: its columns, then its key and what happens to rows that share one."""
    found = catalog.names().find(statement.name)
    result = _columns(found)
    upsert = found.upsert if isinstance(found, Table | Sink) else None
    if upsert is None or not upsert.keyed:
        return result
    facts = [("primary key", _names(upsert.key)), ("on conflict", CONFLICT_WORDS[upsert.conflict])]
    if upsert.version:
        facts.append(("version column", _names(upsert.version)))
    rows = [*result.rows, *((name, fact, None, None) for name, fact in facts)]
    return Result(columns=result.columns, rows=rows)


def explain(statement: st.Explain, catalog: Catalog) -> Result:
    """EXPLAIN statement: the plan as a tree."""
    inner = statement.statement
    if isinstance(inner, st.Select):
        lines = explain_node(bind_query(inner.query, catalog.names().relation)).splitlines()
    else:
        lines = explain_object(catalog.examine(inner).object)
    return Result(columns=("QUERY PLAN",), rows=[(line,) for line in lines])


def explain_object(object: Object) -> list[str]:
    """What an epoch does for an object."""
    match object:
        case Source(ingest=ingest):
            head = f"Source {object.name}: {ingest.connector}, read and decoded once an epoch"
            return [head, "  dead letters → " + f"dead_letters.{object.name}"]
        case Table(ingest=ingest) if ingest is not None:
            return [
                f"Table {object.name}: {manner(object)}, exactly once → lake.public.{object.name}",
                f"  {ingest.connector}, read and decoded once an epoch",
            ]
        case Connector(config=config):
            tables = [f"  append, exactly once → {d.table}" for d in config.destinations]
            return [
                f"Connector {object.name}: kafka, committed every {config.interval:g} s",
                *tables,
                f"  dead letters → dead_letters.{object.name}",
            ]
        case MaterializedView():
            closes = ", on window close" if object.emit_on_window_close else ""
            head = (
                f"Materialized view {object.name}: maintained{closes} → lake.public.{object.name}"
            )
            return [head, *("  " + line for line in explain_stages(object.stages, _tables(object)))]
        case Sink(connector="iceberg"):
            table = f"{object.settings['database.name']}.{object.settings['table.name']}"
            head = (
                f"Sink {object.name}: {manner(object)}, exactly once → {table} "
                f"every {object.settings['commit_checkpoint_interval']} s"
            )
        case Sink(into=str(key)):
            table = key.partition("#")[0]
            head = f"Sink {object.name}: {manner(object)}, exactly once → table {table}"
        case Sink():
            dropped = ", deletes are dropped" if object.drops_deletes else ""
            head = f"Sink {object.name}: {object.connector}, {delivery(object)}{dropped}"
        case View():
            head = f"View {object.name}: not stored, inlined where it is read"
        case _:
            return [f"{object.kind} {object.name}"]
    body = explain_node(object.query).splitlines()
    if isinstance(object, Sink) and object.stages:
        body = list(explain_stages(object.stages, _tables(object)))
    return [head, *("  " + line for line in body)]


def _tables(object: MaterializedView | Sink) -> dict[str, str]:
    """The table of every stage."""
    return {
        s.relation: f"lake.icestream.{hidden_table(object, s.relation)}"
        if s.relation != object.key
        else f"lake.public.{object.name}"
        for s in object.stages
    }


def manner(object: Table | Sink) -> str:
    """How rows get into a table: appended, or by a key, with the rule for a key that is there already."""
    upsert = object.upsert
    if upsert is None:
        dropped = isinstance(object, Sink) and object.drops_deletes
        return "append, deletes are dropped" if dropped else "append"
    if not upsert.keyed:
        return "changed by statements, by the whole row"
    text = f"upsert by ({_names(upsert.key)})"
    if isinstance(object, Table):
        text += f", on conflict {CONFLICT_WORDS[upsert.conflict]}"
    if upsert.version:
        text += f", newest by ({_names(upsert.version)})"
    return text


def delivery(object: Object) -> str | None:
    """What a sink outside Iceberg promises; None where it goes without saying."""
    if not isinstance(object, Sink) or object.connector in ("iceberg", "table"):
        return None
    return "delivers nothing" if object.connector == "blackhole" else "delivers at least once"


def _names(columns: Iterable[str]) -> str:
    return ", ".join(map(quote, columns))


def _columns(object: Object) -> Result:
    rows = [(c.name, str(c.type), c.not_null, c.generated is not None) for c in object.columns]
    return Result(columns=("Name", "Type", "Not Null", "Generated"), rows=list(rows))


def _like(name: str, pattern: str | None) -> bool:
    if pattern is None:
        return True
    return fnmatch.fnmatchcase(name, pattern.replace("%", "*").replace("_", "?"))
