"""Tables with a primary key and upsert sinks: what is bound, what is refused, what EXPLAIN and DESCRIBE say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from icestream.catalog.catalog import Catalog
from icestream.catalog.graph import CARRIED, make_plan
from icestream.catalog.objects import MaterializedView, Object, Sink, Table
from icestream.catalog.show import describe, explain_object, show
from icestream.catalog.store import Store
from icestream.config import Home
from icestream.errors import IcestreamError, NotSupportedError, SqlError
from icestream.lake.fold import Upsert
from icestream.sql import parse
from icestream.types import BIGINT, BYTEA, VARCHAR

KAFKA = "WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'b:1')"
PLAIN = f"{KAFKA} FORMAT PLAIN ENCODE JSON"
UPSERT = f"{KAFKA} FORMAT UPSERT ENCODE JSON"
DEBEZIUM = f"{KAFKA} FORMAT DEBEZIUM ENCODE JSON"

ORDERS = f"CREATE TABLE orders (id BIGINT PRIMARY KEY, item VARCHAR, price NUMERIC) {DEBEZIUM}"
EVENTS = f"CREATE TABLE events (id BIGINT, item VARCHAR, doc JSONB, tags VARCHAR[]) {PLAIN}"
ONCE = f"CREATE TABLE once (id BIGINT PRIMARY KEY, item VARCHAR) APPEND ONLY {PLAIN}"
BASE = (ORDERS, EVENTS, ONCE, "CREATE VIEW big AS SELECT id AS o, item FROM orders WHERE price > 5")

ICEBERG = "WITH (connector = 'iceberg', table.name = 'k', type = "
INTO = f"{ICEBERG} 'upsert'"
KAFKA_SINK = KAFKA.removesuffix(")")


class Bench:
    """A catalog in memory over the same few objects."""

    def __init__(self, root: Path) -> None:
        self.catalog = Catalog(Store(Home.at(root)), {})
        for text in BASE:
            self.bind(text)
        self.own = set(self.catalog.objects)

    def bind(self, text: str) -> Object:
        (statement,) = parse(text, "x.sql", {})
        change = self.catalog.examine(statement)
        self.catalog.learn(change)
        return change.object

    def table(self, text: str) -> Table:
        found = self.bind(text)
        assert isinstance(found, Table)
        return found

    def sink(self, text: str) -> Sink:
        found = self.bind(text)
        assert isinstance(found, Sink)
        return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("keyed") / "home")


@pytest.fixture
def bench(whole: Bench) -> Iterator[Bench]:
    yield whole
    whole.catalog.forget(set(whole.catalog.objects) - whole.own)


# -- tables ------------------------------------------------------------------------------------------

KEYED = {
    f"(a INT PRIMARY KEY, v INT) {PLAIN}": Upsert(("a",)),
    f"(a INT, v INT, PRIMARY KEY (v, a)) {PLAIN}": Upsert(("v", "a")),
    f"(a REAL PRIMARY KEY, v INT) ON CONFLICT OVERWRITE {PLAIN}": Upsert(("a",)),
    f"(a INT PRIMARY KEY, v INT) ON CONFLICT DO UPDATE FULL {PLAIN}": Upsert(("a",)),
    f"(a INT PRIMARY KEY, v INT) ON CONFLICT DO NOTHING {PLAIN}": Upsert(("a",), "nothing"),
    f"(a INT PRIMARY KEY, v INT) ON CONFLICT DO UPDATE IF NOT NULL {PLAIN}": Upsert(("a",), "fill"),
    f"(a INT PRIMARY KEY, v INT) WITH VERSION COLUMN (v) {PLAIN}": Upsert(
        ("a",), "overwrite", ("v",)
    ),
    f"(a INT PRIMARY KEY, v INT, w DATE) ON CONFLICT OVERWRITE WITH VERSION COLUMN (v, w) {PLAIN}": Upsert(
        ("a",), "overwrite", ("v", "w")
    ),
    f"(a INT PRIMARY KEY) INCLUDE timestamp AS ts WITH VERSION COLUMN (ts) {UPSERT}": Upsert(
        ("a",), "overwrite", ("ts",)
    ),
    f"(a INT PRIMARY KEY) APPEND ONLY ON CONFLICT DO NOTHING {PLAIN}": Upsert(("a",), "nothing"),
    f"(a INT PRIMARY KEY) ENGINE = iceberg {DEBEZIUM}": Upsert(("a",)),
    f"(a INT, PRIMARY KEY (k)) INCLUDE key AS k {UPSERT}": Upsert(("k",)),
    f"(a INT, PRIMARY KEY (_rw_kafka_key)) INCLUDE key {UPSERT}": Upsert(("_rw_kafka_key",)),
    f"(a INT, PRIMARY KEY (p, o)) INCLUDE partition AS p INCLUDE offset AS o {PLAIN}": Upsert(
        ("p", "o")
    ),
}


@pytest.mark.parametrize("text", KEYED)
def test_a_table_with_a_key(bench: Bench, text: str) -> None:
    table = bench.table(f"CREATE TABLE t {text}")
    assert table.upsert == KEYED[text]
    assert {c.name for c in table.columns if c.not_null} == set(KEYED[text].key)


def test_the_key_of_a_message_is_bytes(bench: Bench) -> None:
    table = bench.table(f"CREATE TABLE t (a INT, PRIMARY KEY (k)) INCLUDE key AS k {UPSERT}")
    assert [(c.name, c.type, c.not_null) for c in table.columns[1:]] == [("k", BYTEA, True)]


def test_a_change_says_where_it_comes_from(bench: Bench) -> None:
    table = bench.table(
        "CREATE TABLE t (a INT PRIMARY KEY) INCLUDE table_name INCLUDE source 'ts_ms' BIGINT AS at "
        f"INCLUDE source 'txId' {DEBEZIUM}"
    )
    assert [(c.name, c.type) for c in table.columns[1:]] == [
        ("_rw_kafka_table_name", VARCHAR),
        ("at", BIGINT),
        ("_rw_kafka_source_txId", VARCHAR),
    ]


def test_rows_change_unless_only_the_first_of_a_key_counts(bench: Bench) -> None:
    tables = [o for o in bench.catalog if isinstance(o, Table)]
    assert [(o.name, o.changing) for o in tables] == [
        ("orders", True),
        ("events", False),
        ("once", False),
    ]
    bench.bind("CREATE MATERIALIZED VIEW m AS SELECT id FROM once")
    bench.bind(f"CREATE SINK k FROM once {ICEBERG} 'append-only')")


WRONG_TABLES = {
    f"(a INT, tags INT[], PRIMARY KEY (tags)) {PLAIN}": "tags is integer[], which cannot be in a primary key",
    f"(a JSONB PRIMARY KEY) {PLAIN}": "a is jsonb, which cannot be",
    f"(a INTERVAL PRIMARY KEY) {PLAIN}": "a is interval, which cannot be",
    f"(a STRUCT<b INT> PRIMARY KEY) {PLAIN}": "which cannot be in a primary key",
    f"(a INT, b INT AS a + 1, PRIMARY KEY (b)) {PLAIN}": "a generated column in a primary key (b of table t)",
    f"(a INT, PRIMARY KEY (_rw_kafka_kee)) INCLUDE key {UPSERT}": "did you mean '_rw_kafka_key'",
    f"(a INT) ON CONFLICT DO NOTHING {PLAIN}": "table t has ON CONFLICT, but no primary key",
    f"(a INT) WITH VERSION COLUMN (a) {PLAIN}": "table t has WITH VERSION COLUMN, but no primary key",
    f"(a INT PRIMARY KEY) WITH VERSION COLUMN (a) {PLAIN}": "a is in the primary key",
    f"(a INT PRIMARY KEY, ver INT) WITH VERSION COLUMN (vr) {PLAIN}": "did you mean 'ver'",
    f"(a INT PRIMARY KEY, v INT) WITH VERSION COLUMN (v, v) {PLAIN}": "v is there twice",
    f"(a INT PRIMARY KEY, v BOOLEAN) WITH VERSION COLUMN (v) {PLAIN}": "v is boolean, which does not say what is newer",
    f"(a INT PRIMARY KEY, v JSONB) WITH VERSION COLUMN (v) {PLAIN}": "v is jsonb",
    f"(a INT PRIMARY KEY, v INT) ON CONFLICT DO NOTHING WITH VERSION COLUMN (v) {PLAIN}": "where the first row of a key stays",
    f"(a INT PRIMARY KEY) APPEND ONLY ON CONFLICT OVERWRITE {PLAIN}": "ON CONFLICT DO NOTHING, or leave out APPEND ONLY",
    f"(a INT PRIMARY KEY) APPEND ONLY {UPSERT}": "table t is APPEND ONLY, and FORMAT UPSERT changes",
    f"(a INT) {UPSERT}": "INCLUDE KEY AS rw_key and PRIMARY KEY (rw_key)",
    f"(a INT) {DEBEZIUM}": "table t needs a primary key: FORMAT DEBEZIUM",
    f"(a INT, PRIMARY KEY (o)) INCLUDE offset AS o {UPSERT}": "o differs with every message",
    f"(a INT PRIMARY KEY) INCLUDE source {DEBEZIUM}": "INCLUDE source needs the field",
    f"(a INT PRIMARY KEY) INCLUDE source 'ts_ms' {UPSERT}": "kafka has no source to include",
    f"(a INT PRIMARY KEY) INCLUDE header 'h' VARCHAR AS h {DEBEZIUM}": "INCLUDE header of a single one",
    f"(a INT PRIMARY KEY, b INT DEFAULT 1) {PLAIN}": "DEFAULT in the columns of a connector",
}


@pytest.mark.parametrize("text", WRONG_TABLES, ids=WRONG_TABLES.get)
def test_a_wrong_key_says_so(bench: Bench, text: str) -> None:
    _refused(bench, f"CREATE TABLE t {text}", WRONG_TABLES[text])


WRONG_SOURCES = {
    f"(a INT PRIMARY KEY) {PLAIN}": "source s cannot have a primary key",
    f"(a INT) {UPSERT}": "source s cannot have FORMAT UPSERT",
    f"(a INT) {DEBEZIUM}": "source s cannot have FORMAT DEBEZIUM",
}


@pytest.mark.parametrize("text", WRONG_SOURCES, ids=WRONG_SOURCES.get)
def test_a_source_has_no_key(bench: Bench, text: str) -> None:
    error = _refused(bench, f"CREATE SOURCE s {text}", WRONG_SOURCES[text])
    assert "CREATE TABLE" in (error.remedy or "")


# -- sinks -------------------------------------------------------------------------------------------

KEYED_SINKS = {
    f"FROM orders {INTO})": ("id",),
    f"FROM big {INTO})": ("o",),
    f"FROM once {INTO})": ("id",),
    f"AS SELECT item, id AS number FROM orders WHERE price > 1 {INTO})": ("number",),
    f"FROM orders {INTO}, primary_key = 'item, id')": ("item", "id"),
    f"AS SELECT id, item FROM events {INTO}, primary_key = 'id')": ("id",),
    f"AS SELECT id FROM orders UNION ALL SELECT id FROM events {INTO}, primary_key = 'id')": (
        "id",
    ),
    f"FROM orders {INTO}, create_table_if_not_exists = true, format_version = '2')": ("id",),
    f"FROM orders {INTO}, write_mode = 'merge-on-read')": ("id",),
}


@pytest.mark.parametrize("text", KEYED_SINKS)
def test_an_upsert_sink(bench: Bench, text: str) -> None:
    sink = bench.sink(f"CREATE SINK k {text}")
    assert sink.upsert == Upsert(KEYED_SINKS[text])
    (task,) = [t for t in make_plan(bench.catalog).tasks if t.key == sink.key]
    assert task.changes is not None
    assert task.changes.names == (*(c.name for c in sink.columns), *CARRIED)


FORCED = (
    f"FROM orders {ICEBERG} 'append-only', force_append_only = true)",
    f"FROM big {KAFKA_SINK}, force_append_only = 'true')",
    f"FROM orders {KAFKA} FORMAT PLAIN ENCODE JSON (force_append_only = 'true')",
    "FROM orders WITH (connector = 'print', force_append_only = true)",
)


@pytest.mark.parametrize("text", FORCED)
def test_a_sink_may_drop_deletes(bench: Bench, text: str) -> None:
    sink = bench.sink(f"CREATE SINK k {text}")
    assert (sink.upsert, sink.drops_deletes) == (None, True)
    (task,) = [t for t in make_plan(bench.catalog).tasks if t.key == sink.key]
    assert task.changes is not None


def test_rows_that_are_only_added_need_no_more(bench: Bench) -> None:
    sink = bench.sink(
        "CREATE SINK k FROM events WITH (connector = 'print', force_append_only = true)"
    )
    assert not sink.drops_deletes
    assert all(t.changes is None for t in make_plan(bench.catalog).tasks)


WRONG_SINKS = {
    f"FROM orders {ICEBERG} 'append-only')": "type = 'upsert' follows the changes; force_append_only = 'true'",
    f"AS SELECT item FROM big {ICEBERG} 'append-only')": "only adds rows, but those of orders change",
    f"FROM orders {KAFKA}": "sink k only adds rows, but those of orders change",
    "FROM orders WITH (connector = 'blackhole')": "sink k only adds rows",
    f"FROM events {INTO})": "sink k needs the option primary_key",
    f"AS SELECT item FROM orders {INTO})": "sink k needs the option primary_key",
    f"AS SELECT id + 1 AS id, item FROM orders {INTO})": "sink k needs the option primary_key",
    f"FROM orders {INTO}, primary_key = 'idd')": "did you mean 'id'",
    f"FROM orders {INTO}, primary_key = 'id, id')": "primary_key has id twice",
    f"FROM events {INTO}, primary_key = 'doc')": "doc is jsonb, which cannot be",
    f"FROM events {INTO}, primary_key = 'id, tags')": "tags is varchar[], which cannot be",
    f"FROM orders {INTO}, force_append_only = true)": "force_append_only has no meaning",
    f"FROM orders {INTO}, write_mode = 'copy-on-write')": "not supported yet: write_mode = 'copy-on-write'",
    f"FROM events {ICEBERG} 'append-only', primary_key = 'id')": "primary_key has no meaning",
    f"AS SELECT id, random() AS r FROM orders {INTO})": "random() over orders, whose rows change",
}


@pytest.mark.parametrize("text", WRONG_SINKS, ids=WRONG_SINKS.get)
def test_a_wrong_sink_says_so(bench: Bench, text: str) -> None:
    _refused(bench, f"CREATE SINK k {text}", WRONG_SINKS[text])


@pytest.mark.parametrize("relation", ["orders", "big"])
def test_a_view_follows_rows_that_change(bench: Bench, relation: str) -> None:
    view = bench.bind(f"CREATE MATERIALIZED VIEW m AS SELECT item FROM {relation}")
    assert isinstance(view, MaterializedView)
    assert view.changing
    text = f"CREATE MATERIALIZED VIEW m2 AS SELECT item, random() AS r FROM {relation}"
    assert isinstance(_refused(bench, text, "random() over orders"), NotSupportedError)


def _refused(bench: Bench, text: str, message: str) -> SqlError:
    before = set(bench.catalog.objects)
    with pytest.raises(IcestreamError) as caught:
        bench.bind(text)
    assert isinstance(caught.value, SqlError)
    assert message in str(caught.value)
    assert str(caught.value).startswith("x.sql:1:")
    assert set(bench.catalog.objects) == before
    return caught.value


# -- what is shown -----------------------------------------------------------------------------------


def test_explain_names_the_key(bench: Bench) -> None:
    heads = {
        f"TABLE a (id INT PRIMARY KEY) {PLAIN}": "Table a: upsert by (id), on conflict overwrite, exactly once → lake.public.a",
        f'TABLE b ("Id" INT, v INT, w INT, PRIMARY KEY ("Id", w)) ON CONFLICT DO UPDATE IF NOT NULL WITH VERSION COLUMN (v) {PLAIN}': (
            'Table b: upsert by ("Id", w), on conflict do update if not null, newest by (v), exactly once → lake.public.b'
        ),
        f"SINK c FROM orders {INTO}, primary_key = 'id, item')": "Sink c: upsert by (id, item), exactly once → public.k every 60 s",
        f"SINK d FROM orders {ICEBERG} 'append-only', force_append_only = true)": "Sink d: append, deletes are dropped, exactly once → public.k every 60 s",
        f"SINK e FROM orders {KAFKA_SINK}, force_append_only = true)": "Sink e: kafka, delivers at least once, deletes are dropped",
    }
    for text, head in heads.items():
        assert explain_object(bench.bind(f"CREATE {text}"))[0] == head


def test_describe_names_the_key(bench: Bench) -> None:
    bench.bind(
        f"CREATE TABLE t (id INT PRIMARY KEY, v INT) ON CONFLICT OVERWRITE WITH VERSION COLUMN (v) {PLAIN}"
    )
    (described,) = parse("DESCRIBE t", "x.sql")
    assert describe(described, bench.catalog).rows == [
        ("id", "integer", True, False),
        ("v", "integer", False, False),
        ("primary key", "id", None, None),
        ("on conflict", "overwrite", None, None),
        ("version column", "v", None, None),
    ]
    (columns,) = parse("SHOW COLUMNS FROM t", "x.sql")
    assert len(show(columns, bench.catalog).rows) == 2
    (created,) = parse("SHOW CREATE TABLE t", "x.sql")
    assert "WITH VERSION COLUMN (v)" in show(created, bench.catalog).rows[0][1]
