"""CREATE SINK … INTO a table: which tables take rows in, how a query's columns become theirs, and what would be a circle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from icestream.catalog.names import Names, distinct
from icestream.catalog.objects import Object, Sink, Table
from icestream.connectors import dml
from icestream.connectors.base import Column
from icestream.errors import NotSupportedError, Place, SqlError, did_you_mean
from icestream.functions.bind import bind_as
from icestream.functions.expressions import Cast, ColumnRef, Literal
from icestream.functions.scope import Scope
from icestream.plan.keys import key_of
from icestream.plan.logical import Item, Node, Project
from icestream.sql import statements as st
from icestream.sql.options import OptionSpec, Settings
from icestream.types import INTEGERS

OPTIONS = (
    OptionSpec("type", choices=("append-only", "upsert"), help="whether rows are replaced"),
    OptionSpec("force_append_only", "bool", False, "write inserts and drop updates and deletes"),
)


def target(statement: st.CreateSink, names: Names, what: str) -> Table:
    """The table that takes the rows in."""
    assert statement.into is not None
    table = names.find(statement.into, Table)
    assert isinstance(table, Table)
    wrong = None
    if "connector" in statement.options or statement.format is not None:
        wrong = "goes into a table, so it has no connector and no FORMAT"
    elif table.ingest is None or table.ingest.connector != dml.NAME:
        wrong = f"cannot go into table {table.name}, which is filled by its connector"
    if wrong:
        raise SqlError(
            f"{what} {wrong}",
            place=statement.into.place,
            remedy="INTO names a table without a connector; WITH takes type and force_append_only",
        )
    if table.watermark is not None:
        raise NotSupportedError(
            f"a sink into table {table.name}, which has a watermark", place=statement.into.place
        )
    return table


def only_adds(settings: Settings, table: Table, place: Place) -> bool:
    """Whether the sink takes nothing back: it says so, or the table has no key or is APPEND ONLY."""
    fixed = "is APPEND ONLY" if table.append_only else "has no primary key"
    replaced = bool(table.primary_key) and not table.append_only
    if settings.get("type") == "upsert" and not replaced:
        raise SqlError(
            f"{settings.what} of type upsert replaces rows, and table {table.name} {fixed}",
            place=settings.place("type") or place,
            remedy="type = 'append-only'",
        )
    return settings.get("type") == "append-only" or not replaced


def refused(settings: Settings, table: Table, name: str, place: Place) -> SqlError:
    """A sink that only adds rows, over rows that change."""
    remedy = "force_append_only = 'true' adds new rows and new versions, and drops deletes"
    if not table.primary_key:
        remedy = f"a table with a PRIMARY KEY follows the changes; {remedy}"
    return SqlError(
        f"{settings.what} only adds rows to {table.name}, but those of {name} change",
        place=settings.place("type") or place,
        remedy=remedy,
    )


def filled(table: Table) -> list[Column]:
    """The columns that are not computed from others."""
    return [c for c in table.columns if c.generated is None]


def given(node: Node, table: Table, named: Sequence[str], what: str, place: Place) -> Project:
    """A query's rows under the names of the columns that they go into, with their types as an INSERT converts them."""
    known = {c.name: c for c in filled(table)}
    distinct(list(named), what, place)
    for name in named:
        if name not in known:
            raise SqlError(
                f"table {table.name} has no column {name} to fill",
                place=place,
                remedy=did_you_mean(name, known) or "it has " + ", ".join(known),
            )
    names = list(named) or list(known)
    columns = node.columns
    if len(columns) > len(names) or (named and len(columns) < len(names)):
        raise SqlError(
            f"{what} gives {len(columns)} columns, but {len(names)} of table {table.name} take them",
            place=place,
            remedy=f"INTO {table.name} (…) names as many as the query has",
        )
    sources = dict(zip(names, columns, strict=False))
    for column in known.values():
        if column.name in sources or not column.not_null:
            continue
        if column.name in table.primary_key or column.default is None:
            why = "the primary key" if column.name in table.primary_key else "NOT NULL"
            raise SqlError(
                f"{what} does not fill column {column.name} of table {table.name}, which is {why}",
                place=place,
                remedy=f"give it a value in the query: … AS {column.name}",
            )
    items = []
    for name, source in sources.items():
        scope, tree = Scope.of({source.name: source.type}), exp.column(source.name, quoted=True)
        text = f'column "{name}"'
        items.append(Item(name, bind_as(tree, known[name].type, scope, lambda _: place, what=text)))
    return Project(node, tuple(items))


def passed_key(rows: Project, keys: Mapping[str, tuple[str, ...]]) -> tuple[str, ...] | None:
    """The key that given rows have; that an integer becomes another one does not hide it."""
    integers = set(INTEGERS)
    seen = [
        i.expr.arg
        if isinstance(i.expr, Cast) and {i.expr.type, i.expr.arg.type} <= integers
        else i.expr
        for i in rows.items
    ]
    items = tuple(Item(i.name, expr) for i, expr in zip(rows.items, seen, strict=True))
    return key_of(Project(rows.input, items), keys)


def whole(node: Node, table: Table) -> Node:
    """Rows of some columns with all that are filled: DEFAULT, or NULL, in the others."""
    columns = filled(table)
    have = set(node.names)
    if [c.name for c in columns] == list(node.names):
        return node
    return Project(
        node,
        tuple(
            Item(c.name, ColumnRef(c.type, c.name))
            if c.name in have
            else Item(c.name, c.default or Literal(c.type, None))
            for c in columns
        ),
    )


def check_no_circle(
    table: Table, read: Sequence[str], names: Names, what: str, place: Place
) -> None:
    """A table cannot take in what comes of itself."""
    objects: dict[str, Object] = {o.key: o for o in names.objects.values()}
    if way := _way(table.key, read, objects, set()):
        through = " and ".join(objects[k].name for k in way if k != table.key)
        raise SqlError(
            f"{what} would read what it fills: table {table.name}"
            + (f", through {through}" if through else ""),
            place=place,
            remedy="fill another table, or read another one",
            code="42P17",
        )


def _way(
    goal: str, read: Sequence[str], objects: dict[str, Object], seen: set[str]
) -> list[str] | None:
    """Objects over which a query that reads those comes to the goal, itself last; None if it does not."""
    for key in read:
        if key == goal:
            return [key]
        if key in seen or key not in objects:
            continue
        seen.add(key)
        sinks = (
            o for o in objects.values() if isinstance(o, Sink) and o.into and o.into.key == key
        )
        inputs = [*objects[key].depends, *(k for s in sinks for k in s.depends if k != key)]
        if way := _way(goal, inputs, objects, seen):
            return [key, *way]
    return None
