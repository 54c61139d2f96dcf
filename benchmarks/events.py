"""Web events for benchmarks: ~200-byte JSON records, the same for the same seed.

    python -m benchmarks.events BOOTSTRAP TOPIC [--count 2000000] [--partitions 2] [--seed 1]

An event depends only on its id and the seed, so any slice can be made again, in any order, and
the expected content of a table is known without reading Kafka.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.services.kafka import create_topic, produce

COLUMNS = {
    "id": "BIGINT",
    "user_id": "VARCHAR",
    "page_url": "VARCHAR",
    "action": "VARCHAR",
    "session_id": "VARCHAR",
    "event_time": "TIMESTAMPTZ",
    "duration_ms": "BIGINT",
    "price": "DOUBLE",
}
"""Name and SQL type of every field, in the order of the JSON text."""

Numbers = npt.NDArray[np.uint64]

ACTIONS = np.array(["click", "scroll", "view", "purchase", "search", "login"])
START = np.datetime64("2026-08-01T00:00:00.000", "ms")
BLOCK = 50_000


def events(count: int, seed: int = 1, start: int = 0, step: int = 1) -> Iterator[bytes]:
    """The JSON texts of the events start, start + step, … below count."""
    for first in range(start, count, BLOCK * step):
        ids = np.arange(first, min(first + BLOCK * step, count), step, dtype=np.uint64)
        yield from _block(ids, seed)


def _block(ids: Numbers, seed: int) -> Iterator[bytes]:
    noise = mix(ids + np.uint64(seed << 40))
    users = (noise % np.uint64(100_000)).tolist()
    pages = ((noise >> np.uint64(8)) % np.uint64(5_000)).tolist()
    actions = ACTIONS[((noise >> np.uint64(20)) % np.uint64(len(ACTIONS))).astype(int)].tolist()
    times = np.datetime_as_string(START + (ids * np.uint64(5)).astype("timedelta64[ms]")).tolist()
    durations = ((noise >> np.uint64(24)) % np.uint64(60_000)).tolist()
    cents = ((noise >> np.uint64(40)) % np.uint64(100_000)).tolist()
    for id, random, user, page, action, at, duration, cent in zip(
        ids.tolist(), noise.tolist(), users, pages, actions, times, durations, cents, strict=True
    ):
        yield (
            f'{{"id":{id},"user_id":"user-{user:06d}","page_url":"/products/{page}?ref=mail",'
            f'"action":"{action}","session_id":"{random:016x}","event_time":"{at}Z",'
            f'"duration_ms":{duration},"price":{cent / 100}}}'
        ).encode()


def mix(values: Numbers) -> Numbers:
    """Well spread 64-bit numbers from consecutive ones (the finalizer of splitmix64)."""
    with np.errstate(over="ignore"):
        values = values * np.uint64(0x9E3779B97F4A7C15)
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return values ^ (values >> np.uint64(31))


def fill(bootstrap: str, topic: str, count: int, partitions: int = 2, seed: int = 1) -> str:
    """Makes the topic and sends all events, every partition in order of id."""
    create_topic(bootstrap, topic, partitions)
    for number in range(partitions):
        records = ((None, text) for text in events(count, seed, number, partitions))
        produce(bootstrap, topic, records, partition=number)
    return topic


def write_lines(path: Path, count: int, seed: int = 1) -> Path:
    """The events as a file of JSON lines: what a table must hold in the end."""
    with path.open("wb") as file:
        file.writelines(text + b"\n" for text in events(count, seed))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description="Fill a Kafka topic with web events.")
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("--count", type=int, default=2_000_000)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    begin = time.monotonic()
    fill(args.bootstrap, args.topic, args.count, args.partitions, args.seed)
    seconds = time.monotonic() - begin
    print(f"{args.count:,} events in {seconds:.1f} s ({args.count / seconds:,.0f}/s)")


if __name__ == "__main__":
    main()
