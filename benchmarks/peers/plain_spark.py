"""Peer: the Structured Streaming pipeline that a user would write by hand, on 2 cores.

readStream kafka → from_json → toTable with an available-now trigger; everything at its default.
"""

from __future__ import annotations

from pyspark.sql.functions import col, from_json

from benchmarks.events import COLUMNS
from benchmarks.peers.spark import columns, hadoop_catalog, session
from benchmarks.peers.task import answer, parse


def main() -> None:
    task = parse()
    spark = session(hadoop_catalog(task.warehouse))
    schema = columns(COLUMNS)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
    spark.sql(f"CREATE TABLE lake.bench.events ({schema}) USING iceberg")
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", task.bootstrap)
        .option("subscribe", task.topic)
        .option("startingOffsets", "earliest")
        .load()
        .select(from_json(col("value").cast("string"), schema).alias("event"))
        .select("event.*")
        .writeStream.option("checkpointLocation", str(task.warehouse / "checkpoint"))
        .trigger(availableNow=True)
        .toTable("lake.bench.events")
    )
    query.awaitTermination()
    answer(task.warehouse / "bench/events")
    spark.stop()


if __name__ == "__main__":
    main()
