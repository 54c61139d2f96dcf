"""The log of the engine: `logs/icestream.log` in the home, as text or as one JSON object per line.

Every module logs to `logging.getLogger(__name__)`, so each package has a logger: `icestream.lake`, `icestream.runtime`, …
While an engine is open, one handler at `icestream` takes all records. It masks secrets, also in tracebacks, writes
the files of the homes that are open, and passes the record on to the handlers that the program itself has set up.
A program without handlers prints warnings to standard error, but not those of `log_failure`: the engine retries
what failed there, and tells the user in its own words.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
import traceback
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path

from icestream.secrecy import mask_secrets

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
FILE = "icestream.log"
ROLL_AT = 10 << 20
"""Bytes of a file; then a new one is begun."""
KEPT = 5
"""Older files that stay beside the newest."""
TRACEBACK_EVERY = 3600.0
"""Seconds after which a failure that still repeats is written with its traceback again."""
LINE_EVERY = 60.0
"""Seconds between two lines about a failure that repeats."""
WAITING = 200
"""Records that are kept until the file is opened."""
REMEMBERED = 500
"""Different failures that are told apart."""
_ROOT = "icestream"
_VARYING = re.compile(r"\b(?=\w*\d)[\w-]+")
"""Words with digits in them: ids, times, names of files. They differ between failures of the same kind."""


def log_failure(
    log: logging.Logger,
    message: str,
    *args: object,
    error: BaseException | None = None,
    level: int = logging.WARNING,
) -> None:
    """Log a failure that is retried or left aside, with its traceback: `error`, or the exception that is being handled.

    The terminal does not show it. In the file, a failure that repeats is one line with a count.
    """
    info = (type(error), error, error.__traceback__) if error is not None else sys.exc_info()
    log.log(level, message, *args, exc_info=info, stacklevel=2, extra={"is_retried": True})


@contextmanager
def log_suppressed(log: logging.Logger, message: str, *kinds: type[Exception]) -> Iterator[None]:
    """Like `contextlib.suppress`, but what is suppressed is logged."""
    try:
        yield
    except kinds:
        log_failure(log, message)


class HomeLog:
    """The log of one home. The file is written from `open` to `close`; what is logged before `open` waits for it."""

    def __init__(self, folder: Path, level: str = "info", format: str = "text") -> None:
        self._folder = folder
        self._file = HomeLogFile(folder / FILE, level, format)
        self._gate = LogGate.installed()
        self._gate.add(self._file)

    def open(self) -> None:
        """Begin to write."""
        with suppress(OSError):  # then nothing is written
            self._folder.mkdir(parents=True, exist_ok=True)
        self._file.start()

    def close(self) -> None:
        """Write no more."""
        self._gate.remove(self._file)
        self._file.close()


def write_failure(folder: Path, message: str, error: BaseException) -> Path:
    """Append one failure to a home's log, for a command that ends with it; gives the path of the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    path.open("a").close()  # whether it can be written
    info = (type(error), error, error.__traceback__)
    record = logging.LogRecord(__name__, logging.ERROR, __file__, 0, message, (), info)
    mask_record(record)
    file = HomeLogFile(path, "error", "text")
    file.start()
    file.handle(record)
    file.close()
    return path


def mask_record(record: logging.LogRecord) -> None:
    """Replace the message and the traceback of a record by texts without secrets."""
    record.msg, record.args = mask_secrets(record.getMessage()), None
    if record.exc_info and record.exc_info[1] is not None:
        record.__dict__["error_kind"] = _kind_of(record, record.exc_info[1])
        record.exc_text = mask_secrets(_format_traceback(record.exc_info[1]))
    elif record.exc_text:
        record.exc_text = mask_secrets(record.exc_text)
    record.exc_info = None
    if record.stack_info:
        record.stack_info = mask_secrets(record.stack_info)


def _format_traceback(error: BaseException) -> str:
    """Never raises: the text of a Java exception is asked of the JVM, which may be gone."""
    try:
        return "".join(traceback.format_exception(error)).rstrip("\n")
    except Exception:
        frames = traceback.format_list(traceback.extract_tb(error.__traceback__))
        return "".join(["Traceback (most recent call last):\n", *frames, type(error).__name__])


def _kind_of(record: logging.LogRecord, error: BaseException) -> tuple[str, ...]:
    """What two records have in common that tell of the same failure: where it is logged, the error, where it was raised."""
    try:
        lines = str(error).splitlines()[:3]
    except Exception:
        lines = []
    frames = traceback.extract_tb(error.__traceback__)
    raised = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    told = _VARYING.sub("#", "\n".join(lines)[:500])
    return f"{record.pathname}:{record.lineno}", type(error).__name__, raised, told


class LogGate(logging.Handler):
    """The handler at the logger `icestream`, shared by all engines of a process."""

    def __init__(self) -> None:
        super().__init__()
        self._files: list[HomeLogFile] = []

    @classmethod
    def installed(cls) -> LogGate:
        """The gate of this process, installed at first use."""
        logger = logging.getLogger(_ROOT)
        for handler in logger.handlers:
            if isinstance(handler, cls):
                return handler
        gate = cls()
        logger.addHandler(gate)
        logger.propagate = False  # the gate passes records on
        return gate

    def handle(self, record: logging.LogRecord) -> bool:
        """Without a lock: the text of a Java exception is asked of the JVM, and nobody else should wait for that."""
        self.emit(record)
        return True

    def add(self, file: HomeLogFile) -> None:
        """Write records to this file too."""
        self._files = [*self._files, file]
        self._set_level()

    def remove(self, file: HomeLogFile) -> None:
        """Write to this file no more; without any file, logging is as it was before."""
        self._files = [each for each in self._files if each is not file]
        self._set_level()
        if not self._files:
            logger = logging.getLogger(_ROOT)
            logger.removeHandler(self)
            logger.propagate = True

    def _set_level(self) -> None:
        levels = [file.level for file in self._files]
        level = min([*levels, logging.getLogger().level or 1]) if levels else logging.NOTSET
        logging.getLogger(_ROOT).setLevel(level)

    def emit(self, record: logging.LogRecord) -> None:
        """Mask a record, write it, pass it on."""
        try:
            mask_record(record)
        except Exception:
            # A wrong format string, above all. A record that is not masked is not shown.
            record.msg, record.args = f"a message could not be formatted: {record.msg}", None
            record.exc_info = record.exc_text = record.stack_info = None
        for file in self._files:
            if record.levelno >= file.level:
                file.handle(record)
        root = logging.getLogger()
        if record.levelno < _level_without_files(record.name):
            return
        if root.handlers or not getattr(record, "is_retried", False):
            root.callHandlers(record)  # without handlers it prints warnings to standard error


def _level_without_files(name: str) -> int:
    """The level that a logger would have if no file were open."""
    while name != _ROOT:
        if level := logging.getLogger(name).level:
            return level
        name = name.rpartition(".")[0]
    return logging.getLogger().level


class HomeLogFile(RotatingFileHandler):
    """`icestream.log` and its predecessors `icestream.log.1`, …; a disk that is full costs lines, nothing else."""

    def __init__(self, path: Path, level: str, format: str) -> None:
        super().__init__(path, maxBytes=ROLL_AT, backupCount=KEPT, encoding="utf-8", delay=True)
        self.setLevel(level.upper())
        self.setFormatter(JsonLogFormatter() if format == "json" else TextLogFormatter())
        self._repeats = RepeatedFailures()
        self._waiting: deque[logging.LogRecord] | None = deque(maxlen=WAITING)

    def start(self) -> None:
        """Write what was logged before, and from now on each record at once."""
        with self.lock or nullcontext():
            waiting, self._waiting = self._waiting, None
        for record in waiting or ():
            self.handle(record)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record. A failure that was there before is written as one line, and not too often."""
        if self._waiting is not None:
            self._waiting.append(record)
            return None
        kind = getattr(record, "error_kind", None)
        if kind is None:
            return super().emit(record)
        told = self._repeats.count(kind)
        if told.is_silent:
            return None
        traceback = record.exc_text
        record.__dict__["repeated"] = told.count
        if not told.has_traceback:
            record.exc_text = None
        super().emit(record)
        record.exc_text = traceback  # other handlers have counts of their own
        return None

    def handleError(self, record: logging.LogRecord) -> None:
        """What cannot be written is lost."""


@dataclass
class Repetition:
    """How often a failure was there, and how to write it this time."""

    count: int = 0
    traceback_at: float = float("-inf")
    line_at: float = float("-inf")
    has_traceback: bool = True
    is_silent: bool = False


class RepeatedFailures:
    """Counts failures of the same kind."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, ...], Repetition] = OrderedDict()

    def count(self, kind: tuple[str, ...], now: float | None = None) -> Repetition:
        """Count a failure. It has its traceback at first and once an hour, and a line once a minute."""
        now = time.monotonic() if now is None else now
        found = self._known.pop(kind, None) or Repetition()
        self._known[kind] = found
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        found.count += 1
        found.has_traceback = now - found.traceback_at >= TRACEBACK_EVERY
        found.is_silent = not found.has_traceback and now - found.line_at < LINE_EVERY
        if found.has_traceback:
            found.traceback_at = now
        if not found.is_silent:
            found.line_at = now
        return found


def _format_time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


class TextLogFormatter(logging.Formatter):
    """`2026-11-17T21:30:00.123+00:00 WARNING icestream.runtime.pipeline: message`, then the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The text of a masked record."""
        text = f"{_format_time(record)} {record.levelname} {record.name}: {record.getMessage()}"
        repeated = getattr(record, "repeated", 1)
        if repeated > 1:
            kind = getattr(record, "error_kind", ("", "", "", ""))
            text += f" ({kind[1]}, {repeated} times now)"
        extra = [part for part in (record.exc_text, record.stack_info) if part]
        return "\n".join([text, *extra])


class JsonLogFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, thread, message, and of a failure error, repeated, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The text of a masked record."""
        fields: dict[str, object] = {
            "time": _format_time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        kind = getattr(record, "error_kind", None)
        if kind is not None:
            fields |= {"error": kind[1], "repeated": getattr(record, "repeated", 1)}
        if record.exc_text:
            fields["traceback"] = record.exc_text
        if record.stack_info:
            fields["stack"] = record.stack_info
        return json.dumps(fields, ensure_ascii=False)
