"""CREATE CONNECTION, CONNECTOR, SECRET, INDEX, SCHEMA and SUBSCRIPTION: the objects around the flow of data."""

from __future__ import annotations

from icestream.sql.clauses import if_not_exists, option_list, with_options
from icestream.sql.cursor import Cursor
from icestream.sql.queries import expression
from icestream.sql.statements import (
    CreateConnection,
    CreateConnector,
    CreateIndex,
    CreateSchema,
    CreateSecret,
    CreateSubscription,
    Query,
)

_ORDERS = (("ASC",), ("DESC",), ("NULLS", "FIRST"), ("NULLS", "LAST"))


def create_connection(cursor: Cursor) -> CreateConnection:
    """CONNECTION [IF NOT EXISTS] name WITH (…)"""
    exists, name = if_not_exists(cursor), cursor.name("the name of the connection")
    cursor.expect("WITH")
    options = option_list(cursor)
    cursor.finish()
    return CreateConnection(cursor.start, cursor.text, name, options, exists)


def create_connector(cursor: Cursor) -> CreateConnector:
    """CONNECTOR [IF NOT EXISTS] name WITH (…)"""
    exists, name = if_not_exists(cursor), cursor.name("the name of the connector")
    cursor.expect("WITH")
    options = option_list(cursor)
    cursor.finish()
    return CreateConnector(cursor.start, cursor.text, name, options, exists)


def create_secret(cursor: Cursor) -> CreateSecret:
    """SECRET [IF NOT EXISTS] name WITH (backend = 'meta') AS '…'"""
    exists, name = if_not_exists(cursor), cursor.name("the name of the secret")
    options = with_options(cursor)
    cursor.expect("AS")
    value = cursor.variable_string("the value as a string")
    cursor.finish()
    return CreateSecret(cursor.start, cursor.text, name, options, value, exists)


def create_index(cursor: Cursor) -> CreateIndex:
    """INDEX [IF NOT EXISTS] name ON table (…) [INCLUDE (…)] [DISTRIBUTED BY (…)]"""
    exists, name = if_not_exists(cursor), cursor.name("the name of the index")
    cursor.expect("ON")
    table = cursor.name("the name of a table or view")
    cursor.expect("(")
    columns = [_index_column(cursor)]
    while cursor.accept(","):
        columns.append(_index_column(cursor))
    cursor.expect(")")
    include = cursor.identifiers("a column name") if cursor.accept("INCLUDE") else ()
    distributed: tuple[str, ...] = ()
    if cursor.accept("DISTRIBUTED"):
        cursor.expect("BY")
        distributed = cursor.identifiers("a column name")
    cursor.finish()
    return CreateIndex(
        cursor.start, cursor.text, name, table, tuple(columns), include, distributed, exists
    )


def _index_column(cursor: Cursor) -> Query:
    """An expression; the order is accepted and means nothing to a hint."""
    column = expression(cursor, "a column or expression", (",",), *_ORDERS)
    while any(cursor.accept(*order) for order in _ORDERS):
        pass
    return column


def create_schema(cursor: Cursor) -> CreateSchema:
    """SCHEMA [IF NOT EXISTS] name"""
    exists, name = if_not_exists(cursor), cursor.identifier("the name of the schema")
    cursor.finish()
    return CreateSchema(cursor.start, cursor.text, name, exists)


def create_subscription(cursor: Cursor) -> CreateSubscription:
    """SUBSCRIPTION [IF NOT EXISTS] name FROM object WITH (retention = '…')"""
    exists, name = if_not_exists(cursor), cursor.name("the name of the subscription")
    cursor.expect("FROM")
    from_name = cursor.name("the name of a table or view")
    options = with_options(cursor)
    cursor.finish()
    return CreateSubscription(cursor.start, cursor.text, name, from_name, options, exists)
