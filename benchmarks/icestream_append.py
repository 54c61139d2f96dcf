"""This engine's side of the append benchmark: the script a user would write, run once.

The clock runs from the start of `icestream run` until it has ended.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from benchmarks.events import COLUMNS
from benchmarks.peers.task import Task, answer, parse

SCRIPT = """\
CREATE SOURCE events (
  {columns}
) WITH (
  connector = 'kafka',
  topic = '{task.topic}',
  properties.bootstrap.server = '{task.bootstrap}',
  scan.startup.mode = 'earliest'
) FORMAT PLAIN ENCODE JSON;

CREATE SINK events_sink FROM events WITH (
  connector = 'iceberg',
  type = 'append-only',
  create_table_if_not_exists = 'true',
  database.name = 'bench',
  table.name = 'events'
);
"""


def script(task: Task) -> str:
    """The task as SQL."""
    columns = ",\n  ".join(f"{name} {type}" for name, type in COLUMNS.items())
    return SCRIPT.format(columns=columns, task=task)


def main() -> None:
    task = parse()
    file = task.warehouse / "append.sql"
    file.write_text(script(task))
    home = task.warehouse / "home"
    command = [
        sys.executable,
        "-m",
        "icestream",
        "run",
        str(file),
        "--once",
        "--allow-path",
        "/",
        "--home",
        str(home),
    ]
    begin = time.monotonic()
    subprocess.run(command, check=True, stdout=sys.stderr)
    seconds = time.monotonic() - begin
    answer(find_table(home), seconds)


def find_table(home: Path) -> Path:
    """The folder of the sink's table, wherever the catalog put it in its warehouse."""
    (metadata,) = (home / "lake" / "warehouse").glob("**/bench/events/metadata")
    return metadata.parent


if __name__ == "__main__":
    main()
