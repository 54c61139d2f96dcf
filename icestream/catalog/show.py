"""SHOW, SHOW CREATE, DESCRIBE and EXPLAIN: answers from the catalog alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from icestream.catalog.catalog import Catalog
from icestream.catalog.keys import CONFLICTS
from icestream.catalog.objects import (
    DEAD_LETTERS,
    Connector,
    Index,
    MaterializedView,
    Object,
    Sink,
    Source,
    Table,
    View,
    hidden_table,
)
from icestream.catalog.setting_registry import SETTINGS
from icestream.errors import NotSupportedError, SqlError, did_you_mean
from icestream.plan.explain import explain_node
from icestream.plan.explain_stages import explain_stages
from icestream.plan.query import bind_query
from icestream.result import Result
from icestream.sql import statements as st
from icestream.types import BOOLEAN, VARCHAR, quote

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

LISTS = {
    "schemas": (DEAD_LETTERS, "public"),
    "databases": ("dev",),
    "users": ("root",),
}
ELSEWHERE = {
    "cluster": "one process does it all; icestream status shows it",
    "processlist": "SELECT * FROM pg_stat_activity",
    "cursors": "a cursor lives in the session that declared it",
}
"""What there is not to show, and where to look instead."""

COLUMN_TYPES = (VARCHAR, VARCHAR, BOOLEAN, BOOLEAN)

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
        return _objects(KINDS[what], statement, catalog)
    if what == "columns" and statement.name is not None:
        result = _columns(catalog.names().find(statement.name))
        rows = [row for row in result.rows if like(str(row[0]), statement.like)]
        return replace(result, rows=rows)
    if what == "paused":
        return Result(columns=("paused",), rows=[(str(catalog.store.paused).lower(),)])
    if what == "internal tables":
        return _list(_hidden_tables(catalog), statement)
    if what == "functions":
        return Result(columns=("Name", "Arguments", "Return Type", "Language", "Link"))
    if what in LISTS:
        return _list(LISTS[what], statement)
    if what in ELSEWHERE:
        remedy = ELSEWHERE[what]
        raise NotSupportedError(f"SHOW {what.upper()}", place=statement.place, remedy=remedy)
    return _settings(what, statement, catalog)


def _objects(kind: str, statement: st.Show, catalog: Catalog) -> Result:
    """The objects of a kind, in a schema; the indexes on a table."""
    found = [o for o in catalog if o.kind == kind]
    if kind == Index.kind and statement.name is not None:
        on = catalog.names().find(statement.name, Table, MaterializedView)
        found = [o for o in found if on.key in o.depends]
    elif statement.name is not None:
        schema = str(statement.name)
        if schema not in LISTS["schemas"]:
            raise SqlError(f'schema "{schema}" does not exist', place=statement.name.place)
        found = [o for o in found if o.schema == schema]
    return _list((o.name for o in found), statement)


def _hidden_tables(catalog: Catalog) -> Iterator[str]:
    """The tables in which views and sinks keep what their queries need."""
    for object in catalog:
        if isinstance(object, MaterializedView | Sink):
            own = (s.relation for s in object.stages if s.relation != object.key)
            yield from (hidden_table(object, relation) for relation in own)


def _settings(what: str, statement: st.Show, catalog: Catalog) -> Result:
    """SHOW ALL, SHOW PARAMETERS, or one setting."""
    stored = catalog.store.settings()
    settings = {key: stored.get(key, spec.default) for key, spec in SETTINGS.items()}
    if what in ("all", "parameters"):
        rows = [(name, value, SETTINGS[name].note) for name, value in settings.items()]
        shown = sorted(row for row in rows if like(row[0], statement.like))
        return Result(columns=("Name", "Setting", "Description"), rows=list(shown))
    if what in settings:
        return Result(columns=(what,), rows=[(settings[what],)])
    known = [*KINDS, "columns", "jobs", "internal tables", "functions", "all", *LISTS, *settings]
    raise SqlError(
        f'unrecognized configuration parameter "{what}"',
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
    return replace(result, rows=rows)


def explain(statement: st.Explain, catalog: Catalog) -> Result:
    """EXPLAIN statement: the plan as a tree."""
    inner = statement.statement
    if isinstance(inner, st.Select):
        lines = explain_node(bind_query(inner.query, catalog.names().relation)).splitlines()
    elif not type(inner).__name__.startswith("Create"):
        raise NotSupportedError(
            "EXPLAIN of anything but a query or a CREATE statement", place=statement.place
        )
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
        case Sink(into=Table(name=name)):
            head = f"Sink {object.name}: {manner(object)}, exactly once → table {name}"
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
    return Result(None, ("Name", "Type", "Not Null", "Generated"), list(rows), COLUMN_TYPES)


def _list(names: Iterable[str], statement: st.Show) -> Result:
    rows = [(name,) for name in sorted(names) if like(name, statement.like)]
    return Result(columns=("Name",), rows=list(rows))


def like(name: str, pattern: str | None) -> bool:
    """Whether a name is LIKE a pattern; any is without one."""
    if pattern is None:
        return True
    import pyarrow as pa
    import pyarrow.compute as pc

    found: bool = pc.match_like(pa.array([name]), pattern)[0].as_py()
    return found
