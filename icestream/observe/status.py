"""The read model of a home: what runs, how far it is, what went wrong. One file, read by status, SHOW and pages.

The pipeline writes it after every epoch; anybody reads it without a JVM.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from icestream.config import Home
from icestream.observe.serving import Serving
from icestream.secrecy import mask_secrets

STATES = ("starting", "running", "retrying", "paused", "stopped", "failed")


@dataclass
class SourceStatus:
    """A feed: how many records were read, how many it could not take in, how many wait."""

    name: str
    records: int = 0
    dead_letters: int = 0
    late: int = 0
    """Rows that came after the watermark had passed their time."""
    errors: int = 0
    """Expressions of generated columns that failed and gave NULL."""
    lag: int | None = None
    error: str | None = None
    """Why nothing is read of it at the moment."""
    failing_since: float | None = None


@dataclass
class ObjectStatus:
    """A stored object or sink: its rows so far and the epoch it stands at."""

    name: str
    kind: str
    rows: int = 0
    epoch: int = 0
    table: str | None = None
    errors: int = 0
    """Expressions that failed and gave NULL."""
    error: str | None = None
    """Why a sink does not write at the moment."""
    failing_since: float | None = None


@dataclass
class FallbackStatus:
    """How often Spark did something that could have been done without it, and why."""

    kind: str
    """What Spark did: `query`, `small change`."""
    reason: str
    count: int


@dataclass
class Status:
    """A home at a moment."""

    state: str = "stopped"
    pid: int | None = None
    epoch: int = 0
    epoch_seconds: float = 0
    updated: float = 0
    message: str | None = None
    served: Serving | None = None
    sources: list[SourceStatus] = field(default_factory=list)
    objects: list[ObjectStatus] = field(default_factory=list)
    fallbacks: list[FallbackStatus] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def write(home: Home, status: Status) -> None:
    """Replace the home's status file."""
    status.updated = time.time()
    path = home.root / "status.json"
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(_masked(status.as_dict())))
    os.replace(temporary, path)


def _masked(value: Any) -> Any:
    """Plain values with the secrets in texts hidden."""
    if isinstance(value, str):
        return mask_secrets(value)
    if isinstance(value, dict):
        # A name is no secret, though somebody may have a password that is spelt alike.
        return {key: each if key == "name" else _masked(each) for key, each in value.items()}
    return [_masked(each) for each in value] if isinstance(value, list) else value


def read(home: Home) -> Status:
    """The home's status; an empty one for a home that never ran."""
    try:
        raw: Mapping[str, Any] = json.loads((home.root / "status.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return Status()
    values = {**raw, "served": None}
    values["sources"] = [SourceStatus(**s) for s in raw["sources"]]
    values["objects"] = [ObjectStatus(**o) for o in raw["objects"]]
    values["fallbacks"] = [FallbackStatus(**f) for f in raw.get("fallbacks", ())]
    return Status(**values)
