"""Files and deletion vectors as DuckDB reads them, against a dictionary; the embedded lake's metadata, against PyIceberg."""

from __future__ import annotations

import random
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import StringType

from icestream.config import Home
from icestream.dev.duck import open_duckdb
from icestream.lake import copies as subject
from icestream.lake.copies import DEAD, Copies, positions, scan
from icestream.lake.listing import Column, DataFile, Listed, Listing, NeedsSparkError, Vector
from icestream.lake.stamp import RECORD, ObjectAt, Record
from icestream.lake.vectors import PUFFIN, Bits, encode, puffin

COLUMNS = (Column(1, "k", "BIGINT"), Column(2, 'v "x"', "VARCHAR"))


class Model:
    """A table that is written, deleted from and compacted, and what it should hold."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.r = random.Random(seed)
        self.rows: dict[str, list[int]] = {}
        self.dead: dict[str, Bits] = {}
        self.vectors: dict[str, Vector] = {}
        self.made = 0

    def write(self, keys: list[int]) -> None:
        self.made += 1
        path = str(self.folder / f"f'{self.made}.parquet")
        fields = [("named otherwise", pa.int64(), 1), ("v", pa.string(), 2)]
        schema = pa.schema(
            [pa.field(n, x, metadata={"PARQUET:field_id": str(i)}) for n, x, i in fields]
        )
        pq.write_table(pa.table([keys, [f"v{k}" for k in keys]], schema), path)
        self.rows[path], self.dead[path] = keys, Bits()

    def step(self) -> None:
        self.write([self.r.randrange(1000) for _ in range(self.r.randint(1, 40))])
        for path in self.r.sample(sorted(self.rows), min(2, len(self.rows))):
            self.delete(path)
        if self.r.random() < 0.3 and len(self.rows) > 3:
            merged = self.r.sample(sorted(self.rows), 3)
            kept = [k for p in merged for i, k in enumerate(self.rows[p]) if i not in self.dead[p]]
            for path in merged:
                for known in (self.rows, self.dead, self.vectors):
                    known.pop(path, None)  # type: ignore[attr-defined]
            self.write(kept)

    def delete(self, path: str) -> None:
        count = len(self.rows[path])
        self.dead[path] |= Bits(self.r.sample(range(count), count // 3))
        if self.dead[path]:
            self.made += 1
            place, blob = self.folder / f"{self.made}.puffin", encode(self.dead[path])
            place.write_bytes(puffin(blob, path, len(self.dead[path])))
            self.vectors[path] = Vector(str(place), len(PUFFIN), len(blob))

    def listed(self, snapshot: int) -> Listed:
        files = {p: DataFile(p, len(k), 10, self.vectors.get(p)) for p, k in self.rows.items()}
        return Listed("lake.public.t", snapshot, COLUMNS, files)

    def content(self) -> list[tuple[int, str]]:
        return sorted(
            (k, f"v{k}")
            for path, keys in self.rows.items()
            for i, k in enumerate(keys)
            if i not in self.dead[path]
        )


def settled(copies: Copies, listed: Listed) -> str | None:
    """The copy, once it is made."""
    name = copies.of(listed)
    copies.settle()
    return name or copies.of(listed)


def sorted_rows(cursor: duckdb.DuckDBPyConnection, source: str) -> list[tuple[Any, ...]]:
    return sorted(cursor.execute(f'SELECT k, "v ""x""" FROM ({source})').fetchall())


def test_copies_follow_the_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "WORTH", 0)
    model, database = Model(tmp_path, seed=3), open_duckdb()
    copies = Copies(database, 1 << 30, Lock())
    assert copies.of(model.listed(0)) is None  # asked for the first time
    names = []
    for snapshot in range(1, 60):
        model.step()
        listed = model.listed(snapshot)
        with database.cursor() as cursor:
            files = list(listed.files.values())
            dead = ((n, f.vector.read()) for n, f in enumerate(files) if f.vector)
            cursor.register(DEAD, positions(dead))
            assert sorted_rows(cursor, scan(listed, files, DEAD)) == model.content()
        name = settled(copies, listed)
        names.append(name)
        assert sorted_rows(database, f"FROM {name}") == model.content()
    assert 1 < len(set(names)) < 30  # made anew at times, not every time
    (tables,) = database.execute("SELECT count(*) FROM duckdb_tables()").fetchone() or ()
    assert tables == 1


def test_a_transaction_stays_where_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "WORTH", 0)
    model, database = Model(tmp_path, seed=4), open_duckdb()
    copies = Copies(database, 1 << 30, Lock())
    model.write(list(range(100)))
    copies.of(model.listed(1))
    name = settled(copies, model.listed(1))
    cursor = database.cursor()
    cursor.execute("BEGIN")
    cursor.execute(f"SELECT 1 FROM {name} LIMIT 0")
    before = model.content()
    for snapshot in range(2, 40):
        model.step()
        settled(copies, model.listed(snapshot))
    assert sorted_rows(cursor, f"FROM {name}") == before


def test_the_oldest_copies_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "WORTH", 0)
    model, database = Model(tmp_path, seed=5), open_duckdb()
    model.write([1, 2, 3])
    copies = Copies(database, 25, Lock())
    tables = [Listed(f"lake.public.t{n}", 1, COLUMNS, model.listed(1).files) for n in range(3)]
    for each in tables:
        copies.of(each)
        settled(copies, each)
    (count,) = database.execute("SELECT count(*) FROM duckdb_tables()").fetchone() or ()
    assert count == 2
    assert copies.of(tables[0]) is None
    assert copies.of(tables[2]) is not None


@pytest.fixture
def lake(tmp_path: Path) -> tuple[Home, SqlCatalog]:
    home = Home.at(tmp_path / "home")
    home.prepare()
    uri = f"sqlite:///{home.lake_catalog}"
    catalog = SqlCatalog("lake", uri=uri, warehouse=home.warehouse.as_uri())
    for namespace in ("public", "icestream"):
        catalog.create_namespace(namespace)
    return home, catalog


def test_the_metadata_is_read_without_a_jvm(lake: tuple[Home, SqlCatalog]) -> None:
    home, catalog = lake
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "Name": ["a", None, "c"]})
    table = catalog.create_table(("public", "it.s"), rows.schema)
    listing = Listing(home)
    table.append(rows)
    table.append(rows.slice(1))
    with table.update_schema() as change:
        change.rename_column("Name", 'called "x"')
        change.add_column("more", StringType())
    table.append(pa.table({"id": pa.array([9], pa.int64()), 'called "x"': ["z"], "more": ["m"]}))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    uuid = str(table.metadata.table_uuid)
    found = listing.table("lake.public.it.s", uuid, snapshot.snapshot_id, 100)
    assert found.rows == 6
    assert len(found.files) == 3
    source = scan(found, list(found.files.values()), DEAD)
    wanted = table.scan().to_arrow()
    answer = open_duckdb().execute(source).to_arrow_table()
    order = [("id", "ascending"), ("more", "ascending")]
    assert answer.select(wanted.column_names).sort_by(order).to_pylist() == wanted.sort_by(order).to_pylist()  # fmt: skip
    with pytest.raises(NeedsSparkError, match="more than"):
        Listing(home).table("lake.public.it.s", uuid, snapshot.snapshot_id, 5)
    with pytest.raises(NeedsSparkError, match="another"):
        Listing(home).table("lake.public.it.s", "0", snapshot.snapshot_id, 100)
    with pytest.raises(KeyError):
        Listing(home).table("lake.public.it.s", uuid, 1, 100)


def test_the_newest_record(lake: tuple[Home, SqlCatalog], tmp_path: Path) -> None:
    home, catalog = lake
    assert Listing(Home.at(tmp_path / "nowhere")).record() is None
    listing = Listing(home)
    assert listing.record() is None
    none = pa.table({"unused": pa.array([], pa.bool_())})
    table = catalog.create_table("icestream.epochs", none.schema)
    assert listing.record() is None
    for epoch in (1, 2):
        record = Record("p", 1, 1, epoch, 5, objects={"t#1": ObjectAt(epoch, "lake.public.t", "u", 7)})  # fmt: skip
        table.append(none, {RECORD: record.to_json()})
        assert listing.record() == record
    table.append(none)  # a fence has none
    assert listing.record() == record
