"""What INSERT, UPDATE and DELETE take and give, before their values are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from sqlglot import exp

from icestream.catalog.catalog import Catalog
from icestream.catalog.objects import Table
from icestream.plan.assignment import is_default, without_defaults
from icestream.plan.logical import Node
from icestream.plan.query import bind_query
from icestream.runtime.returning import Change, bind_returning, filled
from icestream.server.backend import Column
from icestream.server.parameters import marked_at
from icestream.sql import statements as st
from icestream.sql.trees import alias, select_from
from icestream.types import Type


def columns(statement: Change, catalog: Catalog) -> tuple[Column, ...] | None:
    """What RETURNING gives."""
    node = bind_returning(statement, _table(statement, catalog), catalog)
    return None if node is None else tuple(Column(c.name, c.type) for c in node.columns)


def columns_filled(statement: Change, catalog: Catalog) -> Counter[int]:
    """How often each parameter, counted from 0, fills a column as it is. All of them must be open."""
    cells = _filling(statement, _table(statement, catalog))
    found = (marked_at(e.this) for _, e in cells if isinstance(e, exp.Literal))
    return Counter(at for at in found if at is not None)


def places(statement: Change, catalog: Catalog) -> tuple[Node, Mapping[int, Type]]:
    """A query with all of a statement's parameters in it, and the types of those that fill a column as they are."""
    table = _table(statement, catalog)
    types = {c.name: c.type for c in table.columns}
    found: dict[int, Type] = {}
    for name, expr in _filling(statement, table):
        at = marked_at(expr.this) if isinstance(expr, exp.Literal) else None
        if at is not None and name in types:
            found[at] = types[name]
    if isinstance(statement, st.Insert):
        query = without_defaults(statement.query)
    else:
        query = _query(statement, table)
    return bind_query(query, catalog.names().relation), found


def _table(statement: Change, catalog: Catalog) -> Table:
    table = catalog.names().find(statement.table, Table)
    assert isinstance(table, Table)
    return table


def _filling(statement: Change, table: Table) -> Iterator[tuple[str, exp.Expression]]:
    """Columns, with what is written into them."""
    if isinstance(statement, st.Update):
        yield from ((name, query.tree) for name, query in statement.assignments)
    if isinstance(statement, st.Insert):
        names = statement.columns or tuple(c.name for c in filled(table))
        tree = statement.query.tree
        rows = tree.expressions if isinstance(tree, exp.Values) else [tree]
        for row in rows:
            yield from zip(names, row.expressions or [row.this], strict=False)


def _query(statement: st.Update | st.Delete, table: Table) -> st.Query:
    set_to = statement.assignments if isinstance(statement, st.Update) else ()
    values = [q for _, q in set_to if not is_default(q.tree)]
    where = statement.where
    items = [alias(q.tree.copy(), f"c{i}") for i, q in enumerate(values)]
    tree = select_from(
        st.Name(table.name),
        items or [alias(exp.Literal.number(1), "c")],
        where.tree.copy() if where else None,
    )
    source = next((q.source for q in (*values, where) if q is not None), None)
    return st.Query(tree, statement.text, statement.place, source)
