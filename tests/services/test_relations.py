"""The answers to clients' questions about the system, beside a real PostgreSQL with the same tables.

Run as a program it writes what PostgreSQL answers to golden.json, which the unit tests compare with.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from icestream.server.relations import SystemRelations
from tests.services.postgres import PostgresServer
from tests.unit.server.relations.cases import GOLDEN, Case, cases, golden, in_order
from tests.unit.server.relations.world import DDL, MODEL, ORDERS, ROOT

pytestmark = pytest.mark.services


def prepared(server: PostgresServer) -> psycopg.Connection[Any]:
    """A connection to a new database with the tables of the world."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for statement in ROOT:
            connection.execute(statement)
    dsn = f"host=127.0.0.1 port={server.port} user=root dbname=dev"
    connection = psycopg.connect(dsn, autocommit=True)
    connection.execute(DDL)
    found = connection.execute("SELECT 'orders'::regclass::oid").fetchone()
    assert found == (ORDERS,), "the queries name the OIDs of a new cluster of PostgreSQL 15"
    return connection


def answer(connection: psycopg.Connection[Any], case: Case) -> dict[str, Any]:
    """What PostgreSQL says; rows only where they must agree."""
    cursor = psycopg.RawCursor(connection)
    cursor.execute(case.sql.encode(), case.parameters or None)
    columns = [[column.name, column.type_code] for column in cursor.description or ()]
    rows = cursor.fetchall()
    return {"columns": columns, "rows": rows if case.same_rows else None}


@pytest.fixture(scope="module")
def real() -> Iterator[psycopg.Connection[Any]]:
    server = PostgresServer()
    server.start()
    try:
        with prepared(server) as connection:
            if connection.info.server_version // 10000 != 15:
                pytest.skip("the queries are those that clients send to PostgreSQL 15")
            yield connection
    finally:
        server.stop()


@pytest.fixture(scope="module")
def ours() -> SystemRelations:
    return SystemRelations(lambda: MODEL)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_as_in_postgresql(case: Case, real: psycopg.Connection[Any], ours: SystemRelations) -> None:
    expected = answer(real, case)
    result = ours.query(case.sql, case.parameters)
    assert [[column.name, column.oid] for column in result.columns] == expected["columns"]
    if case.same_rows:
        assert in_order(result.rows) == in_order(expected["rows"])


def test_the_golden_answers_are_those_of_postgresql(real: psycopg.Connection[Any]) -> None:
    answers = golden()
    for case in cases():
        recorded, found = answers[case.name], answer(real, case)
        assert recorded["columns"] == found["columns"]
        assert in_order(recorded["rows"] or []) == in_order(found["rows"] or []), case.name


if __name__ == "__main__":
    server = PostgresServer()
    server.start()
    try:
        with prepared(server) as connection:
            answers = {case.name: answer(connection, case) for case in cases()}
    finally:
        server.stop()
    lines = (
        f"{json.dumps(name)}: {json.dumps(found, default=str)}" for name, found in answers.items()
    )
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")
