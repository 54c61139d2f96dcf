"""Texts of intervals → values: PostgreSQL's verbose form, the SQL standard's, and ISO 8601 in both of its forms."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from icestream.functions.datetime_tokens import (
    FieldError,
    Token,
    read_fraction,
    read_whole,
    split_fields,
    to_error,
)
from icestream.functions.expressions import Interval
from icestream.functions.input_errors import TextInputError

SECOND, MINUTE, HOUR, DAY = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000
_UNITS = {
    "microsecond": "us usec usecond useconds usecs microsecon",
    "millisecond": "ms msec msecond mseconds msecs millisecon",
    "second": "s sec second seconds secs", "minute": "m min mins minute minutes",
    "hour": "h hour hours hr hrs", "day": "d day days", "week": "w week weeks",
    "month": "mon mons month months", "year": "y year years yr yrs",
    "decade": "dec decade decades decs", "century": "c cent centuries century",
    "millennium": "mil millennia millennium mils", "other": "qtr quarter timezone timezone_h timezone_m",
}  # fmt: skip
_NAMES = {name: unit for unit, names in _UNITS.items() for name in names.split()}
_LONGEST = 10
"""PostgreSQL compares this many letters of a unit."""
_MICROS = {"microsecond": 1, "millisecond": 1000, "second": SECOND, "minute": MINUTE, "hour": HOUR}
_DAYS = {"day": 1, "week": 7}
_YEARS = {"year": 1, "decade": 10, "century": 100, "millennium": 1000}
_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_LARGEST_NUMBER = 1.0e15


def parse_interval(text: str, unit: str = "second") -> Interval:
    """The interval of a text. `unit` is that of a last number without one: INTERVAL '5' MINUTE."""
    try:
        try:
            parts = _verbose(split_fields(text), _NAMES.get(unit.lower(), "other"))
        except FieldError as error:
            if error.kind != "format":
                raise
            parts = _iso(text)
    except FieldError as error:
        kind = "interval" if error.kind == "field" else error.kind
        raise to_error(FieldError(kind), "interval", text) from None
    months = parts.years * 12 + parts.months
    if abs(months) >= 2**31 and months != -(2**31):
        raise TextInputError("22008", "interval out of range")
    return Interval(months, parts.days, parts.micros)


def cut_interval(value: Interval, unit: str) -> Interval:
    """The interval without what is smaller than a unit, as INTERVAL '1.5' DAY has it."""
    match _NAMES.get(unit.lower()):
        case "year":
            return Interval(value.months - int(math.fmod(value.months, 12)), 0, 0)
        case "month":
            return Interval(value.months, 0, 0)
        case "day":
            return Interval(value.months, value.days, 0)
        case "hour" | "minute" as name:
            rest = abs(value.microseconds) % _MICROS[name]
            micros = value.microseconds - (rest if value.microseconds > 0 else -rest)
            return Interval(value.months, value.days, micros)
    return value


class _Parts:
    """An interval that grows. Fractions go to the next smaller part, as PostgreSQL moves them."""

    def __init__(self) -> None:
        self.years = self.months = self.days = self.micros = 0

    def add(self, unit: str, amount: int, fraction: float) -> None:
        if unit in _MICROS:
            self.add_micros(amount * _MICROS[unit])
            self.add_fraction(fraction, _MICROS[unit])
        elif unit == "day":
            self.add_days(amount)
            self.add_fraction(fraction, DAY)
        elif unit == "week":
            self.add_days(amount * 7)
            self.add_day_fraction(fraction * 7)
        elif unit == "month":
            self.months = _fit(self.months + amount, 31)
            self.add_day_fraction(fraction * 30)
        elif unit in _YEARS:
            self.years = _fit(self.years + _fit(amount * _YEARS[unit], 31), 31)
            self.months = _fit(self.months + round(fraction * _YEARS[unit] * 12), 31)
        else:
            raise FieldError

    def add_micros(self, amount: int) -> None:
        self.micros = _fit(self.micros + _fit(amount, 63), 63)

    def add_days(self, amount: int) -> None:
        self.days = _fit(self.days + _fit(amount, 31), 31)

    def add_day_fraction(self, days: float) -> None:
        whole = int(days)
        self.add_days(whole)
        self.add_fraction(days - whole, DAY)

    def add_fraction(self, fraction: float, scale: int) -> None:
        scaled = fraction * scale
        whole = int(scaled)
        rest = scaled - whole
        self.add_micros(whole + (rest > 0.5) - (rest < -0.5))

    def negate(self) -> None:
        smallest = -(2**31)
        if smallest in (self.years, self.months, self.days) or self.micros == -(2**63):
            raise FieldError("field")
        self.years, self.months, self.days = -self.years, -self.months, -self.days
        self.micros = -self.micros


def _fit(value: int, bits: int) -> int:
    if not -(1 << bits) <= value < 1 << bits:
        raise FieldError("field")
    return value


def _verbose(tokens: Sequence[Token], last_unit: str) -> _Parts:
    """1 year 2 mons -3 days +04:05:06, 1-2 3 4:05:06. Read from its end: units stand behind their numbers."""
    parts, found = _Parts(), set[str]()
    unit, is_past = "", False
    for token in reversed(tokens):
        added: set[str] = set()
        if token.kind == "word":
            if token.text == "ago":
                is_past, unit = True, "ago"
            else:
                unit = _NAMES.get(token.text[:_LONGEST], "")
                if not unit:
                    raise FieldError
        elif token.kind == "time" or (token.kind == "zone" and ":" in token.text):
            sign = -1 if token.text[0] == "-" else 1
            try:
                added = _add_clock(parts, token.text.lstrip("+-"), sign)
            except FieldError:
                if token.kind == "time":
                    raise
                raise FieldError from None
            unit = "day"
        else:
            unit, added = _add_number(parts, token.text, unit or last_unit)
            unit = "day" if unit == "hour" else unit
        if added & found:
            raise FieldError
        found |= added
    if not found:
        raise FieldError
    if is_past:
        parts.negate()
    return parts


def _add_clock(parts: _Parts, text: str, sign: int) -> set[str]:
    """HH:MM[:SS[.f]] or MM:SS.f, with any number of hours."""
    match = re.fullmatch(r"(\d*):(\d*)(?:(:)(\d*))?(\.\d*)?", text, re.ASCII)
    if match is None:
        raise FieldError
    first, second, colon, third, point = match.groups()
    hours, minutes, seconds = (int(x or 0) for x in (first, second, third))
    _fit(hours, 63)
    _fit(max(minutes, seconds), 31)
    if point and not colon:
        hours, minutes, seconds = 0, hours, minutes
    fraction = round(read_fraction(point) * SECOND) if point else 0
    if minutes > 59 or seconds > 60:
        raise FieldError("field")
    parts.add_micros(
        sign * (_fit(hours * HOUR, 63) + minutes * MINUTE + seconds * SECOND + fraction)
    )
    return {"hour", "minute", "second", "millisecond", "microsecond"}


def _add_number(parts: _Parts, text: str, unit: str) -> tuple[str, set[str]]:
    """A number before its unit, or years-months; the unit it had and what is known now."""
    match = re.match(r"[+-]?\d*", text, re.ASCII)
    digits = match[0] if match else ""
    amount = _fit(int(digits) if digits.strip("+-") else 0, 63)
    rest = text[len(digits) :]
    negative = text.startswith("-")
    fraction = 0.0
    if rest.startswith("-"):
        months, end = read_whole(rest, 1)
        if not 0 <= months < 12:
            raise FieldError("field")
        if end < len(rest):
            raise FieldError
        unit, amount = "month", _fit(amount * 12, 63) + (-months if negative else months)
    elif rest.startswith("."):
        fraction = read_fraction(rest) * (-1 if negative else 1)
    elif rest:
        raise FieldError
    parts.add(unit, amount, fraction)
    known = {"decade": "decade"}.get(unit, unit)
    return unit, {"second", "millisecond", "microsecond"} if known == "second" and fraction else {
        known
    }


def _iso(text: str) -> _Parts:
    """P1Y2M3DT4H5M6S, P0001-02-03T04:05:06 or P00010203T040506"""
    if len(text) < 2 or text[0] != "P":
        raise FieldError
    parts = _Parts()
    date, mark, time = text[1:].partition("T")
    if date or not mark:
        _iso_part(parts, date, {"Y": "year", "M": "month", "W": "week", "D": "day"}, "-", 8)
    if time:
        _iso_part(parts, time, {"H": "hour", "M": "minute", "S": "second"}, ":", 6)
    return parts


def _iso_part(parts: _Parts, text: str, units: dict[str, str], mark: str, joined: int) -> None:
    at, has_unit = 0, False
    names = [u for k, u in units.items() if k != "W"]
    while at < len(text):
        start = at
        amount, fraction, at = _read_number(text, at)
        letter = text[at : at + 1]
        if letter in units:
            parts.add(units[letter], amount, fraction)
            at, has_unit = at + 1, True
            continue
        if has_unit or letter not in ("", mark):
            raise FieldError
        width = len(re.match(r"-?(\d*)", text[start:], re.ASCII)[1])  # type: ignore[index]
        if not letter and width == joined:
            sign = -1 if amount < 0 else 1
            size = abs(amount)
            for name, value in zip(
                names, (size // 10_000, size // 100 % 100, size % 100), strict=True
            ):
                parts.add(name, sign * value, 0.0)
            parts.add_fraction(fraction, DAY if joined == 8 else SECOND)
            return
        parts.add(names[0], amount, fraction)
        for name in names[1:]:
            if at == len(text):
                return
            if text[at] != mark:
                raise FieldError
            amount, fraction, at = _read_number(text, at + 1)
            parts.add(name, amount, fraction)
        if at < len(text):
            raise FieldError


def _read_number(text: str, at: int) -> tuple[int, float, int]:
    match = _NUMBER.match(text, at)
    if match is None:
        raise FieldError
    value = float(match[0])
    if abs(value) > _LARGEST_NUMBER:
        raise FieldError("field")
    return int(value), value - int(value), match.end()
