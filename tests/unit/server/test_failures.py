"""Errors as clients are told them."""

from __future__ import annotations

import pytest

from icestream import errors
from icestream.server import failures
from icestream.server.backend import StateError
from icestream.sql import parse
from tests.unit.server import frames


def told(error: Exception, sql: str | None = None, fatal: bool = False) -> dict[str, str]:
    return frames.fields(frames.cut(failures.response(error, sql, fatal=fatal))[0][1])


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.SqlError("expected a name, found 1"), "42601"),
        (errors.SqlError('column "a" does not exist'), "42703"),
        (errors.SqlError('relation "a" does not exist'), "42P01"),
        (errors.SqlError('missing FROM-clause entry for table "a"'), "42P01"),
        (errors.SqlError("function f(integer) does not exist"), "42883"),
        (errors.SqlError("operator does not exist: integer + date"), "42883"),
        (errors.SqlError("table t exists and differs:\n  a"), "42P07"),
        (errors.SqlError("table t is needed by v"), "2BP01"),
        (errors.SqlError('column reference "a" is ambiguous'), "42702"),
        (errors.SqlError("there is no setting moon"), "42704"),
        (errors.NotSupportedError("column a does not exist"), "0A000"),
        (errors.RangeLostError("gone"), "58030"),
        (errors.ConnectorError("no"), "58000"),
        (errors.LakeError("no"), "XX001"),
        (errors.FencedError("no"), "57P01"),
        (errors.ConfigError("no"), "F0000"),
        (errors.SqlError("column a does not exist", code="42804"), "42804"),
        (StateError("22012", "division by zero"), "22012"),
        (RuntimeError("secret"), "XX000"),
    ],
)
def test_states(error: Exception, code: str) -> None:
    assert told(error)["C"] == code


def test_the_place_of_an_error() -> None:
    sql = "SHOW TABLES;\r\n\tselec 'é' FROM t"
    with pytest.raises(errors.SqlError) as caught:
        parse(sql)
    found = told(caught.value, sql)
    assert int(found["P"]) == sql.index("selec") + 1
    assert found["M"] == "no statement starts with selec"
    assert "SELECT" in found["H"].upper()
    assert "P" not in told(caught.value)
    assert "P" not in told(caught.value, "SHOW TABLES")
    assert "P" not in told(caught.value, "another text;\nof two lines")


def test_severity() -> None:
    assert told(errors.LakeError("x"), fatal=True)["S"] == "FATAL"
    assert told(errors.LakeError("x"))["V"] == "ERROR"
