"""Where a home is served: one small file that its owner alone reads, there for as long as the server is."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from icestream.config import Home


@dataclass(frozen=True)
class Serving:
    """A server of a home."""

    host: str
    port: int
    user: str
    pid: int
    encrypted: bool = False
    clients: int = 0

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def announce(home: Home, serving: Serving) -> None:
    """Say where the home is served."""
    path = _path(home)
    temporary = path.with_suffix(f".{serving.pid}")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(asdict(serving), file)
    os.replace(temporary, path)


def withdraw(home: Home, pid: int) -> None:
    """The home is not served by that process any more."""
    found = announced(home)
    if found is not None and found.pid == pid:
        with suppress(OSError):  # a read-only disk: the home's lock tells that nobody serves it
            _path(home).unlink()


def announced(home: Home) -> Serving | None:
    """The server that announced itself last; whether it still runs, the home's lock tells."""
    try:
        return Serving(**json.loads(_path(home).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _path(home: Home) -> Path:
    return home.root / "server.json"
