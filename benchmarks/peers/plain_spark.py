"""Peer: the Structured Streaming pipeline that a user would write by hand, on 2 cores.

readStream kafka → from_json → toTable with an available-now trigger; everything at its default.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json

from benchmarks.events import COLUMNS
from benchmarks.peers.task import answer, parse
from icestream.dev.jars import resolve

SPARK_TYPES = {"VARCHAR": "string", "TIMESTAMPTZ": "timestamp"}


def main() -> None:
    task = parse()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("plain")
        .config("spark.jars", ",".join(str(jar) for jar in resolve("engine")))
        .config("spark.driver.memory", "4g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.lake.type", "hadoop")
        .config("spark.sql.catalog.lake.warehouse", str(task.warehouse))
        .getOrCreate()
    )
    schema = ", ".join(f"{name} {SPARK_TYPES.get(type, type)}" for name, type in COLUMNS.items())
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
