"""Kafka → Iceberg append of JSON events, bounded, 2 cores: this engine beside its peers.

    python -m benchmarks.append [--count 2000000] [--rounds 3] [--only icestream,Flink,…]

One broker and one topic serve all contenders; every table is compared with the generated events.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.events import fill
from benchmarks.harness import RESULTS, Contender, compete, report
from benchmarks.peers import connect_append, flink
from benchmarks.peers.task import Task
from benchmarks.verify import expected_digest, table_digest
from icestream.dev.broker import Broker

TOPIC = "events"


def contenders(bootstrap: str, count: int) -> dict[str, Contender]:
    """All sides by name, ours first: the others are compared with it."""

    def side(name: str, module: str, prepare: Any = lambda: None) -> Contender:
        def command(place: Path) -> list[str]:
            task = Task(bootstrap, TOPIC, place / "warehouse", count)
            return [sys.executable, "-m", module, *task.arguments()]

        return Contender(name, command, prepare)

    sides = (
        side("icestream", "benchmarks.icestream_append"),
        side("plain Spark", "benchmarks.peers.plain_spark"),
        side("Flink", "benchmarks.peers.flink_append", flink.prepare),
        side("Kafka Connect", "benchmarks.peers.connect_append", connect_append.prepare),
    )
    return {each.name: each for each in sides}


def main() -> None:
    parser = argparse.ArgumentParser(description="Kafka → Iceberg append, side by side.")
    parser.add_argument("--count", type=int, default=2_000_000)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="names of contenders, with commas between them")
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="icestream-bench-") as name:
        folder = Path(name)
        expected = expected_digest(folder, args.count)

        def check(contender: Contender, place: Path, output: Mapping[str, Any]) -> None:
            found = table_digest(Path(output["table"]))
            if found != expected:
                raise RuntimeError(f"{contender.name} wrote {found}, expected {expected}")

        with Broker(folder / "kafka", heap="1g") as broker:
            fill(broker.bootstrap, TOPIC, args.count, args.partitions)
            sides = contenders(broker.bootstrap, args.count)
            chosen = args.only.split(",") if args.only else list(sides)
            runs = compete([sides[each] for each in chosen], folder / "runs", args.rounds, check)
    what = (
        f"{args.count:,} JSON events of about 200 bytes from a Kafka topic with {args.partitions} "
        "partitions, appended to an Iceberg table, from process start to the last commit. Every "
        "table was counted and hashed by DuckDB and equals the generated events."
    )
    for each in report("append", "Kafka → Iceberg append", what, runs, args.results):
        print(f"{each.contender:<16} {each.rate:>10,.0f} rows/s   ours/theirs {each.ratio:.2f}")


if __name__ == "__main__":
    main()
