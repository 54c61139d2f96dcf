"""The casts that the engine allows are those of a real PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest

from tests.services.postgres import PostgresServer
from tests.unit.functions.test_assignment import CASTS

pytestmark = pytest.mark.services


def test_casts(postgres: PostgresServer) -> None:
    ours = {
        (source, target, context)
        for source, targets in CASTS.items()
        for context, names in targets.items()
        for target in names.split()
    }
    with psycopg.connect(postgres.dsn) as connection:
        rows = connection.execute(
            "SELECT a.typname, b.typname, castcontext FROM pg_cast JOIN pg_type a ON a.oid = castsource "
            "JOIN pg_type b ON b.oid = casttarget WHERE a.oid <> b.oid"
        ).fetchall()
    assert {row for row in rows if {*row[:2]} <= CASTS.keys()} == ours
