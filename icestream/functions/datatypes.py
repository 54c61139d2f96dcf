"""A type as sqlglot parsed it → a `Type` of ours."""

from __future__ import annotations

from sqlglot import exp

from icestream import types as t
from icestream.errors import NotSupportedError, Place, SqlError, did_you_mean
from icestream.types import Type

_D = exp.DataType.Type
_SCALARS: dict[exp.DataType.Type, Type] = {
    _D.BOOLEAN: t.BOOLEAN, _D.SMALLINT: t.SMALLINT, _D.INT: t.INTEGER, _D.BIGINT: t.BIGINT,
    _D.FLOAT: t.REAL, _D.DOUBLE: t.DOUBLE, _D.TEXT: t.VARCHAR, _D.VARCHAR: t.VARCHAR,
    _D.CHAR: t.VARCHAR, _D.BPCHAR: t.VARCHAR, _D.NAME: t.VARCHAR, _D.VARBINARY: t.BYTEA, _D.BINARY: t.BYTEA,
    _D.DATE: t.DATE, _D.TIME: t.TIME, _D.TIMESTAMP: t.TIMESTAMP, _D.TIMESTAMPNTZ: t.TIMESTAMP,
    _D.TIMESTAMPTZ: t.TIMESTAMPTZ, _D.TIMESTAMPLTZ: t.TIMESTAMPTZ, _D.INTERVAL: t.INTERVAL,
    _D.JSONB: t.JSONB, _D.JSON: t.JSONB,
}  # fmt: skip


def scalar_type(node: exp.Expression) -> Type | None:
    """The type, if it is one that is only named: then no place for an error is needed."""
    is_plain = isinstance(node, exp.DataType) and not node.args.get("expressions")
    return _SCALARS.get(node.this) if is_plain else None


def bind_type(node: exp.Expression, place: Place | None = None) -> Type:
    """The type, or an error that names it."""
    if not isinstance(node, exp.DataType):
        raise NotSupportedError(f"type {written(node)}", place=place)
    kind, params = node.this, node.expressions
    if kind == _D.DECIMAL:
        sizes = [_size(p, place) for p in params]
        if sizes and not (1 <= sizes[0] <= 38 and 0 <= sum(sizes[1:]) <= sizes[0]):
            raise NotSupportedError(
                f"type numeric({','.join(map(str, sizes))})",
                place=place,
                remedy="at most 38 digits, scale from 0",
            )
        return t.numeric(*sizes) if sizes else t.NUMERIC
    if kind == _D.ARRAY:
        return t.array(bind_type(params[0], place))
    if kind == _D.MAP:
        return t.map_of(bind_type(params[0], place), bind_type(params[1], place))
    if kind == _D.STRUCT:
        return t.struct(*((_name(p.this), bind_type(p.args["kind"], place)) for p in params))
    if kind in (_D.FLOAT, _D.DOUBLE) and params:
        return _float(_size(params[0], place), place)
    if kind in _SCALARS:
        if params and kind == _D.INTERVAL and _size(params[0], place) != 6:
            what = "interval with another precision than 6"
            raise NotSupportedError(what, place=place, remedy="write interval")
        return _SCALARS[kind]
    name = str(node.args.get("kind") or getattr(kind, "value", kind)).strip('"').lower()
    if known := t.scalar(name):
        return known
    if kind == _D.USERDEFINED:
        raise SqlError(
            f'type "{name}" does not exist',
            place=place,
            remedy=did_you_mean(name, t.scalar_names()),
        )
    remedy = "use varchar: it holds the text of a uuid" if name == "uuid" else None
    raise NotSupportedError(f"type {name}", place=place, remedy=remedy)


def _float(digits: int, place: Place | None) -> Type:
    """float(n), by its binary digits"""
    if not 1 <= digits <= 53:
        wrong = "at least 1 bit" if digits < 1 else "less than 54 bits"
        raise SqlError(f"precision for type float must be {wrong}", place=place, code="22023")
    return t.REAL if digits <= 24 else t.DOUBLE


def length_of(node: exp.Expression) -> int | None:
    """n of varchar(n), char(n), timestamp(n) and time(n)."""
    lengths = (_D.VARCHAR, _D.CHAR, _D.BPCHAR, _D.TIME, _D.TIMESTAMP, _D.TIMESTAMPTZ)
    if isinstance(node, exp.DataType) and node.this in lengths and node.expressions:
        return _size(node.expressions[0])
    return 1 if isinstance(node, exp.DataType) and node.this == _D.CHAR else None


def _size(node: exp.Expression, place: Place | None = None) -> int:
    """A number in the parentheses of a type."""
    text = str(node.name)
    if not text.isdecimal() or len(text) > 9:
        raise SqlError(f"a type cannot have the size {text[:20]}", place=place, code="22023")
    return int(text)


def _name(node: exp.Expression) -> str:
    return str(node.name) if node.args.get("quoted") else str(node.name).lower()


def written(tree: exp.Expression) -> str:
    """A tree as SQL, for messages. sqlglot cannot write every tree that it has read."""
    try:
        return str(tree.sql("risingwave"))
    except Exception:
        return type(tree).__name__
