"""Which files of this machine a statement may name: those below an allowed directory, never the home's own.

The operator allows directories (`--allow-path`), a client only names files. A path is resolved first, links and `..`
included, so that what counts is the file that would be opened.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from icestream.errors import Place, SqlError

INSUFFICIENT_PRIVILEGE = "42501"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_GLOB = re.compile(r"[*?\[{\\]")


@dataclass(frozen=True)
class NamedFile:
    """A local path in an option of a statement."""

    option: str
    path: str
    place: Place | None = None
    is_listed_by_spark: bool = False
    """Spark lists the directory itself: files in it cannot be left out one by one. The path may have wildcards."""
    is_warehouse: bool = False
    """A catalog makes folders in it, so the home must not lie below it."""


@dataclass(frozen=True)
class FileAccess:
    """The directories that statements may read and write. All paths are resolved."""

    home: Path
    allowed: tuple[Path, ...] = ()

    @classmethod
    def of(cls, home: Path, allowed: Iterable[str | Path]) -> FileAccess:
        """Access to the files below these directories, without those of the home."""
        return cls(_resolve(home), tuple(_resolve(Path(path).expanduser()) for path in allowed))

    def can_use(self, path: str | Path) -> bool:
        """Whether the file that the path leads to is allowed. A path that cannot be resolved is not."""
        try:
            return all(self._is_allowed(real) for real in _resolve_both_ways(path))
        except (OSError, ValueError):
            return False

    def _is_allowed(self, real: Path) -> bool:
        if real.is_relative_to(self.home):
            return False
        return any(real.is_relative_to(root) for root in self.allowed)

    def find_forbidden(self, path: str) -> str | None:
        """The first file or folder at or below the path that is not allowed, links followed; None if all are."""
        waiting, seen = [path], set[Path]()
        while waiting:
            at = waiting.pop()
            real = _resolve(at)
            if real in seen:
                continue
            seen.add(real)
            if not self.can_use(at) or self.home.is_relative_to(real):
                return at
            with suppress(NotADirectoryError, FileNotFoundError), os.scandir(at) as entries:
                # A plain file in an allowed folder is allowed; only links and folders need a look.
                waiting += [e.path for e in entries if e.is_symlink() or e.is_dir()]
        return None

    def check(self, file: NamedFile, what: str) -> None:
        """Raise unless a statement may name this file; `what` names the object in the error."""
        path, pattern = split_pattern(file.path) if file.is_listed_by_spark else (file.path, "")
        # Hadoop expands braces and removes escapes before it looks for '..'.
        hides = file.is_listed_by_spark and (
            "\\" in file.path or ".." in re.split(r"[/{},]", pattern)
        )
        if "\0" in file.path or hides:
            raise SqlError(
                f"{what}: {file.option} accepts no '..' behind a wildcard, no backslash and no NUL",
                place=file.place,
                code=INSUFFICIENT_PRIVILEGE,
            )
        is_tree = file.is_listed_by_spark or file.is_warehouse
        if any(
            real.is_relative_to(self.home) or (is_tree and self.home.is_relative_to(real))
            for real in _resolve_both_ways(path)
        ):
            raise SqlError(
                f"{what}: {file.option} names files of the engine's home, which no statement may use",
                place=file.place,
                remedy="choose a directory outside the home",
                code=INSUFFICIENT_PRIVILEGE,
            )
        if not self.can_use(path):
            raise SqlError(
                f"{what}: {file.option} names {path!r}, which is not below an allowed directory",
                place=file.place,
                remedy=f"start the engine with --allow-path, e.g. icestream serve --allow-path {path}",
                code=INSUFFICIENT_PRIVILEGE,
            )


def local_path(location: str) -> str | None:
    """The path of a local location, `/x` or `file:/x`; None for one elsewhere, such as `s3://b/x`.

    A relative path is local too: it is resolved against the working directory of the engine.
    """
    scheme = _SCHEME.match(location)
    if scheme is None:
        return location
    if scheme[1].lower() != "file":
        return None
    rest = location[scheme.end() :]
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        return slash + path if authority in ("", "localhost") else f"//{authority}/{path}"
    return rest


def table_folders(warehouse: str, table: Sequence[str]) -> list[str]:
    """The folders that a catalog makes in a local warehouse for a table: one for each part of its name, and in it
    those for metadata and data. Any of them may be a link."""
    folder = os.path.join(warehouse, *table)
    return [folder, os.path.join(folder, "metadata"), os.path.join(folder, "data")]


def split_pattern(path: str) -> tuple[str, str]:
    """The folders before the first wildcard, and the rest."""
    found = _GLOB.search(path)
    if found is None:
        return path, ""
    at = path.rfind("/", 0, found.start())
    return path[:at] or "/", path[at + 1 :]


def _resolve_both_ways(path: str | Path) -> set[Path]:
    """The file as the operating system finds it, and as Hadoop does, which removes `..` before it follows links."""
    return {_resolve(path), _resolve(os.path.normpath(path))}


def _resolve(path: str | Path) -> Path:
    return Path(os.path.realpath(path))
