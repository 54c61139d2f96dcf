"""No syntax is skipped: what the engine does not look at is refused."""

from __future__ import annotations

import pytest
from sqlglot import exp

from icestream.errors import NotSupportedError, SqlError
from icestream.functions.trees import _PLAIN, _SPECIAL, OPERATORS
from icestream.sql import parse
from icestream.sql.syntax import FLAGS, UNDERSTOOD, skipped_argument

SKIPPED = """
SELECT 1 AS a, 2 AS b UNION CORRESPONDING SELECT 3 AS b, 4 AS a
SELECT 1 AS a UNION ALL CORRESPONDING BY (a) SELECT 2 AS a
SELECT 1 AS a INTERSECT CORRESPONDING SELECT 2 AS a
SELECT 1 AS a UNION BY NAME SELECT 2 AS a
SELECT regexp_replace(a, b, c, 1, 2) FROM t
SELECT regexp_substr(a, b, 2) FROM t
SELECT instr(a, b, 3) FROM t
SELECT x[1:2:3] FROM t
SELECT x[1, 2] FROM t
SELECT CAST(a AS int FORMAT 'x') FROM t
SELECT initcap(a, 'x') FROM t
SELECT a FROM t LIMIT 3 BY a
SELECT a FROM t GROUP BY ALL
SELECT a FROM t GROUP BY DISTINCT ROLLUP (a), ROLLUP (a)
SELECT a FROM t ORDER BY a WITH FILL
SELECT a FROM t CLUSTER BY a
SELECT a FROM t SORT BY a
SELECT a FROM t FOR UPDATE
SELECT a FROM t TABLESAMPLE (3)
SELECT a FROM t PIVOT (sum(a) FOR b IN (1, 2))
SELECT a FROM t, LATERAL VIEW explode(b) x
WITH x AS (SELECT 1) SEARCH DEPTH FIRST BY a SET b SELECT 1
"""


@pytest.mark.parametrize("sql", SKIPPED.strip().splitlines())
def test_what_is_not_looked_at_is_refused(sql: str) -> None:
    with pytest.raises(NotSupportedError):
        parse(sql, env={})


@pytest.mark.parametrize("sql", ["a ?? b", "a <=> b", "!a", "!!a", "a // b", "a ** b ** c"])
def test_operators_of_other_databases(sql: str) -> None:
    with pytest.raises(SqlError):
        parse(f"SELECT {sql} FROM t", env={})


def every_node() -> list[type[exp.Expr]]:
    """All nodes that the binder takes."""
    return [*UNDERSTOOD, *OPERATORS, *_PLAIN, *_SPECIAL]


@pytest.mark.parametrize("kind", dict.fromkeys(every_node()), ids=lambda kind: kind.__name__)
def test_every_argument_is_understood_or_refused(kind: type[exp.Expr]) -> None:
    """A mark, a text or, where arguments are picked by name, an expression: none of them gets lost."""
    for name in kind.arg_types:
        for value in (True, "x", exp.Literal.number(1)):
            if kind in (exp.Bracket, exp.Initcap, exp.Group):
                continue  # with rules of their own: see above
            skipped = skipped_argument(kind(**{name: value}))
            if kind in UNDERSTOOD:
                assert (skipped is None) == (name in UNDERSTOOD[kind])
            elif isinstance(value, exp.Expr):
                assert (skipped is None) == (name not in FLAGS)
            else:
                assert (skipped is None) == (name in FLAGS)
