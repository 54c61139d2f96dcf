"""The engine's own functions in Spark, all registered here. They are classes of the engine's jar (`java/*.java`); a session
without it on its class path has none of them."""

from __future__ import annotations

from pyspark.sql import SparkSession

from icestream.functions.expression_errors import COUNTING_FUNCTION
from icestream.lake.java_types import FailureCounts
from icestream.lake.jvm import (
    has_jar,
    register_failure_counts,
    register_function,
    register_patterns,
)
from icestream.plan.spark import CANCEL_CHECK

REGISTERED = "icestream.functions"
"""A setting of Spark sessions: whether they have the functions."""
SIZE_CHECK = "icestream_small"
"""The function that fails tasks whose records are too large for batches without a limit in bytes."""


def register_functions(spark: SparkSession) -> None:
    """Give a session the functions that need nothing else. Called once for each session, when it is made."""
    if has_jar(spark):
        register_function(spark, CANCEL_CHECK, "KeepRunning", "BooleanType")
        register_patterns(spark)
        register_function(spark, SIZE_CHECK, "CheckSize", "BooleanType")
        spark.conf.set(REGISTERED, "true")


def has_functions(spark: SparkSession) -> bool:
    """Whether a session has the functions."""
    return bool(spark.conf.get(REGISTERED, "false") == "true")


def register_failure_counter(spark: SparkSession) -> FailureCounts | None:
    """Give a session the function that counts failed expressions; gives the accumulator behind it, None without the jar.
    Called once for each pipeline."""
    if not has_jar(spark):
        return None
    counts = register_failure_counts(spark)
    register_function(spark, COUNTING_FUNCTION, "CountFailure", "NullType", counts)
    return counts
