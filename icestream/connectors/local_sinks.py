"""Sinks for trying things out: `print` shows rows on standard output, `blackhole` computes and forgets them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, Row

from icestream.connectors.base import Context, Sink, SinkConnector
from icestream.sql.options import OptionSpec

TYPE_OPTIONS = (
    OptionSpec(
        "type", default="append-only", choices=("append-only",), help="how rows are written"
    ),
    OptionSpec("force_append_only", "bool", False, "write inserts and drop updates and deletes"),
)


class PrintSink(Sink):
    """One line a row, at most `rows` an epoch. At least once: a repeated epoch is printed again."""

    def __init__(self, context: Context, out: Callable[[str], object] = print) -> None:
        self.name = context.name
        self.rows = context.settings.integer("rows")
        self.out = out

    def write(self, frame: DataFrame, epoch: int) -> int:
        """Print the epoch's first rows and how many more there are."""
        frame = frame.persist()
        try:
            shown = frame.limit(self.rows).collect()
            total = frame.count() if len(shown) == self.rows else len(shown)
        finally:
            frame.unpersist()
        for row in shown:
            self.out(f"{self.name} | {line(row)}")
        if total > len(shown):
            self.out(f"{self.name} | … {total - len(shown)} more in epoch {epoch}")
        return total


class BlackholeSink(Sink):
    """Every row is computed, none is kept."""

    def __init__(self, context: Context) -> None:
        self.name = context.name

    def write(self, frame: DataFrame, epoch: int) -> None:
        """Compute the rows."""
        frame.write.format("noop").mode("overwrite").save()


def line(row: Row) -> str:
    """A row as one line of JSON-like text."""
    return json.dumps(row.asDict(recursive=True), ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return "\\x" + bytes(value).hex()
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


PRINT = SinkConnector(
    "print",
    (
        *TYPE_OPTIONS,
        OptionSpec("rows", "int", 20, "rows of an epoch that are printed at most", least=0),
    ),
    PrintSink,
)
BLACKHOLE = SinkConnector("blackhole", TYPE_OPTIONS, BlackholeSink)
