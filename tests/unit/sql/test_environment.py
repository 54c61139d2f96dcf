"""`${NAME}`: kept in literals, replaced in code, never without a value."""

from __future__ import annotations

import pytest
from sqlglot import exp

from icestream.errors import Place, SqlError
from icestream.sql import parse
from icestream.sql.environment import resolve
from tests.unit.sql.helpers import failure, one


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${A}", "x"),
        ("${A}-${B}", "x-y"),
        ("$${A}", "${A}"),
        ("$A ${} ${a b} ${", "$A ${} ${a b} ${"),
        ("", ""),
    ],
)
def test_resolve(text, value):
    assert resolve(text, {"A": "x", "B": "y"}) == value


def test_an_unset_variable_is_named():
    place = Place("f.sql", 3, 4, "  x = '${AA}'")
    with pytest.raises(SqlError, match="environment variable AA is not set") as caught:
        resolve("${AA}", {"A": "x"}, place)
    assert caught.value.place == place


def test_literals_keep_the_placeholder():
    source = one("create source s with (a = '${N}', b = $$${N}$$, c = '$${NOPE}')")
    assert [o.value for o in source.options.values()] == ["${N}", "${N}", "$${NOPE}"]


def test_code_is_replaced_and_text_is_not():
    statement = one('create table a_${T} ("Q ${N}" numeric(${N}))')
    assert statement.name.name == "a_orders"
    assert statement.columns[0].name == "Q ${N}"
    assert statement.columns[0].type.precision == 5
    assert statement.text == 'create table a_${T} ("Q ${N}" numeric(${N}))'
    assert statement.columns[0].place.column == 22


def test_literals_of_queries_are_data():
    sql = "select '${NOPE}', '$${N}', e'${NOPE}', $$${NOPE}$$ from t where s = '${N}'"
    (found,) = parse(sql, env={})
    literals = [str(x.this) for x in found.query.tree.find_all(exp.Literal)]
    assert sorted(literals) == sorted(["${NOPE}", "$${N}", "${NOPE}", "${NOPE}", "${N}"])


def test_comments_mean_nothing():
    assert one("select 1 -- ${NOPE}\n /* ${NOPE} */ + 1").text.startswith("select 1 --")


def test_a_value_that_is_no_name_stays_out_of_the_code():
    with pytest.raises(SqlError, match="neither a name nor a number") as caught:
        parse("select 1; drop table ${X}", "f", {"X": "a; drop table b"})
    assert "drop table b" not in str(caught.value)
    assert caught.value.place is not None
    assert caught.value.place.column == 22


def test_the_process_environment_is_the_default(monkeypatch):
    monkeypatch.setenv("ICESTREAM_TEST_TABLE", "t1")
    (statement,) = parse("drop table ${ICESTREAM_TEST_TABLE}")
    assert statement.names[0].name == "t1"


def test_values_are_not_shown_in_errors():
    assert "orders" not in str(failure("create table ${T} ${T}"))
