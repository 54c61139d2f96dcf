"""One warm Spark session beside the contenders: makes their tables, reads them when they are done.

A table is read by the path of its newest metadata file, so whoever wrote it is read the same way.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.changes import COLUMNS
from benchmarks.metadata import newest_metadata
from benchmarks.peers.spark import EXTENSIONS, columns, hadoop_catalog, session

Digest = tuple[int, int, int]
"""Number of rows, of distinct ids, and a sum of row hashes that any order of rows gives."""

MERGE_ON_READ = {
    "format-version": "3",
    "write.merge.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.delete.mode": "merge-on-read",
}
UPSERTING = {"format-version": "2", "write.upsert.enabled": "true"}
PLAIN = {"format-version": "2"}


class Tables:
    """The session. It starts when it is first used."""

    def __init__(self) -> None:
        self._spark: SparkSession | None = None

    @property
    def spark(self) -> SparkSession:
        """The session itself."""
        if self._spark is None:
            self._spark = session(EXTENSIONS)
        return self._spark

    def make(self, rows: Path, warehouse: Path, properties: dict[str, str]) -> Path:
        """A table bench.orders with the rows of a Parquet file, in a folder as the catalog."""
        catalog = hadoop_catalog(warehouse, catalog_name(warehouse))
        return self._make(rows, catalog, properties, warehouse)

    def make_sqlite(self, rows: Path, warehouse: Path, properties: dict[str, str]) -> Path:
        """The same in a catalog that PyIceberg can open: catalog.db in the warehouse."""
        warehouse.mkdir(parents=True, exist_ok=True)
        prefix = f"spark.sql.catalog.{catalog_name(warehouse)}"
        catalog = {
            prefix: "org.apache.iceberg.spark.SparkCatalog",
            f"{prefix}.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            f"{prefix}.uri": f"jdbc:sqlite:{warehouse / 'catalog.db'}",
            f"{prefix}.jdbc.schema-version": "V1",
            f"{prefix}.warehouse": warehouse.as_uri(),
        }
        return self._make(rows, catalog, properties, warehouse)

    def _make(
        self, rows: Path, catalog: dict[str, str], properties: dict[str, str], warehouse: Path
    ) -> Path:
        for key, value in catalog.items():
            self.spark.conf.set(key, value)
        table = f"{catalog_name(warehouse)}.bench.orders"
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        types = columns(COLUMNS).replace("id BIGINT", "id BIGINT NOT NULL", 1)
        self.spark.sql(f"CREATE NAMESPACE {table.rpartition('.')[0]}")
        self.spark.sql(f"CREATE TABLE {table} ({types}) USING iceberg TBLPROPERTIES ({listed})")
        self.spark.sql(f"ALTER TABLE {table} SET IDENTIFIER FIELDS id")
        self.spark.read.parquet(str(rows)).writeTo(table).append()
        return warehouse / "bench" / "orders"

    def read(self, table: Path) -> DataFrame:
        """An Iceberg table by its folder, or a Parquet file."""
        if table.is_file():
            return self.spark.read.parquet(str(table))
        return self.spark.read.format("iceberg").load(str(newest_metadata(table)))

    def digest(self, table: Path) -> Digest:
        """What two tables with the same rows have in common."""
        names = ", ".join(COLUMNS)
        row = self.read(table).selectExpr(
            "count(*)",
            "count(DISTINCT id)",
            f"cast(sum(cast(xxhash64({names}) AS DECIMAL(20))) AS STRING)",
        )
        count, ids, total = row.collect()[0]
        return count, ids, int(total or 0)

    def scan(self, table: Path) -> float:
        """Seconds of a query that reads all columns of all rows."""
        begin = time.monotonic()
        self.read(table).selectExpr(
            "count(*)",
            "sum(id)",
            "sum(customer_id)",
            "sum(quantity)",
            "sum(price)",
            "sum(length(status))",
            "sum(length(note))",
            "sum(unix_seconds(updated_at))",
        ).collect()
        return time.monotonic() - begin

    def close(self) -> None:
        """Ends the session."""
        if self._spark is not None:
            self._spark.stop()


def catalog_name(warehouse: Path) -> str:
    """The name of the catalog on a warehouse, which a catalog in a database records."""
    return f"{warehouse.name}_{warehouse.parent.name}"


class Saved:
    """A folder as it was: Iceberg records absolute paths, so a table can only be put back in its place."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.copy = folder.with_name(folder.name + ".saved")
        shutil.copytree(folder, self.copy)

    def restore(self) -> None:
        """Puts it back."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.copy, self.folder)
