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
    metadata = json.loads(metadata_file.read_text())
    current = metadata.get("current-snapshot-id")
    for snapshot in metadata.get("snapshots", ()):
        if snapshot["snapshot-id"] == current:
            return int(snapshot["summary"]["total-records"])
    return 0
