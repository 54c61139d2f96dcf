"""Peer: Flink SQL, a query of Nexmark from Kafka → Iceberg. Run with any Python: it continues in Flink's.

    python -m benchmarks.peers.flink_nexmark QUERY BOOTSTRAP TOPICS WAREHOUSE COUNT

TOPICS is what the names of the topics begin with. A result that only grows is appended; one that
changes is upserted by its key, in format version 2. Event times have a watermark of four seconds,
and rows are gathered into small batches before aggregates and joins, as Nexmark's own configuration
of Flink has it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from benchmarks.peers import flink
from benchmarks.peers.task import Task, parse, since_start

QUERIES = Path(__file__).parent.parent / "nexmark" / "queries"
COLUMNS = {
    "person": {
        "id": "BIGINT",
        "name": "STRING",
        "emailAddress": "STRING",
        "creditCard": "STRING",
        "city": "STRING",
        "state": "STRING",
        "dateTime": "TIMESTAMP(3)",
        "extra": "STRING",
    },
    "auction": {
        "id": "BIGINT",
        "itemName": "STRING",
        "description": "STRING",
        "initialBid": "BIGINT",
        "reserve": "BIGINT",
        "dateTime": "TIMESTAMP(3)",
        "expires": "TIMESTAMP(3)",
        "seller": "BIGINT",
        "category": "BIGINT",
        "extra": "STRING",
    },
    "bid": {
        "auction": "BIGINT",
        "bidder": "BIGINT",
        "price": "BIGINT",
        "channel": "STRING",
        "url": "STRING",
        "dateTime": "TIMESTAMP(3)",
        "extra": "STRING",
    },
}
"""Those of benchmarks.nexmark.generator, whose imports Flink's Python does not have."""
SETTINGS = {
    "table.exec.sink.upsert-materialize": "NONE",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
}


def source(kind: str, task: Task) -> str:
    """The table of a topic."""
    return f"""CREATE TABLE {kind} ({flink.columns(COLUMNS[kind])},
      WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND) WITH (
      'connector' = 'kafka', 'topic' = '{task.topic}-{kind}', 'format' = 'json',
      'properties.bootstrap.servers' = '{task.bootstrap}',
      'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
      'json.timestamp-format.standard' = 'ISO-8601')"""


def main() -> None:
    flink.enter("benchmarks.peers.flink_nexmark")
    query = sys.argv.pop(1)
    task = parse()
    create, insert = (QUERIES / f"{query}.flink.sql").read_text().split(";\n")[:2]
    tables = flink.tables(task.warehouse, **SETTINGS)
    for kind in COLUMNS:
        tables.execute_sql(source(kind, task))
    tables.execute_sql("CREATE DATABASE lake.bench")
    tables.execute_sql(create)
    begin = time.monotonic()
    tables.execute_sql(insert).wait()
    found = {
        "rows": task.count,
        "seconds": round(since_start(), 3),
        "working": round(time.monotonic() - begin, 3),
        "table": str(task.warehouse / "bench" / query),
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
