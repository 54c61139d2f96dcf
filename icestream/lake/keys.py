"""Key columns as comparable values: canonical arrays, and a 64-bit hash of them.

Equal keys are equal here whatever wrote them: integers, dates and times as int64, floats as their bits with one
NaN and one zero, decimals at full width, texts and bytes as bytes. NULL equals NULL. The hash only narrows the
search; who finds a key by its hash compares the canonical values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Hashes = npt.NDArray[np.int64]

_NULL = np.uint64(0x9E3779B97F4A7C15)
_SEED = np.uint64(0x2545F4914F6CDD1D)


def canonical(column: pa.Array | pa.ChunkedArray, *, signed_zeros: bool = False) -> pa.Array:
    """The column in its comparable form: int64, decimal128(38, scale), large_binary, or null where nothing is known.

    `signed_zeros` tells -0.0 from 0.0: they are one key, but not one value.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # of several chunks that do not combine
        array = pa.concat_arrays(array.chunks)
    type = array.type
    if pa.types.is_dictionary(type):
        return canonical(array.dictionary_decode(), signed_zeros=signed_zeros)
    if pa.types.is_floating(type):
        doubles = array.cast(pa.float64())
        zeros = doubles if signed_zeros else pc.add(doubles, 0.0)
        one_nan = pc.if_else(pc.is_nan(zeros), float("nan"), zeros)
        return one_nan.view(pa.int64())
    if pa.types.is_decimal(type):
        return array.cast(pa.decimal128(38, type.scale))
    if pa.types.is_timestamp(type):
        return array.cast(pa.timestamp("us", type.tz)).view(pa.int64())
    if pa.types.is_date(type):
        return array.cast(pa.date32()).view(pa.int32()).cast(pa.int64())
    if pa.types.is_time(type):
        return array.cast(pa.time64("us")).view(pa.int64())
    if pa.types.is_boolean(type) or pa.types.is_integer(type):
        return array.cast(pa.int64())
    if pa.types.is_null(type):
        return array
    if pa.types.is_nested(type):
        values = array.to_pylist() if signed_zeros else map(_one_zero, array.to_pylist())
        texts = [None if v is None else repr(v).encode() for v in values]
        return pa.array(texts, pa.large_binary())
    return array.cast(pa.large_binary())


def _one_zero(value: Any) -> Any:
    """A nested value with 0.0 in the place of -0.0. Every NaN looks alike already."""
    match value:
        case float():
            return value + 0.0
        case list() | tuple():
            return [_one_zero(v) for v in value]
        case dict():
            return {name: _one_zero(v) for name, v in value.items()}
    return value


def hashes(columns: Sequence[pa.Array]) -> Hashes:
    """A hash of each row of canonical columns."""
    state = np.full(len(columns[0]), _SEED, np.uint64)
    for column in columns:
        words = _words(column)
        if column.null_count:
            words = np.where(_nulls(column), _NULL, words)
        state = _mix(state ^ words) + _NULL
    return state.view(np.int64)


def equal(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
    """Row by row: whether the keys are the same."""
    same = np.ones(len(left[0]), bool)
    for a, b in zip(left, right, strict=True):
        if pa.types.is_null(a.type) or pa.types.is_null(b.type):
            equal = pc.and_(a.is_null(), b.is_null())
        else:
            equal = pc.fill_null(pc.equal(a, b), False)
            if a.null_count and b.null_count:
                equal = pc.or_(equal, pc.and_(a.is_null(), b.is_null()))
        same &= equal.to_numpy(zero_copy_only=False)
    return same


def _words(column: pa.Array) -> npt.NDArray[np.uint64]:
    """A 64-bit word for each value; NULL has any."""
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.uint64)
    if pa.types.is_int64(column.type):
        integers: npt.NDArray[np.uint64] = pc.fill_null(column, 0).to_numpy().view(np.uint64)
        return integers
    if pa.types.is_decimal(column.type):
        words = np.frombuffer(column.buffers()[1], np.uint64)
        words = words[2 * column.offset : 2 * (column.offset + len(column))]
        return _mix(words[0::2]) ^ words[1::2]
    from pandas.util import hash_array

    values: Any = pc.fill_null(column, b"").to_numpy(zero_copy_only=False)
    hashed: npt.NDArray[np.uint64] = hash_array(values, categorize=False)
    return hashed


def _nulls(column: pa.Array) -> npt.NDArray[np.bool_]:
    nulls: npt.NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finalizer of splitmix64: every bit of the word depends on every bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def probe() -> int:
    """The hash of fixed rows, kept beside every index, so that one made with another hash is noticed."""
    rows = [
        pa.array([1, None], pa.int64()),
        pa.array([b"icestream", b""], pa.large_binary()),
        pa.array([None, 3], pa.decimal128(38, 2)),
    ]
    return int(hashes(rows).sum())
