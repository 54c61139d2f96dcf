"""Directories as sources: JSON lines, CSV and Parquet, on this machine or in S3.

A file counts once it is there under its final name and nobody writes it any more. Names that begin with `.` or `_`, or
end in `.tmp` or `.crdownload`, are ignored, and so are empty files.
An offset is {"files": n}: the first n files of the source's ledger lie before it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.fs as pf
from pyspark import Accumulator
from pyspark.sql import DataFrame

from icestream.connectors import files_read as reading
from icestream.connectors.base import Context, Source, SourceConnector
from icestream.connectors.files_identity import (
    FileEntry,
    Settling,
    check_unchanged,
    modified,
    with_etags,
)
from icestream.connectors.files_ledger import Ledger
from icestream.connectors.files_options import (
    FILE_OPTIONS,
    S3_OPTIONS,
    check_file,
    check_s3,
    matcher,
    named_files,
    static_folder,
    storage,
)
from icestream.connectors.files_read import CsvLayout, Piece
from icestream.errors import ConnectorError
from icestream.lake.access import access_of
from icestream.lake.position import Offset
from icestream.lake.table import LakeTable
from icestream.types import BIGINT, TIMESTAMPTZ, VARCHAR, backtick, spark_type

logger = logging.getLogger("icestream.files")

TASK_BYTES = 128 << 20
COUNTED = 8  # ranges whose number of records is remembered
PLAIN = (".json", ".jsonl", ".ndjson", ".csv", ".txt")
SHORTEST = 8
FEW_BYTES = 64_000
"""Bytes of files that are few records in any case."""
BYTES_PER_RECORD = {"parquet": 50, "packed": 40, "plain": 200}
"""Rough sizes, to guess how many files make up so many records."""
RAW_TYPES = {
    "stream": "STRING", "partition": "INT", "offset": "BIGINT", "timestamp": "TIMESTAMP", "key": "BINARY",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>", "value": "BINARY",
}  # fmt: skip


class ByTask:
    """Records by task, so that a task that runs twice (to sort its rows, or again after a failure) counts once."""

    def zero(self, value: dict[int, int]) -> dict[int, int]:
        """Nothing is counted yet."""
        return {}

    def addInPlace(self, value1: dict[int, int], value2: dict[int, int]) -> dict[int, int]:
        """Both; the larger number of a task that is in both."""
        value1.update({t: max(n, value1.get(t, 0)) for t, n in value2.items()})
        return value1


class FileSource(Source):
    """The files below a directory, each read once, in the order in which they were found."""

    def __init__(self, context: Context) -> None:
        self.name = context.name
        self.spark = context.spark
        self.encode = (context.encode or "JSON").upper()
        self.raw = self.encode != "PARQUET"
        self.types = {c.name: c.type for c in context.columns if c.generated is None}
        self.storage = storage(context.settings)
        if self.storage.bucket is None:
            self.storage = replace(self.storage, access=access_of(context.spark))
        self.root = context.settings.optional("path") or ""
        pattern = context.settings.optional("match_pattern")
        self.folder = "/".join(p for p in (self.root.rstrip("/"), static_folder(pattern)) if p)
        self.matches = matcher(pattern)
        self.ledger = Ledger(context.lake, context.key)
        self.csv: CsvLayout | None = None
        if self.encode == "CSV" and context.encode_settings is not None:
            delimiter = context.encode_settings.string("delimiter")
            header = not context.encode_settings.boolean("without_header")
            self.csv = CsvLayout(delimiter, tuple(self.types), header)
        self._settling = Settling()
        self._warned: set[str] = set()
        self._counted: dict[tuple[int, int], Accumulator[dict[int, int]]] = {}

    # -- positions -------------------------------------------------------------------------------

    def start(self) -> Offset:
        """Before the first file."""
        self.ledger.load()
        return {"files": 0}

    def latest(self, since: Offset) -> Offset:
        """List the directory, note the files that are new, and give their number."""
        self.ledger.load()
        self.ledger.add(lambda: self._find_new(since["files"]))
        return {"files": max(len(self.ledger.files), since["files"])}

    def advance(self, since: Offset, end: Offset, limit: int | None) -> Offset:
        """Files for about `limit` records, judged by their sizes; at least one."""
        if limit is None:
            return end
        total, at = 0.0, since["files"]
        for file in self.ledger.files[since["files"] : end["files"]]:
            total += self._records(file)
            if total > limit and at > since["files"]:
                break
            at += 1
        return {"files": min(max(at, min(since["files"] + 1, end["files"])), end["files"])}

    def tables(self) -> list[LakeTable]:
        """The ledger."""
        return [self.ledger.table]

    def count(self, start: Offset, end: Offset) -> int | None:
        """What was counted when the range was read, if it was one of the last; 0 for an empty range."""
        if start == end:
            return 0
        counted = self._counted.get((start["files"], end["files"]))
        return sum(counted.value.values()) if counted is not None and counted.value else None

    def at_most(self, start: Offset, end: Offset) -> int | None:
        """Where nothing was counted yet: what the sizes of the files allow, if they are small."""
        counted = self.count(start, end)
        files = self.ledger.files[start["files"] : end["files"]]
        if counted is not None or self.encode == "PARQUET":
            return counted
        size = sum(f.size * (1 if f.path.endswith(PLAIN) else 50) for f in files)
        return size // SHORTEST if size <= FEW_BYTES else None

    def _records(self, file: FileEntry) -> float:
        packed = file.path.endswith((".gz", ".bz2", ".zst", ".lz4"))
        kind = "parquet" if self.encode == "PARQUET" else "packed" if packed else "plain"
        return file.size / BYTES_PER_RECORD[kind]

    def reset(self, since: Offset) -> Offset:
        """Files from `since` on that are gone, or no longer allowed, are skipped; those that have changed are read as
        they are now."""
        self.ledger.load()
        listed = {f.path: f for f in self._list() if self._can_use(f.path)}
        changed: dict[int, FileEntry] = {}
        for number, known in enumerate(self.ledger.files):
            now = listed.get(known.path)
            if number < since["files"] or known.skipped or _is_same(known, now):
                continue
            changed[number] = replace(known, size=-1) if now is None else now
        self.ledger.amend(changed)
        return since

    def _find_new(self, read: int) -> list[FileEntry]:
        """New files that are complete, after a look at those that are known: what is not read yet must be unchanged."""
        listed = {f.path: f for f in self._list()}
        unread = {f.path for f in self.ledger.files[read:] if not f.skipped}
        for path, known in self.ledger.seen.items():
            now = listed.get(path)
            if _is_same(known, now):
                continue
            if path in unread:
                self._check([known])
            elif now is not None and path not in self._warned:
                self._warned.add(path)
                logger.warning(
                    "source %s: file %s was changed after it was read; a file is read only once",
                    self.name, path,
                )  # fmt: skip
        new = [f for path, f in listed.items() if path not in self.ledger.seen]
        if self.storage.bucket is None:
            return self._settling.settled(
                new
            )  # an object in a bucket is complete when it is listed
        found: list[FileEntry] = self._ask(lambda system: with_etags(self.storage, new))
        return found

    def _list(self) -> Iterator[FileEntry]:
        folder = self.storage.location(self.folder).rstrip("/")
        missing_is_fine = self.folder != self.root.rstrip("/")
        selector = pf.FileSelector(folder, recursive=True, allow_not_found=missing_is_fine)
        prefix = len(self.storage.location("")) if self.storage.bucket else 0
        base = len(self.root.rstrip("/")) + 1 if self.root else 0
        for info in self._ask(lambda system: system.get_file_info(selector)):
            path = info.path[prefix:]
            if info.type != pf.FileType.File or not info.size or not self.matches(path[base:]):
                continue
            # What is known is checked when it is read.
            if path in self.ledger.seen or self._can_use(path):
                yield FileEntry(path, info.size, modified(info))

    def _can_use(self, path: str) -> bool:
        """Whether a file is allowed. Links may lead out of the directory, and the home may lie below it."""
        access = self.storage.access
        if access is None or access.can_use(path):
            return True
        if path not in self._warned:
            self._warned.add(path)
            logger.warning(
                "source %s: file %s is left out: it leads outside the allowed directories or into the home",
                self.name, path,
            )  # fmt: skip
        return False

    def _check(self, files: Sequence[FileEntry]) -> None:
        self._ask(lambda system: check_unchanged(self.storage, system, files, self.name))

    def _ask(self, question: Callable[[pf.FileSystem], Any]) -> Any:
        try:
            return question(self.storage.open())
        except (OSError, pa.ArrowException) as error:
            where = (
                f"s3://{self.storage.bucket}/{self.folder}" if self.storage.bucket else self.folder
            )
            raise ConnectorError(
                f"source {self.name}: {where} cannot be read: {error}",
                object=self.name,
                remedy="check the path, the credentials and the endpoint",
            ) from error

    # -- records ---------------------------------------------------------------------------------

    def read(self, start: Offset, end: Offset, columns: Sequence[str]) -> DataFrame:
        """The records of those files, a task for one or more files (or for a part of a large Parquet file).

        Of Parquet the declared columns; beside them a raw record's `stream`, `offset` and `timestamp`.
        """
        self.ledger.load()
        files = [f for f in self.ledger.files[start["files"] : end["files"]] if not f.skipped]
        typed = [(c, None if self.raw else self.types.get(c)) for c in columns]
        schema = ", ".join(
            f"{backtick(c)} {RAW_TYPES[c] if type is None else spark_type(type)}"
            for c, type in typed
        )
        if not files:
            return self.spark.createDataFrame([], schema)
        self._check(files)
        tasks = balanced(self._pieces(files), self.spark.sparkContext.defaultParallelism)
        storage, csv, name, raw = self.storage, self.csv, self.name, self.raw
        count = self._counter(start["files"], end["files"])

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for task in batch.column(0).to_pylist():
                    found = (
                        reading.line_batches(storage, tasks[task], columns, csv, name)
                        if raw
                        else reading.parquet_batches(storage, tasks[task], typed, name)
                    )
                    number = 0
                    for records in found:
                        number += records.num_rows
                        yield records
                    count.add({task: number})

        return self.spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(run, schema)

    def _counter(self, start: int, end: int) -> Accumulator[dict[int, int]]:
        """Counts the records of a range while they are read; reading it again gives the same tasks and numbers."""
        if (start, end) not in self._counted:
            self._counted[start, end] = self.spark.sparkContext.accumulator({}, ByTask())
            while len(self._counted) > COUNTED:
                del self._counted[next(iter(self._counted))]
        return self._counted[start, end]

    def _pieces(self, files: Sequence[FileEntry]) -> list[Piece]:
        pieces: list[Piece] = []
        for file in files:
            if self.raw or file.size < 2 * TASK_BYTES:
                pieces.append(Piece(file, size=file.size))
            else:
                pieces += reading.row_groups(self.storage, file, TASK_BYTES)
        return pieces


def balanced(pieces: Sequence[Piece], parallelism: int) -> list[list[Piece]]:
    """Pieces in tasks of about the same size: one a core, more where there is much to read."""
    total = sum(p.size for p in pieces)
    tasks: list[list[Piece]] = [
        [] for _ in range(min(len(pieces), max(parallelism, total // TASK_BYTES + 1)))
    ]
    loads = [0] * len(tasks)
    for piece in sorted(pieces, key=lambda p: -p.size):
        least = loads.index(min(loads))
        tasks[least].append(piece)
        loads[least] += piece.size + 1
    return tasks


def _is_same(known: FileEntry, now: FileEntry | None) -> bool:
    """Whether a listed file is the one that was recorded, as far as a listing tells."""
    return now is not None and (now.size, now.modified) == (known.size, known.modified)


FORMATS = {"PLAIN": ("JSON", "CSV", "PARQUET"), "DEBEZIUM": ("JSON",)}
INCLUDES = {"file": VARCHAR, "offset": BIGINT, "timestamp": TIMESTAMPTZ}

FILE = SourceConnector(
    name="file",
    options=FILE_OPTIONS,
    open=FileSource,
    formats=FORMATS,
    includes=INCLUDES,
    check=check_file,
    named_files=named_files,
)
S3 = SourceConnector(
    name="s3",
    options=S3_OPTIONS,
    open=FileSource,
    formats=FORMATS,
    includes=INCLUDES,
    check=check_s3,
)
