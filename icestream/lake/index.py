"""The key index of a table, as the driver sees it: which data files are covered by which runs.

The index is a cache. It lies outside the table, and losing any of it loses nothing: `cover` makes what is missing, for a
table met for the first time as for the files of the last commit, of a compaction or of somebody else.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from itertools import accumulate
from pathlib import Path

import pyarrow as pa

from icestream import faults
from icestream.errors import NotSupportedError
from icestream.lake import keys, vectors
from icestream.lake.files import LiveFiles
from icestream.lake.jvm import JavaObject, iterate
from icestream.lake.runs import (
    LOST,
    KeyColumn,
    KeySource,
    Run,
    forget_others,
    merge_runs,
    read_entries,
    write_run,
)
from icestream.lake.staging import missing_column
from icestream.lake.table import LakeTable

VERSION = 3
MANIFEST = "manifest.json"
IN_DRIVER = 300_000
"""Keys that the driver indexes or merges itself; more of them are Spark's work."""
PER_RUN = 4_000_000
TIER = 4
"""Runs of about one size that are merged into one."""
KEY_TYPES = frozenset(
    ("boolean", "int", "long", "float", "double", "decimal", "date", "timestamp", "timestamptz", "string", "binary")
)  # fmt: skip


@dataclass(frozen=True)
class Manifest:
    """What there is: data files by their numbers, and runs."""

    files: dict[str, int] = field(default_factory=dict)
    next: int = 0
    runs: tuple[Run, ...] = ()
    complete: frozenset[int] = frozenset()
    """Files whose every key is in the runs, but for rows that were deleted in `snapshot`."""
    snapshot: int | None = None
    """The table's snapshot that the index was last made complete for."""


class KeyIndex:
    """Key → positions, for one table and its key columns."""

    def __init__(self, table: LakeTable, key: Sequence[str], root: Path) -> None:
        self.table = table
        self.key = tuple(key)
        self.root = root
        self.folder: Path = root
        self.columns: tuple[KeyColumn, ...] = ()
        self.manifest = Manifest()
        self._identity = ""

    def open(self, java: JavaObject) -> None:
        """Find what there is for the key's columns as the table has them now."""
        schema = java.schema()
        fields = [schema.findField(name) for name in self.key]
        for found, name in zip(fields, self.key, strict=True):
            if found is None:
                raise missing_column(self.table, name)
        described = [f"{f.fieldId()} {f.type()}" for f in fields]
        identity = json.dumps([str(java.uuid()), described, VERSION, keys.probe()])
        if identity == self._identity:
            return
        for found, name in zip(fields, self.key, strict=True):
            if str(found.type()).split("(")[0] not in KEY_TYPES:
                raise NotSupportedError(
                    f"column {name} of {self.table.name}, of type {found.type()}, in a key"
                )
        self._identity = identity
        mapping = _name_mapping(java)
        self.columns = tuple(
            KeyColumn(f.fieldId(), (n, *mapping.get(f.fieldId(), ())), _plain(f.initialDefault()))
            for f, n in zip(fields, self.key, strict=True)
        )
        digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
        self.folder = self.root / str(java.uuid()) / digest
        self.manifest = self._load()

    def numbers(self, live: LiveFiles) -> dict[int, str]:
        """The data files that count, by their numbers in the runs."""
        return {self.manifest.files[location]: location for location in live}

    def runs(self) -> tuple[Run, ...]:
        """The runs to probe."""
        return self.manifest.runs

    def cover(self, live: LiveFiles) -> None:
        """Make the index complete for these files, and forget what it has of others."""
        self.open(live.java)
        if not self._on_one_line(live):
            self._store(Manifest(next=self.manifest.next))
        self._drop_damaged()
        self._forget(live)
        self._complete(live)
        for _ in self.manifest.runs:
            try:
                self._merge(live)
                break
            except Exception as error:
                if not self.lose(error):
                    raise
                self._complete(live)
        if self.manifest.snapshot != live.snapshot:
            self._store(replace(self.manifest, snapshot=live.snapshot))

    def lose(self, error: Exception) -> bool:
        """Whether an error says that a run is damaged. Then its files are to be indexed again."""
        _, found, rest = str(error).partition(LOST)
        name = rest.partition(";")[0]
        if found:
            self._keep([r for r in self.manifest.runs if r.name != name])
        return bool(found)

    def drop(self, uuid: str) -> None:
        """Delete everything there is for the table."""
        shutil.rmtree(self.root / uuid, ignore_errors=True)
        self._identity = ""

    # -- the manifest ----------------------------------------------------------------------------

    def _load(self) -> Manifest:
        try:
            checksum, _, text = (self.folder / MANIFEST).read_text().partition("\n")
            if int(checksum) != zlib.crc32(text.encode()):
                return Manifest()
            raw = json.loads(text)
            if raw.pop("identity") != self._identity:
                return Manifest()
            runs = tuple(Run.of(r) for r in raw.pop("runs"))
            complete = frozenset(raw.pop("complete"))
            manifest = Manifest(**raw, runs=runs, complete=complete)
        except (OSError, ValueError, KeyError, TypeError):
            manifest = Manifest()
        known = {r.name for r in manifest.runs}
        for path in self.folder.glob("*.arrow"):
            if path.name not in known:  # of a process that ended before it could write the manifest
                path.unlink(missing_ok=True)
        return manifest

    def _store(self, manifest: Manifest) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        raw = asdict(manifest) | {
            "identity": self._identity,
            "complete": sorted(manifest.complete),
        }
        new = self.folder / f"{MANIFEST}.new"
        text = json.dumps(raw)
        new.write_text(f"{zlib.crc32(text.encode())}\n{text}")
        new.replace(self.folder / MANIFEST)
        gone = {r.name for r in self.manifest.runs} - {r.name for r in manifest.runs}
        self.manifest = manifest
        forget_others(str(self.folder), manifest.runs)
        for name in gone:
            (self.folder / name).unlink(missing_ok=True)

    def _on_one_line(self, live: LiveFiles) -> bool:
        """Whether these files come after those that the index was made for. Else rows that were deleted may be back:
        the table was rolled back, or the index is newer than the table."""
        known = self.manifest.snapshot
        if known is None or known == live.snapshot:
            return True
        at = None if live.snapshot is None else live.java.snapshot(live.snapshot)
        while at is not None:
            parent = at.parentId()
            if known in (at.snapshotId(), parent):
                return True
            at = None if parent is None else live.java.snapshot(parent)
        return False

    def _drop_damaged(self) -> None:
        """Runs that are gone or cut off are noticed here; one with other bytes when it is opened."""
        sound = [r for r in self.manifest.runs if _size(self.folder / r.name) == r.size]
        if len(sound) < len(self.manifest.runs):
            self._keep(sound)

    def _keep(self, runs: Sequence[Run]) -> None:
        kept = {r.name for r in runs}
        lost = {n for r in self.manifest.runs if r.name not in kept for n in r.files}
        complete = self.manifest.complete - lost
        self._store(replace(self.manifest, runs=tuple(runs), complete=complete))

    def _forget(self, live: LiveFiles) -> None:
        """Drop runs of which no file is live any more."""
        manifest = self.manifest
        files = {location: n for location, n in manifest.files.items() if location in live}
        if len(files) == len(manifest.files):
            return
        numbers = set(files.values())
        runs = tuple(r for r in manifest.runs if numbers.intersection(r.files))
        complete = manifest.complete & numbers
        self._store(replace(manifest, files=files, runs=runs, complete=complete))

    # -- making runs -----------------------------------------------------------------------------

    def _complete(self, live: LiveFiles) -> None:
        complete = self.manifest.complete
        missing = [f for f in live if self.manifest.files.get(f, -1) not in complete]
        if missing:
            self._add(live, missing)

    def _add(self, live: LiveFiles, locations: Sequence[str]) -> None:
        files, number = dict(self.manifest.files), self.manifest.next
        for location in locations:
            if str(live[location].java.format()) != "PARQUET":
                raise NotSupportedError(
                    f"an upsert into {self.table.name}, which has a data file that is not Parquet",
                    remedy="rewrite the table's files as Parquet",
                )
            if location not in files:
                files[location], number = number, number + 1
        units = list(_units(live, locations, files, {c.id for c in self.columns}))
        rows = sum(live[location].rows for location in locations)
        properties = _properties(live.java)
        if rows <= IN_DRIVER:
            made = [write_unit(self.folder, u, self.columns, properties) for u in units]
        else:
            made = self._distributed(units, properties)
        faults.reach("runs-written")
        runs = (*self.manifest.runs, *(r for r in made if r is not None))
        complete = self.manifest.complete | {files[location] for location in locations}
        self._store(Manifest(files, number, runs, complete, live.snapshot))

    def _distributed(
        self, units: Sequence[Sequence[KeySource]], properties: dict[str, str]
    ) -> list[Run | None]:
        folder, columns = self.folder, self.columns

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    run = write_unit(folder, units[number], columns, properties)
                    if run is not None:
                        yield pa.RecordBatch.from_pydict({"run": [json.dumps(asdict(run))]})

        count = len(units)
        frame = self.table.jvm.spark.range(0, count, 1, count).mapInArrow(work, "run STRING")
        raws = [json.loads(row.run) for row in frame.collect()]
        return [Run.of(raw) for raw in raws]

    def _merge(self, live: LiveFiles) -> None:
        """Merge runs of about one size, so that there are few of them and each entry is rewritten seldom."""
        tiers: dict[int, list[Run]] = {}
        for run in self.manifest.runs:
            tiers.setdefault(run.rows.bit_length() // 2, []).append(run)
        for tier in tiers.values():
            tier.sort(key=lambda r: r.rows)
            totals = list(accumulate(r.rows for r in tier))
            runs = [r for r, total in zip(tier, totals, strict=True) if total <= PER_RUN]
            rows = sum(r.rows for r in runs)
            if len(runs) < TIER:
                continue
            numbers = self.numbers(live)
            within = {n for r in runs for n in r.files}
            dead = {
                n: vectors.encode(live.dead(numbers[n]))
                for n in within & set(numbers)
                if live[numbers[n]].deletes
            }
            merged = self._merged(runs, sorted(numbers), dead, rows)
            names = {r.name for r in runs}
            kept = [r for r in self.manifest.runs if r.name not in names]
            kept += [merged] if merged is not None else []
            self._store(replace(self.manifest, runs=tuple(kept), snapshot=live.snapshot))

    def _merged(
        self, runs: list[Run], alive: list[int], dead: dict[int, bytes], rows: int
    ) -> Run | None:
        if rows <= IN_DRIVER:
            return merge_runs(self.folder, runs, alive, dead)
        folder = self.folder

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _ in batches:
                run = merge_runs(folder, runs, alive, dead)
                if run is not None:
                    yield pa.RecordBatch.from_pydict({"run": [json.dumps(asdict(run))]})

        found = self.table.jvm.spark.range(0, 1, 1, 1).mapInArrow(work, "run STRING").collect()
        raws = [json.loads(row.run) for row in found]
        return next((Run.of(raw) for raw in raws), None)


def write_unit(
    folder: Path,
    sources: Sequence[KeySource],
    columns: Sequence[KeyColumn],
    properties: dict[str, str],
) -> Run | None:
    """Read the keys of some data files and write them as one run."""
    entries = [table for s in sources for table in read_entries(s, columns, properties)]
    return write_run(folder, entries)


def _units(
    live: LiveFiles, locations: Sequence[str], files: dict[str, int], key: set[int]
) -> Iterator[list[KeySource]]:
    """Work of bounded size: large files are shared out by row groups, small ones are put together."""
    together: list[KeySource] = []
    partitions = _Partitions(live.java, key)
    rows = 0
    for location in locations:
        file = live[location]
        shares = -(-file.rows // (PER_RUN // 2)) or 1
        for share in range(shares):
            if together and rows + file.rows // shares > PER_RUN // 2:
                yield together
                together, rows = [], 0
            number, constants = files[location], partitions.constants(file.java)
            together.append(
                KeySource(number, location, file.first_row_id, share, shares, constants)
            )
            rows += file.rows // shares
    if together:
        yield together


class _Partitions:
    """Values of key columns that data files need not hold, because the table is partitioned by them as they are."""

    def __init__(self, java: JavaObject, key: set[int]) -> None:
        self.java, self.key = java, key
        self._identities: dict[int, list[tuple[int, int, JavaObject]]] = {}

    def constants(self, file: JavaObject) -> tuple[tuple[int, object], ...]:
        """(field id, value) of such columns, in the form in which they are compared."""
        number = file.specId()
        if number not in self._identities:
            self._identities[number] = self._find(self.java.specs().get(number))
        return tuple(
            (id, _plain(file.partition().get(place, kind)))
            for place, id, kind in self._identities[number]
        )

    def _find(self, spec: JavaObject) -> list[tuple[int, int, JavaObject]]:
        found = []
        for place, part in enumerate(iterate(spec.fields())):
            if part.sourceId() in self.key and part.transform().isIdentity():
                found.append((place, part.sourceId(), spec.javaClasses()[place]))
        return found


def _name_mapping(java: JavaObject) -> dict[int, tuple[str, ...]]:
    """Names that columns have in files without field ids."""
    text = java.properties().get("schema.name-mapping.default")
    fields = json.loads(str(text)) if text is not None else []
    return {f["field-id"]: tuple(f["names"]) for f in fields if "field-id" in f}


def _plain(value: object) -> object:
    """A value of Iceberg's as Python's: dates and times are numbers already, texts and bytes may be wrapped."""
    if value is None or isinstance(value, bool | int | float | str | bytes | Decimal):
        return value
    return bytes(value.array()) if hasattr(value, "array") else str(value)


def _properties(java: JavaObject) -> dict[str, str]:
    """How the table's files are reached: what its catalog says about the object store."""
    found = (
        (str(e.getKey()), str(e.getValue())) for e in iterate(java.io().properties().entrySet())
    )
    return {k: v for k, v in found if k.startswith(("s3.", "client."))}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1
