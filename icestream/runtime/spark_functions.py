"""The engine's own functions in Spark, all registered here. They are classes of the engine's jar (`java/*.java`); a session
without it on its class path has none of them."""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession

from icestream.functions.expression_errors import COUNTING_FUNCTION
from icestream.plan.spark import CANCEL_CHECK

REGISTERED = "icestream.functions"
"""A setting of Spark sessions: whether they have the functions."""
SIZE_CHECK = "icestream_small"
"""The function that fails tasks whose records are too large for batches without a limit in bytes."""


def register_functions(spark: SparkSession) -> None:
    """Give a session the functions that need nothing else. Called once for each session, when it is made."""
    if _has_jar(spark):
        _register(spark, CANCEL_CHECK, _classes(spark).KeepRunning(), "BooleanType")
        _classes(spark).Regex.register(spark._jsparkSession)
        _register(spark, SIZE_CHECK, _classes(spark).CheckSize(), "BooleanType")
        spark.conf.set(REGISTERED, "true")


def has_functions(spark: SparkSession) -> bool:
    """Whether a session has the functions."""
    return bool(spark.conf.get(REGISTERED, "false") == "true")


def register_failure_counter(spark: SparkSession) -> Any:
    """Give a session the function that counts failed expressions; gives the accumulator behind it, None without the jar.
    Called once for each pipeline."""
    if not _has_jar(spark):
        return None
    counts = _classes(spark).FailureCounts()
    spark.sparkContext._jsc.sc().register(counts, "failed expressions")
    _register(spark, COUNTING_FUNCTION, _classes(spark).CountFailure(counts), "NullType")
    return counts


def _classes(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm.icestream


def _has_jar(spark: SparkSession) -> bool:
    return isinstance(_classes(spark).KeepRunning, JavaClass)


def _register(spark: SparkSession, name: str, function: Any, type: str) -> None:
    types = spark.sparkContext._jvm.org.apache.spark.sql.types.DataTypes
    spark._jsparkSession.udf().register(name, function, getattr(types, type))
