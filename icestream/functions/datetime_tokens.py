"""A date, time or interval text → its fields, as PostgreSQL splits them."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass

from icestream.errors import SignalError
from icestream.functions.input_errors import TextInputError, syntax_error

LONGEST = 100
"""Characters of a date or an interval."""
_MONTH_NAMES = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_DAY_NAMES = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"]
KEYWORDS: dict[str, tuple[str, int | str]] = {
    **{name: ("month", at + 1) for at, name in enumerate(_MONTH_NAMES)},
    **{name[:3]: ("month", at + 1) for at, name in enumerate(_MONTH_NAMES)},
    "sept": ("month", 9),
    **{name: ("weekday", at) for at, name in enumerate(_DAY_NAMES)},
    **{name[:3]: ("weekday", at) for at, name in enumerate(_DAY_NAMES)},
    **{name: ("weekday", 0) for name in ("tues", "weds", "thur", "thurs")},
    "ad": ("era", 1), "bc": ("era", -1), "am": ("meridiem", 0), "pm": ("meridiem", 12),
    "at": ("ignore", 0), "on": ("ignore", 0), "t": ("time mark", 0),
    **{name: ("reserved", name) for name in (
        "epoch", "infinity", "-infinity", "now", "today", "tomorrow", "yesterday",
    )},
    "d": ("label", "day"), "h": ("label", "hour"), "m": ("label", "month"), "mm": ("label", "minute"),
    "s": ("label", "second"), "y": ("label", "year"), "j": ("label", "julian"), "jd": ("label", "julian"),
    "julian": ("label", "julian"), "dow": ("label", "other"), "doy": ("label", "other"),
    "isodow": ("label", "other"), "isoyear": ("label", "other"),
}  # fmt: skip
"""Words in dates and times: what they are, and their value."""

_TOKEN = re.compile(
    r"""(?P<time>\d+:[\d:.]*)
    |(?P<date>\d+-\d+-[\d-]*|\d+/\d+/[\d/]*|\d+\.\d+\.[\d.]*|\d+[-/]\d+
        |\d+-(?!\d)[a-z\d-]*|\d+/(?!\d)[a-z\d/]*|\d+\.(?!\d)[a-z\d.]*)
    |(?P<number>\d+\.\d+|\d+|\.\d*)
    |(?P<word>[a-z]+)
    |(?P<signed>[+-][ \t\n\v\f\r]*\d[\d:.-]*)
    |(?P<special>[+-][ \t\n\v\f\r]*[a-z]+)
    |(?P<blank>[ \t\n\v\f\r]+)""",
    re.ASCII | re.VERBOSE,
)
_LONG_NAME = re.compile(r"[a-z]+[+\-/_.:a-z\d]+", re.ASCII)
_BLANKS = re.compile(r"[ \t\n\v\f\r]+")
_WHOLE = re.compile(r"[ \t\n\v\f\r]*[+-]?\d+", re.ASCII)


class FieldError(SignalError):
    """A field that cannot be read: `kind` is format, field, date, zone or interval."""

    def __init__(self, kind: str = "format") -> None:
        super().__init__(kind)
        self.kind = kind


@dataclass(frozen=True)
class Token:
    """One field. Kinds: date, time, number, zone (a sign and digits), word."""

    kind: str
    text: str


def split_fields(text: str) -> list[Token]:
    """The fields of a text. A text of more than a hundred characters is no date and no interval."""
    if len(text.strip()) > LONGEST:
        raise FieldError
    source = re.sub("[A-Z]", lambda m: m[0].lower(), text)
    tokens: list[Token] = []
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            if source[at] not in string.punctuation or source[at] in "+-":
                raise FieldError
            at += 1
            continue
        kind, found = str(match.lastgroup), match[0]
        after = source[match.end() : match.end() + 1]
        if kind == "word" and (
            after in ("-", "/", ".")
            or ((after == "+" or re.match(r"\d", after, re.ASCII)) and found not in KEYWORDS)
        ):
            long = _LONG_NAME.match(source, at)
            assert long is not None
            kind, found = "date", long[0]
        at += len(found)
        if kind != "blank":
            kind = {"signed": "zone", "special": "word"}.get(kind, kind)
            tokens.append(Token(kind, _BLANKS.sub("", found)))
    return tokens


def read_whole(text: str, at: int = 0) -> tuple[int, int]:
    """The whole number at a position and where it ends; 0 if there is none. It must fit in 32 bits."""
    match = _WHOLE.match(text, at)
    if match is None:
        return 0, at
    value = int(match[0]) if len(match[0]) < 400 else 2**31
    if not -(2**31) <= value < 2**31:
        raise FieldError("field")
    return value, match.end()


def read_fraction(text: str) -> float:
    """The fraction of .25; a point alone is 0."""
    if not re.fullmatch(r"\.\d*", text, re.ASCII):
        raise FieldError
    return float("0" + text) if len(text) > 1 else 0.0


def round_micros(fraction: float) -> int:
    """Microseconds of a fraction of a second, a half to the even one, as PostgreSQL computes in doubles."""
    return round(fraction * 1_000_000)


def read_clock(text: str) -> tuple[int, int, int, int]:
    """Hours, minutes, seconds and microseconds of HH:MM[:SS[.f]], or of MM:SS.f"""
    hour, at = read_whole(text)
    if text[at : at + 1] != ":":
        raise FieldError
    minute, at = read_whole(text, at + 1)
    second = fraction = 0
    if text[at : at + 1] == ".":
        fraction = round_micros(read_fraction(text[at:]))
        hour, minute, second = 0, hour, minute
    elif at < len(text):
        if text[at] != ":":
            raise FieldError
        second, at = read_whole(text, at + 1)
        if at < len(text):
            fraction = round_micros(read_fraction(text[at:]))
    if not (hour >= 0 and 0 <= minute <= 59 and 0 <= second <= 60):
        raise FieldError("field")
    return hour, minute, second, fraction


def read_offset(text: str) -> int:
    """Seconds east of UTC of +02, +0200, +02:00 or +02:00:00"""
    if not text or text[0] not in "+-":
        raise FieldError
    try:
        hours, at = read_whole(text, 1)
        minutes = seconds = 0
        if text[at : at + 1] == ":":
            minutes, at = read_whole(text, at + 1)
            if text[at : at + 1] == ":":
                seconds, at = read_whole(text, at + 1)
        elif at == len(text) and at > 3:
            hours, minutes = divmod(hours, 100)
    except FieldError as error:
        raise FieldError("zone" if error.kind == "field" else error.kind) from None
    if not (0 <= hours <= 15 and 0 <= minutes <= 59 and 0 <= seconds <= 59):
        raise FieldError("zone")
    if at < len(text):
        raise FieldError
    total = (hours * 60 + minutes) * 60 + seconds
    return -total if text[0] == "-" else total


def to_error(error: FieldError, type_name: str, text: str) -> TextInputError:
    """PostgreSQL's error for a field."""
    match error.kind:
        case "field":
            return TextInputError("22008", f'date/time field value out of range: "{text}"')
        case "date":
            return TextInputError(
                "22008",
                f'date/time field value out of range: "{text}"',
                "write dates as YYYY-MM-DD; 1/2/2026 is month/day/year",
            )
        case "zone":
            return TextInputError("22009", f'time zone displacement out of range: "{text}"')
        case "interval":
            return TextInputError("22015", f'interval field value out of range: "{text}"')
    return syntax_error(type_name, text, "22007")
