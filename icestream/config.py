"""Where a home keeps its things, and the few numbers that steer the engine."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from icestream.home_log import FORMATS, LEVELS

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
    def dml(self) -> Path:
        """The log of statements that change tables."""
        return self.root / "dml"

    @property
    def logs(self) -> Path:
        """The JVM's log and the engine's own."""
        return self.root / "logs"

    @property
    def locks(self) -> Path:
        """One lock file an incarnation; the newest that is held tells which process runs."""
        return self.root / "run"

    @property
    def indexes(self) -> Path:
        """The key indexes of tables that are upserted into. A cache: what is missing is made again."""
        return self.root / "index"

    @property
    def scratch(self) -> Path:
        """Files that may be deleted at any time: Spark's local directory and the like."""
        return self.root / "tmp"

    def prepare(self) -> None:
        """Create the directories that are missing."""
        for directory in (self.root, self.warehouse, self.logs, self.locks, self.scratch):
            make_folder(directory)


def make_folder(folder: Path) -> None:
    """Make a folder and the parents that are missing; the name of each is synced, so that a power failure leaves it."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


Kind = Literal["text", "size", "duration", "number", "choice"]


def _setting(
    default: Any,
    help: str,
    kind: Kind,
    flag: str | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    metadata = {"help": help, "kind": kind, "flag": flag, "choices": choices}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class EngineSettings:
    """What a user may tune. The command line has a flag for every field, made from what is said here; so is the
    table in docs/operations.md."""

    master: str = _setting(
        "local[*]", "where Spark runs: local[*] is this machine with all its cores", "text"
    )
    driver_memory: str = _setting(
        "2g",
        "memory of the driver's JVM; with a local master that is all of Spark",
        "size",
        "--memory",
    )
    query_memory: str = _setting("1g", "memory for queries that are answered without Spark", "size")
    epoch_interval: float = _setting(
        1.0, "time between epochs while data keeps arriving", "duration"
    )
    epoch_target: float = _setting(
        20.0,
        "time that an epoch may take while catching up; it bounds how many records it takes",
        "duration",
    )
    first_epoch_records: int = _setting(
        2_000_000,
        "records that a source gives to its first epoch, before a rate has been measured",
        "number",
    )
    retained_snapshots: int = _setting(
        50, "snapshots kept per table for time travel, beside those that recovery needs", "number"
    )
    merge_small_files_at: int = _setting(
        32, "small data files that a table of the lake gathers before they are merged", "number"
    )
    log_level: str = _setting(
        "info", "least level of what is written to logs/icestream.log", "choice", choices=LEVELS
    )
    log_format: str = _setting(
        "text",
        "format of logs/icestream.log: json is an object per line",
        "choice",
        choices=FORMATS,
    )


@dataclass(frozen=True)
class SettingInfo:
    """What there is to say about one engine setting."""

    name: str
    flag: str
    kind: Kind
    default: str
    """As the command line would take it."""
    help: str
    choices: tuple[str, ...] = ()


def engine_settings() -> list[SettingInfo]:
    """All engine settings, in the order of their declaration."""
    found = []
    for item in fields(EngineSettings):
        flag = item.metadata["flag"] or "--" + item.name.replace("_", "-")
        kind: Kind = item.metadata["kind"]
        default = f"{item.default:g}s" if kind == "duration" else str(item.default)
        help, choices = item.metadata["help"], item.metadata["choices"]
        found.append(SettingInfo(item.name, flag, kind, default, help, choices))
    return found
