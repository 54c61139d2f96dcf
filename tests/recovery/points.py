"""Which fault points a run kills at: a random few, or all of them with FAULT_POINTS=all (as `make crashes` asks for)."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TypeVar

from tests.seeds import draw_seed

T = TypeVar("T")

EVERY = os.environ.get("FAULT_POINTS") == "all"


def choose_points(points: Sequence[T], count: int) -> list[T]:
    """Some points in their order. They are printed, so that a failure can be repeated by hand."""
    chosen = set(range(len(points)))
    if not EVERY:
        chosen = set(random.Random(draw_seed("fault points")).sample(sorted(chosen), count))
    found = [point for number, point in enumerate(points) if number in chosen]
    print(f"fault points: {found}")
    return found
