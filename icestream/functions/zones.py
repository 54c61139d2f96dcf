"""Time zones in text input: abbreviations, POSIX forms and names → the offset from UTC in seconds."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

_HOURS: dict[str, float] = {
    "z": 0, "zulu": 0, "ut": 0, "utc": 0, "gmt": 0, "wet": 0, "west": 1, "bst": 1, "cet": 1, "met": 1, "cest": 2, "mest": 2,
    "eet": 2, "sast": 2, "eest": 3, "eat": 3, "pkt": 5, "hkt": 8, "awst": 8, "jst": 9, "kst": 9, "acst": 9.5, "acdt": 10.5,
    "aest": 10, "aedt": 11, "nzst": 12, "nzdt": 13, "nst": -3.5, "ndt": -2.5, "ast": -4, "adt": -3, "est": -5, "edt": -4,
    "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7, "akst": -9, "akdt": -8, "hst": -10,
}  # fmt: skip
ABBREVIATIONS = {name: int(hours * 3600) for name, hours in _HOURS.items()}
"""Widely used abbreviations → seconds east of UTC. Others are refused: many have more than one meaning."""
_POSIX = re.compile(r"[a-z]+([+-]?)(\d{1,2})(?::([0-5]?\d))?(?::([0-5]?\d))?", re.ASCII)


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    return {name.lower(): name for name in available_timezones()}


def find_zone(name: str) -> tzinfo | None:
    """The zone of a name in any case, or of a POSIX form such as utc+3 (which is west of Greenwich)."""
    if known := _names().get(name.lower()):
        return ZoneInfo(known)
    if match := _POSIX.fullmatch(name.lower()):
        sign, hours, minutes, seconds = match.groups()
        west = timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0)) * (
            -1 if sign == "-" else 1
        )
        return timezone(-west) if abs(west) < timedelta(days=1) else None
    return None


def is_fixed(zone: tzinfo) -> bool:
    """Whether the zone always has the same offset."""
    if isinstance(zone, timezone):
        return True
    samples = [
        datetime(year, month, 1)
        for year in (1800, 1900, 1950, 1980, 2000, 2030)
        for month in (1, 7)
    ]
    return len({zone.utcoffset(at) for at in samples}) == 1


def offset_at(zone: tzinfo, year: int, month: int, day: int, seconds: int) -> int:
    """The offset in seconds at a local time. Of two possible offsets the smaller one, as in PostgreSQL."""
    near = (
        min(max(year, 2), 9998)
        if year < 9999
        else 9600 + year % 400 - (400 if year % 400 > 398 else 0)
    )
    if (month, day) == (2, 29) and (near % 4 or (near % 100 == 0 and near % 400)):
        day = 28
    local = datetime(near, month, day) + timedelta(seconds=seconds)
    offsets = (zone.utcoffset(local.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
    return min(int((offset or timedelta()).total_seconds()) for offset in offsets)
