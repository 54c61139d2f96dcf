"""Dates and timestamps in years that Python does not have: before year 1, after 9999. Others are Python's own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from icestream.functions.datetime_decoder import DAY, civil_of

_FIRST = date.min.toordinal() - date(1970, 1, 1).toordinal()
_LAST = date.max.toordinal() - date(1970, 1, 1).toordinal()


@dataclass(frozen=True, order=True)
class FarDate:
    """A day, as a number of days since 1970."""

    days: int

    def __str__(self) -> str:
        """2020-08-11 BC, 12345-01-01"""
        day, era = _written(self.days)
        return day + era


@dataclass(frozen=True, order=True)
class FarTimestamp:
    """A timestamp, as microseconds since 1970; an instant in UTC if it is `zoned`."""

    micros: int
    zoned: bool = False

    def __str__(self) -> str:
        """2020-08-11 12:00:00 BC, 12345-01-01 00:00:00+00"""
        days, rest = divmod(self.micros, DAY)
        day, era = _written(days)
        clock = (datetime.min + timedelta(microseconds=rest)).time().isoformat()
        clock = clock.rstrip("0") if "." in clock else clock
        return f"{day} {clock}{'+00' if self.zoned else ''}{era}"


def date_of(days: int) -> date | FarDate:
    """The day that is so many days after 1970-01-01."""
    if _FIRST <= days <= _LAST:
        return date.min + timedelta(days=days - _FIRST)
    return FarDate(days)


def timestamp_of(micros: int, zoned: bool) -> datetime | FarTimestamp:
    """The timestamp that is so many microseconds after 1970."""
    if not _FIRST <= micros // DAY <= _LAST:
        return FarTimestamp(micros, zoned)
    found = datetime.min + timedelta(microseconds=micros - _FIRST * DAY)
    return found.replace(tzinfo=UTC) if zoned else found


def _written(days: int) -> tuple[str, str]:
    """A day, and what PostgreSQL writes behind it. Before year 1 comes 1 BC."""
    year, month, day = civil_of(days)
    shown = year if year > 0 else 1 - year
    return f"{shown:04d}-{month:02d}-{day:02d}", "" if year > 0 else " BC"
