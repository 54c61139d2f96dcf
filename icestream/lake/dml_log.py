"""The log of INSERT, UPDATE and DELETE: one durable file for each committed transaction, numbered over all tables.

An entry is a Parquet file with a struct column for each table that the transaction changes. So a transaction over several
tables is one file: it is there as a whole or not at all. It is committed once its file is synced, has its final name and the
folder is synced. The pipeline reads the log like any other source. An entry is deleted when all its tables hold its rows.

Numbers are taken by an exclusive link. Each start of a home (an incarnation) takes one number as its fence; a process that
was paused finds that its next number is taken and writes nothing. Fences are repeated in every entry: an entry that a paused
process linked under a number that was free again, and did not live to remove, is recognised as stray.

An entry whose folder cannot be synced is withdrawn: unlinked, and the folder synced. If that fails too, the entry may come
back after a crash, so the client is told that the outcome is unknown, and the next write withdraws the entry first.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from icestream import faults
from icestream.config import make_folder, sync_folder
from icestream.errors import FencedError, IcestreamError, LakeError, SignalError
from icestream.identity import ObjectKey
from icestream.lake.fold import OFFSET, OP, UNSET

ROWS_OF_AN_ENTRY = 1 << 32
"""Offsets that an entry has for its rows in the order of all changes."""
FENCES = 32
"""Fences that an entry repeats."""
UNKNOWN_OUTCOME = "40003"
_META = b"icestream"
_NAME = re.compile(r"\d{12}\.parquet")
_TEMPORARY = re.compile(r"\d{12}-\d+\.tmp")


@dataclass(frozen=True)
class TableChanges:
    """What a transaction does to one table: rows, and what happens to each (`lake.fold.OP`)."""

    rows: pa.Table
    ops: Sequence[int]
    unset: Sequence[Sequence[int] | None] | None = None
    """For each row, the ordinals of the columns that the change leaves alone; None: no row leaves any alone."""


@dataclass(frozen=True)
class Entry:
    """What is known of an entry without reading its rows."""

    number: int
    incarnation: int
    tables: Mapping[str, int]
    """The number of rows of each table, by the table's column in the file."""
    fences: tuple[tuple[int, int], ...]
    """The newest fences: incarnation, number."""
    partial: frozenset[str] = frozenset()
    """Tables with rows that leave columns alone."""

    def is_stray(self, fences: Iterable[tuple[int, int]]) -> bool:
        """Whether a successor had fenced the log before this entry was linked."""
        return any(self.incarnation < other and self.number >= at for other, at in fences)


class _NotWithdrawnError(SignalError, OSError):
    """An entry was linked, but neither made durable nor removed: it may be there after a crash."""


class DmlLog:
    """The log of a home. Only the process that runs the home opens it for writing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        self._entries: dict[int, Entry] | None = None
        self._unread: dict[int, set[str]] = {}
        self._incarnation: int | None = None
        self._fences: tuple[tuple[int, int], ...] = ()
        self._head = 0
        self._bound = 0
        self._last: dict[str, int] = {}
        self._leftover: int | None = None
        """The number of an entry that was linked and could not be withdrawn."""

    # -- writing ---------------------------------------------------------------------------------

    def open(self, incarnation: int) -> None:
        """Take the log over: after this no process of an earlier incarnation can append."""
        with self._lock:
            make_folder(self.folder)
            for path in self.folder.iterdir():
                if _TEMPORARY.fullmatch(path.name):
                    path.unlink(missing_ok=True)
            self._incarnation, self._leftover = incarnation, None
            while True:
                self._scan()
                number = self._head + 1
                fences = (*self._fences, (incarnation, number))[-FENCES:]
                try:
                    self._write(number, pa.table({OFFSET: pa.array([], pa.int64())}), {}, fences)
                except FileExistsError:
                    continue
                self._take(Entry(number, incarnation, {}, fences))
                return

    def append(self, parts: Mapping[str, TableChanges]) -> int:
        """Add an entry with the changes of tables, by their keys. It is durable when this returns; gives its number."""
        with self._lock:
            assert self._incarnation is not None, "the log is not open"
            number = self._head + 1
            rows = {column_of(key): part for key, part in parts.items()}
            try:
                self._write(number, _union(number, rows), rows, self._fences)
            except (FileExistsError, FileNotFoundError):
                raise FencedError(
                    "another process has taken over this home; nothing was written"
                ) from None
            except _NotWithdrawnError as error:
                raise IcestreamError(
                    f"it is unknown whether the statement is in the log {self.folder}: {error.strerror}",
                    remedy="see to the disk; then look whether the change is there before you repeat it. It is not if "
                    "a later statement succeeds before the server is started again",
                    code=UNKNOWN_OUTCOME,
                ) from error
            except OSError as error:
                raise IcestreamError(
                    f"the statement cannot be written to the log {self.folder}: {error.strerror}",
                    remedy="nothing was changed; see to the disk, then try again",
                    code="53100" if error.errno == 28 else "58030",
                ) from error
            counts = {name: len(part.rows) for name, part in rows.items()}
            partial = frozenset(n for n, part in rows.items() if part.unset is not None)
            self._take(Entry(number, self._incarnation, counts, self._fences, partial))
            return number

    def _write(
        self,
        number: int,
        rows: pa.Table,
        parts: Mapping[str, TableChanges],
        fences: tuple[tuple[int, int], ...],
    ) -> None:
        """Sync the content, then take the number, then sync the folder. FileExistsError: the number is taken.

        After another OSError nothing was written, unless it is a `_NotWithdrawnError`.
        """
        self._remove_leftover()
        meta = {
            "incarnation": self._incarnation,
            "fences": fences,
            "tables": {name: len(part.rows) for name, part in parts.items()},
            "partial": [name for name, part in parts.items() if part.unset is not None],
        }
        rows = rows.replace_schema_metadata({_META: json.dumps(meta).encode()})
        made = self.folder / f"{number:012}-{os.getpid()}.tmp"
        target = self.path(number)
        made.unlink(missing_ok=True)  # it may be linked to an entry: that must not be overwritten
        try:
            with made.open("wb") as out:
                pq.write_table(rows, out, compression="zstd")
                out.flush()
                os.fsync(out.fileno())
            faults.reach("dml-written")
            os.link(made, target)
            try:
                if self._newest_on_disk() > number:
                    raise FileExistsError  # a successor had the number, and has deleted its entry
                sync_folder(self.folder)
            except FileExistsError:
                with suppress(OSError):
                    target.unlink()  # if it stays, its number shows that it is stray
                raise
            except OSError as error:
                self._withdraw(number, error)
                raise
        finally:
            with suppress(
                OSError
            ):  # the entry counts, not its first name; `open` removes what stays
                made.unlink(missing_ok=True)
        faults.reach("dml-logged")

    def _withdraw(self, number: int, error: OSError) -> None:
        """Remove an entry that could not be made durable. A failure makes its fate unknown."""
        self._leftover = number
        try:
            self._remove_leftover()
        except OSError:
            raise _NotWithdrawnError(error.errno, error.strerror) from error

    def _remove_leftover(self) -> None:
        """Durably remove the entry that could not be withdrawn, unless a successor has the log by now."""
        if self._leftover is None:
            return
        if self._newest_on_disk() > self._leftover:
            raise FileExistsError
        path = self.path(self._leftover)
        with suppress(FileNotFoundError):
            if _read_entry(path).incarnation != self._incarnation:
                raise FileExistsError
            path.unlink()
        sync_folder(self.folder)
        self._leftover = None

    def _take(self, entry: Entry) -> None:
        assert self._entries is not None
        self._entries[entry.number] = entry
        self._unread[entry.number] = set(entry.tables)
        self._fences = entry.fences
        self._head = entry.number
        for name in entry.tables:
            self._last[name] = entry.number

    def is_needed(self, key: str, before: int) -> bool:
        """Whether the log keeps entries up to a number for a table that has not said that it holds them."""
        with self._lock:
            self._load()
            column = column_of(key)
            return any(n <= before and column in left for n, left in self._unread.items())

    def forget(self, key: str, before: int) -> None:
        """A table durably holds its entries up to a number. Deletes entries that nobody needs; the newest one stays, so
        that numbers go on."""
        with self._lock:
            self._load()
            assert self._entries is not None
            column = column_of(key)
            for number in [n for n in self._unread if n <= before]:
                self._unread[number].discard(column)
            for number in [n for n, left in self._unread.items() if not left and n < self._head]:
                self.path(number).unlink(missing_ok=True)
                del self._unread[number], self._entries[number]

    # -- reading ---------------------------------------------------------------------------------

    def path(self, number: int) -> Path:
        """Where an entry is."""
        return self.folder / f"{number:012}.parquet"

    @property
    def head(self) -> int:
        """The number of the newest entry."""
        with self._lock:
            self._load()
            return self._head

    def last(self, key: str) -> int:
        """The number of a table's newest entry, as far as it is known; 0: it has none that is kept."""
        with self._lock:
            self._load()
            return self._last.get(column_of(key), 0)

    def newest(self, keys: Iterable[str]) -> dict[str, int]:
        """The newest entry of each of these tables that has one, all of one moment."""
        with self._lock:
            self._load()
            found = {key: self._last.get(column_of(key), 0) for key in keys}
            return {key: number for key, number in found.items() if number}

    def bound(self) -> None:
        """Let `last_bound` give what is there now. Called once for each cut, so that no transaction is cut in two."""
        with self._lock:
            self._load()
            self._bound = self._head

    def last_bound(self, key: str) -> int:
        """The number of a table's newest entry at the last `bound`."""
        with self._lock:
            self._load()
            assert self._entries is not None
            column = column_of(key)
            last = self._last.get(column, 0)
            if last <= self._bound:
                return last
            numbers = (
                n for n, e in self._entries.items() if n <= self._bound and column in e.tables
            )
            return max(numbers, default=0)

    def entries(self, key: str, start: int, end: int) -> list[Entry]:
        """A table's entries after `start` up to `end`, in order."""
        with self._lock:
            self._load()
            assert self._entries is not None
            column = column_of(key)
            return [
                entry for number, entry in sorted(self._entries.items())
                if start < number <= end and column in entry.tables
            ]  # fmt: skip

    def _load(self) -> None:
        if self._entries is None or self._incarnation is None:
            self._scan()
            self._bound = max(self._bound, self._head) if self._incarnation is None else self._bound

    def _scan(self) -> None:
        """Read what is on disk. Stray entries are left out, and deleted by the process that owns the log."""
        found: dict[int, Entry] = {}
        for path in sorted(self.folder.glob("*.parquet")) if self.folder.is_dir() else ():
            if not _NAME.fullmatch(path.name):
                continue
            try:
                found[int(path.stem)] = _read_entry(path)
            except FileNotFoundError:
                continue  # deleted by the process that runs the home
        newest = found[max(found)] if found else None
        fences = newest.fences if newest is not None else ()
        for number in [n for n, entry in found.items() if entry.is_stray(fences)]:
            del found[number]
            if self._incarnation is not None:
                self.path(number).unlink(missing_ok=True)
        self._entries = found
        self._unread = {n: set(entry.tables) for n, entry in found.items()}
        self._fences = fences
        self._head = max(found, default=0)
        self._last = {}
        for number, entry in sorted(found.items()):
            for name in entry.tables:
                self._last[name] = number

    def _newest_on_disk(self) -> int:
        names = (p.name for p in self.folder.iterdir())
        return max((int(n[:12]) for n in names if _NAME.fullmatch(n)), default=0)


def column_of(key: str) -> str:
    """The column of a table in entries, by the key of the object (name#id): names are no part of files."""
    return f"t{ObjectKey(key).id}"


def _union(number: int, parts: Mapping[str, TableChanges]) -> pa.Table:
    """The rows of all tables one after the other: a struct column each, NULL in the rows of the others."""
    total = sum(len(part.rows) for part in parts.values())
    columns: dict[str, pa.Array | pa.ChunkedArray] = {}
    before = 0
    for name, part in parts.items():
        count = len(part.rows)
        struct = _struct(part)
        pieces = [
            pa.nulls(before, struct.type),
            struct,
            pa.nulls(total - before - count, struct.type),
        ]
        columns[name] = pa.chunked_array(pieces)
        before += count
    first = number * ROWS_OF_AN_ENTRY
    columns[OFFSET] = pa.array(range(first, first + total), pa.int64())
    return pa.table(columns)


def _struct(part: TableChanges) -> pa.StructArray:
    rows = part.rows.append_column(OP, pa.array(part.ops, pa.int8()))
    if part.unset is not None:
        rows = rows.append_column(UNSET, pa.array(part.unset, pa.list_(pa.int32())))
    arrays = [_combined(column) for column in rows.columns]
    return pa.StructArray.from_arrays(arrays, fields=list(rows.schema))


def _combined(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


def _read_entry(path: Path) -> Entry:
    try:
        meta = json.loads((pq.read_schema(path).metadata or {})[_META])
        fences = tuple((int(i), int(n)) for i, n in meta["fences"])
        partial = frozenset(meta["partial"])
        return Entry(int(path.stem), int(meta["incarnation"]), meta["tables"], fences, partial)
    except (pa.ArrowInvalid, KeyError, ValueError) as error:
        raise LakeError(
            f"the entry {path} of the log of statements cannot be read: {error}",
            remedy="restore the folder dml of the home from a backup",
        ) from error
