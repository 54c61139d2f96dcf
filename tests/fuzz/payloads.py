"""Fuzz the payload decoders: `python -m tests.fuzz.payloads --count 1000000`.

Random and mutated payloads of every format go through both ways of its decoder. A run fails at the first exception,
difference or batch that takes too long, with the seed that repeats it; and where memory grows.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable

import pyarrow as pa

from tests.fuzz.cases import check_csv, check_json
from tests.fuzz.connect import check_connect
from tests.fuzz.debezium import check_debezium, check_upsert

CHECKS: dict[str, Callable[[int], int]] = {
    "json": check_json,
    "csv": check_csv,
    "connect": check_connect,
    "upsert": check_upsert,
    "debezium": check_debezium,
}
MAX_SECONDS = 20.0
"""Processor time of one batch of at most 100 payloads, generated and decoded twice."""
MAX_GROWTH = 64 << 20
"""Bytes by which resident memory may grow after the first tenth of a run."""


def resident() -> int:
    """Bytes of this process in memory, without what allocators keep for later."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def fuzz(name: str, count: int, seed: int) -> str:
    """Decode that many payloads of a format; what was measured, or AssertionError."""
    check, started, done, first = CHECKS[name], time.process_time(), 0, seed
    slowest, warm = 0.0, 0
    while done < count:
        before = time.process_time()
        try:
            done += check(seed)
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"{name}, seed {seed}: {type(error).__name__}: {error}") from error
        took = time.process_time() - before
        assert took < MAX_SECONDS, f"{name}, seed {seed}: a batch took {took:.1f} s"
        slowest = max(slowest, took)
        warm = warm or (resident() if done * 10 >= count else 0)
        seed += 1
    growth = resident() - warm
    assert growth < MAX_GROWTH, f"{name}: memory grew by {growth >> 20} MB from seed {first} on"
    return (
        f"{name}: {done} payloads, {seed - first} batches from seed {first}, {time.process_time() - started:.0f} s, "
        f"slowest batch {slowest:.2f} s, memory {warm >> 20} MB, then {growth / (1 << 20):+.0f} MB"
    )


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="payloads in all")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9)
    parser.add_argument("--format", choices=list(CHECKS), action="append")
    chosen = parser.parse_args()
    names = chosen.format or list(CHECKS)
    for name in names:
        print(fuzz(name, -(-chosen.count // len(names)), chosen.seed), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
