"""Operators bind as in PostgreSQL: an expression in brackets as we read it has the value that it has without them."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from sqlglot import exp

from icestream.errors import SqlError
from icestream.sql import parse
from icestream.sql.dialect import Dialect
from icestream.sql.statements import Select
from tests.seeds import draw_seed
from tests.services.postgres import PostgresServer, postgres

__all__ = ["postgres"]
pytestmark = pytest.mark.services

BINARY = (
    "+", "-", "*", "/", "%", "^", "&", "|", "#", "<<", ">>", "||", "~", "~*", "!~", "~~", "!~~", "->", "->>", "#>", "#>>", "@>",
    "<@", "&&", "?", "?|", "?&", "#-", "^@", "=", "<>", "<", "<=", ">", ">=", "LIKE", "NOT LIKE", "ILIKE", "IS DISTINCT FROM",
    "IS NOT DISTINCT FROM", "AND", "OR",
)  # fmt: skip
PREFIX = ("-", "~", "NOT")
POSTFIX = ("IS NULL", "IS NOT NULL", "ISNULL", "::text", "::int", "BETWEEN 1 AND 3", "IN (1, 2)", "IN ('a', 't')", "= ANY (ARRAY[1, 2])")  # fmt: skip
OPERANDS = (
    "1",
    "2",
    "3",
    "7",
    "TRUE",
    "FALSE",
    "NULL",
    "'a'",
    "'t'",
    "'1'",
    "2.5",
    "j",
    "j2",
    "a",
    "s",
)
COLUMNS = """(SELECT '{"a": {"b": 1}, "t": [1, 2]}'::jsonb AS j, '{"a": 1}'::jsonb AS j2, ARRAY[1, 2] AS a, 'at'::text AS s) x"""


@pytest.fixture(scope="module")
def connection(postgres: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres.dsn, autocommit=True) as made:
        made.execute("SET statement_timeout = '2s'")
        yield made


def random_expression(r: random.Random) -> str:
    def operand() -> str:
        text = r.choice(OPERANDS)
        if r.random() < 0.25:
            text = f"{r.choice(PREFIX)} {text}"
        return f"{text} {r.choice(POSTFIX)}" if r.random() < 0.12 else text

    parts = [operand()]
    for _ in range(r.randint(1, 3)):
        parts += [r.choice(BINARY), operand()]
    return " ".join(parts)


def bracketed(text: str) -> str:
    """The expression as we read it, with brackets around everything."""
    (statement,) = parse(f"SELECT {text} AS x", env={})
    assert isinstance(statement, Select)
    (tree,) = statement.query.tree.expressions
    kinds = (
        exp.Binary,
        exp.Unary,
        exp.Cast,
        exp.Between,
        exp.In,
        exp.StartsWith,
        exp.Sqrt,
        exp.Cbrt,
    )

    for node in list(tree.this.walk(bfs=False))[::-1]:
        if isinstance(node, kinds) and not isinstance(node, exp.Paren | exp.Any | exp.JSONPath):
            node.replace(exp.Paren(this=node.copy()))
    return str(tree.this.sql(dialect=Dialect))


def answer(connection: psycopg.Connection[Any], text: str) -> Any:
    try:
        return connection.execute(f"SELECT ({text})::text FROM {COLUMNS}".encode()).fetchone()
    except (psycopg.errors.SyntaxError, psycopg.errors.UndefinedFunction, psycopg.errors.DataError):
        return None
    except (psycopg.errors.DatatypeMismatch, psycopg.errors.CannotCoerce):
        return None
    except psycopg.errors.AmbiguousFunction:
        return None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("~1 + 1", "-3"), ("1 - ~1 + 1", "4"), ("2 * ~1 + 1", "-6"), ("~1 & 3", "2"), ("|/ 4 + 5", "3"),
        ("-2 ^ 2", "4"), ("2 ^ 3 ^ 2", "64"), ("1 << 2 + 1", "8"), ("1 | 2 & 0", "0"), ("5 # 1 + 1", "7"),
        ("'a' || 1 + 2", "a3"), ("'ab' LIKE 'a' || '%'", "true"), ("NOT 1 = 2", "true"), ("1 = 1 IS NULL", "false"),
        ("- 5 % 3", "-2"), ("'{\"b\": [1, 2, 3]}'::jsonb -> 'b' -> 1 + 1", "3"), ("2 - 3 - 4", "-5"),
        ("8 / 4 / 2", "1"), ("1 < 2 AND NOT 2 < 1 OR FALSE", "true"), ("3 BETWEEN 1 AND 2 + 2", "true"),
        ("2 = ANY (ARRAY[1, 2]) || 'x'", "truex"),
    ],
)  # fmt: skip
def test_known_cases(connection: psycopg.Connection[Any], text: str, value: str) -> None:
    assert answer(connection, text) == (value,)
    assert answer(connection, bracketed(text)) == (value,)


def test_random_expressions(connection: psycopg.Connection[Any]) -> None:
    seed = draw_seed("operators")
    r, compared, refused = random.Random(seed), 0, []
    for _ in range(int(os.environ.get("COUNT", "4000"))):
        text = random_expression(r)
        expected = answer(connection, text)
        if expected is None:
            continue
        try:
            read = bracketed(text)
        except SqlError:
            refused.append(text)
            continue
        assert answer(connection, read) == expected, f"SEED={seed}: {text} was read as {read}"
        compared += 1
    assert compared > 10 * len(refused), refused[:20]
