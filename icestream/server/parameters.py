"""Values and types of a statement's parameters. Values become constants of its tree, never text that is parsed."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType

from sqlglot import exp

from icestream import interrupts
from icestream import types as t
from icestream.errors import SqlError
from icestream.functions.expressions import Cast, Literal, walk
from icestream.functions.far_dates import FarDate, FarTimestamp
from icestream.functions.literals import PLACEHOLDER
from icestream.plan.logical import Node
from icestream.plan.rewrite import all_exprs
from icestream.server import moments
from icestream.server.values import codec
from icestream.sql.parameters import find_parameters, parameter_index, replace_parameters
from icestream.sql.statements import Statement
from icestream.types import ArrayType, MapType, NumericType, StructType, Type, array

_D = exp.DataType.Type
_SCALARS = {
    t.BOOLEAN: _D.BOOLEAN, t.SMALLINT: _D.SMALLINT, t.INTEGER: _D.INT, t.BIGINT: _D.BIGINT,
    t.REAL: _D.FLOAT, t.DOUBLE: _D.DOUBLE, t.NUMERIC: _D.DECIMAL, t.VARCHAR: _D.VARCHAR,
    t.BYTEA: _D.VARBINARY, t.DATE: _D.DATE, t.TIME: _D.TIME, t.TIMESTAMP: _D.TIMESTAMP,
    t.TIMESTAMPTZ: _D.TIMESTAMPTZ, t.INTERVAL: _D.INTERVAL, t.JSONB: _D.JSONB,
}  # fmt: skip


def count_parameters(statement: Statement) -> int:
    """How many parameters a statement has: the highest number."""
    return max(occurrences(statement), default=-1) + 1


def occurrences(statement: Statement) -> Counter[int]:
    """How often each parameter is there, counted from 0."""
    return Counter(map(parameter_index, find_parameters(statement)))


def fill(
    statement: Statement, values: Sequence[object], types: Sequence[Type | None] = ()
) -> Statement:
    """A statement with values in the place of its parameters, each of its type."""

    def step(node: exp.Parameter) -> exp.Expression:
        at = parameter_index(node)
        if at >= len(values):
            raise SqlError(f"there is no parameter ${at + 1}", code="42P02")
        type = types[at] if at < len(types) else None
        if type is None or _counts_rows(node):
            return _placed(literal_tree(values[at]), node)
        return typed_tree(values[at], type)

    return replace_parameters(statement, step)


def mark(statement: Statement, given: Sequence[Type | None]) -> Statement:
    """A statement that can be bound before its values are known: open parameters are marks whose type the binder finds."""

    def step(node: exp.Parameter) -> exp.Expression:
        at = parameter_index(node)
        type = given[at] if at < len(given) else None
        if _counts_rows(node):
            return exp.Literal.number(1)
        if type is None:
            return _placed(exp.Literal.string(f"{{{PLACEHOLDER}{at}}}"), node)
        return typed_tree(None, type)

    return replace_parameters(statement, step)


def _counts_rows(node: exp.Parameter) -> bool:
    """Whether a parameter is that of LIMIT or OFFSET."""
    return isinstance(node.parent, exp.Limit | exp.Offset) and node.arg_key == "expression"


def _placed(tree: exp.Expression, node: exp.Parameter) -> exp.Expression:
    """In brackets where a literal would be taken for a format that sqlglot has rewritten."""
    return exp.Paren(this=tree) if node.arg_key == "format" else tree


def marked_at(text: object) -> int | None:
    """The parameter that a marking text stands for, counted from 0: where an array is asked for, that of its element."""
    if not isinstance(text, str):
        return None
    bare = text.removeprefix("{")
    if not bare.startswith(PLACEHOLDER):
        return None
    number = bare.removeprefix(PLACEHOLDER).removesuffix("}")
    return int(number) if number.isdigit() else None


def types_of(
    statement: Statement,
    given: Sequence[Type | None],
    node: Node,
    placed: Mapping[int, Type] = MappingProxyType({}),
) -> tuple[Type, ...]:
    """The types of a statement's parameters: as the client says, else what their place asks for, else texts.

    `node` is the plan of the marked statement. `placed` says what the places of some ask for.
    """
    found: dict[int, Type] = dict(placed)
    for expr in (part for whole in all_exprs(node) for part in walk(whole)):
        interrupts.check()
        literal = expr.arg if isinstance(expr, Cast) else expr
        text = literal.value if isinstance(literal, Literal) else None
        at = marked_at(text)
        if at is not None and expr.type != t.NULL:
            whole = str(text).startswith("{")
            found.setdefault(at, expr.type if whole else array(expr.type))
    for parameter in find_parameters(statement):
        if _counts_rows(parameter):
            found.setdefault(parameter_index(parameter), t.BIGINT)
    count = count_parameters(statement)
    return tuple(given[at] or found.get(at, t.VARCHAR) for at in range(count))


def settled(given: Sequence[Type | None], found: Sequence[Type]) -> tuple[Type | None, ...]:
    """The types that values keep in a statement: as the client says, else what was found. What would be a text stays open,
    as a literal in quotes is."""
    pairs = zip(given, found, strict=False)
    return tuple(own or (None if type == t.VARCHAR else type) for own, type in pairs)


def typed_tree(value: object, type: Type) -> exp.Expression:
    """A value of a type. The binder makes one constant of the cast."""
    if isinstance(type, StructType | MapType) or isinstance(value, bool):
        return literal_tree(value)
    while isinstance(value, list) and _nests(value, type):
        type = array(type)
    if value is None:
        return exp.Cast(this=exp.Null(), to=_type_tree(type))
    return exp.Cast(this=exp.Literal.string(codec(type).text(value)), to=_type_tree(type))


def _type_tree(type: Type) -> exp.DataType:
    """A type as the parser would give it."""
    if kind := _SCALARS.get(type):
        return exp.DataType(this=kind)
    if isinstance(type, NumericType):
        sizes = [exp.Literal.number(size) for size in (type.precision, type.scale)]
        return exp.DataType(
            this=_D.DECIMAL, expressions=[exp.DataTypeParam(this=size) for size in sizes]
        )
    if isinstance(type, ArrayType):
        inner = _type_tree(type.element)
        return exp.DataType(this=_D.ARRAY, expressions=[inner], nested=True)
    return exp.DataType(this=_D.USERDEFINED, kind=str(type))


def _nests(value: Sequence[object], type: Type) -> bool:
    """Whether an array has more dimensions than its type: in PostgreSQL those do not belong to it."""
    inner: object = value
    while isinstance(type, ArrayType):
        if not isinstance(inner, list):
            return False
        inner = next((item for item in inner if item is not None), None)
        type = type.element
    return isinstance(inner, list)


def literal_tree(value: object) -> exp.Expression:
    """A value by itself. A text stays one whose type is open, as PostgreSQL has it for parameters."""
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case int() if value < 0:
            return exp.Paren(this=exp.Neg(this=exp.Literal.number(-value)))
        case int():
            return exp.Literal.number(value)
        case float():
            return _cast(str(value), t.DOUBLE)
        case Decimal():
            return _cast(str(value), t.NUMERIC)
        case bytes():
            return _cast(f"\\x{value.hex()}", t.BYTEA)
        case dt.datetime():
            type = t.TIMESTAMP if value.tzinfo is None else t.TIMESTAMPTZ
            return _cast(value.isoformat(" "), type)
        case dt.date():
            return _cast(value.isoformat(), t.DATE)
        case FarDate():
            return _cast(str(value), t.DATE)
        case FarTimestamp(zoned=zoned):
            return _cast(str(value), t.TIMESTAMPTZ if zoned else t.TIMESTAMP)
        case dt.time():
            return _cast(value.isoformat(), t.TIME)
        case dt.timedelta():
            return exp.Interval(this=exp.Literal.string(moments.interval_text(value)))
        case [] | ():
            return exp.Literal.string("{}")
        case list() | tuple():
            return exp.Array(expressions=[literal_tree(item) for item in value])
    return exp.Literal.string(str(value))


def _cast(text: str, type: Type) -> exp.Expression:
    return exp.Cast(this=exp.Literal.string(text), to=_type_tree(type))
