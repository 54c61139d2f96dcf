"""PostgreSQL's grammar: what leaves it is refused where it does, and nothing that belongs to it is."""

from __future__ import annotations

import pytest

from icestream.errors import NotSupportedError, SqlError
from icestream.sql import parse
from icestream.sql.statements import Select

LEFT = """
SELECT 1 FROM t JOIN u ON»
SELECT 1 FROM t JOIN u»
SELECT 1 FROM t LEFT JOIN u »WHERE true
SELECT 1 FROM t JOIN u USING (»)
SELECT 1 FROM t JOIN u USING»
SELECT 1 FROM a JOIN b JOIN c ON true»
SELECT 1 FROM a CROSS JOIN b »ON true
SELECT 1 FROM a CROSS JOIN b »USING (x)
SELECT 1 FROM a NATURAL JOIN b »ON true
SELECT 1 FROM a NATURAL »CROSS JOIN b
SELECT 1 FROM (t»)
SELECT 1 FROM VALUES »(1)
SELECT 1 FROM t LIMIT 1 »PERCENT
SELECT 1 FROM t LIMIT 50%»
SELECT 1 FROM t LIMIT 1», 2
SELECT 1 FROM t LIMIT 1 »ROWS
SELECT 1 FROM t LIMIT 1 »WITH TIES
SELECT 1 FROM t LIMIT 2 »PERCENT WITH TIES
SELECT 1 FROM t ORDER BY x ASC »DESC
SELECT count(*», 1) FROM t
SELECT sum(x) OVER (PARTITION BY») FROM t
SELECT sum(x) OVER (ROWS») FROM t
SELECT 1, »FROM t
SELECT 1 FROM t,»
SELECT 1 FROM t, »WHERE true
SELECT 1 FROM t GROUP BY x,»
SELECT 1 FROM t ORDER BY x,»
VALUES (1),»
VALUES (1,»)
SELECT 1 IN (1,»)
SELECT abs(1,»)
SELECT ROW(1,»)
SELECT (1, 2,»)
SELECT ARRAY[1,»]
WITH w (a,») AS (SELECT 1) SELECT 1
SELECT 1::int»(5)
SELECT 1::text»(5)
SELECT 1 < 2 »= true
SELECT 1 BETWEEN 0 AND 2 »BETWEEN 3 AND 4
SELECT 'a' LIKE 'b' »LIKE 'c'
SELECT x NOT »NULL FROM t
SELECT 1 AS »'a'
SELECT left »FROM t
"""
TAKEN = """
SELECT 1 FROM a JOIN b JOIN c ON true ON true
SELECT 1 FROM a JOIN b CROSS JOIN c ON true
SELECT 1 FROM ((a JOIN b ON true) JOIN c USING (x)) AS q
SELECT 1 FROM ((SELECT 1) UNION (SELECT 2)) AS q
SELECT 1 FROM ((SELECT 1 AS x) AS p CROSS JOIN u) AS q
((SELECT 1) UNION ALL (VALUES (2))) ORDER BY 1 LIMIT 1
SELECT ((SELECT 1) + 1) * 2, ((SELECT 1)), ((1)), ((1, 2)) = (1, 2)
SELECT a IS NULL IS NULL, a IN (1) IN (true), 1 = ANY (b) = true, NOT a = b AND c FROM t
SELECT 1 = NOT a = b FROM t
SELECT x BETWEEN 1 AND 2 AND y BETWEEN SYMMETRIC 3 + 1 AND 4 FROM t
SELECT 1 AS one, 2 "two", 3 AS "three", 4 four FROM t
SELECT - x ^ 2, ~ x, x::numeric(5, 2)[1], (x).y.z[1:2], x[:2], t.*, * FROM t
SELECT trim(BOTH 'x' FROM y), trim(y), substring(x FROM 1 FOR 2), overlay(x PLACING y FROM 1), position('a' IN b) FROM t
SELECT extract(epoch FROM x), cast(x AS double precision), x AT TIME ZONE 'utc' FROM t
SELECT DATE '2024-01-01', TIMESTAMP WITH TIME ZONE '2024-01-01', INTERVAL '1' DAY, interval FROM t
SELECT count(*) FILTER (WHERE x > 1) OVER (w ORDER BY y ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t WINDOW w AS (PARTITION BY z)
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x), string_agg(DISTINCT x, ',' ORDER BY x) FROM t
SELECT x FROM t GROUP BY GROUPING SETS ((), (x), ROLLUP (y, z)), CUBE (a) HAVING true
SELECT x FROM t ORDER BY x DESC NULLS LAST OFFSET 1 ROWS FETCH FIRST 2 ROWS WITH TIES
SELECT DISTINCT ON (x, y) z FROM LATERAL (SELECT 1) AS q (a), generate_series(1, 2) WITH ORDINALITY AS g (a, b)
SELECT 'a'
 'b' || 'c', CASE x WHEN 1 THEN 2 ELSE 3 END, CASE WHEN a THEN b END, EXISTS (SELECT 1), ARRAY(SELECT 1)
SELECT a FROM t FOR SYSTEM_TIME AS OF now() - '10' SECOND
SELECT f(x)[1], ARRAY[1, 2][1], ROW(1, 'a')::struct<a int, b struct<c varchar>>, m::map(varchar, int) FROM t
SELECT sum(x) OVER (ORDER BY y SESSION WITH GAP INTERVAL '1 m') FROM SESSION(t PARTITION BY a, y, INTERVAL '1 m')
SELECT 1 FROM a ASOF LEFT JOIN b ON a.x = b.x AND a.t >= b.t
SELECT values, row, time, "select", year FROM t AS x (interval)
"""


def statements(texts: str) -> list[str]:
    return texts.strip().replace("\n '", "\t'").splitlines()


@pytest.mark.parametrize("marked", statements(LEFT))
def test_what_leaves_the_grammar_is_refused_where_it_does(marked: str) -> None:
    before, _, after = marked.partition("»")
    with pytest.raises(SqlError) as caught:
        parse(before + after, env={})
    assert caught.value.message.startswith("syntax error: unexpected")
    assert caught.value.code == "42601"
    assert caught.value.place is not None
    assert caught.value.place.column == len(before) + 1


@pytest.mark.parametrize("text", statements(TAKEN))
def test_what_belongs_to_the_grammar_is_taken(text: str) -> None:
    (statement,) = parse(text.replace("\t'", "\n'"), env={})
    assert isinstance(statement, Select)


@pytest.mark.parametrize("text", ["1 == 1", "1 ** 2", "~-1", "1 <=> 2", "a @-1", "1 =~ 2"])
def test_operators_are_cut_as_in_postgres(text: str) -> None:
    with pytest.raises(SqlError) as caught:
        parse(f"SELECT {text}", env={})
    assert caught.value.code in ("42883", None)
    parse("SELECT 1 =-1, 2*-1, a->-1, a-- a comment\n=/* another */-1 FROM t", env={})


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (r"E'\ud83d\ude00'", "\U0001f600"), (r"E'\U0001F600'", "\U0001f600"), (r"E'\u00e4\xc3\xa4\303\244'", "äää"),
        (r"E'it''s \' \\ \n \x'", "it's ' \\ \n x"), (r"E'\x41\101'", "AA"), ("E''", ""),
    ],
)  # fmt: skip
def test_strings_with_escapes(literal: str, value: str) -> None:
    (statement,) = parse(f"SELECT {literal}", env={})
    assert isinstance(statement, Select)
    assert statement.query.tree.expressions[0].this == value


@pytest.mark.parametrize(
    ("literal", "code"),
    [
        (r"E'\ud83d'", "42601"), (r"E'\ude00'", "42601"), (r"E'\ud83dx'", "42601"), (r"E'\ud83d\n\ude00'", "42601"),
        (r"E'\ud83d\u0041'", "42601"), (r"E'\U00110000'", "42601"), (r"E'\u00'", "22025"), (r"E'\U1234'", "22025"),
        (r"E'\0'", "22021"), (r"E'\x00'", "22021"), (r"E'\u0000'", "22021"), (r"E'\xe4'", "22021"), (r"E'\377'", "22021"),
    ],
)  # fmt: skip
def test_strings_that_are_no_text(literal: str, code: str) -> None:
    with pytest.raises(SqlError) as caught:
        parse(f"SELECT {literal}", env={})
    assert caught.value.code == code
    assert caught.value.place is not None


@pytest.mark.parametrize("text", ["'a\0'", "$$\0$$", 'x AS "\0"', "'\ud83d'", "N'\0'", "1 -- \0"])
def test_no_text_has_a_nul_or_half_a_letter(text: str) -> None:
    with pytest.raises(SqlError) as caught:
        parse(f"SELECT {text}", env={})
    assert caught.value.code == "22021"


@pytest.mark.parametrize(
    "text",
    [
        "WITH w AS (SELECT 1) INSERT INTO t VALUES (1)", "WITH w AS (SELECT 1) UPDATE t SET x = 1",
        "WITH w AS (SELECT 1) DELETE FROM t", "SELECT U&'\\0061'", 'SELECT U&"d\\0061t" FROM t',
    ],
)  # fmt: skip
def test_what_is_known_and_missing(text: str) -> None:
    with pytest.raises(NotSupportedError) as caught:
        parse(text, env={})
    assert caught.value.place is not None


@pytest.mark.parametrize(
    "text",
    [
        "VALUES (1, DEFAULT)", "INSERT INTO t VALUES (DEFAULT)", "INSERT INTO t VALUES (1, default), (DEFAULT, 2)",
        "UPDATE t SET v = DEFAULT WHERE id = 1", "UPDATE t SET v = DEFAULT, w = 1 RETURNING *",
        "WITH w AS (SELECT 1) INSERT INTO t SELECT 1", "WITH a AS (SELECT 1), b AS (SELECT 2) INSERT INTO t (x) SELECT * FROM b",
        "WITH a AS (SELECT 1) INSERT INTO t WITH b AS (SELECT * FROM a) SELECT * FROM b UNION SELECT 1",
    ],
)  # fmt: skip
def test_defaults_and_with_before_insert(text: str) -> None:
    parse(text, env={})


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE t SET v = DEFAULT + 1", "INSERT INTO t VALUES (DEFAULT + 1)", "INSERT INTO t VALUES ((DEFAULT))",
        "WITH a AS (SELECT 1), INSERT INTO t SELECT 1", "WITH a AS (SELECT 1) b INSERT INTO t SELECT 1",
        "WITH INSERT INTO t SELECT 1", "SELECT DEFAULT", "WITH a AS (SELECT 1) INSERT INTO t",
    ],
)  # fmt: skip
def test_wrong_defaults_and_with_before_insert(text: str) -> None:
    with pytest.raises(SqlError) as caught:
        parse(text, env={})
    assert caught.value.place is not None
    assert not isinstance(caught.value, NotSupportedError)
