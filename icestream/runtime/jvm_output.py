"""What the JVM prints, copied to log files without secrets.

The JVM cannot know which values are secrets: they come and go with objects and statements. So it writes its log and its
complaints to pipes, and this process, which knows them, writes the files. They are rolled at a size, and a disk that is full
costs lines, nothing else.
"""

from __future__ import annotations

import array
import atexit
import fcntl
import os
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from icestream.secrecy import mask_secrets

ROLL_AT = 20 << 20
"""Bytes of a file; then a new one is begun."""
KEPT = 3
"""Older files that stay beside the newest."""
LONGEST_LINE = 1 << 20
"""Bytes of a line; what is beyond is left out, for a secret that is cut in two is not found."""
PIPE_SIZE = 1 << 20
DRAIN_SECONDS = 2.0


class MaskedFile:
    """A file that takes lines, hides the secrets in them, and is rolled: `path`, `path.1`, …"""

    def __init__(self, path: Path, roll_at: int = ROLL_AT, kept: int = KEPT) -> None:
        self.path = path
        self._roll_at = roll_at
        self._kept = kept

    def write(self, lines: bytes) -> None:
        """Append whole lines. What cannot be written is lost."""
        with suppress(Exception):  # the JVM must not wait for a reader that has died
            masked = _mask_lines(lines.decode(errors="replace"))
            with self.path.open("ab") as file:
                file.write(masked.encode())
                size = file.tell()
            if size >= self._roll_at:
                self._roll()

    def _roll(self) -> None:
        def place(number: int) -> Path:
            return self.path.with_name(f"{self.path.name}.{number}")

        for number in range(self._kept - 1, 0, -1):
            if place(number).exists():
                place(number).replace(place(number + 1))
        self.path.replace(place(1))


class JvmOutput:
    """A pipe whose other end the JVM writes to, and the thread that copies it to a file until the JVM has ended."""

    def __init__(self, file: MaskedFile, at_end: Callable[[], None] = lambda: None) -> None:
        """`at_end` is called when everybody has closed the other end."""
        self._file = file
        self._at_end = at_end
        self._read, self.descriptor = os.pipe()
        with suppress(OSError, AttributeError):
            fcntl.fcntl(self._read, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        self._thread = threading.Thread(target=self._copy, name="icestream-jvm-output", daemon=True)
        self._thread.start()
        atexit.register(self.drain)

    def drain(self, seconds: float = DRAIN_SECONDS) -> None:
        """Wait until what was written before is in the file."""
        end = time.monotonic() + seconds
        while self._thread.is_alive() and self._waiting() and time.monotonic() < end:
            time.sleep(0.01)

    def close(self) -> None:
        """Close this process's copy of the other end; it ends when the JVM has closed its own."""
        os.close(self.descriptor)

    def wait(self, seconds: float) -> None:
        """Wait for the end."""
        self._thread.join(seconds)

    def _waiting(self) -> bool:
        if self._busy:
            return True
        size = array.array("i", [0])
        with suppress(OSError):
            fcntl.ioctl(self._read, termios.FIONREAD, size)
        return bool(size[0])

    _busy = False

    def _copy(self) -> None:
        for lines in _whole_lines(self._pieces()):
            self._file.write(lines)
        self._busy = False
        os.close(self._read)
        self._at_end()

    def _pieces(self) -> Iterator[bytes]:
        while True:
            self._busy = False
            piece = os.read(self._read, 1 << 16)
            self._busy = True
            if not piece:
                return
            yield piece


def _whole_lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same in pieces that end with a line's end. A line that is too long is cut."""
    rest = b""
    cut = False
    for piece in pieces:
        if cut:
            _, end, piece = piece.partition(b"\n")
            if not end:
                continue
            cut = False
        lines, end, rest = (rest + piece).rpartition(b"\n")
        if end:
            yield lines + end
        if len(rest) > LONGEST_LINE:
            yield "… (a line of more than 1 MB)\n".encode()
            rest, cut = b"", True
    if rest:
        yield rest + b"\n"


def _mask_lines(text: str) -> str:
    return "".join(map(mask_secrets, text.splitlines(keepends=True)))


@contextmanager
def capture(out: JvmOutput, err: JvmOutput) -> Iterator[None]:
    """Let a process that is started meanwhile, which inherits our descriptors, write to these."""
    sys.stderr.flush()
    sys.stdout.flush()
    saved = [os.dup(1), os.dup(2)]
    try:
        os.dup2(out.descriptor, 1)
        os.dup2(err.descriptor, 2)
        yield
    finally:
        for number, descriptor in enumerate(saved, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)
        out.close()
        err.close()


def mask_crash_reports(folder: Path) -> None:
    """Hide the secrets in what JVMs have written when they crashed."""
    for path in folder.glob("jvm-crash-*.log"):
        with suppress(OSError):
            text = path.read_text(errors="replace")
            masked = _mask_lines(text)
            if masked != text:
                path.write_text(masked)
