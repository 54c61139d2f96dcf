"""SIGKILL in the middle of a graph: a table, two aggregates over it, their join, and a sink of that.

Every batch changes and deletes rows, so that groups change, vanish and come back. A kill leaves each table as it was
after the batch before or as it is after this one, as far as the epoch had come; after the restart all of them are what
Python makes of the rows that are left.
"""

from __future__ import annotations

import json
import random
import signal
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from icestream.dev.broker import Broker
from tests.conftest import Produce, TopicFactory
from tests.engine import MEMORY, icestream, lake_table
from tests.recovery.points import choose_points

pytestmark = [pytest.mark.spark, pytest.mark.services]

SCRIPT = """
CREATE TABLE state (id BIGINT, region VARCHAR, v INT, PRIMARY KEY (id)) WITH (
  connector = 'kafka', topic = '{topic}', properties.bootstrap.server = '{bootstrap}'
) FORMAT UPSERT ENCODE JSON;
CREATE MATERIALIZED VIEW sums AS SELECT region, count(*) AS n, sum(v) AS total FROM state GROUP BY region;
CREATE MATERIALIZED VIEW peaks AS SELECT region, max(v) AS most, count(DISTINCT v) AS different FROM state GROUP BY region;
CREATE MATERIALIZED VIEW both_of AS
  SELECT s.region, s.n, s.total, p.most, p.different FROM sums s JOIN peaks p ON s.region = p.region;
CREATE SINK regions FROM both_of WITH (
  connector = 'iceberg', type = 'upsert', primary_key = 'region', database.name = 'out', table.name = 'regions',
  create_table_if_not_exists = 'true'
);
"""
STATE, SUMS, PEAKS, BOTH, OUT = TABLES = (
    "public.state", "public.sums", "public.peaks", "public.both_of", "out.regions",
)  # fmt: skip

RESTART = 1
"""Commits of a restart that count: the log's; fences do not."""
POINTS: dict[str, tuple[str, ...]] = {
    "vectors-written": (),
    f"commit-sent@{RESTART + 2}": (STATE, SUMS),
    f"commit-sent@{RESTART + 5}": (STATE, SUMS, PEAKS, BOTH),
    "tables-committed": TABLES,
}
"""Where the process is killed, and the tables that are committed by then. The counters of the different values are a
table of the engine's own, which is committed between the two aggregates."""

Key = int | str
Rows = dict[Key, tuple[object, ...]]


def tables(state: dict[int, tuple[str, int]]) -> dict[str, Rows]:
    """What all tables hold over these rows of the first one."""
    groups: dict[str, list[int]] = defaultdict(list)
    for region, v in state.values():
        groups[region].append(v)
    sums: Rows = {r: (len(vs), sum(vs)) for r, vs in groups.items()}
    peaks: Rows = {r: (max(vs), len(set(vs))) for r, vs in groups.items()}
    both: Rows = {r: (*sums[r], *peaks[r]) for r in groups}
    return {STATE: dict(state.items()), SUMS: sums, PEAKS: peaks, BOTH: both, OUT: both}


class Stream:
    """A topic of changes, the home that reads it, and what its tables hold after every batch."""

    def __init__(self, tmp_path: Path, kafka: Broker, topic: str, produce: Produce) -> None:
        self.home = tmp_path / "home"
        self.script = tmp_path / "pipeline.sql"
        self.script.write_text(SCRIPT.format(topic=topic, bootstrap=kafka.bootstrap))
        self.topic, self.produce = topic, produce
        self.random = random.Random(23)
        self.state: dict[int, tuple[str, int]] = {}
        self.after = [tables(self.state)]

    def send(self) -> None:
        """A batch: new rows, changed ones, deletes, and a region that vanishes."""
        lost = self.random.choice([*{region for region, _ in self.state.values()}, "none"])
        doomed = {i for i, (region, _) in self.state.items() if region == lost}
        chosen = doomed | {self.random.randrange(60) for _ in range(25)}
        records: list[tuple[str, str | None]] = []
        for id in sorted(chosen):
            self.state.pop(id, None)
            value = None
            if id not in doomed and self.random.random() < 0.8:
                region = self.random.choice([r for r in "abcdefgh" if r != lost])
                self.state[id] = (region, self.random.randrange(1000))
                value = json.dumps({"id": id, "region": region, "v": self.state[id][1]})
            records.append((json.dumps({"id": id}), value))
        self.produce(self.topic, records)
        self.after.append(tables(self.state))
        assert all(self.after[-1][t] != self.after[-2][t] for t in TABLES)

    def run(self, fault: str | None = None) -> None:
        """Run to the end, or to the fault point."""
        arguments = ("run", self.script, "--home", self.home, "--memory", MEMORY, "--once")
        done = icestream(*arguments, env={"ICESTREAM_FAULT": fault} if fault else None)
        assert done.returncode == (-signal.SIGKILL if fault else 0), (fault, done.stderr)

    def rows(self, table: str) -> Rows:
        """The table as PyIceberg reads it; a key must be there once."""
        found = lake_table(self.home, table).scan().to_arrow()
        names = [n for n in found.column_names if not n.startswith("_icestream_")]
        listed = list(zip(*(found[n].to_pylist() for n in names), strict=True))
        rows: Rows = {row[0]: tuple(map(_whole, row[1:])) for row in listed}
        assert len(rows) == len(listed), f"{table} has a key twice"
        return rows

    def check(self, committed: Iterable[str] = TABLES) -> None:
        """These tables are as after the newest batch, the others as after the one before."""
        done = set(committed)
        for table in TABLES:
            expected = self.after[-1 if table in done else -2][table]
            assert self.rows(table) == expected, (table, len(self.after))


def _whole(value: object) -> object:
    return value if isinstance(value, str) else int(str(value).partition(".")[0])


@pytest.fixture
def stream(tmp_path: Path, kafka: Broker, topic: TopicFactory, produce: Produce) -> Stream:
    return Stream(tmp_path, kafka, topic(partitions=2), produce)


@pytest.mark.timeout(900)
def test_killed_between_any_two_tables(stream: Stream) -> None:
    stream.send()
    stream.run()
    stream.check()
    for fault, committed in choose_points(list(POINTS.items()), 2):
        stream.send()
        stream.run(fault)
        stream.check(committed)
        if committed == (STATE, SUMS):  # killed again while the rest is done: only the counters are
            stream.run("first-table-committed")
            stream.check(committed)
        stream.run()
        stream.check()
