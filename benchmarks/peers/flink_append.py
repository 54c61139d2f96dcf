"""Peer: Flink SQL, Kafka → Iceberg append, in a Python environment of its own.

A local mini cluster with parallelism 2, 10 s checkpoints, a source bounded at the latest offsets.
Run with any Python: it continues in Flink's.

It uses Iceberg's newer sink for Flink, not the default one. Seen here with 1.11: when a checkpoint
falls between the ends of two bounded writers, the default sink loses the rows that the first one
wrote since its last checkpoint (partitions of 1,000 and 1,000,000 events: short in 3 of 3 runs, the
newer sink in none of 2). A run that loses rows cannot be compared.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.peers.task import answer, parse

VERSION = "2.1.3"
INSIDE = "BENCHMARK_INSIDE_FLINK"
TYPES = {
    "id": "BIGINT",
    "user_id": "STRING",
    "page_url": "STRING",
    "action": "STRING",
    "session_id": "STRING",
    "event_time": "TIMESTAMP_LTZ(6)",
    "duration_ms": "BIGINT",
    "price": "DOUBLE",
}


def environment() -> Path:
    """The folder of Flink's virtual environment, beside the JVM packages."""
    from icestream.dev.jars import cache_dir

    return cache_dir() / f"flink-{VERSION}"


def prepare() -> None:
    """Installs Flink and puts the connector jars into its lib folder, once."""
    from icestream.dev.jars import Group, resolve

    home = environment()
    if not (home / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        pip = [str(home / "bin" / "pip"), "install", "-q", f"apache-flink=={VERSION}"]
        subprocess.run(pip, check=True)
        (home / "ready").touch()
    (library,) = home.glob("lib/python*/site-packages/pyflink/lib")
    group = Group(
        "flink",
        (
            "org.apache.iceberg:iceberg-flink-runtime-2.1:1.11.0",
            "org.apache.flink:flink-sql-connector-kafka:4.0.1-2.0",
            "org.apache.hadoop:hadoop-client-api:3.4.1",
            "org.apache.hadoop:hadoop-client-runtime:3.4.1",
        ),
        ("org.slf4j:*", "com.google.code.findbugs:jsr305", "org.xerial.snappy:snappy-java"),
    )
    for jar in resolve(group):
        link = library / jar.name
        link.unlink(missing_ok=True)
        link.symlink_to(jar)


def main() -> None:
    """Runs the job, after changing to Flink's Python if this is another one."""
    if os.environ.get(INSIDE):
        run()
        return
    python = str(environment() / "bin" / "python")
    command = [python, "-m", "benchmarks.peers.flink_append", *sys.argv[1:]]
    os.execve(python, command, {**os.environ, "JVM_ARGS": "-Xmx4g", INSIDE: "1"})


def run() -> None:
    """The job itself, in Flink's Python."""
    from pyflink.table import (  # type: ignore[import-not-found]
        EnvironmentSettings,
        TableEnvironment,
    )

    task = parse()
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in {
        "parallelism.default": "2",
        "execution.checkpointing.interval": "10 s",
        "table.exec.iceberg.use-v2-sink": "true",
        "table.local-time-zone": "UTC",
        "rest.bind-address": "127.0.0.1",
        "rest.bind-port": "0",
    }.items():
        tables.get_config().set(key, value)
    columns = ", ".join(f"`{name}` {type}" for name, type in TYPES.items())
    tables.execute_sql(
        f"""CREATE TABLE source ({columns}) WITH (
          'connector' = 'kafka', 'topic' = '{task.topic}', 'format' = 'json',
          'properties.bootstrap.servers' = '{task.bootstrap}',
          'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
          'json.timestamp-format.standard' = 'ISO-8601')"""
    )
    tables.execute_sql(
        f"""CREATE CATALOG lake WITH ('type' = 'iceberg', 'catalog-type' = 'hadoop',
          'warehouse' = 'file://{task.warehouse}')"""
    )
    tables.execute_sql("CREATE DATABASE lake.bench")
    tables.execute_sql(f"CREATE TABLE lake.bench.events ({columns}) WITH ('format-version' = '2')")
    tables.execute_sql("INSERT INTO lake.bench.events SELECT * FROM source").wait()
    answer(task.warehouse / "bench/events")


if __name__ == "__main__":
    main()
