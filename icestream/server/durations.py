"""Settings that are times, as PostgreSQL reads and shows them: milliseconds, or a number with a unit."""

from __future__ import annotations

import re

from icestream.server.backend import StateError

_UNITS = {"us": 0.001, "ms": 1.0, "s": 1e3, "min": 60e3, "h": 3600e3, "d": 86400e3}
_SHOWN = ("d", "h", "min", "s")
_TIME = re.compile(
    r"\s*(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(?P<unit>[a-zA-Z]*)\s*"
)
_MOST = 2**31 - 1


def milliseconds(name: str, text: str) -> int:
    """The value of a setting; an error if it is none."""
    found = _TIME.fullmatch(text)
    if found is None or (found["unit"] or "ms") not in _UNITS:
        raise StateError(
            "22023",
            f'invalid value for parameter "{name}": "{text}"',
            remedy='Valid units for this parameter are "us", "ms", "s", "min", "h", and "d".',
        )
    value = float(found["number"]) * _UNITS[found["unit"] or "ms"]
    if not 0 <= value <= _MOST:
        raise StateError(
            "22023",
            f'{text.strip()} is outside the valid range for parameter "{name}" (0 ms .. {_MOST} ms)',
        )
    return round(value)


def shown_duration(value: int) -> str:
    """The value in the largest unit that it is a whole number of."""
    for unit in _SHOWN if value else ():
        whole, rest = divmod(value, int(_UNITS[unit]))
        if not rest:
            return f"{whole}{unit}"
    return f"{value}ms" if value else "0"
