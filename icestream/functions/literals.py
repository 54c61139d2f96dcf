"""Constants: the type a literal has by itself, and the value it takes where another type is wanted."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

from icestream import types as t
from icestream.errors import SqlError
from icestream.functions.expressions import Cast, Expr, Interval, Literal
from icestream.types import Type

_MICROS = {
    "microsecond": 1, "us": 1, "usec": 1, "millisecond": 1000, "ms": 1000, "msec": 1000,
    "second": 10**6, "sec": 10**6, "s": 10**6, "minute": 60 * 10**6, "min": 60 * 10**6, "m": 60 * 10**6,
    "hour": 3600 * 10**6, "hr": 3600 * 10**6, "h": 3600 * 10**6,
}  # fmt: skip
_DAYS = {"day": 1, "d": 1, "week": 7, "w": 7}
_MONTHS = {
    "month": 1, "mon": 1, "year": 12, "yr": 12, "y": 12, "decade": 120, "dec": 120,
    "century": 1200, "cent": 1200, "c": 1200, "millennium": 12000, "mil": 12000,
}  # fmt: skip
_PLURALS = {"centuries": "century", "millennia": "millennium", "decades": "decade", "secs": "sec"}
DIGITS = 38
"""The digits that the largest numeric has."""
_TOKEN = re.compile(
    r"\s*(?:([+-]?\d+):(\d+)(?::(\d+(?:\.\d*)?))?|([+-]?(?:\d+\.?\d*|\.\d+))\s*([a-z]*))", re.I
)
_ISO = re.compile(
    r"([+-]?)P(?=.)(?:([+-]?[\d.]+)Y)?(?:([+-]?[\d.]+)M)?(?:([+-]?[\d.]+)W)?(?:([+-]?[\d.]+)D)?"
    r"(?:T(?:([+-]?[\d.]+)H)?(?:([+-]?[\d.]+)M)?(?:([+-]?[\d.]+)S)?)?$"
)


def number(text: str) -> Literal:
    """A number as written: integer, bigint or numeric, the smallest that holds it; else double precision."""
    if text.isdigit():
        whole = int(text)
        if whole < 2**31:
            return Literal(t.INTEGER, whole)
        if whole < 2**63:
            return Literal(t.BIGINT, whole)
    value = Decimal(text)
    if value and not -DIGITS <= value.adjusted() < DIGITS:
        if float(text) in (0, math.inf):
            raise SqlError(f"{text} is out of range for type double precision", code="22003")
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
    if whole <= 18 and scale <= 10:
        return t.NUMERIC
    return t.numeric(min(DIGITS, whole + scale) or 1, scale)


def adapt(literal: Literal, target: Type) -> Expr:
    """An untyped literal where `target` is wanted. A text that does not convert gives NULL, as a column would."""
    value = literal.value
    if value is None:
        return Literal(target, None)
    text = str(value)
    if target == t.VARCHAR:
        return Literal(t.VARCHAR, text)
    if target == t.INTERVAL:
        return Literal(t.INTERVAL, interval(text))
    if target in t.INTEGERS and re.fullmatch(r"\s*[+-]?\d+\s*", text):
        whole = int(text)
        return Literal(target, whole if _in_range(whole, target) else None)
    if target in _MOMENTS and (moment := _moment(text, target)):
        return Literal(target, moment)
    return Cast(target, Literal(t.VARCHAR, text))


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
    return Literal(literal.type, -value)


_BITS = {t.SMALLINT: 15, t.INTEGER: 31, t.BIGINT: 63}


def _in_range(value: int, target: Type) -> bool:
    return -1 << _BITS[target] <= value < 1 << _BITS[target]


_MOMENTS = (t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ)


def _moment(text: str, target: Type) -> str | None:
    """A plain ISO date or timestamp in the form Spark's literals take; other forms are converted by Spark."""
    if not re.fullmatch(
        r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?([+-]\d\d(:\d\d)?|Z)?)?", text
    ):
        return None
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        return None
    if target == t.DATE:
        return value.date().isoformat()
    if target == t.TIMESTAMPTZ and value.tzinfo:
        value = value.astimezone(UTC)
    return value.replace(tzinfo=None).isoformat(" ")


def decimal(text: str) -> Decimal | None:
    """The number a text spells, or None."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def interval(text: str, unit: str | None = None) -> Interval | None:
    """An interval in PostgreSQL's verbose, SQL or ISO form, or None. `unit` is that of INTERVAL '5' DAY."""
    source = text.strip()
    if iso := _ISO.match(source):
        return _iso(iso)
    ago = bool(re.search(r"\bago\s*$", source, re.I))
    source = re.sub(r"\bago\s*$", "", re.sub(r"^@\s*", "", source), flags=re.I).strip()
    months = days = micros = Decimal(0)
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        if not match or match.end() == at:
            return None
        hours, minutes, seconds, amount, name = match.groups()
        if hours is not None:
            clock = abs(Decimal(hours)) * 3600 + Decimal(minutes) * 60 + Decimal(seconds or 0)
            micros += (-clock if hours.startswith("-") else clock) * 10**6
        else:
            word = _singular((name or unit or "second").lower())
            value = Decimal(amount)
            if word in _MONTHS:
                months += value * _MONTHS[word]
            elif word in _DAYS:
                days += value * _DAYS[word]
            elif word in _MICROS:
                micros += value * _MICROS[word]
            else:
                return None
        at = match.end()
    if not source:
        return None
    sign = -1 if ago else 1
    return _spill(sign * months, sign * days, sign * micros)


def _singular(word: str) -> str:
    if word in _PLURALS:
        return _PLURALS[word]
    known = _MONTHS.keys() | _DAYS.keys() | _MICROS.keys()
    return word[:-1] if word.endswith("s") and word not in known else word


def _iso(match: re.Match[str]) -> Interval:
    sign = -1 if match.group(1) == "-" else 1
    y, mo, w, d, h, mi, s = (sign * Decimal(g or 0) for g in match.groups()[1:])
    return _spill(y * 12 + mo, w * 7 + d, (h * 3600 + mi * 60 + s) * 10**6)


def _spill(months: Decimal, days: Decimal, micros: Decimal) -> Interval:
    """Fractions move down: a month is 30 days, a day 24 hours."""
    whole_months = int(months)
    days += (months - whole_months) * 30
    whole_days = int(days)
    micros += (days - whole_days) * 86_400_000_000
    return Interval(whole_months, whole_days, int(micros.to_integral_value()))


def array_elements(text: str) -> list[str | None] | None:
    """The elements of a one-dimensional '{a,"b c",NULL}', or None if it is not one."""
    source = text.strip()
    if not (source.startswith("{") and source.endswith("}")):
        return None
    inner = source[1:-1].strip()
    if not inner:
        return []
    item = r'\s*(?:"((?:[^"\\]|\\.)*)"|([^",{}\\]*?))\s*'
    if not re.fullmatch(rf"{item}(?:,{item})*", inner):
        return None
    out: list[str | None] = []
    for match in re.finditer(rf"{item}(?:,|$)", inner):
        if match.group(0) == "" and match.start() == len(inner) and not inner.endswith(","):
            break
        quoted, plain = match.groups()
        if quoted is not None:
            out.append(re.sub(r"\\(.)", r"\1", quoted))
        else:
            out.append(None if plain.upper() == "NULL" else plain)
    return out
