"""icestream from Python, in this process:

with icestream.connect("shop") as db:
    db.execute("CREATE MATERIALIZED VIEW …")
    db.flush()
    db.sql("SELECT * FROM by_region").to_pandas()
    for change in db.subscribe("by_region"): …
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from icestream.catalog.objects import MaterializedView, Table
from icestream.config import DEFAULT_HOME, EngineSettings, Home
from icestream.engine import Engine
from icestream.errors import SqlError
from icestream.plan.logical import Node
from icestream.plan.query import bind_query
from icestream.result import Result
from icestream.runtime.background import Background
from icestream.sql import parse
from icestream.sql import statements as st

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

INSERT, DELETE = "insert", "delete"
POLL = 0.2
"""Seconds between two looks for a new epoch, should nobody tell of one."""


def connect(
    home: str | Path = DEFAULT_HOME,
    *,
    settings: EngineSettings | None = None,
    spark: SparkSession | None = None,
    take_over: bool = False,
    allow_paths: Sequence[str | Path] = (".",),
) -> Database:
    """A home, opened in this process; on a Spark application of yours, if you give one.

    `allow_paths`: directories whose files statements may read and write.
    """
    engine = Engine(
        Home.at(home),
        settings or EngineSettings(),
        take_over=take_over,
        application=spark,
        allow_paths=allow_paths,
    )
    return Database(engine)


@dataclass(frozen=True)
class Change:
    """A row that came into a view, or went. An update is both."""

    op: str
    row: dict[str, Any]
    epoch: int
    position: int
    """Where a subscription goes on after all changes of this epoch: `subscribe(…, since=position)`."""


class Query:
    """A query, not run yet; every table in it is read at one complete epoch."""

    def __init__(self, engine: Engine, node: Node) -> None:
        self._engine = engine
        self._node = node

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""
        return self._node.names

    def to_spark(self) -> DataFrame:
        """A frame of an epoch that holds all writes acknowledged before."""
        from icestream.runtime.query import frame_of

        self._engine.see_writes(self._node)
        return frame_of(self._node, self._engine.catalog, self._engine.spark)

    def to_arrow(self) -> pa.Table:
        """All rows, in memory."""
        return self._engine.rows(self._node)

    def to_pandas(self) -> pd.DataFrame:
        """All rows, in memory."""
        return self.to_arrow().to_pandas()


class Database:
    """An open home. Close it when done; it is a context manager."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._loop = Background(engine.run, lambda error: self._wake())

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def execute(self, sql: str) -> list[Result]:
        """Run statements; their results."""
        self._loop.check()
        return self.engine.execute(sql)

    def sql(self, query: str) -> Query:
        """A query to be had in one form or another."""
        self._loop.check()
        found = parse(query, "<sql>", self.engine.env)
        if len(found) != 1 or not isinstance(found[0], st.Select):
            raise SqlError("sql() takes one query", remedy="execute() runs statements")
        names = self.engine.catalog.names()
        return Query(self.engine, bind_query(found[0].query, names.relation))

    def flush(self) -> None:
        """Return when all that is there now is in every view."""
        self.execute("FLUSH")

    def start(self) -> None:
        """Run the pipeline in the background, until it is closed. If it fails, the next call raises its error."""
        self._loop.check()
        self.engine.open()
        if not self.engine.live:
            self.engine.live = True
            self.engine.resume_jobs()
        self._loop.start()

    def subscribe(
        self, name: str, *, since: int | None = None, follow: bool = True
    ) -> Iterator[Change]:
        """What comes and goes in a table or materialized view, epoch by epoch.

        From the beginning (its rows come first), or since a position; for ever, or, if not to `follow`, up to now.
        """
        from icestream.runtime.subscription import Follower

        object = self.engine.catalog.names().find(st.Name(name))
        if not isinstance(object, MaterializedView | Table):
            raise SqlError(f"{name} is a {object.kind}: it has no rows of its own")
        follower = Follower(object, self.engine.spark, self.engine.home.scratch, since)
        names = [c.name for c in object.columns]
        while not self._loop.stopping:
            self._loop.check()
            before = follower.at
            for change in follower.changes():
                op = INSERT if change.op.endswith("Insert") else DELETE
                row = dict(zip(names, change.values, strict=True))
                yield Change(op, row, change.epoch, change.position)
            if follower.at != before:
                continue
            if not follow:
                return
            with self.engine.advanced:
                self.engine.advanced.wait(POLL)

    def close(self) -> None:
        """Stop at the end of the epoch, and close the home."""
        self.engine.jobs.close()
        self._loop.stop()
        self._wake()
        self.engine.close()

    def _wake(self) -> None:
        """Let nobody wait for an epoch that does not come."""
        with self.engine.advanced:
            self.engine.advanced.notify_all()
