"""Floating point and numeric values as PostgreSQL writes them: shortest text, digits in base 10000."""

from __future__ import annotations

import math
import struct
from decimal import Decimal

_HEADER = struct.Struct("!hhHH")  # digits, weight of the first, sign, scale
_SIGNS = {0x0000: "", 0x4000: "-"}
_SPECIAL = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}
_CODES = {text: code for code, text in _SPECIAL.items()}
_LONGEST = 131072  # digits before the point


def double_text(value: float) -> str:
    """The shortest text that reads back as the same double precision."""
    if not math.isfinite(value):
        return _not_finite(value)
    text = repr(float(value)).removesuffix(".0")
    return _scientific(text) if 1e15 <= abs(value) < 1e16 else text


def real_text(value: float) -> str:
    """The shortest text that reads back as the same real."""
    if not math.isfinite(value):
        return _not_finite(value)
    exact = struct.pack("!f", value)
    text = next(
        t for p in (6, 7, 8, 9, 17) if struct.pack("!f", float(t := f"{value:.{p}g}")) == exact
    )
    if value and not 1e-4 <= abs(value) < 1e6:
        return _scientific(text)
    return format(Decimal(text), "f")


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _scientific(text: str) -> str:
    sign, digits, exponent = Decimal(text).normalize().as_tuple()
    power = len(digits) - 1 + int(exponent)
    rest = "".join(map(str, digits[1:]))
    return f"{'-' * sign}{digits[0]}{'.' * bool(rest)}{rest}e{power:+03d}"


def numeric_text(value: Decimal | int | float) -> str:
    """All digits, never an exponent."""
    number = _decimal(value)
    return format(number, "f") if number.is_finite() else _not_finite(float(number))


def numeric_binary(value: Decimal | int | float) -> bytes:
    """The binary form: groups of four digits around the decimal point, without zeros at the ends."""
    number = _decimal(value)
    if not number.is_finite():
        return _HEADER.pack(0, 0, _CODES[_not_finite(float(number))], 0)
    sign, digits, exponent = number.as_tuple()
    scale = max(0, -int(exponent))
    text = "".join(map(str, digits)) + "0" * (int(exponent) + scale + -scale % 4)
    text = text.zfill(len(text) + -len(text) % 4)
    groups = [int(text[at : at + 4]) for at in range(0, len(text), 4)]
    weight = len(groups) - 1 - -(-scale // 4)
    while groups and not groups[0]:
        del groups[0]
        weight -= 1
    while groups and not groups[-1]:
        del groups[-1]
    header = _HEADER.pack(len(groups), weight if groups else 0, 0x4000 * sign, scale)
    return header + struct.pack(f"!{len(groups)}H", *groups)


def numeric_from_binary(data: bytes) -> Decimal:
    """The number of a binary form; ValueError or struct.error if it is none."""
    count, weight, sign, scale = _HEADER.unpack_from(data)
    if sign in _SPECIAL:
        return Decimal(_SPECIAL[sign])
    groups = struct.unpack(f"!{count}H", data[_HEADER.size :])
    if sign not in _SIGNS or scale > 0x3FFF or any(group > 9999 for group in groups):
        raise ValueError
    digits = "".join(f"{group:04d}" for group in groups)
    surplus = 4 * (count - 1 - weight) - scale  # digits beyond the scale, or zeros missing up to it
    digits = digits[:-surplus] if surplus > 0 else digits + "0" * -surplus
    return Decimal(f"{_SIGNS[sign]}{digits or '0'}E-{scale}")


def numeric_from_text(text: str) -> Decimal:
    """The number that a text spells."""
    if "_" in text or "snan" in text.lower():
        raise ValueError
    return _bounded(Decimal(text))


def _decimal(value: Decimal | int | float) -> Decimal:
    return _bounded(value if isinstance(value, Decimal) else Decimal(str(value)))


def _bounded(number: Decimal) -> Decimal:
    if number.is_finite() and (number.adjusted() > _LONGEST or -number.adjusted() > 0x3FFF):
        raise OverflowError
    return number
