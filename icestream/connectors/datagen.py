"""Made-up rows: a source for demos and tests that needs nothing outside.

Row i is a pure function of the seed, the column and i, computed by Spark where it is needed, so any range can be
read again, and every reader of a source sees the same rows. An offset is {"rows": i}; the timestamps of row i
lie before BASE + i / rate. (Offsets of older homes also hold their own "base".)
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from pyspark.sql import DataFrame

from icestream.connectors.base import Column, Context, Source, SourceConnector
from icestream.connectors.datagen_fields import Generator
from icestream.errors import SqlError
from icestream.lake.position import Offset
from icestream.sql.options import OptionSpec, PrefixSpec, Settings
from icestream.types import backtick

BASE = 1_704_067_200_000_000
"""The time of row 0, unless a column has its own: 2024-01-01 in UTC, in microseconds."""
SPLIT_ABOVE = 20_000  # rows in a range before it is split among tasks


class DatagenSource(Source):
    """Rows that come at a steady rate, for ever or up to `rows`."""

    raw = False
    is_local = True

    def __init__(self, context: Context) -> None:
        settings = context.settings
        self.spark = context.spark
        self.rate = settings.number("datagen.rows.per.second")
        self.splits = settings.integer("datagen.split.num")
        self.bound: int | None = settings["rows"]
        self.at_once = self.bound is not None and not settings.given("datagen.rows.per.second")
        self.generator = Generator(settings, context.columns, self.rate)
        self._origin: tuple[float, int] | None = None

    def start(self) -> Offset:
        """The first row."""
        return {"rows": 0}

    def latest(self, since: Offset) -> Offset:
        """As many rows as the time since the first call allows, and a second's more, so that there are rows at the
        first call; with `rows` and no rate, all of them."""
        if self.at_once:
            return self._at(since, self.bound or 0)
        if self._origin is None:
            self._origin = (time.monotonic(), since["rows"])
        began, first = self._origin
        ready = max(1, int((time.monotonic() - began + 1) * self.rate))
        return self._at(since, first + ready)

    def _at(self, since: Offset, rows: int) -> Offset:
        if self.bound is not None:
            rows = min(rows, self.bound)
        return {**since, "rows": max(rows, since["rows"])}

    def advance(self, since: Offset, end: Offset, limit: int | None) -> Offset:
        """At most `limit` rows on."""
        rows = end["rows"] if limit is None else min(end["rows"], since["rows"] + limit)
        return {**end, "rows": rows}

    def count(self, start: Offset, end: Offset) -> int:
        """The rows of the range, exactly."""
        return int(end["rows"] - start["rows"])

    def read(self, start: Offset, end: Offset, columns: Sequence[str]) -> DataFrame:
        """The rows of the range."""
        rows = self.count(start, end)
        splits = max(self.splits, self.spark.sparkContext.defaultParallelism)
        ids = self.spark.range(start["rows"], end["rows"], 1, splits if rows > SPLIT_ABOVE else 1)
        base = int(start.get("base", BASE))
        return ids.selectExpr(
            *[f"{self.generator.expression(c, base)} AS {backtick(c)}" for c in columns]
        )


def check(settings: Settings) -> None:
    """A rate above zero."""
    if settings.number("datagen.rows.per.second") <= 0:
        raise SqlError(
            "datagen.rows.per.second accepts a number above 0",
            place=settings.place("datagen.rows.per.second"),
        )


def check_columns(settings: Settings, columns: Sequence[Column]) -> None:
    """Every fields.* option fits a column, and every column can be made up."""
    Generator(settings, columns, settings.number("datagen.rows.per.second"))


SOURCE = SourceConnector(
    name="datagen",
    options=(
        OptionSpec("datagen.rows.per.second", "float", 10.0, "how many rows come in a second"),
        OptionSpec("datagen.split.num", "int", 1, "tasks that make rows, at least", least=1),
        OptionSpec(
            "rows",
            "int",
            help="the last row: the source ends there; without a rate, at once",
            least=0,
        ),
        OptionSpec("seed", "int", 0, "another seed gives other rows"),
        OptionSpec(
            "source_rate_limit", "int", help="rows a second that are taken at most", least=1
        ),
        PrefixSpec(
            "fields.",
            "fields.<column>.kind, .start, .end, .min, .max, .length, .max_past, .basetime, .seed",
        ),
    ),
    open=DatagenSource,
    check=check,
    check_columns=check_columns,
)
