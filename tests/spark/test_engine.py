"""The engine in process, on the run's one Spark application: DDL, evolution, restarts, housekeeping."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from icestream.config import EngineSettings, Home
from icestream.engine import Engine
from icestream.errors import IcestreamError, LakeError, SqlError
from icestream.plan.query import bind_query
from icestream.runtime.query import frame_of
from icestream.sql import parse
from icestream.sql.statements import Select
from tests.engine import await_condition, column, lake, lake_table
from tests.spark_session import spark  # noqa: F401

pytestmark = pytest.mark.spark

SOURCE = """CREATE {kind} {name} (id BIGINT NOT NULL, name VARCHAR) WITH (
  connector = 'file', path = '{path}', match_pattern = '*.json') FORMAT PLAIN ENCODE JSON;"""
SINK = """CREATE SINK {name} AS {query} WITH (connector = 'iceberg', type = 'append-only',
  database.name = 'out', table.name = '{table}', create_table_if_not_exists = 'true', {more}
  commit_checkpoint_interval = 1);"""


class Stage:
    """A directory of JSON files, and homes that read it."""

    def __init__(self, root: Path, application) -> None:
        self.root = root
        self.input = root / "input"
        self.input.mkdir()
        self.application = application
        self.notices: list[str] = []
        self.sent = 0

    def engine(self, home: str = "home", **settings: object) -> Engine:
        return Engine(
            Home.at(self.root / home),
            EngineSettings(**settings),
            self.notices.append,
            application=self.application,
            allow_paths=["/"],
        )

    def home(self, name: str = "home") -> Path:
        return self.root / name

    def write(self, count: int = 5, **more: object) -> None:
        rows = [{"id": i, "name": f"n{i}", **more} for i in range(self.sent, self.sent + count)]
        file = self.input / f"{self.sent:06}.json"
        file.with_suffix(".tmp").write_text("\n".join(map(json.dumps, rows)) + "\n")
        file.with_suffix(".tmp").rename(file)
        self.sent += count

    def source(self, name: str = "s", kind: str = "SOURCE") -> str:
        return SOURCE.format(kind=kind, name=name, path=self.input)


def sink(name: str, query: str, table: str | None = None, more: str = "") -> str:
    return SINK.format(name=name, query=query, table=table or name, more=more)


def once(engine: Engine) -> None:
    engine.run(threading.Event(), once=True)


@pytest.fixture
def stage(tmp_path, spark) -> Stage:  # noqa: F811
    return Stage(tmp_path, spark)


def test_objects_are_created_run_restarted_and_dropped(stage: Stage) -> None:
    stage.write()
    script = stage.source() + sink("k", "SELECT id, upper(name) AS name FROM s WHERE id % 2 = 0")
    with stage.engine() as engine:
        engine.execute(script)
        once(engine)
        stage.write()
        once(engine)
    assert sorted(column(stage.home(), "out.k", "id")) == [0, 2, 4, 6, 8]
    with stage.engine() as engine:
        assert [r.message for r in engine.execute(script)] == [
            "source s is unchanged",
            "sink k is unchanged",
        ]
        stage.write()
        once(engine)
        with pytest.raises(SqlError, match="is needed by sink k"):
            engine.execute("DROP SOURCE s")
        engine.execute("DROP SOURCE s CASCADE")
        assert not list(engine.catalog)
    assert sorted(column(stage.home(), "out.k", "id")) == [0, 2, 4, 6, 8, 10, 12, 14]
    assert ("dead_letters", "s") not in lake(stage.home()).list_tables("dead_letters")


def test_a_chain_of_stored_objects(stage: Stage) -> None:
    stage.write()
    with stage.engine() as engine:
        engine.execute(
            stage.source("t", "TABLE")
            + "CREATE MATERIALIZED VIEW m AS SELECT id, name || '!' AS name FROM t WHERE id >= 2;"
            + "CREATE VIEW v AS SELECT id * 10 AS ten FROM m;"
            + sink("k", "SELECT ten FROM v UNION ALL SELECT id FROM t")
        )
        once(engine)
        stage.write()
        once(engine)
        rows = engine.execute("SELECT name FROM m ORDER BY id LIMIT 2")[0].rows
        assert rows == [("n2!",), ("n3!",)]
        (counted,) = engine.execute("SELECT count(*), count(DISTINCT id), max(id) FROM t")[0].rows
        assert counted == (10, 10, 9)
    tens = [i * 10 for i in range(2, 10)]
    assert sorted(column(stage.home(), "out.k", "ten")) == sorted([*tens, *range(10)])


def test_an_object_made_later_begins_at_the_beginning(stage: Stage) -> None:
    stage.write()
    with stage.engine() as engine:
        engine.execute(stage.source() + stage.source("t", "TABLE") + sink("a", "SELECT id FROM s"))
        once(engine)
        engine.execute(sink("b", "SELECT id FROM s") + sink("c", "SELECT id FROM t"))
        stage.write()
        once(engine)
    for name in ("out.a", "out.b", "out.c"):
        assert sorted(column(stage.home(), name, "id")) == list(range(10)), name


def test_a_sink_adds_columns_and_widens_types_but_drops_nothing(stage: Stage) -> None:
    stage.write()
    with stage.engine() as engine:
        engine.execute(stage.source() + sink("k", "SELECT id::int AS id FROM s"))
        once(engine)
        engine.execute(
            "DROP SINK k;" + sink("k", "SELECT id, name FROM s", more="snapshot = 'true',")
        )
        once(engine)
        table = lake_table(stage.home(), "out.k")
        assert {f.name: str(f.field_type) for f in table.schema().fields} == {
            "id": "long",
            "name": "string",
        }
        assert len(column(stage.home(), "out.k", "id")) == 10
        with pytest.raises(SqlError, match="column 'id' is string, but the table has bigint"):
            engine.execute("DROP SINK k;" + sink("k", "SELECT name AS id FROM s"))
        engine.execute(sink("k", "SELECT id, name FROM s"))
        engine.spark.sql("ALTER TABLE lake.out.k DROP COLUMN name")
        stage.write()
        with pytest.raises(LakeError, match="no longer has the column 'name'"):
            once(engine)
        engine.spark.sql("ALTER TABLE lake.out.k ADD COLUMN name string")
        once(engine)
    assert len(column(stage.home(), "out.k", "id")) == 20


def test_a_sink_with_a_longer_interval_lags_and_catches_up(stage: Stage) -> None:
    slow = sink("slow", "SELECT id FROM t").replace("interval = 1)", "interval = 3600)")
    direct = sink("direct", "SELECT id FROM s").replace("interval = 1)", "interval = 3600)")
    with stage.engine() as engine:
        engine.execute(
            stage.source()
            + stage.source("t", "TABLE")
            + slow
            + direct
            + sink("quick", "SELECT id FROM t")
        )
        for _ in range(3):
            stage.write()
            assert engine.pipeline.step() is not None

        def quick_is_there() -> bool:
            engine.pipeline.step()
            return sorted(column(stage.home(), "out.quick", "id")) == list(range(15))

        await_condition(quick_is_there, "a second has passed and the quick sink has everything")
        assert engine.pipeline.step() is None
    for name in ("out.slow", "out.direct"):  # the first commit is at once, the next an hour later
        assert sorted(column(stage.home(), name, "id")) == list(range(5)), name
    with stage.engine() as engine:
        stage.write()
        once(engine)
    for name in ("out.slow", "out.direct", "out.quick", "public.t"):
        assert sorted(column(stage.home(), name, "id")) == list(range(20)), name


def test_what_keeps_a_home_from_opening_can_be_dropped(stage: Stage) -> None:
    stage.write()
    with stage.engine() as engine:
        engine.execute(
            stage.source() + sink("k", "SELECT id FROM s") + sink("other", "SELECT id FROM s")
        )
        once(engine)
        engine.spark.sql("DROP TABLE lake.out.k")
        engine.spark.sql("CREATE TABLE lake.out.k (id BIGINT) USING iceberg")
    with stage.engine() as engine, pytest.raises(LakeError, match="made anew"):
        once(engine)
    with stage.engine() as engine:
        engine.execute("DROP SINK k")
        stage.write()
        once(engine)
    assert sorted(column(stage.home(), "out.other", "id")) == list(range(10))


def test_a_table_that_is_gone_is_said_and_not_waited_for(stage: Stage) -> None:
    stage.write()
    with stage.engine() as engine:
        engine.execute(stage.source() + sink("k", "SELECT id FROM s"))
        once(engine)
        engine.spark.sql("DROP TABLE lake.out.k")
        stage.write()
        with pytest.raises(LakeError, match="is gone"):
            once(engine)


def test_partitions_and_order(stage: Stage) -> None:
    stage.write()
    more = "partition_by = 'bucket(4, id), truncate(1, name)', order_key = 'name desc', format_version = 2,"
    with stage.engine() as engine:
        engine.execute(stage.source() + sink("k", "SELECT * FROM s", more=more))
        once(engine)
    table = lake_table(stage.home(), "out.k")
    assert [str(f.transform) for f in table.spec().fields] == ["bucket[4]", "truncate[1]"]
    assert table.format_version == 2
    assert len(table.sort_order().fields) == 1


def test_a_foreign_commit_on_an_owned_table_stops_the_engine(stage: Stage) -> None:
    stage.write()
    with stage.engine() as engine:
        engine.execute(stage.source("t", "TABLE"))
        once(engine)
        engine.spark.sql("INSERT INTO lake.public.t VALUES (99, 'intruder')")
        stage.write()
        with pytest.raises(LakeError, match="somebody else committed"):
            once(engine)
    assert len(column(stage.home(), "public.t", "id")) == 6


def test_a_foreign_commit_on_a_sinks_table_is_welcome(stage: Stage) -> None:
    stage.write()
    with stage.engine() as engine:
        engine.execute(stage.source() + sink("k", "SELECT id FROM s"))
        once(engine)
        engine.spark.sql("INSERT INTO lake.out.k VALUES (99)")
        stage.write()
        once(engine)
    with stage.engine() as engine:
        engine.spark.sql("INSERT INTO lake.out.k VALUES (100)")
        stage.write()
        once(engine)
    assert sorted(column(stage.home(), "out.k", "id")) == [*range(15), 99, 100]


def test_a_wrong_statement_changes_nothing(stage: Stage) -> None:
    stage.write()
    with stage.engine() as engine:
        with pytest.raises(IcestreamError, match="does not exist"):
            engine.execute(stage.source() + sink("k", "SELECT idd FROM s"))
        assert not list(engine.catalog)
        missing = sink("k", "SELECT id FROM s").replace("'true'", "'false'")
        with pytest.raises(SqlError, match=r"table out\.k does not exist"):
            engine.execute(stage.source() + missing)
        assert not list(engine.catalog)
        engine.execute(stage.source() + sink("k", "SELECT id FROM s"))
        once(engine)
    assert sorted(column(stage.home(), "out.k", "id")) == list(range(5))


def test_metadata_stays_bounded_and_small_files_are_merged(stage: Stage) -> None:
    with stage.engine(retained_snapshots=5, merge_small_files_at=8) as engine:
        engine.execute(stage.source("t", "TABLE") + sink("k", "SELECT id FROM t"))
        for number in range(34):
            stage.write(2)
            once(engine)
            if number == 2:  # a query that takes long
                (select,) = parse("SELECT id FROM t", "", {})
                assert isinstance(select, Select)
                node = bind_query(select.query, engine.catalog.names().relation)
                frame = frame_of(node, engine.catalog, engine.spark)
            if number == 28:
                assert sorted(row.id for row in frame.collect()) == list(range(6))
                del frame
    for name in ("public.t", "out.k", "icestream.epochs"):
        table = lake_table(stage.home(), name)
        assert len(table.snapshots()) <= 5 + 10 + 10, name
        assert len(table.metadata.metadata_log) <= 20, name
    files = lake_table(stage.home(), "public.t").inspect.files()
    assert files.num_rows < 34
    assert sorted(column(stage.home(), "public.t", "id")) == list(range(68))
    assert sorted(column(stage.home(), "out.k", "id")) == list(range(68))
    with stage.engine() as engine:
        stage.write(2)
        once(engine)
    assert sorted(column(stage.home(), "out.k", "id")) == list(range(70))


def test_show_describe_and_explain(stage: Stage) -> None:
    with stage.engine() as engine:
        engine.execute(stage.source() + sink("k", "SELECT id FROM s WHERE id > 3"))
        assert engine.execute("SHOW SOURCES")[0].rows == [("s",)]
        assert engine.execute("SHOW SINKS")[0].rows == [("k",)]
        ((name, text),) = engine.execute("SHOW CREATE SINK k")[0].rows
        assert name == "public.k"
        assert text.startswith("CREATE SINK k AS SELECT id FROM s")
        assert engine.execute("DESCRIBE s")[0].rows[0] == ("id", "bigint", True, False)
        lines = [
            row[0]
            for row in engine.execute(
                "EXPLAIN CREATE SINK x AS SELECT id FROM s WHERE id > 3 WITH (connector = 'blackhole')"
            )[0].rows
        ]
        assert lines[0] == "Sink x: blackhole, delivers nothing"
        engine.execute("SET iceberg_engine_connection = 'public.c'")
        assert engine.execute("SHOW iceberg_engine_connection")[0].rows == [("public.c",)]


def test_values_mean_the_same_everywhere(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        with stage.engine() as engine:
            (row,) = engine.execute(
                "SELECT '2026-01-01 12:00:00+02'::timestamptz, '2026-01-01 12:00:00'::timestamp, '01:02:03'::time, "
                "interval '1 day 02:03:04', 1.50::numeric, 100::numeric, 1.50::numeric(5, 2), NULL::int"
            )[0].rows
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [None if v is None else str(v) for v in row] == [
        "2026-01-01 10:00:00+00:00", "2026-01-01 12:00:00", "01:02:03", "1 day 02:03:04", "1.5", "100", "1.50", None,
    ]  # fmt: skip


def test_files_stay_inside_the_home_and_the_allowed_directories(stage: Stage) -> None:
    outside = stage.root / "outside"
    outside.mkdir()
    (outside / "x.json").write_text('{"id": 1000, "name": "outside"}\n')
    (stage.input / "link.json").symlink_to(outside / "x.json")
    stage.write(3)
    name = '"a b. c$é"'
    before = set(stage.root.iterdir())
    with Engine(
        Home.at(stage.home()), application=stage.application, allow_paths=[stage.input]
    ) as engine:
        engine.execute(stage.source(name, kind="TABLE"))
        once(engine)
        assert engine.execute(f"SELECT count(*), max(id) FROM {name}")[0].rows == [(3, 2)]
        with pytest.raises(IcestreamError, match="--allow-path"):
            engine.execute(
                f"CREATE SINK k FROM {name} WITH (connector = 'iceberg', type = 'append-only', "
                f"catalog.type = 'storage', warehouse.path = '{outside}', table.name = 'k', "
                "create_table_if_not_exists = 'true', force_append_only = 'true')"
            )
    assert set(stage.root.iterdir()) - before <= {stage.home()}
    warehouse = stage.home() / "lake" / "warehouse"
    (table,) = lake(stage.home()).list_tables("public")
    location = urlsplit(lake(stage.home()).load_table(table).location())
    assert Path(location.path).resolve().is_relative_to(warehouse)
