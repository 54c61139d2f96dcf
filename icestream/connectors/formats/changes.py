"""Changes of rows with a key: what the formats that give them share, and plain rows as upserts."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from icestream.connectors.formats import Changes, Decoder, FieldSpec
from icestream.lake.fold import UPSERT


@dataclass(frozen=True)
class PlainChanges:
    """FORMAT PLAIN into a table with a key: every record puts its row there."""

    decoder: Decoder
    reads_key = False
    partial = False

    @property
    def fields(self) -> tuple[FieldSpec, ...]:
        """The columns of the rows."""
        return self.decoder.fields

    def changes(self, keys: pa.BinaryArray, payloads: pa.BinaryArray) -> Changes:
        """One upsert a record."""
        decoded = self.decoder.decode(payloads)
        record = pa.array(range(len(payloads)), pa.int32())
        columns = decoded.columns
        if decoded.errors is not None:
            good = decoded.errors.is_null()
            record = record.filter(good)
            columns = [c.filter(good) for c in columns]
        op = pa.repeat(pa.scalar(UPSERT, pa.int8()), len(record))
        return Changes(columns, op, record, None, decoded.errors)
