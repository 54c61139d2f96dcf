"""Spark jobs that belong to a statement: they end when it is cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from icestream import interrupts
from icestream.errors import SqlError
from icestream.functions.expression_errors import read_error
from icestream.lake.jvm import JobGroup
from icestream.runtime.spark_functions import has_functions

GROUP, POOL = "spark.jobGroup.id", "spark.scheduler.pool"


@contextmanager
def raising_sql_errors() -> Iterator[None]:
    """Turn what an expression raised in Spark into PostgreSQL's error."""
    try:
        yield
    except PySparkException as error:
        condition = error.getCondition() or ""
        if condition.startswith("COLLECTION_SIZE_LIMIT_EXCEEDED"):
            raise SqlError("an array has too many elements", code="54000") from None
        parameters = error.getMessageParameters() or {}
        if "`icestream_" in parameters.get("routineName", ""):
            raise SqlError(
                "patterns are matched by functions that this Spark application does not have",
                remedy="put icestream.jar on its class path (docs/guarantees.md)",
                code="0A000",
            ) from None
        if condition != "USER_RAISED_EXCEPTION":
            raise
        raised = read_error(parameters.get("errorMessage", ""))
        raise SqlError(raised.message, remedy=raised.remedy, code=raised.code) from None


@contextmanager
def cancellable(spark: SparkSession, pool: str = "queries") -> Iterator[None]:
    """Run the Spark jobs of this thread meanwhile as those of the current statement."""
    interrupt = interrupts.current()
    context = spark.sparkContext
    name = f"icestream-statement-{uuid4().hex}"
    group = JobGroup(spark, name, has_patterns=has_functions(spark))
    context.setJobGroup(name, "a statement of a client")
    context.setLocalProperty(POOL, pool)
    try:
        with interrupt.waiting("IPC", "SparkJob"), interrupt.on_cancel(group.cancel):
            interrupt.check()
            with raising_sql_errors():
                yield
    finally:
        if group.is_open:
            context.setLocalProperty(GROUP, None)
            context.setLocalProperty(POOL, None)
            if interrupt.cancelled:
                group.forget()
