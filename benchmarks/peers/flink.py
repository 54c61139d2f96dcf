"""Flink for the peers that use it: a Python environment of its own, a local mini cluster.

Parallelism 2, 10 s checkpoints, sources bounded at the latest offsets.

It uses Iceberg's newer sink for Flink, not the default one. Seen here with 1.11: when a checkpoint
falls between the ends of two bounded writers, the default sink loses the rows that the first one
wrote since its last checkpoint (partitions of 1,000 and 1,000,000 events: short in 3 of 3 runs, the
newer sink in none of 2). A run that loses rows cannot be compared.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VERSION = "2.1.3"
INSIDE = "BENCHMARK_INSIDE_FLINK"
TYPES = {"VARCHAR": "STRING", "TIMESTAMPTZ": "TIMESTAMP_LTZ(6)"}


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


def enter(module: str) -> None:
    """Goes on with the module in Flink's Python; returns if this is it."""
    if os.environ.get(INSIDE):
        return
    python = str(environment() / "bin" / "python")
    command = [python, "-m", module, *sys.argv[1:]]
    os.execve(python, command, {**os.environ, "JVM_ARGS": "-Xmx4g", INSIDE: "1"})


def columns(types: Mapping[str, str]) -> str:
    """Columns as Flink declares them, from SQL types."""
    return ", ".join(f"`{name}` {TYPES.get(type, type)}" for name, type in types.items())


def tables(warehouse: Path, **settings: str) -> Any:
    """A table environment with a Hadoop catalog called lake on the warehouse."""
    from pyflink.table import (  # type: ignore[import-not-found]
        EnvironmentSettings,
        TableEnvironment,
    )

    found = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in {
        "parallelism.default": "2",
        "execution.checkpointing.interval": "10 s",
        # The default keeps state in memory, and fails with more than 5 MB of it.
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": f"file://{warehouse}/checkpoints",
        "table.exec.iceberg.use-v2-sink": "true",
        "table.local-time-zone": "UTC",
        "rest.bind-address": "127.0.0.1",
        "rest.bind-port": "0",
        "restart-strategy.type": "none",  # what fails is to be seen, not to be tried for ever
        **settings,
    }.items():
        found.get_config().set(key, value)
    found.execute_sql(
        f"""CREATE CATALOG lake WITH ('type' = 'iceberg', 'catalog-type' = 'hadoop',
          'warehouse' = 'file://{warehouse}')"""
    )
    return found
