"""Any Spark streaming source: landed in an Iceberg table first, whose snapshot ranges are then the source.

A plain Structured Streaming query copies what has arrived into `lake.icestream.landed_<id>`. Exactly once: the query's
checkpoint and Iceberg's own memory of (query, batch) in the table's snapshots make a repeated batch a no-op. Both
must belong together: a checkpoint that is lost while the table has rows is an error, never a second copy.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from icestream.connectors.base import Context, Source, SourceConnector
from icestream.connectors.iceberg import SnapshotRanges
from icestream.errors import ConnectorError, NotSupportedError, RangeLostError, SqlError
from icestream.lake.catalogs import LAKE, OWNER, SYSTEM, TABLE_PROPERTIES
from icestream.lake.jvm import java_message
from icestream.lake.stamp import Offset
from icestream.sql.options import OptionSpec, PrefixSpec, Settings
from icestream.types import backtick, spark_type

QUERY = "icestream.landing-query"
"""Table property: the id of the query that fills the table."""

WITH_SCHEMA = ("json", "csv", "parquet", "orc", "xml")  # they must be told their columns
IN_BACKGROUND = ("socket",)  # they have nothing to pull once they are asked: they push


def landed_table(key: str) -> str:
    """The name of a source's landing table in the lake's own namespace."""
    return f"landed_{key.rpartition('#')[2]}"


class LandedSource(Source):
    """A streaming source through its landing table."""

    raw = False

    def __init__(self, context: Context) -> None:
        self.name = context.name
        self.key = context.key
        self.spark = context.spark
        self.lake = context.lake
        self.format = context.settings.string("format")
        self.options = context.settings.under("option.")
        self.interval = context.settings.number("landing.interval")
        self.columns = [(c.name, c.type) for c in context.columns if c.generated is None]
        self.table = context.lake.table(LAKE, SYSTEM, landed_table(context.key), owned=False)
        self.ranges = SnapshotRanges(context.name, self.table, self.columns)
        self.checkpoint = _home(self.spark) / "landing" / landed_table(context.key)
        self._query: Any = None
        self._next_pull = 0.0

    def start(self) -> Offset:
        """Before the first landed row; makes the landing table."""
        self._prepare()
        return self.ranges.start()

    def latest(self, since: Offset) -> Offset:
        """Land what has arrived, then the landing table's newest snapshot."""
        self._prepare()
        if self.format in IN_BACKGROUND:
            self._keep_running()
        elif time.monotonic() >= self._next_pull:
            self._pull()
            self._next_pull = time.monotonic() + self.interval
        return self.ranges.latest(since)

    def advance(self, since: Offset, end: Offset, limit: int | None) -> Offset:
        """Whole snapshots of the landing table, at least one."""
        return self.ranges.advance(since, end, limit)

    def count(self, start: Offset, end: Offset) -> int | None:
        """The rows that were landed in the range."""
        return self.ranges.count(start, end)

    def read(self, start: Offset, end: Offset, columns: Sequence[str]) -> DataFrame:
        """Landed rows: the declared columns by name."""
        return self.ranges.read(start, end, columns)

    def close(self) -> None:
        """Stop a query in the background."""
        if self._query is not None:
            self._query.stop()
            self._query = None

    # -- landing ---------------------------------------------------------------------------------

    def _stream(self) -> DataFrame:
        reader = self.spark.readStream.format(self.format).options(**self.options)
        if self.format in WITH_SCHEMA:
            reader = reader.schema(
                ", ".join(f"{backtick(n)} {spark_type(t)}" for n, t in self.columns)
            )
        try:
            return reader.load()
        except (Py4JJavaError, PySparkException) as error:
            raise self._failed(error) from error

    def _prepare(self) -> None:
        """Make the landing table with the stream's own columns."""
        if self.lake.exists(self.table):
            return
        self.lake.create_namespace(self.table.parts[:-1])
        empty = self.spark.createDataFrame([], self._stream().schema)
        writer = empty.writeTo(self.table.sql).using("iceberg")
        properties = TABLE_PROPERTIES | {"format-version": "3", OWNER: self.key}
        for key, value in properties.items():
            writer = writer.tableProperty(key, value)
        try:
            writer.create()
        except (Py4JJavaError, PySparkException) as error:
            raise self._failed(error) from error

    def _pull(self) -> None:
        """Run the query until all that was there when it began is landed."""
        query = self._begin(self._stream().writeStream.trigger(availableNow=True))
        try:
            query.awaitTermination()
        except (Py4JJavaError, PySparkException) as error:
            raise self._failed(error) from error

    def _keep_running(self) -> None:
        """Start the query if it is not running; raise what made it stop."""
        if self._query is not None and (error := self._query.exception()) is not None:
            raise self._failed(error)
        if self._query is None:
            trigger = f"{max(self.interval, 0.1):g} seconds"
            self._query = self._begin(self._stream().writeStream.trigger(processingTime=trigger))

    def _begin(self, writer: Any) -> Any:
        self._check_checkpoint()
        options = {"checkpointLocation": self.checkpoint.as_uri(), "fanout-enabled": "true"}
        try:
            query = writer.options(**options).format("iceberg").toTable(self.table.sql)
        except (Py4JJavaError, PySparkException) as error:
            raise self._failed(error) from error
        if dict(self.table.load().properties()).get(QUERY) is None:
            self.spark.sql(
                f"ALTER TABLE {self.table.sql} SET TBLPROPERTIES ('{QUERY}' = '{query.id}')"
            )
        return query

    def _check_checkpoint(self) -> None:
        """The checkpoint must be the one that filled the table."""
        try:
            present = json.loads((self.checkpoint / "metadata").read_text())["id"]
        except (OSError, ValueError, KeyError):
            present = None
        recorded = dict(self.table.load().properties()).get(QUERY)
        if recorded is None and self.table.head() is None:
            return
        if present is None or (recorded is not None and recorded != present):
            raise RangeLostError(
                f"source {self.name}: the landing checkpoint {self.checkpoint} is not the one that "
                f"filled {self.table.name}; going on would copy rows twice",
                object=self.name,
                remedy="restore the directory, or drop the source and create it again",
            )

    def _failed(self, error: Exception) -> ConnectorError:
        text = java_message(error) if isinstance(error, Py4JJavaError) else str(error).strip()
        first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
        return ConnectorError(
            f"source {self.name}: Spark's streaming source {self.format!r} failed: {first}",
            object=self.name,
            remedy="check format and option.*",
        )


def _home(spark: Any) -> Path:
    """The home directory, found through its embedded lake."""
    warehouse = spark.conf.get(f"spark.sql.catalog.{LAKE}.warehouse")
    return Path(unquote(urlsplit(warehouse).path)).parent.parent


def check(settings: Settings) -> None:
    """A short name of a format: a class name would load code."""
    format = settings.string("format")
    if not all(c.isalnum() or c in "-_" for c in format):
        raise SqlError(
            f"format accepts a name such as 'rate-micro-batch' or 'json', not {format!r}",
            place=settings.place("format"),
        )
    if format.lower() in ("console", "memory", "noop"):
        raise NotSupportedError(f"format = '{format}' as a source", place=settings.place("format"))


SOURCE = SourceConnector(
    name="spark",
    options=(
        OptionSpec("format", required=True, help="the name of Spark's streaming source"),
        PrefixSpec("option.", "options of that source"),
        OptionSpec(
            "landing.interval", "seconds", 1.0, "time between two looks at the source", least=0
        ),
        OptionSpec(
            "source_rate_limit", "int", help="rows a second that are taken at most", least=1
        ),
    ),
    open=LandedSource,
    check=check,
)
