"""RETURNING: what a statement gives of the rows that it has written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import SparkSession

from icestream.catalog.catalog import Catalog
from icestream.catalog.objects import Table
from icestream.connectors.base import Column
from icestream.errors import NotSupportedError
from icestream.functions.expression_errors import RAISE
from icestream.plan.linear import relations_read
from icestream.plan.logical import Node
from icestream.plan.query import Relation, bind_query
from icestream.plan.spark import render
from icestream.result import Result
from icestream.runtime.query import values_of
from icestream.runtime.spark_jobs import raising_sql_errors
from icestream.runtime.temp_views import TempViews
from icestream.sql import statements as st
from icestream.sql.trees import select_from

Change = st.Insert | st.Update | st.Delete


def filled(table: Table) -> list[Column]:
    """The columns that statements fill."""
    return [c for c in table.columns if c.generated is None]


def bind_returning(statement: Change, table: Table, catalog: Catalog) -> Node | None:
    """What is asked for, as a query over the table; None: nothing is."""
    if not statement.returning:
        return None
    columns = tuple((c.name, c.type) for c in filled(table))
    names = catalog.names()

    def relation(name: st.Name) -> Relation:
        if name.name != table.name:
            return names.relation(name)
        return Relation(table.key, table.name, columns)

    items = [q.tree.copy() for q in statement.returning]
    first = statement.returning[0]
    query = replace(first, tree=select_from(st.Name(table.name), items))
    node = bind_query(query, relation, row_by_row="RETURNING")
    if set(relations_read(node)) - {table.key}:
        raise NotSupportedError("RETURNING from another table", place=statement.table.place)
    return node


def returned(
    message: str,
    statement: Change,
    table: Table,
    rows: pa.Table,
    catalog: Catalog,
    spark: SparkSession,
) -> Result:
    """The answer to a statement that writes rows."""
    node = bind_returning(statement, table, catalog)
    if node is None:
        return Result(message=message)
    types = tuple(c.type for c in node.columns)
    asked = _columns(statement.returning, rows.column_names)
    found = rows.select(asked) if asked is not None else _computed(node, table, rows, spark)
    values = [values_of(x, type) for x, type in zip(found.columns, types, strict=True)]
    return Result(message, node.names, list(zip(*values, strict=True)), types)


def _columns(returning: Sequence[st.Query], known: Sequence[str]) -> list[str] | None:
    """The columns that are asked for, if it is nothing but columns."""
    asked = [q.text.strip() for q in returning]
    if asked == ["*"]:
        return list(known)
    return asked if all(name in known for name in asked) else None


def _computed(node: Node, table: Table, rows: pa.Table, spark: SparkSession) -> pa.Table:
    with TempViews(spark) as views:
        view = views.add(spark.createDataFrame(rows))
        frame = spark.sql(render(node, {table.key: view}, failures=RAISE))
    with raising_sql_errors():
        return frame.toDF(*[f"c{i}" for i in range(len(node.columns))]).toArrow()
