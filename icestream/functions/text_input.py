"""The value of a text constant, as PostgreSQL 15 reads it: the text in, a value or `TextInputError` out.

Every constant goes this way: literals whose place asks for a type, values of INSERT, parameters in text format. Casts of
columns are in `casts`, as Spark SQL.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

from icestream import types as t
from icestream.functions.coercion import describe
from icestream.functions.datetime_input import parse_date, parse_time, parse_timestamp
from icestream.functions.expressions import Value
from icestream.functions.input_errors import TextInputError, syntax_error
from icestream.functions.interval_input import parse_interval
from icestream.functions.json_input import parse_json
from icestream.types import ArrayType, NumericType, Type

BLANKS = " \t\n\v\f\r"
Elements = list[Any]
"""Values, or elements of nested arrays."""
_BITS = {t.SMALLINT: 15, t.INTEGER: 31, t.BIGINT: 63}
_WHOLE = re.compile(r"[ \t\n\v\f\r]*([+-]?)(\d+)", re.ASCII)
_NUMERIC = re.compile(
    r"([+-]?)((?:\d+\.?\d*|\.\d+)(?:e[ \t\n\v\f\r]*([+-]?\d+))?|nan|inf(?:inity)?)", re.ASCII | re.I
)
_FLOAT = re.compile(
    r"([+-]?)(?:(0x(?:[\da-f]+\.?[\da-f]*|\.[\da-f]+)(?:p[+-]?\d+)?)|((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)"
    r"|(inf(?:inity)?)|nan(?:\(\w*\))?)",
    re.ASCII | re.I,
)
_LARGEST_POWER = (2**31 - 1) // 2
_LARGEST_EXPONENT = 16_383
"""Digits that PostgreSQL has behind the point."""
_LARGEST_WEIGHT = 131_072
"""Digits that PostgreSQL has before the point."""
_ELEMENT = re.compile(r'(?:[^"\\{},]|\\.|"(?:[^"\\]|\\.)*")*', re.S)


def parse_text(text: str, target: Type, zone: str = "UTC") -> Value:
    """The value of a scalar type. `zone` is the session's: that of a timestamptz without one."""
    if isinstance(target, NumericType):
        return _parse_numeric(text, target)
    if target in _BITS:
        return _parse_integer(text, target)
    if target == t.TIMESTAMPTZ:
        return parse_timestamp(text, zone)
    if parse := _PARSERS.get(target):
        return parse(text)
    raise TextInputError("0A000", f"a text cannot be read as type {describe(target)}")


def parse_array(text: str, target: ArrayType, zone: str = "UTC") -> Elements:
    """The elements of an array text such as {1,NULL,"a b"}; lists in lists where the elements are arrays."""
    if re.match(r"[ \t\n\v\f\r]*(?:\[[+-]?\d+(?::[+-]?\d+)?\])+=", text, re.ASCII):
        remedy = "leave the bounds out: arrays begin at 1"
        raise TextInputError("0A000", f'array bounds are not supported: "{text}"', remedy)
    return _convert(_ArrayReader(text).read_whole(target), target, zone)


def _convert(raw: Elements, target: ArrayType, zone: str) -> Elements:
    element = target.element
    if isinstance(element, ArrayType):
        return [_convert(item, element, zone) for item in raw]
    return [None if item is None else parse_text(item, element, zone) for item in raw]


def _parse_boolean(text: str) -> bool:
    word = text.strip(BLANKS).lower()
    if word and ("true".startswith(word) or "yes".startswith(word) or word in ("on", "1")):
        return True
    if word and ("false".startswith(word) or "no".startswith(word) or word in ("of", "off", "0")):
        return False
    raise syntax_error("boolean", text)


def _parse_integer(text: str, target: Type) -> int:
    match = _WHOLE.match(text)
    if match is None:
        raise syntax_error(describe(target), text)
    sign, digits = match.groups()
    digits = digits.lstrip("0") or "0"
    size, limit = int(digits) if len(digits) < 30 else 2**64, 1 << _BITS[target]
    if size <= limit and text[match.end() :].strip(BLANKS):
        raise syntax_error(describe(target), text)
    if size > limit or (size == limit and sign != "-"):
        message = f'value "{text}" is out of range for type {describe(target)}'
        raise TextInputError("22003", message)
    return -size if sign == "-" else size


def _parse_numeric(text: str, target: NumericType) -> Decimal:
    match = _NUMERIC.match(text.strip(BLANKS))
    if match and match[3] and abs(int(match[3][:20])) >= _LARGEST_POWER:
        raise TextInputError("22003", "value overflows numeric format")
    if match is None or match[0] != text.strip(BLANKS) or match[0][1:].lower() == "nan":
        raise syntax_error("numeric", text)
    if match[2][0] in "nNiI":
        message = f'"{text.strip(BLANKS)}" is out of range for type numeric'
        raise TextInputError("22003", message, "use double precision for infinite values and NaN")
    exponent = match[3] or "0"
    mantissa = match[2].lower().partition("e")[0]
    before, _, after = mantissa.partition(".")
    scale = max(0, len(after) - int(exponent))
    significant = (before + after).lstrip("0")
    weight = len(significant) - len(after) + int(exponent) if significant else 0
    if scale > _LARGEST_EXPONENT or weight > _LARGEST_WEIGHT:
        raise TextInputError("22003", "value overflows numeric format")
    if weight <= target.precision - target.scale:
        sized = Decimal(f"{match[1]}{mantissa}e{exponent}")
        unit = Decimal(1).scaleb(-target.scale)
        value = sized.quantize(unit, ROUND_HALF_UP, Context(prec=200_000, Emin=-999_999))
        if value.copy_abs() < 10 ** (target.precision - target.scale):
            return value if value else value.copy_abs()
    limit = target.precision - target.scale
    raise TextInputError(
        "22003",
        "numeric field overflow",
        f"a field with precision {target.precision}, scale {target.scale} must round to an absolute value "
        f"less than {f'10^{limit}' if limit else '1'}",
    )


def _parse_float(text: str, target: Type) -> float:
    match = _FLOAT.match(text.lstrip(BLANKS))
    if match is None:
        raise syntax_error(describe(target), text)
    body = match[0]
    sign, hexadecimal, decimal, infinite = match.groups()
    rest = text.lstrip(BLANKS)[len(body) :].strip(BLANKS)
    if rest and not (decimal or hexadecimal):
        raise syntax_error(describe(target), text)
    if infinite:
        return -math.inf if sign == "-" else math.inf
    if not (decimal or hexadecimal):
        return math.nan
    try:
        value = float(body) if decimal else float.fromhex(body)
    except OverflowError:
        value = math.inf
    if target == t.REAL and math.isfinite(value):
        value = _round_real(value, body if decimal else None)
    mantissa = re.split("p" if hexadecimal else "e", body.lower())[0].replace("0x", "")
    if math.isinf(value) or (value == 0 and re.search("[1-9a-f]", mantissa)):
        shown = body if target == t.DOUBLE else text
        raise TextInputError("22003", f'"{shown}" is out of range for type {describe(target)}')
    if rest:
        raise syntax_error(describe(target), text)
    return value


def _round_real(value: float, decimal: str | None) -> float:
    """The nearest 32-bit float of a number, whose 64-bit float is `value`: never rounded twice."""
    try:
        near = float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.inf
    if near == value or decimal is None or not math.isfinite(near):
        return near
    (bits,) = struct.unpack("i", struct.pack("f", near))
    step = 1 if (value > near) == (near >= 0 and bits >= 0) else -1
    other = float(struct.unpack("f", struct.pack("i", bits + step))[0]) if near else near
    if not math.isfinite(other) or abs(value - near) != abs(value - other):
        return near
    exact = Fraction(Decimal(decimal))
    return other if abs(exact - Fraction(other)) < abs(exact - Fraction(near)) else near


def _parse_bytea(text: str) -> bytes:
    if text.startswith("\\x"):
        return _parse_hex(text[2:])
    if not re.fullmatch(r"(?:[^\\]|\\\\|\\[0-3][0-7]{2})*+", text, re.S):
        raise TextInputError("22P02", "invalid input syntax for type bytea")

    def unescape(match: re.Match[bytes]) -> bytes:
        return b"\\" if match[0] == b"\\\\" else bytes([int(match[1], 8)])

    return re.sub(rb"\\(?:\\|([0-3][0-7]{2}))", unescape, text.encode())


def _parse_hex(text: str) -> bytes:
    """Pairs of digits; blanks may stand between pairs, not in them."""
    out, at = bytearray(), 0
    while at < len(text):
        if text[at] in " \n\t\r":
            at += 1
            continue
        for digit in text[at : at + 2]:
            if digit not in "0123456789abcdefABCDEF":
                raise TextInputError("22023", f'invalid hexadecimal digit: "{digit}"')
        if at + 1 == len(text):
            raise TextInputError("22023", "invalid hexadecimal data: odd number of digits")
        out.append(int(text[at : at + 2], 16))
        at += 2
    return bytes(out)


def _parse_varchar(text: str) -> str:
    return text


_PARSERS: dict[Type, Callable[[str], Value]] = {
    t.BOOLEAN: _parse_boolean,
    t.REAL: lambda text: _parse_float(text, t.REAL),
    t.DOUBLE: lambda text: _parse_float(text, t.DOUBLE),
    t.VARCHAR: _parse_varchar,
    t.BYTEA: _parse_bytea,
    t.DATE: parse_date,
    t.TIME: parse_time,
    t.TIMESTAMP: parse_timestamp,
    t.INTERVAL: parse_interval,
    t.JSONB: parse_json,
}


class _ArrayReader:
    """Reads braces from left to right: the texts of the elements."""

    def __init__(self, text: str) -> None:
        inner = text.lstrip(BLANKS)
        self.text = inner if inner.startswith("{") else text
        self.at = 0

    def malformed(self) -> TextInputError:
        return TextInputError("22P02", f'malformed array literal: "{self.text}"')

    def next(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip_blanks(self) -> None:
        while self.next() and self.next() in BLANKS:
            self.at += 1

    def read_whole(self, target: ArrayType) -> Elements:
        """The array, with nothing behind it."""
        elements = self.read(target)
        self.skip_blanks()
        if self.next():
            raise self.malformed()
        return elements

    def read(self, target: ArrayType) -> Elements:
        """One pair of braces."""
        if self.next() != "{":
            raise self.malformed()
        self.at += 1
        elements: Elements = []
        self.skip_blanks()
        if self.next() == "}":
            self.at += 1
            return elements
        while True:
            self.skip_blanks()
            if isinstance(target.element, ArrayType):
                elements.append(self.read(target.element))
            else:
                elements.append(self.read_element())
            self.skip_blanks()
            mark = self.next()
            if mark not in ("}", ","):
                raise self.malformed()
            self.at += 1
            if mark == "}":
                return elements

    def read_element(self) -> str | None:
        match = _ELEMENT.match(self.text, self.at)
        assert match is not None
        raw = match[0].rstrip(BLANKS)
        if raw.endswith("\\"):  # an escaped blank
            raw = match[0][: len(raw) + 1]
        if not raw or self.text[match.end() : match.end() + 1] not in (",", "}"):
            raise self.malformed()
        self.at = match.end()
        if '"' not in raw and "\\" not in raw:
            return None if raw.upper() == "NULL" else raw
        if not re.fullmatch(r'"(?:[^"\\]|\\.)*"|(?:[^"\\]|\\.)*', raw, re.S):
            raise self.malformed()
        body = raw[1:-1] if raw.startswith('"') else raw
        return re.sub(r"\\(.)", r"\1", body, flags=re.S)
