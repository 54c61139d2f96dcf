"""The fast way of every decoder gives what its careful way gives, and both what an oracle says.

PAYLOADS=100000 makes it longer, SEED=… repeats one failing batch. `python -m tests.fuzz.payloads` runs the same checks.
"""

from __future__ import annotations

import os
import time

import pytest

from tests.fuzz.payloads import CHECKS, fuzz

PAYLOADS = int(os.environ.get("PAYLOADS", "3000"))


@pytest.mark.parametrize("name", CHECKS)
def test_random_payloads(name: str) -> None:
    """No exception, no difference, no batch that takes long, no growing memory."""
    if "SEED" in os.environ:
        CHECKS[name](int(os.environ["SEED"]))
    else:
        seed = time.time_ns() % 10**9
        print(f"SEED={seed}")
        fuzz(name, PAYLOADS, seed)
