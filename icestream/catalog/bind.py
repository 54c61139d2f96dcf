"""Statements → objects: names, types, options and formats are bound here, without a JVM and without I/O.

A statement that asks for something the engine cannot do yet is refused here, with its place, before anything
has changed.
"""

from __future__ import annotations

from dataclasses import replace

from icestream.catalog.names import Names, public
from icestream.catalog.objects import (
    NEVER_ALTERED,
    Altered,
    Connection,
    Connector,
    Index,
    Ingest,
    MaterializedView,
    Object,
    Secret,
    Subscription,
    Table,
)
from icestream.catalog.settings import settings_of
from icestream.catalog.sinks import bind_sink, bind_view
from icestream.catalog.sources import bind_source, bind_table
from icestream.connectors.iceberg_options import CONNECTION_OPTIONS
from icestream.errors import NotSupportedError, SqlError
from icestream.kafka_connect.config import configure
from icestream.plan.complexity import bounded_depth
from icestream.sql import statements as st
from icestream.sql.options import OptionSpec, check

SECRET_OPTIONS = (
    OptionSpec("backend", default="meta", choices=("meta",), help="where the value is kept"),
)
SUBSCRIPTION_OPTIONS = (
    OptionSpec("retention", "seconds", default=86_400.0, least=0, help="how long changes are kept"),
)


def bind(
    statement: st.Statement, id: int, names: Names, altered: Altered = NEVER_ALTERED
) -> Object:
    """The object that a CREATE statement makes; an error that knows no better place has the statement's."""
    used: list[Object] = []
    born = altered.born or statement.name.name  # type: ignore[attr-defined]

    def secret(name: st.Name) -> str:
        used.append(names.find(name, Secret))
        return names.secrets(name)

    try:
        reader = max(id, altered.redefined)
        own = replace(
            names,
            secrets=secret,
            use=used.append,
            own=f"{born}#{id}",
            reader=reader,
            layout=altered.layout,
        )
        with bounded_depth(statement.place):
            object = _bind(statement, id, own)
    except SqlError as error:
        error.place = error.place or statement.place
        raise
    depends = (*object.depends, *dict.fromkeys(o.key for o in used))
    return replace(object, depends=depends, altered=altered)


def _bind(statement: st.Statement, id: int, names: Names) -> Object:
    match statement:
        case st.CreateSource():
            return bind_source(statement, id, names)
        case st.CreateTable():
            return bind_table(statement, id, names)
        case st.CreateView():
            return bind_view(statement, id, names)
        case st.CreateSink():
            return bind_sink(statement, id, names)
        case st.CreateConnection():
            return _connection(statement, id, names)
        case st.CreateConnector():
            return _connector(statement, id, names)
        case st.CreateSecret():
            return _secret(statement, id, names)
        case st.CreateIndex():
            table = names.find(statement.table, Table, MaterializedView)
            return Index(id, statement.name.name, statement.text, (), (table.key,))
        case st.CreateSubscription():
            return _subscription(statement, id, names)
    raise NotSupportedError(type(statement).__name__, place=statement.place)


def _connection(statement: st.CreateConnection, id: int, names: Names) -> Connection:
    public(statement.name)
    what = f"connection {statement.name.name}"
    settings = settings_of(statement.options, CONNECTION_OPTIONS, what, names, statement.place)
    return Connection(id, statement.name.name, statement.text, (), (), settings, statement.options)


def _secret(statement: st.CreateSecret, id: int, names: Names) -> Secret:
    public(statement.name)
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


def _subscription(statement: st.CreateSubscription, id: int, names: Names) -> Subscription:
    public(statement.name)
    what = f"subscription {statement.name.name}"
    followed = names.find(statement.from_name, Table, MaterializedView)
    settings = check(
        statement.options, SUBSCRIPTION_OPTIONS, what=what, env=names.env, place=statement.place
    )
    kept = settings.number("retention")
    return Subscription(id, statement.name.name, statement.text, (), (followed.key,), kept)


def _connector(statement: st.CreateConnector, id: int, names: Names) -> Connector:
    public(statement.name)
    what = f"connector {statement.name.name}"
    config = configure(statement.options, what, names.env, names.secrets, statement.place)
    ingest = Ingest("kafka", config.kafka, None, None, None, ())
    return Connector(id, statement.name.name, statement.text, (), (), ingest, config)
