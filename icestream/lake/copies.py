"""Tables of the lake as DuckDB reads them: from their files, or from a copy in memory that follows the commits.

A table that is asked for again, and is not tiny, is copied, meanwhile its files are read. What a commit added and deleted is
then all that is read, and a look-up takes a few milliseconds.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock, Thread

import duckdb
import numpy as np
import pyarrow as pa

from icestream.functions.duckdb import quoted, string
from icestream.home_log import log_failure
from icestream.lake.listing import DataFile, Listed, NeedsSparkError
from icestream.lake.vectors import Bits

_LOG = logging.getLogger(__name__)

WORTH = 20_000
"""Rows from which a copy pays: fewer are read from their files as fast."""
FILE, POSITION = "_icestream_file", "_icestream_position"
GROWTH = 2
"""A copy is made anew once this many times its rows have been written into it: deleted ones still take their place."""
DEAD = "_dead"
"""The name under which deleted positions are handed over."""


@dataclass
class Copy:
    """A table in memory, at a snapshot."""

    name: str
    listed: Listed
    numbers: dict[str, int] = field(default_factory=dict)
    """The data files in it, by path."""
    dead: dict[str, Bits] = field(default_factory=dict)
    written: int = 0


class Copies:
    """The tables of one database that are kept in memory, up to so many bytes of data files. `lock` is held by who asks."""

    def __init__(self, database: duckdb.DuckDBPyConnection, most: int, lock: Lock) -> None:
        self.database = database
        self.most = most
        self.lock = lock
        self._making: dict[str, Thread] = {}
        self._kept: OrderedDict[str, Copy] = OrderedDict()
        self._asked: set[str] = set()
        self._refused: set[str] = set()
        """Tables that the memory was too small for."""
        self._made = 0

    def of(self, listed: Listed) -> str | None:
        """The copy of a table at that snapshot; None if it has none (yet)."""
        again = listed.name in self._asked
        self._asked.add(listed.name)
        copy = self._kept.get(listed.name)
        if copy is not None and listed.size <= self.most and self._followed(copy, listed):
            self._kept.move_to_end(listed.name)
            return copy.name
        self._drop(listed.name)
        fits = listed.size <= self.most and listed.name not in self._refused
        if again and fits and listed.rows >= WORTH:
            self._begin(listed)
        return None

    def settle(self) -> None:
        """Wait until all copies that have been begun are made. The lock must be free."""
        for thread in list(self._making.values()):
            thread.join()

    def _begin(self, listed: Listed) -> None:
        """Make a copy in the background; commits that come in the meantime are followed later."""
        if listed.name not in self._making:
            self._made += 1
            copy = Copy(f"copy{self._made}", listed)
            thread = Thread(target=self._make, args=(copy,), name="icestream-copy", daemon=True)
            self._making[listed.name] = thread
            thread.start()

    def _make(self, copy: Copy) -> None:
        listed, made = copy.listed, False
        columns = ", ".join(f"{quoted(c.name)} {c.type}" for c in listed.columns)
        cursor = self.database.cursor()
        try:
            cursor.execute(
                f"CREATE TABLE {copy.name} ({columns}, {FILE} UBIGINT, {POSITION} BIGINT)"
            )
            self._change(copy, (), {}, list(listed.files.values()))
            made = True
        except (OSError, duckdb.Error) as error:
            log_failure(_LOG, "%s could not be copied into DuckDB", listed.name)
            if not isinstance(error, OSError | duckdb.IOException):  # its files are not just gone
                self._refused.add(listed.name)
            with suppress(duckdb.Error):
                cursor.execute(f"DROP TABLE IF EXISTS {copy.name}")
        finally:
            cursor.close()
            with self.lock:
                del self._making[listed.name]
                if made:
                    self._keep(copy)

    def _keep(self, copy: Copy) -> None:
        self._kept[copy.listed.name] = copy
        while sum(c.listed.size for c in self._kept.values()) > self.most:
            self._drop(next(iter(self._kept)))

    def _drop(self, name: str) -> None:
        copy = self._kept.pop(name, None)
        if copy is not None:
            self.database.execute(f"DROP TABLE {copy.name}")

    def _followed(self, copy: Copy, listed: Listed) -> bool:
        """Bring a copy to another snapshot; whether that could be done, or was worth it."""
        before = copy.listed
        if listed.snapshot == before.snapshot:
            return True
        if listed.columns != before.columns:
            return False
        gone = [copy.numbers[path] for path in before.files if path not in listed.files]
        added = [file for path, file in listed.files.items() if path not in before.files]
        if copy.written + sum(f.rows for f in added) > GROWTH * listed.rows + WORTH:
            return False
        marked: dict[str, Bits] = {}
        for path, file in listed.files.items():
            if path in before.files and file.vector != before.files[path].vector:
                bits = file.vector.read() if file.vector else Bits()
                if copy.dead[path] - bits:
                    return False
                marked[path] = bits
        self._change(copy, gone, marked, added)
        copy.listed = listed
        return True

    def _change(
        self,
        copy: Copy,
        gone: Sequence[int],
        marked: Mapping[str, Bits],
        added: Sequence[DataFile],
    ) -> None:
        """One transaction: what has gone, what is newly marked as deleted, and what has come."""
        first = max(copy.numbers.values(), default=-1) + 1
        dead = {f.path: f.vector.read() for f in added if f.vector}
        cursor = self.database.cursor()
        try:
            cursor.execute("BEGIN")
            if gone:
                cursor.execute(
                    f"DELETE FROM {copy.name} WHERE {FILE} IN ({', '.join(map(str, gone))})"
                )
            if marked:
                newly = [(copy.numbers[p], bits - copy.dead[p]) for p, bits in marked.items()]
                cursor.register(DEAD, positions(newly))
                cursor.execute(
                    f"DELETE FROM {copy.name} USING {DEAD} AS d WHERE {FILE} = d.file AND {POSITION} = d.position"
                )
                cursor.unregister(DEAD)
            if added:
                source = scan(copy.listed, added, DEAD, f", file_index + {first} AS {FILE}, file_row_number AS {POSITION}")  # fmt: skip
                cursor.register(DEAD, positions((n, dead[f.path]) for n, f in enumerate(added) if f.vector))  # fmt: skip
                cursor.execute(f"INSERT INTO {copy.name} {source}")
            cursor.execute("COMMIT")
        finally:
            cursor.close()
        copy.written += sum(f.rows for f in added)
        for number, file in enumerate(added):
            copy.numbers[file.path] = first + number
            copy.dead[file.path] = dead.get(file.path, Bits())
        copy.dead.update(marked)


def scan(listed: Listed, files: Sequence[DataFile], dead: str, also: str = "") -> str:
    """What reads the rows of some data files of a table that are not among the dead; `also` may name more columns.

    Columns are found by their field ids, whatever they were called when a file was written.
    """
    if not listed.columns:
        raise NeedsSparkError("a table without a column that DuckDB reads")
    names = ", ".join(f"r.{quoted(c.name)}" for c in listed.columns)
    if not files:
        nothing = (f"CAST(NULL AS {c.type}) AS {quoted(c.name)}" for c in listed.columns)
        return f"SELECT {', '.join(nothing)} WHERE FALSE"
    paths = ", ".join(map(string, (f.path for f in files)))
    ids = ", ".join(
        f"{c.id}: {{name: {string(c.name)}, type: '{c.type}', default_value: NULL}}"
        for c in listed.columns
    )
    source = f"SELECT {names}{also} FROM read_parquet([{paths}], schema = MAP {{{ids}}}) AS r"
    if any(f.vector for f in files):
        source += (
            f" ANTI JOIN {dead} AS d ON r.file_index = d.file AND r.file_row_number = d.position"
        )
    return source


def positions(marked: Iterable[tuple[int, Bits]]) -> pa.Table:
    """Deleted positions, each with the number of its file."""
    found = [(n, np.asarray(bits.to_array(), dtype=np.int64)) for n, bits in marked]
    numbers = [np.full(len(p), n, dtype=np.uint64) for n, p in found]
    return pa.table(
        {
            "file": pa.array(np.concatenate(numbers) if numbers else [], pa.uint64()),
            "position": pa.array(
                np.concatenate([p for _, p in found]) if found else [], pa.int64()
            ),
        }
    )
