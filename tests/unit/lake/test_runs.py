"""Runs of the key index, on a real disk, against a dictionary."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icestream.lake import keys, vectors
from icestream.lake.runs import (
    ROW_ID,
    Hits,
    KeyColumn,
    KeySource,
    LostRunError,
    Run,
    merge_runs,
    open_run,
    probe,
    read_entries,
    write_run,
)
from icestream.lake.vectors import Bits

ID, NAME, OTHER = 1, 2, 3


def parquet(path: Path, columns: dict[str, tuple[int | None, pa.Array]], **options: object) -> str:
    """A data file; columns are name → (field id, values)."""
    fields = [
        pa.field(n, a.type, True, {} if id is None else {"PARQUET:field_id": str(id)})
        for n, (id, a) in columns.items()
    ]
    table = pa.table([a for _, a in columns.values()], schema=pa.schema(fields))
    pq.write_table(table, path, **options)
    return str(path)


def entries(location: str, number: int, *columns: tuple[int, str], first: int | None = None):
    return list(read_entries(KeySource(number, location, first), key_columns(*columns), {}))


def key_columns(*columns: tuple[int, str]) -> list[KeyColumn]:
    return [KeyColumn(id, (name,)) for id, name in columns]


def look_up(folder: Path, runs: list[Run], *key: pa.Array) -> Hits:
    canonical = [keys.canonical(k) for k in key]
    return probe(str(folder), runs, keys.hashes(canonical), canonical)


def places(hits: Hits) -> list[tuple[int, ...]]:
    return sorted(zip(*(map(int, part) for part in (hits.probe, hits.file, hits.position))))  # noqa: B905


@pytest.mark.parametrize("clash", [False, True], ids=["hashes", "clashing hashes"])
def test_every_key_is_found_at_all_its_places(tmp_path, monkeypatch, clash: bool) -> None:
    if clash:
        real = keys.hashes
        monkeypatch.setattr(keys, "hashes", lambda columns: real(columns) % 7)
    r = random.Random(3)
    where: dict[tuple[int | None, str | None], list[tuple[int, int]]] = {}
    runs: list[Run] = []
    for number in range(9):
        rows = [(r.choice((None, *range(30))), r.choice((None, "", "a", "b"))) for _ in range(50)]
        for position, key in enumerate(rows):
            where.setdefault(key, []).append((number, position))
        file = {
            "i": (ID, pa.array([i for i, _ in rows], pa.int64())),
            "n": (NAME, pa.array([n for _, n in rows])),
        }
        location = parquet(tmp_path / f"{number}.parquet", file, row_group_size=17)
        shares = [KeySource(number, location, None, share, 2) for share in range(2)]
        made = [write_run(tmp_path, list(read_entries(s, key_columns((ID, "i"), (NAME, "n")), {}))) for s in shares]  # fmt: skip
        runs += [run for run in made if run is not None]
    assert sum(run.rows for run in runs) == 9 * 50
    asked = [(i, n) for i in (None, *range(40)) for n in (None, "", "a", "b", "c")]
    r.shuffle(asked)
    ask = (pa.array([i for i, _ in asked], pa.int32()), pa.array([n for _, n in asked]))

    def expected(alive: set[int], dead: dict[int, set[int]]) -> list[tuple[int, int, int]]:
        return sorted(
            (index, number, position)
            for index, key in enumerate(asked)
            for number, position in where.get(key, [])
            if number in alive and position not in dead.get(number, ())
        )

    assert places(look_up(tmp_path, runs, *ask)) == expected(set(range(9)), {})
    alive, dead = {0, 2, 3, 5, 6, 8}, {0: {1, 2, 49}, 5: set(range(50)), 1: {4}}
    blobs = {number: vectors.encode(Bits(positions)) for number, positions in dead.items()}
    merged = merge_runs(tmp_path, runs, sorted(alive), blobs)
    assert merged is not None
    assert merged.files == (0, 2, 3, 6, 8)
    assert places(look_up(tmp_path, [merged], *ask)) == expected(alive, dead)
    assert merge_runs(tmp_path, runs, [], {}) is None


@pytest.mark.parametrize("damage", ["deleted", "truncated", "other bytes", "empty"])
def test_a_damaged_run_is_noticed(tmp_path: Path, damage: str) -> None:
    location = parquet(tmp_path / "f.parquet", {"i": (ID, pa.array(range(500)))})
    run = write_run(tmp_path, entries(location, 0, (ID, "i")))
    assert run is not None
    path = tmp_path / run.name
    content = path.read_bytes()
    path.unlink()
    if damage == "truncated":
        path.write_bytes(content[:-1])
    elif damage == "other bytes":
        middle = len(content) // 2
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    elif damage == "empty":
        path.write_bytes(b"")
    with pytest.raises(LostRunError, match=run.name):
        look_up(tmp_path, [run], pa.array([7]))
    with pytest.raises(LostRunError, match=run.name):
        merge_runs(tmp_path, [run], [0], {})
    path.write_bytes(content)
    assert places(look_up(tmp_path, [run], pa.array([7]))) == [(0, 0, 7)]


def test_keys_are_read_by_field_id(tmp_path: Path) -> None:
    """A file from before its columns were renamed, even to each other's names."""
    old = {"b": (ID, pa.array([1, 2])), "a": (NAME, pa.array([8, 9]))}
    location = parquet(tmp_path / "f.parquet", old)
    run = write_run(tmp_path, entries(location, 0, (ID, "a")))
    assert places(look_up(tmp_path, [run], pa.array([1, 2, 8, 9]))) == [(0, 0, 0), (1, 0, 1)]


def test_a_file_without_ids_is_read_by_name(tmp_path: Path) -> None:
    location = parquet(tmp_path / "f.parquet", {"a": (None, pa.array([5, 6]))})
    run = write_run(tmp_path, entries(location, 0, (ID, "a")))
    assert places(look_up(tmp_path, [run], pa.array([6]))) == [(0, 0, 1)]


def test_a_column_renamed_since_is_found_by_its_older_name(tmp_path: Path) -> None:
    """Files without ids (migrated ones) of a table with a name mapping."""
    location = parquet(tmp_path / "f.parquet", {"old": (None, pa.array([5, 6]))})
    found = read_entries(KeySource(0, location, None), [KeyColumn(ID, ("new", "old"))], {})
    run = write_run(tmp_path, list(found))
    assert places(look_up(tmp_path, [run], pa.array([6]))) == [(0, 0, 1)]


def test_values_that_a_file_leaves_out(tmp_path: Path) -> None:
    """Partition values of migrated files, and the default of a column that is younger than the file."""
    location = parquet(tmp_path / "f.parquet", {"x": (OTHER, pa.array([5, 6]))})
    source = KeySource(0, location, None, constants=((ID, "de"),))
    columns = [KeyColumn(ID, ("country",)), KeyColumn(NAME, ("n",), 7), KeyColumn(OTHER, ("x",))]
    run = write_run(tmp_path, list(read_entries(source, columns, {})))
    keys = (pa.array(["de", "at"]), pa.array([7, 7]), pa.array([6, 6]))
    assert places(look_up(tmp_path, [run], *keys)) == [(0, 0, 1)]


@pytest.mark.parametrize(
    "key",
    [
        pa.array([None, 1], pa.int64()),
        pa.array([None, "a"]),
        pa.array([None, Decimal(1)], pa.decimal128(20, 2)),
        pa.array([None, 1.0]),
    ],
    ids=lambda a: str(a.type),
)
def test_a_key_column_that_a_file_lacks_is_null_in_it(tmp_path: Path, key: pa.Array) -> None:
    """Files from before ALTER TABLE … ADD COLUMN, alone and in one run with newer ones."""
    old = parquet(tmp_path / "old.parquet", {"x": (OTHER, pa.array([1, 2]))})
    new = parquet(tmp_path / "new.parquet", {"k": (ID, key)})
    of_old, of_new = entries(old, 0, (ID, "k")), entries(new, 1, (ID, "k"))
    nulls, value = [(0, 0, 0), (0, 0, 1), (0, 1, 0)], [(1, 1, 1)]
    together = write_run(tmp_path, [*of_old, *of_new])
    assert places(look_up(tmp_path, [together], key)) == nulls + value
    apart = [write_run(tmp_path, of_old), write_run(tmp_path, of_new)]
    assert places(look_up(tmp_path, apart, key)) == nulls + value
    merged = merge_runs(tmp_path, apart, [0, 1], {})
    assert places(look_up(tmp_path, [merged], key)) == nulls + value


def test_row_ids_are_inherited_unless_written(tmp_path: Path) -> None:
    columns = {
        "k": (ID, pa.array([1, 2, 3])),
        "_row_id": (ROW_ID, pa.array([None, 70, None], pa.int64())),
    }
    location = parquet(tmp_path / "f.parquet", columns)
    run = write_run(tmp_path, entries(location, 0, (ID, "k"), first=100))
    hits = look_up(tmp_path, [run], pa.array([1, 2, 3]))
    assert sorted(hits.row) == [70, 100, 102]
    run = write_run(tmp_path, entries(location, 0, (ID, "k")))
    hits = look_up(tmp_path, [run], pa.array([1, 2, 3]))
    assert sorted(hits.row) == [-1, -1, 70]


@pytest.mark.parametrize("name", ["name=a%2Fb%20c", "with space", "a#b?c", "ü+&%"])
@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_a_location_is_taken_literally(tmp_path: Path, name: str, prefix: str) -> None:
    """Iceberg puts partition values into paths URL-encoded: the percent signs are in the file's name."""
    folder = tmp_path / name
    folder.mkdir()
    path = parquet(folder / "f.parquet", {"k": (ID, pa.array([1]))})
    assert len(entries(f"{prefix}{path}", 0, (ID, "k"))) == 1


def test_a_run_is_mapped_not_loaded(tmp_path: Path) -> None:
    location = parquet(tmp_path / "f.parquet", {"k": (ID, pa.array(np.arange(50_000)))})
    run = write_run(tmp_path, entries(location, 0, (ID, "k")))
    assert run is not None
    before = pa.total_allocated_bytes()
    assert open_run(str(tmp_path), run).num_rows == 50_000
    assert pa.total_allocated_bytes() - before < 50_000
