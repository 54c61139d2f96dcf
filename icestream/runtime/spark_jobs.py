"""Spark jobs that belong to a statement: they end when it is cancelled."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from icestream import interrupts
from icestream.errors import SqlError
from icestream.functions.expression_errors import read_error
from icestream.runtime.spark_functions import has_functions

GROUP, POOL = "spark.jobGroup.id", "spark.scheduler.pool"

_NUMBERS = itertools.count(1)


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
    group = f"icestream-statement-{next(_NUMBERS)}"
    regex = context._jvm.icestream.Regex if has_functions(spark) else None

    def cancel() -> None:
        if (running := context._jsc) is not None:  # a context that was stopped has no jobs
            if regex is not None:
                regex.cancel(group)
            running.sc().cancelJobGroupAndFutureJobs(group)

    context.setJobGroup(group, "a statement of a client")
    context.setLocalProperty(POOL, pool)
    try:
        with interrupt.waiting("IPC", "SparkJob"), interrupt.on_cancel(cancel):
            interrupt.check()
            with raising_sql_errors():
                yield
    finally:
        if context._jsc is not None:
            context.setLocalProperty(GROUP, None)
            context.setLocalProperty(POOL, None)
            if regex is not None and interrupt.cancelled:
                regex.forget(group)
