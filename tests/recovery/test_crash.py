"""SIGKILL at every place where it could hurt, and a paused process that wakes up too late.

One source feeds a table and a sink of its own; the table feeds another sink. After every kill the three must
hold no event twice and none that was not sent; after the restart, exactly the events sent.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from icestream.dev.broker import Broker
from tests.engine import (
    MEMORY,
    await_condition,
    column,
    icestream,
    is_stopped,
    lake,
    start,
)
from tests.recovery.points import choose_points

pytestmark = [pytest.mark.spark, pytest.mark.services]

SCRIPT = """
CREATE SOURCE events (id BIGINT NOT NULL, name VARCHAR) WITH (
  connector = 'kafka', topic = '{topic}', properties.bootstrap.server = '{bootstrap}'
) FORMAT PLAIN ENCODE JSON;
CREATE SINK first_sink AS SELECT id, upper(name) AS name FROM events WHERE id >= 0 WITH (
  connector = 'iceberg', type = 'append-only', database.name = 'out', table.name = 'first',
  create_table_if_not_exists = 'true'
);
CREATE TABLE kept (id BIGINT NOT NULL, name VARCHAR) WITH (
  connector = 'kafka', topic = '{topic}', properties.bootstrap.server = '{bootstrap}'
) FORMAT PLAIN ENCODE JSON;
CREATE SINK second_sink FROM kept WITH (
  connector = 'iceberg', type = 'append-only', database.name = 'out', table.name = 'second',
  create_table_if_not_exists = 'true', partition_by = 'bucket(2, id)'
);
"""
TABLES = ("out.first", "public.kept", "out.second")
POISONED = ("dead_letters.events", "dead_letters.kept")

# Named fault points in the order in which an epoch, and then a recovery, comes by them.
FAULTS = (
    "ranges-chosen",
    "files-written",
    "commit-sent@2",  # the first one is the fence of a restart or of a new table
    "first-table-committed",
    "tables-committed",
    "log-committed",
)


class Stream:
    """A topic whose events are numbered, and the home that reads it."""

    def __init__(self, tmp_path: Path, kafka: Broker, topic: str, produce) -> None:
        self.home = tmp_path / "home"
        self.script = tmp_path / "pipeline.sql"
        self.script.write_text(SCRIPT.format(topic=topic, bootstrap=kafka.bootstrap))
        self.topic, self.produce = topic, produce
        self.sent = self.poison = 0

    def send(self, count: int = 300) -> None:
        """More events, and one record that is not JSON."""
        events = [
            (str(i), f'{{"id": {i}, "name": "n{i}"}}') for i in range(self.sent, self.sent + count)
        ]
        self.produce(self.topic, [*events, ("x", "{broken")])
        self.sent += count
        self.poison += 1

    def arguments(self, *more: str) -> tuple[str | Path, ...]:
        return ("run", self.script, "--home", self.home, "--memory", MEMORY, *more)

    def check_no_wrong_rows(self) -> None:
        """At any moment: nothing twice, nothing that was never sent."""
        existing = {
            ".".join(t)
            for ns in lake(self.home).list_namespaces()
            for t in lake(self.home).list_tables(ns)
        }
        for table in TABLES:
            if table in existing:
                counts = Counter(column(self.home, table, "id"))
                assert set(counts) <= set(range(self.sent)), table
                assert set(counts.values()) <= {1}, table

    def check_complete(self) -> None:
        """After a run that ended well: exactly the events sent, in every table."""
        for table in TABLES:
            assert sorted(column(self.home, table, "id")) == list(range(self.sent)), table
        for table in POISONED:
            assert len(column(self.home, table, "offset")) == self.poison, table


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
def test_killed_at_fault_points(stream: Stream) -> None:
    stream.send()
    finish(stream)
    for fault in choose_points(FAULTS, 2):
        stream.send()
        kill(stream, fault)
        finish(stream)


@pytest.mark.timeout(600)
def test_killed_while_recovering(stream: Stream) -> None:
    stream.send()
    finish(stream)
    stream.send()
    kill(stream, "first-table-committed")
    kill(stream, "recovering")
    kill(stream, "recovery-fenced")
    kill(stream, "first-table-committed")  # of what the interrupted epoch still lacks
    finish(stream)


@pytest.mark.parametrize(
    "fault",
    choose_points(["files-written:stop", "first-table-committed:stop", "tables-committed:stop"], 1),
)
@pytest.mark.timeout(600)
def test_paused_process_that_wakes_up_too_late_commits_nothing(stream: Stream, fault: str) -> None:
    stream.send()
    zombie = start(*stream.arguments(), env={"ICESTREAM_FAULT": fault})
    try:
        await_condition(lambda: is_stopped(zombie.pid), "the process pauses at the fault point")

        refused = icestream(*stream.arguments("--once"))
        assert refused.returncode == 1
        assert f"already running on {stream.home} (process {zombie.pid})" in refused.stderr
        assert "--take-over" in refused.stderr

        stream.send()
        successor = icestream(*stream.arguments("--once", "--take-over"))
        assert successor.returncode == 0, successor.stderr
        stream.check_complete()

        stream.send()  # something to do for the zombie, if it could
        os.kill(zombie.pid, signal.SIGCONT)
        _, err = zombie.communicate(timeout=120)
        assert zombie.returncode == 3, err
        assert "another process has taken over" in err
    finally:
        if zombie.poll() is None:
            os.killpg(zombie.pid, signal.SIGKILL)
            zombie.wait()
    stream.check_no_wrong_rows()
    finish(stream)
