"""Every error stands where the mistake is. ¦ marks the place; it is not part of the text."""

from __future__ import annotations

import pytest

from icestream.errors import NotSupportedError
from tests.unit.sql.helpers import fails_at_mark, failure

CASES = [
    ("¦CREAT TABLE t (a int)", "no statement starts with CREAT", "did you mean CREATE?"),
    ("pause ¦k", "expected the end of the statement", None),
    ("¦'x'", "no statement starts with a string", "statements start with"),
    ("create ¦tabel t (a int)", "expected the kind of an object, found tabel", "'TABLE'"),
    ("create table ¦order (a int)", "found order", 'write "order"'),
    ("create table t¦", "expected the columns", None),
    ("create table a.¦1", "expected the name of the table, found", None),
    ("create table t (a ¦inte)", "unknown type inte", "did you mean 'int'?"),
    ("create table t (a numeric(¦50, 2))", "does not exist", "1 to 38"),
    ("create table t (a numeric(¦x))", "expected a whole number, found x", None),
    ("create table t (a int¦(3))", "int takes no arguments", None),
    ("create table t (a map(¦jsonb, int))", "cannot be the key of a map", "varchar"),
    ("create table t (a struct<b int, ¦b int>)", "field b is there twice", None),
    ("create table t (a struct<b int¦)", "expected >, found )", None),
    ("create table t (a int, ¦A int)", "column a is there twice", None),
    ("create table t (a int, ¦\"a\" int)", "column a is there twice", None),
    ("create table t (¦a, b int)", "column a has no type", None),
    ("create table t (a int ¦b int)", "expected , or ), found b", None),
    ("create table t (a int,\n primary key (¦aa))", "there is no column aa", "'a'"),
    ("create table t (a int primary key, ¦primary key (a))", "a second PRIMARY KEY", None),
    ("create table t (a int, primary key (a, ¦a))", "in the primary key twice", None),
    ("create table t (id int, watermark for ¦ix as ix)", "there is no column ix", None),
    ("create table t (a int as b ¦c)", "expected an expression without", None),
    ("create table t (a int as (b +¦))", "ADD is incomplete, found )", None),
    ("create table t (a int) engine = ¦icberg", "expected an engine", "'ICEBERG'"),
    ("create table t (a int) on conflict ¦explode", "DO NOTHING", None),
    (
        "create table t (a int) with version column (a) ¦with version column (a)",
        "a second WITH VERSION COLUMN",
        None,
    ),
    ("create table t (a int, primary key (¦_rw_kafka_key))", "there is no column", None),
    ("create table t (a int) append only ¦append only", "a second APPEND ONLY", None),
    ("create source s (a int) ¦fomat plain encode json", "found fomat", None),
    ("create source s (a int) ¦row format json", "the old spelling", "FORMAT PLAIN"),
    ("create source s (a int) format ¦plan encode json", "expected a format", "'PLAIN'"),
    ("create source s (a int) format plain encode ¦jsn", "expected an encoding", "'JSON'"),
    ("create source s (a int) include ¦keys as k", "what to include", "'KEY'"),
    ("create source s with (a = 1, ¦A = 2)", "option a is there twice", None),
    ("create source s with (a ¦'x')", "expected =, found a string", None),
    ("create source s with (a ¦b)", "expected =, found b", None),
    ("create source s with (a = ¦)", "expected a value, found )", None),
    ("create source s with (a = 'x'¦", "expected , or ), found the end", None),
    ("create source s with (a = 'x', ¦, b = 1)", "expected an option, found ,", None),
    ("create sink s ¦with (a = 1)", "expected FROM, AS or INTO, found with", None),
    ("create sink s from t¦", "expected WITH", None),
    ("create view v as ¦insert into t values (1)", "expected a query", None),
    ("create view v as select 1 ¦emit on window close", "expected the end", None),
    ("select 1 ¦emit on window close", "does not belong here", "CREATE MATERIALIZED VIEW"),
    ("select a b ¦c from t", "unexpected c", None),
    ("select (1\n  ¦from t", "expected ), found from", None),
    ("select (1, 2¦", "expected )", None),
    ("select a from t where¦", "WHERE is incomplete", None),
    ("select a from t where¦; select 1", "WHERE is incomplete", None),
    ("select count(*) from ¦where x", "unexpected where", None),
    ("select 1 ¦)", "expected the end of the statement, found )", None),
    ("select ¦'abc", "this string does not end", "end it with '"),
    ("select\n\t¦\"abc", "this quoted name does not end", None),
    ("select ¦$x$abc$$", "this string does not end", "end it with $x$"),
    ("select 1 ¦/* a /* b */", "this comment does not end", "nest"),
    ("select ¦'${", "this string does not end", None),
    ("create table ¦${", "expected the name of the table, found $", None),
    ("alter table t ¦explode", "expected what to alter", "RENAME TO"),
    ("alter table t set ¦paralelism = 3", "expected a setting", "'PARALLELISM'"),
    ("drop ¦tables x", "kind of an object", "'TABLE'"),
    ("drop table a ¦b", "expected CASCADE or the end", None),
    ("show columns¦", "expected FROM", None),
    ("show create ¦tabl t", "kind of an object", "'TABLE'"),
    ("set x ¦3", "expected TO", None),
    ("explain¦", "a statement to explain", None),
    ("explain ¦explain select 1", "a statement to explain", None),
    ("explain ¦selct 1", "no statement starts with selct", "SELECT"),
    ("insert into t (a, a¦", "expected ), found the end", None),
    ("insert into t ¦(a, a) values (1, 2)", "twice", None),
    ("update t set a = 1, ¦a = 2", "column a is set twice", None),
    ("delete from t where¦", "expected a condition, found the end", None),
    ("drop table ¦a.b.c", "the database in a.b.c", "schema.name"),
    ("drop table ¦\"\"", "cannot be empty", None),
    ("select a ¦{# b #} from t", "cannot be cut into words", None),
    ("select 1¦_000", "_000 is stuck to a number", None),
    ("select 1;\nselect a, ¦${NOPE}", "environment variable NOPE is not set", None),
    ("create source s with (a = 'x${N}¦${AWS_ACCES_KEY}')", "AWS_ACCES_KEY is not set", "AWS_ACCESS_KEY"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message", "remedy"), CASES, ids=[case[0] for case in CASES])
def test_place_and_message(text, message, remedy):
    error = fails_at_mark(text)
    assert message in error.message
    if remedy:
        assert error.remedy is not None
        assert remedy in error.remedy


@pytest.mark.parametrize(
    "text",
    [
        "¦begin",
        "¦truncate t",
        "create ¦function f() returns int",
        "create or replace ¦table t (a int)",
        "drop ¦database d",
        "create table t (a int ¦unique)",
        "create table t (a int, ¦check (a > 1))",
        "create table t (a timestamp¦(3))",
        "insert into t ¦default values",
        "insert into t values (1) ¦on conflict do nothing",
        "update t set ¦(a, b) = (1, 2)",
        "update t set a = 1 ¦from u",
        "delete from t ¦using u",
    ],
)
def test_not_yet(text):
    error = fails_at_mark(text)
    assert isinstance(error, NotSupportedError)
    assert error.message.startswith("not supported yet: ")


def test_the_whole_message():
    error = failure("create table t (\r\n\ta inte,\r\n\tb int)")
    assert str(error) == (
        "test.sql:2:4: unknown type inte\n  \ta inte,\n  \t  ^\n  hint: did you mean 'int'?"
    )


@pytest.mark.parametrize(
    "text",
    [
        "create source s with (password = 'hunter2' x)",
        "create source s with (password 'hunter2')",
        "create source s with (a = 'token', s3.secret.key = 'hunter2",
        "create secret s with (a = 'x') as 'hunter2' z",
        "create source s with (url = 'jdbc://joe:hunter2@host/db' -)",
        "create source s with (sasl.jaas.config = $$hunter2$$ z)",
        "create table ${PG_PASSWORD} x",
    ],
)
def test_no_error_shows_a_secret(text):
    assert "hunter2" not in str(failure(text))
