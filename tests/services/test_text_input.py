"""Text input of every type against a real PostgreSQL, over a generated grid: constants, and casts of text columns.

A constant has the same value or the same SQLSTATE. A column has the same value, or NULL and an error with the same SQLSTATE where
PostgreSQL raises one, or NULL where the text is of a class that only constants know. Nothing else may differ than what
`text_input_deviations` lists.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from icestream import types as t
from icestream.functions.casts import convert
from icestream.functions.expression_errors import describe_text, read_error
from icestream.functions.expressions import Interval, clock
from icestream.functions.input_errors import TextInputError
from icestream.functions.text_input import parse_array, parse_text
from icestream.types import ArrayType, NumericType, Type
from tests.services.postgres import PostgresServer, postgres
from tests.services.text_input_cases import CASES
from tests.services.text_input_deviations import (
    is_constant_deviation,
    is_rounded_column,
    is_unsupported_column,
)
from tests.spark_session import spark

__all__ = ["postgres", "spark"]
pytestmark = [pytest.mark.services, pytest.mark.timeout(180)]

TYPES: dict[str, Type] = {
    "numeric(5,2)": t.numeric(5, 2),
    "integer[]": t.array(t.INTEGER),
    "text[]": t.array(t.VARCHAR),
}
Answer = tuple[str | None, str | None]


def type_of(kind: str) -> Type:
    found = TYPES.get(kind) or t.scalar(kind)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("""
            CREATE OR REPLACE FUNCTION read_text(source text, kind text, OUT value text, OUT code text) LANGUAGE plpgsql AS $$
            BEGIN
              EXECUTE format('SELECT CASE WHEN %L LIKE ''%%[]'' THEN to_jsonb(%L::%s)::text ELSE %L::%s::text END',
                             kind, source, kind, source, kind) INTO value;
            EXCEPTION WHEN OTHERS THEN code := SQLSTATE;
            END $$""")
        yield connection


_ANSWERS: dict[str, list[Answer]] = {}


def answers(database: psycopg.Connection[Any], kind: str) -> list[Answer]:
    """PostgreSQL's value or SQLSTATE of each text."""
    if kind not in _ANSWERS:
        query = "SELECT (read_text(s, %s)).* FROM unnest(%s::text[]) WITH ORDINALITY AS q(s, i) ORDER BY i"
        _ANSWERS[kind] = database.execute(query, (kind, CASES[kind])).fetchall()
    return _ANSWERS[kind]


def expected(type: Type, text: str) -> Any:
    """PostgreSQL's text as a value that compares."""
    match type:
        case ArrayType():
            return json.loads(text)
        case NumericType(scale=scale):
            if text in ("NaN", "Infinity", "-Infinity"):
                return text
            return Decimal(text).quantize(
                Decimal(1).scaleb(-scale), ROUND_HALF_UP, Context(prec=200_000)
            )
        case t.BOOLEAN:
            return text == "true"
        case t.SMALLINT | t.INTEGER | t.BIGINT:
            return int(text)
        case t.REAL | t.DOUBLE:
            return _bits(type, float(text))
        case t.BYTEA:
            return bytes.fromhex(text.removeprefix("\\x"))
        case t.JSONB:
            return _document(text)
        case t.DATE | t.TIMESTAMP | t.TIMESTAMPTZ:
            bare = text.removesuffix(" BC")
            date, _, time = bare.removesuffix("+00").partition(" ")
            if text.endswith(" BC"):
                year, rest = 1 - int(date.split("-")[0]), date.partition("-")[2]
                date = f"{'-' * (year < 0)}{abs(year):04d}-{rest}"
            return f"{date} {time}".strip()
    return text


def _bits(type: Type, value: float) -> Any:
    return "NaN" if math.isnan(value) else struct.pack("f" if type == t.REAL else "d", value)


def _document(text: str) -> Any:
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def given(type: Type, value: Any) -> Any:
    """A value of the engine as one that compares."""
    if type in t.FLOATS:
        return _bits(type, value)
    if type == t.JSONB:
        return _document(value)
    if type == t.TIME:
        return clock(value)
    if type == t.INTERVAL:
        return str(value if isinstance(value, Interval) else Interval(*value))
    if type in (t.TIMESTAMP, t.TIMESTAMPTZ) and "." in value:
        return value.rstrip("0")
    return bytes(value) if type == t.BYTEA else value


def read_constant(text: str, type: Type) -> tuple[Any, str | None]:
    try:
        if isinstance(type, ArrayType):
            return parse_array(text, type), None
        return given(type, parse_text(text, type)), None
    except TextInputError as error:
        return None, error.code


@pytest.mark.parametrize("kind", CASES)
def test_constants(kind: str, database: psycopg.Connection[Any]) -> None:
    type, found = type_of(kind), []
    for text, (value, code) in zip(CASES[kind], answers(database, kind), strict=True):
        wanted = (expected(type, value), None) if value is not None else (None, code)
        got = read_constant(text, type)
        if got != wanted and not is_constant_deviation(kind, text, got[1], value):
            found.append(f"{text!r}: {got}, PostgreSQL {value or code}"[:300])
    assert not found, f"{len(found)} differences\n" + "\n".join(found[:100])


@pytest.mark.spark
@pytest.mark.parametrize("kind", [k for k in CASES if not k.endswith("[]")])
def test_columns(kind: str, spark: SparkSession, database: psycopg.Connection[Any]) -> None:
    type, found = type_of(kind), []
    cast = convert("`s`", t.VARCHAR, type)
    if type in (t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ):
        cast = f"CAST({cast} AS STRING)"
    texts = list(enumerate(CASES[kind]))
    frame = spark.createDataFrame(texts, "id int, s string").selectExpr(
        "id", f"{cast} AS v", f"{describe_text(type, '`s`')} AS e"
    )
    values = {row["id"]: (row["v"], row["e"]) for row in frame.collect()}
    missing = 0
    for at, (value, code) in enumerate(answers(database, kind)):
        text, (got, raised) = CASES[kind][at], values[at]
        if got is None and value is None:
            error = read_error(raised)
            if error.code != code and not is_constant_deviation(kind, text, error.code, value):
                found.append(f"{text!r}: {error.code} {error}, PostgreSQL {code}"[:300])
            continue
        if got is None and value is not None:
            missing += 1
            if is_unsupported_column(kind, text, value):
                continue
        elif got is None or (
            value is not None
            and given(type, got.lstrip("+") if isinstance(got, str) else got)
            == expected(type, value)
        ):
            continue
        if got is None or not is_rounded_column(kind, text, got, value):
            found.append(f"{text!r}: {got!r}, PostgreSQL {value or code}"[:300])
    assert not found, f"{len(found)} differences\n" + "\n".join(found[:100])
    assert missing < len(texts) // 2
