"""The parameters ($1, $2, …) of a statement: nodes of its trees, and the same statement with other nodes in their place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from sqlglot import exp

from icestream import interrupts
from icestream.sql.statements import Query, Statement

Step = Callable[[exp.Parameter], exp.Expression]


def find_parameters(statement: Statement) -> list[exp.Parameter]:
    """All parameters of a statement, one for each time that it is named."""
    if "$" not in statement.text:
        return []
    found: list[exp.Parameter] = []
    for query in _queries(statement):
        found += query.tree.find_all(exp.Parameter)
    return found


def parameter_index(node: exp.Parameter) -> int:
    """The number of a parameter, counted from 0."""
    return int(node.name) - 1


def replace_parameters(statement: Statement, step: Step) -> Statement:
    """The statement with what `step` gives in the place of each parameter; the statement itself stays as it is."""
    if not find_parameters(statement):
        return statement
    changed = {f.name: _replaced(getattr(statement, f.name), step) for f in fields(statement)}
    return replace(statement, **changed)


def _queries(value: Any) -> list[Query]:
    if isinstance(value, Query):
        return [value]
    if isinstance(value, Statement):
        return [q for f in fields(value) for q in _queries(getattr(value, f.name))]
    if isinstance(value, tuple):
        return [q for part in value for q in _queries(part)]
    return []


def _replaced(value: Any, step: Step) -> Any:
    if isinstance(value, Query):
        return _replaced_query(value, step)
    if isinstance(value, Statement):
        return replace_parameters(value, step)
    if type(value) is tuple:
        return tuple(_replaced(part, step) for part in value)
    return value


def _replaced_query(query: Query, step: Step) -> Query:
    tree = query.tree.copy()
    for node in list(tree.find_all(exp.Parameter)):
        interrupts.check()
        made = step(node)
        if start := node.meta.get("start"):
            made.meta["start"] = start
        if node is tree:
            tree = made
        else:
            node.replace(made)
    return replace(query, tree=tree)
