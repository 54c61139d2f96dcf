"""Open feeds: a source connector together with the decoding of its records into the declared columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark import Accumulator, StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from icestream.catalog.graph import Feed
from icestream.catalog.named_files import check_files
from icestream.catalog.objects import DEAD_LETTER_COLUMNS, Ingest, Table
from icestream.connectors.base import RAW, Column, Context, Source
from icestream.connectors.formats import FieldSpec
from icestream.connectors.formats.registry import (
    SOURCE_FIELDS,
    change_decoder,
    decoder,
    lookup,
)
from icestream.connectors.registry import source_connector
from icestream.functions.expression_errors import Failures
from icestream.functions.spark import render
from icestream.lake.access import access_of
from icestream.lake.catalogs import Lake
from icestream.lake.fold import CHANGE_SCHEMA, OFFSET, OP, PARTITION, STREAM, UPSERT, Upsert
from icestream.lake.position import Range
from icestream.runtime.decode import Carried, ChangeDecoding, Counts, Decoding
from icestream.runtime.outside_calls import IN_TURN_SECONDS, call_outside
from icestream.runtime.session import FOR_LARGE_RECORDS, changed_settings
from icestream.runtime.spark_functions import SIZE_CHECK, has_functions
from icestream.sql.statements import Include
from icestream.types import BIGINT, INTEGER, VARCHAR, backtick, spark_type

RAW_OF_INCLUDE = {"payload": "value", "header": "headers", "file": "stream"}


@dataclass
class Rows:
    """The decoded rows (or changes) of one range, and what was counted on the way (known once it was read)."""

    frame: DataFrame
    bad: Accumulator[int] | None
    """Records that did not decode."""
    shared: bool = False
    large: Accumulator[int] | None = None
    """Batches of records that are large. None where nobody counts them."""
    truncates: Accumulator[int] | None = None
    unset: Accumulator[int] | None = None
    """Changes that leave values unset. None, like `truncates`, where the format has none."""

    def share(self) -> None:
        """Keep the rows, for a second reader."""
        if not self.shared:
            self.frame = self.frame.persist(StorageLevel.MEMORY_AND_DISK)
            self.shared = True

    def release(self) -> None:
        """Forget kept rows."""
        if self.shared:
            self.frame.unpersist()


class OpenFeed:
    """A feed at work."""

    def __init__(self, feed: Feed, lake: Lake) -> None:
        self.feed = feed
        self.key = feed.key
        self.object = feed.object
        self.failures: Failures | None = None
        """What generated columns do when they fail."""
        self.expects_small = True
        """Whether reading fails where records are large, so that it is tried again in another way."""
        self.had_large_records = False
        """Whether a batch of records was large, in this process."""
        ingest = feed.object.ingest
        assert ingest is not None
        check_files(feed.object, access_of(lake.spark))
        self.ingest: Ingest = ingest
        self.upsert: Upsert | None = feed.object.upsert if isinstance(feed.object, Table) else None
        context = Context(
            spark=lake.spark,
            lake=lake,
            key=feed.key,
            name=feed.object.name,
            settings=ingest.settings,
            columns=self._declared(),
            encode=ingest.encode,
            encode_settings=ingest.encode_settings,
        )
        self.source: Source = source_connector(ingest.connector).open(context)
        self.decoding = self._decoding() if self.source.raw and ingest.format else None

    @property
    def rate_limit(self) -> int | None:
        """Records a second that the source may give."""
        set_to = self.object.altered.settings.get("source_rate_limit")
        return self.ingest.settings.get("source_rate_limit") if set_to is None else int(set_to)

    @property
    def held(self) -> bool:
        """Whether the source is to give nothing."""
        return "paused" in self.object.altered.settings or self.rate_limit == 0

    def rows(self, range: Range, now: str) -> Rows:
        """The rows of a range; nothing is read until the frame is used. `now` is the epoch's time in Spark SQL.

        For a table with a key these are changes: the columns that are not generated, and those of
        `lake.fold.CHANGE_SCHEMA`. Whoever folds them calls `generate` with the outcome.
        """
        if self.decoding is None:
            frame = self.source.read(range.start, range.end, [c.name for c in self._declared()])
            if self.source.gives_changes:
                if self.upsert is not None:
                    return Rows(self._in_order(frame), None)
                return Rows(self.generate(frame.drop(*CHANGE_SCHEMA), now), None)
            frame = frame.filter(self._complete())
            return Rows(_upserts(frame) if self.upsert else self.generate(frame, now), None)
        raw = self.read_raw(range, self.decoding.raw_columns())
        counts = self._counts(raw)
        frame = self.decoding.good(raw, counts)
        if self.upsert is None:
            return Rows(self.generate(frame, now), counts.bad, large=counts.large)
        frame = self._in_order(frame)
        return Rows(
            frame, counts.bad, large=counts.large, truncates=counts.truncates, unset=counts.unset
        )

    def read_raw(self, range: Range, columns: Sequence[str]) -> DataFrame:
        """The records of a range. Reading fails if they are large and that was not expected."""
        raw = self.source.read(range.start, range.end, columns)
        if self.source.has_large_records or not self.expects_small or "value" not in columns:
            return raw
        return raw.filter(f"{SIZE_CHECK}(value)") if has_functions(raw.sparkSession) else raw

    def changes(self, range: Range, now: str) -> Rows:
        """The rows of a range of a feed without a key as changes, each of which puts its row there."""
        if not isinstance(self.decoding, Decoding):
            rows = self.rows(range, now)
            return Rows(_upserts(rows.frame), rows.bad, large=rows.large)
        places = {
            "stream": (STREAM, VARCHAR),
            "partition": (PARTITION, INTEGER),
            "offset": (OFFSET, BIGINT),
        }
        carried = tuple(Carried(raw, *place) for raw, place in places.items())
        decoding = replace(self.decoding, carried=(*self.decoding.carried, *carried))
        raw = self.read_raw(range, decoding.raw_columns())
        counts = self._counts(raw)
        frame = self.generate(decoding.good(raw, counts), now)
        marked = frame.withColumn(OP, F.lit(UPSERT).cast(CHANGE_SCHEMA[OP]))
        return Rows(marked, counts.bad, large=counts.large)

    def letters(self, range: Range) -> DataFrame:
        """The dead letters of a range."""
        if self.decoding is not None:
            return self.decoding.bad(self.read_raw(range, list(RAW)))
        names = [c.name for c in self._declared()]
        frame = self.source.read(range.start, range.end, names).filter(~self._complete())
        return self.as_letters(frame, names, "a column that is declared NOT NULL is NULL")

    def as_letters(self, frame: DataFrame, names: Sequence[str], reason: str) -> DataFrame:
        """Rows that were decoded, as dead letters: the payload is the row as JSON."""
        known = {
            "stream": F.lit(self.object.name),
            "payload": F.to_json(F.struct(*map(backtick, names))).cast("binary"),
            "reason": F.lit(reason),
        }
        columns = [
            known.get(n, F.lit(None)).cast(spark_type(t)).alias(n) for n, t in DEAD_LETTER_COLUMNS
        ]
        return frame.select(*columns)

    def may_have_letters(self, rows: Rows) -> bool:
        """Whether, after reading, dead letters have to be looked for in the same range."""
        if self.source.gives_changes:
            return False
        if self.decoding is None:
            return any(map(self._needed, self._declared()))
        return rows.bad is None or bool(rows.bad.value)

    def find_error(self, range: Range, now: str) -> Exception | None:
        """What keeps a range from being read, by reading it to no end."""
        try:
            ask = partial(self.source.latest, range.start)
            if self.source.asks_only:
                call_outside(ask, self.object.name, IN_TURN_SECONDS)
            else:
                ask()
            rows = self.rows(range, now)
            settings = FOR_LARGE_RECORDS if self.source.has_large_records else {}
            with changed_settings(rows.frame.sparkSession, settings):
                rows.frame.write.format("noop").mode("overwrite").save()
        except Exception as error:
            return error
        return None

    def close(self) -> None:
        """Close the connector."""
        self.source.close()

    def generate(self, frame: DataFrame, now: str) -> DataFrame:
        """All columns in their declared order, the generated ones computed; what else the frame has comes after."""
        columns = self.object.columns
        own = {c.name for c in columns}
        more = [backtick(name) for name in frame.columns if name not in own]
        if all(c.generated is None for c in columns):
            return frame.select(*[backtick(c.name) for c in columns], *more)
        texts = [
            render(c.generated, now=now, failures=self.failures)
            if c.generated
            else backtick(c.name)
            for c in columns
        ]
        named = [f"{t} AS {backtick(c.name)}" for t, c in zip(texts, columns, strict=True)]
        return frame.selectExpr(*named, *more)

    def _declared(self) -> tuple[Column, ...]:
        """The columns that the outside fills: neither generated nor included."""
        included = {self.ingest.name_of(i) for i in self.ingest.includes}
        return tuple(
            c for c in self.object.columns if c.generated is None and c.name not in included
        )

    def _decoding(self) -> Decoding | ChangeDecoding:
        ingest = self.ingest
        assert ingest.format
        assert ingest.encode
        assert ingest.encode_settings is not None
        offered = lookup(ingest.format, ingest.encode).includes
        fields = [self._spec(c) for c in self._declared()]
        fields += [self._from_source(i) for i in ingest.includes if i.what in offered]
        carried = tuple(self._carried(i) for i in ingest.includes if i.what not in offered)
        chosen = (ingest.format, ingest.encode, tuple(fields), ingest.encode_settings)
        if self.upsert is not None:
            return ChangeDecoding(change_decoder(*chosen), carried)
        return Decoding(decoder(*chosen), carried)

    def _spec(self, column: Column, source: str | None = None) -> FieldSpec:
        key = self.upsert is not None and column.name in self.upsert.key
        return FieldSpec(column.name, column.type, self._needed(column), key, source)

    def _from_source(self, include: Include) -> FieldSpec:
        """INCLUDE source 'x', table_name and the like: a field of the event's source."""
        return self._spec(self._made_by(include), SOURCE_FIELDS.get(include.what, include.inner))

    def _carried(self, include: Include) -> Carried:
        spec = self._spec(self._made_by(include))
        return Carried(
            RAW_OF_INCLUDE.get(include.what, include.what), spec.name, spec.type, spec.key
        )

    def _made_by(self, include: Include) -> Column:
        name = self.ingest.name_of(include)
        return next(c for c in self.object.columns if c.name == name)

    def _counts(self, raw: DataFrame) -> Counts:
        counter = raw.sparkSession.sparkContext.accumulator
        if isinstance(self.decoding, ChangeDecoding) and self.decoding.decoder.partial:
            return Counts(counter(0), counter(0), counter(0), counter(0))
        return Counts(counter(0), counter(0))

    def _in_order(self, frame: DataFrame) -> DataFrame:
        """Changes with their columns in the order of the table's."""
        names = [c.name for c in self.object.columns if c.generated is None]
        marks = [n for n in CHANGE_SCHEMA if n in frame.columns]
        return frame.select(*map(backtick, [*names, *marks]))

    def _needed(self, column: Column) -> bool:
        """Whether a row must have that column."""
        return column.not_null or (self.upsert is not None and column.name in self.upsert.key)

    def _complete(self) -> F.Column:
        needed = [F.col(backtick(c.name)).isNotNull() for c in self._declared() if self._needed(c)]
        condition = F.lit(True)
        for part in needed:
            condition = condition & part
        return condition


def _upserts(frame: DataFrame) -> DataFrame:
    """Typed rows as changes, each of which puts its row there."""
    marks = {
        OP: F.lit(UPSERT),
        STREAM: F.lit(""),
        PARTITION: F.lit(0),
        OFFSET: F.monotonically_increasing_id(),
    }
    return frame.withColumns({n: c.cast(CHANGE_SCHEMA[n]) for n, c in marks.items()})
