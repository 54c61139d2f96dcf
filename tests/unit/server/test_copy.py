"""COPY … TO STDOUT: the statement, and the lines."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest

from icestream import types as t
from icestream.errors import SqlError
from icestream.server.backend import Column
from icestream.server.copy import CopyWriter
from icestream.sql import parse_client_text
from icestream.sql.session_statements import CopyOptions, CopyTo

COLUMNS = (Column("a", t.INTEGER), Column("b", t.VARCHAR))


@pytest.mark.parametrize(
    ("sql", "query", "options"),
    [
        ("COPY t TO STDOUT", "SELECT * FROM t", CopyOptions()),
        ('copy s."T" (a, "B") to stdout;', 'SELECT a, "B" FROM s."T"', CopyOptions()),
        ("COPY (select 1) TO STDOUT", "select 1", CopyOptions()),
        ("-- x\ncopy (\nselect ')') to stdout", "select ')'", CopyOptions()),
        ("COPY t TO STDOUT WITH (FORMAT csv, HEADER)", "SELECT * FROM t", CopyOptions("csv", ",", "", header=True)),
        ("COPY t TO STDOUT CSV HEADER QUOTE ''''", "SELECT * FROM t", CopyOptions("csv", ",", "", "'", "'", True)),
        ("COPY t TO STDOUT WITH CSV FORCE QUOTE a, b", "SELECT * FROM t", CopyOptions("csv", ",", "", force_quote=("a", "b"))),
        ("COPY t TO STDOUT (FORMAT csv, FORCE_QUOTE *)", "SELECT * FROM t", CopyOptions("csv", ",", "", force_quote=None)),
        ("COPY t TO STDOUT WITH DELIMITER AS ';' NULL AS E'\\\\N'", "SELECT * FROM t", CopyOptions("text", ";")),
        ("COPY t TO STDOUT (FORMAT binary)", "SELECT * FROM t", CopyOptions("binary")),
        ("COPY t TO STDOUT (HEADER false, ENCODING 'UTF-8')", "SELECT * FROM t", CopyOptions()),
    ],
)  # fmt: skip
def test_statements(sql: str, query: str, options: CopyOptions) -> None:
    (statement,) = parse_client_text(sql)
    assert isinstance(statement, CopyTo)
    assert (statement.query.text, statement.options) == (query, options)


def test_a_copy_among_other_statements() -> None:
    kinds = [type(s).__name__ for s in parse_client_text("COPY t TO STDOUT; select 1")]
    assert kinds == ["CopyTo", "Select"]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("COPY t FROM STDIN", "not supported yet: COPY from the client"),
        ("COPY t TO '/tmp/x'", "not supported yet: COPY to files"),
        ("COPY t TO PROGRAM 'x'", "not supported yet: COPY to files"),
        ("COPY t TO STDOUT (ENCODING 'latin1')", "not supported yet: encodings"),
        ("COPY t TO STDOUT (FORMAT xml)", "not recognized"),
        ("COPY t TO STDOUT (QUOTE 'x')", "does not take"),
        ("COPY t TO STDOUT (FORMAT csv, DELIMITER 'xx')", "one character"),
        ("COPY t TO STDOUT (FORMAT csv, FORMAT csv)", "twice"),
        ("COPY t TO STDOUT (COLOUR 'x')", "expected an option"),
        ("COPY", "expected a relation"),
        ("COPY t", "expected TO"),
    ],
)
def test_refusals(sql: str, message: str) -> None:
    with pytest.raises(SqlError, match=message) as caught:
        parse_client_text(sql)
    assert caught.value.place is not None


@pytest.mark.parametrize(
    ("options", "row", "line"),
    [
        (CopyOptions(), (1, "a\tb\\\n"), b"1\ta\\tb\\\\\\n\n"),
        (CopyOptions(), (None, ""), b"\\N\t\n"),
        (CopyOptions(delimiter=";"), (1, "a;b"), b"1;a\\;b\n"),
        (CopyOptions("csv", ",", ""), (1, 'a"b'), b'1,"a""b"\n'),
        (CopyOptions("csv", ",", ""), (None, ""), b',""\n'),
        (CopyOptions("csv", ",", ""), (1, "a,\n"), b'1,"a,\n"\n'),
        (CopyOptions("csv", ",", "", escape="\\"), (1, 'a"\\'), b'1,"a\\"\\\\"\n'),
        (CopyOptions("csv", ",", "", force_quote=None), (1, "a"), b'"1","a"\n'),
        (CopyOptions("csv", ",", "", force_quote=("b",)), (1, "a"), b'1,"a"\n'),
        (CopyOptions("binary"), (1, None), b"\0\2\0\0\0\4\0\0\0\1\xff\xff\xff\xff"),
    ],
)
def test_lines(options: CopyOptions, row: tuple[Any, ...], line: bytes) -> None:
    assert CopyWriter(options).line(COLUMNS, UTC)(row) == line


def test_titles() -> None:
    assert CopyWriter(CopyOptions("csv", ",", "", header=True)).titles(COLUMNS) == b"a,b\n"
    assert CopyWriter(CopyOptions()).titles(COLUMNS) == b""
    assert CopyWriter(CopyOptions("binary")).titles(COLUMNS).startswith(b"PGCOPY\n")
