"""Numerics at their edges, where Arrow's own decimal arithmetic is wrong."""

from __future__ import annotations

import random
from decimal import ROUND_HALF_UP, Context, Decimal

import pyarrow as pa
import pytest

from icestream import types as t
from icestream.connectors.files_read import conform
from icestream.connectors.formats import FieldSpec
from icestream.connectors.formats.decimals import to_numeric
from icestream.connectors.formats.json import JsonDecoder

WIDE = Context(prec=200)


def decode(type: t.Type, *numbers: str) -> list[Decimal | None]:
    payloads = pa.array([f'{{"a": {n}}}'.encode() for n in numbers], pa.binary())
    decoded = JsonDecoder((FieldSpec("a", type),)).decode(payloads)
    assert decoded.errors is None, decoded.errors
    return list(decoded.columns[0].to_pylist())


@pytest.mark.parametrize(
    ("type", "number"),
    [
        (t.numeric(38, 0), "-123456789012345678901234567890"),
        (t.numeric(38, 0), "99999999999999999999999999999999999999"),
        (t.numeric(38, 18), "12345678901234567890.123456789012345678"),
        (t.numeric(38, 38), "0.12345678901234567890123456789012345678"),
        (t.numeric(14, 0), "35184372088831.9999999999999999999"),
        (t.numeric(38, 0), "9999999999999999999999999999999999998.5"),
        (t.numeric(30, 8), "998000000000e-47"),
        (t.numeric(10, 2), "1e-300"),
        (t.numeric(38, 2), "1.5e35"),
    ],
)
def test_blocks_of_long_numbers(type: t.NumericType, number: str) -> None:
    unit = Decimal(1).scaleb(-type.scale)
    expected = Decimal(number).quantize(unit, ROUND_HALF_UP, WIDE)
    assert decode(type, *[number] * 20) == [expected] * 20
    hidden = '"' + number.replace("e", "\\u0065") + '"'
    assert decode(type, *[hidden] * 20) == [expected] * 20
    assert decode(type, *["1" if type.scale < 38 else "0.1"] * 19, number)[-1] == expected


@pytest.mark.parametrize("number", ["1.8e308", "-1.8e308", "1e309"])
@pytest.mark.parametrize("type", [t.DOUBLE, t.REAL, t.array(t.DOUBLE), t.struct(("x", t.DOUBLE))])
def test_a_double_out_of_range(type: t.Type, number: str) -> None:
    forms = {t.array(t.DOUBLE): "[{}]", t.struct(("x", t.DOUBLE)): '{{"x": {}}}'}
    value = forms.get(type, "{}").format(number)
    payloads = pa.array([b'{"a": null}'] * 20 + [f'{{"a": {value}}}'.encode()], pa.binary())
    decoded = JsonDecoder((FieldSpec("a", type),)).decode(payloads)
    assert decoded.errors is not None
    assert "out of range" in decoded.errors[20].as_py()
    assert decoded.errors.null_count == 20


def test_scales_of_decimal_columns() -> None:
    """Columns of Parquet files: each value is the exact one, rounded half up, or the cast raises."""
    rng = random.Random(7)
    for _ in range(300):
        scale = rng.randrange(39)
        target = t.numeric(38, rng.randrange(39))
        digits = rng.randint(1, 38)
        values = [
            Decimal(rng.choice([rng.randrange(10**digits), 10**digits - 1]))
            .scaleb(-scale, WIDE)
            .copy_sign(rng.choice([1, -1]))
            for _ in range(8)
        ]
        exact = [v.quantize(Decimal(1).scaleb(-target.scale), ROUND_HALF_UP, WIDE) for v in values]
        column = pa.array([*values, None], pa.decimal128(38, scale))
        if all(v.scaleb(target.scale, WIDE).copy_abs() < 10**38 for v in exact):
            assert conform(column, target).to_pylist() == [*exact, None]
            assert to_numeric(column.slice(2), target).to_pylist() == [*exact[2:], None]
        else:
            with pytest.raises(pa.ArrowInvalid):
                conform(column, target)


def test_integers_of_a_file_into_a_numeric() -> None:
    column = pa.array([2**63 - 1, None, -5], pa.int64())
    assert conform(column, t.numeric(28, 9)).to_pylist() == [Decimal(2**63 - 1), None, Decimal(-5)]


@pytest.mark.parametrize(
    "payload",
    [
        '{"a": "' + "1" * 200_000 + 'x"}',
        '{"a": "' + "1" * 200_000 + "." + "1" * 200_000 + 'e"}',
        '{"a": [' + "[" * 300 + '"' + '\\"' * 200_000,
        '{"a": ' + "9" * 4301 + "}",
        '{"a": 1' + "0" * 200_000 + ".5}",
        '{"a": 1e-999999999}',
        '{"a": 1e999999999999999999}',
    ],
    ids=lambda p: p[:12] + str(len(p)),
)
@pytest.mark.timeout(10)
def test_long_payloads_take_no_long_time(payload: str) -> None:
    for type in (t.numeric(10, 2), t.DOUBLE, t.BIGINT, t.JSONB, t.TIMESTAMP):
        JsonDecoder((FieldSpec("a", type),)).decode(pa.array([payload.encode()] * 10))
