"""Peer: Flink SQL, Kafka → Iceberg append. Run with any Python: it continues in Flink's."""

from __future__ import annotations

from benchmarks.peers import flink
from benchmarks.peers.task import answer, parse

COLUMNS = {
    "id": "BIGINT",
    "user_id": "VARCHAR",
    "page_url": "VARCHAR",
    "action": "VARCHAR",
    "session_id": "VARCHAR",
    "event_time": "TIMESTAMPTZ",
    "duration_ms": "BIGINT",
    "price": "DOUBLE",
}
"""Those of benchmarks.events, whose imports Flink's Python does not have."""


def main() -> None:
    flink.enter("benchmarks.peers.flink_append")
    task = parse()
    tables = flink.tables(task.warehouse)
    columns = flink.columns(COLUMNS)
    tables.execute_sql(
        f"""CREATE TABLE source ({columns}) WITH (
          'connector' = 'kafka', 'topic' = '{task.topic}', 'format' = 'json',
          'properties.bootstrap.servers' = '{task.bootstrap}',
          'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
          'json.timestamp-format.standard' = 'ISO-8601')"""
    )
    tables.execute_sql("CREATE DATABASE lake.bench")
    tables.execute_sql(f"CREATE TABLE lake.bench.events ({columns}) WITH ('format-version' = '2')")
    tables.execute_sql("INSERT INTO lake.bench.events SELECT * FROM source").wait()
    answer(task.warehouse / "bench/events")


if __name__ == "__main__":
    main()
