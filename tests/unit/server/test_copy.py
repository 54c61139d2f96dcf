"""COPY … TO STDOUT: the statement, and the lines."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest

from icestream import types as t
from icestream.errors import SqlError
from icestream.server.backend import Column
from icestream.server.copy import Copy, read

COLUMNS = (Column("a", t.INTEGER), Column("b", t.VARCHAR))


@pytest.mark.parametrize(
    ("sql", "copy"),
    [
        ("COPY t TO STDOUT", Copy("SELECT * FROM t")),
        ('copy s."T" (a, "B") to stdout;', Copy('SELECT a, "B" FROM s."T"')),
        ("COPY (select 1) TO STDOUT", Copy("      select 1")),
        ("-- x\ncopy (\nselect ')') to stdout", Copy("    \n      \nselect ')'")),
        ("COPY t TO STDOUT WITH (FORMAT csv, HEADER)", Copy("SELECT * FROM t", "csv", ",", "", header=True)),
        ("COPY t TO STDOUT CSV HEADER QUOTE ''''", Copy("SELECT * FROM t", "csv", ",", "", "'", "'", True)),
        ("COPY t TO STDOUT WITH CSV FORCE QUOTE a, b", Copy("SELECT * FROM t", "csv", ",", "", force_quote=("a", "b"))),
        ("COPY t TO STDOUT (FORMAT csv, FORCE_QUOTE *)", Copy("SELECT * FROM t", "csv", ",", "", force_quote=None)),
        ("COPY t TO STDOUT WITH DELIMITER AS ';' NULL AS E'\\\\N'", Copy("SELECT * FROM t", "text", ";")),
        ("COPY t TO STDOUT (FORMAT binary)", Copy("SELECT * FROM t", "binary")),
        ("COPY t TO STDOUT (HEADER false, ENCODING 'UTF-8')", Copy("SELECT * FROM t")),
        ("select 1", None),
        ("copying", None),
    ],
)  # fmt: skip
def test_statements(sql: str, copy: Copy | None) -> None:
    assert read(sql) == copy


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
        ("COPY t TO STDOUT; select 1", "expected an option"),
    ],
)
def test_refusals(sql: str, message: str) -> None:
    with pytest.raises(SqlError, match=message) as caught:
        read(sql)
    assert caught.value.place is not None


@pytest.mark.parametrize(
    ("copy", "row", "line"),
    [
        (Copy(""), (1, "a\tb\\\n"), b"1\ta\\tb\\\\\\n\n"),
        (Copy(""), (None, ""), b"\\N\t\n"),
        (Copy("", delimiter=";"), (1, "a;b"), b"1;a\\;b\n"),
        (Copy("", "csv", ",", ""), (1, 'a"b'), b'1,"a""b"\n'),
        (Copy("", "csv", ",", ""), (None, ""), b',""\n'),
        (Copy("", "csv", ",", ""), (1, "a,\n"), b'1,"a,\n"\n'),
        (Copy("", "csv", ",", "", escape="\\"), (1, 'a"\\'), b'1,"a\\"\\\\"\n'),
        (Copy("", "csv", ",", "", force_quote=None), (1, "a"), b'"1","a"\n'),
        (Copy("", "csv", ",", "", force_quote=("b",)), (1, "a"), b'1,"a"\n'),
        (Copy("", "binary"), (1, None), b"\0\2\0\0\0\4\0\0\0\1\xff\xff\xff\xff"),
    ],
)
def test_lines(copy: Copy, row: tuple[Any, ...], line: bytes) -> None:
    assert copy.line(COLUMNS, UTC)(row) == line


def test_titles() -> None:
    assert Copy("", "csv", ",", "", header=True).titles(COLUMNS) == b"a,b\n"
    assert Copy("").titles(COLUMNS) == b""
    assert Copy("", "binary").titles(COLUMNS).startswith(b"PGCOPY\n")
