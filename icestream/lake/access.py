"""What a Spark session tells of its home: where it is, and which files its statements may name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

from icestream.errors import SqlError
from icestream.file_access import FileAccess, NamedFile, local_path, table_folders

LAKE = "lake"
"""The embedded lake's name in Spark."""
ALLOWED = "spark.icestream.allowedPaths"
PATH_PROPERTIES = (
    "write.data.path", "write.metadata.path", "write.object-storage.path",
    "write.folder-storage.path",
)  # fmt: skip
"""Table properties that say where files are written, if not below the table's location."""


def home_of(spark: SparkSession) -> Path:
    """The home directory, found through its embedded lake."""
    warehouse = str(spark.conf.get(f"spark.sql.catalog.{LAKE}.warehouse"))
    return Path(unquote(urlsplit(warehouse).path)).parent.parent


def landing_folder(home: Path) -> Path:
    """Where the checkpoints of landed streams are."""
    return home / "landing"


def access_conf(access: FileAccess | None) -> dict[str, str]:
    """The session setting that holds the allowed directories, for code that has only the session."""
    return {} if access is None else {ALLOWED: json.dumps([str(p) for p in access.allowed])}


def access_of(spark: SparkSession) -> FileAccess:
    """The files that statements of the session's home may name."""
    return FileAccess.of(home_of(spark), json.loads(str(spark.conf.get(ALLOWED, '["/"]'))))


def check_table_folders(spark: SparkSession, parts: Sequence[str]) -> None:
    """Raise unless the folders that a foreign catalog makes for a table of that name are allowed. Called before the
    catalog is asked, because links may have been made since the statement was planned."""
    prefix = f"spark.sql.catalog.{parts[0]}"
    if parts[0] == LAKE or spark.conf.get(f"{prefix}.type", "") == "rest":
        return
    warehouse = local_path(str(spark.conf.get(f"{prefix}.warehouse", "none:")))
    if warehouse is None:
        return
    name = ".".join(parts)
    folders = table_folders(warehouse, parts[1:])
    check_location(spark, name, [("folder", folder) for folder in folders])


def check_location(
    spark: SparkSession, table: str, places: Iterable[tuple[str, str | None]]
) -> None:
    """Raise unless a table of a foreign catalog may keep its files where it says: the catalog is somebody else's, and
    could lead to any file of this machine."""
    access: FileAccess | None = None
    for name, place in places:
        path = local_path(place) if place is not None else None
        if path is None:
            continue
        access = access or access_of(spark)
        try:
            access.check(NamedFile(f"the {name} in its catalog", path), f"table {table}")
        except SqlError as error:
            error.object = table
            raise
