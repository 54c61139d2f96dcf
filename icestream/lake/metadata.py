"""The metadata of an Iceberg table as relations of SQL: snapshots, files and the like, with types of the dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from icestream.functions.json import written
from icestream.types import (
    BIGINT,
    BOOLEAN,
    INTEGER,
    JSONB,
    TIMESTAMPTZ,
    VARCHAR,
    Type,
    backtick,
    spark_type,
)

if TYPE_CHECKING:
    from icestream.lake.table import LakeTable

Columns = tuple[tuple[str, Type], ...]

METADATA: Mapping[str, Columns] = {
    "snapshots": (
        ("committed_at", TIMESTAMPTZ), ("snapshot_id", BIGINT), ("parent_id", BIGINT),
        ("operation", VARCHAR), ("manifest_list", VARCHAR), ("summary", JSONB),
    ),
    "history": (
        ("made_current_at", TIMESTAMPTZ), ("snapshot_id", BIGINT), ("parent_id", BIGINT),
        ("is_current_ancestor", BOOLEAN),
    ),
    "files": (
        ("content", VARCHAR), ("file_path", VARCHAR), ("file_format", VARCHAR), ("spec_id", INTEGER),
        ("partition", JSONB), ("record_count", BIGINT), ("file_size_in_bytes", BIGINT),
        ("sort_order_id", INTEGER), ("referenced_data_file", VARCHAR), ("readable_metrics", JSONB),
    ),
    "manifests": (
        ("content", VARCHAR), ("path", VARCHAR), ("length", BIGINT), ("partition_spec_id", INTEGER),
        ("added_snapshot_id", BIGINT), ("added_data_files_count", INTEGER),
        ("existing_data_files_count", INTEGER), ("deleted_data_files_count", INTEGER),
        ("added_delete_files_count", INTEGER), ("existing_delete_files_count", INTEGER),
        ("deleted_delete_files_count", INTEGER),
    ),
    "partitions": (
        ("partition", JSONB), ("spec_id", INTEGER), ("record_count", BIGINT), ("file_count", INTEGER),
        ("total_data_file_size_in_bytes", BIGINT), ("position_delete_record_count", BIGINT),
        ("position_delete_file_count", INTEGER), ("equality_delete_record_count", BIGINT),
        ("equality_delete_file_count", INTEGER), ("last_updated_at", TIMESTAMPTZ),
        ("last_updated_snapshot_id", BIGINT),
    ),
    "refs": (
        ("name", VARCHAR), ("type", VARCHAR), ("snapshot_id", BIGINT),
        ("max_reference_age_in_ms", BIGINT), ("min_snapshots_to_keep", INTEGER),
        ("max_snapshot_age_in_ms", BIGINT),
    ),
}  # fmt: skip
"""The relations by the word after the `$`."""

_CONTENT = {
    "files": ("data", "position deletes", "equality deletes"),
    "manifests": ("data", "deletes"),
}
"""What the numbers in `content` stand for."""


def metadata_key(key: str, of: str) -> str:
    """The key of a relation of metadata."""
    return f"{key}${of}"


def split_key(key: str) -> tuple[str, str] | None:
    """The object whose metadata it is and which; None for the key of anything else, which ends otherwise."""
    object, _, of = key.rpartition("$")
    return (object, of) if of in METADATA else None


def metadata_text(table: LakeTable, of: str) -> str:
    """The relation in Spark SQL."""
    partitioned = bool(table.load().spec().isPartitioned())
    columns = ", ".join(_column(of, name, type, partitioned) for name, type in METADATA[of])
    return f"(SELECT {columns} FROM {table.sql}.{backtick(of)})"


def _column(of: str, name: str, type: Type, partitioned: bool) -> str:
    quoted = backtick(name)
    if not partitioned and (name == "partition" or (of, name) == ("partitions", "spec_id")):
        return f"CAST(NULL AS {spark_type(type)}) AS {quoted}"
    if name == "content":
        words = ", ".join(f"'{word}'" for word in _CONTENT[of])
        return f"element_at(array({words}), {quoted} + 1) AS {quoted}"
    return (
        f"{written(f'try_parse_json(to_json({quoted}))')} AS {quoted}" if type == JSONB else quoted
    )
