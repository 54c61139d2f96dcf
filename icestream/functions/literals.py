"""Constants: the type a literal has by itself, and the value it takes where another type is wanted."""

from __future__ import annotations

import math
import re
import uuid
from decimal import ROUND_HALF_UP, Context, Decimal

from icestream import types as t
from icestream.errors import SqlError
from icestream.functions.expressions import Cast, Expr, Literal
from icestream.functions.text_input import parse_text
from icestream.types import Type

DIGITS = 38
"""The digits that the largest numeric has."""
_EXPONENT_DIGITS = 9
"""More than any number has, and few enough for Decimal."""
_PLAIN_NUMBER = r"[+-]?(?:[0-9]{1,38}\.?[0-9]{0,38}|\.[0-9]{1,38})"
PLACEHOLDER = f"\x01{uuid.uuid4().hex}$"
"""Begins the text that stands for a parameter while its type is looked for. No client can write it."""


def number(text: str) -> Literal:
    """A number as written: integer, bigint or numeric, the smallest that holds it; else double precision."""
    if text.isdigit() and len(text.lstrip("0")) <= DIGITS:
        whole = int(text)
        if whole < 2**31:
            return Literal(t.INTEGER, whole)
        if whole < 2**63:
            return Literal(t.BIGINT, whole)
    shown = text if len(text) <= 40 else f"{text[:20]}…"
    if len(text.lower().partition("e")[2].lstrip("+-0")) > _EXPONENT_DIGITS:
        raise SqlError(f"{shown} is out of range for type double precision", code="22003")
    value = Decimal(text)
    if value and not -DIGITS <= value.adjusted() < DIGITS:
        if float(text) in (0, math.inf):
            raise SqlError(f"{shown} is out of range for type double precision", code="22003")
        return Literal(t.DOUBLE, float(text))
    room = DIGITS - max(0, value.adjusted() + 1)
    if -int(value.as_tuple().exponent) > room:
        value = value.quantize(Decimal(1).scaleb(-room), ROUND_HALF_UP, Context(prec=DIGITS + 1))
    return Literal(numeric_type(value), value)


def numeric_type(value: Decimal) -> Type:
    """numeric, or the exact decimal if the value needs more digits than that has."""
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    whole = max(0, len(digits) + int(exponent))
    if whole <= t.NUMERIC.precision - t.NUMERIC.scale and scale <= t.NUMERIC.scale:
        return t.NUMERIC
    return t.numeric(min(DIGITS, whole + scale) or 1, scale)


def adapt(literal: Literal, target: Type) -> Expr:
    """An untyped literal where the scalar type `target` is wanted, or `TextInputError`."""
    if literal.value is None:
        return Literal(target, None)
    text = str(literal.value)
    if is_placeholder(text) and target != t.VARCHAR:
        return Cast(target, Literal(t.VARCHAR, text))
    return Literal(target, parse_text(text, target))


def widen(literal: Expr, target: Type) -> Literal | None:
    """The number of an untyped literal in its own type, where `target` would round it or has no room for it.

    PostgreSQL compares texts as plain numerics: price = '1.555' is false, whatever the scale of price is.
    """
    if not (isinstance(literal, Literal) and literal.type == t.NULL and literal.value):
        return None
    text = str(literal.value).strip()
    if not isinstance(target, t.NumericType) or not re.fullmatch(_PLAIN_NUMBER, text):
        return None
    exact = Decimal(text)
    unit = Decimal(1).scaleb(-target.scale)
    if (
        exact.adjusted() < target.precision - target.scale
        and exact.quantize(unit, context=Context(prec=100)) == exact
    ):
        return None
    written = number(text.lstrip("+-"))
    return negated(written) if text.startswith("-") else written


def is_placeholder(text: str) -> bool:
    """Whether a text stands for a parameter."""
    return text.removeprefix("{").startswith(PLACEHOLDER)


def retyped(literal: Literal, target: Type) -> Literal | None:
    """A number literal as another number type, where that changes nothing; None otherwise."""
    value = literal.value
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    if target in t.FLOATS or (target in _BITS and _in_range(value, target)):
        return Literal(target, value)
    if isinstance(target, t.NumericType) and abs(value) < 10 ** (target.precision - target.scale):
        return Literal(target, value)
    return None


def negated(literal: Literal) -> Literal | None:
    """-literal as a constant, so that -1 is as good an argument as 1."""
    value = literal.value
    if (
        literal.type == t.NULL
        or isinstance(value, bool)
        or not isinstance(value, int | float | Decimal)
    ):
        return None
    # Not -value: that rounds to 28 digits.
    if isinstance(value, Decimal):
        return Literal(literal.type, value.copy_negate() if value else value)  # no numeric is -0
    return Literal(literal.type, -value)


_BITS = {t.SMALLINT: 15, t.INTEGER: 31, t.BIGINT: 63}


def _in_range(value: int, target: Type) -> bool:
    return -1 << _BITS[target] <= value < 1 << _BITS[target]
