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
    """Read `count` events of a topic from its beginning or from given offsets, write them to a table."""

    bootstrap: str
    topic: str
    warehouse: Path
    count: int
    starts: tuple[int, ...] = ()
    """The offset to begin at, for each partition."""

    def arguments(self) -> list[str]:
        """The task as the command line of a peer."""
        words = (self.bootstrap, self.topic, self.warehouse, self.count, *self.starts)
        return [str(word) for word in words]


def parse() -> Task:
    """The task from the command line: BOOTSTRAP TOPIC WAREHOUSE COUNT [OFFSET…]."""
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("warehouse", type=Path, help="a folder; its tables are in bench")
    parser.add_argument("count", type=int)
    parser.add_argument("starts", type=int, nargs="*")
    args = parser.parse_args()
    args.warehouse.mkdir(parents=True, exist_ok=True)
    warehouse = args.warehouse.absolute()
    return Task(args.bootstrap, args.topic, warehouse, args.count, tuple(args.starts))


def answer(table: Path, seconds: float | None = None, changes: int | None = None) -> None:
    """Prints the result: the table's folder, the rows in it, seconds since the process began.

    Rows are what the table's current snapshot says, not what the peer meant to write; a table that
    was changed rather than filled has no such number, and the changes are given.
    """
    spent = since_start() if seconds is None else seconds
    rows = total_records(newest_metadata(table)) if changes is None else changes
    print(json.dumps({"rows": rows, "seconds": round(spent, 3), "table": str(table)}), flush=True)


def since_start() -> float:
    """Seconds since this process was started, the interpreter's own start included."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return uptime - ticks / os.sysconf("SC_CLK_TCK")
