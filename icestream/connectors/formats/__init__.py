"""Formats: payload bytes → typed columns, a whole Arrow batch at a time, with a reason for each record that fails.

A decoder is a small picklable value that is sent to the executors; it knows nothing of Spark. A record that
cannot be decoded never raises: it is left out of the columns and named with its reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from icestream.types import Type

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class FieldSpec:
    """A column that a decoder has to fill."""

    name: str
    type: Type
    not_null: bool = False


@dataclass(frozen=True)
class Decoded:
    """One array a column, all as long as the input; `errors` is NULL for every good record (None: all good)."""

    columns: list[pa.Array]
    errors: pa.Array | None


class Decoder(Protocol):
    """Turns a batch of payloads into columns."""

    @property
    def fields(self) -> tuple[FieldSpec, ...]:
        """The columns that `decode` gives, in order."""
        ...

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """Decode every payload; called on executors, once a batch."""
        ...


def check_not_null(fields: tuple[FieldSpec, ...], decoded: Decoded) -> Decoded:
    """Add a reason for each record that leaves a NOT NULL column empty."""
    import pyarrow as pa
    import pyarrow.compute as pc

    errors = decoded.errors
    for field, column in zip(fields, decoded.columns, strict=True):
        if not field.not_null or not column.null_count:
            continue
        if errors is None:
            errors = pa.nulls(len(column), pa.string())
        missing = pc.and_(column.is_null(), errors.is_null())
        errors = pc.if_else(missing, f"column {field.name} is NULL but declared NOT NULL", errors)
    if errors is not None and errors.null_count == len(errors):
        errors = None
    return Decoded(decoded.columns, errors)
