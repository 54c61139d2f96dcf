"""Peer: Flink SQL, Debezium changes from Kafka → an Iceberg table that is there, in upsert mode.

Format version 2: Flink finds no old rows, it writes an equality delete for every change. Run with
any Python: it continues in Flink's.
"""

from __future__ import annotations

from benchmarks.peers import flink
from benchmarks.peers.task import answer, parse

COLUMNS = {
    "id": "BIGINT",
    "customer_id": "BIGINT",
    "quantity": "INT",
    "price": "DOUBLE",
    "status": "VARCHAR",
    "note": "VARCHAR",
    "updated_at": "TIMESTAMPTZ",
}
"""Those of benchmarks.changes, whose imports Flink's Python does not have."""


def main() -> None:
    flink.enter("benchmarks.peers.flink_upsert")
    task = parse()
    settings = {"table.exec.sink.upsert-materialize": "NONE"}
    tables = flink.tables(task.warehouse, **settings)
    starts = ";".join(f"partition:{n},offset:{offset}" for n, offset in enumerate(task.starts))
    tables.execute_sql(
        f"""CREATE TABLE source ({flink.columns(COLUMNS)}, PRIMARY KEY (id) NOT ENFORCED) WITH (
          'connector' = 'kafka', 'topic' = '{task.topic}', 'format' = 'debezium-json',
          'properties.bootstrap.servers' = '{task.bootstrap}',
          'scan.startup.mode' = 'specific-offsets', 'scan.startup.specific-offsets' = '{starts}',
          'scan.bounded.mode' = 'latest-offset',
          'debezium-json.timestamp-format.standard' = 'ISO-8601')"""
    )
    tables.execute_sql("INSERT INTO lake.bench.orders SELECT * FROM source").wait()
    answer(task.warehouse / "bench/orders", changes=task.count)


if __name__ == "__main__":
    main()
