"""CREATE SOURCE and CREATE TABLE: what comes in from outside, its columns and its format."""

from __future__ import annotations

from collections.abc import Mapping

from icestream.catalog.keys import gives_changes, table_key, whole_row, with_key
from icestream.catalog.names import Names, distinct, public
from icestream.catalog.objects import Ingest, Source, Table
from icestream.catalog.settings import connection_key, connector_name, settings_of, with_connection
from icestream.catalog.watermarks import LATE_ROWS, late_rows_of, watermark_of
from icestream.connectors import dml
from icestream.connectors.base import Column, SourceConnector
from icestream.connectors.formats import registry as formats
from icestream.connectors.registry import source_connector
from icestream.errors import NotSupportedError, Place, SqlError, did_you_mean
from icestream.functions.bind import bind_as
from icestream.functions.expressions import Expr
from icestream.functions.scope import Scope
from icestream.plan.clauses import refuse_calls
from icestream.sql import statements as st
from icestream.sql.options import Settings, check
from icestream.types import Type

SOURCE_OPTIONS = (LATE_ROWS,)
"""The options of every source and every table with a connector, beside those of the connector."""


def bind_source(statement: st.CreateSource, id: int, names: Names) -> Source:
    """CREATE SOURCE"""
    public(statement.name)
    what = f"source {statement.name.name}"
    if statement.primary_key:
        raise SqlError(
            f"{what} cannot have a primary key: a source is read, not stored",
            place=statement.place,
            remedy="CREATE TABLE keeps one row a key",
        )
    ingest, columns = _ingest(statement, what, names)
    if gives_changes(ingest):
        raise SqlError(
            f"{what} cannot have FORMAT {ingest.format}: it changes rows, and a source keeps none",
            place=statement.format.place if statement.format else statement.place,
            remedy="CREATE TABLE … PRIMARY KEY (…)",
        )
    mark = watermark_of(statement, columns, what)
    depends = connection_key(statement.options, names)
    return Source(
        id, statement.name.name, statement.text, columns, depends, ingest,
        watermark=mark, late_rows=late_rows_of(ingest, mark),
    )  # fmt: skip


def bind_table(statement: st.CreateTable, id: int, names: Names) -> Table:
    """CREATE TABLE"""
    public(statement.name)
    later = {
        "CREATE TABLE … FROM source": statement.from_source is not None,
        "CREATE TABLE … AS": statement.query is not None,
    }
    for what, asked in later.items():
        if asked:
            raise NotSupportedError(what, place=statement.place)
    what = f"table {statement.name.name}"
    ingest, columns = _ingest(statement, what, names)
    upsert = table_key(statement, ingest, columns, what)
    columns = with_key(columns, upsert)
    if upsert is None and ingest.connector == dml.NAME and not statement.append_only:
        upsert = whole_row(columns)
    mark = watermark_of(statement, columns, what)
    depends = connection_key(statement.options, names)
    table = Table(
        id, statement.name.name, statement.text, columns, depends, ingest,
        upsert=upsert, append_only=statement.append_only,
        watermark=mark, late_rows=late_rows_of(ingest, mark),
    )  # fmt: skip
    if mark is not None and table.changing:
        raise SqlError(
            f"{what} cannot have a watermark: its rows may change at any time",
            place=statement.watermarks[0].place,
            remedy="APPEND ONLY: rows are only added, and the first one of each key stays",
        )
    return table


def _ingest(
    statement: st.CreateSource | st.CreateTable, what: str, names: Names
) -> tuple[Ingest, tuple[Column, ...]]:
    if statement.wildcard:
        raise NotSupportedError("a column list of *", place=statement.place)
    options = with_connection(statement.options, names)
    if isinstance(statement, st.CreateTable) and "connector" not in options:
        if statement.format is not None or statement.includes:
            raise SqlError(
                f"{what} has a FORMAT or INCLUDE, but no connector",
                place=statement.place,
                remedy="WITH (connector = '…') fills a table from outside",
            )
        connector = source_connector(dml.NAME)
    else:
        name, place = connector_name(options, what, statement.place, names)
        connector = source_connector(name, place)
    specs = (*connector.options, *SOURCE_OPTIONS)
    settings = settings_of(options, specs, what, names, statement.place)
    if connector.check is not None:
        connector.check(settings)
    chosen = _format(statement.format, connector, what, names, statement.place)
    ingest = Ingest(connector.name, settings, *chosen, statement.includes)
    declared = _declared(statement, what, defaults=connector.name == dml.NAME)
    if connector.check_columns is not None:
        connector.check_columns(settings, declared)
    included = [_included(i, ingest, connector) for i in statement.includes]
    columns = _generated(statement, [*declared, *included])
    distinct([c.name for c in columns], what, statement.place)
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


def _declared(
    statement: st.CreateSource | st.CreateTable, what: str, *, defaults: bool
) -> list[Column]:
    columns = []
    for column in statement.columns:
        if column.generated is not None:
            continue
        if column.default is not None and not defaults:
            raise NotSupportedError("DEFAULT in the columns of a connector", place=column.place)
        if column.type is None:
            raise SqlError(f"column {column.name} of {what} needs a type", place=column.place)
        columns.append(Column(column.name, column.type, column.not_null, default=_default(column)))
    return columns


def _default(column: st.Column) -> Expr | None:
    if column.default is None:
        return None
    assert column.type is not None
    tree, place_of, what = column.default.tree, column.default.place_of, f'column "{column.name}"'
    expr = bind_as(tree, column.type, Scope.of({}), place_of, what=what)
    refuse_calls(expr, "DEFAULT expressions", tree, place_of)
    return expr


def _included(include: st.Include, ingest: Ingest, connector: SourceConnector) -> Column:
    """The column that an INCLUDE makes; what the format offers may be a part of it, of a type of its own."""
    offered: Mapping[str, Type] = {}
    if ingest.format is not None and ingest.encode is not None:
        offered = formats.lookup(ingest.format, ingest.encode).includes
    known = {**connector.includes, **offered}
    if include.what not in known:
        raise SqlError(
            f"{ingest.connector} has no {include.what} to include",
            place=include.place,
            remedy=did_you_mean(include.what, known) or "it has " + ", ".join(known),
        )
    if include.what == "source" and include.inner is None:
        raise SqlError(
            "INCLUDE source needs the field that is wanted",
            place=include.place,
            remedy="INCLUDE source 'ts_ms' BIGINT AS changed_at",
        )
    if include.what != "source" and (include.inner is not None or include.type is not None):
        raise NotSupportedError(f"INCLUDE {include.what} of a single one", place=include.place)
    return Column(ingest.name_of(include), include.type or known[include.what])


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
        refuse_calls(expr, "column generation expressions", tree, place_of)
        result.append(Column(column.name, column.type, column.not_null, expr))
    return (*result, *by_name.values())
