"""What the statements of a transaction have changed, until it is committed: kept in memory, seen by its own statements alone.

Isolation: each statement reads the newest epoch, with all writes acknowledged before it, and the transaction's own changes.
COMMIT fails with 40001 if a table that the transaction's INSERT … SELECT, UPDATE or DELETE have read was written by
somebody else meanwhile; so no update is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from icestream import interrupts
from icestream.catalog.catalog import Catalog
from icestream.catalog.into import filled
from icestream.catalog.lineage import statement_tables
from icestream.catalog.objects import Table
from icestream.errors import NotSupportedError, SqlError
from icestream.identity import object_name, object_names
from icestream.lake.dml_log import DmlLog, TableChanges
from icestream.lake.fold import OFFSET, OP, PARTITION, PATCH, STREAM, UPSERT, fold
from icestream.types import arrow_type, backtick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class Transaction:
    """Changes in the order of their statements."""

    changes: list[tuple[Table, TableChanges]] = field(default_factory=list)
    read: dict[str, int] = field(default_factory=dict)
    """Tables that statements were evaluated over: the newest entry of each at the first time."""
    savepoints: list[tuple[str, int, object]] = field(default_factory=list)
    """Names, how many changes there were then, and the settings of the session."""
    read_only: bool = False
    settings: object = None
    """Those of the session at the start: a ROLLBACK restores them."""

    @property
    def changed(self) -> set[str]:
        """The keys of the tables that it has changed."""
        return {table.key for table, _ in self.changes}

    def add(self, table: Table, changes: TableChanges) -> None:
        """Take in what a statement does, unless it was cancelled meanwhile."""
        interrupts.check()
        if len(changes.rows):
            self.changes.append((table, changes))

    # -- savepoints ------------------------------------------------------------------------------

    def save(self, name: str, settings: object = None) -> None:
        """SAVEPOINT"""
        self.savepoints.append((name, len(self.changes), settings))

    def release(self, name: str) -> None:
        """RELEASE: the changes stay, the savepoint and those after it go."""
        del self.savepoints[self._find(name) :]

    def roll_back_to(self, name: str) -> object:
        """ROLLBACK TO: the changes since then go, the savepoint stays. Gives the settings to restore."""
        at = self._find(name)
        _, count, settings = self.savepoints[at]
        del self.changes[count:]
        del self.savepoints[at + 1 :]
        return settings

    def _find(self, name: str) -> int:
        for at in reversed(range(len(self.savepoints))):
            if self.savepoints[at][0] == name:
                return at
        raise SqlError(f'savepoint "{name}" does not exist', code="3B001")

    # -- reading ---------------------------------------------------------------------------------

    def check_readable(self, keys: Iterable[str], catalog: Catalog) -> None:
        """Refuse to read what depends on the transaction's own changes and cannot show them."""
        changed = self.changed
        if not changed:
            return
        for key in keys:
            hidden = statement_tables(catalog, [key]) & changed
            if key in changed:
                self._check_overlay(next(t for t, _ in self.changes if t.key == key))
            elif hidden:
                raise NotSupportedError(
                    f"reading {object_name(key)} in a transaction that has changed {object_names(hidden)}",
                    remedy="read it before the change, or after COMMIT",
                )

    def _check_overlay(self, table: Table) -> None:
        upsert = table.upsert
        plain = upsert is None or upsert.conflict == "bag" or (
            upsert.conflict == "overwrite" and not upsert.version
        )  # fmt: skip
        if not plain or any(c.generated is not None for c in table.columns):
            raise NotSupportedError(
                f"reading table {table.name} in a transaction that has changed it: "
                "it has generated columns, a version column or an ON CONFLICT clause",
                remedy="read it before the change, or after COMMIT",
            )

    def overlay(self, spark: SparkSession, key: str, stored: str) -> DataFrame:
        """A table's stored rows (a FROM item of Spark SQL) with the changes."""
        table = next(t for t, _ in self.changes if t.key == key)
        changes = combined([part for t, part in self.changes if t.key == key])
        names = [c.name for c in filled(table)]
        types = pa.schema([(c.name, arrow_type(c.type)) for c in filled(table)])
        before = spark.sql(f"SELECT {', '.join(map(backtick, names))} FROM {stored}")
        if table.primary_key:
            return _overlay_keyed(spark, before, table, changes, names, types)
        return _overlay_bag(spark, before, changes, names, types)

    # -- the end ---------------------------------------------------------------------------------

    def write(self, catalog: Catalog, log: DmlLog) -> set[str]:
        """Append all changes as one entry; gives the tables. Called while nobody else writes."""
        present = {o.key: o for o in catalog}
        for table, _ in self.changes:
            now = present.get(table.key)
            if not isinstance(now, Table) or filled(now) != filled(table):
                raise SqlError(
                    f"table {table.name} was altered or dropped during the transaction",
                    remedy="run the transaction again",
                    code="40001",
                )
        for key, seen in self.read.items():
            if log.last(key) > seen:
                raise SqlError(
                    "could not serialize access due to concurrent update: "
                    f"table {object_name(key)} was written by another session",
                    remedy="run the transaction again",
                    code="40001",
                )
        tables = self.changed
        interrupts.commit()
        log.append(
            {k: combined([part for t, part in self.changes if t.key == k]) for k in sorted(tables)}
        )
        return tables


def combined(parts: Sequence[TableChanges]) -> TableChanges:
    """The changes of one table, one after the other."""
    if len(parts) == 1:
        return parts[0]
    rows = pa.concat_tables([part.rows for part in parts])
    ops = list(chain.from_iterable(part.ops for part in parts))
    if all(part.unset is None for part in parts):
        return TableChanges(rows, ops)
    unset = chain.from_iterable(
        [None] * len(part.rows) if part.unset is None else part.unset for part in parts
    )
    return TableChanges(rows, ops, list(unset))


def _overlay_keyed(
    spark: SparkSession,
    before: DataFrame,
    table: Table,
    changes: TableChanges,
    names: list[str],
    types: pa.Schema,
) -> DataFrame:
    assert table.upsert is not None
    key = list(table.primary_key)
    # A change that leaves columns alone has their values too, as they were when it was evaluated.
    ops = pa.array([UPSERT if op == PATCH else op for op in changes.ops], pa.int8())
    count = len(changes.rows)
    rows = changes.rows.append_column(OP, ops)
    rows = rows.append_column(STREAM, pa.array([""] * count))
    rows = rows.append_column(PARTITION, pa.array([0] * count, pa.int32()))
    rows = rows.append_column(OFFSET, pa.array(range(count), pa.int64()))
    outcome = fold(rows, names, table.upsert).rows.cast(types)
    touched = spark.createDataFrame(changes.rows.select(key).group_by(key).aggregate([]))
    same = [before[backtick(k)].eqNullSafe(touched[backtick(k)]) for k in key]
    kept = before.join(touched, same, "left_anti")
    return kept.unionByName(spark.createDataFrame(outcome)) if len(outcome) else kept


def _overlay_bag(
    spark: SparkSession,
    before: DataFrame,
    changes: TableChanges,
    names: list[str],
    types: pa.Schema,
) -> DataFrame:
    """The stored rows that no change takes away, as they are, and the rows that are added."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    own = changes.rows.cast(types).append_column(OP, pa.array(changes.ops, pa.int64()))
    columns = [F.col(backtick(n)) for n in names]
    # Spark's keys do not tell 0.0 from -0.0, and maps are none: what is written of them does.
    keys = [
        F.to_json(F.struct(column)) if _is_told_by_text(field.type) else column
        for column, field in zip(columns, types, strict=True)
    ]
    key = F.struct(*(k.alias(f"k{n}") for n, k in enumerate(keys)))
    row = F.first(F.struct(*columns)).alias("_icestream_row")
    changed = (
        spark.createDataFrame(own)
        .groupBy(key.alias("_icestream_key"))
        .agg(F.sum(OP).alias(OP), row)
    )
    changed = changed.filter(F.col(OP) != 0)
    gone = F.broadcast(
        changed.filter(F.col(OP) < 0).select("_icestream_key", F.col(OP).alias("_icestream_gone"))
    )
    stored = before.withColumn("_icestream_stored", key)
    same = F.col("_icestream_stored").eqNullSafe(F.col("_icestream_key"))
    kept = stored.join(gone, same, "left_anti").select(*columns)
    number = F.row_number().over(Window.partitionBy("_icestream_stored").orderBy(F.lit(1)))
    rest = stored.join(gone, same).withColumn(
        "_icestream_number", number + F.col("_icestream_gone")
    )
    copies = F.explode(F.sequence(F.lit(1).cast("bigint"), F.col(OP))).alias("_icestream_copy")
    added = (
        changed.filter(F.col(OP) > 0).select("_icestream_row", copies).select("_icestream_row.*")
    )
    return kept.union(rest.filter("_icestream_number > 0").select(*columns)).union(added)


def _is_told_by_text(type: pa.DataType) -> bool:
    """Whether values that a key takes for one may differ."""
    if pa.types.is_struct(type):
        return any(_is_told_by_text(field.type) for field in type)
    if pa.types.is_list(type):
        return _is_told_by_text(type.value_type)
    return bool(pa.types.is_floating(type) or pa.types.is_map(type))
