"""This engine's side of Nexmark: `icestream run qN.sql --once` on a home of its own.

    SIDE_INPUT=FOLDER python -m benchmarks.nexmark.icestream QUERY BOOTSTRAP TOPICS HOME COUNT

The clock runs from its start until it has ended. What its epochs took is told apart: the rest is
the start of Spark, the making of tables and the end.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.nexmark import queries
from benchmarks.peers.task import parse

_EPOCH = re.compile(r"^epoch \d+: [\d,]+ records in ([\d.]+) s")


def main() -> None:
    query = sys.argv.pop(1)
    task = parse()
    command = [
        sys.executable,
        "-m",
        "icestream",
        "run",
        str(queries.script(query)),
        "--once",
        "--allow-path",
        "/",
    ]
    begin = time.monotonic()
    with subprocess.Popen(
        [*command, "--home", str(task.warehouse)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "KAFKA": task.bootstrap, "COLUMNS": "1000"},
        text=True,
    ) as process:
        assert process.stderr is not None
        epochs = seconds_of_epochs(process.stderr)
    seconds = time.monotonic() - begin
    if process.returncode != 0:
        sys.exit(process.returncode)
    found = {
        "rows": task.count,
        "seconds": round(seconds, 3),
        "working": round(sum(epochs), 3),
        "epochs": len(epochs),
        "table": str(find_table(task.warehouse, query)),
    }
    print(json.dumps(found), flush=True)


def seconds_of_epochs(lines: Iterable[str]) -> list[float]:
    """Passes on what the engine prints, and returns what its epochs took."""
    found = []
    for line in lines:
        sys.stderr.write(line)
        if match := _EPOCH.match(line):
            found.append(float(match.group(1)))
    return found


def find_table(home: Path, name: str) -> Path:
    """The folder of a table in the home's lake, wherever the catalog put it in its warehouse."""
    (metadata,) = (home / "lake" / "warehouse").glob(f"**/public/{name}/metadata")
    return metadata.parent


if __name__ == "__main__":
    main()
