"""Reads an Iceberg table's metadata files. No dependencies: also runs in a peer's own Python."""

from __future__ import annotations

import json
import re
from pathlib import Path


def newest_metadata(table: Path) -> Path:
    """The metadata file with the highest version, in Hadoop's and in other catalogs' naming."""

    def version(path: Path) -> int:
        found = re.match(r"v?(\d+)", path.name)
        return int(found.group(1)) if found else -1

    return max((table / "metadata").glob("*.metadata.json"), key=version)


def total_records(metadata_file: Path) -> int:
    """The number of rows in the current snapshot of a metadata file."""
    return int(summary(metadata_file).get("total-records", 0))


def summary(metadata_file: Path) -> dict[str, str]:
    """What the current snapshot of a metadata file says about the table; nothing if there is none."""
    metadata = json.loads(metadata_file.read_text())
    current = metadata.get("current-snapshot-id")
    for snapshot in metadata.get("snapshots", ()):
        if snapshot["snapshot-id"] == current:
            return dict(snapshot["summary"])
    return {}
