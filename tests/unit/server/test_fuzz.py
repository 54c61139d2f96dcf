"""A short run of the fuzzers of the wire, of SQL and of payloads; FUZZ_SECONDS makes each longer, SEED repeats one.

A million inputs by hand: `python -m tests.fuzz.wire --count 1000000`, and the same with tests.fuzz.sql and
tests.fuzz.payloads.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.fuzz import payloads, sql, wire

SECONDS = float(os.environ.get("FUZZ_SECONDS", "20"))
SEED = int(os.environ.get("SEED", random.randrange(1 << 32)))


@pytest.mark.timeout(SECONDS + 120)
def test_wire() -> None:
    print(f"SEED={SEED}")
    assert wire.run(1_000_000, SEED, SECONDS)


@pytest.mark.timeout(SECONDS + 120)
def test_sql() -> None:
    print(f"SEED={SEED}")
    assert sql.run(1_000_000, SEED, SECONDS)


@pytest.mark.timeout(SECONDS + 120)
def test_payloads() -> None:
    print(f"SEED={SEED}")
    assert payloads.run(SEED, SECONDS)
