"""What every peer is told and what it answers. No dependencies: also runs in a peer's own Python."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path

from benchmarks.metadata import newest_metadata, total_records


@dataclass(frozen=True)
class Task:
    """Read `count` events of a topic from the beginning, append them to a new table."""

    bootstrap: str
    topic: str
    warehouse: Path
    count: int

    def arguments(self) -> list[str]:
        """The task as the command line of a peer."""
        return [self.bootstrap, self.topic, str(self.warehouse), str(self.count)]


def parse() -> Task:
    """The task from the command line: BOOTSTRAP TOPIC WAREHOUSE COUNT."""
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("warehouse", type=Path, help="a folder; the table is events in bench")
    parser.add_argument("count", type=int)
    args = parser.parse_args()
    args.warehouse.mkdir(parents=True, exist_ok=True)
    return Task(args.bootstrap, args.topic, args.warehouse.absolute(), args.count)


def answer(table: Path, seconds: float | None = None) -> None:
    """Prints the result: the table's folder, the rows in it, seconds since the process began.

    Rows are what the table's current snapshot says, not what the peer meant to write.
    """
    spent = since_start() if seconds is None else seconds
    rows = total_records(newest_metadata(table))
    print(json.dumps({"rows": rows, "seconds": round(spent, 3), "table": str(table)}), flush=True)


def since_start() -> float:
    """Seconds since this process was started, the interpreter's own start included."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return uptime - ticks / os.sysconf("SC_CLK_TCK")
