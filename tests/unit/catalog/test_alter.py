"""ALTER rewrites the stored texts, and nothing else changes; homes of before have what is new."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from icestream.catalog.alter import alter
from icestream.catalog.graph import make_plan
from icestream.catalog.objects import Table
from icestream.catalog.replace import redefined
from icestream.catalog.store import MIGRATIONS
from icestream.config import Home
from icestream.errors import SqlError
from icestream.server.failures import code_of
from icestream.sql import parse
from icestream.sql import statements as st
from tests.unit.catalog.test_catalog import Fixture

OLD = "CREATE TABLE old (id INT PRIMARY KEY, old VARCHAR, at TIMESTAMP, n INT)"


@pytest.fixture
def home(tmp_path: Path) -> Fixture:
    return Fixture(tmp_path / "home", {"SCHEMA": "public", "OLD": "old"})


def change(home: Fixture, text: str) -> str | None:
    (statement,) = parse(text, "a.sql", home.env)
    assert isinstance(statement, st.Alter)
    done = alter(statement, home.catalog)
    if done.catalog is not None:
        home.catalog.become(done.catalog)
    return done.notice


def text(home: Fixture, name: str) -> str:
    return home.again().catalog.stored[name].text


# what stands on old, and how its text goes on when old is called "New"
REWRITTEN = [
    ("SELECT id FROM old", 'SELECT id FROM "New" AS old'),
    ("SELECT old.id, old.old FROM public.old", 'SELECT old.id, old.old FROM public."New" AS old'),
    ("SELECT o.id FROM OLD o", 'SELECT o.id FROM "New" o'),
    ("SELECT o.id FROM old AS o -- old\n", 'SELECT o.id FROM "New" AS o'),
    ("SELECT 'old' AS old, id FROM old", "SELECT 'old' AS old, id FROM \"New\" AS old"),
    ('SELECT "old"."old" FROM "old"', 'SELECT "old"."old" FROM "New" AS old'),
    ("SELECT a.id FROM old a, /* old */ old b", 'SELECT a.id FROM "New" a, /* old */ "New" b'),
    (
        "WITH old AS (SELECT id FROM old WHERE n > 1) SELECT id FROM old",
        'WITH old AS (SELECT id FROM "New" AS old WHERE n > 1) SELECT id FROM old',
    ),
    (
        "SELECT id FROM (SELECT id FROM old) AS old WHERE id IN (SELECT old.n FROM old)",
        'SELECT id FROM (SELECT id FROM "New" AS old) AS old WHERE id IN (SELECT old.n FROM "New" AS old)',
    ),
    (
        "SELECT old.window_start AS w, count(*) AS n FROM TUMBLE(old, old.at, INTERVAL '1' HOUR) GROUP BY old.window_start",
        'SELECT old.window_start AS w, count(*) AS n FROM TUMBLE("New", "New".at, INTERVAL \'1\' HOUR) AS old GROUP BY old.window_start',
    ),
    (
        "SELECT w.id FROM HOP(old, at, INTERVAL '1' HOUR, INTERVAL '2' HOURS) AS w",
        "SELECT w.id FROM HOP(\"New\", at, INTERVAL '1' HOUR, INTERVAL '2' HOURS) AS w",
    ),
    ("SELECT id FROM ${OLD}", 'SELECT id FROM "New" AS old'),
    ("SELECT id FROM other", "SELECT id FROM other"),
    ("SELECT o.id FROM other AS o JOIN old USING (id)", 'SELECT o.id FROM other AS o JOIN "New" AS old USING (id)'),
]  # fmt: skip


@pytest.mark.parametrize(("query", "expected"), REWRITTEN)
def test_what_refers_to_a_renamed_object(home: Fixture, query: str, expected: str) -> None:
    head = "CREATE MATERIALIZED VIEW v AS "
    home.create(OLD, OLD.replace(" old (", " other ("), head + query)
    before = home.catalog.objects["v"]
    change(home, 'ALTER TABLE old RENAME TO "New"')
    assert text(home, "v") == head + expected
    again = home.again().catalog
    assert again.objects["v"].columns == before.columns
    assert again.objects["v"].depends == before.depends
    assert again.objects["New"].key == "old#1"
    assert text(home, "New") == OLD.replace("TABLE old", 'TABLE "New"')


def test_a_temporal_join_and_other_statements_refer_too(home: Fixture) -> None:
    home.create(
        "CREATE SECRET pass WITH (backend = 'meta') AS 'x'",
        "CREATE CONNECTION conn WITH (type = 'iceberg', catalog.type = 'rest', catalog.uri = 'http://h', catalog.token = SECRET pass)",
        OLD,
        "CREATE TABLE facts (id INT) APPEND ONLY",
        "CREATE MATERIALIZED VIEW v AS SELECT f.id, old.n FROM facts f JOIN old FOR SYSTEM_TIME AS OF PROCTIME() ON f.id = old.id",
        "CREATE VIEW w AS SELECT * FROM old",
        "CREATE SINK k FROM old WITH (connector = 'iceberg', type = 'upsert', table.name = 'old', connection = 'conn')",
        "CREATE INDEX i ON old (n)",
    )
    for old, kind in (("old", "TABLE"), ("conn", "CONNECTION"), ("pass", "SECRET"), ("w", "VIEW")):
        change(home, f"ALTER {kind} {old} RENAME TO {old}_2")
    assert "JOIN old_2 FOR SYSTEM_TIME AS OF PROCTIME() AS old ON" in text(home, "v")
    assert text(home, "w_2") == "CREATE VIEW w_2 AS SELECT * FROM old_2 AS old"
    assert "FROM old_2 WITH" in text(home, "k")
    assert "table.name = 'old', connection = 'conn_2'" in text(home, "k")
    assert "ON old_2 (n)" in text(home, "i")
    assert "SECRET pass_2" in text(home, "conn_2")
    again = home.again().catalog
    assert not again.broken()
    assert again.objects["pass_2"].key == "pass#1"


def test_names_are_exchanged(home: Fixture) -> None:
    home.create(
        OLD, "CREATE TABLE t (id INT, x INT)", "CREATE VIEW v AS SELECT old.n, t.x FROM old, t"
    )
    change(home, "ALTER TABLE old SWAP WITH t")
    again = home.again().catalog
    assert {o.name: o.key for o in again} == {"t": "old#1", "old": "t#2", "v": "v#3"}
    assert text(home, "v") == "CREATE VIEW v AS SELECT old.n, t.x FROM t AS old, old AS t"


def test_secrets_move_with_the_name(home: Fixture) -> None:
    source = "CREATE SOURCE s (a INT) WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'b:1', properties.sasl.password = 'sesame') FORMAT PLAIN ENCODE JSON"
    home.create(source)
    change(home, "ALTER SOURCE s RENAME TO r")
    home.create(source.replace("sesame", "other"))
    found = {
        o.name: o.ingest.settings["properties.sasl.password"]  # type: ignore[attr-defined]
        for o in home.again().catalog
    }
    assert found == {"r": "sesame", "s": "other"}
    change(home, "ALTER SOURCE r CONNECTOR WITH (properties.sasl.password = 'third')")
    assert home.again().catalog.objects["r"].ingest.settings["properties.sasl.password"] == "third"  # type: ignore[attr-defined]
    assert "third" not in text(home, "r")
    assert sorted(home.store.secrets().values()) == ["other", "third"]


LISTS = [
    ("(a INT)", "(a INT, b VARCHAR)"),
    ("(a INT,)", "(a INT, b VARCHAR)"),
    ("(a INT -- b\n)", "(a INT, b VARCHAR -- b\n)"),
    ("(a STRUCT<x INT, y INT>, PRIMARY KEY (c), c INT)", None),
    ('("a" NUMERIC(8, 2) DEFAULT (1), c INT)', '("a" NUMERIC(8, 2) DEFAULT (1), c INT, b VARCHAR)'),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "expected"), LISTS)
def test_a_column_is_added_behind_the_others(
    home: Fixture, columns: str, expected: str | None
) -> None:
    home.create(f"CREATE TABLE t {columns}")
    change(home, "ALTER TABLE t ADD COLUMN b VARCHAR;")
    wanted = expected or columns[:-1] + ", b VARCHAR)"
    assert text(home, "t") == f"CREATE TABLE t {wanted}"
    assert home.again().catalog.objects["t"].columns[-1].name == "b"


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("(b INT, a INT)", "(a INT)"),
        ("(a INT PRIMARY KEY, b STRUCT<x INT, y INT>)", "(a INT PRIMARY KEY)"),
        ("(a INT,\n  b INT DEFAULT 3, -- three\n  c INT)", "(a INT,\n  c INT)"),
        ("(a INT, b INT, )", "(a INT, )"),
        ("(a INT, b INT, PRIMARY KEY (a))", "(a INT, PRIMARY KEY (a))"),
    ],
)
def test_a_column_is_dropped(home: Fixture, columns: str, expected: str) -> None:
    home.create(f"CREATE TABLE t {columns}")
    change(home, "ALTER TABLE t DROP COLUMN b")
    assert text(home, "t") == f"CREATE TABLE t {expected}"


def test_what_was_there_before_a_column_does_not_see_it(home: Fixture) -> None:
    home.create(OLD, "CREATE MATERIALIZED VIEW v AS SELECT * FROM old")
    change(home, "ALTER TABLE old ADD COLUMN more INT")
    home.create("CREATE MATERIALIZED VIEW w AS SELECT * FROM old")
    again = home.again().catalog
    assert [c.name for c in again.objects["v"].columns] == ["id", "old", "at", "n"]
    assert [c.name for c in again.objects["w"].columns] == ["id", "old", "at", "n", "more"]
    change(home, "ALTER TABLE old RENAME TO other")
    again = home.again().catalog
    assert [c.name for c in again.objects["v"].columns] == ["id", "old", "at", "n"]


def test_a_view_that_is_replaced_sees_what_there_is_then(home: Fixture) -> None:
    home.create(OLD, "CREATE VIEW v AS SELECT * FROM old")
    change(home, "ALTER TABLE old ADD COLUMN more INT")
    for query in ("SELECT id, more FROM old", "SELECT * FROM old"):
        (statement,) = parse(f"CREATE VIEW v AS {query}", "x.sql", home.env)
        home.catalog.become(redefined(home.catalog.examine(statement), home.catalog))
        home = home.again()
    change(home, "ALTER TABLE old ADD COLUMN later INT")
    columns = [c.name for c in home.again().catalog.objects["v"].columns]
    assert columns == ["id", "old", "at", "n", "more"]


REFUSED = [
    ("ALTER TABLE nothing RENAME TO x", "42P01"),
    ("ALTER TABLE v RENAME TO x", "42809"),
    ("ALTER TABLE old RENAME TO v", "42P07"),
    ("ALTER TABLE old ADD COLUMN n INT", "42701"),
    ("ALTER TABLE old ADD COLUMN x INT NOT NULL", "0A000"),
    ("ALTER TABLE old ADD COLUMN x INT DEFAULT 3", "0A000"),
    ("ALTER TABLE old ADD COLUMN x INT AS n + 1", "0A000"),
    ("ALTER TABLE old DROP COLUMN nothing", "42703"),
    ("ALTER TABLE old DROP COLUMN id", "2BP01"),
    ("ALTER TABLE old DROP COLUMN n", "2BP01"),
    ("ALTER TABLE old DROP COLUMN at", "2BP01"),
    ("ALTER TABLE bag ADD COLUMN b INT[]", "0A000"),
    ("ALTER MATERIALIZED VIEW v ADD COLUMN x INT", "0A000"),
    ("ALTER TABLE old SET SCHEMA other", "0A000"),
    ("ALTER TABLE old SWAP WITH old", "42601"),
    ("ALTER TABLE old SET SOURCE_RATE_LIMIT = 5", "42601"),
    ("ALTER SINK k SET (table.name = 'x')", "42601"),
    ("ALTER SINK k SET (type = 'append-only')", "42601"),
    ("ALTER SINK k SET (commit_checkpoint_interval = 0)", "42601"),
    ("ALTER SINK k SET PARALLELISM = 0", "42601"),
]


@pytest.mark.parametrize(("statement", "code"), REFUSED)
def test_what_cannot_be_is_refused_and_changes_nothing(
    home: Fixture, statement: str, code: str
) -> None:
    home.create(
        OLD,
        "CREATE TABLE bag (a INT)",
        "CREATE MATERIALIZED VIEW v AS SELECT id, n FROM old",
        "CREATE VIEW w AS SELECT * FROM old",
        "CREATE SINK k FROM old WITH (connector = 'iceberg', type = 'upsert', table.name = 'k')",
    )
    before = home.again().catalog.stored
    with pytest.raises(SqlError) as error:
        change(home, statement)
    assert code_of(error.value) == code, error.value
    assert home.again().catalog.stored == before


def test_options_and_settings(home: Fixture) -> None:
    home.create(
        OLD,
        "CREATE SINK k FROM old WITH (connector = 'iceberg', type = 'upsert', table.name = 'k')",
        "CREATE SOURCE s (a INT) WITH (connector = 'datagen')",
    )
    change(home, "ALTER SINK k SET (commit_checkpoint_interval = 5)")
    change(home, "ALTER SINK k SET (commit_checkpoint_interval = 7)")
    assert text(home, "k").endswith("table.name = 'k', commit_checkpoint_interval = '7')")
    assert [t.interval for t in make_plan(home.catalog).tasks] == [0, 7]
    change(home, "ALTER SOURCE s SET SOURCE_RATE_LIMIT = 0")
    change(home, "ALTER TABLE old SET PARALLELISM TO 3")
    change(home, "ALTER SINK k SET PARALLELISM TO ADAPTIVE")
    again = home.again().catalog
    assert again.objects["s"].altered.settings == {"source_rate_limit": "0"}
    assert again.objects["k"].altered.settings == {}
    assert again.definition("old") == f"{OLD};\nALTER TABLE old SET PARALLELISM = 3"
    change(home, "ALTER SOURCE s SET SOURCE_RATE_LIMIT = DEFAULT")
    assert home.again().catalog.objects["s"].altered.settings == {}
    assert change(home, "ALTER TABLE old OWNER TO root")
    assert change(home, "ALTER TABLE old SET BACKFILL_RATE_LIMIT = 5")
    assert change(home, "ALTER TABLE old ADD COLUMN IF NOT EXISTS n INT")
    assert change(home, "ALTER TABLE old DROP COLUMN IF EXISTS nothing")
    assert change(home, "ALTER TABLE old SET SCHEMA public") is None


def test_a_home_of_before_has_what_is_new(tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    home.prepare()
    with sqlite3.connect(home.store) as db:
        db.executescript(f"{MIGRATIONS[0]}; PRAGMA user_version = 1")
        db.execute("INSERT INTO objects VALUES (1, 'table', 'old', ?, 'x.sql:1', 0)", (OLD,))
    fixture = Fixture(home.root)
    assert isinstance(fixture.catalog.objects["old"], Table)
    change(fixture, "ALTER TABLE old RENAME TO other")
    assert fixture.again().catalog.objects["other"].key == "old#1"


def test_a_table_that_sinks_write_into(home: Fixture) -> None:
    home.create(
        OLD,
        "CREATE TABLE all_of (id INT PRIMARY KEY, n INT, spare INT)",
        "CREATE SINK k INTO all_of (id, n) AS SELECT id, n FROM old",
    )
    change(home, "ALTER TABLE all_of RENAME TO everything")
    change(home, "ALTER TABLE old RENAME TO older")
    into = "CREATE SINK k INTO everything (id, n) AS SELECT id, n FROM older AS old"
    assert text(home, "k") == into
    change(home, "ALTER TABLE everything ADD COLUMN more INT")
    change(home, "ALTER TABLE everything DROP COLUMN spare")
    assert text(home, "k") == into
    with pytest.raises(SqlError, match="is needed by sink k"):
        change(home, "ALTER TABLE everything DROP COLUMN n")
    home.create("CREATE SINK j INTO everything AS SELECT id FROM older WHERE n IN (SELECT max(n) FROM older)")  # fmt: skip
    with pytest.raises(SqlError, match="is needed by sink j"):
        change(home, "ALTER TABLE everything DROP COLUMN more")
    change(home, "ALTER SINK j RENAME TO i")
    assert not home.again().catalog.broken()
