"""Are two results the same rows? Counted and hashed by DuckDB, by none of the contenders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from duckdb_extensions import import_extension  # type: ignore[import-untyped]
from pyiceberg.table import StaticTable

from benchmarks.events import COLUMNS, write_lines
from benchmarks.metadata import newest_metadata

Digest = tuple[int, int, int]
"""Number of rows, of distinct ids, and a sum of row hashes that any order of rows gives."""


def table_digest(table: Path) -> Digest:
    """The digest of an Iceberg table of events, given its folder."""
    return _digest(f"iceberg_scan('{newest_metadata(table)}')", COLUMNS)


def rows_digest(table: Path, columns: Mapping[str, str]) -> Digest:
    """The digest of an Iceberg table, read by PyIceberg, or of a Parquet file. The key is `id`.

    DuckDB 1.5.5 does not read all tables with deletion vectors right: where one Puffin file holds
    those of several data files, as Spark's MERGE writes them, it may take one for another.
    """
    if table.is_file():
        rows = pq.read_table(table)
    else:
        rows = StaticTable.from_metadata(str(newest_metadata(table))).scan().to_arrow()
    return _digest("rows", columns, rows=rows)


def expected_digest(folder: Path, count: int, seed: int = 1) -> Digest:
    """The digest of the generated events themselves."""
    lines = write_lines(folder / "expected.json", count, seed)
    columns = ", ".join(f"{name}: '{type}'" for name, type in COLUMNS.items())
    try:
        return _digest(f"read_json('{lines}', format = 'nd', columns = {{{columns}}})", COLUMNS)
    finally:
        lines.unlink()


def _digest(relation: str, columns: Mapping[str, str], **tables: pa.Table) -> Digest:
    values = ", ".join(
        f"epoch_us({name})" if type == "TIMESTAMPTZ" else name for name, type in columns.items()
    )
    with duckdb.connect() as db:
        for name in ("avro", "iceberg"):
            import_extension(name)
            db.execute(f"LOAD {name}")
        db.execute("SET TimeZone = 'UTC'")
        for name, rows in tables.items():
            db.register(name, rows)
        row = db.execute(
            f"SELECT count(*), count(DISTINCT id), sum(hash({values})::HUGEINT) FROM {relation}"
        ).fetchone()
    assert row is not None
    return row[0], row[1], int(row[2] or 0)
