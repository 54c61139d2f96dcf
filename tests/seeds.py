"""The seeds of random tests.

A seed is drawn from the commit: CI of a commit can be repeated exactly, and each commit tests other inputs. SEED=…
repeats one; FRESH_SEEDS=1 (`make fuzz`) draws new ones in every run.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path


@cache
def _commit() -> str:
    """The commit of the working tree; empty outside a checkout."""
    found = subprocess.run(
        ["git", "rev-parse", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip()


def draw_seed(name: str) -> int:
    """The seed of one random test, printed so that a failure can be repeated."""
    if "SEED" in os.environ:
        seed = int(os.environ["SEED"])
    elif os.environ.get("FRESH_SEEDS") or not _commit():
        seed = random.SystemRandom().randrange(2**32)
    else:
        seed = int.from_bytes(hashlib.sha256(f"{_commit()} {name}".encode()).digest()[:4])
    print(f"{name}: SEED={seed}")
    return seed


def draw_seeds(name: str, regressions: Sequence[int] = ()) -> list[int]:
    """Seeds that failed once, and N new ones (1); SEED asks for one alone."""
    first = draw_seed(name)
    if "SEED" in os.environ:
        return [first]
    return [*regressions, *(first + n for n in range(int(os.environ.get("N", "1"))))]
