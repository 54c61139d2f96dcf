"""What sinks bring into a table beside statements: whose turn it is within an epoch, and what they may not bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from icestream.catalog.graph import Task
from icestream.catalog.into import filled
from icestream.catalog.objects import Sink, Table
from icestream.lake.fold import CHANGE_SCHEMA, DELETE, OFFSET, OP, PARTITION, STREAM, UPSERT
from icestream.lake.keyed import Changes
from icestream.lake.stamp import Offset, Range
from icestream.runtime.parts import brought
from icestream.types import backtick, spark_type


def ranges_of(part: Task, ranges: Mapping[str, Range]) -> dict[str, Range]:
    """What a part reads of each of its inputs, of what the task does that it belongs to."""
    all = ranges[brought(part.key)]
    return {key: Range(start, all.end[key]) for key, start in all.start.items()}


def readers(
    read: Sequence[tuple[Task, Mapping[str, Range]]],
) -> list[tuple[Task, Mapping[str, Range]]]:
    """Tasks and their ranges, and those of their parts."""
    parts = [(p, r) for t, r in read for p in t.parts if brought(p.key) in r]
    return [*read, *((p, ranges_of(p, ranges)) for p, ranges in parts)]


def lags(behind: Mapping[str, Offset], sources: Mapping[str, Offset]) -> bool:
    """Whether a sink into a table has more to read of a feed, by the positions that the table keeps."""
    parts = [at for name, at in behind.items() if name.startswith(brought(""))]
    return any(sources.get(k, at) != at for part in parts for k, at in part.items())


def in_turn(changes: Changes, part: Task, table: Table, number: int) -> Changes:
    """A part's changes as the table takes them in: with its types, without rows that lack what must be there.

    Within an epoch, what sinks take back goes first; what they put there follows, in the order of the sinks. (A delete that
    is not among the first changes, those without a compaction before them, stays where it is: after what it takes back.)
    """
    columns = filled(table)
    frame = changes.frame
    for column in columns:
        if column.not_null:
            frame = frame.filter(F.col(backtick(column.name)).isNotNull())
    assert isinstance(part.object, Sink)
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
