"""Debezium's changes from Kafka → upserts of an Iceberg table, 2 cores: this engine beside its peers.

    python -m benchmarks.upsert [--base 1000000 10000000] [--batches 20] [--changes 50000]
        [--only icestream,merge,pyiceberg,flink] [--parts batch,stream] [--rounds 2] [--quick]

One broker and, for each size of the base, one topic serve all contenders. Every table is compared
with the generated history. What a run measures replaces its predecessor in results/upsert.json,
so parts can be measured in separate runs. `--quick` is for looking whether all is right: small,
and its report goes to a folder of its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.changes import COLUMNS, History, ends, send, send_base
from benchmarks.harness import RESULTS, ROOT, Contender, compete
from benchmarks.icestream_upsert import find_table
from benchmarks.metadata import newest_metadata, summary
from benchmarks.peers import flink
from benchmarks.peers.task import Task
from benchmarks.side import Side
from benchmarks.tables import MERGE_ON_READ, PLAIN, UPSERTING, Saved, Tables, catalog_name
from benchmarks.upsert_report import (
    BATCH,
    FLINK,
    MERGE,
    OURS,
    PYICEBERG,
    SCAN,
    SCAN_BATCHES,
    STREAM,
    Measured,
    millions,
    report,
    verdict,
)
from benchmarks.verify import table_digest
from icestream.dev.broker import Broker

NAMES = {"icestream": OURS, "merge": MERGE, "pyiceberg": PYICEBERG, "flink": FLINK}
PARTITIONS = 2
SCANS = 3
NOTED = {
    "total-data-files": "data files",
    "total-delete-files": "delete files",
    "total-position-deletes": "position deletes",
    "total-equality-deletes": "equality deletes",
}


@dataclass
class Bench:
    """Everything at one size of the base."""

    base: int
    batches: int
    changes: int
    rounds: int
    only: Sequence[str]
    parts: Sequence[str]
    bootstrap: str
    folder: Path
    tables: Tables
    measured: list[Measured] = field(default_factory=list)

    def run(self) -> list[Measured]:
        """All parts that were asked for."""
        self.folder.mkdir(parents=True)
        self.history = History.begin(self.base)
        self.topic = f"orders-{self.base}"
        self._say("making the base")
        self._make()
        places = self._batches()
        self.expected = self.history.write(self.folder / "expected.parquet")
        self.digest = self.tables.digest(self.expected)
        for name, table in places.items():
            self._check(name, table)
        self._scans(SCAN_BATCHES, places)
        if STREAM in self.parts:
            self._streams()
        return self.measured

    # -- the base ----------------------------------------------------------------------------------

    def _make(self) -> None:
        rows = self.history.write(self.folder / "base.parquet")
        send_base(self.bootstrap, self.topic, self.base if OURS in self.only else 0, PARTITIONS)
        self.starts = tuple(ends(self.bootstrap, self.topic, PARTITIONS))
        if MERGE in self.only and BATCH in self.parts:
            self.merge = self.tables.make(rows, self.folder / "merge", MERGE_ON_READ)
        if PYICEBERG in self.only and BATCH in self.parts:
            self.pyiceberg = self.tables.make_sqlite(rows, self.folder / "pyiceberg", PLAIN)
        if FLINK in self.only and STREAM in self.parts:
            self.flink = self.tables.make(rows, self.folder / "flink", UPSERTING)
            self.flink_saved = Saved(self.folder / "flink")
        if OURS in self.only:
            self.home = self.folder / "home"
            begin = time.monotonic()
            self._icestream_loads()
            seconds = time.monotonic() - begin
            self._say(f"icestream took the base in at {self.base / seconds:,.0f} rows/s")
            if STREAM in self.parts:
                self.home_saved = Saved(self.home)

    def _icestream_loads(self) -> None:
        log = self.folder / "load.log"
        with log.open("wb") as file:
            done = subprocess.run(
                self._icestream("stream", self.base),
                stdout=file,
                stderr=file,
                cwd=ROOT,
                check=False,
            )
        if done.returncode != 0:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
            raise RuntimeError(f"icestream did not load the base:\n{tail}")

    def _icestream(self, mode: str, count: int) -> list[str]:
        task = Task(self.bootstrap, self.topic, self.home, count)
        return [sys.executable, "-m", "benchmarks.icestream_upsert", mode, *task.arguments()]

    # -- batch by batch ----------------------------------------------------------------------------

    def _batches(self) -> dict[str, Path]:
        """Sends all batches; the warm sides take each in turns. Returns their tables."""
        found: dict[str, list[dict[str, Any]]] = {}
        with ExitStack() as stack:
            sides = [stack.enter_context(side) for side in self._sides()]
            for number in range(self.batches):
                before, batch = self.history, None
                if number == 0 and PYICEBERG in self.only and BATCH in self.parts:
                    untouched = History.begin(self.base)
                    batch = self.history.batch(self.changes)
                    self._pyiceberg(untouched.upserted(batch), batch.upserts())
                batch = batch or before.batch(self.changes)
                send(self.bootstrap, self.topic, batch, PARTITIONS)
                for side in sides if number % 2 else sides[::-1]:
                    found.setdefault(side.name, []).append(side.work())
                taken = (f"{n} {answers[-1]['seconds']:.2f} s" for n, answers in found.items())
                self._say(f"batch {number + 1}: {', '.join(taken)}")
        places = {}
        for name, answers in found.items():
            places[name] = find_table(self.home) if name == OURS else self.merge
            notes = dict(_notes(places[name]))
            if name == OURS:
                turns = sorted(each["turn"] for each in answers)
                notes["whole turn, median"] = f"{turns[len(turns) // 2]:.2f} s"
            self._measured(BATCH, name, self.changes, answers, notes)
        return places

    def _sides(self) -> list[Side]:
        if BATCH not in self.parts:
            return []
        sides = []
        if OURS in self.only:
            sides.append(Side(OURS, self._icestream("batches", self.changes), self._log(OURS)))
        if MERGE in self.only:
            task = Task(
                self.bootstrap, self.topic, self.folder / "merge", self.changes, self.starts
            )
            command = [sys.executable, "-m", "benchmarks.peers.spark_merge", *task.arguments()]
            sides.append(Side(MERGE, command, self._log(MERGE)))
        return sides

    def _pyiceberg(self, expected: History, upserts: Any) -> None:
        file = self.folder / "upserts.parquet"
        pq.write_table(upserts, file)
        wanted = expected.write(self.folder / "upserted.parquet")
        module = "benchmarks.peers.pyiceberg_upsert"
        place = self.folder / "pyiceberg"
        words = (catalog_name(place), place / "catalog.db", file)
        command = [sys.executable, "-m", module, *map(str, words)]
        digest = self.tables.digest(wanted)

        def check(contender: Contender, place: Path, output: Mapping[str, Any]) -> None:
            self._check(PYICEBERG, self.pyiceberg, wanted, digest)

        side = Contender(PYICEBERG, lambda place: command)
        (run,) = compete([side], self.folder / "runs", 1, check)
        answer = {"seconds": run.seconds, "cpu": run.cpu}
        self._measured(BATCH, PYICEBERG, run.rows, [answer], {"upserts": run.rows})

    # -- as one stream -----------------------------------------------------------------------------

    def _streams(self) -> None:
        count = self.batches * self.changes
        sides = []
        if OURS in self.only:
            command = self._icestream("stream", count)
            sides.append(Contender(OURS, lambda place: command, before=self.home_saved.restore))
        if FLINK in self.only:
            module = "benchmarks.peers.flink_upsert"
            task = Task(self.bootstrap, self.topic, self.folder / "flink", count, self.starts)
            words = [sys.executable, "-m", module, *task.arguments()]
            sides.append(
                Contender(
                    FLINK, lambda place: words, flink.prepare, before=self.flink_saved.restore
                )
            )
        if not sides:
            return
        places: dict[str, Path] = {}

        def check(contender: Contender, place: Path, output: Mapping[str, Any]) -> None:
            places[contender.name] = Path(output["table"])
            self._check(contender.name, places[contender.name])

        runs = compete(sides, self.folder / "runs", self.rounds, check)
        for side in sides:
            answers = [
                {"seconds": r.seconds, "cpu": r.cpu} for r in runs if r.contender == side.name
            ]
            self._measured(STREAM, side.name, count, answers, _notes(places[side.name]))
        self._scans(SCAN, places)

    # -- what all parts do -------------------------------------------------------------------------

    def _scans(self, part: str, places: Mapping[str, Path]) -> None:
        times: dict[str, list[dict[str, float]]] = {}
        for _ in range(SCANS):
            for name, table in places.items():
                times.setdefault(name, []).append({"seconds": self.tables.scan(table)})
        for name, answers in times.items():
            self._measured(part, name, self.history.rows, answers, _notes(places[name]))

    def _check(
        self, name: str, table: Path, expected: Path | None = None, digest: Any = None
    ) -> None:
        """Read by Spark, and by DuckDB unless there are equality deletes: it is not done with many of them in minutes."""
        readers: list[tuple[Callable[..., Any], Any]] = [
            (self.tables.digest, digest or self.digest)
        ]
        if name != FLINK:
            wanted = table_digest(expected or self.expected, COLUMNS)
            readers.append((lambda place: table_digest(place, COLUMNS), wanted))
        for read, wanted in readers:
            found = read(table)
            if found != wanted:
                raise RuntimeError(f"{name} wrote {found}, expected {wanted}")

    def _measured(
        self,
        part: str,
        name: str,
        changes: int,
        answers: Sequence[Mapping[str, float]],
        notes: Mapping[str, Any],
    ) -> None:
        times = [round(each["seconds"], 3) for each in answers]
        cpu = [round(each["cpu"], 2) for each in answers if "cpu" in each]
        date = datetime.now(UTC).date().isoformat()
        found = Measured(part, name, self.base, changes, times, cpu, date, notes)
        self.measured.append(found)
        self._say(f"{part}: {name} {found.value:,.2f}")

    def _log(self, name: str) -> Path:
        return self.folder / f"{name.replace(' ', '-')}.log"

    def _say(self, text: str) -> None:
        print(f"[{millions(self.base)}] {text}", flush=True)


def _notes(table: Path) -> dict[str, Any]:
    found = summary(newest_metadata(table))
    return {word: int(found[key]) for key, word in NOTED.items() if int(found.get(key, 0))}


def main() -> None:
    parser = argparse.ArgumentParser(description="Upserts of an Iceberg table, side by side.")
    parser.add_argument("--base", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--changes", type=int, default=50_000, help="changes in a batch")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each stream")
    parser.add_argument("--only", default=",".join(NAMES), help="contenders, with commas")
    parser.add_argument("--parts", default=f"{BATCH},{STREAM}", help="parts, with commas")
    parser.add_argument("--quick", action="store_true", help="50,000 rows, 3 batches of 5,000")
    parser.add_argument("--results", type=Path, help="folder of the report")
    parser.add_argument("--keep", type=Path, help="folder for tables and logs, kept")
    args = parser.parse_args()
    if args.quick:
        args.base, args.batches, args.changes, args.rounds = [50_000], 3, 5_000, 1
    results = args.results or (Path(tempfile.gettempdir()) / "upsert" if args.quick else RESULTS)
    only = [NAMES[each] for each in args.only.split(",")]
    measured: list[Measured] = []
    tables = Tables()
    settings = {"batches": args.batches, "changes": args.changes, "partitions": PARTITIONS}
    what = (
        f"{args.batches} batches of {args.changes:,} changes (80 % updates, 15 % inserts, 5 % "
        "deletes, random keys) as Debezium's JSON envelopes of about 350 bytes from a Kafka topic "
        f"with {PARTITIONS} partitions, applied to an Iceberg table of 7 columns with a base of "
        "several sizes. Every table was counted and hashed by Spark, and by DuckDB where it "
        "can read it, and equals the generated history."
    )
    with ExitStack() as stack:
        folder = args.keep or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="icestream-bench-"))
        )
        stack.callback(tables.close)
        broker = stack.enter_context(Broker(folder / "kafka", heap="1g"))
        for base in args.base:
            place = (folder / str(base)).absolute()
            bench = Bench(
                base, args.batches, args.changes, args.rounds, only, args.parts.split(","),
                broker.bootstrap, place, tables,
            )  # fmt: skip
            measured += bench.run()
            aims = report(results, settings, what, measured)
    for goal in aims:
        print(f"{goal.name:<55} {goal.aim:>8}   {verdict(goal)}")
    print(f"report: {results / 'upsert.md'}")


if __name__ == "__main__":
    main()
