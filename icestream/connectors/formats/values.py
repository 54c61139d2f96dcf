"""JSON values → values of our types, one at a time: the definition of what is accepted.

The vectorised path gives the same results wherever it applies; this one decides everything else.
Numbers arrive as int or Decimal, so none loses precision on the way.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

from icestream import types as t

Convert = Callable[[Any], Any]

_INTEGERS = {t.SMALLINT: 15, t.INTEGER: 31, t.BIGINT: 63}
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)

GUESS = "guess_number_unit"
NUMBERS: Mapping[str, int | None] = {
    GUESS: None, "micro": 1, "milli": 1000, "utc_string": 0, "utc_without_suffix": 0,
}  # fmt: skip
"""What a number is for a timestamptz: so many microseconds; None: its size tells, 0: not accepted."""

MAX_DEPTH = 200
"""How deeply a record may be nested."""
MAX_DIGITS = 4300
"""How many digits an integer may have: Python's own limit."""
MICROSECONDS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""The years 1 to 9999."""

_WHOLE = re.compile(r"[+-]?[0-9]+")
# Possessive: each pattern reads a text once, however long and however malformed it is.
_DECIMAL = re.compile(
    r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?(?:0*+[1-9][0-9]{0,8}|0++))?"
)
_LONG_FRACTION = re.compile(r"[.,]([0-9]{7,})")
_SIGN = re.compile(r"[+-]")
_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


def parse(text: str) -> Any:
    """A JSON text as Python values: integers as int, all other numbers (-0 too) as Decimal; ValueError if it is none."""
    if len(text) > MAX_DEPTH and text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(text)
    return json.loads(text, parse_int=_integer, parse_float=_fraction, parse_constant=_constant)


def _check_depth(text: str) -> None:
    depth = 0
    for token in _BRACKETS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth > MAX_DEPTH:
            raise ValueError("invalid JSON: nested too deeply")


def _integer(text: str) -> int | Decimal:
    if text == "-0":
        return _MINUS_ZERO  # a double has one
    if len(text) > MAX_DIGITS:
        raise ValueError(f"invalid JSON: a number of more than {MAX_DIGITS} digits")
    return int(text)


def _fraction(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"invalid JSON: {text[:40]} is out of range") from None


def _constant(name: str) -> Any:
    raise ValueError(f"invalid JSON: {name} is not a number")


def converter(type: t.Type, numbers: str = GUESS) -> Convert:
    """A function that turns one JSON value (not None) into a value of that type, or raises ValueError.

    `numbers` says what a number means for a timestamptz: a key of NUMBERS.
    """
    match type:
        case t.NumericType():
            return lambda v: to_numeric(v, type)
        case t.ArrayType(element=element):
            return array(converter(element, numbers))
        case t.StructType(fields=fields):
            return struct([(f.name, converter(f.type, numbers)) for f in fields])
        case t.MapType(key=key, value=value):
            return mapping(converter(key, numbers), converter(value, numbers))
        case t.SMALLINT | t.INTEGER | t.BIGINT:
            return lambda v: to_integer(v, type)
        case t.TIMESTAMPTZ:
            return lambda v: _instant(v, type, NUMBERS[numbers])
    return _SCALARS[type]


def to_integer(value: Any, type: t.Type) -> int:
    """An integer in the type's range; text that spells one is accepted."""
    number = value
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()) and len(value) <= MAX_DIGITS:
        number = int(value)
    if isinstance(value, Decimal) and value == value.to_integral_value():
        number = int(value) if value.adjusted() < 20 else 1 << 64
    if isinstance(number, bool) or not isinstance(number, int):
        raise ValueError(f"{show(value)} is not a valid {type}")
    bits = _INTEGERS[type]
    if not -(1 << bits) <= number < (1 << bits):
        raise ValueError(f"{show(value)} is out of range for {type}")
    return number


def to_numeric(value: Any, type: t.NumericType) -> Decimal:
    """A decimal of the type's precision; digits beyond its scale are rounded half up, as PostgreSQL does."""
    number = _decimal(value, type)
    try:
        rounded = number.quantize(Decimal(1).scaleb(-type.scale), ROUND_HALF_UP, _CONTEXT)
    except InvalidOperation:
        raise ValueError(f"{show(value)} is out of range for {type}") from None
    if rounded.adjusted() >= type.precision - type.scale and rounded:
        raise ValueError(f"{show(value)} is out of range for {type}")
    return rounded


def is_number(text: str) -> bool:
    """Whether a text spells a decimal number."""
    return _DECIMAL.fullmatch(text.strip()) is not None


def _decimal(value: Any, type: t.Type) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise ValueError(f"{show(value)} is not a valid {type}")
    if isinstance(value, str) and not is_number(value):
        raise ValueError(f"{show(value)} is not a valid {type}")
    return Decimal(value.strip() if isinstance(value, str) else value)


def _double(value: Any) -> float:
    if isinstance(value, str) and value.strip().lower() in ("nan", "infinity", "-infinity"):
        return float(value)
    number = float(_decimal(value, t.DOUBLE))
    if math.isinf(number):
        raise ValueError(f"{show(value)} is out of range for double precision")
    return number


def _real(value: Any) -> float:
    number = _double(value)
    if math.isfinite(number) and abs(number) >= 3.4028235677973366e38:
        raise ValueError(f"{show(value)} is out of range for real")
    return number


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError(f"{show(value)} is not a valid boolean")


def _varchar(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | Decimal):
        return str(value)
    raise ValueError(f"{show(value)} is not a valid varchar")


def _bytea(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError(f"{show(value)} is not a valid bytea")
    if value.startswith("\\x"):
        try:
            return bytes.fromhex(value[2:])
        except ValueError:
            raise ValueError(f"{show(value)} is not a valid bytea") from None
    return value.encode()


def _date(value: Any) -> dt.date:
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return dt.date(1970, 1, 1) + dt.timedelta(days=value)
        except OverflowError:
            raise ValueError(f"{value} is out of range for date") from None
    if isinstance(value, str):
        try:
            return dt.date.fromisoformat(value.strip())
        except ValueError:
            pass
    raise ValueError(f"{show(value)} is not a valid date")


def _time(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 86_400_000_000:
        return value
    if isinstance(value, str):
        try:
            text, rounded = _split_fraction(value.strip(), 0)
            at = dt.time.fromisoformat(text)
            seconds = (at.hour * 60 + at.minute) * 60 + at.second
            return seconds * 1_000_000 + at.microsecond + rounded
        except ValueError:
            pass
    raise ValueError(f"{show(value)} is not a valid time")


def _timestamp(value: Any) -> int:
    return _instant(value, t.TIMESTAMP)


def _instant(value: Any, type: t.Type, unit: int | None = None) -> int:
    """Microseconds since 1970 UTC, from ISO text or an epoch number whose unit is given or told by its size."""
    if isinstance(value, bool) or (unit == 0 and not isinstance(value, str)):
        raise ValueError(f"{show(value)} is not a valid {type}")
    if isinstance(value, int):
        micros = from_epoch(value) if unit is None else value * unit
    elif isinstance(value, Decimal):
        micros = _from_fraction(value, unit)
    elif isinstance(value, str):
        micros = _from_iso(value, type)
    else:
        raise ValueError(f"{show(value)} is not a valid {type}")
    if not MICROSECONDS[0] <= micros <= MICROSECONDS[1]:
        raise ValueError(f"{show(value)} is out of range for {type}")
    return micros


def clock_reading(text: str) -> int:
    """Microseconds since 1970 of what a clock showed: the zone of the text is left aside."""
    at, rounded = _parse_iso(text, t.TIMESTAMP)
    micros = (at.replace(tzinfo=None) - _EPOCH) // _MICROSECOND + rounded
    if micros > MICROSECONDS[1]:
        raise ValueError(f"{show(text)} is out of range for timestamp")
    return micros


def _parse_iso(text: str, type: t.Type) -> tuple[dt.datetime, int]:
    """The moment, and microseconds to add to it."""
    try:
        plain, rounded = _split_fraction(text.strip(), 10)
        return dt.datetime.fromisoformat(plain), rounded
    except ValueError:
        raise ValueError(f"{show(text)} is not a valid {type}") from None


def _from_iso(text: str, type: t.Type) -> int:
    at, rounded = _parse_iso(text, type)
    zone = at.utcoffset() or dt.timedelta(0)
    return (at.replace(tzinfo=None) - _EPOCH - zone) // _MICROSECOND + rounded


def _from_fraction(value: Decimal, unit: int | None) -> int:
    if value.adjusted() > 20:
        return MICROSECONDS[1] + 1
    if unit is None:
        unit = next((factor for limit, factor in EPOCH_UNITS if value.copy_abs() < limit), 1)
    return int(_EXACT.multiply(value, unit).to_integral_value(ROUND_HALF_UP))


def _split_fraction(text: str, date: int) -> tuple[str, int]:
    """ISO text whose fraction of a second Python reads in full, and the microseconds of a longer one.

    A longer one is rounded as in SQL (`functions.datetime_tokens.round_micros`): in doubles, a half to the even one. `date`
    characters at the start belong to a date; a sign after them begins an offset, whose own digits are cut.
    """
    found = _LONG_FRACTION.search(text)
    if found is None:
        return text, 0
    start, end = found.span(1)
    if _SIGN.search(text, date, start):
        return text[: start + 6] + text[end:], 0
    return f"{text[:start]}000000{text[end:]}", round(float(f"0.{found[1]}") * 1_000_000)


# An epoch number says its unit by its size: seconds up to the year 5138, then milli-, micro-, nanoseconds.
EPOCH_UNITS = ((10**11, 1_000_000), (10**14, 1_000), (10**17, 1))


def from_epoch(value: int) -> int:
    """Microseconds since 1970 from a number of seconds, milli-, micro- or nanoseconds."""
    for limit, factor in EPOCH_UNITS:
        if abs(value) < limit:
            return value * factor
    if abs(value) >= 1 << 63:
        raise ValueError(f"{show(value)} is out of range for timestamp")
    return value // 1000 if value >= 0 else -(-value // 1000)


def array(element: Convert) -> Convert:
    """A list of such values."""

    def convert(value: Any) -> Any:
        if not isinstance(value, list):
            raise ValueError(f"{show(value)} is not an array")
        return [None if v is None else element(v) for v in value]

    return convert


def struct(fields: list[tuple[str, Convert]]) -> Convert:
    """An object of such fields."""

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"{show(value)} is not an object")
        return pick(value, fields)

    return convert


def pick(value: dict[str, Any], fields: list[tuple[str, Convert]]) -> dict[str, Any]:
    """The fields of an object, converted; names match exactly, else without regard to case."""
    folded: dict[str, Any] | None = None
    result: dict[str, Any] = {}
    for name, convert in fields:
        item = value.get(name)
        if item is None and name not in value:
            if folded is None:
                folded = {k.lower(): v for k, v in value.items()}
            item = folded.get(name.lower())
        if item is not None:
            try:
                item = convert(item)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        result[name] = item
    return result


def mapping(key: Convert, value: Convert) -> Convert:
    """An object of any fields, as pairs."""

    def convert(item: Any) -> Any:
        if not isinstance(item, dict):
            raise ValueError(f"{show(item)} is not an object")
        return [(key(k), None if v is None else value(v)) for k, v in item.items()]

    return convert


def _plain_number(value: Decimal) -> str:
    text = format(value, "f")
    if not value:
        text = text.removeprefix("-")
    return text.rstrip("0").rstrip(".") if "." in text else text


def to_jsonb(value: Any) -> str:
    """JSON text in the one form that `functions.json` compares: keys in order, `": "` and `", "` between,
    numbers without zeros at the end of their fraction."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Decimal):
        if value.adjusted() > 131_072 or int(value.as_tuple().exponent) < -16_383:
            raise ValueError(f"{show(value)} is out of range for jsonb")  # PostgreSQL's limits
        return _plain_number(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return "[" + ", ".join(map(to_jsonb, value)) + "]"
    items = sorted(value.items())
    return (
        "{"
        + ", ".join(f"{json.dumps(k, ensure_ascii=False)}: {to_jsonb(v)}" for k, v in items)
        + "}"
    )


def _interval(value: Any) -> Any:
    raise ValueError("an interval cannot be read from JSON")


def show(value: Any) -> str:
    """A value in a message: short, and whatever it is."""
    if isinstance(value, dict | list):
        text = json.dumps(value, ensure_ascii=False, default=str)
    else:
        text = str(value) if isinstance(value, Decimal) else repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


_SCALARS: dict[t.Type, Convert] = {
    t.BOOLEAN: _boolean, t.REAL: _real, t.DOUBLE: _double, t.VARCHAR: _varchar, t.BYTEA: _bytea,
    t.DATE: _date, t.TIME: _time, t.TIMESTAMP: _timestamp,
    t.JSONB: to_jsonb, t.INTERVAL: _interval,
}  # fmt: skip
_CONTEXT = decimal.Context(prec=60)
_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_MINUS_ZERO = Decimal("-0")
