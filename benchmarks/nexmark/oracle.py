"""Is a result right? DuckDB runs the same query over the same events, and bags of rows are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.metadata import newest_metadata
from benchmarks.nexmark import queries
from icestream.dev.duck import open_duckdb

TOLERANCE = 1e-9
"""Relative, for averages: DuckDB's are floating-point numbers. All else must be equal."""


class Oracle:
    """The events in DuckDB. Close it when done."""

    def __init__(self, events: Mapping[str, Path], side_input: Path) -> None:
        self.db = open_duckdb(iceberg=True)
        self.db.execute("SET TimeZone = 'UTC'")
        for kind, path in events.items():
            self.db.execute(f"CREATE VIEW {kind} AS FROM read_parquet('{path}')")
        self.db.execute(f"CREATE VIEW side_input AS FROM read_csv('{side_input}/*.csv')")

    def check(self, query: str, table: Path) -> int:
        """Compares an Iceberg table, or a folder of Parquet files, with what is expected.

        Returns the number of rows. Raises an error that shows the first difference.
        """
        iceberg = (table / "metadata").exists()
        where = f"iceberg_scan('{newest_metadata(table)}')" if iceberg else f"'{table}/*.parquet'"
        self.db.execute(f"CREATE OR REPLACE TEMP VIEW result AS FROM {where}")
        wanted, seen = queries.oracle(query)
        columns = self._columns(wanted)
        names = ", ".join(f'"{name}"' for name in columns)
        expected = self._sorted(wanted, columns)
        found = self._sorted(seen or f"SELECT {names} FROM result", columns)
        if problem := difference(expected, found):
            raise RuntimeError(f"{query} is wrong: {problem}")
        return self._count()

    def close(self) -> None:
        """Ends it."""
        self.db.close()

    def _count(self) -> int:
        row = self.db.execute("SELECT count(*) FROM result").fetchone()
        assert row is not None
        return int(row[0])

    def _columns(self, query: str) -> dict[str, str]:
        found = self.db.execute(f"DESCRIBE {query}").fetchall()
        return {row[0]: row[1] for row in found}

    def _sorted(self, query: str, types: Mapping[str, str]) -> pa.Table:
        """The rows in an order of their own; values in a form that does not tell who computed them."""
        values = ", ".join(f'{_plain(name, type)} AS "{name}"' for name, type in types.items())
        order = sorted(types, key=lambda name: types[name] == "DOUBLE")
        by = ", ".join(f'"{name}"' for name in order)
        text = f"SELECT {values} FROM ({query}) ORDER BY {by}"
        return self.db.execute(text).to_arrow_table()


def _plain(name: str, type: str) -> str:
    if type.startswith("TIMESTAMP"):
        return f'epoch_us("{name}")'
    if type in ("VARCHAR", "BOOLEAN"):
        return f'"{name}"'
    # Numbers of any type; whole ones are far below 2^53 here.
    return f'CAST("{name}" AS DOUBLE)' if type == "DOUBLE" else f'CAST("{name}" AS DECIMAL(38, 10))'


def difference(expected: pa.Table, found: pa.Table) -> str | None:
    """Where two sorted tables differ first, in words; None if they are equal."""
    if expected.num_rows != found.num_rows:
        return f"{found.num_rows:,} rows, expected {expected.num_rows:,}"
    for name in expected.column_names:
        same = _same(expected[name], found[name])
        if not pc.all(same).as_py():
            place = pc.index(same, False).as_py()
            rows = (_row(table, place) for table in (found, expected))
            return "{}: {}, expected {}".format(name, *rows)
    return None


def _same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    equal = pc.equal(one, other)
    if pa.types.is_floating(one.type):
        within = pc.multiply(pc.abs(one), TOLERANCE)
        equal = pc.or_(equal, pc.less_equal(pc.abs(pc.subtract(one, other)), within))
    nulls = pc.and_(pc.is_null(one), pc.is_null(other))
    return pc.or_(pc.fill_null(equal, False), nulls)


def _row(table: pa.Table, place: int) -> Sequence[object]:
    return list(table.slice(place, 1).to_pylist()[0].values())
