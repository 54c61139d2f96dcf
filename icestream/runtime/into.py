"""What sinks bring into a table beside statements: whose turn it is within an epoch, and what they may not bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from icestream.catalog.graph import SinkIntoTask
from icestream.catalog.into import filled
from icestream.catalog.objects import Table
from icestream.lake.fold import CHANGE_SCHEMA, DELETE, OFFSET, OP, PARTITION, STREAM, UPSERT
from icestream.lake.keyed import Changes
from icestream.types import backtick, spark_type


def in_turn(changes: Changes, part: SinkIntoTask, table: Table, number: int) -> Changes:
    """A part's changes as the table takes them in: with its types, without rows that lack what must be there.

    Within an epoch, what sinks take back goes first; what they put there follows, in the order of the sinks. (A delete that
    is not among the first changes, those without a compaction before them, stays where it is: after what it takes back.)
    """
    columns = filled(table)
    frame = changes.frame
    for column in columns:
        if column.not_null:
            frame = frame.filter(F.col(backtick(column.name)).isNotNull())
    if part.object.upsert is None:
        frame = frame.filter(F.col(OP) == UPSERT)
    elif table.upsert is not None and table.upsert.needs_stored:
        frame = _without_replaced(frame, table.primary_key)
    turn = F.concat(F.lit(f"1{number:06}"), F.col(STREAM))
    places = {
        OP: F.col(OP),
        STREAM: F.when((F.col(OP) == DELETE) & (F.col(OFFSET) == 0), F.lit("0")).otherwise(turn),
        PARTITION: F.col(PARTITION),
        OFFSET: F.col(OFFSET),
    }
    frame = frame.select(
        *[F.col(backtick(c.name)).cast(spark_type(c.type)).alias(c.name) for c in columns],
        *[place.cast(CHANGE_SCHEMA[name]).alias(name) for name, place in places.items()],
    )
    return replace(changes, frame=frame, columns=tuple(c.name for c in columns))


def _without_replaced(frame: DataFrame, key: Sequence[str]) -> DataFrame:
    """Changes without the old versions of rows whose new ones are among them: these do not empty the stored row."""
    newest = F.max(OP).over(Window.partitionBy(*[backtick(k) for k in key], OFFSET))
    kept = frame.withColumn("_icestream_newest", newest)
    kept = kept.filter((F.col(OP) == UPSERT) | (F.col("_icestream_newest") == DELETE))
    return kept.drop("_icestream_newest")


def together(own: Changes, parts: Sequence[Changes], *, idle: bool) -> Changes:
    """What statements do (nothing, if they are idle) and what sinks bring, as one; statements come last."""
    frames = [p.frame for p in parts]
    if not idle:
        frames.append(own.frame.withColumn(STREAM, F.lit("2")))
    return replace(own, frame=united(frames), unbounded=any(p.unbounded for p in parts))


def united(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all of them; a column that one lacks is NULL there."""
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
