"""Trees of plain queries, built without a text: what DML and COPY ask of a table."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from icestream.sql.statements import Name


def identifier(name: str) -> exp.Identifier:
    """A name as the parser gives it: folded and quoted."""
    return exp.Identifier(this=name, quoted=True)


def named_column(name: str) -> exp.Column:
    """A column by its name."""
    return exp.Column(this=identifier(name))


def alias(tree: exp.Expression, name: str) -> exp.Alias:
    """tree AS name"""
    return exp.Alias(this=tree, alias=identifier(name))


def select_from(
    table: Name, items: Sequence[exp.Expression], where: exp.Expression | None = None
) -> exp.Select:
    """SELECT items FROM table [WHERE …]. The trees become parts of the query."""
    schema = {"db": identifier(table.schema)} if table.schema else {}
    select = exp.Select(
        expressions=list(items),
        from_=exp.From(this=exp.Table(this=identifier(table.name), **schema)),
    )
    if where is not None:
        select.set("where", exp.Where(this=where))
    return select
