"""A plain Spark session on 2 cores for peers and for reading results: everything else at its default."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from icestream.dev.jars import resolve

EXTENSIONS = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
}
SPARK_TYPES = {"VARCHAR": "STRING", "TIMESTAMPTZ": "TIMESTAMP"}


def session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """Starts it with the jars of Kafka and Iceberg."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = {
        "spark.jars": ",".join(str(jar) for jar in resolve("engine")),
        "spark.driver.memory": "4g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        **(settings or {}),
    }
    builder = SparkSession.builder.master("local[2]").appName("plain")
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def hadoop_catalog(warehouse: Path, name: str = "lake") -> dict[str, str]:
    """The settings of a catalog that is nothing but a folder."""
    prefix = f"spark.sql.catalog.{name}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "hadoop",
        f"{prefix}.warehouse": str(warehouse),
    }


def columns(types: Mapping[str, str]) -> str:
    """Columns as Spark declares them, from SQL types."""
    return ", ".join(f"{name} {SPARK_TYPES.get(type, type)}" for name, type in types.items())
