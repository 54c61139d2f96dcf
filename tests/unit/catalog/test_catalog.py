"""Statements become objects; the store keeps their texts and no secret."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from icestream.catalog.catalog import Catalog
from icestream.catalog.graph import make_plan
from icestream.catalog.store import Store
from icestream.config import Home
from icestream.errors import ConfigError, FencedError, IcestreamError, NotSupportedError, SqlError
from icestream.sql import parse
from icestream.sql import statements as st

SOURCE = """CREATE SOURCE s (id BIGINT, name VARCHAR, doubled BIGINT AS id * 2) INCLUDE offset AS o
  WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'localhost:1') FORMAT PLAIN ENCODE JSON"""
SINK = """CREATE SINK k AS SELECT id, o FROM s WHERE id > 5
  WITH (connector = 'iceberg', type = 'append-only', table.name = 'k')"""

KAFKA_SINK = "CREATE SINK k FROM s WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'b:1')"


class Fixture:
    def __init__(self, root: Path, env: dict[str, str] | None = None) -> None:
        self.home = Home.at(root)
        self.env = env or {}
        self.store = Store(self.home)
        self.catalog = Catalog(self.store, self.env)
        self.catalog.load()

    def create(self, *texts: str) -> None:
        for text in texts:
            (statement,) = parse(text, "x.sql", self.env)
            change = self.catalog.examine(statement)
            assert not change.exists
            self.catalog.learn(change)
            self.catalog.keep([change.object.name])

    def again(self) -> Fixture:
        return Fixture(self.home.root, self.env)


@pytest.fixture
def home(tmp_path: Path) -> Fixture:
    return Fixture(tmp_path / "home")


def test_objects_come_back_as_they_were(home: Fixture) -> None:
    home.create(SOURCE, SINK)
    again = home.again()
    assert [o.key for o in again.catalog] == ["s#1", "k#2"]
    assert [c.name for c in again.catalog.objects["s"].columns] == ["id", "name", "doubled", "o"]
    assert [c.name for c in again.catalog.objects["k"].columns] == ["id", "o"]
    assert again.catalog.objects["k"].depends == ("s#1",)


def test_the_same_statement_again_changes_nothing(home: Fixture) -> None:
    home.create(SOURCE)
    (same,) = parse(SOURCE.lower().replace("\n", " ") + " -- again", "y.sql")
    change = home.catalog.examine(same)
    assert change.exists
    assert not change.difference


def test_a_changed_statement_says_what_differs(home: Fixture) -> None:
    home.create(SOURCE)
    (other,) = parse(SOURCE.replace("topic = 't'", "topic = 'u'"), "y.sql")
    difference = home.catalog.examine(other).difference
    assert any(line.startswith("-") and "topic = 't'" in line for line in difference)
    assert any(line.startswith("+") and "topic = 'u'" in line for line in difference)


def test_secrets_are_in_no_file_but_their_own(home: Fixture) -> None:
    home.env["PASSWORD"] = "from-the-environment"
    home.create(
        "CREATE SECRET pw WITH (backend = 'meta') AS 'hunter22'",
        SOURCE.replace(
            "topic = 't'",
            "topic = 't', properties.security.protocol = 'SASL_SSL', properties.sasl.mechanism = 'PLAIN', "
            "properties.sasl.username = 'me', properties.sasl.password = SECRET pw",
        ),
        SOURCE.replace("SOURCE s", "SOURCE plain").replace(
            "topic = 't'",
            "topic = 't', properties.security.protocol = 'SASL_SSL', properties.sasl.mechanism = 'PLAIN', "
            "properties.sasl.username = 'me', properties.sasl.password = 'swordfish'",
        ),
        SOURCE.replace("SOURCE s", "SOURCE env").replace(
            "topic = 't'",
            "topic = 't', properties.security.protocol = 'SASL_SSL', properties.sasl.mechanism = 'PLAIN', "
            "properties.sasl.username = 'me', properties.sasl.password = '${PASSWORD}'",
        ),
    )
    values = ("hunter22", "swordfish", "from-the-environment")
    home.store.close()
    for path in home.home.root.rglob("*"):
        if path.is_file() and path != home.home.secrets:
            content = path.read_bytes()
            assert not [v for v in values if v.encode() in content], path
    assert stat.S_IMODE(os.stat(home.home.secrets).st_mode) == 0o600
    again = home.again().catalog
    for name, value in zip(("s", "plain", "env"), values, strict=True):
        assert again.objects[name].ingest.settings["properties.sasl.password"] == value
        shown = again.definition(name) + repr(again.objects[name])
        assert not [v for v in values if v in shown]


def test_dropping_follows_dependents(home: Fixture) -> None:
    home.create(SOURCE, SINK)
    assert [o.name for o in home.catalog.dependents(home.catalog.objects["s"])] == ["k"]
    home.catalog.drop(["s", "k"])
    assert not list(home.again().catalog)


def test_a_plain_view_is_needed_by_what_reads_it(home: Fixture) -> None:
    home.create(
        SOURCE,
        "CREATE VIEW v AS SELECT id, o FROM s WHERE id > 5",
        "CREATE VIEW w AS SELECT * FROM v WHERE id IN (SELECT id FROM v)",
        "CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM w",
        "CREATE SINK k FROM v WITH (connector = 'iceberg', type = 'append-only', table.name = 'k')",
    )
    catalog = home.again().catalog
    needed = {o.name: [d.name for d in catalog.dependents(o)] for o in catalog}
    assert needed == {"s": ["v", "w", "m", "k"], "v": ["w", "m", "k"], "w": ["m"], "m": [], "k": []}


def test_ids_are_never_used_twice(home: Fixture) -> None:
    home.create(SOURCE)
    home.catalog.drop(["s"])
    home.again().create(SOURCE)
    assert [o.key for o in home.again().catalog] == ["s#2"]


def test_a_fenced_process_changes_nothing(home: Fixture) -> None:
    home.store.take(7)
    with pytest.raises(FencedError):
        home.create(SOURCE)
    assert not list(home.again().catalog)


def test_reading_makes_no_home(home: Fixture) -> None:
    (statement,) = parse(SOURCE, "x.sql")
    home.catalog.learn(home.catalog.examine(statement))
    assert not home.home.root.exists()
    home.store.set("timezone", "UTC")
    assert home.again().store.settings() == {"timezone": "UTC"}


def test_a_home_that_another_process_made_meanwhile(home: Fixture) -> None:
    other = home.again()
    other.create(SOURCE)
    with pytest.raises(ConfigError, match="another process"):
        home.create(SOURCE)


def test_a_newer_store_is_refused(home: Fixture) -> None:
    home.store.make()
    home.store.db.execute("PRAGMA user_version = 99")
    with pytest.raises(ConfigError, match="newer icestream"):
        home.again()


def test_a_broken_store_is_one_clear_error(tmp_path: Path) -> None:
    root = tmp_path / "home"
    Home.at(root).prepare()
    Home.at(root).store.write_bytes(b"not a database, by far not" * 100)
    with pytest.raises(ConfigError, match="cannot be opened"):
        Fixture(root)
    assert sqlite3.sqlite_version


def test_the_graph_of_a_home(home: Fixture) -> None:
    home.create(
        SOURCE,
        SINK,
        "CREATE VIEW v AS SELECT id, name FROM s WHERE name <> ''",
        SOURCE.replace("SOURCE s", "TABLE t"),
        "CREATE MATERIALIZED VIEW m AS SELECT id FROM v UNION ALL SELECT id FROM t",
        "CREATE SINK last FROM m WITH (connector = 'blackhole')",
    )
    plan = make_plan(home.catalog)
    assert [f.object.name for f in plan.feeds] == ["s", "t"]
    tasks = {t.object.name: (t.level, t.feeds, t.tables) for t in plan.tasks}
    assert tasks["k"] == (0, ("s#1",), ())
    assert tasks["t"] == (0, ("t#4",), ())
    assert tasks["m"] == (1, ("s#1",), ("t#4",))
    assert tasks["last"] == (2, (), ("m#5",))
    assert {t.object.name: t.interval for t in plan.tasks}["k"] == 60


BROKER = SOURCE.replace("localhost:1", "${BROKER}")


def test_an_unset_variable_breaks_one_object_and_what_stands_on_it(home: Fixture) -> None:
    home.env["BROKER"] = "b:1"
    home.create(
        BROKER,
        SINK,
        SOURCE.replace("SOURCE s", "SOURCE other"),
        "CREATE VIEW v AS WITH other AS (SELECT id FROM s) SELECT id FROM other",
        "CREATE VIEW w AS SELECT id FROM other",
    )
    del home.env["BROKER"]
    catalog = home.again().catalog
    assert [(o.kind, o.name) for o in catalog.broken()] == [
        ("source", "s"), ("sink", "k"), ("view", "v"),
    ]  # fmt: skip
    assert [o.key for o in catalog] == ["s#1", "k#2", "other#3", "v#4", "w#5"]
    assert [o.name for o in catalog.dependents(catalog.objects["s"])] == ["k", "v"]
    assert "${BROKER}" in catalog.definition("s")
    for need in (
        catalog.check_whole,
        lambda: catalog.names().find(st.Name("v")),
        lambda: catalog.examine(parse("CREATE VIEW x AS SELECT id FROM s", "y.sql", {})[0]),
    ):
        with pytest.raises(ConfigError, match=r"source s .* variable BROKER is not set"):
            need()
    catalog.drop(["s", "k", "v"])
    assert not home.again().catalog.broken()


def test_a_text_that_no_longer_parses_is_broken_too(home: Fixture) -> None:
    home.create(SOURCE)
    home.store.db.execute("UPDATE objects SET text = 'CREATE SORUCE s'")
    (broken,) = home.again().catalog.broken()
    assert (broken.kind, broken.name, broken.depends) == ("source", "s", ())
    assert broken.error.remedy


@pytest.mark.parametrize("options", ["", " (force_append_only = true)", " KEY ENCODE JSON"])
def test_a_kafka_sink_writes_json(home: Fixture, options: str) -> None:
    home.create(SOURCE, f"{KAFKA_SINK} FORMAT PLAIN ENCODE JSON{options}")


LATER = {
    "CREATE TABLE t (id INT PRIMARY KEY) FROM s TABLE 'x.y' ENGINE = iceberg": "CREATE TABLE … FROM source",
    "CREATE MATERIALIZED VIEW m AS SELECT id, now() AS t FROM s": "now()",
    "CREATE MATERIALIZED VIEW m AS SELECT id, now() AS t FROM s WHERE to_timestamp(id) < now()": "now()",
    "CREATE MATERIALIZED VIEW m AS SELECT a.id FROM s AS a LEFT JOIN s AS b ON a.id = b.id AND to_timestamp(a.id) < now() WHERE to_timestamp(a.id) < now()": "now()",
    "CREATE SOURCE p WITH (connector = 'postgres-cdc', hostname = 'h')": "postgres-cdc",
    f"{KAFKA_SINK} FORMAT UPSERT ENCODE AVRO (schema.registry = 'http://r') KEY ENCODE TEXT": "FORMAT UPSERT ENCODE AVRO of a kafka sink",
    f"{KAFKA_SINK} FORMAT PLAIN ENCODE JSON KEY ENCODE TEXT": "KEY ENCODE TEXT",
    SOURCE.replace("SOURCE s", "SOURCE x").replace(
        "topic = 't'", "topic = 't', properties.ssl.ca.location = SECRET pem AS FILE"
    ): "SECRET pem AS FILE",
    "CREATE SECRET x WITH (backend = 'hashicorp_vault', addr = 'a') AS ''": "hashicorp_vault",
}


@pytest.mark.parametrize("text", LATER, ids=LATER.get)
def test_what_comes_later_says_so(home: Fixture, text: str) -> None:
    home.create(SOURCE, "CREATE SECRET pem AS 'x'")
    with pytest.raises(NotSupportedError) as caught:
        home.create(text)
    assert LATER[text].lower() in str(caught.value).lower()
    assert str(caught.value).startswith("x.sql:")
    assert "not supported yet" in str(caught.value)


DATAGEN = "CREATE SOURCE x (id BIGINT, at TIMESTAMP) WITH (connector = 'datagen', "
ICEBERG = (
    "CREATE SINK k AS SELECT id, name FROM s WITH (connector = 'iceberg', type = 'append-only', "
    "table.name = 'k', create_table_if_not_exists = true, "
)

WRONG = {
    "CREATE MATERIALIZED VIEW m AS SELECT id FROM s EMIT ON WINDOW CLOSE": "no column says when a row is final",
    "CREATE SINK k AS SELECT id FROM s EMIT ON WINDOW CLOSE WITH (connector = 'blackhole')": "no column says when a row is final",
    f"{DATAGEN} fields.idd.min = 1)": "fields.idd.min fits no column",
    f"{DATAGEN} fields.at.max_past = 'long')": "fields.at.max_past accepts a duration",
    f"{DATAGEN} fields.id.kind = 'sequnce')": "accepts random or sequence",
    "CREATE SOURCE x (id JSONB) WITH (connector = 'datagen')": "datagen for id, which is jsonb",
    f"{ICEBERG} partition_by = 'day(nam)')": "partition_by: there is no column 'nam'",
    f"{ICEBERG} partition_by = 'day(name)')": "day does not take name, which is varchar",
    f"{ICEBERG} order_key = 'idd desc')": "did you mean 'id'",
    KAFKA_SINK.replace("topic", "primary_key = 'idd', topic"): "did you mean 'id'",
    "CREATE SOURCE x (id INT) WITH (connector = 'kafka', properties.bootstrap.server = 'b:1') FORMAT PLAIN ENCODE JSON": "needs the option topic",
    f"{KAFKA_SINK} FORMAT PLAIN ENCODE CSV": "a kafka sink does not write FORMAT PLAIN ENCODE CSV",
    f"{KAFKA_SINK} FORMAT PLAIN ENCODE JSON (force_apend_only = true)": "did you mean 'force_append_only'",
    "CREATE SINK k FROM s WITH (connector = 'blackhole') FORMAT PLAIN ENCODE JSON": "blackhole takes no FORMAT",
    f"{SOURCE.replace('SOURCE s', 'SOURCE x')} KEY ENCODE JSON": "KEY ENCODE is for sinks",
    "CREATE SECRET x WITH (backend = 'mta') AS ''": "did you mean 'meta'",
    "CREATE SECRET x WITH (bakend = 'meta') AS ''": "did you mean 'backend'",
    "CREATE SINK k FROM t WITH (connector = 'blackhole')": 'relation "t" does not exist',
    "CREATE SINK k FROM s WITH (connector = 'icberg')": "did you mean 'iceberg'",
    "CREATE SINK k FROM s WITH (connector = 'iceberg', type = 'append-only', tabel.name = 'k')": "did you mean 'table.name'",
    "CREATE SINK k AS SELECT idd FROM s WITH (connector = 'blackhole')": "did you mean 'id'",
    "CREATE SINK k AS SELECT id, id FROM s WITH (connector = 'blackhole')": "is there twice",
    "CREATE SINK k FROM s WITH (type = 'append-only')": "needs the option connector",
    "CREATE SOURCE x (id INT) WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'b:1')": "needs FORMAT",
    "CREATE SOURCE x (id INT) WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'b:1') FORMAT PLAIN ENCODE JASON": "did you mean",
    "CREATE SOURCE x (id INT, id INT) WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'b:1') FORMAT PLAIN ENCODE JSON": "is there twice",
    "CREATE SOURCE x (id INT) INCLUDE ofset WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'b:1') FORMAT PLAIN ENCODE JSON": "OFFSET",
    "CREATE SOURCE x (id INT, y INT AS idd + 1) WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'b:1') FORMAT PLAIN ENCODE JSON": "did you mean 'id'",
}


@pytest.mark.parametrize("text", WRONG, ids=WRONG.get)
def test_what_is_wrong_says_where_and_what_instead(home: Fixture, text: str) -> None:
    home.create(SOURCE)
    with pytest.raises(IcestreamError) as caught:
        home.create(text)
    assert isinstance(caught.value, SqlError)
    assert WRONG[text] in str(caught.value)
    assert str(caught.value).startswith("x.sql:")
    assert [o.name for o in home.again().catalog] == ["s"]
