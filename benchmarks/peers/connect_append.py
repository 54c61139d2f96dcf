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
from icestream.dev.child import Child, free_ports
from icestream.dev.jars import Group, class_path, resolve
from icestream.dev.java import find_java

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


def start(task: Task) -> Child:
    """The worker with one connector, each configured by a file."""
    (port,) = free_ports(1)
    worker = {
        "bootstrap.servers": task.bootstrap,
        "listeners": f"HTTP://127.0.0.1:{port}",
        "plugin.path": _plugins(task.warehouse / "plugins"),
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "offset.storage.file.filename": task.warehouse / "offsets",
        "offset.flush.interval.ms": 1000,
        "consumer.auto.offset.reset": "earliest",
    }
    # A run of its own: the name is also the consumer group, whose offsets outlive the worker.
    name = f"bench-{uuid.uuid4().hex[:8]}"
    sink = {
        "name": name,
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
    command = [
        str(find_java().executable),
        *("-Xmx4g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"),
        *("-cp", class_path(resolve(WORKER))),
        "org.apache.kafka.connect.cli.ConnectStandalone",
        str(_properties(task.warehouse / "worker.properties", worker)),
        str(_properties(task.warehouse / "sink.properties", sink)),
    ]
    return Child("Kafka Connect", command, task.warehouse / "connect.log")


def committed(task: Task) -> int:
    """Rows in the table's current snapshot, looked up so that asking often costs little."""
    with closing(sqlite3.connect(task.warehouse / "catalog.db", timeout=10)) as db:
        (location,) = db.execute("SELECT metadata_location FROM iceberg_tables").fetchone()
    return total_records(Path(urlparse(location).path))


def done(task: Task, worker: Child) -> bool:
    """Whether all rows are in; raises if a task gave up, which the worker survives."""
    if "unrecoverable exception" in worker.output():
        raise worker.failure(40)
    return committed(task) >= task.count


def main() -> None:
    task = parse()
    create_table(task)
    begin = time.monotonic()
    worker = start(task)
    try:
        if not worker.ready(lambda: done(task, worker), timeout=900):
            raise worker.failure(40)
        seconds = time.monotonic() - begin
        answer(task.warehouse / "bench/events", seconds)
    finally:
        worker.stop()


def _plugins(path: Path) -> Path:
    """A plugin path: a folder of folders, here one with links to the connector's jars."""
    folder = path / "iceberg"
    folder.mkdir(parents=True)
    for jar in resolve(PLUGIN):
        (folder / jar.name).symlink_to(jar)
    return path


def _properties(path: Path, settings: dict[str, object]) -> Path:
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


if __name__ == "__main__":
    main()
