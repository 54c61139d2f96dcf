"""Raw records → typed rows, on the executors, an Arrow batch at a time.

The good rows and the bad ones are two frames over the same range. Bad records are rare, so the first pass
only counts them; when the count is not zero the range is read again for their dead letters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame

from icestream.catalog.objects import DEAD_LETTER_COLUMNS
from icestream.connectors.formats import Decoder, FieldSpec
from icestream.types import Type, backtick, spark_type

if TYPE_CHECKING:
    from pyspark import Accumulator


@dataclass(frozen=True)
class Carried:
    """A column taken over from the raw record: INCLUDE offset AS o."""

    raw: str
    name: str
    type: Type


@dataclass(frozen=True)
class Decoding:
    """What the executors do to a raw frame: the decoder, and the raw columns that go along."""

    decoder: Decoder
    carried: tuple[Carried, ...] = ()

    def raw_columns(self) -> list[str]:
        """The raw columns that the good rows need."""
        return list(dict.fromkeys(["value", *(c.raw for c in self.carried)]))

    def good(self, raw: DataFrame, bad: Accumulator[int]) -> DataFrame:
        """The rows that decode; the others are counted in `bad`."""
        fields = [FieldSpec(c.name, c.type) for c in self.carried]
        schema = ddl([*self.decoder.fields, *fields])
        decoder, carried = self.decoder, self.carried

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield _good_rows(decoder, carried, batch, bad)

        return raw.mapInArrow(run, schema)

    def bad(self, raw: DataFrame) -> DataFrame:
        """Dead letters: position, payload and reason of the records that do not decode."""
        decoder = self.decoder

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                errors = decoder.decode(binary(batch.column("value"))).errors
                if errors is not None:
                    yield letters_of(batch, errors)

        return raw.mapInArrow(run, ddl([FieldSpec(n, t) for n, t in DEAD_LETTER_COLUMNS]))


def _good_rows(
    decoder: Decoder, carried: tuple[Carried, ...], batch: pa.RecordBatch, bad: Any
) -> pa.RecordBatch:
    decoded = decoder.decode(binary(batch.column("value")))
    names = [f.name for f in decoder.fields] + [c.name for c in carried]
    columns = [*decoded.columns, *(batch.column(c.raw) for c in carried)]
    rows = pa.RecordBatch.from_arrays(columns, names=names)
    if decoded.errors is not None:
        rows = rows.filter(decoded.errors.is_null())
        bad.add(len(decoded.errors) - decoded.errors.null_count)
    return rows


def letters_of(batch: pa.RecordBatch, errors: pa.Array) -> pa.RecordBatch:
    """The dead letters of a batch of raw records: those that have an error."""
    by_name = {n: batch.column(n) for n in batch.schema.names}
    columns = [
        errors if n == "reason" else by_name["value" if n == "payload" else n]
        for n, _ in DEAD_LETTER_COLUMNS
    ]
    names = [n for n, _ in DEAD_LETTER_COLUMNS]
    return pa.RecordBatch.from_arrays(columns, names=names).filter(errors.is_valid())


def binary(column: pa.Array) -> pa.BinaryArray:
    """Spark may hand over binary columns in Arrow's large form."""
    return column.cast(pa.binary()) if column.type != pa.binary() else column


def ddl(fields: Iterable[FieldSpec]) -> str:
    """The fields as a schema of Spark's."""
    return ", ".join(f"{backtick(f.name)} {spark_type(f.type)}" for f in fields)
