"""The relations that the tests of this folder read, and short ways to bind a query over them."""

from __future__ import annotations

from icestream import types as t
from icestream.errors import SqlError, did_you_mean
from icestream.plan.explain import explain_node
from icestream.plan.logical import Node
from icestream.plan.query import Relation, bind_query
from icestream.sql import parse
from icestream.sql.statements import Name, Select

RELATIONS: dict[str, Relation] = {
    "orders": Relation(
        "orders#1",
        "orders",
        (
            ("id", t.INTEGER),
            ("customer", t.INTEGER),
            ("item", t.VARCHAR),
            ("price", t.NUMERIC),
            ("at", t.TIMESTAMP),
            ("tags", t.array(t.VARCHAR)),
            ("_icestream_offset", t.BIGINT),
        ),
    ),
    "customers": Relation(
        "customers#2", "customers", (("id", t.BIGINT), ("name", t.VARCHAR), ("level", t.SMALLINT))
    ),
}


def relation(name: Name) -> Relation:
    """What the catalog would say."""
    if name.name in RELATIONS:
        return RELATIONS[name.name]
    raise SqlError(
        f'relation "{name}" does not exist',
        place=name.place,
        remedy=did_you_mean(name.name, RELATIONS),
    )


def bind(sql: str, relations: dict[str, Relation] | None = None) -> Node:
    """The plan of a query."""
    (statement,) = parse(sql, env={})
    assert isinstance(statement, Select)
    extra = relations or {}
    return bind_query(statement.query, lambda n: extra.get(n.name) or relation(n))


def shape(sql: str) -> str:
    """The plan of a query as EXPLAIN prints it."""
    return explain_node(bind(sql))


def columns(sql: str) -> list[tuple[str, str]]:
    """The names and types that a query gives."""
    return [(c.name, str(c.type)) for c in bind(sql).columns]
