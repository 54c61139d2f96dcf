"""FORMAT UPSERT ENCODE JSON: the payload is the row as it is now; none at all (a tombstone) deletes the row of the key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from icestream import types as t
from icestream.connectors.formats import Changes, FieldSpec, blocks, values
from icestream.connectors.formats import changes as ch
from icestream.connectors.formats import connect_json as connect
from icestream.connectors.formats.json import document
from icestream.lake.fold import OP, UPSERT


@dataclass(frozen=True)
class UpsertDecoder:
    """Rows and tombstones. A row may carry Connect's schema."""

    fields: tuple[FieldSpec, ...]
    numbers: str = values.GUESS
    reads_key = True
    partial = False

    @property
    def reading(self) -> connect.Reading:
        """How values without a schema are read."""
        return connect.Reading(self.numbers)

    def changes(self, keys: pa.BinaryArray, payloads: pa.BinaryArray) -> Changes:
        """An upsert for each row, a delete for each tombstone."""
        op = pa.repeat(pa.scalar(ch.BY_KEY, pa.int16()), len(payloads))
        outcomes = ch.with_tombstones(payloads, op, self._read)
        key = ch.KeyDecoder(tuple(f for f in self.fields if f.key), self.reading)
        return ch.changes(self.fields, outcomes, keys, key)

    def fast(self, payloads: pa.BinaryArray) -> blocks.Fast | None:
        """The fast way for rows like the first of these; None if there is none."""
        rows = ch.fast_rows(self.fields, payloads, self.reading)

        def fast(some: pa.BinaryArray) -> list[pa.Array] | None:
            columns = rows(some) if rows else None
            return columns and [*columns, pa.repeat(pa.scalar(UPSERT, pa.int16()), len(some))]

        return fast if rows else None

    def _read(self, payloads: pa.BinaryArray) -> ch.Outcomes:
        fields = (*self.fields, FieldSpec(OP, t.SMALLINT))
        decoded = blocks.decode(payloads, fields, self.fast(payloads), self.record)
        return ch.Outcomes(decoded.columns[:-1], decoded.columns[-1], decoded.errors)

    def record(self, payload: bytes) -> Sequence[Any]:
        """The values of one row and what happens to it, or ValueError with the reason."""
        value, schema = connect.unwrap(document(payload))
        if value is None and schema is not None:
            return [*([None] * len(self.fields)), ch.BY_KEY]
        if not isinstance(value, dict):
            raise ValueError("the payload is not a JSON object")
        return [*ch.picked(value, self.fields, schema, self.reading), UPSERT]
