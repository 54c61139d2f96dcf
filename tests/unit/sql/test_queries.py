"""Queries: names are folded, nodes know their places, RisingWave's own syntax parses or is refused."""

from __future__ import annotations

import pytest
from sqlglot import exp

from icestream.errors import NotSupportedError, SqlError
from tests.unit.sql.helpers import fails_at_mark, failure, one


def tree(text: str) -> exp.Expression:
    return one(text).query.tree


def test_names_are_folded_and_quoted():
    found = tree('select A, "B", t.C as D, MyFn(e) from S.T as t group by "B" order by D')
    names = {(i.name, i.args["quoted"]) for i in found.find_all(exp.Identifier)}
    assert names == {(n, True) for n in ("a", "B", "t", "c", "d", "e", "s")}
    assert found.find(exp.Anonymous).this == "myfn"


def test_literals_of_every_quoting_are_strings():
    found = tree("select 'a''b', E'c\\'d\\n', $$e$$, $x$f$x$, E'\\u00e9\\x41\\101'")
    assert [e.this for e in found.expressions] == ["a'b", "c'd\n", "e", "f", "éAA"]
    assert all(e.is_string for e in found.expressions)


def test_comments_do_not_reach_the_tree():
    found = tree("select /* one */ a -- two\n from t")
    assert not any(node.comments for node in found.walk())


@pytest.mark.parametrize(
    ("text", "kind", "line", "column"),
    [
        ("select a,\n  Foo(b) from t", exp.Anonymous, 2, 3),
        ("select a,\n  sum(b) from t", exp.Sum, 2, 3),
        ("select 1\n from t\twhere x.y = 2", exp.Where, 2, 15),
        ("select 'é', a from t", exp.Column, 1, 13),
        ("select a from t join\r\n s.u on true", exp.Join, 2, 2),
        ("select ${T}.a + ${N}, sum(b) from ${T}", exp.Sum, 1, 23),
        ("select ${T}.a + ${N}, b from ${T}", exp.Add, 1, 8),
        ("select b::int, a from t", exp.Cast, 1, 8),
        ("select *  from t", exp.Star, 1, 8),
        ("select null from t", exp.Null, 1, 1),
    ],
)
def test_place_of_a_node(text, kind, line, column):
    query = one(text).query
    place = query.place_of(query.tree.find(kind))
    assert (place.line, place.column) == (line, column)
    assert place.text == text.split("\n")[line - 1].rstrip("\r")


def test_place_of_a_node_in_a_later_statement():
    view = one(";\n; create view v as\n select a,\n   lower(b) from t").query
    assert (view.place.line, view.place.column) == (3, 2)
    place = view.place_of(view.tree.find(exp.Lower))
    assert (place.line, place.column) == (4, 4)


@pytest.mark.parametrize(
    "text",
    [
        "select * from a join b for system_time as of proctime() on a.x = b.x",
        "select * from a asof left join b on a.x = b.x and a.t >= b.t",
        "select * from tumble(t, ts, interval '1 minute') w",
        "select * from hop(t, ts, interval '1 minute', interval '1 hour')",
        "with a as (select 1), b as (select 2) select * from a, b",
        "select distinct on (a) a, b from t order by a, b desc nulls last limit 3 offset 1",
        "select row_number() over (partition by a order by b) from t",
        "select sum(a) over (partition by b order by c session with gap interval '1 hour') from t",
        "select sum(a) over w from t window w as (order by c session with gap interval '1' hour)",
        "select * from session(t, ts, interval '1 minute') w",
        "select * from session(t partition by a, b, ts, interval '1 minute')",
        "select session from session",
        "select count(*) filter (where a > 1) from t",
        "select a ->> 'b', c[1], d is distinct from e, f ~* 'x', g @> '{}'::jsonb from t",
        "select date '2020-01-01', timestamptz '2020-01-01 00:00:00+02', interval '1' hour",
        "select interval '1.5 seconds', interval '0.5 day', interval '1.5 hours' * 2",
        "values (1, 'a'), (2, 'b')",
        "(select 1) union all (select 2) order by 1",
        "select x from unnest(array[1, 2]) as u(x)",
        "select case when a then 1 else 2 end, a between 1 and 2, exists (select 1) from t",
        "select a at time zone 'UTC', extract(epoch from b), cast(c as numeric(10, 2)) from t",
    ],
)
def test_parses(text):
    query = one(text).query
    assert query.text == text
    assert not query.tree.find(exp.Command)


@pytest.mark.parametrize(
    "between", ["\n", " \n ", "\r\n", " -- c\n", "\n-- c\n -- d\n\t"]
)  # fmt: skip
def test_strings_on_several_lines_are_one(between):
    tree = one(f"select date '2020-01'{between}'-02', 'it''s'{between}' one'{between}''").query.tree
    found = [literal.this for literal in tree.find_all(exp.Literal)]
    assert sorted(found) == ["2020-01-02", "it's one"]


@pytest.mark.parametrize(
    "text",
    [
        "select 'a' ¦'b'",
        "select 'a' /* c */ ¦'b'",
        "select 'a' /*\n*/ ¦'b'",
        "select 'a'\n'b' ¦'c'",
        "insert into t values ('a' ¦'b')",
        "select ¦()",
        "select a ¦in () from t",
        "select (a, ¦()) from t",
    ],
)
def test_syntax_errors(text):
    error = failure(text.replace("¦", ""))
    assert not isinstance(error, NotSupportedError)
    assert error.code in (None, "42601")
    if "'" in text:
        fails_at_mark(text)


@pytest.mark.parametrize(
    "text",
    [
        "select a from t group by a with ¦rollup",
        "select a from t group by a with ¦cube",
        "select a from t group by a, b ¦grouping sets ((a))",
    ],
)
def test_groupings_of_other_databases_are_refused(text):
    failure(text.replace("¦", ""))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("select ¦aggregate:f(x) from t", "aggregate:"),
        ("with c ¦as changelog from t select * from c", "CHANGELOG"),
        ("with a as (insert into ¦t values (1) returning *) select * from a", "inside a query"),
        ("select * into ¦x from t", "SELECT INTO"),
        ("select ¦$1", "parameters"),
        ("select array_transform(a, ¦|x| x * 2) from t", "lambdas"),
    ],
)
def test_refused(text, what):
    error = fails_at_mark(text)
    assert isinstance(error, NotSupportedError)
    assert what in error.message


@pytest.mark.parametrize("text", ["ARRAY 1,[2]", "CAST(x AS ARRAY)", "MAP '1'", "x::map", "1::numeric(\ud7ff, 2)",
                                  "1::numeric(a)", "'a'::varchar(b)", "1::numeric(99999999999)", "now()::timestamp('x')"])  # fmt: skip
def test_types_have_the_parameters_that_they_need(text):
    with pytest.raises(SqlError):
        tree(f"SELECT {text} FROM t")
    tree("SELECT ARRAY[1], CAST(x AS int[]), x::int[][], 1::numeric(5, 2), 'a'::varchar(3) FROM t")


@pytest.mark.parametrize(
    "type",
    ["boolean", "smallint", "int", "int4", "integer", "bigint", "real", "float", "double precision", "numeric", "text",
     "varchar", "character varying", "bytea", "date", "time", "timestamp", "timestamptz", "jsonb"],
)  # fmt: skip
@pytest.mark.parametrize("form", ["CAST('1' AS {})", "CAST(NULL AS {})", "'1'::{}", "NULL::{}"])
def test_constants_in_lists_are_read_as_elsewhere(form: str, type: str) -> None:
    """Items of lists have a short way through the parser."""
    constant = form.format(type)
    item = tree(f"SELECT f({constant}, 1)").expressions[0].expressions[0]
    assert item.sql("risingwave") == tree(f"SELECT {constant} AS x").expressions[0].this.sql(
        "risingwave"
    )
