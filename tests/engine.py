"""Running the engine as users do, as a process of its own, and reading its tables with other people's readers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from icestream.dev.duck import open_duckdb

MEMORY = "1g"


def command(*arguments: str | Path) -> list[str]:
    """The command line of `icestream …`; statements may use any file outside the home."""
    access = ["--allow-path", "/"] if arguments[0] in ("run", "serve", "sql", "plan") else []
    return [sys.executable, "-m", "icestream", *map(str, arguments), *access]


def icestream(
    *arguments: str | Path, env: Mapping[str, str] | None = None, timeout: float = 240
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end in a process group of its own, so that a fault can kill all of it."""
    process = start(*arguments, env=env)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"did not end in {timeout} s:\n{out}\n{err}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def start(*arguments: str | Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a command in a process group of its own."""
    return subprocess.Popen(
        command(*arguments),
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def await_condition(condition: Callable[[], bool], what: str, timeout: float = 120) -> None:
    """Wait until the condition holds; fail with `what` if it never does."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"never happened in {timeout:g} s: {what}")
        time.sleep(0.05)


def is_stopped(pid: int) -> bool:
    """Whether the process is stopped by a signal (state T)."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def lake(home: Path) -> SqlCatalog:
    """The embedded lake, opened by PyIceberg."""
    return SqlCatalog(
        "lake",
        uri=f"sqlite:///{home}/lake/catalog.db",
        warehouse=(home / "lake" / "warehouse").as_uri(),
    )


def lake_table(home: Path, name: str) -> Table:
    """One table of the embedded lake."""
    return lake(home).load_table(name)


def column(home: Path, name: str, field: str) -> list[object]:
    """All values of a column, read by PyIceberg."""
    return lake_table(home, name).scan(selected_fields=(field,)).to_arrow()[field].to_pylist()


def duckdb_count(home: Path, name: str, what: str = "count(*)") -> object:
    """An aggregate over a table, computed by DuckDB from its files."""
    location = lake_table(home, name).metadata_location.removeprefix("file://")
    connection = open_duckdb(iceberg=True)
    answer = connection.execute(f"SELECT {what} FROM iceberg_scan('{location}')").fetchone()
    assert answer is not None
    return answer[0]


def status(home: Path) -> dict[str, object]:
    """`icestream status --format json`."""
    done = icestream("status", "--home", home, "--format", "json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))
