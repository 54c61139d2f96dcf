"""The two ways through a batch: all of a block at once, and record by record where that fails.

A block that the fast way refuses is halved until the culprits stand alone, so that a few bad records do not
slow down the many good ones around them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from icestream.connectors.formats import Decoded, FieldSpec
from icestream.types import arrow_type

SMALL = 8  # below this many records a block that failed is read one by one

Fast = Callable[[pa.BinaryArray], list[pa.Array] | None]
Record = Callable[[bytes], Sequence[Any]]


def decode(
    payloads: pa.BinaryArray, fields: tuple[FieldSpec, ...], fast: Fast | None, record: Record
) -> Decoded:
    """Decode a batch: with `fast`, which gives None for a block it cannot decide, else with `record`.

    `record` gives the values of one payload in the order of the fields, or raises ValueError with the reason.
    No payload stops a stream: any exception of `fast` sends the block the careful way, any exception of `record`
    makes the payload a dead letter.
    """
    parts: list[Decoded] = []

    def block(some: pa.BinaryArray) -> None:
        columns = _attempt(fast, some) if fast is not None and not some.null_count else None
        if columns is not None:
            parts.append(Decoded(columns, None))
        elif fast is None or len(some) <= SMALL:
            parts.append(one_by_one(some, fields, record))
        else:
            half = len(some) // 2
            block(some.slice(0, half))
            block(some.slice(half))

    block(payloads)
    return joined(parts)


def joined(parts: Sequence[Decoded]) -> Decoded:
    """What the parts of a batch gave, one after the other."""
    if len(parts) == 1:
        return parts[0]
    columns = [
        pa.concat_arrays(list(same)) for same in zip(*(p.columns for p in parts), strict=True)
    ]
    if all(p.errors is None for p in parts):
        return Decoded(columns, None)
    errors = [
        pa.nulls(len(p.columns[0]), pa.string()) if p.errors is None else p.errors for p in parts
    ]
    return Decoded(columns, pa.concat_arrays(errors))


def _attempt(fast: Fast, payloads: pa.BinaryArray) -> list[pa.Array] | None:
    try:
        return fast(payloads)
    except Exception:  # the careful way finds the culprit and its reason
        return None


def one_by_one(payloads: pa.BinaryArray, fields: tuple[FieldSpec, ...], record: Record) -> Decoded:
    """The careful way: each payload by itself."""
    rows: list[Sequence[Any]] = []
    errors: list[str | None] = []
    empty = [None] * len(fields)
    for payload in payloads.to_pylist():
        try:
            if payload is None:
                raise ValueError("the payload is NULL")
            rows.append(record(payload))
            errors.append(None)
        except Exception as error:
            rows.append(empty)
            errors.append(_reason(error))
    columns = [_column([row[i] for row in rows], field, errors) for i, field in enumerate(fields)]
    bad = any(e is not None for e in errors)
    return Decoded(columns, pa.array(errors, pa.string()) if bad else None)


def _column(items: list[Any], field: FieldSpec, errors: list[str | None]) -> pa.Array:
    """An Arrow column; a value that Arrow refuses after all is a bad record, never a crash."""
    type = arrow_type(field.type)
    try:
        return pa.array(items, type)
    except Exception:
        for index, item in enumerate(items):
            try:
                pa.array([item], type)
            except Exception:
                items[index] = None
                errors[index] = errors[index] or f"{field.name}: not a valid {field.type}"
        return pa.array(items, type)


def text_of(payload: bytes) -> str:
    """The payload as text; ValueError if it is not UTF-8."""
    try:
        return payload.decode()
    except UnicodeDecodeError:
        raise ValueError("the payload is not UTF-8") from None


MAX_REASON = 1000
"""Characters of a reason that are kept."""


def _reason(error: Exception) -> str:
    """The reason of a dead letter: always text that UTF-8 can hold."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
    return f"{kind}{error}"[:MAX_REASON].encode(errors="replace").decode()
