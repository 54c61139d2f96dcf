"""DuckDB for tests and benchmarks: without the optimizers that give wrong rows, so that it can be believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from icestream.functions.duckdb import SETTINGS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def open_duckdb(*, iceberg: bool = False, **config: str | int) -> DuckDBPyConnection:
    """An empty database in memory; `iceberg`: one that reads Iceberg tables."""
    import duckdb

    made = duckdb.connect(":memory:", config={**SETTINGS, **config})
    if iceberg:
        from duckdb_extensions import import_extension  # type: ignore[import-untyped]

        for name in ("avro", "iceberg"):
            import_extension(name)
            made.execute(f"LOAD {name}")
        # 1.5.5: with its cache, a vector may be taken for its neighbour in the same Puffin file.
        made.execute("SET enable_external_file_cache = false")
    return made
