"""Dates, times and intervals as PostgreSQL writes them: ISO text, microseconds since 2000.

A time may also be a number of microseconds since midnight, and an interval a timedelta, a struct or a tuple
(months, days, microseconds): what Spark, Arrow and DuckDB give for them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any

from icestream.functions.expressions import Interval, clock
from icestream.functions.literals import interval

_DAY = 86_400_000_000
_EPOCH = datetime(2000, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()
_MICROSECOND = timedelta(microseconds=1)
_ISO = re.compile(r"\s*\d{4}-\d\d-\d\d(?:[ T]\d\d:.*)?\s*", re.ASCII)


def date_text(value: date) -> str:
    """2026-11-16"""
    return f"{value:%Y-%m-%d}".zfill(10)


def date_binary(value: date) -> bytes:
    """Days since 2000."""
    return struct.pack("!i", value.toordinal() - _EPOCH_DAY)


def date_from_text(text: str) -> date:
    """The day of an ISO date or timestamp."""
    return _iso(text).date()


def date_from_binary(data: bytes) -> date:
    """The day of a number of days since 2000."""
    return date.fromordinal(_number("!i", data) + _EPOCH_DAY)


def time_text(value: time | int) -> str:
    """13:04:05.678"""
    return clock(_micros(value))


def time_binary(value: time | int) -> bytes:
    """Microseconds since midnight."""
    return struct.pack("!q", _micros(value))


def time_from_text(text: str) -> time:
    """The time of an ISO time."""
    return time.fromisoformat(text.strip()).replace(tzinfo=None)


def time_from_binary(data: bytes) -> time:
    """The time of a number of microseconds since midnight."""
    return (_EPOCH + _in_a_day(_number("!q", data)) * _MICROSECOND).time()


def timestamp_text(value: datetime) -> str:
    """2026-11-16 13:04:05.678"""
    text = _naive(value).isoformat(" ")
    return text.rstrip("0") if value.microsecond else text


def timestamp_binary(value: datetime) -> bytes:
    """Microseconds since 2000."""
    return struct.pack("!q", (_naive(value) - _EPOCH) // _MICROSECOND)


def timestamp_from_text(text: str) -> datetime:
    """The timestamp of an ISO text; a zone in it is left out, as PostgreSQL does."""
    return _iso(text).replace(tzinfo=None)


def timestamp_from_binary(data: bytes) -> datetime:
    """The timestamp of a number of microseconds since 2000."""
    return _EPOCH + _number("!q", data) * _MICROSECOND


def timestamptz_text(value: datetime, zone: tzinfo) -> str:
    """2026-11-16 13:04:05.678+00, in the time zone of the session."""
    instant = _aware(value, UTC)
    try:
        local = instant.astimezone(zone)
    except OverflowError:  # the first or the last hours there are
        local = instant
    offset = local.isoformat()[len(local.replace(tzinfo=None).isoformat()) :]
    return timestamp_text(local) + offset.removesuffix(":00")


def timestamptz_binary(value: datetime) -> bytes:
    """Microseconds since 2000 in UTC."""
    return timestamp_binary(_aware(value, UTC).astimezone(UTC))


def timestamptz_from_text(text: str, zone: tzinfo) -> datetime:
    """The instant of an ISO text; without a zone in it, in that of the session."""
    return _aware(_iso(text), zone).astimezone(UTC)


def timestamptz_from_binary(data: bytes) -> datetime:
    """The instant of a number of microseconds since 2000 in UTC."""
    return timestamp_from_binary(data).replace(tzinfo=UTC)


def interval_text(value: Any) -> str:
    """1 year 2 mons -3 days +04:05:06"""
    return str(Interval(*_parts(value)))


def interval_binary(value: Any) -> bytes:
    """Microseconds, days and months."""
    return struct.pack("!qii", *reversed(_parts(value)))


def interval_from_text(text: str) -> Interval:
    """The interval of a text in one of PostgreSQL's forms."""
    found = interval(text)
    if found is None:
        raise ValueError
    return found


def interval_from_binary(data: bytes) -> Interval:
    """The interval of microseconds, days and months."""
    micros, days, months = struct.unpack("!qii", data)
    return Interval(months, days, micros)


def _parts(value: Any) -> tuple[int, int, int]:
    match value:
        case Interval(months=months, days=days, microseconds=micros):
            return months, days, micros
        case timedelta():
            return 0, value.days, value.seconds * 1_000_000 + value.microseconds
        case Mapping():
            return value["months"], value["days"], value["microseconds"]
        case (months, days, micros):
            return months, days, micros
    raise TypeError(f"{type(value).__name__} is not an interval")


def _number(form: str, data: bytes) -> int:
    return int(struct.unpack(form, data)[0])


def _micros(value: time | int) -> int:
    if isinstance(value, int):
        return _in_a_day(value)
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1_000_000 + value.microsecond


def _in_a_day(micros: int) -> int:
    if not 0 <= micros < _DAY:
        raise OverflowError
    return micros


def _naive(value: datetime) -> datetime:
    return value.replace(tzinfo=None) if value.tzinfo else value


def _aware(value: datetime, zone: tzinfo) -> datetime:
    return value if value.tzinfo else value.replace(tzinfo=zone)


def _iso(text: str) -> datetime:
    if not _ISO.fullmatch(text):
        raise ValueError
    return datetime.fromisoformat(text.strip())
