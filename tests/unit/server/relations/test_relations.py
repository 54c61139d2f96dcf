"""System relations from a model: kinds, types, rw_catalog, sessions, errors, threads."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from threading import Timer

import pytest

from icestream.errors import SqlError
from icestream.server.relations import (
    Session,
    SystemQueryError,
    SystemRelations,
    is_about_the_system,
)
from icestream.server.relations.functions import macros
from icestream.server.relations.model import (
    KINDS,
    Activity,
    Column,
    Event,
    Fallback,
    File,
    Function,
    Job,
    Model,
    Object,
    Schema,
    Setting,
    Snapshot,
)
from icestream.server.relations.schema import relations as all_relations
from icestream.types import (
    BIGINT,
    BOOLEAN,
    INTEGER,
    TIMESTAMPTZ,
    VARCHAR,
    Type,
    array,
    map_of,
    struct,
)
from tests.unit.server.relations.cases import cases
from tests.unit.server.relations.world import MODEL, ORDERS

AT = datetime(2026, 11, 16, 8, 0, tzinfo=UTC)
POINT = struct(("x", INTEGER), ("y", INTEGER))

RICH = Model(
    objects=(
        Object(
            20000, "clicks", "source", connector="kafka", format="PLAIN", encode="JSON", append_only=True,
            definition="CREATE SOURCE clicks (…) WITH (connector='kafka')", created=AT,
            columns=(
                Column("at", POINT), Column("path", array(POINT)), Column("tags", map_of(VARCHAR, BIGINT)),
                Column("cube", array(array(INTEGER))),
                Column("twice", INTEGER, default="n * 2", generated=True),
                Column("state", VARCHAR, default="'new'::character varying"),
            ),
        ),
        Object(20001, "out", "sink", connector="iceberg", columns=(Column("n", BIGINT),), definition="CREATE SINK out …"),
        Object(20002, "changes", "subscription", definition="CREATE SUBSCRIPTION changes FROM mv"),
        Object(20003, "broker", "connection", connector="kafka", definition="CREATE CONNECTION broker WITH (…)"),
        Object(20004, "password", "secret"),
        Object(
            20005, "Odd Name", "table", "My Schema", primary_key=("K",),
            columns=(Column("K", INTEGER), Column("v", VARCHAR)),
        ),
        Object(20006, "by_v", "index", "My Schema", columns=(Column("v", VARCHAR),), on=20005, include=("K",)),
        Object(20007, "mv", "materialized view", columns=(Column("n", BIGINT),), query="SELECT 1", owner="nobody"),
    ),
    depends=((20001, 20000), (20007, 20000)),
    schemas=(Schema(2200, "public"), Schema(20100, "My Schema")),
    settings=(Setting("background_ddl", "false"), Setting("TimeZone", "Europe/Vienna")),
    functions=(
        Function(30000, "upper", (VARCHAR,), VARCHAR),
        Function(30001, "count", (), BIGINT, "aggregate"),
        Function(30002, "row_number", (), BIGINT, "window"),
        Function(30003, "middle", (POINT,), array(POINT)),
    ),
    jobs=(Job(1, "CREATE MATERIALIZED VIEW v AS SELECT 1", "42.00%", AT),),
    snapshots=(Snapshot(20007, 7, 3, AT, "s3://m", '{"operation": "append"}'),),
    files=(File(20007, "s3://f", "Data", "parquet", 10, 1000),),
    events=(Event("e1", AT, "RECOVERY", '{"epoch": 4}'),),
    fallbacks=(Fallback("query", "a large result", 3),),
    activity=(Activity(77, "root", "dev", "psql", "127.0.0.1", AT, "active", "SELECT 1"),),
)  # fmt: skip


@pytest.fixture(scope="module")
def rich() -> SystemRelations:
    return SystemRelations(lambda: RICH)


@pytest.fixture(scope="module")
def world() -> SystemRelations:
    return SystemRelations(lambda: MODEL)


def rows(relations: SystemRelations, sql: str, *parameters: object) -> list[tuple[object, ...]]:
    return relations.query(sql, parameters).rows


def test_every_kind_is_somewhere(rich: SystemRelations) -> None:
    kinds = rows(
        rich,
        "SELECT relname, relkind FROM pg_class WHERE oid >= 16384 AND oid < 100000 ORDER BY oid",
    )
    assert kinds == [
        ("clicks", "f"), ("out", "s"), ("changes", "u"), ("Odd Name", "r"), ("by_v", "i"), ("mv", "m"),
    ]  # fmt: skip
    for kind in KINDS:
        relation = f"rw_{kind.replace(' ', '_')}s".replace("indexs", "indexes")
        found = rows(rich, f"SELECT name FROM rw_catalog.{relation}")
        assert found == [(o.name,) for o in RICH.objects if o.kind == kind]


def test_types_that_postgresql_does_not_know(rich: SystemRelations) -> None:
    sql = """SELECT attname, format_type(atttypid, atttypmod), typname, typelem <> 0 FROM pg_attribute a
             JOIN pg_type t ON t.oid = a.atttypid WHERE attrelid = 'clicks'::regclass ORDER BY attnum"""
    assert rows(rich, sql)[:4] == [
        ("at", "struct<x integer, y integer>", "struct<x integer, y integer>", False),
        ("path", "struct<x integer, y integer>[]", "_struct<x integer, y integer>", True),
        ("tags", "map(varchar,bigint)", "map(varchar,bigint)", False),
        ("cube", "integer[]", "_int4", True),
    ]
    described = rows(
        rich,
        "SELECT data_type, type_oid FROM rw_columns WHERE relation_id = 20000 AND name = 'path'",
    )
    assert described == [("struct<x integer, y integer>[]", 15001)]


def test_defaults_and_generated_columns(rich: SystemRelations) -> None:
    sql = """SELECT column_name, column_default, is_generated, generation_expression
             FROM information_schema.columns WHERE table_name = 'clicks' AND ordinal_position > 4"""
    assert rows(rich, sql) == [
        ("twice", None, "ALWAYS", "n * 2"),
        ("state", "'new'::character varying", "NEVER", None),
    ]
    sql = """SELECT a.attgenerated, pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d
             JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum ORDER BY adnum"""
    assert rows(rich, sql) == [("s", "n * 2"), ("", "'new'::character varying")]
    assert rows(rich, "SELECT count(DISTINCT oid) FROM pg_attrdef") == [(2,)]


def test_names_that_need_quotes(rich: SystemRelations) -> None:
    assert rows(
        rich, 'SELECT 20005::regclass::text, \'"My Schema"."Odd Name"\'::regclass::oid'
    ) == [('"My Schema"."Odd Name"', 20005)]
    found = rows(rich, "SELECT pg_get_indexdef(indexrelid) FROM pg_index ORDER BY indisprimary")
    assert found == [
        ('CREATE INDEX by_v ON "My Schema"."Odd Name" USING btree (v) INCLUDE ("K")',),
        ('CREATE UNIQUE INDEX "Odd Name_pkey" ON "My Schema"."Odd Name" USING btree ("K")',),
    ]
    session = Session(search_path=("My Schema", "public"))
    result = rich.query("SELECT '\"Odd Name\"'::regclass, current_schemas(true)", (), session)
    assert result.rows == [('"Odd Name"', ["pg_catalog", "My Schema", "public"])]


def test_rw_catalog(rich: SystemRelations) -> None:
    assert rows(rich, "SELECT ddl_id, progress, create_type FROM rw_ddl_progress") == [
        (1, "42.00%", "BACKGROUND")
    ]
    assert rows(rich, "SELECT * FROM rw_catalog.rw_depend ORDER BY 1") == [
        (20001, 20000),
        (20007, 20000),
    ]
    snapshot = (20007, "public", "mv", 3, 7, AT, "s3://m", '{"operation": "append"}')
    assert rows(rich, "SELECT * FROM rw_iceberg_snapshots") == [snapshot]
    assert rows(rich, "SELECT source_name, record_count FROM rw_iceberg_files") == [("mv", 10)]
    assert rows(rich, "SELECT event_type, info FROM rw_event_logs") == [
        ("RECOVERY", '{"epoch": 4}')
    ]
    assert rows(rich, "SELECT * FROM rw_spark_fallbacks") == [("query", "a large result", 3)]
    assert rows(rich, "SELECT connector, format, row_encode, columns[1] FROM rw_sources") == [
        ("kafka", "PLAIN", "JSON", "at")
    ]
    assert rows(rich, "SELECT key_columns, include_columns FROM rw_indexes") == [(["v"], ["K"])]
    assert rows(rich, "SELECT relation_type FROM rw_relations WHERE name = 'out'") == [("sink",)]
    timed = rich.query("SELECT initialized_at FROM rw_ddl_progress").columns[0]
    assert timed.type == TIMESTAMPTZ


def test_functions_and_activity(rich: SystemRelations) -> None:
    sql = """SELECT proname, prokind, pg_get_function_arguments(oid), pg_get_function_result(oid) FROM pg_proc
             WHERE oid >= 30000 ORDER BY oid"""
    assert rows(rich, sql) == [
        ("upper", "f", "character varying", "character varying"),
        ("count", "a", "", "bigint"),
        ("row_number", "w", "", "bigint"),
        ("middle", "f", "struct<x integer, y integer>", "struct<x integer, y integer>[]"),
    ]
    found = rows(rich, "SELECT pid, usename, state, backend_start FROM pg_stat_activity")
    assert found == [(77, "root", "active", AT)]


def test_the_session(rich: SystemRelations) -> None:
    session = Session(
        "alice", "prod", ("My Schema",), 4711, (("TimeZone", "Asia/Tokyo"), ("a.b", "c"))
    )
    sql = """SELECT current_user, session_user, user, current_database(), current_catalog, current_schema, pg_backend_pid(),
             current_setting('timezone'), current_setting('a.b'), current_setting('background_ddl'),
             current_setting('nope', true), (SELECT setting FROM pg_settings WHERE name = 'TimeZone')"""
    assert rich.query(sql, (), session).rows == [
        ("alice", "alice", "alice", "prod", "prod", "My Schema", 4711, "Asia/Tokyo", "c", "false", None, "Asia/Tokyo")
    ]  # fmt: skip
    assert rows(rich, "SELECT current_setting('TimeZone')") == [("Europe/Vienna",)]


def test_no_search_path(world: SystemRelations) -> None:
    sql = "SELECT current_schema(), current_schemas(false), current_schemas(true), 'public.orders'::regclass, to_regclass('orders')"
    found = world.query(sql, (), Session(search_path=())).rows
    assert found == [(None, [], ["pg_catalog"], "public.orders", None)]


def test_set_config_is_handed_on(world: SystemRelations) -> None:
    result = world.query(
        "SELECT set_config('search_path', $1, false), set_config('jit', 'off', true)", ["a, b"]
    )
    assert result.rows == [("a, b", "off")]
    assert result.settings == (("search_path", "a, b"), ("jit", "off"))


def test_types_of_columns_and_parameters(world: SystemRelations) -> None:
    sql = """SELECT oid, relname, relkind, relnatts, relhasindex, oid::regclass, 'x'::text, count(*) AS n
             FROM pg_class WHERE oid = $1 AND relname = ANY($2) AND relnatts > $3 GROUP BY ALL LIMIT $4"""
    described = world.describe(sql.replace("GROUP BY ALL", "GROUP BY 1, 2, 3, 4, 5"))
    assert described.parameters == (Type("oid"), array(Type("name")), Type("smallint"), BIGINT)
    types = [str(column.type) for column in described.columns]
    assert types == ["oid", "name", '"char"', "smallint", "boolean", "regclass", "text", "bigint"]
    assert [column.oid for column in described.columns] == [26, 19, 18, 21, 16, 2205, 25, 20]
    assert described.columns[4].type == BOOLEAN


@pytest.mark.parametrize(
    "values", [(ORDERS, ["orders", "x"]), (str(ORDERS), "{orders,x}"), (str(ORDERS), ["orders"])]
)
def test_parameters_are_values_or_texts(world: SystemRelations, values: tuple[object, ...]) -> None:
    sql = "SELECT relname FROM pg_class WHERE oid = $1 AND relname = ANY ($2)"
    assert rows(world, sql, *values) == [("orders",)]


@pytest.mark.parametrize(
    ("sql", "code", "message"),
    [
        ("SELECT * FROM pg_catalog.pg_nothing", "42P01", 'relation "pg_catalog.pg_nothing" does not exist'),
        ("SELECT * FROM information_schema.nothing", "42P01", 'relation "information_schema.nothing" does not exist'),
        ("SELECT pg_nothing(oid, 1, 'x') FROM pg_class", "42883", "function pg_nothing(oid, integer, text) does not exist"),
        ("SELECT * FROM read_csv('/etc/passwd'), pg_class", "42883", None),
        ("SELECT nothing FROM pg_class", "42703", 'column "nothing" does not exist'),
        ("SELECT c.nothing FROM pg_class c", "42703", "column c.nothing does not exist"),
        ("SELECT x.oid FROM pg_class c", "42P01", 'missing FROM-clause entry for table "x"'),
        ("SELECT 'nothing'::regclass", "42P01", 'relation "nothing" does not exist'),
        ("SELECT 'nothing'::regtype", "42704", 'type "nothing" does not exist'),
        ("SELECT oid::nothing FROM pg_class", "42704", 'type "nothing" does not exist'),
        ("SELECT current_setting('nothing')", "42704", 'unrecognized configuration parameter "nothing"'),
        ("SELECT pg_get_userbyid() FROM pg_class", "42883", "function pg_get_userbyid() does not exist"),
        ("SELECT relname FROM pg_class WHERE", "42601", None),
        ("SELECT * FROM pg_class; SELECT 1", "0A000", None),
        ("DELETE FROM pg_class", "0A000", None),
        ("SELECT 'x'::int FROM pg_class", "22P02", None),
    ],
)  # fmt: skip
def test_errors_in_the_words_of_postgresql(
    world: SystemRelations, sql: str, code: str, message: str | None
) -> None:
    with pytest.raises(SystemQueryError) as raised:
        world.query(sql)
    assert isinstance(raised.value, SqlError)
    assert raised.value.code == code
    assert message is None or raised.value.message == message
    assert "the_" not in str(raised.value)


def test_parameters_are_counted(world: SystemRelations) -> None:
    with pytest.raises(
        SystemQueryError, match="supplies 0 parameters, but the query requires 1"
    ) as raised:
        world.query("SELECT relname FROM pg_class WHERE oid = $1")
    assert raised.value.code == "08P01"


@pytest.mark.parametrize(
    ("sql", "about"),
    [
        ("SELECT version()", True),
        ("select current_user", True),
        ("SELECT user", True),
        ("SELECT 'orders'::regclass", True),
        ("SELECT 1", False),
        ("SELECT now()", False),
        ("SELECT * FROM orders", False),
        ("SELECT * FROM pg_class", True),
        ("SELECT * FROM PG_CATALOG.PG_CLASS", True),
        ("SELECT * FROM pg_class, orders", False),
        ("SELECT * FROM orders WHERE customer = current_user", False),
        ("SELECT * FROM public.pg_class", False),
        ("WITH pg_stuff AS (SELECT * FROM pg_am) SELECT * FROM pg_stuff", True),
        ("WITH pg_am AS (SELECT * FROM orders) SELECT * FROM pg_am", False),
        ("SELECT * FROM rw_catalog.rw_tables", True),
        ("SELECT * FROM rw_tables", True),
        ("SELECT * FROM information_schema.nothing", True),
        ("SELECT array_length(ARRAY[1], 1)", False),
        ("SELECT quote_ident('x')", False),
        ("SELECT 'version' AS version", False),
        ("SHOW server_version", False),
        ("SELECT (", False),
        ("INSERT INTO t SELECT * FROM pg_class", False),
        ("", False),
    ],
)
def test_what_is_about_the_system(sql: str, about: bool) -> None:
    assert is_about_the_system(sql) is about


def test_every_relation_can_be_read(rich: SystemRelations) -> None:
    for (schema, name), relation in all_relations().items():
        result = rich.query(f"SELECT * FROM {schema}.{name}")
        assert {c.name: c.pg_type for c in result.columns} == relation.columns
        assert is_about_the_system(f"SELECT * FROM {schema}.{name}")


def test_every_function_can_be_called(rich: SystemRelations) -> None:
    values = {
        "array": "ARRAY[1, 2]",
        "cardinality": "ARRAY[1]",
        "generate": "ARRAY[1]",
        "_pg": "ARRAY[1]",
    }
    for name, macro in macros().items():
        value = values.get(
            name.split("_")[0] or "_pg",
            "'1'" if name.startswith(("to_", "parse", "quote", "octet")) else "1",
        )
        given = [p for p in macro.parameters.split(", ") if p and ":=" not in p]
        arguments = ", ".join([value, "'1'", "'1'"][: len(given)])
        if name == "current_setting":
            arguments = "'jit'"
        call = f"{name}({arguments})"
        rich.query(f"SELECT * FROM {call}" if macro.result is None else f"SELECT {call}")


def test_nothing_leads_out(world: SystemRelations) -> None:
    for sql in (
        "SELECT * FROM duckdb_settings(), pg_am",
        "SELECT getenv('HOME') FROM pg_am",
        "SELECT * FROM query('SELECT 1'), pg_am",
        "SELECT * FROM '/etc/passwd', pg_am",
        "SELECT * FROM read_text('/etc/passwd'), pg_am",
        "SELECT * FROM the_names, pg_am",
        "SELECT * FROM the_pg_catalog.pg_am",
        "SELECT fn.version() FROM pg_am",
        "SELECT name_of('regclass', 1) FROM pg_am",
        "COPY pg_am TO '/tmp/x'",
        "SELECT getvariable('settings') FROM pg_am",
    ):
        with pytest.raises(SystemQueryError):
            world.query(sql)


def test_the_model_is_read_afresh() -> None:
    model = [MODEL]
    asked = []

    def current() -> Model:
        asked.append(1)
        return model[0]

    relations = SystemRelations(current)
    sql = "SELECT relname FROM pg_class WHERE relkind = 'r' AND oid >= 16384 ORDER BY 1"
    before = relations.query(sql).rows
    model[0] = replace(MODEL, objects=(*MODEL.objects, Object(20000, "new", "table")))
    assert relations.query(sql).rows == sorted([*before, ("new",)])
    model[0] = replace(model[0], jobs=(Job(5, "x", "1%", AT),))
    assert relations.query(sql).rows == sorted([*before, ("new",)])
    assert relations.query("SELECT ddl_id FROM rw_ddl_progress").rows == [(5,)]
    model[0] = Model()
    assert relations.query(sql).rows == []
    assert len(asked) == 5


def test_a_broken_model_does_no_harm() -> None:
    model = [MODEL]
    relations = SystemRelations(lambda: model[0])
    before = rows(relations, "SELECT count(*) FROM pg_class")
    model[0] = replace(MODEL, objects=(Object(20000, "lost", "table", "no such schema"),))
    with pytest.raises(KeyError):
        relations.query("SELECT 1 FROM pg_class")
    model[0] = replace(MODEL, objects=(Object(-1, "odd", "table"),))
    with pytest.raises(OverflowError):
        relations.query("SELECT 1 FROM pg_class")
    model[0] = MODEL
    assert rows(relations, "SELECT count(*) FROM pg_class") == before


def test_threads_see_whole_models() -> None:
    """While models come and go, every answer is that of one of them."""
    models = [
        Model(tuple(Object(20000 + i, f"t{i}", "table", columns=(Column("n", INTEGER),)) for i in range(count)))
        for count in (1, 20)
    ]  # fmt: skip
    turn = [0]

    def current() -> Model:
        turn[0] += 1
        return models[turn[0] % 2]

    relations = SystemRelations(current)
    sql = """SELECT (SELECT count(*) FROM pg_class WHERE oid >= 20000), (SELECT count(*) FROM pg_attribute WHERE attrelid >= 20000),
             (SELECT count(*) FROM rw_tables), current_user"""

    def ask(number: int) -> tuple[object, ...]:
        return relations.query(sql, (), Session(user=f"u{number}")).rows[0]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(24)))
    assert {answer[:3] for answer in answers} == {(1, 1, 1), (20, 20, 20)}
    assert [answer[3] for answer in answers] == [f"u{number}" for number in range(24)]


def test_a_query_can_be_cancelled(world: SystemRelations) -> None:
    endless = "SELECT count(*) FROM " + ", ".join(f"pg_attribute a{n}" for n in range(5)) + " WHERE " + " AND ".join(
        f"a{n}.attname <> a{n + 1}.attname" for n in range(4)
    )  # fmt: skip
    timers = []

    def running(interrupt: Callable[[], None]) -> None:
        timers.append(Timer(0.2, interrupt))
        timers[0].start()

    with pytest.raises(SystemQueryError) as raised:
        world.query(endless, running=running)
    assert raised.value.code == "57014"
    assert rows(world, "SELECT 1 FROM pg_am LIMIT 1") == [(1,)]


def test_odd_texts_are_refused_politely(world: SystemRelations) -> None:
    """Queries of clients with a token lost, doubled or moved: an answer or an error of ours, nothing else."""
    random = Random(7)
    texts = [case.sql for case in cases() if len(case.sql) < 900]
    for _ in range(150):
        tokens = re.findall(r"\w+|\s+|.", random.choice(texts))
        for _ in range(random.randint(1, 3)):
            place = random.randrange(len(tokens))
            tokens[place : place + 1] = random.choice(
                [[], [tokens[place]] * 2, [random.choice(tokens)]]
            )
        sql = "".join(tokens)
        is_about_the_system(sql)
        with suppress(SystemQueryError):
            world.describe(sql)
    with suppress(SystemQueryError):
        world.query("SELECT " + "(" * 3000 + "1" + ")" * 3000 + " FROM pg_am")


def test_an_empty_model() -> None:
    relations = SystemRelations(Model)
    assert relations.query("SELECT nspname FROM pg_namespace WHERE oid = 2200").rows == [
        ("public",)
    ]
    version = relations.query("SELECT version()").rows[0][0]
    assert re.match(r"PostgreSQL \d+\.\d+", version)
