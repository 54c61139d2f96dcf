"""The value of a setting as a client writes it → as it is kept and shown; an error if it could not be kept to."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta, tzinfo
from zoneinfo import ZoneInfo

from icestream.functions.input_errors import TextInputError
from icestream.functions.interval_input import parse_interval
from icestream.functions.zones import find_zone
from icestream.server.backend import StateError
from icestream.server.durations import milliseconds, shown_duration

DURATIONS = ("statement_timeout", "idle_in_transaction_session_timeout")
FLUSHES = ("rw_implicit_flush", "implicit_flush")
"""Settings by which each change waits until it is visible. RisingWave shows them as true and false."""
BOOLEANS = (
    "default_transaction_read_only", "transaction_read_only", "standard_conforming_strings", *FLUSHES,
)  # fmt: skip
LEVELS = ("serializable", "repeatable read", "read committed", "read uncommitted")
HELD = "read committed"
"""The isolation level that transactions have, whatever is asked for."""
ENCODINGS = {"utf8": "UTF8", "utf-8": "UTF8", "unicode": "UTF8", "auto": "UTF8", "sql_ascii": "SQL_ASCII"}  # fmt: skip
"""Encodings whose texts are sent as they are. libpq takes `auto`."""
FIXED = ("is_superuser", "max_identifier_length", "server_version", "server_version_num")
_WORDS = (("true", 1), ("false", 1), ("yes", 1), ("no", 1), ("on", 2), ("off", 2), ("1", 1), ("0", 1))  # fmt: skip
"""The words for truth values, and how many letters of each are enough."""
_TRUE = ("true", "yes", "on", "1")
_ISO = ("iso", "mdy", "us", "noneuropean", "noneuro")
_OTHER_STYLES = ("sql", "postgres", "german", "dmy", "ymd", "euro", "european")
_HOURS = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)")
_OFFSET = re.compile(r"<[^<>]+>(?P<west>[+-]\d.*)")


def checked(name: str, value: str) -> str:
    """A value as it is shown."""
    check = _CHECKS.get(name)
    return value if check is None else check(name, value)


def is_true(name: str, value: str) -> bool:
    """A truth value in any of the spellings that PostgreSQL takes: also the beginnings of the words."""
    word = value.strip().lower()
    for whole, least in _WORDS:
        if len(word) >= least and whole.startswith(word):
            return whole in _TRUE
    raise StateError("22023", f'parameter "{name}" requires a Boolean value')


def zone_of(name: str) -> tzinfo | None:
    """The time zone that a setting names; None if there is none of that name."""
    offset = _OFFSET.fullmatch(name)
    return find_zone(f"utc{offset['west']}" if offset else name)


def _invalid(name: str, value: str) -> StateError:
    return StateError("22023", f'invalid value for parameter "{name}": "{value}"')


def _unsupported(name: str, value: str, remedy: str) -> StateError:
    return StateError("0A000", f"{name} = '{value}' is not supported", remedy=remedy)


def _duration(name: str, value: str) -> str:
    return shown_duration(milliseconds(name, value))


def _boolean(name: str, value: str) -> str:
    found = is_true(name, value)
    if name == "standard_conforming_strings" and not found:
        raise _unsupported(name, value, "write E'…' for a text with escapes")
    if name in FLUSHES:
        return "true" if found else "false"
    return "on" if found else "off"


def _encoding(name: str, value: str) -> str:
    asked = value.strip("'\" ").lower()
    found = ENCODINGS.get(asked)
    if found is None:
        message = f"encoding {asked} is not supported"
        raise StateError("0A000", message, remedy="set client_encoding to UTF8")
    return found


def _date_style(name: str, value: str) -> str:
    words = re.split(r"[,\s]+", value.strip("'\", ").lower())
    for word in words:
        if word in _OTHER_STYLES:
            raise _unsupported(name, value, "dates are written as ISO, MDY")
        if word not in _ISO:
            raise _invalid(name, value)
    return "ISO, MDY"


def _digits(name: str, value: str) -> str:
    try:
        number = int(value)
    except ValueError:
        raise _invalid(name, value) from None
    if not -15 <= number <= 3:
        message = f'{value} is outside the valid range for parameter "{name}" (-15 .. 3)'
        raise StateError("22023", message)
    return str(number)


def _level(name: str, value: str) -> str:
    if " ".join(value.lower().split()) not in LEVELS:
        raise _invalid(name, value)
    return HELD


def _zone(name: str, value: str) -> str:
    """A name as it is spelt, or the offset of a number of hours or an interval as PostgreSQL shows it."""
    text = value.strip()
    if text.lower() == "local":
        return "UTC"
    if _HOURS.fullmatch(text):
        return _shown_offset(_bounded(float(text) * 3600, text))
    found = zone_of(text)
    if found is None:
        raise _invalid("TimeZone", value)
    return found.key if isinstance(found, ZoneInfo) else text


def offset_of(text: str) -> str:
    """SET TIME ZONE INTERVAL 'text', as it is shown."""
    try:
        span = parse_interval(text)
    except TextInputError:
        raise _invalid("TimeZone", text) from None
    if span.months or span.days:
        raise _invalid("TimeZone", text)
    return _shown_offset(_bounded(span.microseconds / 1e6, text))


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


def _fixed(name: str, value: str) -> str:
    raise StateError("55P02", f'parameter "{name}" cannot be changed')


_CHECKS: dict[str, Callable[[str, str], str]] = {
    **dict.fromkeys(DURATIONS, _duration),
    **dict.fromkeys(BOOLEANS, _boolean),
    **dict.fromkeys(FIXED, _fixed),
    "client_encoding": _encoding,
    "datestyle": _date_style,
    "default_transaction_isolation": _level,
    "extra_float_digits": _digits,
    "timezone": _zone,
    "transaction_isolation": _level,
}
