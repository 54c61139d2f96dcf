"""Where text input differs from PostgreSQL on purpose, each class with its reason.

`CONSTANTS` are texts whose constants are refused, or refused with another SQLSTATE. `COLUMNS` are the forms that casts of
columns know: PostgreSQL's value of any other text may be NULL there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

_MOMENTS = "date|time|timestamp|timestamptz"


@dataclass(frozen=True)
class Deviation:
    """Types, texts (patterns) and the SQLSTATE that the engine has instead, with the reason."""

    kinds: str
    text: str
    code: str
    reason: str


CONSTANTS = (
    Deviation(_MOMENTS, r"(?is).*\b(now|today|tomorrow|yesterday)\b.*", "22007", "a stored view would freeze them"),
    Deviation("time", r"(?is).*\d[dmy]\d.*", "22007", "a part of a date beside a time"),
    Deviation(_MOMENTS, r"(?is).*dst.*", "22007|22008|22009", "MET DST is CEST"),
    Deviation(_MOMENTS, r"(?is).*(epoch|infinity|now|today).*", "22007|22008", "such a word stands alone"),
    Deviation(_MOMENTS, r"(?is).*\b(?!est|pst|pdt|cest|met|utc)[a-z]{3,5}\b.*", "22007|22023", "abbreviations of zones that are not in wide use"),
    Deviation(_MOMENTS, r"(?is).*infinity.*", "22008", "Iceberg has no infinite dates"),
    Deviation("timestamp|timestamptz", r"(?s).*\d{6}.*", "22008", "microseconds since 1970 end in January 294247"),
    Deviation(_MOMENTS, r"(?s).*[A-Za-z].*\d.*", "22023", "POSIX zones: only letters and an offset, no daylight-saving part"),
    Deviation(_MOMENTS, r"(?s).*[A-Za-z][+-]?\d\d?:[6-9].*", "22007|22008", "the same: minutes up to 59"),
    Deviation("numeric.*", r"(?is)\s*([+-]?inf(inity)?|nan)\s*", "22003", "decimals have no NaN and no infinity"),
    Deviation("numeric", r"(?s).*[0-9].*", "22003", "numeric has 28 digits before the point"),
    Deviation(r".*\[\]", r"\s*(\[[+-]?\d+(:[+-]?\d+)?\])+=.*", "0A000", "arrays begin at 1"),
    Deviation(r".*\[\]", r"(?s).*\{.*\{.*", "22P02", "a nested array has another type: integer[][]"),
)  # fmt: skip


def is_constant_deviation(kind: str, text: str, code: str | None, value: str | None) -> bool:
    """Whether a constant may have this SQLSTATE instead of PostgreSQL's answer."""
    return any(
        re.fullmatch(d.kinds, kind)
        and re.fullmatch(d.text, text)
        and re.fullmatch(d.code, code or "")
        for d in CONSTANTS
    )


_CLOCK = r"\d\d?:\d\d?(:\d\d?(\.\d+)?)?"
_AFTER = rf"{_CLOCK}( ?[AaPp][Mm]|( ?Z| ?UTC| ?[+-]\d\d(:?\d\d)?)?)"
_DATE = r"(\d{4,6}-\d\d?-\d\d?|\d{4}/\d\d?/\d\d?|\d{8}|\d\d?/\d\d?/\d{4})"
_MOMENT = rf"\s*({_DATE}([ T]{_AFTER})?|\d{{8}}T\d{{6}})( BC)?\s*"
_NUMBER = r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?\s*"
_UNITS = (
    "microseconds|ms|msecs?|milliseconds|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?"
    "|mons?|months?|y|yrs?|years?|decades?|century|centuries|millennium|millennia"
)
_AMOUNT = r"([+-]?\d{1,9}(\.\d+)?|\.\d+)"
_PAIR = rf"{_AMOUNT} ?({_UNITS})"
_SPAN = (
    rf"(@ )?{_PAIR}( {_PAIR})*( [+-]?{_CLOCK})?( ago)?|[+-]?\d+-\d+( [+-]?\d+)?( [+-]?{_CLOCK})?"
    rf"|[+-]?\d+( [+-]?{_CLOCK})|[+-]?{_CLOCK}|P(?!T?$)(\d+Y)?(\d+M)?(\d+W)?(\d+D)?(T(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?"
)
COLUMNS = {
    "date": _MOMENT, "timestamp": _MOMENT, "timestamptz": _MOMENT, "time": rf"\s*{_AFTER}\s*",
    "interval": _SPAN, "numeric": _NUMBER, "numeric(5,2)": _NUMBER,
    "real": rf"{_NUMBER}|\s*([+-]?inf(inity)?|nan)\s*", "double precision": rf"{_NUMBER}|\s*([+-]?inf(inity)?|nan)\s*",
}  # fmt: skip
"""The forms that casts of columns know. Every form is known of the types that are not listed."""
_LAST: dict[str, Callable[[str], bool]] = {
    "numeric": lambda value: abs(Decimal(value)) >= Decimal(10) ** 28,
    "timestamp": lambda value: value >= "294247" and value[6:7] == "-",
    "timestamptz": lambda value: value >= "294247" and value[6:7] == "-",
    "interval": lambda value: False,
}
"""Values that the engine has no room for."""


def is_unsupported_column(kind: str, text: str, value: str) -> bool:
    """Whether a column may be NULL for a text that PostgreSQL reads as `value`."""
    if kind == "jsonb":  # numbers beyond a double, the same key twice
        return (
            bool(re.search(r"[eE]\+?0*[1-9]\d\d|\d{309}", text))
            or len(re.findall('"a"|u0061', text)) > 1
        )
    if kind not in COLUMNS:
        return False
    if not re.fullmatch(COLUMNS[kind], text, re.I if kind in ("real", "double precision") else 0):
        return True
    return kind in _LAST and _LAST[kind](value)


def is_rounded_column(kind: str, text: str, got: object, value: str | None) -> bool:
    """Whether a document of a column has a number that is a double there: more than 38 digits, or an exponent."""
    if kind != "jsonb" or value is None or not re.search(r"[\d.]{38}|\d[eE]", text):
        return False
    return math.isclose(float(str(got)), float(value), rel_tol=1e-15)
