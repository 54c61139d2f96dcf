"""Tables that statements fill: the log of statements (`lake.dml_log`) as a source of the pipeline.

A position is the number of the last entry that was read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from icestream.connectors.base import Context, Source, SourceConnector
from icestream.errors import RangeLostError
from icestream.lake.dml_log import Entry, column_of
from icestream.lake.fold import CHANGE_SCHEMA, OFFSET, OP, PARTITION, STREAM, UNSET
from icestream.lake.position import Offset
from icestream.types import backtick, spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "dml"


class DmlSource(Source):
    """The entries of one table."""

    raw = False
    is_local = True
    gives_changes = True

    def __init__(self, context: Context) -> None:
        self.name = context.name
        self.spark = context.spark
        self.columns = context.columns
        self.key = context.key
        self.lake = context.lake
        self.log = context.lake.dml

    def start(self) -> Offset:
        """Nothing has been read."""
        return {"entry": 0}

    def latest(self, since: Offset) -> Offset:
        """The newest entry of the table in the present cut. What was read may be deleted from the log."""
        if self.log.head < since["entry"]:
            raise RangeLostError(
                f"table {self.name}: entry {since['entry']} of the log of statements was read, "
                f"but {self.log.head} is the newest",
                object=self.name,
                remedy="restore the folder dml of the home, or drop the table and create it again",
            )
        return {"entry": max(since["entry"], self.log.last_bound(self.key))}

    def advance(self, since: Offset, end: Offset, limit: int | None) -> Offset:
        """An entry is never cut."""
        return end

    def read(self, start: Offset, end: Offset, columns: Sequence[str]) -> DataFrame:
        """The changes of the entries: the columns, and those of `CHANGE_SCHEMA`."""
        types = {c.name: spark_type(c.type) for c in self.columns}
        column = column_of(self.key)
        fields = [f"{backtick(n)}: {types[n]}" for n in columns]
        fields += [f"{name}: {CHANGE_SCHEMA[name]}" for name in (OP, UNSET)]
        schema = f"{column} STRUCT<{', '.join(fields)}>, {OFFSET} BIGINT"
        files = [str(self.log.path(e.number)) for e in self._entries(start, end)]
        frame = (
            self.spark.read.schema(schema).parquet(*files)
            if files
            else self.spark.createDataFrame([], schema)
        )
        marks = {OP: f"{column}.{OP}", STREAM: "''", PARTITION: "0", OFFSET: OFFSET}
        if self.leaves_unset(start, end):
            marks[UNSET] = f"{column}.{UNSET}"
        return frame.filter(f"{column} IS NOT NULL").selectExpr(
            *[f"{column}.{backtick(n)} AS {backtick(n)}" for n in columns],
            *[f"CAST({text} AS {CHANGE_SCHEMA[n]}) AS {n}" for n, text in marks.items()],
        )

    def count(self, start: Offset, end: Offset) -> int:
        """Rows of the entries that are still in the log."""
        column = column_of(self.key)
        return sum(entry.tables[column] for entry in self._entries(start, end))

    def leaves_unset(self, start: Offset, end: Offset) -> bool:
        """Whether changes of the range leave columns alone."""
        column = column_of(self.key)
        return any(column in entry.partial for entry in self._entries(start, end))

    def acknowledge(self, end: Offset) -> None:
        """What the table durably holds need not be in the log. Every file of a commit was synced when it was closed; on a
        Spark application of others all files are synced now."""
        if not self.log.is_needed(self.key, end["entry"]):
            return
        if not self.lake.is_synced:
            os.sync()
        self.log.forget(self.key, end["entry"])

    def _entries(self, start: Offset, end: Offset) -> list[Entry]:
        return self.log.entries(self.key, start["entry"], end["entry"])


SOURCE = SourceConnector(name=NAME, options=(), open=DmlSource)
