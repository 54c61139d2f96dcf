"""This engine's side of the upsert benchmark: a table with a key on a topic of Debezium's changes.

    python -m benchmarks.icestream_upsert stream|batches BOOTSTRAP TOPIC HOME COUNT

`stream` is `icestream run --once`: the clock runs from its start until it has ended. `batches`
keeps the engine open and runs an epoch each time it is told; the clock stops when the epoch's
commits are done, and the rest of the turn (looking for more, housekeeping) is told apart.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.changes import COLUMNS
from benchmarks.peers.task import Task, answer, parse
from benchmarks.side import serve
from icestream.config import Home
from icestream.engine import Engine
from icestream.observe.report import EpochReport

SCRIPT = """\
CREATE TABLE orders (
  {columns},
  PRIMARY KEY (id)
) WITH (
  connector = 'kafka',
  topic = '{task.topic}',
  properties.bootstrap.server = '{task.bootstrap}',
  scan.startup.mode = 'earliest'
) FORMAT DEBEZIUM ENCODE JSON;
"""


def script(task: Task) -> str:
    """The task as SQL."""
    columns = ",\n  ".join(f"{name} {type}" for name, type in COLUMNS.items())
    return SCRIPT.format(columns=columns, task=task)


def stream(task: Task) -> None:
    """All that is in the topic, by the command that a user would give."""
    file = task.warehouse.with_suffix(".sql")
    file.write_text(script(task))
    command = [sys.executable, "-m", "icestream", "run", str(file), "--once", "--allow-path", "/"]
    begin = time.monotonic()
    subprocess.run([*command, "--home", str(task.warehouse)], check=True, stdout=sys.stderr)
    seconds = time.monotonic() - begin
    answer(find_table(task.warehouse), seconds, task.count)


def batches(task: Task) -> None:
    """One epoch a batch, on an engine that stays open."""
    with Engine(
        Home.at(task.warehouse), notice=lambda text: print(text, file=sys.stderr), allow_paths=["/"]
    ) as engine:
        engine.execute(script(task))
        engine.open()

        def work() -> dict[str, Any]:
            reports: list[EpochReport] = []
            times = [time.monotonic()]

            def seen(report: EpochReport) -> None:
                reports.append(report)
                times.append(time.monotonic())

            engine.run(threading.Event(), once=True, report=seen)
            if sum(sum(r.records.values()) for r in reports) != task.count:
                raise RuntimeError(f"{task.count} changes expected: {reports}")
            turn = time.monotonic() - times[0]
            return {"seconds": times[-1] - times[0], "turn": turn, "epochs": len(reports)}

        serve(work)


def find_table(home: Path) -> Path:
    """The folder of the table, wherever the catalog put it in its warehouse."""
    (metadata,) = (home / "lake" / "warehouse").glob("**/public/orders/metadata")
    return metadata.parent


def main() -> None:
    mode = sys.argv.pop(1)
    {"stream": stream, "batches": batches}[mode](parse())


if __name__ == "__main__":
    main()
