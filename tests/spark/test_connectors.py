"""Sources keep their contract on a real Spark and a real lake: ranges repeat, add up, and survive a restart."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from icestream import types as t
from icestream.config import Home
from icestream.connectors import registry
from icestream.connectors.base import RAW, Context, Source
from icestream.connectors.formats import FieldSpec
from icestream.connectors.formats import registry as formats
from icestream.connectors.formats.csv import CsvDecoder
from icestream.connectors.iceberg import use_catalog
from icestream.connectors.local_sinks import PrintSink
from icestream.errors import ConnectorError, RangeLostError, SqlError
from icestream.lake.access import ALLOWED, home_of
from icestream.lake.catalogs import CatalogSpec, Lake, embedded
from icestream.lake.files import LiveFiles
from icestream.lake.position import Offset
from icestream.lake.table import LakeTable
from icestream.runtime.decode import Counts, Decoding
from icestream.sql.options import Settings, check
from icestream.types import Type
from tests.services.kafka import add_partitions, create_topic, delete_records, delete_topic
from tests.spark.statements import Column, options
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """An embedded lake in a home of its own."""
    home = Home.at(tmp_path_factory.mktemp("home"))
    home.prepare()
    for key, value in embedded(home).spark_conf().items():
        spark.conf.set(key, value)
    return Lake(spark)


_ids = iter(range(1, 1_000))


class Statement:
    """A source as SQL declares it; opened as often as the engine would."""

    def __init__(
        self,
        lake: Lake,
        connector: str,
        columns: Sequence[tuple[str, Type]],
        encode: str | None = None,
        encode_options: dict[str, str] | None = None,
        **with_options: str,
    ) -> None:
        self.lake = lake
        self.connector = registry.source_connector(connector)
        self.columns = tuple(Column(n, type) for n, type in columns)
        self.key = f"s#{next(_ids)}"
        self.settings = self._settings(self.connector.options, with_options)
        self.encode = encode
        self.encode_settings = None
        if encode is not None:
            chosen = formats.lookup("PLAIN", encode)
            self.encode_settings = self._settings(chosen.options, encode_options or {})
        if self.connector.check is not None:
            self.connector.check(self.settings)

    def _settings(self, specs: Any, values: dict[str, str]) -> Settings:
        return check(options(values), specs, what="source s", env={})

    def open(self) -> Source:
        return self.connector.open(
            Context(
                self.lake.spark, self.lake, self.key, "s", self.settings, self.columns,  # type: ignore[arg-type]
                self.encode, self.encode_settings,
            )
        )  # fmt: skip

    def names(self, source: Source) -> list[str]:
        return list(RAW) if source.raw else [c.name for c in self.columns]


def rows(source: Source, start: Offset, end: Offset, columns: Sequence[str]) -> Counter[str]:
    return Counter(str(r) for r in source.read(start, end, columns).collect())


def keeps_contract(statement: Statement, a: Offset, b: Offset, c: Offset) -> None:
    """Repeatable, additive, the same after a restart, and through JSON as the log keeps offsets."""
    first, second = statement.open(), statement.open()
    names = statement.names(first)
    a, b, c = (json.loads(json.dumps(o)) for o in (a, b, c))
    whole = rows(first, a, c, names)
    assert whole == rows(first, a, b, names) + rows(first, b, c, names)
    assert whole == rows(first, a, c, names)
    assert whole == rows(second, a, c, names)
    assert rows(first, c, c, names) == Counter()
    assert second.latest(a) == second.latest(c)
    first.close()
    second.close()


# -- datagen ----------------------------------------------------------------------------------------

EVERYTHING = (
    ("id", t.BIGINT), ("n", t.INTEGER), ("s", t.SMALLINT), ("d", t.DOUBLE), ("r", t.REAL),
    ("m", t.numeric(8, 2)), ("b", t.BOOLEAN), ("v", t.VARCHAR), ("y", t.BYTEA), ("day", t.DATE),
    ("at", t.TIMESTAMPTZ), ("local", t.TIMESTAMP), ("tm", t.TIME),
    ("a", t.array(t.INTEGER)), ("st", t.struct(("x", t.VARCHAR), ("q", t.array(t.DOUBLE)))),
)  # fmt: skip


def datagen(lake: Lake, columns: Sequence[tuple[str, Type]] = EVERYTHING, **more: str) -> Statement:
    return Statement(lake, "datagen", columns, rows="1000", **more)


def test_datagen(lake: Lake) -> None:
    statement = datagen(
        lake,
        **{
            "fields.id.kind": "sequence", "fields.id.start": "5", "fields.id.end": "904",
            "fields.n.min": "-3", "fields.n.max": "3", "fields.v.length": "70",
            "fields.a.length": "2", "fields.a._.max": "1", "fields.at.max_past": "10 min",
            "fields.d.min": "-0.5", "fields.d.max": "0.5", "fields.st.x.length": "4",
        },
    )  # fmt: skip
    source = statement.open()
    start = source.start()
    end = source.latest(start)
    assert source.count(start, end) == 1000
    middle = source.advance(start, end, 400)
    keeps_contract(statement, start, middle, end)
    made = source.read(start, end, statement.names(source)).collect()
    assert [r.id for r in made] == [*range(5, 905), *[None] * 100]
    assert {r.n for r in made} == set(range(-3, 4))
    assert all(-0.5 <= r.d <= 0.5 for r in made)
    assert all(isinstance(r.m, Decimal) and 0 <= r.m <= 1000 for r in made)
    assert {len(r.v) for r in made} == {70}
    assert len({r.v for r in made}) == 1000
    assert {len(r.y) for r in made} == {10}
    assert {len(r.a) for r in made} == {2}
    assert {v for r in made for v in r.a} == {0, 1}
    assert any(r.a[0] != r.a[1] for r in made)
    assert {len(r.st.x) for r in made} == {4}
    base = dt.datetime(2024, 1, 1)
    early, late = base - dt.timedelta(minutes=10), base + dt.timedelta(seconds=100)
    assert all(early <= r["at"] <= late for r in made)


def test_datagen_seeds(lake: Lake) -> None:
    columns = [("a", t.INTEGER), ("b", t.INTEGER)]
    offsets = {"rows": 0, "base": 0}, {"rows": 50, "base": 0}
    one, same, other = (datagen(lake, columns, seed=s).open() for s in ("1", "1", "2"))
    assert rows(one, *offsets, ["a", "b"]) == rows(same, *offsets, ["a", "b"])
    assert rows(one, *offsets, ["a"]) != rows(other, *offsets, ["a"])
    made = one.read(*offsets, ["a", "b"]).collect()
    assert [r.a for r in made] != [r.b for r in made]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("fields.x.kind", "random", "fits no column"),
        ("fields.a.lenght", "3", "fits no column"),
        ("fields.a.kind", "sorted", "random or sequence"),
        ("fields.a.min", "many", "a number"),
        ("fields.a.max", "99999999999", "type's range"),
        ("fields.v.kind", "sequence", "is for numbers"),
    ],
)
def test_datagen_refuses(lake: Lake, option: str, value: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        datagen(lake, [("a", t.INTEGER), ("v", t.VARCHAR)], **{option: value}).open()


# -- files -------------------------------------------------------------------------------------------


def put(path: Path, text: str | bytes, at: int) -> None:
    """Write a file with a modification time, as a careful producer does: under another name first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"_{path.name}")
    draft.write_bytes(text.encode() if isinstance(text, str) else text)
    os.utime(draft, (at, at))
    draft.rename(path)


def json_files(lake: Lake, folder: Path, **more: str) -> Statement:
    return Statement(lake, "file", [("a", t.INTEGER)], "JSON", path=str(folder), **more)


def values(source: Source, start: Offset, end: Offset) -> list[str]:
    frame = source.read(start, end, ["stream", "offset", "value"])
    return [bytes(r.value).decode() for r in sorted(frame.collect())]


def test_json_files(lake: Lake, tmp_path: Path) -> None:
    put(tmp_path / "b.json", '{"a":1}\n\n{"a":2}\r\nbroken', 1_700_000_000)
    put(tmp_path / "deep" / "a.json.gz", gzip.compress(b'{"a":3}\n{"a":4}\n'), 1_700_000_001)
    put(tmp_path / "_later.json", "{}", 1)
    put(tmp_path / "x.json.tmp", "{}", 1)
    put(tmp_path / "x.txt", "{}", 1)
    (tmp_path / "empty.json").touch()
    statement = json_files(lake, tmp_path, match_pattern="*.json{,.gz}")
    source = statement.open()
    start = source.start()
    middle = source.latest(start)
    assert (start, middle) == ({"files": 0}, {"files": 2})
    read = sorted(source.read(start, middle, list(RAW)).collect())
    assert [(Path(r.stream).name, r.offset, bytes(r.value)) for r in read] == [
        ("b.json", 0, b'{"a":1}'),
        ("b.json", 2, b'{"a":2}'),
        ("b.json", 3, b"broken"),
        ("a.json.gz", 0, b'{"a":3}'),
        ("a.json.gz", 1, b'{"a":4}'),
    ]
    assert read[0].partition is None
    assert read[0].timestamp == dt.datetime(2023, 11, 14, 22, 13, 20)
    put(tmp_path / "c.json", '{"a":5}', 1_600_000_000)
    end = source.latest(middle)
    assert end == {"files": 3}
    keeps_contract(statement, start, middle, end)
    restarted = statement.open()
    assert restarted.latest(middle) == end
    assert values(restarted, middle, end) == ['{"a":5}']
    assert source.advance(start, end, 0) == {"files": 1}
    assert source.advance(middle, end, 0) == end
    assert source.advance(start, end, None) == end


def test_two_processes_find_files_at_once(lake: Lake, tmp_path: Path) -> None:
    statement = json_files(lake, tmp_path)
    put(tmp_path / "a.json", "{}", 1)
    one, other = statement.open(), statement.open()
    assert one.latest({"files": 0}) == other.latest({"files": 0}) == {"files": 1}
    put(tmp_path / "b.json", "{}", 2)
    assert one.latest({"files": 0}) == {"files": 2}
    put(tmp_path / "c.json", "{}", 3)
    assert other.latest({"files": 0}) == {"files": 3}
    assert one.latest({"files": 0}) == {"files": 3}
    files = statement.open().read({"files": 0}, {"files": 3}, ["stream"]).collect()
    assert sorted(Path(r.stream).name for r in files) == ["a.json", "b.json", "c.json"]


def test_a_file_that_changes_or_vanishes(lake: Lake, tmp_path: Path) -> None:
    put(tmp_path / "a.json", "{}", 1)
    put(tmp_path / "b.json", "{}", 2)
    statement = json_files(lake, tmp_path)
    source = statement.open()
    end = source.latest({"files": 0})
    (tmp_path / "b.json").write_text('{"a": 1}')
    with pytest.raises(RangeLostError, match=r"b\.json had 2 bytes and has 8 now"):
        source.latest({"files": 1})
    with pytest.raises(RangeLostError, match=r"b\.json"):
        source.read({"files": 0}, end, ["value"])
    assert source.latest(end) == end
    (tmp_path / "a.json").unlink()
    with pytest.raises(RangeLostError, match=r"a\.json is gone"):
        source.latest({"files": 0})
    assert source.latest(end) == end
    assert source.reset({"files": 0}) == {"files": 0}
    assert source.latest({"files": 0}) == end
    assert values(source, {"files": 0}, end) == ['{"a": 1}']
    put(tmp_path / "a.json", '{"a":0}', 3)  # what was skipped may come after all
    restarted = statement.open()
    assert restarted.latest(end) == {"files": 3}
    assert values(restarted, {"files": 0}, {"files": 3}) == ['{"a":0}', '{"a": 1}']


def test_a_ledger_of_an_earlier_version_goes_on(lake: Lake, tmp_path: Path) -> None:
    put(tmp_path / "a.json", "{}", 1)
    statement = json_files(lake, tmp_path)
    source = statement.open()
    end = source.latest(source.start())
    ledger = source.tables()[0]
    lake.spark.sql(f"ALTER TABLE {ledger.sql} DROP COLUMNS (etag, version)")
    put(tmp_path / "b.json", "{}", 2)
    later = statement.open()
    assert later.latest(end) == {"files": 2}
    assert statement.open().latest(end) == {"files": 2}


def test_a_directory_that_is_not_there(lake: Lake, tmp_path: Path) -> None:
    source = json_files(lake, tmp_path / "nowhere").open()
    with pytest.raises(ConnectorError, match="cannot be read"):
        source.latest({"files": 0})


def test_csv_files(lake: Lake, tmp_path: Path) -> None:
    columns = [("id", t.INTEGER), ("name", t.VARCHAR), ("more", t.VARCHAR)]
    put(tmp_path / "a.csv", 'id,name,more\n1,x,\n2,"two\nlines",z\n', 1)
    put(tmp_path / "b.csv", '\ufeffname,extra,ID\n"q,""r",0,3\nbroken,1\n,,4\n', 2)
    statement = Statement(lake, "file", columns, "CSV", {}, path=str(tmp_path))
    source = statement.open()
    end = source.latest({"files": 0})
    keeps_contract(statement, {"files": 0}, {"files": 1}, end)
    decoding = Decoding(CsvDecoder(tuple(FieldSpec(n, of) for n, of in columns), headed=True))
    counts = Counts(lake.spark.sparkContext.accumulator(0), lake.spark.sparkContext.accumulator(0))
    rows = decoding.good(source.read({"files": 0}, end, decoding.raw_columns()), counts)
    assert sorted(map(tuple, rows.collect())) == [
        (1, "x", None),
        (2, "two\nlines", "z"),
        (3, 'q,"r', None),
        (4, None, None),
    ]
    (letter,) = decoding.bad(source.read({"files": 0}, end, list(RAW))).collect()
    assert (letter.offset, bytes(letter.payload)) == (2, b"broken,1")
    assert letter.reason == "2 fields where the header has 3"
    assert counts.bad.value == 1
    plain = Statement(lake, "file", columns, "CSV", {"without_header": "true"}, path=str(tmp_path))
    source = plain.open()
    source.latest({"files": 0})
    assert values(source, {"files": 0}, {"files": 1})[0] == "id,name,more"


def test_parquet_files(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    first = pa.table(
        {
            "ID": pa.array(range(100), pa.int32()),
            "name": pa.array(["x"] * 100).dictionary_encode(),
            "at": pa.array([moment] * 100, pa.timestamp("ns", "UTC")),
            "n": pa.array([Decimal("1.50")] * 100),
            "s": pa.array([{"x": 1, "z": 2}] * 100),
            "l": pa.array([[1, None]] * 100, pa.list_(pa.int16())),
            "j": pa.array(['{"b":1,"a":2}'] * 100),
        }
    )
    pq.write_table(first, tmp_path / "_a")
    (tmp_path / "_a").rename(tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": pa.array([7], pa.int64())}), tmp_path / "b.parquet")
    big = pa.table({"id": pa.array(range(1000), pa.int64())})
    pq.write_table(big, tmp_path / "c.parquet", row_group_size=100)
    columns = [
        ("id", t.BIGINT), ("name", t.VARCHAR), ("at", t.TIMESTAMPTZ), ("n", t.numeric(10, 3)),
        ("s", t.struct(("x", t.BIGINT), ("y", t.VARCHAR))), ("l", t.array(t.BIGINT)), ("j", t.JSONB),
    ]  # fmt: skip
    statement = Statement(lake, "file", columns, "PARQUET", path=str(tmp_path))
    monkeypatch.setattr("icestream.connectors.files.TASK_BYTES", 1500)
    source = statement.open()
    assert not source.raw
    end = source.latest({"files": 0})
    keeps_contract(statement, {"files": 0}, {"files": 2}, end)
    read = source.read({"files": 0}, end, [*statement.names(source), "stream", "offset"]).collect()
    assert sorted(r.id for r in read if r.stream.endswith("c.parquet")) == list(range(1000))
    assert all(r.offset == r.id for r in read if not r.stream.endswith("b.parquet"))
    row = next(r for r in read if r.stream.endswith("a.parquet"))
    assert (row.name, row.n, row.s.asDict(), row.l) == (
        "x", Decimal("1.500"), {"x": 1, "y": None}, [1, None],
    )  # fmt: skip
    assert (row["at"], row.j) == (moment.replace(tzinfo=None), '{"a": 2, "b": 1}')
    lone = next(r for r in read if r.stream.endswith("b.parquet"))
    assert (lone.id, lone.name, lone.s) == (7, None, None)


@pytest.mark.services
def test_s3_files(lake: Lake, aws: Any) -> None:
    bucket = f"b-{uuid.uuid4().hex[:8]}"
    aws.bucket(bucket)
    s3 = aws.client("s3")
    s3.put_object(Bucket=bucket, Key="logs/a.json", Body=b'{"a":1}\n{"a":2}\n')
    s3.put_object(Bucket=bucket, Key="logs/x/b.json.gz", Body=gzip.compress(b'{"a":3}\n'))
    s3.put_object(Bucket=bucket, Key="other/c.json", Body=b'{"a":4}\n')
    statement = Statement(
        lake, "s3_v2", [("a", t.INTEGER)], "JSON",
        **{
            "s3.bucket_name": bucket, "s3.region_name": "us-east-1", "s3.endpoint_url": aws.endpoint,
            "s3.credentials.access": "test", "s3.credentials.secret": "test",
            "match_pattern": "logs/**/*.json*",
        },
    )  # fmt: skip
    source = statement.open()
    start = source.start()
    end = source.latest(start)
    assert end == {"files": 2}
    keeps_contract(statement, start, {"files": 1}, end)
    assert values(source, start, end) == ['{"a":1}', '{"a":2}', '{"a":3}']
    assert source.read(start, end, ["stream"]).collect()[0].stream.startswith("logs/")
    s3.put_object(Bucket=bucket, Key="logs/a.json", Body=b'{"a":1}\n{"a":2}\n')
    assert source.latest(start) == end  # the same content
    s3.put_object(Bucket=bucket, Key="logs/a.json", Body=b'{"a":8}\n{"a":9}\n')
    time.sleep(1 - time.time() % 1)  # S3's times are whole seconds
    s3.put_object(Bucket=bucket, Key="logs/a.json", Body=b'{"a":8}\n{"a":9}\n')
    with pytest.raises(RangeLostError, match=r"logs/a\.json was written again"):
        source.latest(start)
    source.reset(start)
    assert values(source, start, source.latest(start)) == ['{"a":8}', '{"a":9}', '{"a":3}']
    s3.delete_object(Bucket=bucket, Key="logs/a.json")
    with pytest.raises(RangeLostError, match=r"logs/a\.json is gone"):
        source.latest(start)
    wrong = Statement(
        lake, "s3", [("a", t.INTEGER)], "JSON",
        **{"s3.bucket_name": "not-there", "s3.endpoint_url": aws.endpoint,
           "s3.credentials.access": "test", "s3.credentials.secret": "geheim"},
    )  # fmt: skip
    with pytest.raises(ConnectorError, match="cannot be read") as caught:
        wrong.open().latest(start)
    assert "geheim" not in str(caught.value)


# -- Iceberg -----------------------------------------------------------------------------------------


def iceberg_table(lake: Lake) -> str:
    name = f"t_{uuid.uuid4().hex[:8]}"
    lake.create(lake.table("lake", "shop", name, owned=False), [("id", t.BIGINT), ("v", t.VARCHAR)])
    return name


def iceberg(lake: Lake, name: str, **more: str) -> Statement:
    columns = [("ID", t.INTEGER), ("v", t.VARCHAR)]
    return Statement(
        lake, "iceberg", columns, **{"database.name": "shop", "table.name": name, **more}
    )


def test_iceberg_table(lake: Lake) -> None:
    name = iceberg_table(lake)
    statement = iceberg(lake, name)
    source = statement.open()
    start = source.start()
    assert start == {"snapshot": None}
    assert source.latest(start) == start
    sql = lake.spark.sql
    sql(f"INSERT INTO lake.shop.{name} VALUES (1, 'a'), (2, 'b')")
    one = source.latest(start)
    sql(f"INSERT INTO lake.shop.{name} VALUES (3, 'c')")
    two = source.latest(one)
    sql(
        f"CALL lake.system.rewrite_data_files(table => 'shop.{name}', options => map('rewrite-all', 'true'))"
    )
    sql(f"INSERT INTO lake.shop.{name} VALUES (4, 'd'), (5, 'e')")
    three = source.latest(two)
    keeps_contract(statement, start, one, three)
    keeps_contract(statement, one, two, three)
    assert source.count(two, three) == 2
    source.latest(one)
    assert source.count(one, three) == 3
    assert source.advance(one, three, 1) == two
    assert source.advance(two, three, 1) != two
    assert source.advance(one, three, 100) == three
    fresh = statement.open()
    assert fresh.latest(two) == three
    assert rows(fresh, two, three, ["ID", "v"]) == Counter(["Row(ID=4, v='d')", "Row(ID=5, v='e')"])
    latest = iceberg(lake, name, **{"scan.startup.mode": "latest"}).open()
    assert latest.start() == three


def test_iceberg_columns_added_later(lake: Lake) -> None:
    name = iceberg_table(lake)
    lake.spark.sql(f"INSERT INTO lake.shop.{name} VALUES (1, 'a')")
    columns = [("id", t.BIGINT), ("w", t.VARCHAR)]
    statement = Statement(lake, "iceberg", columns, **{"database.name": "shop", "table.name": name})
    source = statement.open()
    one = source.latest(source.start())
    with pytest.raises(ConnectorError, match="has no column 'w'"):
        source.read({"snapshot": None}, one, ["id", "w"])
    lake.spark.sql(f"ALTER TABLE lake.shop.{name} ADD COLUMN w STRING")
    assert rows(source, {"snapshot": None}, one, ["w"]) == Counter(["Row(w=None)"])


def test_iceberg_history_that_is_gone(lake: Lake) -> None:
    name = iceberg_table(lake)
    source = iceberg(lake, name).open()
    lake.spark.sql(f"INSERT INTO lake.shop.{name} VALUES (1, 'a')")
    one = source.latest({"snapshot": None})
    lake.spark.sql(f"INSERT INTO lake.shop.{name} VALUES (2, 'b')")
    lake.spark.sql(
        f"CALL lake.system.expire_snapshots(table => 'shop.{name}', retain_last => 1, "
        "older_than => TIMESTAMP '2100-01-01 00:00:00')"
    )
    with pytest.raises(RangeLostError, match="no longer in the history"):
        source.latest(one)
    with pytest.raises(ConnectorError, match="does not exist"):
        iceberg(lake, "nothing").open().start()


def test_a_foreign_jdbc_catalog_keeps_its_name(lake: Lake, tmp_path: Path) -> None:
    """PyIceberg, under the same catalog name, sees the same tables."""
    from pyiceberg.catalog.sql import SqlCatalog

    given = {
        "catalog.type": "jdbc", "catalog.name": "prod", "warehouse.path": f"file://{tmp_path}/w",
        "catalog.uri": f"jdbc:sqlite:{tmp_path}/c.db",
    }  # fmt: skip
    specs = registry.source_connector("iceberg").options
    settings = check(options({**given, "table.name": "t"}), specs, what="source s", env={})
    assert use_catalog(lake, settings) == "prod"
    lake.create(lake.table("prod", "db", "t", owned=False), [("id", t.BIGINT)])
    lake.spark.sql("INSERT INTO prod.db.t VALUES (1)")
    table = SqlCatalog("prod", uri=f"sqlite:///{tmp_path}/c.db").load_table("db.t")
    assert table.scan().to_arrow()["id"].to_pylist() == [1]
    other = check(
        options({**given, "catalog.uri": f"jdbc:sqlite:{tmp_path}/d.db", "table.name": "t"}),
        specs, what="source s", env={},
    )  # fmt: skip
    with pytest.raises(ConnectorError, match="two different catalogs"):
        use_catalog(lake, other)


@pytest.mark.services
def test_a_glue_catalog_on_s3(lake: Lake, aws: Any) -> None:
    bucket = f"b-{uuid.uuid4().hex[:8]}"
    columns = [("id", t.BIGINT)]
    catalog = {
        "catalog.type": "glue", "warehouse.path": f"{aws.bucket(bucket)}/w", "s3.region": "us-east-1",
        "s3.endpoint": aws.endpoint, "glue.endpoint": aws.endpoint, "s3.path.style.access": "true",
        "s3.access.key": "test", "s3.secret.key": "test", "database.name": "db", "table.name": "t",
    }  # fmt: skip
    statement = Statement(lake, "iceberg", columns, **catalog)
    name = use_catalog(lake, statement.settings)
    lake.create(lake.table(name, "db", "t", owned=False), columns)
    lake.spark.sql(f"INSERT INTO {name}.db.t VALUES (1), (2)")
    source = statement.open()
    end = source.latest(source.start())
    assert rows(source, source.start(), end, ["id"]) == Counter(["Row(id=1)", "Row(id=2)"])


@pytest.mark.services
def test_a_rest_catalog(lake: Lake, rest_catalog: Any) -> None:
    columns = [("id", t.BIGINT)]
    statement = Statement(
        lake, "iceberg", columns,
        **{"catalog.type": "rest", "catalog.uri": rest_catalog.uri, "database.name": "c", "table.name": "t"},
    )  # fmt: skip
    name = use_catalog(lake, statement.settings)
    lake.create(lake.table(name, "c", "t", owned=False), columns)
    lake.spark.sql(f"INSERT INTO {name}.c.t VALUES (1)")
    source = statement.open()
    assert source.count(source.start(), source.latest(source.start())) == 1


# -- landed ------------------------------------------------------------------------------------------


def landed(lake: Lake, columns: Sequence[tuple[str, Type]], **more: str) -> Statement:
    return Statement(lake, "spark", columns, **{"landing.interval": "0", **more})


def test_landed_files(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    put(folder / "a.json", '{"id": 1, "v": "x"}\n{"id": 2, "v": "y"}\n', 1)
    columns = [("id", t.INTEGER), ("v", t.VARCHAR)]
    statement = landed(lake, columns, format="json", **{"option.path": str(folder)})
    source = statement.open()
    start = source.start()
    middle = source.latest(start)
    put(folder / "b.json", '{"id": 3, "v": "z"}\n', 2)
    end = source.latest(middle)
    assert source.latest(end) == end
    keeps_contract(statement, start, middle, end)
    source.latest(middle)
    assert source.count(middle, end) == 1
    restarted = statement.open()
    assert restarted.latest(end) == end
    put(folder / "c.json", '{"id": 4, "v": "w"}\n', 3)
    last = restarted.latest(end)
    assert rows(restarted, end, last, ["id"]) == Counter(["Row(id=4)"])
    assert rows(restarted, start, last, ["id"]) == Counter(f"Row(id={i})" for i in range(1, 5))


def test_landed_files_are_checked_before_each_look(lake: Lake, tmp_path: Path) -> None:
    folder, outside = tmp_path / "in", tmp_path / "outside"
    put(folder / "a.txt", "one\n", 1)
    put(outside / "b.txt", "canary\n", 1)
    lake.spark.conf.set(ALLOWED, json.dumps([str(folder)]))
    try:
        for name, target in (
            ("link", outside),
            ("b.txt", outside / "b.txt"),
            ("h", home_of(lake.spark)),
        ):
            columns = [("value", t.VARCHAR)]
            for pattern in ("", "/*", "/[a-z]*", "/{a.txt,b.txt,link/*,h}"):
                statement = landed(
                    lake, columns, format="text", **{"option.path": f"{folder}{pattern}"}
                )
                source = statement.open()
                start = source.start()
                end = source.latest(start)
                (folder / name).symlink_to(target)
                for again in (source, statement.open()):
                    with pytest.raises(ConnectorError, match="outside the allowed") as refused:
                        again.latest(end)
                    assert refused.value.code == "42501"
                (folder / name).unlink()
                assert rows(source, start, source.latest(end), ["value"]) == Counter(
                    ["Row(value='one')"]
                )
    finally:
        lake.spark.conf.unset(ALLOWED)


def test_a_foreign_table_stays_in_allowed_folders(lake: Lake, tmp_path: Path) -> None:
    """Links below a warehouse, and data files that metadata names elsewhere."""
    warehouse, outside = tmp_path / "w", tmp_path / "outside"
    (warehouse / "db").mkdir(parents=True)
    outside.mkdir()
    spec = CatalogSpec.foreign({"type": "hadoop", "warehouse": str(warehouse)})
    lake.use(spec)
    good = lake.table(spec.name, "db", "good", owned=False)
    lake.create(good, [("id", t.BIGINT)])
    lake.spark.sql(f"INSERT INTO {good.sql} VALUES (1)")
    lake.spark.conf.set(ALLOWED, json.dumps([str(warehouse)]))
    try:
        (warehouse / "link").symlink_to(outside)
        (warehouse / "home").symlink_to(home_of(lake.spark))
        for name in (("link", "t"), ("home", "dml", "t")):
            table = lake.table(spec.name, *name, owned=False)
            for use in (lake.exists, LakeTable.load, lambda x: lake.create(x, [("id", t.BIGINT)])):
                with pytest.raises(SqlError, match=r"allowed|home") as refused:
                    use(table)
                assert refused.value.code == "42501"
        assert not list(outside.iterdir())
        java = good.load()
        snapshot = good.head(java).id
        assert len(LiveFiles(good, java, snapshot)) == 1
        lake.spark.conf.set(ALLOWED, json.dumps([str(warehouse / "db" / "good" / "metadata")]))
        with pytest.raises(SqlError, match=r"the file .*parquet"):
            LiveFiles(good, java, snapshot)
        damaged = next((warehouse / "db" / "good" / "metadata").glob("*2.metadata.json"))
        damaged.write_text("root:canary:0:0:\n")
        (damaged.parent / f".{damaged.name}.crc").unlink(missing_ok=True)
        lake.spark.conf.set(ALLOWED, json.dumps([str(warehouse)]))
        with pytest.raises(ConnectorError, match="not valid JSON") as failed:
            good.load()
        assert "canary" not in str(failed.value)
    finally:
        lake.spark.conf.unset(ALLOWED)


def test_landed_without_its_checkpoint(lake: Lake, tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.txt", "one\ntwo\n", 1)
    statement = landed(
        lake, [("value", t.VARCHAR)], format="text", **{"option.path": str(tmp_path / "in")}
    )
    source: Any = statement.open()
    end = source.latest(source.start())
    assert rows(source, source.start(), end, ["value"]) == Counter(
        ["Row(value='one')", "Row(value='two')"]
    )
    source.checkpoint.rename(tmp_path / "moved")
    with pytest.raises(RangeLostError, match="would copy rows twice"):
        statement.open().latest(end)
    (tmp_path / "moved").rename(source.checkpoint)
    assert statement.open().latest(end) == end


def test_landed_batch_that_was_committed_twice(lake: Lake, tmp_path: Path) -> None:
    """The process died between Iceberg's commit and Spark's own: the batch is run again, without effect."""
    put(tmp_path / "in" / "a.txt", "one\n", 1)
    statement = landed(
        lake, [("value", t.VARCHAR)], format="text", **{"option.path": str(tmp_path / "in")}
    )
    source: Any = statement.open()
    end = source.latest(source.start())
    for entry in (source.checkpoint / "commits").iterdir():
        entry.unlink()
    again = statement.open()
    end = again.latest(end)
    assert rows(again, source.start(), end, ["value"]) == Counter(["Row(value='one')"])


def test_landed_rate(lake: Lake) -> None:
    columns = [("timestamp", t.TIMESTAMPTZ), ("value", t.BIGINT)]
    began = str(int(time.time() - 3) * 1000)  # a batch for each second since
    statement = landed(
        lake,
        columns,
        format="rate-micro-batch",
        **{
            "option.rowsPerBatch": "10",
            "option.startTimestamp": began,
            "option.numPartitions": "1",
        },
    )
    source = statement.open()
    first = source.latest(source.start())
    time.sleep(1.1)
    second = source.latest(first)
    assert second != first
    keeps_contract_of_pushed(source, source.start(), first, second)
    with pytest.raises(SqlError, match="kafkaesque"):
        landed(lake, columns, format="kafkaesque")


def keeps_contract_of_pushed(source: Source, a: Offset, b: Offset, c: Offset) -> None:
    names = ["value"]
    assert rows(source, a, c, names) == rows(source, a, b, names) + rows(source, b, c, names)
    assert rows(source, a, c, names) == rows(source, a, c, names)
    assert len(rows(source, a, c, names)) > 0


# -- sinks -------------------------------------------------------------------------------------------


def sink_context(
    lake: Lake, connector: str, columns: Sequence[tuple[str, Type]], **given: str
) -> Context:
    declared = registry.sink_connector(connector)
    settings = check(options(given), declared.options, what="sink k", env={})
    if declared.check is not None:
        declared.check(settings)
    named = tuple(Column(n, type) for n, type in columns)
    return Context(lake.spark, lake, "k#1", "k", settings, named)  # type: ignore[arg-type]


def test_print(lake: Lake) -> None:
    lines: list[str] = []
    sink = PrintSink(sink_context(lake, "print", [], rows="2"), lines.append)
    frame = lake.spark.sql("SELECT id, X'00ff' AS b, NULL AS n FROM range(5)")
    assert sink.write(frame, 7) == 5
    assert lines == [
        'k | {"id": 0, "b": "\\\\x00ff", "n": null}',
        'k | {"id": 1, "b": "\\\\x00ff", "n": null}',
        "k | … 3 more in epoch 7",
    ]


def test_blackhole(lake: Lake) -> None:
    connector = registry.sink_connector("blackhole")
    assert connector.open is not None
    sink = connector.open(sink_context(lake, "blackhole", []))
    seen = lake.spark.sparkContext.accumulator(0)

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            seen.add(len(batch))
            yield batch

    sink.write(lake.spark.range(1234).mapInArrow(count, "id BIGINT"), 1)
    assert seen.value == 1234


SINK_ROW: list[tuple[str, Type, str, Any]] = [
    ("i", t.BIGINT, "9007199254740993L", 9007199254740993),
    ("n", t.numeric(28, 10), "CAST(0 AS DECIMAL(28,10))", "0.0000000000"),
    ("d", t.DOUBLE, "0.5D", 0.5),
    ("v", t.VARCHAR, "'a \"q\" é'", 'a "q" é'),
    ("y", t.BYTEA, "X'00ff'", "AP8="),
    ("at", t.TIMESTAMPTZ, "TIMESTAMP '2024-02-29 12:00:00.5'", "2024-02-29T12:00:00.500000Z"),
    ("tl", t.TIMESTAMP, "TIMESTAMP_NTZ '2024-02-29 12:00:00'", "2024-02-29T12:00:00.000000"),
    ("dy", t.DATE, "DATE '2024-02-29'", "2024-02-29"),
    ("tm", t.TIME, "45296500000L", "12:34:56.500000"),
    ("iv", t.INTERVAL, "named_struct('months', 1, 'days', 2, 'microseconds', 3500000L)", "P1M2DT3.500000S"),
    ("b", t.BOOLEAN, "true", True),
    ("nothing", t.VARCHAR, "CAST(NULL AS STRING)", None),
    ("j", t.JSONB, "'{\"a\": [1.50, null], \"b\": \"x\"}'", {"a": [1.5, None], "b": "x"}),
    ("jn", t.JSONB, "CAST(NULL AS STRING)", None),
    ("a", t.array(t.numeric(4, 1)), "array(CAST(1.5 AS DECIMAL(4,1)), NULL)", ["1.5", None]),
    ("st", t.struct(("x", t.TIMESTAMPTZ), ("j", t.JSONB)),
     "named_struct('x', TIMESTAMP '2024-01-01 00:00:00', 'j', '{\"k\": 1}')",
     {"x": "2024-01-01T00:00:00.000000Z", "j": {"k": 1}}),
    ("sn", t.struct(("x", t.TIMESTAMPTZ)), "CAST(NULL AS STRUCT<x: TIMESTAMP>)", None),
    ("m", t.map_of(t.VARCHAR, t.numeric(3, 1)), "map('k', CAST(1.5 AS DECIMAL(3,1)))", {"k": "1.5"}),
]  # fmt: skip


def test_json_that_is_written(lake: Lake) -> None:
    from icestream.connectors.formats.json_out import encode

    frame = lake.spark.sql("SELECT " + ", ".join(f"{sql} AS `{n}`" for n, _, sql, _ in SINK_ROW))
    text = frame.select(encode([(n, type) for n, type, _, _ in SINK_ROW])).collect()[0][0]
    assert json.loads(text) == {n: expected for n, _, _, expected in SINK_ROW}
    assert "1.50" in text  # jsonb goes out as it is
    only = frame.select(encode([("j", t.JSONB), ("jn", t.JSONB)])).collect()[0][0]
    assert json.loads(only) == {"j": {"a": [1.5, None], "b": "x"}, "jn": None}


@pytest.mark.services
def test_kafka_sink(lake: Lake, kafka: Any, topic: Callable[..., str]) -> None:
    from tests.services.kafka import consume

    name = topic(partitions=2)
    columns = [("id", t.BIGINT), ("v", t.VARCHAR)]
    connector = registry.sink_connector("kafka")
    assert connector.open is not None
    given = {"properties.bootstrap.server": kafka.bootstrap, "topic": name}
    sink = connector.open(sink_context(lake, "kafka", columns, primary_key="id", **given))
    frame = lake.spark.sql("SELECT id, concat('v', id) AS v FROM range(100)")
    sink.write(frame, 1)
    records = consume(kafka.bootstrap, name)
    assert {json.loads(key)["id"] for _, _, key, _ in records if key} == set(range(100))
    assert sorted(json.loads(value)["v"] for _, _, _, value in records if value) == sorted(
        f"v{i}" for i in range(100)
    )
    plain = connector.open(sink_context(lake, "kafka", columns, **given))
    plain.write(frame.limit(1), 2)
    assert sum(key is None for _, _, key, _ in consume(kafka.bootstrap, name)) == 1


# -- Kafka positions ---------------------------------------------------------------------------------


def kafka_source(lake: Lake, kafka: Any, topic: str, **more: str) -> Statement:
    given = {"topic": topic, "properties.bootstrap.server": kafka.bootstrap, **more}
    return Statement(lake, "kafka", [("a", t.INTEGER)], "JSON", **given)


@pytest.mark.services
def test_a_kafka_topic_that_is_made_anew(
    lake: Lake, kafka: Any, topic: Callable[..., str], produce: Callable[..., int]
) -> None:
    name = topic()
    statement = kafka_source(lake, kafka, name)
    source = statement.open()
    start = source.start()
    produce(name, [(None, "old")] * 3)
    end = source.latest(start)
    assert values(statement.open(), start, end) == ["old"] * 3
    delete_topic(kafka.bootstrap, name)
    with pytest.raises(ConnectorError, match="does not exist"):
        source.latest(end)
    create_topic(kafka.bootstrap, name)
    produce(name, [(None, f"new {n}") for n in range(5)])
    with pytest.raises(RangeLostError, match=f"topic {name} was deleted and created again"):
        statement.open().latest(end)
    # a replay of a recorded range, whose offsets the new topic has too
    with pytest.raises(RangeLostError, match=f"topic {name} was deleted and created again"):
        statement.open().read(start, end, ["value"])
    again = source.reset(end)
    assert values(source, again, source.latest(again)) == [f"new {n}" for n in range(5)]


@pytest.mark.services
def test_a_kafka_partition_that_is_added_after_its_first_records_are_gone(
    lake: Lake, kafka: Any, topic: Callable[..., str], produce: Callable[..., int]
) -> None:
    name = topic()
    statement = kafka_source(lake, kafka, name)
    source = statement.open()
    start = source.start()
    add_partitions(kafka.bootstrap, name, 2)
    produce(name, [(None, f"v{n}") for n in range(5)], partition=1)
    delete_records(kafka.bootstrap, name, 1, before=2)
    end = source.latest(start)
    assert source.count(start, end) == 3
    assert values(source, start, end) == ["v2", "v3", "v4"]
    produce(name, [(None, "v5")], partition=1)
    delete_records(kafka.bootstrap, name, 1, before=4)
    with pytest.raises(Exception, match=r"(?i)offset|data loss|lost"):
        values(source, start, end)  # never fewer rows than the first time
    assert values(source, end, source.latest(end)) == ["v5"]
    keeps_contract(statement, source.reset(end), end, source.latest(end))
