"""A result that may be large: Arrow batches as they come from Spark, in memory up to a bound, then in a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from pyspark.errors.exceptions.captured import unwrap_spark_exception
from pyspark.sql import DataFrame
from pyspark.sql.pandas.serializers import ArrowCollectSerializer
from pyspark.util import _load_from_socket

from icestream.lake.jvm import collect_as_arrow
from icestream.runtime.query import values_of
from icestream.types import Type

BOUND = 64 << 20
"""Bytes of a result that are kept in memory."""
PIECE = 1_000
"""Rows that become Python values at once."""


class Spool:
    """Batches that were added, to be read in another order. Its file has no name: it goes when the process does."""

    def __init__(self, directory: Path, bound: int) -> None:
        self._directory = directory
        self._bound = bound
        self._held: list[pa.RecordBatch] = []
        self._size = 0
        self._file: IO[bytes] | None = None
        self._writer: pa.RecordBatchFileWriter | None = None
        self._order: Sequence[int] = ()

    @property
    def spilled(self) -> bool:
        """Whether it is in a file."""
        return self._file is not None

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the next batch."""
        if self._writer is not None:
            self._writer.write_batch(batch)
            return
        self._held.append(batch)
        self._size += batch.nbytes
        if self._size > self._bound:
            self._file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115
            self._writer = pa.ipc.new_file(self._file, batch.schema)
            for held in self._held:
                self._writer.write_batch(held)
            self._held.clear()

    def finish(self, order: Sequence[int]) -> None:
        """All batches are there; this is their order."""
        self._order = order
        if self._writer is not None:
            self._writer.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The batches in their order."""
        if self._file is None:
            yield from (self._held[at] for at in self._order)
            return
        reader = pa.ipc.open_file(pa.PythonFile(self._file, mode="r"))
        for at in self._order:
            yield reader.get_batch(at)

    def close(self) -> None:
        """Forget everything."""
        self._held.clear()
        self._order = ()
        if self._file is not None:
            self._file.close()


class Rows:
    """The rows of a spool, as Python values, once; closed when they are all taken, or before."""

    def __init__(self, spool: Spool, types: Sequence[Type]) -> None:
        self._spool = spool
        self._rows = rows_of(spool.batches(), types)

    def __iter__(self) -> Iterator[Sequence[Any]]:
        return self

    def __next__(self) -> Sequence[Any]:
        try:
            return next(self._rows)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """No more rows are wanted."""
        self._spool.close()


def collect(frame: DataFrame, directory: Path) -> Spool:
    """Run a frame's job, and spool what it gives."""
    spool = Spool(directory, BOUND)
    try:
        for part in _stream(frame):
            if isinstance(part, pa.RecordBatch):
                spool.add(part)
            else:
                spool.finish(part)
    except BaseException:
        spool.close()
        raise
    return spool


def _stream(frame: DataFrame) -> Iterator[pa.RecordBatch | list[int]]:
    """Batches as tasks end, then their order. Spark's own `toArrow` does this, and keeps all of them in memory."""
    port, secret, server = collect_as_arrow(frame)
    try:
        yield from _load_from_socket((port, secret), ArrowCollectSerializer())
    finally:
        with unwrap_spark_exception():
            server.getResult()


def rows_of(batches: Iterable[pa.RecordBatch], types: Sequence[Type]) -> Iterator[Sequence[Any]]:
    """Their rows as Python values, some at a time."""
    for batch in batches:
        for start in range(0, batch.num_rows, PIECE):
            piece = batch.slice(start, PIECE)
            yield from zip(*map(values_of, piece.columns, types), strict=True)
