"""Statements → objects: names, types, options and formats are bound here, without a JVM and without I/O.

A statement that asks for something the engine cannot do yet is refused here, with its place, before anything
has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from icestream.catalog.objects import (
    DEAD_LETTER_COLUMNS,
    DEAD_LETTERS,
    Broken,
    Connection,
    Connector,
    Index,
    Ingest,
    MaterializedView,
    Object,
    Secret,
    Sink,
    Source,
    Table,
    View,
    dead_key,
)
from icestream.connect.config import configure
from icestream.connectors.base import Column, SinkConnector, SourceConnector
from icestream.connectors.formats import registry as formats
from icestream.connectors.iceberg_options import CONNECTION_OPTIONS, catalog_type
from icestream.connectors.registry import sink_connector, source_connector
from icestream.errors import NotSupportedError, Place, SqlError, did_you_mean
from icestream.functions.bind import bind_as
from icestream.functions.expressions import ColumnRef
from icestream.functions.scope import Scope
from icestream.plan.linear import linear, relations_read
from icestream.plan.logical import Item, Node, Project, Scan
from icestream.plan.query import Relation, bind_query
from icestream.sql import statements as st
from icestream.sql.environment import resolve
from icestream.sql.options import OptionSpec, Settings, Spec, check
from icestream.types import Type

Creating = (
    st.CreateSource | st.CreateTable | st.CreateView | st.CreateSink
    | st.CreateConnection | st.CreateConnector | st.CreateSecret | st.CreateIndex
)  # fmt: skip


@dataclass(frozen=True)
class Names:
    """The objects that a statement may refer to, and where values come from."""

    objects: Mapping[str, Object]
    env: Mapping[str, str]
    secrets: Callable[[st.Name], str]

    def find(self, name: st.Name, *kinds: type[Object], broken: bool = False) -> Object:
        """The object of that name; the error for an unknown one suggests the nearest.

        One that cannot be built raises its own error, unless `broken` ones are welcome.
        """
        _public(name)
        found = self.objects.get(name.name)
        if found is None:
            known = [o.name for o in self.objects.values() if not kinds or isinstance(o, kinds)]
            what = kinds[0].kind if len(kinds) == 1 else "relation"
            raise SqlError(
                f'{what} "{name}" does not exist',
                place=name.place,
                remedy=did_you_mean(name.name, known),
            )
        if isinstance(found, Broken) and (not kinds or found.kind in {k.kind for k in kinds}):
            if broken:
                return found
            raise found.error
        if kinds and not isinstance(found, kinds):
            raise SqlError(f'"{name}" is a {found.kind}', place=name.place)
        return found

    def relation(self, name: st.Name) -> Relation:
        """What a query may read under that name."""
        if name.schema == DEAD_LETTERS:
            fed = self.find(st.Name(name.name, None, name.place), Source, Table, Connector)
            return Relation(dead_key(fed.key), str(name), DEAD_LETTER_COLUMNS)
        found = self.find(name, Source, Table, View, MaterializedView)
        columns = tuple((c.name, c.type) for c in found.columns)
        query = found.query if isinstance(found, View) else None
        return Relation(found.key, found.name, columns, query)


def bind(statement: st.Statement, id: int, names: Names) -> Object:
    """The object that a CREATE statement makes; an error that knows no better place has the statement's."""
    secrets: list[str] = []

    def secret(name: st.Name) -> str:
        secrets.append(names.find(name, Secret).key)
        return names.secrets(name)

    try:
        object = _bind(statement, id, replace(names, secrets=secret))
    except SqlError as error:
        error.place = error.place or statement.place
        raise
    return replace(object, depends=(*object.depends, *dict.fromkeys(secrets)))


def _bind(statement: st.Statement, id: int, names: Names) -> Object:
    match statement:
        case st.CreateSource():
            return _source(statement, id, names)
        case st.CreateTable():
            return _table(statement, id, names)
        case st.CreateView():
            return _view(statement, id, names)
        case st.CreateSink():
            return _sink(statement, id, names)
        case st.CreateConnection():
            return _connection(statement, id, names)
        case st.CreateConnector():
            return _connector(statement, id, names)
        case st.CreateSecret():
            return _secret(statement, id, names)
        case st.CreateIndex():
            table = names.find(statement.table, Table, MaterializedView)
            return Index(id, statement.name.name, statement.text, (), (table.key,))
    raise NotSupportedError(type(statement).__name__, place=statement.place)


# -- sources and tables ------------------------------------------------------------------------------


def _source(statement: st.CreateSource, id: int, names: Names) -> Source:
    _public(statement.name)
    if statement.primary_key:
        raise NotSupportedError("PRIMARY KEY on a source", place=statement.place)
    ingest, columns = _ingest(statement, f"source {statement.name.name}", names)
    depends = _connection_key(statement.options, names)
    return Source(id, statement.name.name, statement.text, columns, depends, ingest)


def _table(statement: st.CreateTable, id: int, names: Names) -> Table:
    _public(statement.name)
    later = {
        "ENGINE = iceberg": statement.engine == "iceberg",
        "CREATE TABLE … FROM source": statement.from_source is not None,
        "CREATE TABLE … AS": statement.query is not None,
        "PRIMARY KEY (keyed tables)": statement.primary_key
        or any(c.primary_key for c in statement.columns),
        "ON CONFLICT": statement.on_conflict,
        "WITH VERSION COLUMN": statement.version_columns,
    }
    for what, asked in later.items():
        if asked:
            raise NotSupportedError(what, place=statement.place)
    if "connector" not in statement.options:
        raise NotSupportedError(
            "CREATE TABLE without a connector (INSERT, UPDATE and DELETE)",
            place=statement.place,
            remedy="WITH (connector = '…') fills a table from outside",
        )
    ingest, columns = _ingest(statement, f"table {statement.name.name}", names)
    depends = _connection_key(statement.options, names)
    return Table(id, statement.name.name, statement.text, columns, depends, ingest)


def _ingest(
    statement: st.CreateSource | st.CreateTable, what: str, names: Names
) -> tuple[Ingest, tuple[Column, ...]]:
    if statement.watermarks:
        raise NotSupportedError("WATERMARK", place=statement.watermarks[0].place)
    if statement.wildcard:
        raise NotSupportedError("a column list of *", place=statement.place)
    options = _with_connection(statement.options, names)
    name, place = _connector_name(options, what, statement.place, names)
    connector = source_connector(name, place)
    settings = _settings(options, connector.options, what, names, statement.place)
    if connector.check is not None:
        connector.check(settings)
    chosen = _format(statement.format, connector, what, names, statement.place)
    ingest = Ingest(connector.name, settings, *chosen, statement.includes)
    declared = _declared(statement, what)
    if connector.check_columns is not None:
        connector.check_columns(settings, declared)
    included = [_included(i, ingest, connector.includes) for i in statement.includes]
    columns = _generated(statement, [*declared, *included])
    _distinct([c.name for c in columns], what, statement.place)
    if not columns:
        raise SqlError(f"{what} has no columns", place=statement.place)
    return ingest, columns


def _format(
    written: st.Format | None, connector: SourceConnector, what: str, names: Names, place: Place
) -> tuple[str | None, str | None, Settings | None]:
    """FORMAT, ENCODE and its settings, as the connector takes them."""
    if written is None:
        if connector.formats and connector.default_format is None:
            raise SqlError(
                f"{what} needs FORMAT … ENCODE …", place=place, remedy="FORMAT PLAIN ENCODE JSON"
            )
        format, encode = connector.default_format or (None, None)
        options: st.Options = {}
    else:
        format, encode, options, place = (
            written.format,
            written.encode,
            written.options,
            written.place,
        )
        if written.key_encode is not None:
            raise SqlError("KEY ENCODE is for sinks", place=place, remedy="INCLUDE key AS …")
        formats.lookup(format, encode, place)
        if encode not in connector.formats.get(format, ()):
            takes = [f"FORMAT {f} ENCODE {e}" for f, es in connector.formats.items() for e in es]
            raise SqlError(
                f"{connector.name} does not take FORMAT {format} ENCODE {encode}",
                place=place,
                remedy="it takes " + ", ".join(takes) if takes else "leave it out",
            )
    if format is None or encode is None:
        return None, None, None
    chosen = formats.lookup(format, encode, place)
    settings = check(
        options, chosen.options, what=what, env=names.env, secrets=names.secrets, place=place
    )
    formats.check(connector.name, format, encode, settings)
    return format, encode, settings


def _declared(statement: st.CreateSource | st.CreateTable, what: str) -> list[Column]:
    columns = []
    for column in statement.columns:
        if column.generated is not None:
            continue
        if column.default is not None:
            raise NotSupportedError("DEFAULT in the columns of a connector", place=column.place)
        if column.type is None:
            raise SqlError(f"column {column.name} of {what} needs a type", place=column.place)
        columns.append(Column(column.name, column.type, column.not_null))
    return columns


def _included(include: st.Include, ingest: Ingest, known: Mapping[str, Type]) -> Column:
    if include.what not in known:
        raise SqlError(
            f"{ingest.connector} has no {include.what} to include",
            place=include.place,
            remedy=did_you_mean(include.what, known) or "it has " + ", ".join(known),
        )
    if include.inner is not None or include.type is not None:
        raise NotSupportedError(f"INCLUDE {include.what} of a single one", place=include.place)
    return Column(ingest.name_of(include), known[include.what])


def _generated(
    statement: st.CreateSource | st.CreateTable, columns: list[Column]
) -> tuple[Column, ...]:
    """All columns in the order they were written, the generated ones bound over the others."""
    by_name = {c.name: c for c in columns}
    scope = Scope.of({c.name: c.type for c in columns})
    result: list[Column] = []
    for column in statement.columns:
        if column.generated is None:
            result.append(by_name.pop(column.name))
            continue
        tree, place_of = column.generated.tree, column.generated.place_of
        if column.type is None:
            raise SqlError(f"column {column.name} needs a type", place=column.place)
        expr = bind_as(tree, column.type, scope, place_of, what=f'column "{column.name}"')
        result.append(Column(column.name, column.type, column.not_null, expr))
    return (*result, *by_name.values())


# -- views and sinks ---------------------------------------------------------------------------------


def _view(statement: st.CreateView, id: int, names: Names) -> View | MaterializedView:
    _public(statement.name)
    if statement.or_replace:
        raise NotSupportedError("OR REPLACE", place=statement.place)
    if statement.emit_on_window_close:
        raise NotSupportedError("EMIT ON WINDOW CLOSE", place=statement.place)
    what = f"{'materialized ' if statement.materialized else ''}view {statement.name.name}"
    _settings(statement.options, (), what, names, statement.place)
    node = bind_query(statement.query, names.relation)
    columns = _output(node, statement.columns, what, statement.place)
    depends = relations_read(node)
    if not statement.materialized:
        return View(
            id, statement.name.name, statement.text, columns, depends, _renamed(node, columns)
        )
    _must_be_linear(node, what, statement.place)
    node = _renamed(node, columns)
    return MaterializedView(id, statement.name.name, statement.text, columns, depends, node)


def _sink(statement: st.CreateSink, id: int, names: Names) -> Sink:
    _public(statement.name)
    if statement.into is not None:
        raise NotSupportedError("CREATE SINK … INTO a table", place=statement.place)
    if statement.emit_on_window_close:
        raise NotSupportedError("EMIT ON WINDOW CLOSE", place=statement.place)
    what = f"sink {statement.name.name}"
    options = _with_connection(statement.options, names)
    name, place = _connector_name(options, what, statement.place, names)
    connector = sink_connector(name, place)
    settings = _settings(options, connector.options, what, names, statement.place)
    if connector.check is not None:
        connector.check(settings)
    if statement.format is not None:
        _sink_format(statement.format, connector, what, names)
    if statement.query is not None:
        node = bind_query(statement.query, names.relation)
    else:
        assert statement.from_name is not None
        node = _scan(names.relation(statement.from_name))
    _must_be_linear(node, what, statement.place)
    columns = _output(node, (), what, statement.place)
    if connector.check_columns is not None:
        connector.check_columns(settings, columns)
    depends = (*relations_read(node), *_connection_key(statement.options, names))
    embedded = connector.name == "iceberg" and catalog_type(settings) is None
    if embedded and settings["database.name"] in OWN_NAMESPACES:
        raise SqlError(
            f"{what}: {settings['database.name']} is the engine's own namespace",
            place=settings.place("database.name"),
            remedy="choose another database.name",
        )
    return Sink(
        id, statement.name.name, statement.text, columns, depends,
        connector.name, settings, node,
    )  # fmt: skip


def _sink_format(written: st.Format, connector: SinkConnector, what: str, names: Names) -> None:
    """FORMAT and ENCODE are what the connector writes, with options that there are."""
    specs = formats.lookup_sink(
        connector.name, connector.formats, written.format, written.encode, written.place
    )
    check(
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


def _must_be_linear(node: Node, what: str, place: Place) -> None:
    blocker = linear(node)
    if blocker is not None:
        raise NotSupportedError(
            f"{what} with {blocker.kind}: {blocker.reason}",
            place=place,
            remedy="filters, projections, UNION ALL and table functions are maintained so far",
        )


def _output(node: Node, names: tuple[str, ...], what: str, place: Place) -> tuple[Column, ...]:
    """The columns of a query as an object's: distinct names, every type storable."""
    given = [c.name for c in node.columns]
    if len(names) > len(given):
        raise SqlError(
            f"{what} names {len(names)} columns, but the query has {len(given)}", place=place
        )
    final = [*names, *given[len(names) :]]
    _distinct(final, what, place)
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


# -- connections and options -------------------------------------------------------------------------


def _connection(statement: st.CreateConnection, id: int, names: Names) -> Connection:
    _public(statement.name)
    what = f"connection {statement.name.name}"
    settings = _settings(statement.options, CONNECTION_OPTIONS, what, names, statement.place)
    return Connection(id, statement.name.name, statement.text, (), (), settings, statement.options)


def _secret(statement: st.CreateSecret, id: int, names: Names) -> Secret:
    _public(statement.name)
    what = f"secret {statement.name.name}"
    backend = statement.options.get("backend")
    if backend is not None and backend.value == "hashicorp_vault":
        raise NotSupportedError(
            "backend = 'hashicorp_vault'",
            place=backend.value_place,
            remedy="put the value into the environment and write AS '${NAME}'",
        )
    check(statement.options, SECRET_OPTIONS, what=what, env=names.env, place=statement.place)
    return Secret(id, statement.name.name, statement.text, (), ())


def _connector(statement: st.CreateConnector, id: int, names: Names) -> Connector:
    _public(statement.name)
    what = f"connector {statement.name.name}"
    config = configure(statement.options, what, names.env, names.secrets, statement.place)
    ingest = Ingest("kafka", config.kafka, None, None, None, ())
    return Connector(id, statement.name.name, statement.text, (), (), ingest, config)


def _with_connection(options: st.Options, names: Names) -> st.Options:
    """The options together with those of the connection they name; what is written here wins."""
    if "connection" not in options:
        return options
    connection = _named_connection(options["connection"], names)
    shared = {k: v for k, v in connection.options.items() if k != "type"}
    return {**shared, **options}


def _connection_key(options: st.Options, names: Names) -> tuple[str, ...]:
    return (_named_connection(options["connection"], names).key,) if "connection" in options else ()


def _named_connection(option: st.Option, names: Names) -> Connection:
    text = resolve(option.value, names.env, option.value_place)
    schema, _, name = text.rpartition(".")
    found = names.find(st.Name(name, schema or None, option.value_place), Connection)
    assert isinstance(found, Connection)
    return found


def _connector_name(
    options: st.Options, what: str, place: Place, names: Names
) -> tuple[str, Place]:
    option = options.get("connector")
    if option is None:
        raise SqlError(
            f"{what} needs the option connector", place=place, remedy="connector = 'kafka', …"
        )
    return resolve(option.value, names.env, option.value_place), option.value_place


OWN_NAMESPACES = ("icestream", DEAD_LETTERS)

CONNECTOR = OptionSpec("connector", help="which connector")
SECRET_OPTIONS = (
    OptionSpec("backend", default="meta", choices=("meta",), help="where the value is kept"),
)


def _settings(
    options: st.Options, specs: tuple[Spec, ...], what: str, names: Names, place: Place
) -> Settings:
    return check(
        options,
        (CONNECTOR, *specs),
        what=what,
        env=names.env,
        secrets=names.secrets,
        place=place,
    )


def _public(name: st.Name) -> None:
    if name.schema not in (None, "public"):
        raise NotSupportedError(f"schema {name.schema!r}: objects live in public", place=name.place)


def _distinct(names: list[str], what: str, place: Place) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise SqlError(
                f"column {name!r} of {what} is there twice",
                place=place,
                remedy="rename one with AS",
            )
        seen.add(name)
