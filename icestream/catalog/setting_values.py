"""The value of a setting as it is written → as it is kept and shown; an error if it could not be kept to."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta, tzinfo
from typing import Literal
from zoneinfo import ZoneInfo

from icestream.errors import SqlError
from icestream.functions.input_errors import TextInputError
from icestream.functions.interval_input import parse_interval
from icestream.functions.zones import find_zone

SettingType = Literal["string", "integer", "boolean", "true_false", "duration"]
"""boolean is shown as on and off, true_false as true and false (RisingWave's)."""

LEVELS = ("serializable", "repeatable read", "read committed", "read uncommitted")
HELD = "read committed"
"""The isolation level that transactions have, whatever is asked for."""
ENCODINGS = {"utf8": "UTF8", "utf-8": "UTF8", "unicode": "UTF8", "auto": "UTF8", "sql_ascii": "SQL_ASCII"}  # fmt: skip
"""Encodings whose texts are sent as they are. libpq takes `auto`."""
_WORDS = (("true", 1), ("false", 1), ("yes", 1), ("no", 1), ("on", 2), ("off", 2), ("1", 1), ("0", 1))  # fmt: skip
"""The words for truth values, and how many letters of each are enough."""
_TRUE = ("true", "yes", "on", "1")
_ISO = ("iso", "mdy", "us", "noneuropean", "noneuro")
_OTHER_STYLES = ("sql", "postgres", "german", "dmy", "ymd", "euro", "european")
_HOURS = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)")
_OFFSET = re.compile(r"<[^<>]+>(?P<west>[+-]\d.*)")
_UNITS = {"us": 0.001, "ms": 1.0, "s": 1e3, "min": 60e3, "h": 3600e3, "d": 86400e3}
_SHOWN_UNITS = ("d", "h", "min", "s")
_DURATION = re.compile(
    r"\s*(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(?P<unit>[a-zA-Z]*)\s*"
)
_MOST = 2**31 - 1


def is_true(name: str, value: str) -> bool:
    """A truth value in any of the spellings that PostgreSQL takes: also the beginnings of the words."""
    word = value.strip().lower()
    for whole, least in _WORDS:
        if len(word) >= least and whole.startswith(word):
            return whole in _TRUE
    raise SqlError(f'parameter "{name}" requires a Boolean value', code="22023")


def milliseconds(name: str, text: str) -> int:
    """A duration: milliseconds, or a number with a unit."""
    match = _DURATION.fullmatch(text)
    if match is None or (match["unit"] or "ms") not in _UNITS:
        raise SqlError(
            f'invalid value for parameter "{name}": "{text}"',
            code="22023",
            remedy='Valid units for this parameter are "us", "ms", "s", "min", "h", and "d".',
        )
    value = float(match["number"]) * _UNITS[match["unit"] or "ms"]
    if not 0 <= value <= _MOST:
        raise SqlError(
            f'{text.strip()} is outside the valid range for parameter "{name}" (0 ms .. {_MOST} ms)',
            code="22023",
        )
    return round(value)


def zone_of(name: str) -> tzinfo | None:
    """The time zone that a setting names; None if there is none of that name."""
    offset = _OFFSET.fullmatch(name)
    return find_zone(f"utc{offset['west']}" if offset else name)


def offset_of(text: str) -> str:
    """SET TIME ZONE INTERVAL 'text', as it is shown."""
    try:
        span = parse_interval(text)
    except TextInputError:
        raise _invalid("TimeZone", text) from None
    if span.months or span.days:
        raise _invalid("TimeZone", text)
    return _shown_offset(_bounded(span.microseconds / 1e6, text))


# -- values of a type -----------------------------------------------------------------------------


def normalize_boolean(name: str, value: str) -> str:
    """on or off"""
    return "on" if is_true(name, value) else "off"


def normalize_true_false(name: str, value: str) -> str:
    """true or false"""
    return "true" if is_true(name, value) else "false"


def normalize_integer(name: str, value: str) -> str:
    """A whole number."""
    try:
        return str(int(value))
    except ValueError:
        raise _invalid(name, value) from None


def normalize_duration(name: str, value: str) -> str:
    """The duration in the largest unit that it is a whole number of."""
    number = milliseconds(name, value)
    for unit in _SHOWN_UNITS if number else ():
        whole, rest = divmod(number, int(_UNITS[unit]))
        if not rest:
            return f"{whole}{unit}"
    return f"{number}ms" if number else "0"


NORMALIZE: dict[SettingType, Callable[[str, str], str]] = {
    "string": lambda name, value: value,
    "integer": normalize_integer,
    "boolean": normalize_boolean,
    "true_false": normalize_true_false,
    "duration": normalize_duration,
}


# -- values of one setting ------------------------------------------------------------------------


def normalize_strings(name: str, value: str) -> str:
    """standard_conforming_strings is always on."""
    if not is_true(name, value):
        raise _unsupported(name, value, "write E'…' for a text with escapes")
    return "on"


def normalize_encoding(name: str, value: str) -> str:
    """client_encoding"""
    asked = value.strip("'\" ").lower()
    if asked not in ENCODINGS:
        raise SqlError(
            f"encoding {asked} is not supported",
            code="0A000",
            remedy="set client_encoding to UTF8",
        )
    return ENCODINGS[asked]


def normalize_date_style(name: str, value: str) -> str:
    """DateStyle"""
    for word in value.strip("'\", ").lower().replace(",", " ").split() or [""]:
        if word in _OTHER_STYLES:
            raise _unsupported(name, value, "dates are written as ISO, MDY")
        if word not in _ISO:
            raise _invalid(name, value)
    return "ISO, MDY"


def normalize_float_digits(name: str, value: str) -> str:
    """extra_float_digits"""
    number = int(normalize_integer(name, value))
    if not -15 <= number <= 3:
        message = f'{value} is outside the valid range for parameter "{name}" (-15 .. 3)'
        raise SqlError(message, code="22023")
    return str(number)


def normalize_level(name: str, value: str) -> str:
    """An isolation level."""
    if " ".join(value.lower().split()) not in LEVELS:
        raise _invalid(name, value)
    return HELD


def normalize_zone(name: str, value: str) -> str:
    """A name as it is spelt, or the offset of a number of hours as PostgreSQL shows it."""
    text = value.strip()
    if text.lower() == "local":
        return "UTC"
    if _HOURS.fullmatch(text):
        return _shown_offset(_bounded(float(text) * 3600, text))
    zone = zone_of(text)
    if zone is None:
        raise _invalid("TimeZone", value)
    return zone.key if isinstance(zone, ZoneInfo) else text


def _bounded(seconds: float, text: str) -> timedelta:
    if abs(seconds) >= 86_400:
        raise _invalid("TimeZone", text)
    return timedelta(seconds=seconds)


def _shown_offset(east: timedelta) -> str:
    """<+02>-02: POSIX counts to the west."""
    minutes = round(abs(east).total_seconds() / 60)
    clock = f"{minutes // 60:02}" + (f":{minutes % 60:02}" if minutes % 60 else "")
    back, ahead = ("+", "-") if east < timedelta() else ("-", "+")
    return f"<{ahead}{clock}>{back}{clock}"


def _invalid(name: str, value: str) -> SqlError:
    return SqlError(f'invalid value for parameter "{name}": "{value}"', code="22023")


def _unsupported(name: str, value: str, remedy: str) -> SqlError:
    return SqlError(f"{name} = '{value}' is not supported", code="0A000", remedy=remedy)
