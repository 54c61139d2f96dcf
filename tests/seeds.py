"""The seeds of random tests.

A seed is drawn from the committed code and tests: CI of a commit can be repeated exactly, each change of the code tests other
inputs, and a change of the documents alone repeats what was tested. SEED=… repeats one seed; FRESH_SEEDS=1 (`make fuzz`) draws
new ones in every run. FULL_LENGTH=1 (`make fuzz`) runs random and long tests in their full length, else a short form of each.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

FULL_LENGTH = bool(os.environ.get("FULL_LENGTH"))


def choose_length(short: int, full: int) -> int:
    """How long a test is: short in `make check`, full in `make fuzz`."""
    return full if FULL_LENGTH else short


@cache
def _code_version() -> str:
    """The hashes of the committed code and tests; empty outside a checkout."""
    answer = subprocess.run(
        ["git", "rev-parse", "HEAD:icestream", "HEAD:tests"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout.strip()


def draw_seed(name: str) -> int:
    """The seed of one random test, printed so that a failure can be repeated."""
    if "SEED" in os.environ:
        seed = int(os.environ["SEED"])
    else:
        version = _code_version()
        if os.environ.get("FRESH_SEEDS") or not version:
            # in the environment, so that parallel workers draw the same seeds
            version = os.environ.setdefault(
                "FRESH_SEED", str(random.SystemRandom().randrange(2**32))
            )
        seed = int.from_bytes(hashlib.sha256(f"{version} {name}".encode()).digest()[:4])
    print(f"{name}: SEED={seed}")
    return seed


def draw_seeds(name: str, regressions: Sequence[int] = ()) -> list[int]:
    """N new seeds (1), and in `make test` those that failed once; SEED asks for one alone."""
    first = draw_seed(name)
    if "SEED" in os.environ:
        return [first]
    kept = regressions if FULL_LENGTH or os.environ.get("REGRESSIONS") else ()
    return [*kept, *(first + n for n in range(int(os.environ.get("N", "1"))))]
