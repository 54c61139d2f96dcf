"""Upsert sinks over whatever there is to stand on, and what they refuse."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from icestream.config import EngineSettings, Home
from icestream.engine import Engine
from icestream.errors import IcestreamError, NotSupportedError, SqlError
from icestream.lake.catalogs import Lake
from tests.engine import lake_table
from tests.spark_session import spark  # noqa: F401

pytestmark = pytest.mark.spark

FILES = """WITH (connector = 'file', path = '{input}', match_pattern = '*.json') FORMAT PLAIN ENCODE JSON;"""
SCRIPT = f"""
CREATE TABLE log (id BIGINT, name VARCHAR, n INT) {FILES}
CREATE TABLE state (id BIGINT PRIMARY KEY, name VARCHAR, n INT) {FILES}
CREATE TABLE first (id BIGINT PRIMARY KEY, name VARCHAR, n INT) APPEND ONLY ON CONFLICT DO NOTHING {FILES}
CREATE MATERIALIZED VIEW named AS SELECT id, name, n FROM log WHERE name IS NOT NULL;
"""


def sink(name: str, query: str, more: str, kind: str = "upsert") -> str:
    return f"""CREATE SINK {name} {query} WITH (connector = 'iceberg', type = '{kind}', {more}
      database.name = 'out', table.name = '{name}', create_table_if_not_exists = 'true',
      commit_checkpoint_interval = 1);"""


def rows(home: Path, name: str) -> list[tuple[object, ...]]:
    found = lake_table(home, name).scan().to_arrow().to_pylist()
    return sorted((tuple(r.values()) for r in found), key=repr)


def test_what_a_sink_may_stand_on(tmp_path, spark) -> None:  # noqa: F811
    folder, home = tmp_path / "input", tmp_path / "home"
    folder.mkdir()
    script = SCRIPT.format(input=folder)
    script += sink("of_log", "FROM log", "primary_key = 'id',")
    script += sink("of_view", "FROM named", "primary_key = 'id',")
    script += sink("by_name", "AS SELECT name, n FROM log", "primary_key = 'name',")
    script += sink("of_first", "FROM first", "")
    script += sink("versions", "FROM state", "force_append_only = 'true',", "append-only")
    script += sink("swapped", "AS SELECT n, id FROM state", "primary_key = 'n',")
    epochs = [
        [(1, "a", 1), (2, "b", 2), (2, None, 3), (3, None, 4)],
        [(1, None, 2), (2, "c", 1), (4, "a", 9)],
    ]
    for number, epoch in enumerate(epochs):
        lines = [json.dumps(dict(zip(("id", "name", "n"), row, strict=True))) for row in epoch]
        (folder / f"{number}.json").write_text("\n".join(lines) + "\n")
        with Engine(
            Home.at(home), EngineSettings(), application=spark, allow_paths=["/"]
        ) as engine:
            engine.execute(script)
            engine.run(threading.Event(), once=True)

    last = [(1, None, 2), (2, "c", 1), (3, None, 4), (4, "a", 9)]
    assert rows(home, "public.state") == last
    assert rows(home, "out.of_log") == last, "the last one written wins, in every epoch"
    assert rows(home, "out.of_view") == [(1, "a", 1), (2, "c", 1), (4, "a", 9)]
    assert rows(home, "out.by_name") == [("a", 9), ("b", 2), ("c", 1), (None, 2)], "NULL is a key"
    assert rows(home, "public.first") == [(1, "a", 1), (2, "b", 2), (3, None, 4), (4, "a", 9)]
    assert rows(home, "out.of_first") == rows(home, "public.first")
    assert rows(home, "out.versions") == sorted(
        [(1, "a", 1), (2, None, 3), (3, None, 4), (1, None, 2), (2, "c", 1), (4, "a", 9)], key=repr
    )
    assert rows(home, "out.swapped") == [(1, 2), (2, 1), (4, 3), (9, 4)], "keys that change places"


def test_a_sink_that_does_not_change_writes_nothing(tmp_path, spark) -> None:  # noqa: F811
    """A delete of what is not there, and rows that a filter keeps away, make no commit."""
    folder, home = tmp_path / "input", tmp_path / "home"
    folder.mkdir()
    script = SCRIPT.format(input=folder)
    script += sink("few", "AS SELECT id FROM state WHERE n > 100", "primary_key = 'id',")
    for number in range(2):
        (folder / f"{number}.json").write_text('{"id": 1, "name": "x", "n": 5}\n')
        with Engine(
            Home.at(home), EngineSettings(), application=spark, allow_paths=["/"]
        ) as engine:
            engine.execute(script)
            engine.run(threading.Event(), once=True)
    table = lake_table(home, "out.few")
    assert table.scan().to_arrow().num_rows == 0
    assert all(s.summary.operation.value == "append" for s in table.snapshots()), "only fences"


@pytest.mark.parametrize(
    ("columns", "properties", "error", "message"),
    [
        ("id BIGINT, n INT", "'format-version' = '1'", SqlError, "has format version 1"),
        ("n INT", "'format-version' = '3'", IcestreamError, "no longer has the column 'id'"),
        ("id STRUCT<a: INT>, n INT", "'format-version' = '3'", NotSupportedError, "in a key"),
    ],
)
def test_tables_that_cannot_be_upserted_into(
    tmp_path,
    spark,  # noqa: F811
    columns: str,
    properties: str,
    error: type[Exception],
    message: str,
) -> None:
    folder, home = tmp_path / "input", tmp_path / "home"
    folder.mkdir()
    with Engine(Home.at(home), EngineSettings(), application=spark, allow_paths=["/"]) as engine:
        engine.execute(SCRIPT.format(input=folder))
        engine.open()
        Lake(engine.spark).create_namespace(("lake", "out"))
        engine.spark.sql(
            f"CREATE TABLE lake.out.theirs ({columns}) USING iceberg TBLPROPERTIES ({properties})"
        )
        with pytest.raises(error, match=message):
            engine.execute(sink("theirs", "AS SELECT id, n FROM state", "primary_key = 'id',"))
        assert list(engine.spark.table("lake.out.theirs").columns) == [
            c.split()[0] for c in columns.replace("a: INT", "").split(", ")
        ], "and nothing was changed"


def test_a_required_column_says_so_when_there_is_no_value(tmp_path, spark) -> None:  # noqa: F811
    folder, home = tmp_path / "input", tmp_path / "home"
    folder.mkdir()
    (folder / "0.json").write_text('{"id": 1, "n": 5}\n')
    with Engine(Home.at(home), EngineSettings(), application=spark, allow_paths=["/"]) as engine:
        engine.execute(SCRIPT.format(input=folder))
        engine.open()
        Lake(engine.spark).create_namespace(("lake", "out"))
        engine.spark.sql(
            "CREATE TABLE lake.out.theirs (id BIGINT, name STRING NOT NULL) USING iceberg"
        )
        engine.execute(sink("theirs", "AS SELECT id, name FROM state", "primary_key = 'id',"))
        with pytest.raises(Exception, match=r"column name of lake\.out\.theirs must not be NULL"):
            engine.run(threading.Event(), once=True)
