"""A plain local Spark session with the settings that the engine's expressions assume, and the engine's jars.

A pytest process has one JVM, so all tests share this one; a test that needs a lake names its catalog at run time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from icestream.dev import jars
from icestream.runtime import java_library
from icestream.runtime.session import DIALECT
from icestream.runtime.spark_functions import register_functions

SETTINGS = {
    **DIALECT,
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.hadoop.fs.file.impl": java_library.FILE_SYSTEM,
}


def start() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2]").appName("icestream-tests")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    engine = [*jars.resolve("engine"), *jars.resolve("aws"), java_library.JAR]
    builder = builder.config("spark.driver.extraClassPath", jars.class_path(engine))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    register_functions(session)
    return session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = start()
    yield session
    session.stop()
