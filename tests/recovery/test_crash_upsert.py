"""SIGKILL at every place where it could hurt an upsert, and a paused process that wakes up too late.

One topic of changes (rows, other rows for the same keys, tombstones) feeds a table with a key and one whose NULLs keep
the old value; the first feeds two upsert sinks, of both format versions. At any moment each of them is what a
dictionary makes of the batches sent so far, up to some batch; after a run that nothing disturbs, of all of them.
"""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path

import pytest

from icestream.dev.broker import Broker
from tests.engine import MEMORY, await_condition, icestream, is_stopped, lake, lake_table, start
from tests.recovery.points import EVERY, choose_points

pytestmark = [pytest.mark.spark, pytest.mark.services]

SCRIPT = """
CREATE TABLE state (id BIGINT, name VARCHAR, v INT, PRIMARY KEY (id)) WITH (
  connector = 'kafka', topic = '{topic}', properties.bootstrap.server = '{bootstrap}'
) FORMAT UPSERT ENCODE JSON;
CREATE TABLE filled (id BIGINT, name VARCHAR, v INT, PRIMARY KEY (id)) ON CONFLICT DO UPDATE IF NOT NULL WITH (
  connector = 'kafka', topic = '{topic}', properties.bootstrap.server = '{bootstrap}'
) FORMAT UPSERT ENCODE JSON;
CREATE SINK third FROM state WITH (
  connector = 'iceberg', type = 'upsert', database.name = 'out', table.name = 'third',
  create_table_if_not_exists = 'true'
);
CREATE SINK second AS SELECT id, name, v FROM state WHERE v % 5 <> 0 WITH (
  connector = 'iceberg', type = 'upsert', primary_key = 'id', database.name = 'out', table.name = 'second',
  create_table_if_not_exists = 'true', format_version = '2', partition_by = 'truncate(100, v)'
);
"""

# Named fault points in the order in which an epoch comes by them. Of those that several tables reach in one epoch,
# later ones too.
FAULTS = (
    "ranges-chosen",
    "runs-written",
    "index-covered@2",
    "files-written",
    "vectors-written@2",  # the second table's, while nothing is committed yet
    "commit-sent@6",  # the first ones are the log's own and the fences of the restart
    "first-table-committed",
    "delta-read@2",
    "vectors-written@4",  # the second sink's
    "tables-committed",
    "log-committed",
)

Row = tuple[str | None, int | None]
Rows = dict[int, Row]


class Model:
    """What the four tables must be: a dictionary that every change is applied to."""

    def __init__(self) -> None:
        self.state: Rows = {}
        self.filled: Rows = {}

    def apply(self, key: int, row: Row | None) -> None:
        if row is None:
            self.state.pop(key, None)
            self.filled.pop(key, None)
            return
        old = self.filled.get(key, (None, None))
        self.state[key] = row
        self.filled[key] = tuple(o if n is None else n for n, o in zip(row, old, strict=True))

    def tables(self) -> dict[str, Rows]:
        return {
            "public.state": dict(self.state),
            "public.filled": dict(self.filled),
            "out.third": dict(self.state),
            "out.second": {k: r for k, r in self.state.items() if r[1] is not None and r[1] % 5},
        }


class Stream:
    """A topic of changes, the home that reads it, and the state after every batch."""

    def __init__(self, tmp_path: Path, kafka: Broker, topic: str, produce) -> None:
        self.home = tmp_path / "home"
        self.script = tmp_path / "pipeline.sql"
        self.script.write_text(SCRIPT.format(topic=topic, bootstrap=kafka.bootstrap))
        self.topic, self.produce = topic, produce
        self.random = random.Random(17)
        self.model = Model()
        self.after = [self.model.tables()]

    def send(self, count: int = 200) -> None:
        """A batch: new keys, changed ones, doubles, deletes, also of keys that never were."""
        records: list[tuple[str, str | None]] = []
        for number in range(count):
            key = self.random.randrange(150 + 20 * len(self.after))
            row: Row | None = (
                self.random.choice([None, f"n{len(self.after)}-{number}"]),
                self.random.choice([None, self.random.randrange(1000)]),
            )
            if self.random.random() < 0.2:
                row = None
            self.model.apply(key, row)
            value = None if row is None else json.dumps({"id": key, "name": row[0], "v": row[1]})
            records.append((json.dumps({"id": key}), value))
        self.produce(self.topic, records)
        self.after.append(self.model.tables())

    def arguments(self, *more: str) -> tuple[str | Path, ...]:
        return ("run", self.script, "--home", self.home, "--memory", MEMORY, *more)

    def rows(self, table: str) -> Rows:
        """The table as PyIceberg reads it; a key must be there once."""
        found = lake_table(self.home, table).scan().to_arrow().to_pylist()
        rows = {r["id"]: (r["name"], r["v"]) for r in found}
        assert len(rows) == len(found), f"{table} has a key twice"
        return rows

    def check_no_wrong_rows(self) -> None:
        """At any moment: each table is as it was to be after some batch."""
        catalog = lake(self.home)
        existing = {
            ".".join(t) for ns in catalog.list_namespaces() for t in catalog.list_tables(ns)
        }
        for table in self.after[0]:
            if table in existing:
                rows = self.rows(table)
                assert any(rows == state[table] for state in self.after), table

    def check_complete(self) -> None:
        """After a run that ended well: everything that was sent."""
        for table, expected in self.after[-1].items():
            assert self.rows(table) == expected, table


@pytest.fixture
def stream(tmp_path, kafka, topic, produce) -> Stream:
    return Stream(tmp_path, kafka, topic(partitions=2), produce)


def finish(stream: Stream) -> None:
    """A run that nothing disturbs ends well, and then everything is there once."""
    done = icestream(*stream.arguments("--once"))
    assert done.returncode == 0, done.stderr
    stream.check_complete()


def kill(stream: Stream, fault: str) -> None:
    """A run that is killed at a fault point leaves no wrong row."""
    killed = icestream(*stream.arguments("--once"), env={"ICESTREAM_FAULT": fault})
    assert killed.returncode == -signal.SIGKILL, (fault, killed.stderr)
    stream.check_no_wrong_rows()


@pytest.mark.timeout(1200)
def test_killed_at_fault_points_and_while_recovering(stream: Stream) -> None:
    stream.send()
    finish(stream)  # else there would be nothing to index and nothing to mark
    for number, fault in enumerate(choose_points(FAULTS, 3)):
        stream.send()
        kill(stream, fault)  # having completed what the one before left
        if number % 5 == 4:
            finish(stream)
    kill(stream, "recovering")
    finish(stream)
    if not EVERY:
        return
    stream.send()
    kill(stream, "first-table-committed")
    kill(stream, "recovery-fenced")
    kill(stream, "vectors-written")  # of the table that the interrupted epoch still lacks
    kill(stream, "delta-read")
    finish(stream)


@pytest.mark.timeout(600)
def test_paused_process_that_wakes_up_too_late_commits_nothing(stream: Stream) -> None:
    fault = "vectors-written@3:stop"  # both tables are committed, the first sink is about to be
    stream.send()
    finish(stream)
    stream.send()
    zombie = start(*stream.arguments(), env={"ICESTREAM_FAULT": fault})
    try:
        await_condition(lambda: is_stopped(zombie.pid), "the process pauses at the fault point")
        stream.send()
        successor = icestream(*stream.arguments("--once", "--take-over"))
        assert successor.returncode == 0, successor.stderr
        stream.check_complete()

        os.kill(zombie.pid, signal.SIGCONT)
        _, err = zombie.communicate(timeout=120)
        assert zombie.returncode == 3, err
        assert "another process has taken over" in err
    finally:
        if zombie.poll() is None:
            os.killpg(zombie.pid, signal.SIGKILL)
            zombie.wait()
    stream.check_complete()
    stream.send()
    finish(stream)
