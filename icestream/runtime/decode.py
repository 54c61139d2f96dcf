"""Raw records → typed rows, or changes of rows with a key, on the executors, an Arrow batch at a time.

The good rows and the bad ones are two frames over the same range. Bad records are rare, so the first pass
only counts them; when the count is not zero the range is read again for their dead letters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from icestream.catalog.objects import DEAD_LETTER_COLUMNS
from icestream.connectors.formats import ChangeDecoder, Decoded, Decoder, FieldSpec
from icestream.connectors.formats.csv import below_headers
from icestream.lake.fold import CHANGE_SCHEMA, OFFSET, OP, PARTITION, STREAM, TRUNCATE, UNSET
from icestream.types import Type, backtick, spark_type

if TYPE_CHECKING:
    from pyspark import Accumulator


LARGE_BATCH, LARGE_RECORD = 48 << 20, 12_000
"""Bytes of a large batch, and of its records on average. `CheckSize.java` lets no others pass."""


@dataclass(frozen=True)
class Carried:
    """A column taken over from the raw record: INCLUDE offset AS o."""

    raw: str
    name: str
    type: Type
    key: bool = False
    """Whether it is part of the primary key."""


@dataclass(frozen=True)
class Counts:
    """What the executors count while they decode: known once the frame was read, and at least that much then."""

    bad: Accumulator[int]
    large: Accumulator[int]
    """Batches that are large."""
    truncates: Accumulator[int] | None = None
    unset: Accumulator[int] | None = None
    """The changes that leave values unset."""


@dataclass(frozen=True)
class Decoding:
    """What the executors do to a raw frame: the decoder, and the raw columns that go along."""

    decoder: Decoder
    carried: tuple[Carried, ...] = ()

    def raw_columns(self) -> list[str]:
        """The raw columns that the good rows need."""
        header = ["key"] if below_headers(self.decoder) else []
        return list(dict.fromkeys(["value", *header, *(c.raw for c in self.carried)]))

    def good(self, raw: DataFrame, counts: Counts) -> DataFrame:
        """The rows that decode; the others are counted."""
        fields = [FieldSpec(c.name, c.type) for c in self.carried]
        schema = ddl([*self.decoder.fields, *fields])
        decoder, carried, bad = self.decoder, self.carried, counts.bad

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in count_large(batches, counts.large):
                yield _good_rows(decoder, carried, batch, bad)

        return raw.mapInArrow(run, schema)

    def bad(self, raw: DataFrame) -> DataFrame:
        """Dead letters: position, payload and reason of the records that do not decode."""
        decoder = self.decoder
        return _letters(raw, lambda batch: _decoded(decoder, batch).errors)


@dataclass(frozen=True)
class ChangeDecoding:
    """What the executors do to a raw frame that feeds a table with a key."""

    decoder: ChangeDecoder
    carried: tuple[Carried, ...] = ()

    @property
    def columns(self) -> list[FieldSpec]:
        """The columns of the rows: those that are decoded, then those taken over."""
        return [*self.decoder.fields, *(FieldSpec(c.name, c.type) for c in self.carried)]

    @property
    def marks(self) -> list[str]:
        """The columns of a change beside those of its row."""
        return [name for name in CHANGE_SCHEMA if name != UNSET or self.decoder.partial]

    def raw_columns(self) -> list[str]:
        """The raw columns that the changes need."""
        key = ["key"] if self.decoder.reads_key else []
        places = ["stream", "partition", "offset"]
        return list(dict.fromkeys(["value", *key, *places, *(c.raw for c in self.carried)]))

    def good(self, raw: DataFrame, counts: Counts) -> DataFrame:
        """The changes: columns, then marks. Records that fail, truncates and values not told are counted."""
        schema = [ddl(self.columns), *(f"{m} {CHANGE_SCHEMA[m]}" for m in self.marks)]

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in count_large(batches, counts.large):
                rows, errors = self.apply(batch)
                if errors is not None:
                    counts.bad.add(len(errors) - errors.null_count)
                if counts.truncates is not None:
                    counts.truncates.add(pc.sum(pc.equal(rows[OP], TRUNCATE)).as_py() or 0)
                if counts.unset is not None:
                    counts.unset.add(len(rows) - rows[UNSET].null_count)
                yield rows

        return raw.mapInArrow(run, ", ".join(schema))

    def bad(self, raw: DataFrame) -> DataFrame:
        """Dead letters: position, payload and reason of the records that do not decode."""
        return _letters(raw, lambda batch: self.apply(batch)[1])

    def apply(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.StringArray | None]:
        """The changes of a batch of raw records, and the errors of those that fail."""
        payloads = binary(batch.column("value"))
        keys = pa.nulls(len(batch), pa.binary())
        if self.decoder.reads_key:
            keys = binary(batch.column("key"))
        found = self.decoder.changes(keys, payloads)
        at = found.record
        columns = [*found.columns, *(batch.column(c.raw).take(at) for c in self.carried)]
        marks = {
            OP: found.op,
            UNSET: found.unset,
            STREAM: batch.column("stream").take(at),
            PARTITION: batch.column("partition").take(at),
            OFFSET: batch.column("offset").take(at),
        }
        names = [c.name for c in self.columns]
        rows = pa.RecordBatch.from_arrays(
            [*columns, *(marks[m] for m in self.marks)], names=[*names, *self.marks]
        )
        return self._with_keys(batch, rows, at, found.errors)

    def _with_keys(
        self,
        batch: pa.RecordBatch,
        rows: pa.RecordBatch,
        record: pa.Int32Array,
        errors: pa.StringArray | None,
    ) -> tuple[pa.RecordBatch, pa.StringArray | None]:
        """The rows without those that lack a key column which is taken over from their record."""
        for carried in self.carried:
            if not carried.key or not rows.column(carried.name).null_count:
                continue
            counts = pc.not_equal(rows.column(OP), TRUNCATE)
            missing = pc.and_(rows.column(carried.name).is_null(), counts)
            if errors is None:
                errors = pa.nulls(len(batch), pa.string())
            failed = pc.is_in(pa.array(range(len(batch)), pa.int32()), record.filter(missing))
            reason = f"column {carried.name} is NULL but part of the primary key"
            errors = pc.if_else(failed, reason, errors)
            rows, record = rows.filter(pc.invert(missing)), record.filter(pc.invert(missing))
        return rows, errors if errors is not None and errors.null_count < len(errors) else None


def _letters(
    raw: DataFrame, errors_of: Callable[[pa.RecordBatch], pa.StringArray | None]
) -> DataFrame:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            errors = errors_of(batch)
            if errors is not None:
                yield letters_of(batch, errors)

    return raw.mapInArrow(run, ddl([FieldSpec(n, t) for n, t in DEAD_LETTER_COLUMNS]))


def _decoded(decoder: Decoder, batch: pa.RecordBatch) -> Decoded:
    payloads = binary(batch.column("value"))
    if headed := below_headers(decoder):
        return headed.decode_below(binary(batch.column("key")), payloads)
    return decoder.decode(payloads)


def _good_rows(
    decoder: Decoder, carried: tuple[Carried, ...], batch: pa.RecordBatch, bad: Any
) -> pa.RecordBatch:
    decoded = _decoded(decoder, batch)
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


def count_large(
    batches: Iterable[pa.RecordBatch], large: Accumulator[int]
) -> Iterator[pa.RecordBatch]:
    """The batches; the large ones are counted."""
    for batch in batches:
        if batch.nbytes > max(LARGE_BATCH, LARGE_RECORD * batch.num_rows):
            large.add(1)
        yield batch


def binary(column: pa.Array) -> pa.BinaryArray:
    """Spark may hand over binary columns in Arrow's large form."""
    return column.cast(pa.binary()) if column.type != pa.binary() else column


def ddl(fields: Iterable[FieldSpec]) -> str:
    """The fields as a schema of Spark's."""
    return ", ".join(f"{backtick(f.name)} {spark_type(f.type)}" for f in fields)
