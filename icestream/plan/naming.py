"""The name of a column in a select list that has no alias: PostgreSQL's rules."""

from __future__ import annotations

from sqlglot import exp

from icestream import types as t
from icestream.errors import SqlError
from icestream.functions.bind import bind_type
from icestream.functions.trees import OPERATORS, call_of
from icestream.types import ArrayType, NumericType, Type

NAMELESS = "?column?"

_TYPES: dict[Type, str] = {
    t.BOOLEAN: "bool", t.SMALLINT: "int2", t.INTEGER: "int4", t.BIGINT: "int8", t.REAL: "float4",
    t.DOUBLE: "float8", t.VARCHAR: "varchar",
}  # fmt: skip


def column_name(tree: exp.Expression) -> str:
    """What an item of a select list is called."""
    return _name(tree)[0]


def _name(tree: exp.Expression) -> tuple[str, int]:
    """The name, and how much it counts: 2 a column or function, 1 a type or keyword, 0 none."""
    match tree:
        case exp.Alias():
            return tree.alias, 2
        case exp.Column() | exp.Identifier():
            return tree.name, 2
        case exp.Dot():
            return tree.expression.name, 2
        case exp.Paren() | exp.Filter() | exp.Window() | exp.WithinGroup() | exp.Bracket():
            return _name(tree.this)
        case exp.IgnoreNulls() | exp.RespectNulls() | exp.Collate():
            return _name(tree.this)
        case exp.Cast():
            return _cast(tree)
        case exp.Interval():
            return "interval", 1
        case exp.Case():
            default = tree.args.get("default")
            found = _name(default) if default is not None else (NAMELESS, 0)
            return found if found[1] > 1 else ("case", 1)
        case exp.Exists():
            return "exists", 2
        case exp.Subquery() | exp.Query():
            return _subquery(tree)
        case exp.Array():
            return "array", 2
        case exp.Tuple():
            return "row", 2
    called = None if type(tree) in OPERATORS else call_of(tree)
    if called is None or not called[0].replace("_", "").isalnum():
        return NAMELESS, 0
    return called[0], 2


def _cast(tree: exp.Cast) -> tuple[str, int]:
    found = _name(tree.this)
    if found[1] > 0:
        return found
    kind = tree.args["to"]
    if isinstance(kind, exp.DataType) and kind.this == exp.DataType.Type.TEXT:
        return "text", 1
    try:
        return type_name(bind_type(kind)), 1
    except SqlError:  # raised again where the type is bound, with its place
        return NAMELESS, 1


def _subquery(tree: exp.Expression) -> tuple[str, int]:
    inner = tree.this if isinstance(tree, exp.Subquery) else tree
    while isinstance(inner, exp.SetOperation | exp.Subquery):
        inner = inner.this
    items = inner.expressions if isinstance(inner, exp.Select) else []
    return _name(items[0]) if len(items) == 1 else (NAMELESS, 0)


def type_name(type: Type) -> str:
    """A type as PostgreSQL calls it inside: int4, float8, …"""
    if isinstance(type, ArrayType):
        return type_name(type.element)
    return "numeric" if isinstance(type, NumericType) else _TYPES.get(type, str(type))
