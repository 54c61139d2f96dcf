"""The embedded lake as its files tell it: the newest record, and the live files of a snapshot, without a JVM.

The catalog says where a table's metadata is, the metadata which manifests a snapshot has, and those name the data files
and their deletion vectors. None of these files ever changes, so what was read is kept; one commit costs one new manifest
or two. `lake/avro.py` says why PyIceberg does not do this.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

from icestream.config import Home
from icestream.errors import SignalError
from icestream.lake import avro
from icestream.lake.catalogs import LAKE, SYSTEM
from icestream.lake.recent import Recent
from icestream.lake.stamp import RECORD, Record
from icestream.lake.vectors import Bits, decode

KEPT = 16 << 20
"""Bytes of manifests that are kept."""
LOCATION = """SELECT metadata_location FROM iceberg_tables
WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?"""
DATA, POSITIONS = 0, 1
REMOVED = 2
_GLOB = re.compile(r"[*?\[\]{}\\]")

_TYPES = {
    "boolean": "BOOLEAN", "int": "INTEGER", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "date": "DATE", "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMPTZ", "string": "VARCHAR", "binary": "BLOB",
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")


class NeedsSparkError(SignalError):
    """A snapshot has something that only Iceberg's own reader understands."""


@dataclass(frozen=True)
class Vector:
    """Where a deletion vector is."""

    path: str
    offset: int
    size: int

    def read(self) -> Bits:
        """The deleted positions."""
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            return decode(file.read(self.size))


@dataclass(frozen=True)
class DataFile:
    """A live data file on this machine."""

    path: str
    rows: int
    size: int
    vector: Vector | None = None


@dataclass(frozen=True)
class Column:
    """A column of a table: its field id, and its type in DuckDB."""

    id: int
    name: str
    type: str


@dataclass(frozen=True)
class Listed:
    """A table at a snapshot."""

    name: str
    snapshot: int
    columns: tuple[Column, ...]
    """Those of a plain type."""
    files: Mapping[str, DataFile]
    """By path."""

    @cached_property
    def rows(self) -> int:
        """How many rows the files hold, deleted ones among them."""
        return sum(f.rows for f in self.files.values())

    @cached_property
    def size(self) -> int:
        """The bytes of the files."""
        return sum(f.size for f in self.files.values())


class Listing:
    """Reads the catalog and the metadata of a home's lake. Any number of threads may use it."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._lock = Lock()
        self._db: sqlite3.Connection | None = None
        self._record: tuple[str, Record | None] | None = None
        self._tables: dict[str, Listed] = {}
        self._manifests: Recent[str, list[Any]] = Recent(KEPT)

    def close(self) -> None:
        """Let go of the catalog."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def record(self) -> Record | None:
        """The newest complete record."""
        location = self.location(SYSTEM, "epochs")
        if location is None:
            return None
        known = self._record
        if known is None or known[0] != location:
            known = self._record = (location, _newest(_metadata(location)))
        return known[1]

    def table(self, name: str, uuid: str | None, snapshot: int, most: int) -> Listed:
        """A table (catalog.namespace.name) at a snapshot that is kept. Raises NeedsSparkError if it has more than `most` rows, or
        if DuckDB could not read it; OSError or KeyError if it has changed too much in the meantime."""
        found = self._tables.get(name)
        if found is None or found.snapshot != snapshot:
            found = self._list(name, uuid, snapshot, most)
            self._tables[name] = found
        return found

    def _list(self, name: str, uuid: str | None, snapshot: int, most: int) -> Listed:
        catalog, namespace, table = name.split(".", 2)
        location = self.location(namespace, table) if catalog == LAKE else None
        if location is None:
            raise NeedsSparkError(f"{name} is not in the lake")
        metadata = _metadata(location)
        if metadata["table-uuid"] != uuid:
            raise NeedsSparkError(f"{name} is another table now")
        at = next((s for s in metadata["snapshots"] if s["snapshot-id"] == snapshot), None)
        if at is None:
            raise KeyError(snapshot)
        if int(at["summary"].get("total-records", 0)) > most:
            raise NeedsSparkError(f"{name} has more than {most} rows")
        schema = next(s for s in metadata["schemas"] if s["schema-id"] == at["schema-id"])
        return Listed(name, snapshot, _columns(schema), self._files(at["manifest-list"]))

    def _files(self, location: str) -> dict[str, DataFile]:
        files: dict[str, DataFile] = {}
        vectors: dict[str, Vector] = {}
        for manifest in avro.records(Path(path_of(location)).read_bytes()):
            for entry in self._manifest(manifest["manifest_path"]):
                found = entry["data_file"]
                path = path_of(found["file_path"])
                if found["content"] == DATA:
                    if found["file_format"].upper() != "PARQUET":
                        raise NeedsSparkError(f"data files in {found['file_format']}")
                    files[path] = DataFile(path, found["record_count"], found["file_size_in_bytes"])
                elif found["content"] == POSITIONS and found["file_format"].upper() == "PUFFIN":
                    place = Vector(path, found["content_offset"], found["content_size_in_bytes"])
                    vectors[path_of(found["referenced_data_file"])] = place
                else:
                    raise NeedsSparkError("deletes that are not vectors")
        for path, vector in vectors.items():
            if path in files:
                file = files[path]
                files[path] = DataFile(path, file.rows, file.size, vector)
        return files

    def _manifest(self, location: str) -> list[Any]:
        """The live entries of a manifest."""
        known = self._manifests.get(location)
        if known is None:
            content = Path(path_of(location)).read_bytes()
            known = [e for e in avro.records(content) if e["status"] != REMOVED]
            self._manifests.keep(location, known, 8 * len(content))
        return known

    def location(self, namespace: str, table: str) -> str | None:
        """Where the metadata of a table is now; None if there is no such table."""
        with self._lock:
            if self._db is None:
                if not self.home.lake_catalog.exists():
                    return None
                uri = f"{self.home.lake_catalog.as_uri()}?mode=ro"
                self._db = sqlite3.connect(uri, uri=True, timeout=30, check_same_thread=False)
            try:
                row = self._db.execute(LOCATION, (LAKE, namespace, table)).fetchone()
            except sqlite3.OperationalError:  # no table in it yet
                return None
        return None if row is None else str(row[0])


def path_of(location: str) -> str:
    """The path of a file on this machine."""
    if not location.startswith(("file:", "/")) or _GLOB.search(location):
        raise NeedsSparkError("files that are not on this machine")
    return "/" + location.removeprefix("file:").lstrip("/")


def _metadata(location: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(path_of(location)).read_bytes())
    return found


def _newest(metadata: Mapping[str, Any]) -> Record | None:
    """The record of the newest snapshot that has one."""
    snapshots = {s["snapshot-id"]: s for s in metadata.get("snapshots", ())}
    at = snapshots.get(metadata.get("current-snapshot-id"))
    while at is not None:
        if text := at["summary"].get(RECORD):
            return Record.from_json(text)
        at = snapshots.get(at.get("parent-snapshot-id"))
    return None


RESERVED = (
    "file_row_number", "file_index", "filename", "_icestream_file", "_icestream_position",
)  # fmt: skip


def _columns(schema: Mapping[str, Any]) -> tuple[Column, ...]:
    found = []
    for field in schema["fields"]:
        kind = field["type"]
        if field.get("initial-default") is not None:
            raise NeedsSparkError("a column with a default in Iceberg")
        if isinstance(kind, str):
            match = _DECIMAL.fullmatch(kind)
            type = f"DECIMAL({match[1]},{match[2]})" if match else _TYPES.get(kind)
            if type is not None:
                found.append(Column(field["id"], field["name"], type))
    if any(c.name.casefold() in RESERVED for c in found):
        raise NeedsSparkError("a column whose name means something to DuckDB")
    if len({c.name.casefold() for c in found}) < len(found):
        raise NeedsSparkError("columns whose names differ in case alone")
    return tuple(found)
