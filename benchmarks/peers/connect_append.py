"""Peer: Kafka Connect standalone with Iceberg's own sink connector, 2 tasks, 10 s commits.

The table is made beforehand, in an SQLite catalog (the connector would guess the types). The clock
runs from the start of the worker until a commit holds all rows; then the worker is stopped.
"""

from __future__ import annotations

import sqlite3
import time
import uuid
from contextlib import closing
from pathlib import Path
from urllib.parse import urlparse

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestamptzType

from benchmarks.events import COLUMNS
from benchmarks.metadata import total_records
from benchmarks.peers.task import Task, answer, parse
from icestream.dev.connect import Worker
from icestream.dev.jars import Group, resolve

WORKER = Group(
    "connect",
    (
        "org.apache.kafka:connect-runtime:3.9.1",
        "org.apache.kafka:connect-json:3.9.1",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
)
PLUGIN = Group(
    "connect-iceberg",
    (
        "org.apache.iceberg:iceberg-kafka-connect:1.12.0",
        "org.apache.iceberg:iceberg-parquet:1.12.0",
        "org.apache.hadoop:hadoop-client-api:3.4.1",
        "org.apache.hadoop:hadoop-client-runtime:3.4.1",
        "org.xerial:sqlite-jdbc:3.50.3.0",
    ),
)
TYPES = {
    "BIGINT": LongType(),
    "VARCHAR": StringType(),
    "TIMESTAMPTZ": TimestamptzType(),
    "DOUBLE": DoubleType(),
}


def prepare() -> None:
    """Fetches the worker and the connector, once."""
    resolve(WORKER)
    resolve(PLUGIN)


def create_table(task: Task) -> None:
    """Makes bench.events in an SQLite catalog that the connector then opens."""
    lake = SqlCatalog(
        "lake", uri=f"sqlite:///{task.warehouse}/catalog.db", warehouse=f"file://{task.warehouse}"
    )
    lake.create_namespace("bench")
    fields = [
        NestedField(number, name, TYPES[type], required=False)
        for number, (name, type) in enumerate(COLUMNS.items(), start=1)
    ]
    lake.create_table("bench.events", Schema(*fields))


def worker(task: Task) -> Worker:
    """The worker, with the class path of its own version."""
    return Worker(
        task.warehouse,
        task.bootstrap,
        {"iceberg": resolve(PLUGIN)},
        jars=resolve(WORKER),
        java=("-Xmx4g",),
        settings={
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter.schemas.enable": "false",
            "consumer.auto.offset.reset": "earliest",
        },
    )


def sink(task: Task, name: str) -> dict[str, object]:
    """The connector."""
    return {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "tasks.max": 2,
        "topics": task.topic,
        "iceberg.tables": "bench.events",
        "iceberg.control.topic": f"control-{name}",
        "iceberg.control.commit.interval-ms": 10000,
        "iceberg.catalog": "lake",
        "iceberg.catalog.type": "jdbc",
        "iceberg.catalog.uri": f"jdbc:sqlite:{task.warehouse}/catalog.db?busy_timeout=10000",
        "iceberg.catalog.warehouse": f"file://{task.warehouse}",
        "iceberg.catalog.jdbc.schema-version": "V1",
    }


def committed(task: Task) -> int:
    """Rows in the table's current snapshot, looked up so that asking often costs little."""
    with closing(sqlite3.connect(task.warehouse / "catalog.db", timeout=10)) as db:
        (location,) = db.execute("SELECT metadata_location FROM iceberg_tables").fetchone()
    return total_records(Path(urlparse(location).path))


def main() -> None:
    task = parse()
    create_table(task)
    # A run of its own: the name is also the consumer group, whose offsets outlive the worker.
    name = f"bench-{uuid.uuid4().hex[:8]}"
    begin = time.monotonic()
    with worker(task) as running:
        running.create(name, sink(task, name))
        running.wait(lambda: committed(task) >= task.count, 900)
        seconds = time.monotonic() - begin
        answer(task.warehouse / "bench/events", seconds)


if __name__ == "__main__":
    main()
