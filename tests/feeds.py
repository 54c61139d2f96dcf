"""Tables that are fed by files, and views over them: what the tests of views write, run and read.

A table with a key gets Debezium events, one without a key plain rows. A home is run with one `Engine` after the other,
as users stop and resume it.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.sql import SparkSession

from icestream.config import EngineSettings, Home
from icestream.engine import Engine
from tests.duck import bag
from tests.engine import lake_table

Row = tuple[Any, ...]
Event = tuple[Row | None, Row | None]  # before, after
HIDDEN = "_icestream_"


class Feed:
    """One table's folder of JSON files."""

    def __init__(self, root: Path, name: str, columns: Sequence[str], *, keyed: bool) -> None:
        self.folder = root / name
        self.folder.mkdir(parents=True)
        self.columns = columns
        self.keyed = keyed
        self.files = 0

    @property
    def clause(self) -> str:
        """What follows the columns in CREATE TABLE."""
        format = "DEBEZIUM" if self.keyed else "PLAIN"
        return (
            f"WITH (connector = 'file', path = '{self.folder}', match_pattern = '*.json') "
            f"FORMAT {format} ENCODE JSON"
        )

    def write(self, events: Sequence[Event]) -> None:
        """One more file, unless there is nothing to say."""
        lines = [json.dumps(self._record(*event)) for event in events]
        if lines:
            self.files += 1
            file = self.folder / f"{self.files:06}.json"
            file.with_suffix(".tmp").write_text("\n".join(lines) + "\n")
            file.with_suffix(".tmp").rename(file)

    def _record(self, before: Row | None, after: Row | None) -> dict[str, Any]:
        old, new = (self._object(row) for row in (before, after))
        if not self.keyed:
            assert new is not None, "rows of a table without a key stay"
            return new
        op = "c" if before is None else "d" if after is None else "u"
        return {"before": old, "after": new, "op": op, "ts_ms": 1_700_000_000_000}

    def _object(self, row: Row | None) -> dict[str, Any] | None:
        if row is None:
            return None
        return dict(zip(self.columns, map(_json, row), strict=True))


def _json(value: Any) -> Any:
    match value:
        case Decimal():
            return str(value)
        case float() if value != value:
            return "NaN"
        case datetime():
            return value.isoformat(sep=" ")
    return value


class Running:
    """A home, and the engine that runs it now."""

    def __init__(self, home: Path, spark: SparkSession) -> None:
        self.home = home
        self.spark = spark
        self.engine = self._start()

    def _start(self) -> Engine:
        return Engine(
            Home.at(self.home), EngineSettings(), application=self.spark, allow_paths=["/"]
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.engine.close()

    def resume(self) -> None:
        """Stop, and go on with another engine on the same home."""
        self.engine.close()
        self.engine = self._start()

    def execute(self, script: str) -> None:
        """Run statements."""
        self.engine.execute(script)

    def rows(self, query: str) -> Counter[Row]:
        """What the engine gives for a query."""
        return bag(self.engine.execute(query)[-1].rows or ())

    def epoch(self) -> None:
        """Take in everything that has been written."""
        self.engine.run(threading.Event(), once=True)

    def content(self, view: str) -> Counter[Row]:
        """The rows of a stored view, read by PyIceberg, without the columns of the engine's own."""
        table = lake_table(self.home, f"public.{view}")
        names = [f.name for f in table.schema().fields if not f.name.startswith(HIDDEN)]
        read = table.scan(selected_fields=tuple(names)).to_arrow()
        return bag(zip(*(read[name].to_pylist() for name in names), strict=True))
