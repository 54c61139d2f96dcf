"""Keys that are equal in PostgreSQL are equal in the key index."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from icestream.lake.keys import canonical, hashes

NANS = [float("nan"), -float("nan"), struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000123))[0]]
STRUCT = pa.struct([("a", pa.float64()), ("b", pa.list_(pa.float32()))])


@pytest.mark.parametrize(
    ("type", "equal"),
    [
        (pa.float64(), [0.0, -0.0]),
        (pa.float32(), [0.0, -0.0]),
        (pa.float64(), NANS),
        (pa.list_(pa.float64()), [[0.0, 1.0], [-0.0, 1.0]]),
        (pa.list_(pa.float64()), [[n] for n in NANS]),
        (STRUCT, [{"a": -0.0, "b": [0.0]}, {"a": 0.0, "b": [-0.0]}]),
        (pa.list_(STRUCT), [[{"a": -0.0, "b": None}], [{"a": 0.0, "b": None}]]),
    ],
)
def test_equal_keys(type: pa.DataType, equal: list[object]) -> None:
    made = canonical(pa.array(equal, type))
    assert len(set(made.to_pylist())) == 1
    assert len(set(hashes([made]).tolist())) == 1


def test_other_keys() -> None:
    made = canonical(pa.array([[0.0], [1.0], [None], [], None], pa.list_(pa.float64())))
    assert len(set(made.to_pylist())) == 5
