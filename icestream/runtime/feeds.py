"""Open feeds: a source connector together with the decoding of its records into the declared columns."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import Accumulator, StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from icestream.catalog.graph import Feed
from icestream.catalog.objects import DEAD_LETTER_COLUMNS, Ingest
from icestream.connectors.base import RAW, Column, Context, Source
from icestream.connectors.formats import FieldSpec
from icestream.connectors.formats.registry import decoder
from icestream.connectors.registry import source_connector
from icestream.functions.spark import render
from icestream.lake.catalogs import Lake
from icestream.lake.stamp import Range
from icestream.runtime.decode import Carried, Decoding
from icestream.types import Type, backtick, spark_type

RAW_OF_INCLUDE = {"payload": "value", "header": "headers", "file": "stream"}


@dataclass
class Rows:
    """The decoded rows of one range, and how many records of it did not decode (known once it was read)."""

    frame: DataFrame
    bad: Accumulator[int] | None
    shared: bool = False

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
        ingest = feed.object.ingest
        assert ingest is not None
        self.ingest: Ingest = ingest
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
        return self.ingest.settings.get("source_rate_limit")

    def rows(self, range: Range, now: str) -> Rows:
        """The rows of a range; nothing is read until the frame is used. `now` is the epoch's time in Spark SQL."""
        if self.decoding is None:
            frame = self.source.read(range.start, range.end, [c.name for c in self._declared()])
            return Rows(self._generate(frame.filter(self._complete()), now), None)
        raw = self.source.read(range.start, range.end, self.decoding.raw_columns())
        bad = raw.sparkSession.sparkContext.accumulator(0)
        return Rows(self._generate(self.decoding.good(raw, bad), now), bad)

    def letters(self, range: Range) -> DataFrame:
        """The dead letters of a range."""
        if self.decoding is not None:
            raw = self.source.read(range.start, range.end, list(RAW))
            return self.decoding.bad(raw)
        names = [c.name for c in self._declared()]
        frame = self.source.read(range.start, range.end, names).filter(~self._complete())
        known = {
            "stream": F.lit(self.object.name),
            "payload": F.to_json(F.struct(*map(backtick, names))).cast("binary"),
            "reason": F.lit("a column that is declared NOT NULL is NULL"),
        }
        columns = [
            known.get(n, F.lit(None)).cast(spark_type(t)).alias(n) for n, t in DEAD_LETTER_COLUMNS
        ]
        return frame.select(*columns)

    def may_have_letters(self, rows: Rows) -> bool:
        """Whether, after reading, dead letters have to be looked for in the same range."""
        if self.decoding is None:
            return any(c.not_null for c in self._declared())
        return rows.bad is None or bool(rows.bad.value)

    def close(self) -> None:
        """Close the connector."""
        self.source.close()

    def _declared(self) -> tuple[Column, ...]:
        """The columns that the outside fills: neither generated nor included."""
        included = {name for _, name, _ in self._included()}
        return tuple(
            c for c in self.object.columns if c.generated is None and c.name not in included
        )

    def _included(self) -> list[tuple[str, str, Type]]:
        """(raw column, column name, type) of each INCLUDE."""
        types = {c.name: c.type for c in self.object.columns}
        result = []
        for include in self.ingest.includes:
            name = self.ingest.name_of(include)
            result.append((RAW_OF_INCLUDE.get(include.what, include.what), name, types[name]))
        return result

    def _decoding(self) -> Decoding:
        fields = tuple(FieldSpec(c.name, c.type, c.not_null) for c in self._declared())
        carried = tuple(Carried(*item) for item in self._included())
        assert self.ingest.format
        assert self.ingest.encode
        assert self.ingest.encode_settings is not None
        chosen = decoder(
            self.ingest.format, self.ingest.encode, fields, self.ingest.encode_settings
        )
        return Decoding(chosen, carried)

    def _complete(self) -> F.Column:
        needed = [F.col(backtick(c.name)).isNotNull() for c in self._declared() if c.not_null]
        condition = F.lit(True)
        for part in needed:
            condition = condition & part
        return condition

    def _generate(self, frame: DataFrame, now: str) -> DataFrame:
        """All columns in their declared order, the generated ones computed."""
        columns = self.object.columns
        if all(c.generated is None for c in columns):
            return frame.select(*[F.col(backtick(c.name)) for c in columns])
        texts = [render(c.generated, now=now) if c.generated else backtick(c.name) for c in columns]
        return frame.selectExpr(
            *[f"{t} AS {backtick(c.name)}" for t, c in zip(texts, columns, strict=True)]
        )
