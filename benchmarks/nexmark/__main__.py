"""Nexmark's 23 queries, bounded, 2 cores: Kafka → a view in Iceberg by this engine, beside Flink SQL.

    python -m benchmarks.nexmark [--events 1000000] [--rounds 2] [--only q3,q5] [--no-flink]
        [--no-icestream] [--quick] [--results FOLDER] [--keep FOLDER]

One broker and three topics serve all. Every run is a process of its own on an empty home or
warehouse; for each query the sides take turns; every result is compared with what DuckDB finds in
the same events. A query that fails is reported with its reason, and the rest goes on. What a run
measures replaces its predecessor in results/nexmark.json, so queries can be measured in separate
runs. `--quick` is for looking whether all is right: small, and its report goes to a folder of its own.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, Contender, Run, compete
from benchmarks.metadata import newest_metadata, summary
from benchmarks.nexmark import generator, queries
from benchmarks.nexmark.oracle import Oracle
from benchmarks.nexmark.report import FLINK, OURS, Measured, goals, report, table
from benchmarks.peers import flink
from benchmarks.peers.task import Task
from benchmarks.tables import Tables
from icestream.dev.broker import Broker

MODULES = {OURS: "benchmarks.nexmark.icestream", FLINK: "benchmarks.peers.flink_nexmark"}
TOPICS = "nexmark"
QUICK = 10_000
PATIENCE = 900
"""Seconds that a run may take."""
TIMED_OUT = 124
"""The status of a command that took longer."""


@dataclass
class Bench:
    """All queries that were asked for, at one number of events."""

    events: int
    rounds: int
    sides: Sequence[str]
    bootstrap: str
    folder: Path
    oracle: Oracle
    tables: Tables
    rows: dict[tuple[str, str], int] = field(default_factory=dict)

    def measure(self, query: str) -> list[Measured]:
        """The query by each side, in turns; a side that fails is not asked again."""
        counted = generator.counts(self.events)
        count = sum(counted[kind] for kind in queries.reads(query))
        sides = [side for side in self.sides if side == OURS or query in queries.BY_FLINK]
        runs: dict[str, list[Run]] = {side: [] for side in sides}
        errors: dict[str, str] = {}
        for number in range(1, self.rounds + 1):
            for side in sides if number % 2 else sides[::-1]:
                if side in errors:
                    continue
                try:
                    runs[side] += self._run(query, side, number, count)
                except Exception as error:
                    errors[side] = reason(str(error))
                    print(f"{query}  {side:<12} failed: {errors[side]}", flush=True)
        return [self._measured(query, side, count, runs[side], errors.get(side)) for side in sides]

    def _run(self, query: str, side: str, number: int, count: int) -> list[Run]:
        def command(place: Path) -> list[str]:
            task = Task(self.bootstrap, TOPICS, place / "lake", count)
            # A process that has to be ended takes all below it along: they see their input close.
            limit = ["timeout", "-k", "10", str(PATIENCE)]
            return [*limit, sys.executable, "-m", MODULES[side], query, *task.arguments()]

        def check(contender: Contender, place: Path, output: Mapping[str, Any]) -> None:
            result = Path(output["table"])
            if int(summary(newest_metadata(result)).get("total-equality-deletes", 0)):
                # Only Spark reads a large number of them in reasonable time.
                self.tables.read(result).write.parquet(str(place / "result"))
                result = place / "result"
            self.rows[query, side] = self.oracle.check(query, result)

        contender = Contender(
            f"{query} {side}",
            command,
            prepare=flink.prepare if side == FLINK else lambda: None,
            environment={"SIDE_INPUT": str(self.folder / "side_input")},
        )
        return compete([contender], self.folder / f"round-{number}", 1, check, PATIENCE + 60)

    def _measured(
        self, query: str, side: str, count: int, runs: Sequence[Run], error: str | None
    ) -> Measured:
        date = datetime.now(UTC).date().isoformat()
        if error is not None:
            return Measured(query, side, count, date=date, error=error)
        return Measured(
            query,
            side,
            count,
            seconds=[round(run.seconds, 3) for run in runs],
            working=[float(run.output["working"]) for run in runs],
            cpu=[round(run.cpu, 2) for run in runs],
            rows=self.rows[query, side],
            epochs=runs[-1].output.get("epochs"),
            date=date,
        )


def reason(text: str) -> str:
    """The line of a failure that says why: the engine's own error, else the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines and f"failed ({TIMED_OUT})" in lines[0]:
        return f"not done after {PATIENCE} s"
    for line in lines:
        if line.startswith("error: "):
            return line.removeprefix("error: ")[:300]
    if len(lines) > 1:
        caused = [line for line in lines if line.startswith("Caused by: ")]
        return (caused or lines)[-1][:300]
    return lines[0][:300] if lines else "no reason was given"


def main() -> None:
    parser = argparse.ArgumentParser(description="Nexmark, side by side with Flink.")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", default=",".join(queries.ALL), help="queries, with commas")
    parser.add_argument("--no-flink", action="store_true", help="this engine alone")
    parser.add_argument("--no-icestream", action="store_true", help="Flink alone")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} events, one round")
    parser.add_argument("--results", type=Path, help="folder of the report")
    parser.add_argument("--keep", type=Path, help="folder for events and logs, kept")
    args = parser.parse_args()
    if args.quick:
        args.events, args.rounds = QUICK, 1
    results = args.results or (Path(tempfile.gettempdir()) / "nexmark" if args.quick else RESULTS)
    asked = args.only.split(",")
    if unknown := set(asked) - set(queries.ALL):
        parser.error(f"there is no query {', '.join(sorted(unknown))}")
    leave = {FLINK: args.no_flink, OURS: args.no_icestream}
    sides = [side for side in (OURS, FLINK) if not leave[side]]
    settings = {"events": args.events, "partitions": generator.PARTITIONS}
    what = (
        f"{args.events:,} events (persons, auctions and bids as 1:3:46, JSON of about 300 bytes on "
        f"average) in three Kafka topics with {generator.PARTITIONS} partitions each. A run starts a "
        "process, reads the topics that its query names to their ends, and has the result in an Iceberg "
        "table; what is counted are the events in those topics. Every result equals, as a bag of "
        "rows, what DuckDB computes from the same events."
    )
    measured: list[Measured] = []
    with ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="icestream-bench-"))
        folder = (args.keep or Path(name)).absolute()
        side_input = generator.write_side_input(folder / "side_input")
        oracle = Oracle(generator.write(folder / "events", args.events), side_input)
        tables = Tables()
        stack.callback(oracle.close)
        stack.callback(tables.close)
        broker = stack.enter_context(Broker(folder / "kafka", heap="1g"))
        generator.send(broker.bootstrap, args.events)
        bench = Bench(args.events, args.rounds, sides, broker.bootstrap, folder, oracle, tables)
        for query in asked:
            measured += bench.measure(query)
            known = report(results, settings, what, measured)
    print("\n".join(table(known)))
    for goal in goals(known):
        print(f"{goal.name:<58} {goal.aim:>8}   {goal.verdict}")
    print(f"report: {results / 'nexmark.md'}")


if __name__ == "__main__":
    main()
