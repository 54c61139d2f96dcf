"""Short ways to parse in tests."""

from __future__ import annotations

from typing import Any

import pytest

from icestream.errors import SqlError
from icestream.sql import parse

ENV = {
    "AWS_ACCESS_KEY": "AKIA",
    "AWS_SECRET_KEY": "wJal",
    "PG_PASSWORD": "hunter2",
    "N": "5",
    "T": "orders",
}


def one(text: str) -> Any:
    """The only statement of a text."""
    (statement,) = parse(text, "test.sql", ENV)
    return statement


def failure(text: str) -> SqlError:
    """The error of a text."""
    with pytest.raises(SqlError) as caught:
        parse(text, "test.sql", ENV)
    return caught.value


def fails_at_mark(text: str) -> SqlError:
    """The error of a text in which ¦ marks the place the error must have; the mark is not parsed."""
    before, _, after = text.partition("¦")
    error = failure(before + after)
    lines = before.split("\n")
    assert error.place is not None
    assert (error.place.line, error.place.column) == (len(lines), len(lines[-1]) + 1), str(error)
    assert error.place.file == "test.sql"
    return error
