"""Counts expressions that failed in Spark jobs, by object: a function of the Spark session with an accumulator behind it.

The counts are those of evaluations. One row may be evaluated more than once: when it is taken back, when an epoch is
repeated, when Spark repeats a task.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from pyspark.sql import SparkSession

from icestream.functions.expression_errors import CountFailures
from icestream.runtime.spark_functions import register_failure_counter


class ErrorCounts:
    """The failed expressions of a Spark session. Without the engine's jar on its class path nothing is counted."""

    def __init__(self, spark: SparkSession) -> None:
        self._lock = threading.Lock()
        self._taken: dict[int, int] = {}
        self._counts = register_failure_counter(spark)

    def handler(self, object: int) -> CountFailures | None:
        """What the expressions of an object do when they fail."""
        return None if self._counts is None else CountFailures(object)

    def take(self, objects: Iterable[int]) -> Mapping[int, int]:
        """The failures of objects since they were last taken; only objects that have some."""
        if self._counts is None:
            return {}
        with self._lock:
            totals = _parse(self._counts.describe())
            new = {o: totals[o] - self._taken.get(o, 0) for o in set(objects) & totals.keys()}
            self._taken |= {o: totals[o] for o in new}
        return {o: count for o, count in new.items() if count}


def _parse(text: str) -> dict[int, int]:
    pairs = (pair.split("=") for pair in text.split(",") if pair)
    return {int(object): int(count) for object, count in pairs}
