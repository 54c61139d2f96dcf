"""No syntax is skipped: what our parser takes, PostgreSQL's takes too, and what our grammar refuses, PostgreSQL refuses.

Random and mutated texts: `COUNT=100000` tries so many. PostgreSQL only parses them, nothing runs.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.pq import ExecStatus

from icestream.errors import SqlError
from icestream.plan.query import bind_query
from icestream.sql import parse
from icestream.sql import statements as st
from tests.fuzz.served import open_service
from tests.fuzz.sql import SqlFuzzer
from tests.seeds import draw_seed
from tests.services.postgres import PostgresServer, postgres
from tests.shapes import random_query, random_schema

__all__ = ["postgres"]
pytestmark = pytest.mark.services

TOKEN = re.compile(r"\s+|\w+|'(?:[^']|'')*'|\"[^\"]*\"|[-+*/<>=~!@#%^&|?:]+|.", re.DOTALL)
WORDS = (
    ",", "(", ")", "()", "[", "]", ".", "*", "ON", "USING", "JOIN", "CROSS", "NATURAL", "LEFT", "ASC", "DESC", "ROWS", "WITH TIES",
    "PERCENT", "LIMIT 1", "OFFSET 1", "ORDER BY", "GROUP BY", "PARTITION BY", "AS", "AS 'a'", "NOT", "NULL", "NOT NULL", "IS", "=",
    "==", "<", "DISTINCT", "ALL", "ANY", "OVER", "FILTER", "WHERE", "HAVING", "1", "'a'", "x", "t", "::int", "::int(5)", "CASE", "END",
    "WHEN", "THEN", "ELSE", "BETWEEN", "AND", "OR", "IN", "LIKE", "ESCAPE", "UNION", "VALUES", "SELECT", "FROM", "INTERVAL", "DATE",
    "TO", "HOUR", "ARRAY", "ROW", "EXISTS", "CAST", "COLLATE", "AT TIME ZONE", "FETCH FIRST", "ONLY", "LATERAL", "WINDOW", "NULLS FIRST",
    "EXTRACT", "FOR", "-", "+", "||", "~", "QUALIFY", "WITHIN GROUP", "RETURNING", "DEFAULT", "SYMMETRIC", "EXCLUDE", "TRUE", "IGNORE NULLS",
    "int", "text", "timestamp", "with", "user", "left", "values", "interval", "OVERLAPS", "SIMILAR TO", "STRUCT", "MAP", "%", "=>", ":",
)  # fmt: skip
OURS = {
    r"\bas\s+of\b": "time travel and temporal joins",
    r"\basof\b": "ASOF joins",
    r"\bsession\b": "session windows",
    r"[\])]\s*\[": "elements of a function's result without brackets",
    r"\bstruct\b|\bmap\b": "types of nested values",
    r"\bposition\s*\([^()]*,": "position(a, b)",
    r"\btry_cast\b": "refused by the planner",
    r"\*\s*except\b": "refused by the planner",
    r"\bnulls\b": "IGNORE NULLS is refused by the planner",
    r"^(?:insert|update|delete)\b.*\b(?:overlaps|left|is|like|natural|join|cross)\b": "tables and columns named so",
    r"\bcurrent_time\w*\s*\(\s*\)|\blocaltime\w*\s*\(\s*\)": "now() by its other names",
}
"""Syntax that PostgreSQL has not. A text with it is not compared."""
ALLOWED = ("subquery in FROM must have an alias", "VALUES in FROM must have an alias")
"""What PostgreSQL 15 asks for and later ones do not."""
REFUSED = re.compile(
    r"unexpected (?:default|(?:current_|session_)?user|current_\w+|local\w+)\b"
    r"|\)\s*(?:as\s+)?\w+\s*\([^()]*\w\s+\w+[^()]*\)|\bxml|\bnormalize\b|\btreat\b|\bcollation\b|\bsetof\b",
    re.IGNORECASE,
)
"""What PostgreSQL's grammar takes and ours need not: FROM user, SELECT DEFAULT, types of a function's columns, XML."""


@pytest.fixture(scope="module")
def connection(postgres: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres.dsn, autocommit=True) as made:
        yield made


@pytest.fixture(scope="module")
def fuzzer() -> Iterator[SqlFuzzer]:
    with open_service() as service:
        yield SqlFuzzer(service, draw_seed("syntax"))


def answer(connection: psycopg.Connection[Any], text: str) -> tuple[str, str]:
    """The SQLSTATE and the message of parsing a text; nothing is run."""
    result = connection.pgconn.prepare(b"", text.encode())
    if result.status == ExecStatus.COMMAND_OK:
        return "00000", ""
    fields = (psycopg.pq.DiagnosticField.SQLSTATE, psycopg.pq.DiagnosticField.MESSAGE_PRIMARY)
    state, message = ((result.error_field(f) or b"").decode() for f in fields)
    return state, message


def texts(fuzzer: SqlFuzzer, count: int) -> Iterator[str]:
    """Queries that were written, generated, and generated from a grammar; most with a token or two changed."""
    r = fuzzer.r
    written = [
        text
        for text in (re.sub(r"^(?:query|statement)\b.*\n", "", t) for t in fuzzer.texts)
        if len(text) < 1500 and re.match(r"(?i)select|with|values|insert|update|delete|\(", text)
    ]
    for _ in range(count):
        which = r.random()
        if which < 0.5:
            text = r.choice(written)
        elif which < 0.75:
            schema = random_schema(random.Random(r.randrange(1 << 32)))
            text = random_query(r, schema).text
        else:
            text = fuzzer.grammar.query(2)
        yield mutated(text, r) if r.random() < 0.9 else text


def mutated(text: str, r: random.Random) -> str:
    """A token dropped, doubled, moved or exchanged."""
    tokens = [t for t in TOKEN.findall(text) if not t.isspace()] or [""]
    for _ in range(r.choice((1, 1, 1, 2, 3))):
        at, other = r.randrange(len(tokens)), r.randrange(len(tokens))
        match r.randrange(6):
            case 0:
                tokens[at] = ""
            case 1:
                tokens[at] += " " + tokens[at]
            case 2:
                tokens.insert(other, tokens.pop(at))
            case 3:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 4:
                tokens[at] = r.choice(WORDS)
            case 5:
                tokens.insert(at, r.choice(WORDS))
    return " ".join(tokens)


def queries(text: str) -> list[str]:
    """The texts of what our parser takes, or its error."""
    found = []
    for statement in parse(text, "<sql>", None):
        if isinstance(statement, st.Select | st.Insert | st.Update | st.Delete):
            found.append(statement.text)
    return found


def is_bound(fuzzer: SqlFuzzer, text: str) -> bool:
    """Whether our planner takes a query as well."""
    try:
        for statement in parse(text, "<sql>", None):
            if isinstance(statement, st.Select):
                bind_query(statement.query, fuzzer.names.relation)
                return True
    except SqlError:
        return False
    return False


def compare(connection: psycopg.Connection[Any], fuzzer: SqlFuzzer, text: str) -> str | None:
    """What is wrong with our reading of a text; None if nothing is."""
    try:
        taken = queries(text)
    except SqlError as error:
        if not error.message.startswith(("syntax error: unexpected", "operator does not exist")):
            return None
        state, message = answer(connection, text)
        unknown = error.code == "42883" and state != "00000"
        if state == "42601" or unknown or REFUSED.search(f"{error.message} {text}"):
            return None
        return f"we say {error}; PostgreSQL {state} {message}"
    for query in taken:
        state, message = answer(connection, query)
        if state != "42601" or message in ALLOWED:
            continue
        if message.startswith("syntax error") or is_bound(fuzzer, query):
            return f"taken by us, PostgreSQL says {message}"
    return None


def test_what_is_taken_is_syntax_of_postgres(
    connection: psycopg.Connection[Any], fuzzer: SqlFuzzer
) -> None:
    ours = re.compile("|".join(OURS), re.IGNORECASE)
    compared = taken = 0
    wrong: list[str] = []
    for text in texts(fuzzer, int(os.environ.get("COUNT", "3000"))):
        if ours.search(text) or "\0" in text or "$" in text:
            continue
        compared += 1
        if found := compare(connection, fuzzer, text):
            wrong.append(f"{text}\n  -- {found}")
        taken += not found
    assert not wrong, f"{len(wrong)} texts:\n" + "\n".join(sorted(wrong, key=len)[:25])
    assert compared > 1000
