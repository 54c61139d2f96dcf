"""The key index of a table, as the driver sees it: which data files are covered by which runs.

The index is a cache. It lies outside the table, and losing any of it loses nothing: `cover` makes what is missing, for a
table met for the first time as for the files of the last commit, of a compaction or of somebody else.

A covering index holds columns of the rows too, and is made for several snapshots of the table at a time.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from icestream import faults
from icestream.errors import NotSupportedError
from icestream.home_log import log_failure
from icestream.lake import keys, vectors
from icestream.lake.columns import (
    KEY_TYPES,
    Partitions,
    access_properties,
    carries,
    described,
    name_mapping,
    plain,
    row_type,
    stored,
)
from icestream.lake.files import LiveFile, LiveFiles
from icestream.lake.java_types import JavaObject, JavaTable
from icestream.lake.runs import (
    LOST,
    CarriedColumn,
    KeyColumn,
    KeySource,
    Run,
    forget_others,
    merge_runs,
    read_entries,
    write_run,
)
from icestream.lake.staging import missing_column
from icestream.lake.table import LakeTable, snapshot_of
from icestream.lake.vectors import Bits

_LOG = logging.getLogger(__name__)

VERSION = 3
MANIFEST = "manifest.json"
IN_DRIVER = 300_000
"""Keys that the driver indexes or merges itself; more of them are Spark's work."""
PER_RUN = 4_000_000
COVERING = 8
"""Covering runs have fewer entries, by that factor; and they are not merged beyond so many bytes:"""
COVERING_BYTES = 1 << 30
TIER = 4
"""Runs of about one size that are merged into one."""


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
    earlier: tuple[int, ...] = ()
    """Older ones that it is complete for too: no entry of a row that lives in one of them has been left out."""
    sequence: int = 0
    """The place of `snapshot` in the table's history, in a covering index."""

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Manifest:
        """The manifest that was written as JSON."""
        runs, complete = tuple(Run.of(r) for r in raw["runs"]), frozenset(raw["complete"])
        earlier = tuple(raw.get("earlier", ()))
        return cls(**{**raw, "runs": runs, "complete": complete, "earlier": earlier})


@dataclass(frozen=True)
class _Span:
    """The snapshots that an index is made for, oldest first, and their files."""

    lives: tuple[LiveFiles, ...]
    files: Mapping[str, LiveFile]

    @classmethod
    def of(cls, lives: Sequence[LiveFiles]) -> _Span:
        return cls(tuple(lives), {location: live[location] for live in lives for location in live})

    @property
    def head(self) -> LiveFiles:
        return self.lives[-1]

    @property
    def earlier(self) -> tuple[int, ...]:
        return tuple(live.snapshot for live in self.lives[:-1] if live.snapshot is not None)

    def dead(self, location: str) -> Bits | None:
        """Positions that are deleted in all of the snapshots: what was in the first of them is so ever after."""
        first = next(live for live in self.lives if location in live)
        return first.dead(location) if first[location].deletes else None


class KeyIndex:
    """Key → positions, for one table and its key columns; with `carried` columns key → those of the rows (covering).

    There may be one object at a time for a table, a key and carried columns.
    """

    def __init__(
        self, table: LakeTable, key: Sequence[str], root: Path, carried: Sequence[str] = ()
    ) -> None:
        self.table = table
        self.key = tuple(key)
        self.carried = tuple(carried)
        self.root = root
        self.folder: Path = root
        self.columns: tuple[KeyColumn, ...] = ()
        self.values: tuple[CarriedColumn, ...] = ()
        self.manifest = Manifest()
        self._identity = ""
        self._schema: tuple[str, int] | None = None
        self._retired: tuple[list[str], list[str]] = ([], [])
        """Runs of a covering index that are no longer needed, but maybe by frames that were made before: of the last
        snapshot, of this one."""

    def open(self, java: JavaTable) -> None:
        """Find what there is for the key's columns as the table has them now."""
        schema = java.schema()
        known = (str(java.uuid()), int(schema.schemaId()))
        if known == self._schema:
            return
        fields = [self._field(schema, name) for name in self.key]
        carried = [self._field(schema, name) for name in self.carried]
        parts: list[object] = [known[0], described(fields), VERSION, keys.probe()]
        identity = json.dumps([*parts, described(carried)] if carried else parts)
        for found, name in zip(fields, self.key, strict=True):
            if str(found.type()).split("(")[0] not in KEY_TYPES:
                raise NotSupportedError(
                    f"column {name} of {self.table.name}, of type {found.type()}, in a key"
                )
        for found, name in zip(carried, self.carried, strict=True):
            if not carries(found.type()):
                raise NotSupportedError(
                    f"column {name} of {self.table.name}, of type {found.type()}, in an index"
                )
        mapping = name_mapping(java)

        def column(f: JavaObject, name: str) -> KeyColumn:
            id = f.fieldId()
            return KeyColumn(id, (name, *mapping.get(id, ())), plain(f.initialDefault()))

        self.columns = tuple(column(f, n) for f, n in zip(fields, self.key, strict=True))
        if carried:
            types = to_arrow_schema(row_type(self.table, java, self.carried)).types
            untyped = [column(f, n) for f, n in zip(carried, self.carried, strict=True)]
            self.values = tuple(
                CarriedColumn(c.id, c.names, c.default, stored(type))
                for c, type in zip(untyped, types, strict=True)
            )
        if identity != self._identity:
            self._identity = identity
            digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
            self.folder = self.root / known[0] / digest
            self._retired = ([], [])
            self.manifest = self._load()
        self._schema = known

    def _field(self, schema: JavaObject, name: str) -> JavaObject:
        found = schema.findField(name)
        if found is None:
            raise missing_column(self.table, name)
        return found

    def numbers(self, live: LiveFiles) -> dict[int, str]:
        """The data files that count, by their numbers in the runs."""
        return {self.manifest.files[location]: location for location in live}

    def runs(self) -> tuple[Run, ...]:
        """The runs to probe."""
        return self.manifest.runs

    def cover(self, live: LiveFiles, earlier: Sequence[LiveFiles] = ()) -> None:
        """Make the index complete for these files, and forget what it has of others.

        `earlier`: older snapshots, the oldest first, whose rows are to be found as well.
        """
        self.open(live.java)
        self._delete_retired(live)
        span = _Span.of([*earlier, live])
        if not self._on_one_line(live) or not self._reaches_back(span):
            self._store(Manifest(next=self.manifest.next))
        self._drop_damaged()
        self._forget(span)
        self._complete(span)
        for _ in self.manifest.runs:
            try:
                self._merge(span)
                break
            except Exception as error:
                if not self.lose(error):
                    raise
                self._complete(span)
        if (self.manifest.snapshot, self.manifest.earlier) != (live.snapshot, span.earlier):
            self._store(self._marked(self.manifest, span))

    def sound(self) -> bool:
        """Whether all runs are there in full."""
        return all(_size(self.folder / r.name) == r.size for r in self.manifest.runs)

    def lose(self, error: Exception) -> bool:
        """Whether an error says that a run is damaged. Then its files are to be indexed again."""
        _, found, rest = str(error).partition(LOST)
        name = rest.partition(";")[0]
        if found:
            log_failure(
                _LOG, "run %s of a key index is damaged; it is made again", name, error=error
            )
            self._keep([r for r in self.manifest.runs if r.name != name])
        return bool(found)

    def drop(self, uuid: str) -> None:
        """Delete everything there is for the table."""
        shutil.rmtree(self.root / uuid, ignore_errors=True)
        self._identity, self._schema = "", None

    # -- the manifest ----------------------------------------------------------------------------

    def _load(self) -> Manifest:
        try:
            checksum, _, text = (self.folder / MANIFEST).read_text().partition("\n")
            if int(checksum) != zlib.crc32(text.encode()):
                return Manifest()
            raw = json.loads(text)
            if raw.pop("identity") != self._identity:
                return Manifest()
            manifest = Manifest.of(raw)
        except FileNotFoundError:
            manifest = Manifest()
        except (OSError, ValueError, KeyError, TypeError):
            log_failure(_LOG, "the key index in %s cannot be read; it is made again", self.folder)
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
        if self.carried:
            self._retired[1].extend(gone)
            return
        for name in gone:
            (self.folder / name).unlink(missing_ok=True)

    def _delete_retired(self, live: LiveFiles) -> None:
        if live.snapshot != self.manifest.snapshot:
            for name in self._retired[0]:
                (self.folder / name).unlink(missing_ok=True)
            self._retired = (self._retired[1], [])

    def _marked(self, manifest: Manifest, span: _Span) -> Manifest:
        """The manifest as that of these snapshots."""
        head, sequence = span.head, 0
        if self.carried and head.snapshot is not None:
            sequence = snapshot_of(head.java, head.snapshot).sequenceNumber()
        return replace(manifest, snapshot=head.snapshot, earlier=span.earlier, sequence=sequence)

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
        return self._expired(known, live)

    def _expired(self, known: int, live: LiveFiles) -> bool:
        """Whether a covering index was made for a snapshot that only expiry has taken out of the table's history.

        Who writes an owned table is the engine alone, and it never goes back.
        """
        if not (self.carried and self.table.owned and live.snapshot is not None):
            return False
        gone = live.java.snapshot(known) is None
        later = snapshot_of(live.java, live.snapshot).sequenceNumber()
        return gone and 0 < self.manifest.sequence < later

    def _reaches_back(self, span: _Span) -> bool:
        """Whether nothing of the earlier snapshots can have been left out: the index was made for them, or for an
        older one."""
        known = self.manifest.snapshot
        if known is None:
            return True
        java = span.head.java
        return all(
            s == known
            or s in self.manifest.earlier
            or snapshot_of(java, s).sequenceNumber() > self.manifest.sequence
            for s in span.earlier
        )

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

    def _forget(self, span: _Span) -> None:
        """Drop runs of which no file is live any more."""
        manifest = self.manifest
        files = {location: n for location, n in manifest.files.items() if location in span.files}
        if len(files) == len(manifest.files):
            return
        numbers = set(files.values())
        runs = tuple(r for r in manifest.runs if numbers.intersection(r.files))
        complete = manifest.complete & numbers
        self._store(replace(manifest, files=files, runs=runs, complete=complete))

    # -- making runs -----------------------------------------------------------------------------

    def _complete(self, span: _Span) -> None:
        complete = self.manifest.complete
        missing = [f for f in span.files if self.manifest.files.get(f, -1) not in complete]
        if missing:
            self._add(span, missing)

    def _add(self, span: _Span, locations: Sequence[str]) -> None:
        files, number = dict(self.manifest.files), self.manifest.next
        for location in locations:
            if str(span.files[location].java.format()) != "PARQUET":
                raise NotSupportedError(
                    f"an upsert into {self.table.name}, which has a data file that is not Parquet",
                    remedy="rewrite the table's files as Parquet",
                )
            if location not in files:
                files[location], number = number, number + 1
        ids = {c.id for c in (*self.columns, *self.values)}
        most = PER_RUN // 2 // (COVERING if self.carried else 1)
        java = span.head.java
        units = list(_units(java, [span.files[x] for x in locations], files, ids, most))
        rows = sum(span.files[location].rows for location in locations)
        properties = access_properties(java, locations)
        if rows <= IN_DRIVER:
            made = [
                write_unit(self.folder, u, self.columns, properties, self.values) for u in units
            ]
        else:
            made = self._distributed(units, properties)
        faults.reach("runs-written")
        runs = (*self.manifest.runs, *(r for r in made if r is not None))
        complete = self.manifest.complete | {files[location] for location in locations}
        new = replace(self.manifest, files=files, next=number, runs=runs, complete=complete)
        self._store(self._marked(new, span))

    def _distributed(
        self, units: Sequence[Sequence[KeySource]], properties: dict[str, str]
    ) -> list[Run | None]:
        folder, columns, values = self.folder, self.columns, self.values

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    run = write_unit(folder, units[number], columns, properties, values)
                    if run is not None:
                        yield pa.RecordBatch.from_pydict({"run": [json.dumps(asdict(run))]})

        count = len(units)
        frame = self.table.jvm.spark.range(0, count, 1, count).mapInArrow(work, "run STRING")
        raws = [json.loads(row.run) for row in frame.collect()]
        return [Run.of(raw) for raw in raws]

    def _merge(self, span: _Span) -> None:
        """Merge runs of about one size, so that there are few of them and each entry is rewritten seldom."""
        tiers: dict[int, list[Run]] = {}
        for run in self.manifest.runs:
            tiers.setdefault(run.rows.bit_length() // 2, []).append(run)
        for tier in tiers.values():
            tier.sort(key=lambda r: r.rows)
            runs = self._together(tier)
            rows = sum(r.rows for r in runs)
            if len(runs) < TIER:
                continue
            numbers = {self.manifest.files[location]: location for location in span.files}
            within = {n for r in runs for n in r.files} & set(numbers)
            found = ((n, span.dead(numbers[n])) for n in within)
            dead = {n: vectors.encode(bits) for n, bits in found if bits is not None}
            merged = self._merged(runs, sorted(numbers), dead, rows)
            names = {r.name for r in runs}
            kept = [r for r in self.manifest.runs if r.name not in names]
            kept += [merged] if merged is not None else []
            self._store(self._marked(replace(self.manifest, runs=tuple(kept)), span))

    def _together(self, tier: Sequence[Run]) -> list[Run]:
        """The runs, from the smallest on, that make one which is not too large."""
        most = PER_RUN // (COVERING if self.carried else 1)
        rows = accumulate(r.rows for r in tier)
        sizes = accumulate(r.size if self.carried else 0 for r in tier)
        sums = zip(tier, rows, sizes, strict=True)
        return [r for r, row, size in sums if row <= most and size <= COVERING_BYTES]

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
    values: Sequence[CarriedColumn] = (),
) -> Run | None:
    """Read the keys (and the carried columns) of some data files and write them as one run."""
    entries = [table for s in sources for table in read_entries(s, columns, properties, values)]
    return write_run(folder, entries)


def _units(
    java: JavaTable, locations: Sequence[LiveFile], files: dict[str, int], ids: set[int], most: int
) -> Iterator[list[KeySource]]:
    """Work of bounded size, of about `most` rows: large files are shared out by row groups, small ones are put
    together."""
    together: list[KeySource] = []
    partitions = Partitions(java, ids)
    rows = 0
    for file in locations:
        shares = -(-file.rows // most) or 1
        for share in range(shares):
            if together and rows + file.rows // shares > most:
                yield together
                together, rows = [], 0
            number, constants = files[file.location], partitions.constants(file.java)
            together.append(
                KeySource(number, file.location, file.first_row_id, share, shares, constants)
            )
            rows += file.rows // shares
    if together:
        yield together


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1
