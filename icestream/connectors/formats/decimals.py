"""Arrow decimals → the decimals of a column, exactly.

Arrow 26 computes wrong decimals without an error: moving a value to a larger scale wraps around in 128 bits, and
`round` and `cast` to a smaller scale divide wrongly for some values (35184372088831.99 at a scale of 19 rounds to
…831). So scales are changed here, with Python's integers, and Arrow only where it neither multiplies nor divides.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from icestream import types as t


def to_numeric(column: pa.Array, type: t.NumericType) -> pa.Array:
    """A decimal column in that type, rounded half up; raises ArrowInvalid where a value does not fit."""
    given = column.type
    if given.scale == type.scale and pa.types.is_decimal128(given):
        widest = pa.decimal128(38, given.scale)  # a reader may leave more digits than its type says
        column = pa.Array.from_buffers(widest, len(column), column.buffers(), offset=column.offset)
        return column.cast(t.arrow_type(type))
    return from_unscaled(_unscaled(column), given.scale, type)


def from_unscaled(values: Iterable[int | None], scale: int, type: t.NumericType) -> pa.Array:
    """Integers with a scale of their own as a numeric column, rounded half up; raises ArrowInvalid likewise."""
    shift = scale - type.scale
    unit = 10 ** abs(shift)
    half, limit = unit // 2, 10**type.precision
    valid: list[bool] = []
    parts: list[bytes] = []
    for value in values:
        valid.append(value is not None)
        size = abs(value or 0)
        size = (size + half) // unit if shift > 0 else size * unit
        if size >= limit:
            raise pa.ArrowInvalid(f"out of range for {type}")
        parts.append((-size if value and value < 0 else size).to_bytes(16, "little", signed=True))
    mask = None if all(valid) else pa.array(valid, pa.bool_()).buffers()[1]
    buffers = [mask, pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(t.arrow_type(type), len(parts), buffers)


def _unscaled(column: pa.Array) -> Iterable[int | None]:
    """The integers that a decimal array holds, whatever its precision says."""
    width = column.type.bit_width // 8
    data = column.buffers()[1].to_pybytes()
    for number, is_valid in enumerate(column.is_valid().to_pylist(), column.offset):
        raw = data[number * width : (number + 1) * width]
        yield int.from_bytes(raw, "little", signed=True) if is_valid else None
