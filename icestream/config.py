"""Where a home keeps its things, and the few numbers that steer the engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DEFAULT_HOME = ".icestream"


@dataclass(frozen=True)
class Home:
    """The directory of one engine: its store, its embedded lake, its logs."""

    root: Path

    @classmethod
    def at(cls, path: str | Path) -> Home:
        """The home at that path, made absolute (Iceberg records absolute file locations)."""
        return cls(Path(path).expanduser().absolute())

    @property
    def store(self) -> Path:
        """The object store (SQLite)."""
        return self.root / "icestream.db"

    @property
    def secrets(self) -> Path:
        """Secret values, readable by the owner alone, never part of the store."""
        return self.root / "secrets.json"

    @property
    def lake_catalog(self) -> Path:
        """The embedded lake's Iceberg catalog (SQLite)."""
        return self.root / "lake" / "catalog.db"

    @property
    def warehouse(self) -> Path:
        """The embedded lake's table files."""
        return self.root / "lake" / "warehouse"

    @property
    def logs(self) -> Path:
        """The JVM's log and the engine's own."""
        return self.root / "logs"

    @property
    def locks(self) -> Path:
        """One lock file an incarnation; the newest that is held tells which process runs."""
        return self.root / "run"

    @property
    def scratch(self) -> Path:
        """Files that may be deleted at any time: Spark's local directory and the like."""
        return self.root / "tmp"

    def prepare(self) -> None:
        """Create the directories that are missing."""
        for directory in (self.root, self.warehouse, self.logs, self.locks, self.scratch):
            directory.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class EngineSettings:
    """What a user may tune. Every field is documented in docs/operations.md (a test checks it)."""

    master: str = "local[*]"
    """Where Spark runs: local[*] is this machine with all its cores."""
    driver_memory: str = "2g"
    """Memory of the driver's JVM; with a local master that is all of Spark."""
    epoch_interval: float = 1.0
    """Seconds between epochs when data keeps arriving."""
    epoch_target: float = 20.0
    """Seconds that an epoch may take while catching up; it bounds how many records it takes."""
    first_epoch_records: int = 2_000_000
    """Records that a source gives to its first epoch, before a rate has been measured."""
    retained_snapshots: int = 50
    """Snapshots kept per table for time travel, beside those that recovery needs."""
    merge_small_files_at: int = 32
    """Small data files that a table of the lake gathers before they are merged."""
