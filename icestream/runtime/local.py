"""Queries that are answered on this machine, without Spark: small ones, by DuckDB, with the rows that Spark would give.

Every table is read at the newest complete record, as Spark does. What is not surely the same, and whatever fails, is left
to Spark.
"""

from __future__ import annotations

import logging
import math
import sqlite3
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from icestream.config import EngineSettings, Home
from icestream.fallbacks import FallbackCounter
from icestream.functions.duckdb import SETTINGS, string
from icestream.home_log import log_failure
from icestream.lake.copies import DEAD, Copies, positions, scan
from icestream.lake.listing import Listed, Listing, NeedsSparkError
from icestream.lake.stamp import Record
from icestream.plan.duckdb import multiplies, render
from icestream.plan.linear import relations_read
from icestream.plan.logical import Node, Scan, Values, walk
from icestream.types import arrow_type

MOST = 5_000_000
"""Rows that a query may read here; more are read faster by Spark."""
PAIRS = 20_000_000
"""Pairs of rows that a join without an equality may compare."""
LARGEST = 64 << 20
"""Bytes of a result; larger ones are Spark's, which go to a file."""
BATCH = 10_000
ATTEMPTS = 3
"""Files may be tidied away while they are read; the next record names others."""
THREADS = 2
CLOSING = 5.0
"""Seconds to wait for queries that were interrupted. DuckDB looks for that only between batches of rows."""
SHARE = 8
"""Copies take so small a part of the memory, counted in bytes of their compressed files."""

FAILURES = (
    ValueError, LookupError, duckdb.Error, pa.ArrowException, sqlite3.Error, struct.error, zlib.error,
)  # fmt: skip
"""What may go wrong on the way; Spark then answers, or fails with its own error."""

_LOG = logging.getLogger(__name__)

Hold = Callable[[duckdb.DuckDBPyConnection], None]


class Local:
    """The engine's own DuckDB. Any number of threads may ask it."""

    def __init__(self, home: Home, settings: EngineSettings) -> None:
        self.answered = 0
        """Queries that needed no Spark."""
        self.fallbacks = FallbackCounter("query")
        """Why other queries went to Spark."""
        self._listing = Listing(home)
        self._lock = threading.Lock()
        self._database: duckdb.DuckDBPyConnection | None = None
        self._copies: Copies | None = None
        self._running: set[duckdb.DuckDBPyConnection] = set()
        self._ended = threading.Condition()
        self._home = home
        self._memory = settings.query_memory

    def rows(self, node: Node, hold: Hold = lambda cursor: None) -> pa.Table | None:
        """The rows of a query at the newest record, with the columns' own names and types; None if Spark has to answer.

        `hold` gets what can be interrupted while the query runs; it raises InterruptException then.
        """
        keys = sorted(relations_read(node))
        inputs = {key: f"_in{n}" for n, key in enumerate(keys)}
        text = render(node, inputs, time.time_ns() // 1000, self._refuse)
        if text is None:
            return None
        for _ in range(ATTEMPTS):
            try:
                found = self._run(node, keys, text, hold)
            except duckdb.InterruptException:
                raise
            except (OSError, KeyError, duckdb.IOException):
                log_failure(_LOG, "a query is run again: its files are gone", level=logging.DEBUG)
                continue
            except NeedsSparkError as error:
                self.fallbacks.count(str(error))
                return None
            except FAILURES as error:
                log_failure(_LOG, "DuckDB cannot answer a query", level=logging.DEBUG)
                self.fallbacks.count(f"DuckDB failed: {type(error).__name__}")
                return None
            self.answered += 1
            _LOG.debug("query runs on DuckDB")
            return found
        self.fallbacks.count("its files were replaced while it ran")
        return None

    def _refuse(self, reason: str) -> None:
        self.fallbacks.count(f"DuckDB may differ: {reason}")

    def record(self) -> Record | None:
        """The newest complete record."""
        with self._lock:
            return self._listing.record()

    def close(self) -> None:
        """Let go of the copies and the catalog. Queries that still run are interrupted."""
        self.settle()
        self._listing.close()
        if self._database is None:
            return
        with self._ended:
            for cursor in self._running:
                cursor.interrupt()
            idle = self._ended.wait_for(lambda: not self._running, CLOSING)
        if idle:
            self._database.close()
        else:
            _LOG.warning("a query that cannot be interrupted is left behind")
            threading.Thread(target=self._close_idle, name="icestream-close", daemon=True).start()

    def _close_idle(self) -> None:
        """Close the database once its last query has ended: to close it, or to lose it, waits for the query."""
        assert self._database is not None
        with self._ended:
            self._ended.wait_for(lambda: not self._running)
        self._database.close()

    def settle(self) -> None:
        """Wait until copies that are being made are there."""
        if self._copies is not None:
            self._copies.settle()

    def _run(self, node: Node, keys: Sequence[str], text: str, hold: Hold) -> pa.Table:
        with self._cursor() as cursor:
            with self._lock:
                inputs = self._inputs(node, keys, cursor)
            hold(cursor)
            given = ", ".join(f"_in{n} AS NOT MATERIALIZED ({i})" for n, i in enumerate(inputs))
            cursor.execute(f"WITH {given} {text}" if given else text)
            return _typed(_bounded(cursor), node)

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection for one query."""
        with self._lock:
            cursor = self._open().cursor()
        with self._ended:
            self._running.add(cursor)
        try:
            yield cursor
        finally:
            cursor.close()
            with self._ended:
                self._running.discard(cursor)
                self._ended.notify_all()

    def _inputs(
        self, node: Node, keys: Sequence[str], cursor: duckdb.DuckDBPyConnection
    ) -> list[str]:
        """What each relation is read from. The cursor is in a transaction then, so that copies may move on."""
        record = self._listing.record() if keys else None
        listed = [self._listed(record, key) for key in keys]
        _check_few(node, dict(zip(keys, listed, strict=True)))
        assert self._copies is not None
        copies = [self._copies.of(each) for each in listed]
        held = [name for name in copies if name is not None]
        if held:
            cursor.execute("BEGIN")
            cursor.execute(f"SELECT 1 FROM {held[0]} LIMIT 0")  # it begins with the first look
        inputs: list[str] = []
        for number, (each, name) in enumerate(zip(listed, copies, strict=True)):
            if name is not None:
                inputs.append(f"FROM {name}")
            else:
                inputs.append(_from_files(each, f"{DEAD}{number}", cursor))
        return inputs

    def _listed(self, record: Record | None, key: str) -> Listed:
        at = record.objects.get(key) if record else None
        if at is None or at.table is None or at.snapshot is None:
            raise NeedsSparkError(f"{key.partition('#')[0]} is not stored in the lake")
        return self._listing.table(at.table, at.uuid, at.snapshot, MOST)

    def _open(self) -> duckdb.DuckDBPyConnection:
        """The database, which sees no files but those of the lake."""
        if self._database is None:
            made = duckdb.connect(
                ":memory:",
                config={
                    **SETTINGS,
                    "threads": THREADS,
                    "memory_limit": self._memory + "b",
                    "temp_directory": "",
                    "autoinstall_known_extensions": False,
                    "autoload_known_extensions": False,
                },
            )
            made.execute("SET GLOBAL TimeZone = 'UTC'")
            made.execute(f"SET GLOBAL allowed_directories = [{string(f'{self._home.warehouse}/')}]")
            made.execute("SET GLOBAL enable_external_access = false")
            made.execute("SET GLOBAL lock_configuration = true")
            self._copies = Copies(made, _bytes(self._memory) // SHARE, self._lock)
            self._database = made
        return self._database


def _bounded(cursor: duckdb.DuckDBPyConnection) -> pa.Table:
    """What a query gives; NeedsSparkError if it is more than may be held in memory."""
    reader = cursor.to_arrow_reader(BATCH)
    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in reader:
        size += batch.nbytes
        if size > LARGEST:
            raise NeedsSparkError("a large result")
        batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema)


def _from_files(listed: Listed, dead: str, cursor: duckdb.DuckDBPyConnection) -> str:
    """Clean files and those with deleted rows are read apart."""
    files = list(listed.files.values())
    clean = [f for f in files if f.vector is None]
    marked = [(f, f.vector) for f in files if f.vector is not None]
    if not marked:
        return scan(listed, clean, dead)
    cursor.register(dead, positions((n, v.read()) for n, (_, v) in enumerate(marked)))
    parts = [scan(listed, [f for f, _ in marked], dead)]
    parts += [scan(listed, clean, dead)] if clean else []
    return " UNION ALL ".join(parts)


def _check_few(node: Node, listed: Mapping[str, Listed]) -> None:
    """Raises NeedsSparkError unless a query reads so little that it is answered at once."""
    rows = [listed[n.relation].rows for n in walk(node) if isinstance(n, Scan)]
    rows += [len(n.rows) for n in walk(node) if isinstance(n, Values)]
    if sum(rows) > MOST or (math.prod(max(n, 1) for n in rows) > PAIRS and multiplies(node)):
        raise NeedsSparkError("many rows to read or to compare")


def _typed(found: pa.Table, node: Node) -> pa.Table:
    """The columns with their names, of exactly the types that Spark's have."""
    columns = [
        each.cast(arrow_type(c.type)) for each, c in zip(found.columns, node.columns, strict=True)
    ]
    schema = pa.schema([pa.field(c.name, arrow_type(c.type)) for c in node.columns])
    return pa.table(columns, schema)


def _bytes(size: str) -> int:
    """1g, 512m"""
    return int(size[:-1]) << {"k": 10, "m": 20, "g": 30}[size[-1].lower()]
