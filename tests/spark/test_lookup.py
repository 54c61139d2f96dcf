"""Rows by key: random histories of a keyed table, each look-up compared with what a plain read of the snapshot gives."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from icestream.config import EngineSettings, Home
from icestream.engine import Engine
from icestream.lake import lookup as module
from icestream.lake.fold import DELETE, OFFSET, OP, PARTITION, STREAM, UPSERT, Upsert
from icestream.lake.index import KeyIndex
from icestream.lake.jvm import Jvm
from icestream.lake.keyed import Changes, KeyedTable
from icestream.lake.lookup import Lookup
from icestream.lake.runs import LOST
from icestream.lake.stamp import Stamp
from icestream.lake.table import LakeTable
from tests.keyed import seeded
from tests.spark_session import spark  # noqa: F401

pytestmark = pytest.mark.spark

Row = tuple[Any, ...]
NAN = float("nan")
COLUMNS = {
    "id": "BIGINT", "part": "STRING", "x": "DOUBLE", "amount": "DECIMAL(12,2)", "day": "DATE",
    "at": "TIMESTAMP", "local": "TIMESTAMP_NTZ", "raw": "BINARY", "tags": "ARRAY<STRING>",
    "info": "STRUCT<a: INT, b: ARRAY<STRUCT<c: STRING>>>", "labels": "MAP<STRING, DECIMAL(9,1)>", "small": "FLOAT",
}  # fmt: skip
PARTS = (None, "", "a", "b", "grüße")
DOUBLES = (None, NAN, 0.0, -0.0, 1.5, math.inf, -math.inf)


class Place:
    """A table `lake.out.t` with the key `id`, its upserting side, and its snapshots."""

    def __init__(self, session: SparkSession, home: Path) -> None:
        self.session, self.indexes = session, home / "index"
        session.sql("CREATE NAMESPACE IF NOT EXISTS lake.out")
        body = ", ".join(f"{n} {t}" for n, t in COLUMNS.items())
        session.sql(f"CREATE TABLE lake.out.t ({body}) TBLPROPERTIES ('format-version' = '3')")
        self.table = LakeTable(Jvm(session), ("lake", "out", "t"), owned=True)
        self.keyed = KeyedTable(self.table, Upsert(("id",)), self.indexes)
        self.epoch = 0
        self.head: int | None = None

    def apply(self, puts: Sequence[str], deletes: Sequence[int] = ()) -> int:
        """Upsert rows, given as Spark SQL, and delete ids; the new snapshot."""
        parts = [f"({row}, {UPSERT})" for row in puts]
        parts += [f"({id}{', NULL' * (len(COLUMNS) - 1)}, {DELETE})" for id in deletes]
        hidden = {OP: "TINYINT", STREAM: "STRING", PARTITION: "INT", OFFSET: "BIGINT"}
        names = ", ".join([*COLUMNS, OP])
        text = f"SELECT *, '', 0, 0L FROM VALUES {', '.join(parts)} AS s({names})"
        frame = self.session.sql(text)
        frame = frame.toDF(*COLUMNS, *hidden).selectExpr(
            *(f"CAST({n} AS {t}) AS {n}" for n, t in (COLUMNS | hidden).items())
        )
        return self.commit(Changes(frame, tuple(COLUMNS), len(parts)))

    def commit(self, changes: Changes) -> int:
        self.epoch += 1
        staged = self.keyed.stage(changes)
        self.head = self.keyed.commit(staged, Stamp("p", 1, 1, self.epoch, 0), self.head)
        return self.head

    def fill(self, count: int) -> int:
        """Many rows, appended."""
        kinds = list(COLUMNS.items())[2:]
        rest = ", ".join(f"CAST(NULL AS {t})" for _, t in kinds)
        self.session.sql(
            f"INSERT INTO lake.out.t SELECT /*+ COALESCE(1) */ id, CAST(id % 100 AS STRING), {rest} FROM range({count})"
        )
        return self._head()

    def compact(self) -> None:
        self.session.sql(
            "CALL lake.system.rewrite_data_files(table => 'out.t', options => map('rewrite-all', 'true'))"
        )
        self._head()

    def expire(self) -> None:
        self.session.sql(
            "CALL lake.system.expire_snapshots(table => 'out.t', older_than => TIMESTAMP '2100-01-01', retain_last => 2)"
        )

    def _head(self) -> int:
        head = self.table.head()
        assert head is not None
        self.head = head.id
        return head.id

    def lookup(self, *key: str, columns: Sequence[str] = tuple(COLUMNS)) -> Lookup:
        return Lookup(self.table, key, columns, self.indexes)

    def keys(self, values: Sequence[Row], *types: str) -> DataFrame:
        schema = ", ".join(f"k{i} {t}" for i, t in enumerate(types))
        return self.session.createDataFrame(list(values), schema)

    def read(self, snapshot: int | None) -> DataFrame:
        reader = self.session.read.format("iceberg")
        return reader.option("snapshot-id", snapshot).load("lake.out.t")


@pytest.fixture
def place(tmp_path: Path, spark: SparkSession) -> Iterator[Place]:  # noqa: F811
    home = tmp_path / "home"
    with Engine(Home.at(home), EngineSettings(), application=spark, allow_paths=["/"]) as engine:
        yield Place(engine.spark, home)


@pytest.fixture
def indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index also for small tables."""
    monkeypatch.setattr(module, "SMALL", 0)


def random_row(r: random.Random, id: int) -> str:
    def maybe(text: str) -> str:
        return r.choice((text, text, text, "NULL"))

    part, x = r.choice(PARTS), r.choice(DOUBLES)
    n = r.randrange(100)
    values = [
        str(id), "NULL" if part is None else f"'{part}'",
        "NULL" if x is None else f"double('{x}')",
        maybe(f"{n}.{n:02}"), maybe(f"DATE'2024-01-{1 + n % 28:02}'"),
        maybe(f"TIMESTAMP'2024-01-01 00:00:00.{n:06}Z'"),
        maybe(f"TIMESTAMP_NTZ'1969-12-31 23:59:59.{n:06}'"), maybe(f"X'{n:02}'"),
        maybe(f"array('t{n}', NULL, '')"),
        maybe(f"named_struct('a', {n}, 'b', array(named_struct('c', 'c{n}'), NULL))"),
        maybe(f"map('k{n}', {n}.5, 'none', NULL)"), maybe(f"float('{n}.1')"),
    ]  # fmt: skip
    return ", ".join(values)


def normal(value: Any) -> Any:
    """A value that equals itself: NaN is one value, so is zero; as text, so that it is hashable."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def expected(rows: Sequence[Any], key: Sequence[str], values: Sequence[Row]) -> list[str]:
    wanted = {tuple(map(normal, v)) for v in values}
    return sorted(repr(row) for row in rows if tuple(normal(row[k]) for k in key) in wanted)


@dataclass(frozen=True)
class Case:
    """A look-up by some columns, and random keys for it."""

    key: tuple[str, ...]
    types: tuple[str, ...]

    def random_keys(self, r: random.Random) -> list[Row]:
        choices = {"id": range(-2, 42), "part": (*PARTS, "absent"), "x": (*DOUBLES, 9.0)}
        return [
            tuple(r.choice(choices[k]) for k in self.key) for _ in range(r.choice((0, 1, 3, 8)))
        ]


CASES = (
    Case(("id",), ("INT",)),
    Case(("part",), ("STRING",)),
    Case(("x",), ("DOUBLE",)),
    Case(("part", "x"), ("STRING", "DOUBLE")),
)


@pytest.mark.parametrize("small", [0, 20_000], ids=["index", "scan"])
def test_random_histories(place: Place, monkeypatch: pytest.MonkeyPatch, small: int) -> None:
    monkeypatch.setattr(module, "SMALL", small)
    r = seeded()
    lookups = [place.lookup(*case.key) for case in CASES]
    before: int | None = None
    now: int | None = None
    for step in range(8 if small == 0 else 2):
        what = r.random()
        if what < 0.2 and now is not None:
            place.compact()
        elif what < 0.3 and now is not None:
            place.head = place.table.fence(Stamp("p", 1 + step, 1, 0, 0), place.head)[1]
        else:
            ids = r.sample(range(40), r.choice((1, 5, 20)))
            puts = [random_row(r, id) for id in ids]
            deletes = set(r.sample(range(40), r.choice((0, 2)))) - set(ids)
            before, now = now, place.apply(puts, sorted(deletes))
        stored = {s: place.read(s).collect() for s in {place.head, now, before} if s is not None}
        for case, lookup in zip(CASES, lookups, strict=True):
            if r.random() < 0.4:
                continue  # the index has to catch up later
            values = case.random_keys(r)
            keys = place.keys(values, *case.types)
            for snapshot, rows in stored.items():
                found = lookup.rows(keys, snapshot, r.choice((None, len(values), len(values))))
                got = sorted(repr(row) for row in found.collect())
                assert got == expected(rows, case.key, values), (step, case)
                assert (lookup._found[snapshot] is None) == (small > 0)
    assert found.schema == place.session.table("lake.out.t").schema


def test_columns_in_the_order_asked(place: Place, indexed: None) -> None:
    head = place.apply(["1, 'a', double('-0.0')" + ", NULL" * 9, "2, 'a', 5" + ", NULL" * 9])
    lookup = place.lookup("part", columns=("x", "id"))
    rows = lookup.rows(place.keys([("a",), ("a",), (None,)], "STRING"), head, 3)
    assert rows.columns == ["x", "id"]
    found = rows.collect()
    assert sorted(row.id for row in found) == [1, 2]
    assert math.copysign(1, min(found, key=lambda row: row.id).x) == -1, "the value, not its key"
    assert lookup.rows(place.keys([("a",)], "STRING"), None).collect() == []
    untyped = place.session.sql("SELECT NULL")
    assert lookup.rows(untyped, head).collect() == []
    assert place.lookup("id").rows(place.keys([(1.0,)], "DOUBLE"), head).count() == 1, "a scan"


def test_what_cannot_be_indexed_is_scanned(place: Place, indexed: None) -> None:
    rows = [f"{i}, 'a', 5, NULL, NULL, NULL, NULL, NULL, array('t{i}', NULL)" + ", NULL" * 3 for i in (1, 2)]  # fmt: skip
    head = place.apply(rows)
    lookup = place.lookup("tags", columns=("id",))
    keys = place.keys([(["t2", None],), (None,)], "ARRAY<STRING>")
    assert lookup.rows(keys, head).collect() == [(2,)]
    old = head
    for id in (3, 4, 5):
        place.apply([f"{id}" + ", NULL" * 11])
    lookup = place.lookup("id", columns=("id",))
    keys = place.keys([(1,), (5,)], "BIGINT")
    assert lookup.rows(keys, old).collect() == [(1,)], "too old for the index"
    assert lookup._found[old] is None
    assert place.head is not None
    assert sorted(lookup.rows(keys, place.head).collect()) == [(1,), (5,)]


def test_a_snapshot_with_many_keys(place: Place, indexed: None) -> None:
    head = place.fill(50_000)
    keys = place.session.range(0, 100_000, 2).toDF("k").unionAll(place.session.range(10).toDF("k"))
    found = place.lookup("id", columns=("id", "part")).rows(keys, head, 50_010).collect()
    assert len(found) == 25_005
    assert len({row.id for row in found}) == 25_005
    by_part = place.lookup("part", columns=("id",))
    assert by_part.rows(place.keys([("7",)], "STRING"), head, 1).count() == 500


@pytest.mark.parametrize("damage", ["deleted", "truncated", "other bytes"])
def test_a_damaged_run_is_made_again(place: Place, indexed: None, damage: str) -> None:
    head = place.fill(1_000)
    lookup = place.lookup("id", columns=("id", "part"))
    keys = place.keys([(7,)], "BIGINT")
    assert lookup.rows(keys, head, 1).collect() == [(7, "7")]
    (run,) = lookup.index.folder.glob("*.arrow")
    content = run.read_bytes()
    run.unlink()
    if damage == "truncated":
        run.write_bytes(content[:-8])
    elif damage == "other bytes":
        middle = len(content) // 2
        run.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
        with pytest.raises((PySparkException, Py4JJavaError), match=LOST):
            lookup.rows(keys, head, 1).collect()
        assert not run.exists()
    assert lookup.rows(keys, head, 1).collect() == [(7, "7")]


def test_an_index_is_taken_up_again(place: Place, indexed: None, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """By a new process, after others' commits, and also if the snapshot it was made for has been expired."""
    added: list[int] = []
    real = KeyIndex._add

    def add(self: KeyIndex, span: Any, locations: Sequence[str]) -> None:
        if self.carried:
            added.append(len(locations))
        real(self, span, locations)

    monkeypatch.setattr(KeyIndex, "_add", add)
    first = place.fill(1_000)
    keys = place.keys([(7,), (-1,)], "BIGINT")

    def found(snapshot: int) -> Counter[Row]:
        return Counter(map(tuple, place.lookup("id", columns=("id", "part")).rows(keys, snapshot, 2).collect()))  # fmt: skip

    assert found(first) == Counter([(7, "7")])
    assert added == [1]
    assert found(first) == Counter([(7, "7")])
    assert added == [1], "it is there already"
    for n in range(4):
        second = place.apply([f"{i}, 'new{n}'" + ", NULL" * 10 for i in (-1, 7)])
    place.expire()
    assert found(second) == Counter([(7, "new3"), (-1, "new3")])
    assert added in ([1, 2], [1, 1, 1]), "only what is new"


def test_a_frame_outlives_a_commit(place: Place, indexed: None) -> None:
    lookup = place.lookup("id", columns=("id", "part"))
    keys = place.keys([(0,)], "BIGINT")
    frames: list[tuple[int, DataFrame]] = []
    for n in range(9):
        snapshot = place.apply([f"0, 'v{n}'" + ", NULL" * 10, f"{n + 1}" + ", NULL" * 11])
        frames.append((n, lookup.rows(keys, snapshot, 1)))
        for number, frame in frames[-2:]:
            assert frame.collect() == [(0, f"v{number}")]
    assert len(list(lookup.index.folder.glob("*.arrow"))) < 9


def test_two_sets_of_columns_are_two_indexes(place: Place, indexed: None) -> None:
    head = place.fill(10)
    keys = place.keys([(3,)], "BIGINT")
    one, other = place.lookup("id", columns=("id",)), place.lookup("id", columns=("part",))
    assert one.rows(keys, head, 1).collect() == [(3,)]
    assert other.rows(keys, head, 1).collect() == [("3",)]
    assert one.index.folder != other.index.folder
    one.drop(place.table.uuid())
    assert not other.index.folder.exists()
    assert one.rows(keys, head, 1).collect() == [(3,)]
