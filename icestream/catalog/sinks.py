"""CREATE VIEW and CREATE SINK: queries over other objects, and where their rows go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from icestream.catalog import into
from icestream.catalog.keys import sink_key
from icestream.catalog.names import Names, distinct, public, refuse_past
from icestream.catalog.objects import DEAD_LETTERS, MaterializedView, Sink, Source, View
from icestream.catalog.settings import connection_key, connector_name, settings_of, with_connection
from icestream.connectors.base import Column, SinkConnector
from icestream.connectors.formats import registry as formats
from icestream.connectors.iceberg_options import catalog_type
from icestream.connectors.registry import sink_connector
from icestream.errors import NotSupportedError, Place, SqlError
from icestream.functions.expressions import ColumnRef, Sort
from icestream.identity import ObjectKey, object_name
from icestream.lake.fold import Upsert
from icestream.plan.keys import key_of
from icestream.plan.linear import linear, relations_read
from icestream.plan.logical import DistinctOn, Item, Join, Node, Project, Scan, walk
from icestream.plan.normal import normal
from icestream.plan.query import Relation, bind_query
from icestream.plan.repeatable import find_unrepeatable
from icestream.plan.rewrite import refs
from icestream.plan.split import closed, stages
from icestream.plan.stages import Closed, Stage, grows
from icestream.plan.watermarks import closing
from icestream.sql import statements as st
from icestream.sql.options import Settings, check

OWN_NAMESPACES = ("icestream", DEAD_LETTERS)


def bind_view(statement: st.CreateView, id: int, names: Names) -> View | MaterializedView:
    """CREATE [MATERIALIZED] VIEW"""
    public(statement.name)
    what = f"{'materialized ' if statement.materialized else ''}view {statement.name.name}"
    settings_of(statement.options, (), what, names, statement.place)
    node = bind_query(statement.query, names.relation)
    refuse_past(node, what, statement.place)
    columns = _output(node, statement.columns, what, statement.place)
    depends = relations_read(node)
    if not statement.materialized:
        return View(
            id, statement.name.name, statement.text, columns, depends, _renamed(node, columns)
        )
    node = _renamed(node, columns)
    _must_repeat(node, names, what, statement.place)
    made = _staged(statement, node, names.own, names, what)
    return MaterializedView(
        id, statement.name.name, statement.text, columns, depends, node,
        statement.emit_on_window_close, made,
    )  # fmt: skip


def bind_sink(statement: st.CreateSink, id: int, names: Names) -> Sink:
    """CREATE SINK"""
    public(statement.name)
    if statement.into is not None:
        return _bind_into(statement, id, names)
    what = f"sink {statement.name.name}"
    options = with_connection(statement.options, names)
    name, place = connector_name(options, what, statement.place, names)
    connector = sink_connector(name, place)
    settings = settings_of(options, connector.options, what, names, statement.place)
    if connector.check is not None:
        connector.check(settings)
    forced = bool(settings.get("force_append_only"))
    if statement.format is not None:
        written = _sink_format(statement.format, connector, what, names)
        forced |= bool(written.get("force_append_only"))
    node = _query(statement, names, what)
    columns = _output(node, (), what, statement.place)
    if connector.check_columns is not None:
        connector.check_columns(settings, columns)
    depends = (*relations_read(node), *connection_key(statement.options, names))
    made: tuple[Stage, ...] = ()
    facts = names.facts()
    if linear(node) is not None or statement.emit_on_window_close:
        _must_repeat(node, names, what, statement.place)
        key = f"{names.own}/0"
        made = _staged(statement, _renamed(node, columns), key, names, what)
        facts |= {stage.relation: stage.known for stage in made}
        node = _stored(made[-1], columns)
    changing = [r for r in relations_read(node) if not facts[r].grows]
    upsert = None
    if settings.get("type") == "upsert":
        keys = {r: known.key for r, known in facts.items() if known.key is not None}
        passed = key_of(node, keys)
        upsert = sink_key(settings, columns, passed or None, statement.place)
        _must_repeat(node, names, what, statement.place)
        if changing and not (passed is not None and set(passed) <= set(upsert.key)):
            # several rows may have the sink's key: the first of each is shown, as long as it is there
            made = (
                *made,
                *stages(_first_of_each(node, upsert.key), f"{names.own}/one", facts, names.layout),
            )
            facts |= {made[-1].relation: made[-1].known}
            node = _stored(made[-1], columns)
    elif changing and not forced:
        raise _refused(settings, connector, object_name(changing[0]), statement.place)
    embedded = connector.name == "iceberg" and catalog_type(settings) is None
    if embedded and settings["database.name"] in OWN_NAMESPACES:
        raise SqlError(
            f"{what}: {settings['database.name']} is the engine's own namespace",
            place=settings.place("database.name"),
            remedy="choose another database.name",
        )
    return Sink(
        id, statement.name.name, statement.text, columns, depends,
        connector.name, settings, node, upsert, drops_deletes=bool(changing) and upsert is None,
        emit_on_window_close=statement.emit_on_window_close, stages=made,
    )  # fmt: skip


def _bind_into(statement: st.CreateSink, id: int, names: Names) -> Sink:
    """CREATE SINK … INTO a table"""
    what, place = f"sink {statement.name.name}", statement.place
    table = into.target(statement, names, what)
    settings = settings_of(statement.options, into.OPTIONS, what, names, place)
    adds = into.only_adds(settings, table, place)
    node = _query(statement, names, what)
    columns = _output(node, (), what, place)
    read = relations_read(node)
    _check_letters(node, what, place)
    into.check_no_circle(table, read, names, what, place)
    made: tuple[Stage, ...] = ()
    facts = names.facts()
    late = any(
        isinstance(o, Source) and o.watermark for o in names.objects.values() if o.key in read
    )
    if linear(node) is not None or statement.emit_on_window_close or late:
        _must_repeat(node, names, what, place)
        key = f"{names.own}/0"
        made = _staged(statement, _renamed(node, columns), key, names, what)
        facts |= {stage.relation: stage.known for stage in made}
        node = _stored(made[-1], columns)
    node = given = into.given(node, table, statement.into_columns, what, place)
    shown = tuple(Column(c.name, c.type) for c in given.columns)
    changing = [r for r in relations_read(node) if not facts[r].grows]
    if changing and adds and not settings.get("force_append_only"):
        raise into.refused(settings, table, object_name(changing[0]), place)
    if not adds:
        _must_repeat(node, names, what, place)
        keys = {r: known.key for r, known in facts.items() if known.key is not None}
        passed = into.passed_key(given, keys)
        if changing and not (passed is not None and set(passed) <= set(table.primary_key)):
            one = _first_of_each(node, table.primary_key)
            made = (*made, *stages(one, f"{names.own}/one", facts, names.layout))
            node = _stored(made[-1], shown)
    return Sink(
        id, statement.name.name, statement.text, shown, (table.key, *read),
        "table", settings, into.whole(node, table),
        None if adds else Upsert(table.primary_key), drops_deletes=bool(changing) and adds,
        emit_on_window_close=statement.emit_on_window_close, stages=made, into=table,
    )  # fmt: skip


def _query(statement: st.CreateSink, names: Names, what: str) -> Node:
    """What the sink reads."""
    if statement.query is not None:
        node = bind_query(statement.query, names.relation)
    else:
        assert statement.from_name is not None
        node = _scan(names.relation(statement.from_name))
    refuse_past(node, what, statement.place)
    return node


def _check_letters(node: Node, what: str, place: Place) -> None:
    """Dead letters are no stream."""
    if any(ObjectKey(relation).is_dead_letters for relation in relations_read(node)):
        raise NotSupportedError(
            f"{what} over {DEAD_LETTERS}", place=place, remedy="SELECT reads them"
        )


def _staged(
    statement: st.CreateView | st.CreateSink, node: Node, key: str, names: Names, what: str
) -> tuple[Stage, ...]:
    """The tables that keep a query up to date."""
    _check_temporal(node, names, what, statement.place)
    _check_letters(node, what, statement.place)
    if not statement.emit_on_window_close:
        return stages(node, key, names.facts(), names.layout)
    found = closing(node, names.marks())
    if found is None:
        raise SqlError(
            f"{what}: EMIT ON WINDOW CLOSE, but no column says when a row is final",
            place=statement.place,
            remedy=_closing_remedy(node, names),
        )
    return closed(node, key, names.facts(), found, names.layout)


def _closing_remedy(node: Node, names: Names) -> str:
    """What to do if no column says when the rows of a query are final."""
    for object in names.objects.values():
        if isinstance(object, MaterializedView) and object.key in relations_read(node):
            last = object.stages[-1]
            if isinstance(last, Closed):
                return f"{object.name} shows its rows by {last.closing.column}: select or group by that column"
    return "declare a WATERMARK on the source, and group by a window (or a column) of its time"


def _check_temporal(node: Node, names: Names, what: str, place: Place) -> None:
    """A temporal join gives each row of its left side once, so those rows must not change."""
    for join in walk(node):
        temporal = isinstance(join, Join) and join.temporal
        if temporal and not grows(normal(join.inputs[0]), names.facts()):
            raise NotSupportedError(
                f"{what} with a temporal join whose left side changes",
                place=place,
                remedy="join it without FOR SYSTEM_TIME AS OF PROCTIME()",
            )


def _first_of_each(node: Node, key: Sequence[str]) -> Node:
    """One row for each value of the key's columns."""
    columns = {r.name: r for r in refs(node)}
    order = tuple(Sort(columns[k], False, False) for k in key)
    return DistinctOn(node, tuple(columns[k] for k in key), order)


def _stored(stage: Stage, columns: Sequence[Column]) -> Node:
    """What a stage's table shows of a query."""
    items = tuple(Item(c.name, ColumnRef(c.type, c.name)) for c in columns)
    return Scan(stage.relation, stage.relation, items)


def _refused(settings: Settings, connector: SinkConnector, name: str, place: Place) -> SqlError:
    """A sink that only adds rows, over a table whose rows change."""
    remedy = "force_append_only = 'true' writes new rows and new versions, and drops deletes"
    if connector.name == "iceberg":
        remedy = f"type = 'upsert' follows the changes; {remedy}"
    return SqlError(
        f"{settings.what} only adds rows, but those of {name} change",
        place=settings.place("type") or place,
        remedy=remedy,
    )


def _must_repeat(node: Node, names: Names, what: str, place: Place) -> None:
    """A row that goes must be what it was when it came, so that it is found."""
    changing = names.changing(node)
    blocker = linear(node)
    if not changing and blocker is None:
        return
    if used := find_unrepeatable(node, names.layout):
        over = f"over {changing[0].name}, whose rows change" if changing else str(blocker)
        raise NotSupportedError(
            f"{what} with {', '.join(used)}() {over}",
            place=place,
            remedy="now() may stand in WHERE, HAVING and the ON of an inner join, and for now() > ANY (SELECT at …) write "
            "EXISTS (SELECT … WHERE now() > at); elsewhere use functions that give "
            "the same for the same row",
        )


def _sink_format(written: st.Format, connector: SinkConnector, what: str, names: Names) -> Settings:
    """FORMAT and ENCODE are what the connector writes, with options that there are."""
    specs = formats.lookup_sink(
        connector.name, connector.formats, written.format, written.encode, written.place
    )
    settings = check(
        written.options,
        specs,
        what=what,
        env=names.env,
        secrets=names.secrets,
        place=written.place,
    )
    if written.key_encode not in (None, "JSON"):
        raise NotSupportedError(
            f"KEY ENCODE {written.key_encode}",
            place=written.place,
            remedy="the key is a JSON object of the columns in primary_key",
        )
    return settings


def _output(node: Node, names: tuple[str, ...], what: str, place: Place) -> tuple[Column, ...]:
    """The columns of a query as an object's: distinct names, every type storable."""
    given = [c.name for c in node.columns]
    if len(names) > len(given):
        raise SqlError(
            f"{what} names {len(names)} columns, but the query has {len(given)}", place=place
        )
    final = [*names, *given[len(names) :]]
    distinct(final, what, place)
    return tuple(Column(n, c.type) for n, c in zip(final, node.columns, strict=True))


def _renamed(node: Node, columns: tuple[Column, ...]) -> Node:
    """The same rows under the object's column names."""
    names = [c.name for c in columns]
    if list(node.names) == names:
        return node
    if isinstance(node, Project):
        items = tuple(Item(n, i.expr) for n, i in zip(names, node.items, strict=True))
        return replace(node, items=items)
    refs = [Item(n, ColumnRef(c.type, c.name)) for n, c in zip(names, node.columns, strict=True)]
    return Project(node, tuple(refs))


def _scan(relation: Relation) -> Node:
    """All rows of a relation: what FROM in CREATE SINK reads."""
    if relation.query is not None:
        return relation.query
    items = tuple(
        Item(name, ColumnRef(type, name))
        for name, type in relation.columns
        if not name.startswith("_icestream_")
    )
    return Scan(relation.key, relation.name, items)
