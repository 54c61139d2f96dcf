"""Every row of the registry against a real PostgreSQL, on a grid of edge values.

PostgreSQL evaluates a case on each combination of values; an error there means NULL here. Spark evaluates all cases of
the same argument types in one query. The Spark type must be the bound type, and the bound type PostgreSQL's.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
import sqlglot
from pyspark.sql import SparkSession

from icestream import types as t
from icestream.functions import REGISTRY, Expr, Scope, bind, bind_type, render
from icestream.functions.coercion import describe
from icestream.functions.expression_errors import RaiseFailures, is_fallible, read_error
from icestream.functions.expressions import functions_used
from icestream.functions.interval_input import parse_interval
from icestream.functions.json import to_json
from icestream.sql.dialect import Dialect
from icestream.types import ArrayType, NumericType, StructType, Type, arrow_type, spark_type
from tests.services.function_cases import AGGREGATES, GRID, OWN, SETS, THEMES, WINDOWS, Case
from tests.services.function_deviations import deviation
from tests.services.postgres import PostgresServer, postgres
from tests.spark_session import spark

__all__ = ["postgres", "spark"]
pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.timeout(180)]
NAMES = "xyzw"


def type_of(key: str) -> Type:
    return bind_type(sqlglot.parse_one(f"NULL::{GRID[key][0]}", dialect=Dialect).args["to"])


def bound(sql: str, scope: Scope) -> Expr:
    return bind(sqlglot.parse_one(sql, dialect=Dialect), scope, lambda node: None)


def bound_case(case: Case) -> Expr:
    return bound(
        case.sql, Scope.of({n: type_of(k) for n, k in zip(NAMES, case.types, strict=False)})
    )


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("SET bytea_output = 'hex'; SET extra_float_digits = 1")
        connection.execute("""
            CREATE OR REPLACE FUNCTION value_at(expression text, source text, at int) RETURNS text LANGUAGE plpgsql AS $$
            DECLARE result text;
            BEGIN
              EXECUTE format('SELECT %s FROM %I WHERE id = %s', expression, source, at) INTO result;
              RETURN result;
            EXCEPTION WHEN OTHERS THEN RETURN NULL;
            END $$""")
        connection.execute("""
            CREATE OR REPLACE FUNCTION state_at(expression text, source text, at int) RETURNS text LANGUAGE plpgsql AS $$
            DECLARE result text;
            BEGIN
              EXECUTE format('SELECT %s FROM %I WHERE id = %s', expression, source, at) INTO result;
              RETURN '00000';
            EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE;
            END $$""")
        yield connection


def grid_name(keys: Sequence[str]) -> str:
    return "grid_" + "_".join(keys)


def ensure_grid(
    database: psycopg.Connection[Any], spark: SparkSession, keys: Sequence[str]
) -> None:
    if database.execute("SELECT to_regclass(%s)", (grid_name(keys),)).fetchone() == (None,):
        make_grid(database, spark, keys)


def make_grid(database: psycopg.Connection[Any], spark: SparkSession, keys: Sequence[str]) -> None:
    """The cross product of the values, in both systems, with one id."""
    columns, parts, ids = [], [], []
    for name, key in zip(NAMES, keys, strict=False):
        kind, values = GRID[key]
        listed = ", ".join(
            "NULL" if v is None else "'" + v.replace("'", "''") + "'" for v in values
        )
        parts.append(f"unnest(ARRAY[{listed}]::text[]) WITH ORDINALITY AS {name}(v, i)")
        columns.append(f"{name}.v::{kind} AS {name}")
        ids.append(f"{name}.i")
    order = ", ".join(ids)
    database.execute(
        f"CREATE TABLE {grid_name(keys)} AS SELECT row_number() OVER (ORDER BY {order})::int AS id, "
        f"{', '.join(columns)} FROM {' CROSS JOIN '.join(parts)}"
    )
    names = list(zip(NAMES, keys, strict=False))
    rows = list(itertools.product(*(spark_values(spark)[key] for _, key in names)))
    fields = [pa.field("id", pa.int32())] + [pa.field(n, arrow_type(type_of(k))) for n, k in names]
    columns_of = [list(range(1, len(rows) + 1)), *([r[i] for r in rows] for i in range(len(names)))]
    arrays = [pa.array(c, f.type) for c, f in zip(columns_of, fields, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    exact = [f"CAST({n} AS {spark_type(type_of(k))}) AS {n}" for n, k in names]
    frame = spark.createDataFrame(table).selectExpr("id", *exact)
    frame.createOrReplaceTempView(grid_name(keys))


_VALUES: dict[str, list[Any]] = {}


def spark_values(spark: SparkSession) -> dict[str, list[Any]]:
    """The grid's values as the engine reads them from their literals, all in one query."""
    if not _VALUES:
        arrays = []
        for key, (kind, values) in GRID.items():
            texts = ["NULL" if v is None else "'" + v.replace("'", "''") + "'" for v in values]
            rendered = ", ".join(render(bound(f"CAST({v} AS {kind})", Scope())) for v in texts)
            arrays.append(f"array({rendered}) AS {key}")
        _VALUES.update(spark.sql(f"SELECT {', '.join(arrays)}").toArrow().to_pylist()[0])
    return _VALUES


def asked(expr: Expr, sql: str) -> str:
    """The expression as PostgreSQL must print it, to be comparable."""
    if isinstance(expr.type, ArrayType | StructType):
        return f"to_jsonb({sql})::text"
    return f"encode({sql}, 'hex')" if expr.type == t.BYTEA else f"({sql})::text"


def answers(
    database: psycopg.Connection[Any], case: Case, expr: Expr, sql: str
) -> list[str | None]:
    source, text = grid_name(case.types), asked(expr, sql)
    try:
        found = database.execute(f"SELECT {text} FROM {source} ORDER BY id").fetchall()
    except psycopg.Error:
        query = f"SELECT value_at(%s, %s, id) FROM {source} ORDER BY id"
        found = database.execute(query, (text, source)).fetchall()
    return [row[0] for row in found]


def shown(expr: Expr, text: str) -> str:
    """The Spark side: moments as text, because Python's do not reach far enough."""
    return f"CAST({text} AS STRING)" if expr.type in (t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ) else text


def expected(type: Type, text: str | None) -> Any:
    """PostgreSQL's text as the value the engine must give."""
    if text is None:
        return None
    if type in (t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ) and text.endswith(" BC"):
        year = 1 - int(text[:4])  # Spark counts a year 0
        text = f"{'-' * (year < 0)}{abs(year):04d}" + text[4:].removesuffix(" BC")
    match type:
        case NumericType(precision=p, scale=s):
            if text in ("NaN", "Infinity", "-Infinity"):
                return None
            value = Decimal(text).quantize(Decimal(1).scaleb(-s), ROUND_HALF_UP, _context())
            return value if abs(value) < Decimal(10) ** (p - s) else None
        case ArrayType() | StructType():
            return json.loads(text, parse_float=Decimal)
        case t.BOOLEAN:
            return text in ("true", "t")
        case t.SMALLINT | t.INTEGER | t.BIGINT:
            return int(text)
        case t.REAL | t.DOUBLE:
            return float(text.replace("Infinity", "inf"))
        case t.BYTEA:
            return bytes.fromhex(text)
        case t.JSONB:
            return _document(text)
        case t.INTERVAL:
            value = parse_interval(text)
            return (value.months, value.days, value.microseconds)
        case t.TIME:
            return parse_interval(text).microseconds
        case t.TIMESTAMPTZ:
            return text.removesuffix("+00")
    return text


def _context() -> Any:
    import decimal

    return decimal.Context(prec=800)


def _document(text: str) -> Any:
    """A parsed document whose numbers compare by value."""
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def given(type: Type, value: Any) -> Any:
    if value is None:
        return None
    if type == t.JSONB:
        assert json.dumps(
            json.loads(value), sort_keys=True, ensure_ascii=False
        ) == value or re.search(r"-0|\d\.|\de", value), value
        return _document(value)
    if type == t.BYTEA:
        return bytes(value)
    if isinstance(type, StructType) or type == t.INTERVAL:
        return tuple(value)
    if isinstance(value, str):
        return value.lstrip("+") if type in (t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ) else value
    return value


def equal(type: Type, wanted: Any, got: Any, approximate: bool) -> bool:
    if wanted is None or got is None:
        return wanted is None and got is None
    if type in t.FLOATS:
        if math.isnan(wanted) or math.isnan(got):
            return math.isnan(wanted) and math.isnan(got)
        if approximate:
            return math.isclose(wanted, got, rel_tol=1e-13, abs_tol=1e-300)
        same_sign = math.copysign(1, wanted) == math.copysign(1, got)
        if type == t.REAL:
            return math.isclose(wanted, got, rel_tol=6e-8) and same_sign
        return wanted == got and same_sign
    if isinstance(type, NumericType) and approximate:
        return math.isclose(wanted, got, rel_tol=1e-13, abs_tol=2e-10)
    if isinstance(type, ArrayType):
        return [_plain(w) for w in wanted] == [_plain(g) for g in got]
    return bool(wanted == got)


def _plain(value: Any) -> Any:
    return (
        Decimal(value)
        if isinstance(value, int | Decimal) and not isinstance(value, bool)
        else value
    )


def same_type(expr: Expr, postgres_type: str) -> bool:
    ours = describe(expr.type)
    theirs = {"character varying": "text", "record": "record"}.get(postgres_type, postgres_type)
    return ours == theirs or (ours.startswith("numeric") and theirs == "numeric")


def by_signature(cases: Iterable[Case]) -> dict[tuple[str, ...], list[Case]]:
    grouped: dict[tuple[str, ...], list[Case]] = defaultdict(list)
    for case in dict.fromkeys(cases):
        grouped[case.types].append(case)
    return grouped


@pytest.mark.parametrize("theme", THEMES)
def test_scalar_functions(
    theme: str, spark: SparkSession, database: psycopg.Connection[Any]
) -> None:
    problems: list[str] = []
    for keys, cases in by_signature(THEMES[theme]()).items():
        ensure_grid(database, spark, keys)
        exprs = [bound_case(c) for c in cases]
        texts = [f"{shown(e, render(e))} AS r{i}" for i, e in enumerate(exprs)]
        plain = ", ".join(f"{render(e)} AS r{i}" for i, e in enumerate(exprs))
        schema = spark.sql(f"SELECT {plain} FROM {grid_name(keys)}").schema
        rows = spark.sql(f"SELECT id, {', '.join(texts)} FROM {grid_name(keys)}").collect()
        rows.sort(key=lambda r: r["id"])
        values = database.execute(f"SELECT * FROM {grid_name(keys)} ORDER BY id").fetchall()
        for i, (case, expr) in enumerate(zip(cases, exprs, strict=True)):
            problems += compare(
                case,
                expr,
                schema[f"r{i}"].dataType,
                [r[f"r{i}"] for r in rows],
                database,
                spark,
                values,
            )
    assert not problems, f"{len(problems)} differences\n" + "\n".join(problems[:200])


@pytest.mark.parametrize("theme", THEMES)
def test_errors(theme: str, spark: SparkSession, database: psycopg.Connection[Any]) -> None:
    """An expression raises where PostgreSQL does, with the same SQLSTATE."""
    problems: list[str] = []
    for keys, cases in by_signature(THEMES[theme]()).items():
        ensure_grid(database, spark, keys)
        exprs = [(c, bound_case(c)) for c in cases]
        # The message instead of the value, and no error: one query tells about all rows.
        texts = [
            f"{render(e, failures=TellFailures()) if is_fallible(e) else 'NULL'} AS r{i}"
            for i, (_, e) in enumerate(exprs)
        ]
        rows = spark.sql(f"SELECT id, {', '.join(texts)} FROM {grid_name(keys)}").collect()
        rows.sort(key=lambda r: r["id"])
        values = database.execute(f"SELECT * FROM {grid_name(keys)} ORDER BY id").fetchall()
        for i, (case, expr) in enumerate(exprs):
            known = deviation(case.sql, case.types)
            sql = asked(expr, known.postgres if known and known.postgres else case.sql)
            query = f"SELECT state_at(%s, %s, id) FROM {grid_name(keys)} ORDER BY id"
            states = [r[0] for r in database.execute(query, (sql, grid_name(keys))).fetchall()]
            shown_so_far = 0
            for at, (state, row) in enumerate(zip(states, rows, strict=True)):
                told = row[f"r{i}"]
                code = read_error(told).code if told else "00000"
                if code == state or (known and known.rows) or known_state(expr, code, state):
                    continue
                shown_so_far += 1
                if shown_so_far <= 2:
                    problems.append(
                        f"{case.sql} {case.types} on {values[at][1:]!r}: {told!r}, PostgreSQL {state}"
                    )
    assert not problems, f"{len(problems)} differences\n" + "\n".join(problems[:200])


class TellFailures(RaiseFailures):
    """The message of the error as the value of the expression."""

    def guard(self, value: str, failure: str) -> str:
        return f"IF(({value}) IS NULL, {failure.replace('raise_error(', '(')}, NULL)"

    def finish(self, root: Expr, value: str) -> str:
        return value


def known_state(expr: Expr, ours: str, postgres: str) -> bool:
    """Where errors differ from PostgreSQL's on purpose: numerics have 38 digits, no NaN and no infinity."""
    return isinstance(expr.type, NumericType) and (ours, postgres) == ("22003", "00000")


def compare(
    case: Case,
    expr: Expr,
    spark_got: Any,
    got: list[Any],
    database: psycopg.Connection[Any],
    spark: SparkSession,
    values: list[Any],
) -> Iterator[str]:
    known = deviation(case.sql, case.types)
    if known and known.postgres is not None:
        sql = known.postgres
    else:
        sql = case.sql
    if _spark_type(spark, expr.type) != spark_got.simpleString():
        yield f"{case.sql} {case.types}: Spark type {spark_got.simpleString()}, bound {expr.type}"
        return
    try:
        row = database.execute(
            f"SELECT pg_typeof({sql})::text FROM {grid_name(case.types)} LIMIT 1"
        ).fetchone()
        if row and not same_type(expr, row[0]) and not (known and known.type):
            yield f"{case.sql} {case.types}: type {describe(expr.type)}, PostgreSQL {row[0]}"
    except (psycopg.errors.DataError, psycopg.errors.ProgramLimitExceeded):
        pass
    except psycopg.Error as error:
        yield f"{case.sql} {case.types}: PostgreSQL says {error}"
        return
    answered = answers(database, case, expr, sql)
    shown_so_far = 0
    for at, (text, value) in enumerate(zip(answered, got, strict=True)):
        wanted, have = expected(expr.type, text), given(expr.type, value)
        if equal(expr.type, wanted, have, case.approximate) or (
            known and known.covers(values[at][1:], wanted, have)
        ):
            continue
        shown_so_far += 1
        if shown_so_far <= 3:
            yield f"{case.sql} {case.types} on {values[at][1:]!r}: {have!r}, PostgreSQL {wanted!r}"


_SPARK_TYPES: dict[Type, str] = {}


def _spark_type(spark: SparkSession, type: Type) -> str:
    if type not in _SPARK_TYPES:
        frame = spark.sql(f"SELECT CAST(NULL AS {spark_type(type)}) AS r")
        _SPARK_TYPES[type] = frame.schema["r"].dataType.simpleString()
    return _SPARK_TYPES[type]


def own_scope() -> Scope:
    columns = {
        "map_column": t.map_of(t.VARCHAR, t.INTEGER),
        "struct_column": t.struct(("a", t.INTEGER), ("b", t.VARCHAR)),
    }
    return Scope.of(columns)


def test_what_postgres_does_not_have(spark: SparkSession) -> None:
    exprs = [bound(sql, own_scope()) for sql, _ in OWN]
    texts = ", ".join(f"{render(e)} AS r{i}" for i, e in enumerate(exprs))
    source = "(SELECT map('a', 1) AS map_column, named_struct('a', CAST(NULL AS INT), 'b', 'x') AS struct_column)"
    row = spark.sql(f"SELECT {texts} FROM {source}").collect()[0]
    assert list(row) == [wanted for _, wanted in OWN]


GROUPED = {
    "id": "integer", "g": "integer", "b": "boolean", "i2": "smallint", "i4": "integer", "i8": "bigint", "n": "numeric", "f4": "real",
    "f8": "double precision", "s": "text", "d": "date", "tm": "time", "ts": "timestamp", "tz": "timestamptz", "v": "interval",
}  # fmt: skip
GROUPED_ROWS = (
    "1|1|t|5|2147483647|9223372036854775807|1.5|1.5|0.1|b|2024-01-01|10:00|2024-01-01 00:00|2024-01-01 00:00+00|1 mon",
    "2|1|f|-7|3|9223372036854775806|-2.25|2|0.2|a|2024-02-29|09:00|2024-01-01 12:00|2024-01-01 12:00+02|29 days",
    "3|1|t|5|3|1|0.3333333333|-1|0.3|a|2023-12-31|23:59|2024-01-03 00:00|2024-01-03 00:00+00|31 days",
    "4|1|||||||||||||",
    "5|2|f|1|-4|0|7|0.5|-0.5|ü|1999-01-01|00:00|2020-02-02 02:02|2020-02-02 02:02+00|-1 days",
    "6|3|||||||||||||",
    "7|4|t|2|2|2|0.1|3|2.5|x|2024-05-05|12:00|2024-05-05 12:00|2024-05-05 12:00+00|1 day",
    "8|4|t|4|4|4|0.2|5|2.5||2024-05-06|12:00|2024-05-05 18:00|2024-05-06 12:00+00|24:00:00",
    "9|4||6|6|6|0.3|7|4.5|y|2024-05-06|12:30|2024-05-07 12:00|2024-05-06 12:00+00|25:00:00",
)


@pytest.fixture(scope="module")
def grouped(spark: SparkSession, database: psycopg.Connection[Any]) -> Scope:
    """A table of groups (one row, only NULLs, ties) in both systems."""
    columns = ", ".join(f"{name} {kind}" for name, kind in GROUPED.items())
    database.execute(f"CREATE TABLE grouped ({columns})")
    types = {
        name: bind_type(sqlglot.parse_one(f"NULL::{kind}", dialect=Dialect).args["to"])
        for name, kind in GROUPED.items()
    }
    selects = []
    for row in GROUPED_ROWS:
        cells = ["NULL" if c == "" else f"'{c}'" for c in row.split("|")]
        database.execute(f"INSERT INTO grouped VALUES ({', '.join(cells)})")
        pairs = zip(cells, GROUPED.items(), strict=True)
        texts = ", ".join(
            f"{render(bound(f'CAST({c} AS {kind})', Scope()))} AS {name}"
            for c, (name, kind) in pairs
        )
        selects.append(f"SELECT {texts}")
    spark.sql(" UNION ALL ".join(selects)).repartition(2).createOrReplaceTempView("grouped")
    return Scope.of(types)


def differences(
    cases: Sequence[tuple[str, str | None]],
    scope: Scope,
    tail: str,
    key: str,
    spark: SparkSession,
    database: psycopg.Connection[Any],
) -> Iterator[str]:
    exprs = [bound(sql, scope) for sql, _ in cases]
    texts = ", ".join(f"{shown(e, render(e))} AS r{i}" for i, e in enumerate(exprs))
    plain = ", ".join(f"{render(e)} AS r{i}" for i, e in enumerate(exprs))
    schema = spark.sql(f"SELECT {plain} FROM grouped {tail}").schema
    rows = sorted(
        spark.sql(f"SELECT {key} AS key, {texts} FROM grouped {tail}").collect(),
        key=lambda r: r["key"],
    )
    for i, ((sql, other), expr) in enumerate(zip(cases, exprs, strict=True)):
        if _spark_type(spark, expr.type) != schema[f"r{i}"].dataType.simpleString():
            yield f"{sql}: Spark type {schema[f'r{i}'].dataType.simpleString()}, bound {expr.type}"
        kind = database.execute(
            f"SELECT pg_typeof({other or sql})::text FROM grouped {tail}"
        ).fetchone()
        if kind and not same_type(expr, kind[0]):
            yield f"{sql}: type {describe(expr.type)}, PostgreSQL {kind[0]}"
        query = f"SELECT r FROM (SELECT {key} AS key, {asked(expr, other or sql)} AS r FROM grouped {tail}) AS q ORDER BY key"
        answered = [row[0] for row in database.execute(query).fetchall()]
        for row, text in zip(rows, answered, strict=True):
            wanted, got = expected(expr.type, text), given(expr.type, row[f"r{i}"])
            approximate = (
                bool(re.search(r"stddev|var|corr|covar|regr|percentile|avg", sql))
                or expr.type in t.FLOATS
            )
            if "stddev" in sql and wanted and got and math.isclose(wanted, got, rel_tol=1e-9):
                continue  # PostgreSQL drops digits of the root of a large variance
            if not equal(expr.type, wanted, got, approximate):
                yield f"{sql} at {row['key']}: {got!r}, PostgreSQL {wanted!r}"


def test_aggregates(spark: SparkSession, database: psycopg.Connection[Any], grouped: Scope) -> None:
    found = list(differences(AGGREGATES, grouped, "GROUP BY g", "g", spark, database))
    found += differences(AGGREGATES, grouped, "WHERE id < 0", "count(*)", spark, database)
    assert not found, "\n".join(found)


def test_window_functions(
    spark: SparkSession, database: psycopg.Connection[Any], grouped: Scope
) -> None:
    found = list(differences(WINDOWS, grouped, "", "id", spark, database))
    assert not found, "\n".join(found)


def test_set_returning_functions(spark: SparkSession, database: psycopg.Connection[Any]) -> None:
    """A set-returning function renders as the array of its rows."""
    found = []
    for keys, cases in by_signature(SETS).items():
        ensure_grid(database, spark, keys)
        exprs = [bound_case(c) for c in cases]
        texts = [f"{to_json(render(e), t.array(e.type))} AS r{i}" for i, e in enumerate(exprs)]
        rows = spark.sql(
            f"SELECT id, {', '.join(texts)} FROM {grid_name(keys)} ORDER BY id"
        ).collect()
        for i, case in enumerate(cases):
            text = f"(SELECT jsonb_agg(e)::text FROM {case.sql} AS e)"
            query = f"SELECT value_at(%s, %s, id) FROM {grid_name(keys)} ORDER BY id"
            wanted = [r[0] for r in database.execute(query, (text, grid_name(keys))).fetchall()]
            for w, row in zip(wanted, rows, strict=True):
                got = json.loads(row[f"r{i}"]) or []
                want = json.loads(w or "[]")
                if "keys" in case.sql or "each" in case.sql:
                    got, want = sorted(got, key=str), sorted(want, key=str)
                if got != want:
                    found.append(f"{case.sql} {keys} row {row['id']}: {got!r}, PostgreSQL {want!r}")
    assert not found, "\n".join(found)


def test_every_row_is_covered() -> None:
    kinds = {
        n: bind_type(sqlglot.parse_one(f"NULL::{k}", dialect=Dialect).args["to"])
        for n, k in GROUPED.items()
    }
    exprs = [bound_case(c) for theme in THEMES.values() for c in theme()]
    exprs += [bound_case(c) for c in SETS]
    exprs += [bound(sql, Scope.of(kinds)) for sql, _ in (*AGGREGATES, *WINDOWS)]
    exprs += [bound(sql, own_scope()) for sql, _ in OWN]
    covered = {f for e in exprs for f in functions_used(e)}
    missing = [str(f) for rows in REGISTRY.values() for f in rows if f.pure and f not in covered]
    assert not missing, f"{len(missing)} without a case: {missing}"
