"""Covering runs, on a real disk: rows by key at a snapshot, and what merging must keep for the snapshots before."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icestream.lake import index, keys, vectors
from icestream.lake.files import LiveFile, LiveFiles, _changes_rows
from icestream.lake.index import KeyIndex, Manifest, _Span
from icestream.lake.lookup import _Search, distinct
from icestream.lake.runs import (
    CarriedColumn,
    KeyColumn,
    KeySource,
    LostRunError,
    Rows,
    Run,
    Vector,
    merge_runs,
    read_entries,
    write_run,
)
from icestream.lake.table import Snapshot
from icestream.lake.vectors import Bits

KEY, NAME, NESTED = KeyColumn(1, ("k",)), 2, 3
NESTED_TYPE = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
CARRIED = (
    CarriedColumn(1, ("k",), None, pa.float64()),
    CarriedColumn(NAME, ("n",), None, pa.large_string()),
    CarriedColumn(NESTED, ("s",), None, NESTED_TYPE),
)
SCHEMA = pa.schema([("k", pa.float64()), ("n", pa.string()), ("s", NESTED_TYPE)])


def data_file(path: Path, rows: list[tuple[float | None, str]]) -> str:
    """Rows of (k, n); s follows from n."""
    fields = [
        pa.field(n, t, True, {"PARQUET:field_id": str(i)})
        for i, (n, t) in enumerate(zip("kns", SCHEMA.types, strict=True), 1)
    ]
    table = pa.table(
        [
            pa.array([k for k, _ in rows], pa.float64()),
            pa.array([n for _, n in rows], pa.string()),
            pa.array([{"a": len(n), "b": [n, None]} for _, n in rows], NESTED_TYPE),
        ],
        schema=pa.schema(fields),
    )
    pq.write_table(table, path)
    return str(path)


def run_of(folder: Path, number: int, rows: list[tuple[float | None, str]]) -> Run:
    location = data_file(folder / f"{number}.parquet", rows)
    found = list(read_entries(KeySource(number, location, None), [KEY], {}, CARRIED))
    run = write_run(folder, found)
    assert run is not None
    return run


def vector_of(path: Path, *dead: int) -> Vector:
    """A vector within a file, as in Puffin."""
    blob = vectors.encode(Bits(dead))
    path.write_bytes(b"PFA1" + blob + b"rest")
    return Vector(str(path), 4, len(blob))


def names(rows: Rows, *asked: float | None) -> list[str]:
    batch = pa.record_batch([pa.array(asked, pa.float64())], names=["any"])
    found = [b for b in _Search(rows, SCHEMA).run(iter([batch])) if b.num_rows]
    for b in found:
        assert b.schema == SCHEMA
        for row in b.to_pylist():
            assert row["s"] == {"a": len(row["n"]), "b": [row["n"], None]}
    return sorted(row["n"] for b in found for row in b.to_pylist())


def test_rows_by_key(tmp_path: Path) -> None:
    other_nan = float(np.frombuffer(np.array([0x7FF8000000000001], np.uint64).tobytes())[0])
    first = [(1.0, "a"), (None, "b"), (math.nan, "c"), (0.0, "d"), (1.0, "e")]
    second = [(-0.0, "f"), (other_nan, "g"), (None, "h"), (2.0, "i")]
    runs = (run_of(tmp_path, 0, first), run_of(tmp_path, 1, second))
    everything = Rows(str(tmp_path), runs, {0: None, 1: None}, {})
    assert names(everything, 1.0) == ["a", "e"]
    assert names(everything, None, None) == ["b", "h"]
    assert names(everything, math.nan, other_nan) == ["c", "g"]
    assert names(everything, -0.0, 0.0) == ["d", "f"]
    assert names(everything, 3.0) == []
    assert names(everything) == []
    batch = pa.record_batch([pa.array([-0.0])], names=["k"])
    values = [v for b in _Search(everything, SCHEMA).run(iter([batch])) for v in b["k"].to_pylist()]
    assert sorted(math.copysign(1, v) for v in values) == [-1, 1], "the row's own value"


def test_only_what_lives_in_the_snapshot_is_found(tmp_path: Path) -> None:
    runs = (run_of(tmp_path, 0, [(1.0, "a"), (1.0, "b")]), run_of(tmp_path, 1, [(1.0, "c")]))
    vector = vector_of(tmp_path / "v.puffin", 1)
    assert names(Rows(str(tmp_path), runs, {0: vector}, {}), 1.0) == ["a"]
    assert names(Rows(str(tmp_path), runs, {0: vector, 1: None}, {}), 1.0) == ["a", "c"]
    assert names(Rows(str(tmp_path), runs, {}, {}), 1.0) == []


def test_columns_that_a_file_leaves_out(tmp_path: Path) -> None:
    location = data_file(tmp_path / "f.parquet", [(1.0, "a"), (2.0, "b")])
    carried = [
        CarriedColumn(9, ("new",), None, pa.large_string()),
        CarriedColumn(10, ("text",), "x", pa.large_string()),
        CarriedColumn(11, ("day",), 19_000, pa.date32()),
        CarriedColumn(12, ("at",), 5, pa.timestamp("us", "UTC")),
    ]
    source = KeySource(0, location, None, constants=((10, "de"),))
    run = write_run(tmp_path, list(read_entries(source, [KEY], {}, carried)))
    assert run is not None
    rows = Rows(str(tmp_path), (run,), {0: None}, {})
    found = pa.concat_tables(rows.of([keys.canonical(pa.array([2.0]))], ["n", "t", "d", "a"]))
    assert found["n"].to_pylist() == [None]
    assert found["t"].to_pylist() == ["de"]
    assert found["d"].cast(pa.int32()).to_pylist() == [19_000]
    assert found["a"].cast(pa.int64()).to_pylist() == [5]


def test_a_damaged_run_is_deleted(tmp_path: Path) -> None:
    run = run_of(tmp_path, 0, [(1.0, "a")])
    rows = Rows(str(tmp_path), (run,), {0: None}, {})
    path = tmp_path / run.name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(LostRunError, match=run.name):
        names(rows, 1.0)
    assert not path.exists()


def test_distinct_keys() -> None:
    asked = pa.table({"a": pa.chunked_array([[1.0, -0.0], [0.0, None, 1.0, None]]), "b": ["x"] * 6})
    key = distinct(asked)
    assert [len(k) for k in key] == [3, 3]
    assert key[0].null_count == 1


# -- several snapshots -------------------------------------------------------------------------------


def live(snapshot: int, files: dict[str, Bits]) -> LiveFiles:
    """Files of a snapshot, with what is deleted in each."""
    nobody: Any = None
    made = LiveFiles(nobody, nobody, None)
    made.snapshot = snapshot
    made._files = {
        location: LiveFile(nobody, location, 100, None, [nobody] if dead else [], dead=dead)
        for location, dead in files.items()
    }
    return made


def test_what_any_of_the_snapshots_needs_is_kept(tmp_path: Path, monkeypatch: Any) -> None:
    """Rows that the newest snapshot no longer has, but one before it does: deleted, or in a file that is gone."""
    content: dict[str, list[tuple[float | None, str]]] = {
        "compacted": [(1.0, "x0"), (1.0, "x1")],
        "marked": [(1.0, "m0"), (1.0, "m1"), (1.0, "m2")],
        "forgotten": [(1.0, "f0"), (9.0, "")],
        "between": [(1.0, "b0"), (9.0, "")],
        "newest": [(1.0, "n0"), (9.0, "")],
    }
    numbers = {location: number for number, location in enumerate(content)}
    runs = tuple(run_of(tmp_path, numbers[f], rows) for f, rows in content.items())
    span = _Span.of(
        [
            live(1, {"compacted": Bits([1]), "marked": Bits([0])}),
            live(2, {"marked": Bits([0, 1]), "between": Bits()}),
            live(3, {"marked": Bits([0, 1, 2]), "newest": Bits()}),
        ]
    )
    nobody: Any = None
    made = KeyIndex(nobody, ("k",), tmp_path, carried="kns")
    made.folder = tmp_path
    made.manifest = Manifest(numbers, 9, runs, frozenset(numbers.values()))
    monkeypatch.setattr(made, "_marked", lambda manifest, span: manifest)
    made._merge(span)
    (merged,) = made.runs()
    everything = Rows(str(tmp_path), (merged,), dict.fromkeys(numbers.values()), {})
    assert names(everything, 1.0) == ["b0", "m1", "m2", "n0", "x0"]
    assert all((tmp_path / r.name).exists() for r in runs), "for frames that were made before"
    made._forget(_Span.of([live(4, {"newest": Bits()})]))
    assert made.manifest.files == {"newest": numbers["newest"]}


def test_a_merge_of_covering_runs_has_bounds(tmp_path: Path, monkeypatch: Any) -> None:
    nobody: Any = None
    made, plain = KeyIndex(nobody, (), tmp_path, carried="k"), KeyIndex(nobody, (), tmp_path)
    tier = [Run(str(n), 100, 1_000, 0, 0, 0, ()) for n in range(8)]
    monkeypatch.setattr(index, "COVERING_BYTES", 5_000)
    assert len(made._together(tier)) == 5
    assert len(plain._together(tier)) == 8
    monkeypatch.setattr(index, "PER_RUN", 300 * index.COVERING)
    assert len(made._together(tier)) == 3


def test_merged_rows_stay_whole(tmp_path: Path) -> None:
    runs = [run_of(tmp_path, n, [(float(n % 3), f"r{n}"), (None, f"n{n}")]) for n in range(5)]
    dead = {1: vectors.encode(Bits([0]))}
    merged = merge_runs(tmp_path, runs, [0, 1, 2, 4], dead)
    assert merged is not None
    rows = Rows(str(tmp_path), (merged,), dict.fromkeys(range(5)), {})
    assert names(rows, 1.0) == ["r4"]
    assert names(rows, 0.0, None) == ["n0", "n1", "n2", "n4", "r0"]


@pytest.mark.parametrize(
    ("operation", "summary", "changes"),
    [
        ("append", {"added-data-files": "1"}, True),
        ("append", {"total-records": "5"}, False),
        ("overwrite", {"added-delete-files": "1"}, True),
        ("delete", {"deleted-data-files": "1"}, True),
        ("replace", {"added-data-files": "1", "deleted-data-files": "4"}, False),
    ],
)
def test_which_snapshots_change_rows(operation: str, summary: dict[str, str], changes: bool) -> None:  # fmt: skip
    assert _changes_rows(Snapshot(1, None, operation, summary)) is changes
