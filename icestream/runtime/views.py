"""The changes of one stage of a view in one epoch, as a frame: the stage's rule over what its inputs were and are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from icestream.lake.fold import DELETE, OFFSET, OP, PARTITION, STREAM, UPSERT
from icestream.plan.logical import Lookup, Node, Scan, walk
from icestream.plan.maintain import WEIGHT, State, Times
from icestream.plan.spark import render
from icestream.plan.stages import Stage
from icestream.types import backtick, stored_spark_type

Face = Callable[[str, str, int], DataFrame]
"""(relation, old | new | delta, how often it is read) → its rows; those of a delta with their weight."""


def changes(
    stage: Stage,
    states: Mapping[str, State],
    face: Face,
    spark: SparkSession,
    *,
    first: bool,
    times: Times,
    now: str,
    name: str,
) -> DataFrame | None:
    """What comes and goes in the stage's table: its columns as they are stored, and the weight. None: nothing."""
    plan = stage.changes(states, first=first, times=times)
    if plan is None:
        return None
    inputs: dict[str, str] = {}
    for number, (at, times) in enumerate(_read(plan).items()):
        relation, _, which = at.rpartition("@")
        inputs[at] = f"icestream_{name}_{number}"
        face(relation, which, times).createOrReplaceTempView(inputs[at])
    frame = spark.sql(render(plan, inputs, now=now))
    stored = [
        F.col(backtick(c.name)).cast(stored_spark_type(c.type)).alias(c.name) for c in stage.columns
    ]
    return frame.select(*stored, F.col(WEIGHT))


def as_changes(frame: DataFrame) -> DataFrame:
    """Rows with weights as changes in no order."""
    op = F.when(F.col(WEIGHT) > 0, UPSERT).otherwise(DELETE).cast("tinyint")
    return frame.select(
        *[F.col(backtick(c)) for c in frame.columns if c != WEIGHT],
        op.alias(OP),
        F.lit("").alias(STREAM),
        F.lit(0).alias(PARTITION),
        F.lit(0).cast("bigint").alias(OFFSET),
    )


def _read(plan: Node) -> Counter[str]:
    """Every face of a relation that a plan reads, and how often."""
    return Counter(n.relation for n in walk(plan) if isinstance(n, Scan | Lookup))
