"""Are two results the same rows? Counted and hashed by DuckDB, by none of the contenders."""

from __future__ import annotations

from pathlib import Path

import duckdb
from duckdb_extensions import import_extension  # type: ignore[import-untyped]

from benchmarks.events import COLUMNS, write_lines
from benchmarks.metadata import newest_metadata

Digest = tuple[int, int, int]
"""Number of rows, of distinct ids, and a sum of row hashes that any order of rows gives."""


def table_digest(table: Path) -> Digest:
    """The digest of an Iceberg table, given its folder."""
    return _digest(f"iceberg_scan('{newest_metadata(table)}')")


def expected_digest(folder: Path, count: int, seed: int = 1) -> Digest:
    """The digest of the generated events themselves."""
    lines = write_lines(folder / "expected.json", count, seed)
    columns = ", ".join(f"{name}: '{type}'" for name, type in COLUMNS.items())
    try:
        return _digest(f"read_json('{lines}', format = 'nd', columns = {{{columns}}})")
    finally:
        lines.unlink()


def _digest(relation: str) -> Digest:
    columns = ", ".join(
        f"epoch_us({name})" if type == "TIMESTAMPTZ" else name for name, type in COLUMNS.items()
    )
    with duckdb.connect() as db:
        for name in ("avro", "iceberg"):
            import_extension(name)
            db.execute(f"LOAD {name}")
        db.execute("SET TimeZone = 'UTC'")
        row = db.execute(
            f"SELECT count(*), count(DISTINCT id), sum(hash({columns})::HUGEINT) FROM {relation}"
        ).fetchone()
    assert row is not None
    return row[0], row[1], int(row[2] or 0)
