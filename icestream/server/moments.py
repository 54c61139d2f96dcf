"""Dates, times and intervals as PostgreSQL writes them: ISO text, microseconds since 2000.

A time may also be a number of microseconds since midnight, and an interval a timedelta, a struct or a tuple
(months, days, microseconds): what Spark, Arrow and DuckDB give for them. Years that Python does not have are `far_dates`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any

from icestream.functions.datetime_input import (
    days_of,
    micros_of,
    parse_date,
    parse_time,
    parse_timestamp,
)
from icestream.functions.expressions import Interval, clock
from icestream.functions.far_dates import FarDate, FarTimestamp, date_of, timestamp_of
from icestream.functions.input_errors import TextInputError
from icestream.functions.interval_input import parse_interval

_DAY = 86_400_000_000
_EPOCH = datetime(2000, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()
_SINCE_1970 = 10_957
"""Days between 1970 and 2000."""
_MICROSECOND = timedelta(microseconds=1)


def date_text(value: date | FarDate) -> str:
    """2026-11-16"""
    if isinstance(value, FarDate):
        return str(value)
    return f"{value:%Y-%m-%d}".zfill(10)


def date_binary(value: date | FarDate) -> bytes:
    """Days since 2000."""
    if isinstance(value, FarDate):
        return struct.pack("!i", value.days - _SINCE_1970)
    return struct.pack("!i", value.toordinal() - _EPOCH_DAY)


def date_from_text(text: str) -> date | FarDate:
    """The day of a text as PostgreSQL reads it."""
    return date_of(days_of(parse_date(text)))


def date_from_binary(data: bytes) -> date | FarDate:
    """The day of a number of days since 2000."""
    return date_of(_number("!i", data) + _SINCE_1970)


def time_text(value: time | int) -> str:
    """13:04:05.678"""
    return clock(_micros(value))


def time_binary(value: time | int) -> bytes:
    """Microseconds since midnight."""
    return struct.pack("!q", _micros(value))


def time_from_text(text: str) -> time:
    """The time of a text as PostgreSQL reads it."""
    micros = parse_time(text)
    if micros == _DAY:
        raise TextInputError("22008", f'time out of range as a parameter: "{text}"')
    return (_EPOCH + micros * _MICROSECOND).time()


def time_from_binary(data: bytes) -> time:
    """The time of a number of microseconds since midnight."""
    return (_EPOCH + _in_a_day(_number("!q", data)) * _MICROSECOND).time()


def timestamp_text(value: datetime | FarTimestamp) -> str:
    """2026-11-16 13:04:05.678"""
    if isinstance(value, FarTimestamp):
        return str(value)
    text = _naive(value).isoformat(" ")
    return text.rstrip("0") if value.microsecond else text


def timestamp_binary(value: datetime | FarTimestamp) -> bytes:
    """Microseconds since 2000."""
    if isinstance(value, FarTimestamp):
        return struct.pack("!q", value.micros - _SINCE_1970 * _DAY)
    return struct.pack("!q", (_naive(value) - _EPOCH) // _MICROSECOND)


def timestamp_from_text(text: str) -> datetime | FarTimestamp:
    """The timestamp of a text; a zone in it is left out, as PostgreSQL does."""
    return timestamp_of(micros_of(parse_timestamp(text)), zoned=False)


def timestamp_from_binary(data: bytes) -> datetime | FarTimestamp:
    """The timestamp of a number of microseconds since 2000."""
    return timestamp_of(_number("!q", data) + _SINCE_1970 * _DAY, zoned=False)


def timestamptz_text(value: datetime | FarTimestamp, zone: tzinfo) -> str:
    """2026-11-16 13:04:05.678+00, in the time zone of the session; in UTC in years that Python does not have."""
    if isinstance(value, FarTimestamp):
        return str(value)
    instant = _aware(value, UTC)
    try:
        local = instant.astimezone(zone)
    except OverflowError:  # the first or the last hours there are
        local = instant
    offset = local.isoformat()[len(local.replace(tzinfo=None).isoformat()) :]
    return timestamp_text(local) + offset.removesuffix(":00")


def timestamptz_binary(value: datetime | FarTimestamp) -> bytes:
    """Microseconds since 2000 in UTC."""
    if isinstance(value, FarTimestamp):
        return timestamp_binary(value)
    return timestamp_binary(_aware(value, UTC).astimezone(UTC))


def timestamptz_from_text(text: str, zone: tzinfo) -> datetime | FarTimestamp:
    """The instant of a text; without a zone in it, in that of the session."""
    return timestamp_of(micros_of(parse_timestamp(text, zone)), zoned=True)


def timestamptz_from_binary(data: bytes) -> datetime | FarTimestamp:
    """The instant of a number of microseconds since 2000 in UTC."""
    return timestamp_of(_number("!q", data) + _SINCE_1970 * _DAY, zoned=True)


def interval_text(value: Any) -> str:
    """1 year 2 mons -3 days +04:05:06"""
    return str(Interval(*_parts(value)))


def interval_binary(value: Any) -> bytes:
    """Microseconds, days and months."""
    return struct.pack("!qii", *reversed(_parts(value)))


def interval_from_text(text: str) -> Interval:
    """The interval of a text in one of PostgreSQL's forms."""
    return parse_interval(text)


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
        return value if value == _DAY else _in_a_day(value)  # 24:00:00 is a time
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
