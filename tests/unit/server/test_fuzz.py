"""A few seconds of the fuzzers of the wire, of SQL and of payloads. FUZZ=10 tries ten times as many inputs, SEED repeats a run.

A million inputs by hand: `python -m tests.fuzz.wire --count 1000000`, and the same with tests.fuzz.sql and
tests.fuzz.payloads.
"""

from __future__ import annotations

import os

import pytest

from tests.fuzz import payloads, sql, wire
from tests.seeds import draw_seed

FUZZ = float(os.environ.get("FUZZ", "1"))

pytestmark = pytest.mark.timeout(120 + 120 * FUZZ)


def test_wire() -> None:
    wire.run(int(6_000 * FUZZ), draw_seed("wire"))


def test_sql() -> None:
    sql.run(int(400 * FUZZ), draw_seed("SQL texts"))


@pytest.mark.parametrize("name", payloads.CHECKS)
def test_payloads(name: str) -> None:
    payloads.fuzz(name, int(800 * FUZZ), draw_seed(f"{name} payloads"))
