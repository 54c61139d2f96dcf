"""Rows that statements put into a table: a durable log of entries, which the pipeline reads like any other source.

An entry is what one INSERT, UPDATE or DELETE does, as a Parquet file: rows, and whether each comes or goes. It is there
for good once its file has its final name. A position is the number of the last entry that was read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from icestream.connectors.base import Context, Source, SourceConnector
from icestream.errors import FencedError, RangeLostError
from icestream.lake.fold import CHANGE_SCHEMA, OFFSET, OP, PARTITION, STREAM
from icestream.lake.stamp import Offset
from icestream.types import (
    backtick,
    spark_type,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "dml"
ROWS_OF_AN_ENTRY = 1 << 32
"""Places that an entry has for its rows in the order of all changes."""


class DmlLog:
    """The entries of one table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of(cls, home: Path, key: str) -> DmlLog:
        """The log of a table of that key."""
        return cls(home / NAME / key.replace("#", "-"))

    def last(self) -> int:
        """The number of the newest entry; 0 if there has been none."""
        return max(self.entries(), default=0)

    def entries(self) -> list[int]:
        """The entries that are kept, in order."""
        if not self.folder.is_dir():
            return []
        return sorted(int(p.stem) for p in self.folder.glob("*.parquet"))

    def file(self, number: int) -> Path:
        """Where an entry is."""
        return self.folder / f"{number:012}.parquet"

    def append(self, rows: pa.Table, ops: Sequence[int]) -> int:
        """Add an entry; it is durable when this returns. Gives its number. One writer at a time."""
        self.folder.mkdir(parents=True, exist_ok=True)
        number = self.last() + 1
        places = range(number * ROWS_OF_AN_ENTRY, number * ROWS_OF_AN_ENTRY + len(rows))
        rows = rows.append_column(OP, pa.array(ops, pa.int8()))
        rows = rows.append_column(OFFSET, pa.array(places, pa.int64()))
        made = self.folder / f"{number:012}-{os.getpid()}.tmp"
        with made.open("wb") as out:
            pq.write_table(rows, out, compression="zstd")
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(made, self.file(number))  # fails where another process has been faster
        except FileExistsError:
            raise FencedError(
                "another process has taken over this home; nothing was written"
            ) from None
        finally:
            made.unlink()
        return number

    def forget(self, before: int) -> None:
        """Delete entries up to a number; the newest stays, so that numbers go on."""
        for number in self.entries()[:-1]:
            if number <= before:
                self.file(number).unlink(missing_ok=True)


class DmlSource(Source):
    """The log of a table, as the pipeline reads it."""

    raw = False
    gives_changes = True

    def __init__(self, context: Context) -> None:
        from icestream.lake.catalogs import (
            home_of,  # with Spark, which binding a table does without
        )

        self.name = context.name
        self.spark = context.spark
        self.columns = context.columns
        self.log = DmlLog.of(home_of(context.spark), context.key)

    def start(self) -> Offset:
        """Nothing has been read."""
        return {"entry": 0}

    def latest(self, since: Offset) -> Offset:
        """The newest entry."""
        last = self.log.last()
        if last < since["entry"]:
            raise RangeLostError(
                f"table {self.name}: entry {since['entry']} of its log was read, but {last} is the newest",
                object=self.name,
                remedy="restore the folder dml of the home, or drop the table and create it again",
            )
        return {"entry": last}

    def advance(self, since: Offset, end: Offset, limit: int | None) -> Offset:
        """An entry is never cut."""
        return end

    def read(self, start: Offset, end: Offset, columns: Sequence[str]) -> DataFrame:
        """The changes of the entries: the columns, and those of `CHANGE_SCHEMA`."""
        types = {c.name: spark_type(c.type) for c in self.columns}
        names = [f"{backtick(n)} {types[n]}" for n in columns]
        schema = ", ".join([*names, f"{OP} TINYINT", f"{OFFSET} BIGINT"])
        files = [str(self.log.file(n)) for n in range(start["entry"] + 1, end["entry"] + 1)]
        if not files:
            frame = self.spark.createDataFrame([], schema)
        else:
            frame = self.spark.read.schema(schema).parquet(*files)
        marks = {OP: OP, STREAM: "''", PARTITION: "0", OFFSET: OFFSET}
        return frame.selectExpr(
            *map(backtick, columns),
            *[f"CAST({text} AS {CHANGE_SCHEMA[n]}) AS {n}" for n, text in marks.items()],
        )

    def count(self, start: Offset, end: Offset) -> int:
        """Rows of the entries, those aside that are in the table already and forgotten here."""
        kept = [n for n in self.log.entries() if start["entry"] < n <= end["entry"]]
        return sum(pq.read_metadata(self.log.file(n)).num_rows for n in kept)

    def acknowledge(self, end: Offset) -> None:
        """What is in the table need not be in the log."""
        self.log.forget(end["entry"])


SOURCE = SourceConnector(name=NAME, options=(), open=DmlSource)
