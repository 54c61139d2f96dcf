"""Texts of dates, times and timestamps → values, as PostgreSQL reads them with DateStyle ISO, MDY.

A date is an ISO text with a year of at least four digits, negative before year 1 (0000 is 1 BC), as Spark's literals
have it; a timestamp has a time after it; a time is a number of microseconds since midnight.
"""

from __future__ import annotations

import re
from datetime import datetime, tzinfo

from icestream.functions.datetime_decoder import (
    CLOCK_WORDS,
    DAY,
    FIRST_DAY,
    Decoder,
    civil_of,
    count_days,
)
from icestream.functions.datetime_tokens import FieldError, split_fields, to_error
from icestream.functions.input_errors import TextInputError

_LAST_DAY = 2_145_042_905
"""5874897-12-31, as days since 1970."""
_LAST_MICRO = 2**63 - 1
_FORMS = re.compile(r"(-?\d{4,})-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:\.(\d{6}))?)?")
_ISO = re.compile(r"(\d{4})-(\d\d?)-(\d\d?)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?", re.ASCII)
_DATE_LENGTH = len("2000-01-01")
_STORED = re.compile(r"\d{4}-\d\d-\d\d")


def parse_date(text: str) -> str:
    """The day of a text."""
    if (plain := _plain(text)) and len(plain) == _DATE_LENGTH:
        return plain
    decoder = _decode(text, "date")
    days = 0 if decoder.special else decoder.days()
    if not FIRST_DAY <= days <= _LAST_DAY:
        raise TextInputError("22008", f'date out of range: "{text}"')
    return date_text(days)


def parse_timestamp(text: str, zone: str | tzinfo | None = None) -> str:
    """The timestamp of a text. With `zone` it is an instant, in UTC, and `zone` that of texts without one."""
    if (zone is None or zone == "UTC") and (plain := _plain(text)):
        return plain if len(plain) > _DATE_LENGTH else f"{plain} 00:00:00"
    name = "timestamp" if zone is None else "timestamp with time zone"
    decoder = _decode(text, name)
    if decoder.special:
        return timestamp_text(0)
    micros = decoder.days() * DAY + decoder.micros()
    if zone is not None:
        micros -= decoder.offset_from(zone) * 1_000_000
    if not FIRST_DAY * DAY <= micros <= _LAST_MICRO:
        raise TextInputError("22008", f'timestamp out of range: "{text}"')
    return timestamp_text(micros)


def _plain(text: str) -> str | None:
    """What a text in the form of ISO 8601 says, in full; None for all others and for what is no moment.

    Most texts are of that form, lists may have 100,000 of them, and a decoder of every form takes ten times as long.
    """
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction = match.groups("0")
    try:
        moment = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second))
    except ValueError:
        return None
    if match[4] is None:
        return moment.isoformat()[:_DATE_LENGTH]
    fraction = fraction.ljust(6, "0")
    return moment.isoformat(" ") + (f".{fraction}" if fraction != "000000" else "")


def parse_time(text: str) -> int:
    """The microseconds since midnight of a text; 24:00:00 is the end of the day. A zone is left out."""
    return _decode(text, "time", time_only=True).micros()


def date_text(days: int) -> str:
    """Days since 1970 as an ISO date."""
    year, month, day = civil_of(days)
    return f"{'-' * (year < 0)}{abs(year):04d}-{month:02d}-{day:02d}"


def timestamp_text(micros: int) -> str:
    """Microseconds since 1970 as an ISO timestamp."""
    days, rest = divmod(micros, DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{date_text(days)} {clock}" + (f".{fraction:06d}" if fraction else "")


def is_common(value: str) -> bool:
    """Whether the year of a date or timestamp is one that Python and DuckDB have: 1 to 9999."""
    return bool(_STORED.match(value)) and not value.startswith("0000")


def days_of(value: str) -> int:
    """Days since 1970 of a date as `date_text` writes it."""
    year, month, day = _parts(value)[:3]
    return count_days(year, month, day)


def micros_of(value: str) -> int:
    """Microseconds since 1970 of a timestamp as `timestamp_text` writes it."""
    year, month, day, hour, minute, second, fraction = _parts(value)
    seconds = (hour * 60 + minute) * 60 + second
    return count_days(year, month, day) * DAY + seconds * 1_000_000 + fraction


def _parts(value: str) -> list[int]:
    match = _FORMS.fullmatch(value)
    assert match is not None, value
    return [int(part or 0) for part in match.groups()]


def _decode(text: str, type_name: str, time_only: bool = False) -> Decoder:
    try:
        decoder = Decoder(split_fields(text), time_only)
        decoder.decode()
    except FieldError as error:
        raise to_error(error, type_name, text) from None
    if decoder.special in CLOCK_WORDS:
        raise TextInputError(
            "22007",
            f'the constant "{text}" of type {type_name} would be evaluated once and never change',
            f"use {'localtime' if time_only else CLOCK_WORDS[decoder.special]}",
        )
    if decoder.special.endswith("infinity"):
        message = f'{type_name} out of range: "{text}", infinite values cannot be stored'
        raise TextInputError("22008", message, "use NULL, or a date far away such as 9999-12-31")
    return decoder
