"""Spark's streaming sources: landed in an Iceberg table first, whose snapshot ranges are then the source.

A plain Structured Streaming query copies what has arrived into `lake.icestream.landed_<id>`. Exactly once: the query's
checkpoint and Iceberg's own memory of (query, batch) in the table's snapshots make a repeated batch a no-op. Both
must belong together: a checkpoint that is lost while the table has rows is an error, never a second copy.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from icestream.connectors.base import Context, Source, SourceConnector
from icestream.connectors.iceberg import SnapshotRanges
from icestream.connectors.landed_options import OPTIONS, check, named_files
from icestream.errors import ConnectorError, RangeLostError
from icestream.file_access import INSUFFICIENT_PRIVILEGE, local_path
from icestream.identity import ObjectKey
from icestream.lake.access import access_of, home_of, landing_folder
from icestream.lake.catalogs import LAKE, OWNER, SYSTEM, TABLE_PROPERTIES, literal
from icestream.lake.jvm import columns_ddl, java_message, list_files
from icestream.lake.position import Offset
from icestream.lake.table import LakeTable
from icestream.types import backtick, spark_type

QUERY = "icestream.landing-query"
"""Table property: the id of the query that fills the table."""

WITH_SCHEMA = ("json", "csv", "parquet", "orc", "xml")  # they must be told their columns


def landed_table(key: str) -> str:
    """The name of a source's landing table in the lake's own namespace."""
    return f"landed_{ObjectKey(key).id}"


class LandedSource(Source):
    """A streaming source through its landing table."""

    raw = False

    def __init__(self, context: Context) -> None:
        self.name = context.name
        self.key = context.key
        self.spark = context.spark
        self.lake = context.lake
        self.format = context.settings.string("format").lower()
        self.options = {k.lower(): v for k, v in context.settings.under("option.").items()}
        if os.path.islink(path := self.options.get("path", "")):
            self.options["path"] = os.path.realpath(path)  # a folder behind a link is not listed
        self.interval = context.settings.number("landing.interval")
        self.columns = [(c.name, c.type) for c in context.columns if c.generated is None]
        self.table = context.lake.table(LAKE, SYSTEM, landed_table(context.key), owned=False)
        self.ranges = SnapshotRanges(context.name, self.table, self.columns)
        self.checkpoint = landing_folder(home_of(self.spark)) / landed_table(context.key)
        self._next_pull = 0.0

    def start(self) -> Offset:
        """Before the first landed row; makes the landing table."""
        self._prepare()
        return self.ranges.start()

    def latest(self, since: Offset) -> Offset:
        """Land what has arrived, then the landing table's newest snapshot."""
        self._prepare()
        if time.monotonic() >= self._next_pull:
            self._pull()
            self._next_pull = time.monotonic() + self.interval
        return self.ranges.latest(since)

    def advance(self, since: Offset, end: Offset, limit: int | None) -> Offset:
        """Whole snapshots of the landing table, at least one."""
        return self.ranges.advance(since, end, limit)

    def reset(self, since: Offset) -> Offset:
        """See SnapshotRanges."""
        return self.ranges.reset(since)

    def tables(self) -> list[LakeTable]:
        """The table that the stream lands in."""
        return [self.table]

    def count(self, start: Offset, end: Offset) -> int | None:
        """The rows that were landed in the range."""
        return self.ranges.count(start, end)

    def read(self, start: Offset, end: Offset, columns: Sequence[str]) -> DataFrame:
        """Landed rows: the declared columns by name."""
        return self.ranges.read(start, end, columns)

    # -- landing ---------------------------------------------------------------------------------

    def _stream(self) -> DataFrame:
        self._check_files()
        reader = self.spark.readStream.format(self.format).options(**self.options)
        if self.format in WITH_SCHEMA:
            reader = reader.schema(
                ", ".join(f"{backtick(n)} {spark_type(t)}" for n, t in self.columns)
            )
        try:
            return reader.load()
        except (Py4JJavaError, PySparkException) as error:
            raise self._failed(error) from error

    def _check_files(self) -> None:
        """Raise unless every file that Spark would list now is allowed. Called before each look at the source."""
        path = local_path(self.options.get("path", "none:"))
        if path is None:
            return
        try:
            found = list_files(self.spark, path)
        except Py4JJavaError as error:
            raise self._failed(error) from error
        access = access_of(self.spark)
        for status in found:
            lost = access.find_forbidden(local_path(str(status.getPath())) or "")
            if lost is not None:
                raise ConnectorError(
                    f"source {self.name}: {lost} leads outside the allowed directories or into the home",
                    object=self.name,
                    remedy="remove it, or allow the directory that it leads to with --allow-path",
                    code=INSUFFICIENT_PRIVILEGE,
                )

    def _prepare(self) -> None:
        """Make the landing table, with the stream's own columns, and name the query that will fill it."""
        if self.lake.exists(self.table):
            return
        shutil.rmtree(self.checkpoint, ignore_errors=True)
        self.lake.create_namespace(self.table.parts[:-1])
        columns = columns_ddl(self._stream())
        properties = TABLE_PROPERTIES | {
            "format-version": "3",
            OWNER: self.key,
            QUERY: str(uuid.uuid4()),
        }
        listed = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in properties.items())
        try:
            self.spark.sql(
                f"CREATE TABLE {self.table.sql} ({columns}) USING iceberg TBLPROPERTIES ({listed})"
            )
        except (Py4JJavaError, PySparkException) as error:
            raise self._failed(error) from error

    def _pull(self) -> None:
        """Run the query until all that was there when it began is landed."""
        query = self._begin(self._stream().writeStream.trigger(availableNow=True))
        try:
            query.awaitTermination()
        except (Py4JJavaError, PySparkException) as error:
            raise self._failed(error) from error

    def _begin(self, writer: Any) -> Any:
        self._check_checkpoint()
        options = {"checkpointLocation": self.checkpoint.as_uri(), "fanout-enabled": "true"}
        try:
            return writer.options(**options).format("iceberg").toTable(self.table.sql)
        except (Py4JJavaError, PySparkException) as error:
            raise self._failed(error) from error

    def _check_checkpoint(self) -> None:
        """The checkpoint must be that of the query that fills the table; before the first row, it is made so."""
        metadata = self.checkpoint / "metadata"
        java = self.table.load()
        query = dict(java.properties())[QUERY]
        if metadata.exists() and json.loads(metadata.read_text()).get("id") == query:
            return
        head = self.table.head(java)
        if head is not None:
            raise RangeLostError(
                f"source {self.name}: the landing checkpoint {self.checkpoint} is not the one that "
                f"filled {self.table.name}; going on would copy rows twice",
                object=self.name,
                remedy="restore the directory, or drop the source and create it again",
            )
        self.checkpoint.mkdir(parents=True, exist_ok=True)
        metadata.write_text(json.dumps({"id": query}))

    def _failed(self, error: Exception) -> ConnectorError:
        text = java_message(error) if isinstance(error, Py4JJavaError) else str(error).strip()
        first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
        return ConnectorError(
            f"source {self.name}: Spark's streaming source {self.format!r} failed: {first}",
            object=self.name,
            remedy="check format and option.*",
        )


SOURCE = SourceConnector(
    name="spark", options=OPTIONS, open=LandedSource, check=check, named_files=named_files
)
