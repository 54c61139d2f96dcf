"""Peer: the upsert that a user of Spark would write by hand: foreachBatch with MERGE INTO.

The table is merge-on-read with deletion vectors; a batch keeps the last change of each key. One
query runs all the time and is held at the end of each micro-batch until it is told to go on, so
what is timed is a whole trigger: the previous one's commit log, the offsets, the plan, the MERGE.
"""

from __future__ import annotations

import json
import queue
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, from_json, max_by, struct

from benchmarks.changes import COLUMNS
from benchmarks.peers.spark import EXTENSIONS, columns, hadoop_catalog, session
from benchmarks.peers.task import parse
from benchmarks.side import serve

MERGE = """MERGE INTO lake.bench.orders t USING changes s ON t.id = s.id
  WHEN MATCHED AND s.op = 'd' THEN DELETE
  WHEN MATCHED THEN UPDATE SET *
  WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT *"""


class Merging:
    """The query, started by the first batch."""

    def __init__(self) -> None:
        self.task = parse()
        catalog = hadoop_catalog(self.task.warehouse)
        fresh = {"spark.sql.catalog.lake.cache-enabled": "false"}
        self.spark = session({**EXTENSIONS, **catalog, **fresh})
        self.go: queue.Queue[None] = queue.Queue()
        self.done: queue.Queue[None] = queue.Queue()
        self.query: Any = None

    def work(self) -> dict[str, Any]:
        """One trigger, until its MERGE has committed."""
        if self.query is None:
            self.query = self._start()
        else:
            self.go.put(None)
        while True:
            try:
                self.done.get(timeout=0.5)
                return {}
            except queue.Empty:
                if self.query.exception() is not None:
                    raise self.query.exception() from None

    def _start(self) -> Any:
        starts = {str(number): offset for number, offset in enumerate(self.task.starts)}
        envelope = f"op STRING, before STRUCT<id: BIGINT>, after STRUCT<{columns(COLUMNS)}>"
        changes = (
            self.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.task.bootstrap)
            .option("subscribe", self.task.topic)
            .option("startingOffsets", json.dumps({self.task.topic: starts}))
            .load()
            .select(
                from_json(col("key").cast("string"), "id BIGINT").alias("key"),
                from_json(col("value").cast("string"), envelope).alias("change"),
                "offset",
            )
        )
        query = changes.writeStream.foreachBatch(self._merge).option(
            "checkpointLocation", str(self.task.warehouse / "checkpoint")
        )
        return query.start()

    def _merge(self, frame: DataFrame, number: int) -> None:
        """A key is in one partition, so its changes are in order of their offsets."""
        rest = [f"change.after.{name}" for name in list(COLUMNS)[1:]]
        last = frame.groupBy("key.id").agg(max_by(struct("change"), "offset").alias("last"))
        last.select(
            "id", "last.change.op", *(f"last.{name}" for name in rest)
        ).createOrReplaceTempView("changes")
        last.sparkSession.sql(MERGE)
        self.done.put(None)
        self.go.get()


def main() -> None:
    merging = Merging()
    serve(merging.work)
    merging.go.put(None)
    if merging.query is not None:
        merging.query.stop()
    merging.spark.stop()


if __name__ == "__main__":
    main()
