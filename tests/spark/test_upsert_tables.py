"""Upserts into tables of others: whatever deletes, partitions, doubles and columns they have already.

Each of the deletion-vector traps has its test here: a vector of the wrong partition or spec brings rows back under a
partition filter; the first vector on a file of an upgraded table hides its position deletes; a previous vector that is
forgotten makes the table unreadable; one on a file that was compacted away leaves a double; an expiry takes
another pipeline's stamp; the first commit of an empty table is validated by nobody.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import threading
import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from icestream.config import EngineSettings, Home
from icestream.engine import Engine
from icestream.errors import NotSupportedError
from icestream.lake.catalogs import Lake
from icestream.lake.fold import OFFSET, OP, PARTITION, STREAM, UPSERT, Upsert
from icestream.lake.jvm import Jvm
from icestream.lake.keyed import Changes, KeyedTable
from icestream.lake.stamp import STAMP, Stamp
from icestream.lake.table import HeadMovedError, LakeTable
from icestream.maintenance import policy
from icestream.maintenance.housekeeping import Housekeeper
from tests.engine import duckdb_count, lake, lake_table
from tests.spark_session import spark  # noqa: F401

pytestmark = pytest.mark.spark

Row = tuple[Any, ...]
COLUMNS = ("id", "part", "at", "name", "n")
SCHEMA = "id BIGINT, part STRING, at DATE, name STRING, n INT"
PARTS = ("a", "b", "a/b ü?%", None)


class Stage:
    """A directory of JSON files that a table `t` with a key is made of, and sinks that follow it."""

    def __init__(self, root: Path, application: SparkSession) -> None:
        self.root, self.application = root, application
        self.input = root / "input"
        self.input.mkdir()
        self.files = 0

    @property
    def home(self) -> Path:
        return self.root / "home"

    def engine(self, home: str = "home") -> Engine:
        return Engine(
            Home.at(self.root / home),
            EngineSettings(),
            application=self.application,
            allow_paths=["/"],
        )

    def write(self, rows: Iterable[dict[str, Any]]) -> None:
        file = self.input / f"{self.files:06}.json"
        file.with_suffix(".tmp").write_text("\n".join(map(json.dumps, rows)) + "\n")
        file.with_suffix(".tmp").rename(file)
        self.files += 1

    def source(self, kind: str, name: str, columns: str) -> str:
        return (
            f"CREATE {kind} {name} ({columns}) WITH (connector = 'file', path = '{self.input}', "
            "match_pattern = '*.json') FORMAT PLAIN ENCODE JSON;"
        )


def upsert_sink(name: str, query: str, key: str, more: str = "") -> str:
    return (
        f"CREATE SINK k_{name} AS {query} WITH (connector = 'iceberg', type = 'upsert', primary_key = '{key}', "
        f"database.name = 'out', table.name = '{name}', {more} commit_checkpoint_interval = 1);"
    )


def once(engine: Engine) -> None:
    engine.run(threading.Event(), once=True)


@pytest.fixture
def stage(tmp_path, spark) -> Stage:  # noqa: F811
    return Stage(tmp_path, spark)


# -- tables of others --------------------------------------------------------------------------------


def values(ids: Iterable[int], name: str = "old") -> str:
    """Rows as Spark SQL."""
    parts = ["NULL" if p is None else f"'{p}'" for p in PARTS]
    rows = [f"({i}, {parts[i % 4]}, DATE'2024-01-0{1 + i % 3}', '{name}{i}', {i})" for i in ids]
    return "VALUES " + ", ".join(rows)


@dataclass(frozen=True)
class Other:
    """A table that somebody else made, by statements on `{t}`."""

    created: str
    statements: tuple[str, ...] = ()
    properties: str = ""
    equality: tuple[int, ...] = ()
    """Ids that an equality delete takes away, as Flink writes it."""
    later: str = ""
    """What happens between two epochs."""


MERGE_ON_READ = ", ".join(
    f"'write.{what}.mode' = 'merge-on-read'" for what in ("delete", "update", "merge")
)
WHOLE = (f"INSERT INTO {{t}} {values(range(1, 7))}", f"INSERT INTO {{t}} {values(range(7, 13))}")
DELETED = (
    "DELETE FROM {t} WHERE id IN (2, 8)",
    "MERGE INTO {t} USING (SELECT 3 AS i) s ON id = i WHEN MATCHED THEN UPDATE SET name = 'merged'",
)
TO_V3 = "ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')"
V2, V3 = "'format-version' = '2'", "'format-version' = '3'"

OTHERS = {
    "v2_deletes": Other(SCHEMA, WHOLE + DELETED, V2),
    "v2_partition_deletes": Other(
        f"{SCHEMA} | PARTITIONED BY (part)",
        (*WHOLE, *DELETED, "DELETE FROM {t} WHERE id IN (4, 12)"),
        f"{V2}, 'write.delete.granularity' = 'partition'",
    ),
    "upgraded": Other(
        f"{SCHEMA} | PARTITIONED BY (part)",
        (*WHOLE, *DELETED, "DELETE FROM {t} WHERE id IN (4, 12)", TO_V3),
        f"{V2}, 'write.delete.granularity' = 'partition'",
    ),
    "upgraded_later": Other(SCHEMA, WHOLE + DELETED[:1], V2, later=TO_V3),
    "v3_vectors": Other(SCHEMA, WHOLE + DELETED, V3, later="DELETE FROM {t} WHERE id IN (1, 10)"),
    "bucket_and_day": Other(
        f"{SCHEMA} | PARTITIONED BY (bucket(2, id), days(at))",
        WHOLE,
        V3,
        later="UPDATE {t} SET name = 'theirs' WHERE id IN (1, 10)",
    ),
    "evolved_spec": Other(
        SCHEMA,
        (
            WHOLE[0],
            "DELETE FROM {t} WHERE id = 2",
            "ALTER TABLE {t} ADD PARTITION FIELD part",
            WHOLE[1],
        ),
        V3,
        later="ALTER TABLE {t} REPLACE PARTITION FIELD part WITH days(at)",
    ),
    "doubles": Other(
        f"{SCHEMA} | PARTITIONED BY (part)",
        (WHOLE[0], f"INSERT INTO {{t}} {values((1, 1, 5), 'double')}, (1, 'z', NULL, NULL, 1)"),
        V3,
        later="INSERT INTO {t} VALUES (20, 'a', NULL, 'theirs', 1), (21, 'b', NULL, 'theirs', 1)",
    ),
    "evolved_columns": Other(
        "k INT, gone STRING, part STRING, at DATE, label STRING",
        (
            "INSERT INTO {t} VALUES (1, 'g', 'a', DATE'2024-01-01', 'l1'), (2, 'g', 'b', NULL, 'l2')",
            "ALTER TABLE {t} RENAME COLUMN k TO id",
            "ALTER TABLE {t} RENAME COLUMN label TO name",
            "ALTER TABLE {t} ADD COLUMN n INT",
            "ALTER TABLE {t} DROP COLUMN gone",
            "INSERT INTO {t} VALUES (3, 'b', NULL, 'n3', 3)",
            "ALTER TABLE {t} ADD COLUMN extra STRING",
        ),
        V3,
    ),
    "v2_equality": Other(SCHEMA, WHOLE, V2, equality=(2, 8, 9), later=TO_V3),
}


def create(engine: Engine, name: str, other: Other) -> None:
    columns, _, partitioned = other.created.partition(" | ")
    table = f"lake.out.{name}"
    engine.spark.sql(
        f"CREATE TABLE {table} ({columns}) USING iceberg {partitioned} "
        f"TBLPROPERTIES ({MERGE_ON_READ}, {other.properties})"
    )
    run_all(engine, name, other.statements)
    if other.equality:
        equality_delete(engine.spark, table, other.equality)


def run_all(engine: Engine, name: str, statements: Iterable[str]) -> None:
    for statement in statements:
        engine.spark.sql(statement.format(t=f"lake.out.{name}"))


def equality_delete(session: SparkSession, name: str, ids: Iterable[int]) -> None:
    """Commit an equality delete on `id`, as Flink does."""
    jvm = Jvm(session)
    java = jvm.load(name)
    number = java.schema().findField("id").fieldId()
    path = f"{java.location()}/data/{uuid.uuid4()}-equality.parquet"
    key = pa.field("id", pa.int64(), False, {"PARQUET:field_id": str(number)})
    local = path.removeprefix("file:")
    table = pa.table([pa.array(sorted(ids))], schema=pa.schema([key]))
    pq.write_table(table, f"/{local.lstrip('/')}")
    file = java.io().newInputFile(path)
    fields = session.sparkContext._gateway.new_array(session._jvm.int, 1)
    fields[0] = number
    metrics = jvm.iceberg.parquet.ParquetUtil.fileMetrics(
        file, jvm.iceberg.MetricsConfig.forTable(java)
    )
    builder = jvm.iceberg.FileMetadata.deleteFileBuilder(java.spec()).ofEqualityDeletes(fields)
    builder = builder.withPath(path).withFormat("parquet").withFileSizeInBytes(file.getLength())
    java.newRowDelta().addDeletes(builder.withMetrics(metrics).build()).commit()


# -- the test of all of them -------------------------------------------------------------------------


@dataclass
class Model:
    """What a table of others must hold: rows, a key perhaps several times until it is upserted."""

    rows: list[Row] = field(default_factory=list)

    def replace(self, key: int, row: Row | None) -> None:
        self.rows = [r for r in self.rows if r[0] != key] + ([] if row is None else [row])


class Followed:
    """The table `t`, whose rows with n < 100 the sinks pass on."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.shown: set[int] = set()

    def send(self, rows: Iterable[Row], models: Iterable[Model]) -> None:
        rows = list(rows)
        self.stage.write(
            {c: str(v) if isinstance(v, dt.date) else v for c, v in zip(COLUMNS, row, strict=True)}
            for row in rows
        )
        for model in models:
            for row in rows:
                if row[4] < 100:
                    model.replace(row[0], row)
                elif row[0] in self.shown:
                    model.replace(row[0], None)
        self.shown = (self.shown | {r[0] for r in rows}) - {r[0] for r in rows if r[4] >= 100}


def new(id: int, part: str | None, n: int = 50) -> Row:
    return id, part, dt.date(2024, 1, 1 + id % 5), f"new{id}", n


def rows_of(frame: DataFrame) -> Counter[Row]:
    return Counter(tuple(row) for row in frame.select(*COLUMNS).collect())


def check(engine: Engine, stage: Stage, name: str, model: Model, *, filtered: bool = True) -> None:
    """The table as Spark, PyIceberg and DuckDB read it, as a whole and by partition."""
    expected = Counter(model.rows)
    table = engine.spark.table(f"lake.out.{name}")
    assert rows_of(table) == expected, name
    if filtered:
        part, day = "a/b ü?%", dt.date(2024, 1, 2)
        some = Counter(r for r in model.rows if r[1] == part)
        assert rows_of(table.filter(table.part == part)) == some, (name, part)
        some = Counter(r for r in model.rows if r[2] == day)
        assert rows_of(table.filter(table["at"] == day)) == some, (name, day)
    if name in OTHERS and OTHERS[name].equality:
        return  # others cannot read those
    scanned = lake_table(stage.home, f"out.{name}").scan().to_arrow()
    found = zip(*(scanned[c].to_pylist() for c in COLUMNS), strict=True)
    assert Counter(found) == expected, name
    of_a = lake_table(stage.home, f"out.{name}").scan(row_filter="part == 'a'").to_arrow()
    assert Counter(of_a["id"].to_pylist()) == Counter(r[0] for r in model.rows if r[1] == "a")
    listed = duckdb_count(stage.home, f"out.{name}", 'list((id, part, "at", name, n))')
    assert Counter(map(tuple, listed or [])) == expected, name


def row_ids(engine: Engine, name: str) -> dict[int, int]:
    found = engine.spark.sql(f"SELECT id, _row_id FROM lake.out.{name}").collect()
    ids = [
        row[1] for row in found if row[1] is not None
    ]  # none before the first commit of version 3
    assert len(set(ids)) == len(ids), f"a row id twice in {name}"
    return dict(found)


def kept_ids(engine: Engine, name: str, before: dict[int, int]) -> dict[int, int]:
    """The row ids now; a row that is updated keeps its own."""
    after = row_ids(engine, name)
    known = {i: r for i, r in before.items() if i in after and r is not None}
    assert known == {i: after[i] for i in known}, name
    assert None not in after.values(), name
    return after


def test_tables_of_others_take_upserts(stage: Stage) -> None:
    made = {
        "made_v2": "format_version = '2', partition_by = 'part',",
        "made_v3": "partition_by = 'bucket(3, id), day(at)',",
    }
    followed = Followed(stage)
    with stage.engine() as engine:
        engine.spark.sql("CREATE NAMESPACE lake.out")
        for name, other in OTHERS.items():
            create(engine, name, other)
        models = {
            name: Model(list(rows_of(engine.spark.table(f"lake.out.{name}")).elements()))
            for name in OTHERS
        }
        models |= {name: Model() for name in made}
        assert {r[0] for r in models["v2_equality"].rows} == {1, 3, 4, 5, 6, 7, 10, 11, 12}
        engine.execute(
            stage.source(
                "TABLE", "t", "id BIGINT PRIMARY KEY, part VARCHAR, at DATE, name VARCHAR, n INT"
            )
        )
        query = "SELECT id, part, at, name, n FROM t WHERE n < 100"
        for name in models:
            more = made.get(name, "")
            more += "create_table_if_not_exists = 'true'," if more else ""
            engine.execute(upsert_sink(name, query, "id", more))

        # updates (some move to another partition), revived ids, new ids, doubles that become one
        first = [(1, "b"), (2, "a"), (3, "a"), (4, PARTS[2]), (5, None), (9, "a"), (20, "a")]
        followed.send([new(*row) for row in first], models.values())
        once(engine)
        for name, model in models.items():
            check(engine, stage, name, model)
            assert max(Counter(r[0] for r in model.rows).values()) == 1, name
    with stage.engine() as engine:  # nothing is remembered but what is in the tables
        for name, other in OTHERS.items():
            if other.later:
                run_all(engine, name, [other.later])
                models[name].rows = list(rows_of(engine.spark.table(f"lake.out.{name}")).elements())
        v3 = [n for n in models if lake_table(stage.home, f"out.{n}").format_version == 3]
        assert len(v3) == 9
        lineage = {n: row_ids(engine, n) for n in v3 if n not in ("doubles", "v2_equality")}
        second = [new(1, "a"), new(3, "b"), new(6, "a"), new(7, "b"), new(20, "b"), new(30, None)]
        gone = [new(id, "a", 100) for id in (2, 4, 9, 40)]
        followed.send([*second, *gone], models.values())
        once(engine)
        for name, model in models.items():
            check(engine, stage, name, model, filtered=False)
            assert max(Counter(r[0] for r in model.rows).values()) == 1, name
        lineage = {name: kept_ids(engine, name, before) for name, before in lineage.items()}

        # a delete for a key that is not there commits nothing
        for name in models:
            engine.spark.sql(f"DELETE FROM lake.out.{name} WHERE id = 3")
            models[name].replace(3, None)
        heads = {n: lake_table(stage.home, f"out.{n}").metadata_location for n in models}
        followed.send([new(3, "a", 100)], models.values())
        once(engine)
        assert {n: lake_table(stage.home, f"out.{n}").metadata_location for n in models} == heads

        # and compacted, then upserted again: the files that were known are gone
        third = [
            new(1, "b"),
            new(11, "a"),
            new(20, "a"),
            new(31, "a"),
            new(30, "a"),
            new(6, "a", 100),
        ]
        for name in ("upgraded", "evolved_spec", "v2_equality", "made_v2"):
            engine.spark.sql(
                f"CALL lake.system.rewrite_data_files(table => 'out.{name}', "
                "options => map('rewrite-all', 'true'))"
            )
        followed.send(third, models.values())
        once(engine)
        for name, model in models.items():
            check(engine, stage, name, model)
        for name, before in lineage.items():
            kept_ids(engine, name, before)
        formats = {
            name: set(
                lake_table(stage.home, f"out.{name}")
                .inspect.delete_files()["file_format"]
                .to_pylist()
            )
            for name in models
        }
        assert formats["made_v2"] == {"PARQUET"}
        whole = ("made_v3", "v3_vectors", "bucket_and_day", "evolved_spec", "doubles")
        assert set().union(*(formats[name] for name in whole)) == {"PUFFIN"}


# -- every type of a key -----------------------------------------------------------------------------

MICROS = dt.datetime(2024, 5, 6, 7, 8, 9, 123456)
KEYS: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "b": ("BOOLEAN", pa.bool_(), [True, False]),
    "i": ("INT", pa.int32(), [1, -1, 2**31 - 1]),
    "d": ("NUMERIC(20, 3)", pa.decimal128(20, 3), [Decimal("1.500"), Decimal("-12345678901234.567")]),
    "e": ("NUMERIC(9, 2)", pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-1.50")]),
    "s": ("VARCHAR", pa.string(), ["", "a", "ü🧊"]),
    "y": ("BYTEA", pa.binary(), [b"", b"\x00", b"\x00\xff"]),
    "t": ("TIMESTAMP", pa.timestamp("us"), [MICROS, MICROS.replace(year=1960)]),
    "z": ("TIMESTAMPTZ", pa.timestamp("us", "UTC"), [MICROS.replace(tzinfo=dt.UTC)]),
    "a": ("DATE", pa.date32(), [dt.date(1969, 12, 31), dt.date(2024, 2, 29)]),
    "f": ("DOUBLE PRECISION", pa.float64(), [math.nan, -0.0, 1.5, math.inf]),
    "r": ("REAL", pa.float32(), [0.1, math.nan]),
}  # fmt: skip


def as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity"}[str(value)]
    return value if isinstance(value, bool | int | float | str) else str(value)


def normal(value: Any) -> Any:
    """A value that equals itself; one zero."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def test_every_type_of_a_key(stage: Stage) -> None:
    """The tables are there already, written by PyIceberg; the composite key has a NULL part."""
    columns = ", ".join(f"{name} {type}" for name, (type, _, _) in KEYS.items())
    tables = {name: [name] for name in KEYS} | {"several": ["d", "s", "z", "f"]}
    count = max(len(v) for _, _, v in KEYS.values())
    rows = [{n: v[i % len(v)] for n, (_, _, v) in KEYS.items()} for i in range(count)]
    stage.write(
        {**{n: as_json(v) for n, v in row.items()}, "n": number} for number, row in enumerate(rows)
    )
    with stage.engine() as engine:
        engine.spark.sql("CREATE NAMESPACE lake.out")
        for name, key in tables.items():
            base = pa.table(
                {k: pa.array([row[k] for row in rows], KEYS[k][1]) for k in key}
                | {"n": pa.array([-1] * count, pa.int32())}
            )
            made = lake(stage.home).create_table(f"out.{name}", base.schema)
            if name in "bisty":
                made.append(base)
            else:  # doubles, in several files
                made.append(base)
                made.append(base)
        engine.execute(stage.source("SOURCE", "src", f"{columns}, n INT"))
        for name, key in tables.items():
            engine.execute(
                upsert_sink(name, f"SELECT {', '.join(key)}, n FROM src", ", ".join(key))
            )
        once(engine)
        for name, key in tables.items():
            expected = {tuple(normal(row[k]) for k in key): n for n, row in enumerate(rows)}
            if name == "r":
                float32 = pa.array([row["r"] for row in rows], pa.float32()).to_pylist()
                expected = {(normal(v),): n for n, v in enumerate(float32)}
            scanned = lake_table(stage.home, f"out.{name}").scan().to_arrow().to_pylist()
            found = [(tuple(normal(row[k]) for k in key), row["n"]) for row in scanned]
            assert dict(found) == expected, name
            assert len(found) == len(expected), name


# -- commits that must not happen --------------------------------------------------------------------


def changes_of(session: SparkSession, rows: list[tuple[int, str]]) -> Changes:
    schema = (
        f"id BIGINT, name STRING, {OP} TINYINT, {STREAM} STRING, {PARTITION} INT, {OFFSET} BIGINT"
    )
    frame = session.createDataFrame([(*r, UPSERT, "", 0, i) for i, r in enumerate(rows)], schema)
    return Changes(frame, ("id", "name"), len(rows))


def stamp(epoch: int, pipeline: str = "p") -> Stamp:
    return Stamp(pipeline, 1, 1, epoch, epoch)


@pytest.fixture
def shared(stage: Stage):
    """A table `lake.out.k` and its upserting side."""
    with stage.engine() as engine:
        session = engine.spark
        session.sql("CREATE NAMESPACE lake.out")
        session.sql("CREATE TABLE lake.out.k (id BIGINT, name STRING) TBLPROPERTIES ('format-version' = '3')")  # fmt: skip
        table = LakeTable(Jvm(session), ("lake", "out", "k"), owned=False)
        yield KeyedTable(table, Upsert(("id",)), stage.home / "index")


def test_the_first_commit_of_an_empty_table_is_guarded_too(shared: KeyedTable) -> None:
    """Iceberg validates nothing where there is no snapshot to compare with."""
    session = shared.table.jvm.spark
    staged = shared.stage(changes_of(session, [(1, "ours")]))
    assert staged.base is None
    session.sql("INSERT INTO lake.out.k VALUES (1, 'theirs')")
    with pytest.raises(HeadMovedError):
        shared.commit(staged, stamp(1), None)
    staged = shared.stage(changes_of(session, [(1, "ours")]))
    shared.commit(staged, stamp(1), None)
    assert session.table("lake.out.k").collect() == [(1, "ours")]


def test_a_vector_is_never_put_on_a_file_that_was_compacted_away(shared: KeyedTable) -> None:
    session = shared.table.jvm.spark
    session.sql("INSERT INTO lake.out.k SELECT /*+ COALESCE(1) */ id, 'old' FROM range(1, 3)")
    session.sql("INSERT INTO lake.out.k VALUES (3, 'old')")
    base = shared.table.head().id
    staged = shared.stage(changes_of(session, [(1, "new")]))
    assert staged.marked
    session.sql("CALL lake.system.rewrite_data_files(table => 'out.k', options => map('rewrite-all', 'true'))")  # fmt: skip
    with pytest.raises(HeadMovedError):
        shared.commit(staged, stamp(1), base)
    shared.commit(shared.stage(changes_of(session, [(1, "new")])), stamp(1), base)
    rows = session.table("lake.out.k").orderBy("id").collect()
    assert rows == [(1, "new"), (2, "old"), (3, "old")]


def test_a_file_that_is_not_parquet_is_refused(shared: KeyedTable) -> None:
    session = shared.table.jvm.spark
    session.sql("ALTER TABLE lake.out.k SET TBLPROPERTIES ('write.format.default' = 'avro')")
    session.sql("INSERT INTO lake.out.k VALUES (1, 'old')")
    with pytest.raises(NotSupportedError, match="not Parquet"):
        shared.stage(changes_of(session, [(1, "new")]))


def test_expiry_keeps_the_newest_stamp_of_every_pipeline(
    shared: KeyedTable, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`retain_last = 1` would take away what another pipeline needs to know what it has written."""
    session = shared.table.jvm.spark
    theirs = shared.commit(shared.stage(changes_of(session, [(1, "p")])), stamp(1), None)
    head = theirs
    for epoch in range(1, 4):
        staged = shared.stage(changes_of(session, [(1, f"q{epoch}")]))
        head = shared.commit(staged, stamp(epoch, "q"), head)
    assert [f.first_row_id for f in shared.known.values()] == [3], "what was written is known"
    monkeypatch.setattr(policy, "SLACK", 0)
    keeper = Housekeeper(Lake(session), EngineSettings(), print)
    keeper._expire(shared.table, set(), 1)
    kept = {s.snapshot_id: s.summary[STAMP] for s in lake_table(stage.home, "out.k").snapshots()}
    assert theirs in kept
    assert head in kept
    assert len(kept) < 4
    again = shared.stage(changes_of(session, [(1, "late")]))
    assert shared.commit(again, stamp(1), theirs) != theirs
    assert session.table("lake.out.k").collect() == [(1, "late")]
