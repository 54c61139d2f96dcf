"""What a file is, so that a range of files gives the same bytes each time: size, modification time, S3's ETag.

A file is taken in once nobody writes it any more, and read up to the size that was recorded. One that differs from
its record is an error: before, during and after reading.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pf

from icestream.errors import RangeLostError
from icestream.file_access import FileAccess

QUIET_SECONDS = 2.0
"""How long a file must not have changed, where it cannot be told whether somebody has it open for writing."""
HEADS = 16
"""Requests for ETags at a time."""


@dataclass(frozen=True)
class Storage:
    """Where files live: this machine, or a bucket. It holds keys: never print it."""

    bucket: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    access: FileAccess | None = None
    """Which files of this machine may be read; None: all of them, or a bucket."""

    def open(self) -> pf.FileSystem:
        """The file system, as Arrow sees it."""
        if self.bucket is None:
            return pf.LocalFileSystem()
        options = dict(self.options)
        if endpoint := options.pop("endpoint", None):
            parts = urlsplit(endpoint if "//" in endpoint else f"https://{endpoint}")
            options |= {"endpoint_override": parts.netloc, "scheme": parts.scheme}
        return pf.S3FileSystem(**options)

    def location(self, path: str) -> str:
        """The path that the file system wants for a file's own."""
        return path if self.bucket is None else f"{self.bucket}/{path}"


@dataclass(frozen=True)
class FileEntry:
    """One file, as it was when it was first seen."""

    path: str
    size: int
    modified: int
    """Microseconds since 1970."""
    etag: str = ""
    """What S3 says of the content; empty for local files."""

    @property
    def skipped(self) -> bool:
        """Whether it was lost, and ALTER SOURCE … RESET has accepted that."""
        return self.size < 0


def check_unchanged(
    storage: Storage, system: pf.FileSystem, files: Sequence[FileEntry], name: str
) -> None:
    """Raise RangeLostError for the first file that is gone, is no longer what was recorded, or is not allowed."""
    found = system.get_file_info([storage.location(f.path) for f in files])
    for file, info in zip(files, found, strict=True):
        lost = _find_change(storage, system, file, info)
        if lost is not None:
            raise RangeLostError(
                f"source {name}: file {file.path} {lost}, before it was read",
                object=name,
                remedy="put it back as it was, or skip it with ALTER … RESET, which reads changed files as they "
                "are now; write files under a name that begins with . or _ and rename them when they are complete",
            )


def _find_change(
    storage: Storage, system: pf.FileSystem, file: FileEntry, info: pf.FileInfo
) -> str | None:
    if storage.access is not None and not storage.access.can_use(file.path):
        return "leads outside the allowed directories or into the home"
    if info.type != pf.FileType.File:
        return "is gone"
    if info.size != file.size:
        return f"had {file.size} bytes and has {info.size} now"
    if modified(info) == file.modified:
        return None
    if file.etag and _read_etag(storage, system, file) == file.etag:
        return None  # the same content was uploaded again
    return "was written again"


def modified(info: pf.FileInfo) -> int:
    """The modification time, in microseconds."""
    return (info.mtime_ns or 0) // 1000


def with_etags(storage: Storage, files: Sequence[FileEntry]) -> list[FileEntry]:
    """New files with their ETags; local files have none."""
    if storage.bucket is None or not files:
        return list(files)
    system = storage.open()
    with ThreadPoolExecutor(HEADS) as pool:
        tags = list(pool.map(lambda file: _read_etag(storage, system, file), files))
    return [replace(file, etag=tag) for file, tag in zip(files, tags, strict=True)]


def _read_etag(storage: Storage, system: pf.FileSystem, file: FileEntry) -> str:
    with system.open_input_file(storage.location(file.path)) as opened:
        return _etag(opened)


def _etag(opened: pa.NativeFile) -> str:
    return str((opened.metadata() or {}).get("ETag", b"").decode()).strip('"')


@contextmanager
def open_recorded(
    storage: Storage, system: pf.FileSystem, file: FileEntry, name: str
) -> Iterator[pa.NativeFile]:
    """A file to read, if it is what was recorded; checked again when it has been read."""
    check_unchanged(storage, system, [file], name)
    with system.open_input_file(storage.location(file.path)) as opened:
        yield opened
    check_unchanged(storage, system, [file], name)


def content(opened: pa.NativeFile, file: FileEntry) -> pa.NativeFile:
    """Exactly the recorded bytes, decompressed by the file's ending."""
    recorded = opened.get_stream(0, file.size)
    try:
        codec = pa.Codec.detect(file.path)
    except (TypeError, ValueError):  # TypeError: Arrow's answer to an ending that it does not know
        return recorded
    return pa.CompressedInputStream(recorded, codec.name)


class Settling:
    """Tells which new local files are complete: nobody has them open for writing."""

    def __init__(self) -> None:
        self._first_seen: dict[FileEntry, float] = {}

    def settled(self, files: Sequence[FileEntry]) -> list[FileEntry]:
        """Those of the new files that may be read."""
        now = time.monotonic()
        self._first_seen = {f: self._first_seen.get(f, now) for f in files}
        return [f for f in files if self._is_settled(f, now)]

    def _is_settled(self, file: FileEntry, now: float) -> bool:
        written = is_being_written(file.path)
        if written is not None:
            return not written
        unchanged = now - self._first_seen[file]
        return unchanged >= QUIET_SECONDS or time.time() - file.modified / 1e6 >= QUIET_SECONDS


def is_being_written(path: str) -> bool | None:
    """Whether a process of this machine has the file open for writing; None: that cannot be told here.

    The kernel grants a read lease only on a file without writers. It is given back at once.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return True
    except OSError:
        return None
    try:
        # A writer that comes in between makes the kernel send a signal: one that is ignored by default.
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return False
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    except AttributeError:  # not Linux
        return None
    finally:
        os.close(handle)
