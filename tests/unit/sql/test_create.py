"""CREATE statements: every clause lands in its field."""

from __future__ import annotations

import pytest

from icestream import types
from tests.unit.sql.helpers import one


@pytest.mark.parametrize(
    ("written", "type"),
    [
        ("int", types.INTEGER),
        ("INT8", types.BIGINT),
        ("double precision", types.DOUBLE),
        ("double /* c */ precision", types.DOUBLE),
        ("double", types.DOUBLE),
        ("character varying", types.VARCHAR),
        ("character varying(10)", types.VARCHAR),
        ("varchar(255)", types.VARCHAR),
        ("string", types.VARCHAR),
        ("numeric", types.NUMERIC),
        ("decimal", types.NUMERIC),
        ("numeric(10)", types.numeric(10, 0)),
        ("decimal(38, 18)", types.numeric(38, 18)),
        ("timestamp", types.TIMESTAMP),
        ("timestamp(6)", types.TIMESTAMP),
        ("timestamp with time zone", types.TIMESTAMPTZ),
        ("timestamp(6) with time zone", types.TIMESTAMPTZ),
        ("timestamp without time zone", types.TIMESTAMP),
        ("TIMESTAMPTZ", types.TIMESTAMPTZ),
        ("time without time zone", types.TIME),
        ("date", types.DATE),
        ("interval", types.INTERVAL),
        ("jsonb", types.JSONB),
        ("bytea", types.BYTEA),
        ("int[]", types.array(types.INTEGER)),
        ("int[3][]", types.array(types.array(types.INTEGER))),
        ("map(varchar, int[])", types.map_of(types.VARCHAR, types.array(types.INTEGER))),
        ("struct<a int, b varchar>", types.struct(("a", types.INTEGER), ("b", types.VARCHAR))),
        (
            'STRUCT<"A" int, b struct<c struct<d numeric(4,2)>>>[]',
            types.array(
                types.struct(
                    ("A", types.INTEGER),
                    ("b", types.struct(("c", types.struct(("d", types.numeric(4, 2)))))),
                )
            ),
        ),
    ],
)
def test_types(written, type):
    assert one(f"create table t (c {written} not null)").columns[0].type == type


def test_every_scalar_name_parses():
    for name in types.scalar_names():
        assert one(f"create table t (c {name})").columns[0].type == types.scalar(name)


def test_columns():
    table = one(
        """CREATE TABLE IF NOT EXISTS Sales.Orders (
            id int, "Line" int NOT NULL, total double precision AS price * (1 + tax) ,
            price numeric DEFAULT 1 + 2 NOT NULL, tax numeric not null default 0,
            open boolean AS closed IS NOT NULL, closed date NULL,
            PRIMARY KEY (id, "Line"))"""
    )
    assert (table.name.schema, table.name.name, table.if_not_exists) == ("sales", "orders", True)
    assert table.primary_key == ("id", "Line")
    by_name = {c.name: c for c in table.columns}
    assert by_name["Line"].not_null
    assert by_name["total"].generated.text == "price * (1 + tax)"
    assert by_name["price"].default.text == "1 + 2"
    assert by_name["price"].not_null
    assert by_name["tax"].default.text == "0"
    assert by_name["tax"].not_null
    assert by_name["open"].generated.text == "closed IS NOT NULL"
    assert not by_name["open"].not_null


def test_source_with_everything():
    source = one(
        """create source s (*, ts timestamptz, d date as ts::date,
            watermark for ts as ts - interval '5 seconds' with ttl, watermark for d as d)
        include key as k include partition include offset as o include timestamp as t
        include header 'trace' varchar as h include header as hs include payload include file as f
        with (connector = 'kafka') format upsert encode json (timestamp.handling.mode = 'milli')"""
    )
    assert source.wildcard
    assert [(w.column, w.ttl) for w in source.watermarks] == [("ts", True), ("d", False)]
    assert source.watermarks[0].expression.text == "ts - interval '5 seconds'"
    assert [(i.what, i.alias, i.inner) for i in source.includes] == [
        ("key", "k", None),
        ("partition", None, None),
        ("offset", "o", None),
        ("timestamp", "t", None),
        ("header", "h", "trace"),
        ("header", "hs", None),
        ("payload", None, None),
        ("file", "f", None),
    ]
    assert source.includes[4].type == types.VARCHAR
    assert source.format.options["timestamp.handling.mode"].value == "milli"


def test_include_alias_may_be_the_key():
    source = one("create source s (a int, primary key (k)) include key as k with (x = 1)")
    assert source.primary_key == ("k",)


@pytest.mark.parametrize(
    ("clause", "meaning"),
    [
        ("ON CONFLICT OVERWRITE", "overwrite"),
        ("ON CONFLICT DO NOTHING", "do nothing"),
        ("ON CONFLICT IGNORE", "do nothing"),
        ("ON CONFLICT DO UPDATE IF NOT NULL", "do update if not null"),
        ("ON CONFLICT DO UPDATE FULL", "overwrite"),
    ],
)
def test_on_conflict(clause, meaning):
    table = one(f"create table t (a int primary key, v int) {clause} with version column (v)")
    assert (table.on_conflict, table.version_columns) == (meaning, ("v",))


def test_a_version_column_needs_no_on_conflict():
    table = one("create table t (a int primary key, v int, w int) with version column (v, w)")
    assert (table.on_conflict, table.version_columns) == (None, ("v", "w"))


def test_include_a_field_of_the_source():
    table = one("create table t (a int) include source 'ts_ms' bigint as at include source 'lsn'")
    assert [(i.what, i.inner, i.type, i.alias) for i in table.includes] == [
        ("source", "ts_ms", types.BIGINT, "at"),
        ("source", "lsn", None, None),
    ]


def test_a_key_may_be_what_an_unnamed_include_makes():
    table = one("create table t (a int, primary key (_rw_kafka_key)) include key with (x = 1)")
    assert table.primary_key == ("_rw_kafka_key",)


def test_a_last_comma_is_allowed():
    table = one("create table t (a int,\n) with (x = 1,)")
    assert ([c.name for c in table.columns], list(table.options)) == (["a"], ["x"])


def test_table_forms():
    assert one("create table t (primary key (id)) with (connector = 'x')").primary_key == ("id",)
    assert one("create table t (a int) append only").append_only
    assert one("create table t as select 1 as a").query.text == "select 1 as a"
    assert [c.type for c in one("create table t (a, b) as select 1, 2").columns] == [None, None]
    table = one(
        "create table t (*) from src table 'public.x' engine = ICEBERG with (snapshot = false)"
    )
    assert (table.wildcard, table.from_table, table.engine) == (True, "public.x", "iceberg")
    assert table.options["snapshot"].value == "false"


def test_option_values():
    options = one(
        """create connection c with (table.name = 'it''s', "Case.Key" = E'a\\tb', a = -1.5, b = TRUE,
        c = some_Name, d = $$x $ y$$, e = SECRET pw, f = secret my.cert as file, order.by = 'z',
        x-y.1.z = 5, 'quoted key' = '', secret = secret)"""
    ).options
    assert {k: o.value for k, o in options.items()} == {
        "table.name": "it's",
        "Case.Key": "a\tb",
        "a": "-1.5",
        "b": "true",
        "c": "some_name",
        "d": "x $ y",
        "e": "",
        "f": "",
        "order.by": "z",
        "x-y.1.z": "5",
        "quoted key": "",
        "secret": "secret",
    }
    assert str(options["e"].secret) == "pw"
    assert (str(options["f"].secret), options["f"].secret_as_file) == ("my.cert", True)
    assert options["secret"].secret is None


def test_views():
    view = one("create or replace view v (a, B) as (select 1, 2) union all values (3, 4)")
    assert (view.columns, view.or_replace, view.materialized) == (("a", "b"), True, False)
    view = one(
        "create materialized view if not exists v with (x = 1) as\n"
        "select w, count(*) from tumble(t, ts, interval '1 minute') group by w emit on window close"
    )
    assert view.emit_on_window_close
    assert view.query.text.endswith("group by w")
    assert view.options["x"].value == "1"


def test_sinks():
    sink = one("create sink k into t (a, b) as with q as (select 1) select * from q")
    assert (str(sink.into), sink.into_columns) == ("t", ("a", "b"))
    assert sink.query.text == "with q as (select 1) select * from q"
    sink = one(
        "create sink k as select * from a emit on window close with (connector = 'kafka') "
        "format plain encode json (force_append_only = 'true') key encode text"
    )
    assert sink.emit_on_window_close
    assert sink.format.key_encode == "TEXT"
    assert sink.query.text == "select * from a"


def test_other_objects():
    secret = one("create secret if not exists s with (backend = 'meta') as '${PG_PASSWORD}'")
    assert (secret.value, secret.if_not_exists) == ("${PG_PASSWORD}", True)
    index = one(
        "create index i on s.t (a desc nulls last, lower(b)) include (c) distributed by (a)"
    )
    assert [c.text for c in index.columns] == ["a", "lower(b)"]
    assert (index.include, index.distributed_by) == (("c",), ("a",))
    assert one("create schema if not exists S").name == "s"
    made = one("create subscription s from v with (retention = '1 day')")
    assert (str(made.from_name), made.options["retention"].value) == ("v", "1 day")
