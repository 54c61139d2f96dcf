"""What a JSON value is in a column, computed from its text without the engine's code: with fractions, json and calendar.

Covers numbers, text, booleans, and dates and timestamps in their canonical form; `SKIP` for everything else.
"""

from __future__ import annotations

import calendar
import json
import re
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Any

from icestream import types as t

SKIP = object()
ERROR = object()
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(Z|[+-][0-9]{2}(?::[0-9]{2})?)?"
)
_BITS = {t.SMALLINT: 15, t.INTEGER: 31, t.BIGINT: 63}
_UNITS = ((10**11, 10**6), (10**14, 10**3), (10**17, 1))
_MODES = {"milli": 1000, "micro": 1}


class Number(str):
    """The text of a JSON number."""


def parse_object(payload: bytes) -> dict[str, Any] | None:
    """The object with its numbers as texts; None where it is not one, or hard to say."""
    try:
        text = payload.decode()
        found = json.loads(text, parse_int=Number, parse_float=Number, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or "\\u" in text:
        return None
    return found


def _refuse(name: str) -> None:
    raise ValueError(name)


def expect(type: t.Type, value: Any, mode: str) -> Any:
    """The value as Arrow gives it (times as microseconds), ERROR, or SKIP."""
    if value is None:
        return None
    if isinstance(value, str) and len(value) > 4300:
        return SKIP
    if isinstance(type, t.NumericType):
        return _numeric(type, value)
    if type in _BITS:
        number = _fraction(value)
        is_whole = number is not None and (
            isinstance(value, Number) or value.strip().lstrip("+-").isdigit()
        )
        if number is None or not is_whole or number.denominator != 1:
            return ERROR
        return int(number) if -(1 << _BITS[type]) <= number < 1 << _BITS[type] else ERROR
    match type:
        case t.DOUBLE | t.REAL:
            return _floating(type, value)
        case t.BOOLEAN:
            return value if isinstance(value, bool) else ERROR
        case t.VARCHAR:
            return SKIP if isinstance(value, Number) else _text(value)
        case t.DATE:
            return _date(value)
        case t.TIMESTAMP | t.TIMESTAMPTZ:
            return _timestamp(type, value, mode)
    return SKIP


def _fraction(value: Any) -> Fraction | None:
    """The exact number; None where it is none."""
    if not isinstance(value, str) or not _NUMBER.fullmatch(value.strip()) or not value.isascii():
        return None
    exponent = re.search(r"[eE]([+-]?[0-9]+)", value)
    if exponent and abs(int(exponent[1])) > 5000:
        return None if re.search("[1-9]", value[: exponent.start()]) else Fraction(0)
    return Fraction(value.strip().removesuffix("."))


def _numeric(type: t.NumericType, value: Any) -> Any:
    if isinstance(value, str) and re.search(r"[eE][+-]?[0-9]{4,}", value):
        return SKIP
    number = _fraction(value)
    if number is None:
        return ERROR
    scaled = abs(number) * 10**type.scale + Fraction(1, 2)
    digits = scaled.numerator // scaled.denominator
    if digits >= 10**type.precision:
        return ERROR
    return Decimal((1 if number < 0 and digits else 0, tuple(map(int, str(digits))), -type.scale))


def _floating(type: t.Type, value: Any) -> Any:
    if not isinstance(value, Number):
        return SKIP if isinstance(value, str) else ERROR
    number = float(value)
    if type == t.REAL and abs(number) != float("inf"):
        try:
            number = struct.unpack("f", struct.pack("f", number))[0]
        except OverflowError:
            return ERROR
    return ERROR if abs(number) == float("inf") else number


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else ERROR


def _date(value: Any) -> Any:
    found = _DATE.fullmatch(value) if isinstance(value, str) else None
    if found is None or isinstance(value, Number):
        return SKIP
    seconds = _seconds(*map(int, found.groups()))
    return ERROR if seconds is None else ("days", seconds // 86_400)


def _seconds(year: int, month: int, day: int, *clock: int) -> int | None:
    """Seconds since 1970; None where there is no such moment in the years 1 to 9999."""
    if not (year and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year or 4, month)[1]):
        return None
    if clock and not (clock[0] < 24 and clock[1] < 60 and clock[2] < 60):
        return None
    return calendar.timegm((year, month, day, *(clock or (0, 0, 0))))


def _timestamp(type: t.Type, value: Any, mode: str) -> Any:
    if isinstance(value, Number):
        if not value.lstrip("-").isdigit() or (mode.startswith("utc") and type == t.TIMESTAMPTZ):
            return SKIP
        number = int(value)
        unit = _MODES.get(mode) if type == t.TIMESTAMPTZ else None
        unit = unit or next((u for limit, u in _UNITS if abs(number) < limit), None)
        micros = number * unit if unit else int(Fraction(number, 1000))
        if not unit and abs(number) >= 1 << 63:
            return ERROR
    else:
        found = _TIMESTAMP.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            return SKIP
        seconds = _seconds(*map(int, found.groups()[:6]))
        zone = found[8] or "Z"
        if seconds is None or zone[1:3] > "23" or zone[4:6] > "59":
            return SKIP if seconds is not None else ERROR
        offset = 0 if zone == "Z" else int(zone[1:3]) * 3600 + int(zone[4:6] or 0) * 60
        seconds -= -offset if zone[0] == "-" else offset
        micros = seconds * 10**6 + round(float(f"0.{found[7] or 0}") * 10**6)
    least, most = -62_135_596_800 * 10**6, 253_402_300_800 * 10**6
    return micros if least <= micros < most else ERROR
