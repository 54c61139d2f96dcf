"""Frames under names that Spark SQL can read: needed only until the text that names them is analysed.

Spark resolves the names of `spark.sql(text)` at once and puts the frames' plans in their place, so the names are dropped as
soon as the text has become a frame. Without that every query would leave a plan, with its rows, in the session for good.
"""

from __future__ import annotations

from types import TracebackType
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from icestream.lake.jvm import drop_temp_views


class TempViews:
    """The temporary views of one text. `with` drops them at its end."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._names: list[str] = []

    def add(self, frame: DataFrame) -> str:
        """A name for the frame, which nobody else has."""
        name = f"icestream_{uuid4().hex}"
        frame.createOrReplaceTempView(name)
        self._names.append(name)
        return name

    def __enter__(self) -> TempViews:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        names, self._names = self._names, []
        drop_temp_views(self.spark, reversed(names))
