"""ALTER, DROP, SHOW, EXPLAIN, SET, DML and the rest: one line of SQL, the fields that matter."""

from __future__ import annotations

import pytest

from icestream import types
from icestream.sql import parse
from icestream.sql import statements as st
from tests.unit.sql.helpers import one

CASES = [
    ("alter table t rename to U", st.Alter, {"kind": "table", "action": "rename", "new_name": "u"}),
    ("alter table t drop column if exists a", st.Alter, {"action": "drop column", "column_name": "a"}),
    ("alter materialized view v set parallelism = 4", st.Alter,
     {"kind": "materialized view", "action": "set parallelism", "value": "4"}),
    ("alter table t set parallelism to ADAPTIVE", st.Alter, {"value": "adaptive"}),
    ("alter source s set source_rate_limit = default", st.Alter,
     {"action": "set source_rate_limit", "value": None}),
    ("alter sink s owner to joe", st.Alter, {"action": "owner", "new_name": "joe"}),
    ("alter view v set schema x", st.Alter, {"action": "set schema", "new_name": "x"}),
    ("alter table a swap with s.b", st.Alter, {"action": "swap", "new_name": "s.b"}),
    ("alter source s refresh schema", st.Alter, {"action": "refresh schema"}),
    ("alter secret s with (backend = 'meta') as 'x'", st.Alter, {"action": "set secret", "value": "x"}),
    ("drop table a", st.Drop, {"kind": "table", "cascade": False, "if_exists": False}),
    ("drop materialized view if exists a, b.c cascade", st.Drop,
     {"kind": "materialized view", "cascade": True, "if_exists": True}),
    ("show sources", st.Show, {"what": "sources", "name": None}),
    ("show materialized views like 'a%'", st.Show, {"what": "materialized views", "like": "a%"}),
    ("show cluster", st.Show, {"what": "cluster"}),
    ("show all", st.Show, {"what": "all"}),
    ("show databases", st.Show, {"what": "databases"}),
    ("show Iceberg_Engine.Connection", st.Show, {"what": "iceberg_engine.connection"}),
    ("show time zone", st.Show, {"what": "timezone"}),
    ("show create materialized view v", st.ShowCreate, {"kind": "materialized view"}),
    ("set a.b to 'X', y", st.SetVariable, {"name": "a.b", "value": "X, y"}),
    ("set x = default", st.SetVariable, {"name": "x", "value": None}),
    ("set local x = -1", st.SetVariable, {"name": "x", "value": "-1"}),
    ("set session = on", st.SetVariable, {"name": "session", "value": "on"}),
    ("set time zone 'UTC'", st.SetVariable, {"name": "timezone", "value": "UTC"}),
    ("flush", st.Flush, {}),
    ("wait", st.Wait, {}),
    ("vacuum full t", st.Vacuum, {"full": True}),
    ("vacuum t", st.Vacuum, {"full": False}),
    ("delete from t", st.Delete, {"where": None, "returning": ()}),
    ("insert into t (a, B) select 1, 2", st.Insert, {"columns": ("a", "b")}),
    ("insert into t (select 1)", st.Insert, {"columns": ()}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "fields"), CASES, ids=[case[0] for case in CASES])
def test_fields(text, kind, fields):
    statement = one(text)
    assert type(statement) is kind
    assert {name: getattr(statement, name) for name in fields} == fields
    assert statement.text == text


def test_names():
    assert [str(n) for n in one('drop table a, S.b, "S"."C d"').names] == ["a", "s.b", "S.C d"]
    assert str(one("show columns from s.t").name) == "s.t"
    assert str(one("show indexes from t").name) == "t"
    assert str(one("show tables from x").name) == "x"
    assert str(one("describe s.t").name) == "s.t"


def test_alter_columns_and_options():
    column = one("alter table t add column c int not null default 3").column
    assert (column.name, column.type, column.not_null) == ("c", types.INTEGER, True)
    column = one("alter table t alter column c type bigint").column
    assert (column.name, column.type) == ("c", types.BIGINT)
    assert one("alter sink s set (a.b = 1)").options["a.b"].value == "1"
    alter = one("alter source s connector with (topic = 'x')")
    assert (alter.action, alter.options["topic"].value) == ("connector", "x")
    assert one("alter source s format plain encode json").format.encode == "JSON"


def test_explain():
    explain = one("EXPLAIN (verbose, FORMAT json) CREATE MATERIALIZED VIEW v AS SELECT 1")
    assert explain.options == ("verbose", "format json")
    assert explain.statement.text == "CREATE MATERIALIZED VIEW v AS SELECT 1"
    assert explain.statement.place.column == 32
    assert one("explain analyze select 1").options == ("analyze",)
    assert isinstance(one("explain (select 1)").statement, st.Select)


def test_changes_of_rows():
    insert = one("insert into ${T} values (${N}, '${N}') returning a, b + 1 as c, *")
    assert str(insert.table) == "orders"
    assert insert.query.text == "values (${N}, '${N}')"
    assert [r.text for r in insert.returning] == ["a", "b + 1 as c", "*"]
    update = one("update t set a = 1, B = coalesce(b, 2) where c in (1, 2) returning *")
    assert [(c, q.text) for c, q in update.assignments] == [("a", "1"), ("b", "coalesce(b, 2)")]
    assert update.where.text == "c in (1, 2)"
    assert one("delete from t where a = 1 returning a").where.text == "a = 1"


def test_a_file_of_many_statements():
    text = (
        "\ufeff-- first\r\n;;\r\nSELECT 1;\r\n/* a /* nested */ comment; */\tselect ';' ; \r\n"
        "select $$;$$, 'é' -- tail\r\n;\nselect E'\\';' /* open end */"
    )
    found = parse(text, "f", {})
    assert [s.text for s in found] == [
        "SELECT 1",
        "select ';'",
        "select $$;$$, 'é'",
        "select E'\\';'",
    ]
    assert [(s.place.line, s.place.column) for s in found] == [(3, 1), (4, 31), (5, 1), (7, 1)]
    assert found[0].place.text == "SELECT 1;"
    assert parse("", "f", {}) == parse(" ;; -- x", "f", {}) == ()
