"""Records and what they come to, for the tests of formats of changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from icestream.connectors.formats import ChangeDecoder, Changes

Record = tuple[Any, Any]
"""Key and payload: bytes as they are, None as NULL, all else as JSON."""


def raw(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else json.dumps(value).encode()


def run(decoder: ChangeDecoder, records: Sequence[Record]) -> Changes:
    keys = pa.array([raw(k) for k, _ in records], pa.binary())
    return decoder.changes(keys, pa.array([raw(v) for _, v in records], pa.binary()))


def told(changes: Changes) -> list[tuple[Any, ...]]:
    """(record, op, values…) of each change, and its unset fields at the end if there are any."""
    columns = [c.to_pylist() for c in changes.columns]
    unset = changes.unset.to_pylist() if changes.unset is not None else [None] * len(changes.op)
    return [
        (record, op, *(c[i] for c in columns), *([unset[i]] if unset[i] else []))
        for i, (record, op) in enumerate(
            zip(changes.record.to_pylist(), changes.op.to_pylist(), strict=True)
        )
    ]


def reasons(changes: Changes) -> dict[int, str]:
    found = changes.errors.to_pylist() if changes.errors is not None else []
    return {i: reason for i, reason in enumerate(found) if reason is not None}


def same(left: Changes, right: Changes) -> None:
    """Also NaN is NaN here."""
    assert str(reasons(left)) == str(reasons(right))
    assert str(told(left)) == str(told(right))
