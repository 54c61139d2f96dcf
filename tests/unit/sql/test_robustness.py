"""Whatever the text, the parser gives statements or a SqlError with a place in that text."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

import icestream.sql
from icestream.errors import SqlError
from icestream.sql import parse
from tests.unit.sql.helpers import ENV
from tests.unit.sql.test_errors import CASES as ERRORS
from tests.unit.sql.test_statements import CASES as STATEMENTS

SEEDS = (Path(__file__).parent / "data" / "seeds.sql").read_text().split(";")
TEXTS = [*SEEDS, *(case[0] for case in STATEMENTS), *(case[0] for case in ERRORS)]
WORDS = [
    "select", "from", "where", "group", "by", "order", "with", "(", ")", "[", "]", "<", ">", ">>",
    ",", ";", ".", "..", "=", "==", "::", ":", "'", "''", "\"", "$$", "$x$", "${N}", "${", "--",
    "/*", "*/", "{%", "{{", "{#", "}}", "#", "?", "$1", "@", "`", "\\", "\u0000", "\ufeff",
    "\r\n", "\t", "\u00e9", "1", "1e", "1.5e3", "-1", "null", "not", "as", "on", "conflict",
    "emit", "window", "close", "primary", "key", "watermark", "for", "include", "header",
    "format", "plain", "encode", "json", "struct<a", "map(", "int[]", "values", "insert",
    "create", "alter", "drop", "show", "set", "explain", "over", "partition", "session", "gap",
    "changelog", "lateral", "unnest", "case", "when", "end", "E'\\'", "U&'x'", "x'zz'", "b'2'",
    "interval", "~*", "->>", "#>>", "secret", "file", "union", "all", "except", "in", "between",
    "like", "any", "array[",
]  # fmt: skip
LIMITS = settings(
    max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


def parses_or_says_where(text: str) -> None:
    wrong, statements = None, ()
    try:
        statements = parse(text, "f", ENV)
    except SqlError as error:
        wrong = error
    assert all(statement.text in text for statement in statements)
    if wrong:
        assert wrong.place is not None
        assert 1 <= wrong.place.line <= text.count("\n") + 1
        assert 1 <= wrong.place.column <= len(wrong.place.text) + 2
        assert str(wrong)


@LIMITS
@given(
    some.sampled_from(TEXTS),
    some.lists(
        some.tuples(some.floats(0, 1), some.sampled_from(WORDS), some.integers(0, 12)), max_size=4
    ),
)
def test_mutated_statements(text, edits):
    for where, word, removed in edits:
        at = int(where * len(text))
        text = text[:at] + word + text[at + removed :]
    parses_or_says_where(text)


@LIMITS
@given(some.lists(some.sampled_from(WORDS), max_size=12).map(" ".join))
def test_any_words(text):
    parses_or_says_where(text)


@LIMITS
@given(some.text(max_size=30))
def test_any_text(text):
    parses_or_says_where(text)
    parses_or_says_where("select " + text)


def test_deep_nesting():
    for text in (
        "select " + "(" * 5000 + "1" + ")" * 5000,
        "create table t (a " + "struct<a " * 500 + "int" + ">" * 500 + ")",
        "select " + " + ".join(["1"] * 3000),
        "select " + "not " * 3000 + "true",
        "explain " * 3000 + "select 1",
    ):
        parses_or_says_where(text)


def test_public_names_are_exact():
    assert icestream.sql.__all__ == ["mask", "parse", "parse_client_text", "split"]
    assert all(hasattr(icestream.sql, name) for name in icestream.sql.__all__)
