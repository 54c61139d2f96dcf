"""The command line of a fuzzer: how many inputs, and from which seed."""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable


def main(description: str | None, run: Callable[[int, int], int]) -> None:
    """Run a fuzzer by the options of the command. `run` takes a count and a seed, and gives how many inputs it tried."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    print(f"{run(options.count, options.seed):,} inputs without a mistake")
