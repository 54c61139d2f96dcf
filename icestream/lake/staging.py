"""Writing a frame's rows as data files of a table without committing them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from icestream import faults
from icestream.errors import LakeError
from icestream.lake.java_types import JavaFile
from icestream.lake.jvm import iterate
from icestream.lake.table import LakeTable
from icestream.types import backtick

LINEAGE = ("_row_id", "_last_updated_sequence_number")


@dataclass(frozen=True)
class Staged:
    """Data files that exist but belong to no snapshot yet."""

    files: list[JavaFile]
    rows: int
    bytes: int


def stage(frame: DataFrame, table: LakeTable, *, format: str | None = None) -> Staged:
    """Write the frame with Spark's own Iceberg writer, distributed, and hand back the uncommitted files.

    The frame's columns are matched by name; columns the table has beyond them are written as NULL. A column
    `_row_id` says which row of the table each one is a new version of. `format`: of the files, whatever the table's
    own is.
    """
    java = table.load()
    schema = java.schema()
    fields = list(iterate(schema.columns()))
    names = [str(field.name()) for field in fields]
    have = set(frame.columns)
    if lost := sorted(have - set(names) - set(LINEAGE)):
        raise missing_column(table, lost[0])
    required = {str(f.name()) for f in fields if f.isRequired()}
    columns = [_value(table, n, n in have, n in required) for n in names]
    version = java.operations().current().formatVersion()
    if version >= 3:
        columns += [F.col(n) if n in have else F.lit(None).cast("bigint").alias(n) for n in LINEAGE]
    key = str(uuid.uuid4())
    options = {"rewritten-file-scan-task-set-id": key, "check-nullability": "false"}
    if format is not None:
        options["write-format"] = format
    frame.select(*columns).write.format("iceberg").options(**options).mode("append").save(table.sql)
    coordinator = table.jvm.iceberg.spark.FileRewriteCoordinator.get()
    files = list(iterate(coordinator.fetchNewFiles(java, key)))
    coordinator.clearRewrite(java, key)
    faults.reach("files-written")
    return Staged(
        files, sum(f.recordCount() for f in files), sum(f.fileSizeInBytes() for f in files)
    )


def _value(table: LakeTable, name: str, present: bool, required: bool) -> F.Column:
    """A column to write. Whoever made the table may have ruled out NULL."""
    value = F.col(backtick(name)) if present else F.lit(None)
    if required:
        failure = F.raise_error(F.lit(f"column {name} of {table.name} must not be NULL"))
        value = F.coalesce(value, failure)
    return value.alias(name)


def missing_column(table: LakeTable, name: str) -> LakeError:
    """Somebody has dropped or renamed a column that is written."""
    return LakeError(
        f"{table.name} no longer has the column {name!r}",
        object=table.name,
        remedy="add it back, or drop the object and create it with the columns that remain",
    )
