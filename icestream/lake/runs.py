"""The key index on disk: immutable sorted runs of key → (file, position), written and probed on executors.

A run is an Arrow file that is mapped into memory, not loaded: hash (sorted), file number, position, row id, and the
canonical key itself, so that a hash that two keys share finds nothing wrong. A covering run holds columns of the row as
well, in place of its id. A new run depends on data files alone, and those never change; merging leaves out what is
deleted by then.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq
from pyroaring import BitMap64 as Bits

from icestream.errors import SignalError
from icestream.lake import keys

LOST = "icestream-run-lost:"
"""Begins the message of an error that names a run which is missing or damaged."""

ROW_ID = 2147483540
CHUNK = 1 << 24


class LostRunError(SignalError):
    """A run is missing, truncated or damaged; the index has to be made again for the files it covered."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{LOST}{name};")
        self.name = name


@dataclass(frozen=True)
class Run:
    """A run as the manifest knows it."""

    name: str
    rows: int
    size: int
    checksum: int
    least: int
    most: int
    files: tuple[int, ...]
    """Numbers of the data files it has entries of."""

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Run:
        """The run that was written as JSON."""
        return cls(**{**raw, "files": tuple(raw["files"])})


@dataclass(frozen=True)
class KeyColumn:
    """A column of the key: its field id, the names it has in files without ids, its value in files without it."""

    id: int
    names: tuple[str, ...]
    default: object = None


@dataclass(frozen=True)
class CarriedColumn(KeyColumn):
    """A column of the row that covering runs hold, of the type in which they hold it."""

    type: pa.DataType = field(default_factory=pa.null)


@dataclass(frozen=True)
class KeySource:
    """Part of a data file whose keys are to be indexed: every `of`-th row group, beginning with `share`.

    `constants` are the values of columns, by field id, that the file may leave out because it is partitioned by them.
    """

    number: int
    location: str
    first_row_id: int | None
    share: int = 0
    of: int = 1
    constants: tuple[tuple[int, object], ...] = ()


@dataclass(frozen=True)
class Hits:
    """Where probed keys were found. The same key may be found often: in rows that are deleted, or that are doubles."""

    probe: npt.NDArray[np.int64]
    file: npt.NDArray[np.int64]
    position: npt.NDArray[np.int64]
    row: npt.NDArray[np.int64]
    """The row id, or -1."""


# -- writing -----------------------------------------------------------------------------------------


def read_entries(
    source: KeySource,
    columns: Sequence[KeyColumn],
    properties: Mapping[str, str],
    carried: Sequence[CarriedColumn] = (),
) -> Iterator[pa.Table]:
    """Entries for the keys of a data file; for a covering run, with the `carried` columns of its rows."""
    constants = dict(source.constants)
    with _open(source.location, properties) as stream:
        file = pq.ParquetFile(stream)
        names = [_column(file.schema_arrow, c.id, c.names) for c in columns]
        values = [_column(file.schema_arrow, c.id, c.names) for c in carried]
        row_id = None if carried else _column(file.schema_arrow, ROW_ID)
        wanted = list(dict.fromkeys(n for n in (*names, *values, row_id) if n is not None))
        start = 0
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if group % source.of == source.share:
                found = file.read_row_group(group, columns=wanted)
                key = [
                    keys.canonical(found[n])
                    if n is not None
                    else _constant(constants.get(c.id, c.default), count)
                    for c, n in zip(columns, names, strict=True)
                ]
                if carried:
                    rest = {
                        f"value{i}": found[n].cast(c.type)
                        if n is not None
                        else _repeated(constants.get(c.id, c.default), c.type, count)
                        for i, (c, n) in enumerate(zip(carried, values, strict=True))
                    }
                else:
                    rest = {
                        "row": _row_ids(source, start, count, found[row_id] if row_id else None)
                    }
                yield _entries(source, start, count, key, rest)
            start += count


def _constant(value: object, count: int) -> pa.Array:
    if value is None:
        return pa.nulls(count)
    return keys.canonical(pa.array([value])).take(pa.array(np.zeros(count, np.int64)))


def _repeated(value: object, type: pa.DataType, count: int) -> pa.Array:
    """A column of one value, which Iceberg gives as a number where it is a date or a time."""
    plain = pa.array([value])
    if pa.types.is_date(type):
        plain = plain.cast(pa.int32())
    return plain.cast(type).take(pa.array(np.zeros(count, np.int64)))


def _row_ids(source: KeySource, start: int, count: int, written: Any) -> pa.Array:
    if source.first_row_id is None:
        rows = pa.nulls(count, pa.int64())
    else:
        rows = pa.array(source.first_row_id + np.arange(start, start + count))
    return rows if written is None else pc.coalesce(written.combine_chunks(), rows)


def _entries(
    source: KeySource, start: int, count: int, key: list[pa.Array], rest: Mapping[str, Any]
) -> pa.Table:
    columns = {
        "hash": keys.hashes(key),
        "file": np.full(count, source.number, np.int32),
        "position": np.arange(start, start + count),
        **rest,
        **{f"key{i}": k for i, k in enumerate(key)},
    }
    return pa.table(columns)


def write_run(folder: Path, entries: Sequence[pa.Table]) -> Run | None:
    """Sort entries by their hash and write them as a run; None if there are none."""
    table = pa.concat_tables(entries, promote_options="permissive") if entries else None
    if not table:
        return None
    order = np.argsort(table["hash"].to_numpy(), kind="stable")
    table = table.take(pa.array(order)).combine_chunks()
    name = f"{uuid.uuid4()}.arrow"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=len(table))
    ordered = table["hash"]
    files = np.unique(table["file"].to_numpy())
    return Run(
        name, len(table), path.stat().st_size, _checksum(path),
        ordered[0].as_py(), ordered[-1].as_py(), tuple(map(int, files)),
    )  # fmt: skip


def merge_runs(
    folder: Path, runs: Sequence[Run], alive: Sequence[int], dead: Mapping[int, bytes]
) -> Run | None:
    """One run out of several, without the entries of files that are gone and of rows that are deleted."""
    kept: list[pa.Table] = []
    living = pa.array(sorted(alive), pa.int32())
    from icestream.lake import vectors

    for run in runs:
        table = open_run(str(folder), run)
        table = table.filter(pc.is_in(table["file"], living))
        file, position = table["file"].to_numpy(), table["position"].to_numpy()
        gone = np.zeros(len(table), bool)
        for number, blob in dead.items():
            here = np.flatnonzero(file == number)
            if len(here):
                bits = np.asarray(vectors.decode(blob).to_array(), np.int64)
                gone[here] = np.isin(position[here], bits)
        kept.append(table.filter(pa.array(~gone)))
    return write_run(folder, kept)


# -- probing -----------------------------------------------------------------------------------------


def matches(
    folder: str, runs: Sequence[Run], hashed: keys.Hashes, key: Sequence[pa.Array]
) -> Iterator[tuple[pa.Table, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Per run: its table, and pairs of (index of a given key, entry of the run that has the key)."""
    forget_others(folder, runs)
    order = np.argsort(hashed, kind="stable")
    wanted = hashed[order]
    for run in runs:
        low, high = np.searchsorted(wanted, run.least), np.searchsorted(wanted, run.most, "right")
        if low == high:
            continue
        table = open_run(folder, run)
        column = table["hash"].chunk(0).to_numpy()
        left = np.searchsorted(column, wanted[low:high])
        right = np.searchsorted(column, wanted[low:high], "right")
        counts = right - left
        if not counts.any():
            continue
        probes = np.repeat(order[low:high], counts)
        ends = np.cumsum(counts)
        entries = np.arange(ends[-1]) - np.repeat(ends - counts, counts) + np.repeat(left, counts)
        taken = table.select([f"key{i}" for i in range(len(key))]).take(pa.array(entries))
        theirs = [column.combine_chunks() for column in taken.columns]
        ours = [k.take(pa.array(probes)) for k in key]
        same = keys.equal(ours, theirs)
        if same.any():
            yield table, probes[same], entries[same]


def probe(folder: str, runs: Sequence[Run], hashed: keys.Hashes, key: Sequence[pa.Array]) -> Hits:
    """All entries of the given keys, in any of the runs."""
    found: list[tuple[npt.NDArray[Any], ...]] = []
    for table, probes, entries in matches(folder, runs, hashed, key):
        taken = table.select(["file", "position", "row"]).take(pa.array(entries))
        rows = pc.fill_null(taken["row"], -1).to_numpy()
        found.append((probes, taken["file"].to_numpy(), taken["position"].to_numpy(), rows))
    if not found:
        empty = np.zeros(0, np.int64)
        return Hits(empty, empty, empty, empty)
    return Hits(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


@dataclass(frozen=True)
class Vector:
    """Where a deletion vector is."""

    location: str
    offset: int
    length: int


@dataclass(frozen=True)
class Rows:
    """The rows of a snapshot, to be found in covering runs: a snapshot's files by number, each with its vector."""

    folder: str
    runs: tuple[Run, ...]
    files: Mapping[int, Vector | None]
    properties: Mapping[str, str]
    """How vectors are reached."""

    def of(self, key: Sequence[pa.Array], columns: Sequence[str]) -> Iterator[pa.Table]:
        """The rows that have one of these canonical keys, which must differ; under the names `columns`."""
        values = [f"value{i}" for i in range(len(columns))]
        for table, _, entries in matches(self.folder, self.runs, keys.hashes(key), key):
            places = table.select(["file", "position"]).take(pa.array(entries))
            alive = self._alive(places["file"].to_numpy(), places["position"].to_numpy())
            if alive.any():
                chosen = table.select(values).take(pa.array(entries[alive]))
                yield chosen.rename_columns(list(columns))

    def _alive(
        self, file: npt.NDArray[np.int32], position: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        alive = np.zeros(len(file), bool)
        order = np.argsort(file, kind="stable")
        numbers, starts = np.unique(file[order], return_index=True)
        ends = np.append(starts, len(order))[1:]
        for number, start, end in zip(map(int, numbers), starts, ends, strict=True):
            if number not in self.files:
                continue
            here = order[start:end]
            vector = self.files[number]
            if vector is None:
                alive[here] = True
                continue
            dead = read_vector(vector, tuple(sorted(self.properties.items())))
            hit = dead & Bits(position[here].astype(np.uint64))
            alive[here] = ~np.isin(position[here], np.asarray(hit.to_array(), np.int64))
        return alive


@lru_cache(maxsize=256)
def read_vector(vector: Vector, properties: tuple[tuple[str, str], ...]) -> Bits:
    """The positions in a deletion vector, which never changes."""
    from icestream.lake import vectors

    with _open(vector.location, dict(properties)) as stream:
        stream.seek(vector.offset)
        return vectors.decode(stream.read(vector.length))


def open_run(folder: str, run: Run) -> pa.Table:
    """The run, mapped into memory. Its size and checksum are verified when a process opens it first, and when the
    file is another one than it was then."""
    path = Path(folder) / run.name
    try:
        found = path.stat()
        if found.st_size != run.size:
            raise LostRunError(run.name)
        version = (found.st_ino, found.st_mtime_ns)
        opened = _opened.setdefault(folder, {})
        if run.name not in opened or opened[run.name][0] != version:
            if _checksum(path) != run.checksum:
                raise LostRunError(run.name)
            opened[run.name] = (version, pa.ipc.open_file(pa.memory_map(str(path))).read_all())
        return opened[run.name][1]
    except (OSError, pa.ArrowException):
        raise LostRunError(run.name) from None


_opened: dict[str, dict[str, tuple[tuple[int, int], pa.Table]]] = {}
"""The runs that this process has mapped, by folder and name, and which version of the file it was."""


def forget_others(folder: str, runs: Sequence[Run]) -> None:
    """Let go of runs that have been merged away, so that their space is free."""
    opened = _opened.get(folder, {})
    for name in opened.keys() - {run.name for run in runs}:
        opened.pop(name, None)


def _checksum(path: Path) -> int:
    total = 0
    with path.open("rb") as file:
        while block := file.read(CHUNK):
            total = zlib.crc32(block, total)
    return total


# -- data files --------------------------------------------------------------------------------------


def _column(schema: pa.Schema, id: int, names: Sequence[str] = ()) -> str | None:
    """The column of a field id; in a file without ids, the first one of those names."""
    with_ids = False
    for column in schema:
        text = (column.metadata or {}).get(b"PARQUET:field_id")
        with_ids |= text is not None
        if text is not None and int(text) == id:
            return str(column.name)
    return None if with_ids else next((n for n in names if n in schema.names), None)


def _open(location: str, properties: Mapping[str, str]) -> pa.NativeFile:
    """A data file, wherever the table's own file access would find it.

    Locations are not URLs: whatever is in them, also a percent sign, is in the file's name.
    """
    scheme, colon, path = location.partition(":")
    if not colon or "/" in scheme:
        return pa.OSFile(location)
    if scheme == "file":
        return pa.OSFile(f"/{path.lstrip('/')}")
    if scheme in ("s3", "s3a", "s3n"):
        return _s3(tuple(sorted(properties.items()))).open_input_file(path.lstrip("/"))
    files, path = pyarrow.fs.FileSystem.from_uri(location)
    return files.open_input_file(path)


@lru_cache(maxsize=16)
def _s3(settings: tuple[tuple[str, str], ...]) -> pyarrow.fs.S3FileSystem:
    properties = dict(settings)
    endpoint = urlparse(properties.get("s3.endpoint", ""))
    return pyarrow.fs.S3FileSystem(
        access_key=properties.get("s3.access-key-id"),
        secret_key=properties.get("s3.secret-access-key"),
        session_token=properties.get("s3.session-token"),
        region=properties.get("client.region") or properties.get("s3.region"),
        scheme=endpoint.scheme or None,
        endpoint_override=endpoint.netloc or None,
    )
