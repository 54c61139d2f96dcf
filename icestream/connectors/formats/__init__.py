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
    key: bool = False
    """Whether it is part of the primary key: of a change, never NULL."""
    source: str | None = None
    """Set for what INCLUDE takes from beside the row: the name there (`ts_ms` in a Debezium envelope's source)."""


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


@dataclass(frozen=True)
class Changes:
    """What a batch of records does to the rows of a table: as many rows as there are changes, in order."""

    columns: list[pa.Array]
    """One array a field. A delete has its key and, of the rest, nothing; a truncate has nothing."""
    op: pa.Int8Array
    """UPSERT, DELETE or TRUNCATE of `lake.fold`."""
    record: pa.Int32Array
    """Which record of the batch each change comes from; never falls."""
    unset: pa.ListArray | None
    """Numbers of the fields whose value a change does not tell (list<int32>); None where that cannot happen."""
    errors: pa.StringArray | None
    """One a record: why it failed, NULL if it did not. A record that failed gives no changes. None: all good."""


class ChangeDecoder(Protocol):
    """Turns a batch of records into changes of rows with a key. A small picklable value, like a Decoder."""

    @property
    def fields(self) -> tuple[FieldSpec, ...]:
        """The columns that `changes` gives, in order."""
        ...

    @property
    def reads_key(self) -> bool:
        """Whether it needs the keys of the records; it is given NULLs otherwise."""
        ...

    @property
    def partial(self) -> bool:
        """Whether changes may leave values unset or truncate the table."""
        ...

    def changes(self, keys: pa.BinaryArray, payloads: pa.BinaryArray) -> Changes:
        """Decode every record; called on executors, once a batch."""
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
