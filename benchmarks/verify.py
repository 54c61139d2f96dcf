"""Are two results the same rows? Counted and hashed by DuckDB, by none of the contenders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks.events import COLUMNS, write_lines
from benchmarks.metadata import newest_metadata
from icestream.dev.duck import open_duckdb

Digest = tuple[int, int, int]
"""Number of rows, of distinct ids, and a sum of row hashes that any order of rows gives."""


def table_digest(table: Path, columns: Mapping[str, str] = COLUMNS) -> Digest:
    """The digest of an Iceberg table, given its folder, or of a Parquet file. The key is `id`."""
    if table.is_file():
        return _digest(f"read_parquet('{table}')", columns)
    return _digest(f"iceberg_scan('{newest_metadata(table)}')", columns)


def expected_digest(folder: Path, count: int, seed: int = 1) -> Digest:
    """The digest of the generated events themselves."""
    lines = write_lines(folder / "expected.json", count, seed)
    columns = ", ".join(f"{name}: '{type}'" for name, type in COLUMNS.items())
    try:
        return _digest(f"read_json('{lines}', format = 'nd', columns = {{{columns}}})", COLUMNS)
    finally:
        lines.unlink()


def _digest(relation: str, columns: Mapping[str, str]) -> Digest:
    values = ", ".join(
        f"epoch_us({name})" if type == "TIMESTAMPTZ" else name for name, type in columns.items()
    )
    with open_duckdb(iceberg=True) as db:
        db.execute("SET TimeZone = 'UTC'")
        row = db.execute(
            f"SELECT count(*), count(DISTINCT id), sum(hash({values})::HUGEINT) FROM {relation}"
        ).fetchone()
    assert row is not None
    return row[0], row[1], int(row[2] or 0)
