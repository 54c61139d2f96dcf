"""Tables with a key against dictionaries: thousands of random histories, in epochs of any size, with restarts."""

from __future__ import annotations

import json
import random
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from icestream.config import EngineSettings, Home
from icestream.engine import Engine
from icestream.lake import index, keyed
from tests.conftest import Produce, TopicFactory
from tests.engine import lake, lake_table
from tests.keyed import (
    COLUMNS,
    DECLARED,
    RULES,
    UNTOLD,
    Content,
    Model,
    Row,
    applied,
    by_duckdb,
    by_pyiceberg,
    difference,
    lake_table_of,
    random_row,
    seeded,
)
from tests.spark_session import spark  # noqa: F401

pytestmark = [pytest.mark.spark, pytest.mark.services]

LANES = 2_400
PARTITIONS = 2
PLACEHOLDER = "__debezium_unavailable_value"
Event = tuple[str, Row | None, Row | None]
"""What happened, the row before, the row after."""


class History:
    """Random events of one table, lane by lane, and the models that follow them."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.models = {rule: Model(rule) for rule in RULES}
        self.upserts = Model()
        self.old: list[Event] = []

    def epoch(self, lanes: range, *, truncate: bool) -> dict[int, list[Event]]:
        """Events by partition; those of a lane are in one partition, in order."""
        events: dict[int, list[Event]] = defaultdict(list)
        order = [lane for lane in lanes for _ in range(self.r.randrange(6))]
        self.r.shuffle(order)
        for lane in order:
            events[lane % PARTITIONS].append(self.event(lane))
        for partition, some in list(events.items()):
            again = self.r.choices(some, k=len(some) // 20)  # repeated, later on
            place = [self.r.randrange(len(some)) for _ in again]
            for at, event in zip(sorted(place, reverse=True), again, strict=True):
                some.insert(at, event)
            if truncate:
                some.insert(self.r.randrange(len(some)), ("t", None, None))
            events[partition] = some
        self.follow(events, truncate=truncate)
        return events

    def event(self, lane: int) -> Event:
        r = self.r
        op = r.choice("ccruuuudm")
        row = random_row(r, lane, untold=op == "u" and r.random() < 0.2)
        if op == "m":  # another key for the row
            return "u", random_row(r, lane), random_row(r, lane)
        return op, row if op == "d" else None, None if op == "d" else row

    def follow(self, events: dict[int, list[Event]], *, truncate: bool) -> None:
        for model in self.models.values():
            if truncate:
                model.rows.clear()
            for some in events.values():
                last = max((i for i, e in enumerate(some) if e[0] == "t"), default=-1)
                for _, before, after in some[last + 1 :]:
                    if before is not None and (after is None or before[:2] != after[:2]):
                        model.delete(before[:2])
                    if after is not None:
                        model.put(after)
        for _, before, after in (e for some in events.values() for e in some):
            if after is not None:
                self.upserts.put(told(after))
            elif before is not None:
                self.upserts.delete(before[:2])


def told(row: Row) -> Row:
    return tuple("?" if value is UNTOLD else value for value in row)


def document(row: Row | None) -> dict[str, object] | None:
    if row is None:
        return None
    values = (PLACEHOLDER if value is UNTOLD else value for value in row)
    return dict(zip(COLUMNS, values, strict=True))


def debezium(events: list[Event]) -> Iterator[tuple[str | None, str]]:
    for op, before, after in events:
        event = {"op": op, "before": document(before), "after": document(after), "source": {}}
        yield None, json.dumps(event)


def upserts(events: list[Event]) -> Iterator[tuple[str, str | None]]:
    for _, before, after in events:
        row = after or before
        if row is not None:
            key = json.dumps({"lane": row[0], "id": row[1]})
            yield key, None if after is None else json.dumps(document(told(after)))


def script(bootstrap: str, changes: str, rows: str) -> str:
    with_topic = (
        "WITH (connector = 'kafka', topic = '{}', properties.bootstrap.server = '"
        + bootstrap
        + "')"
    )
    tables = [
        f"CREATE TABLE {name} ({DECLARED}) {rule} {with_topic.format(changes)} FORMAT DEBEZIUM ENCODE JSON;"
        for name, rule in RULES.items()
    ]
    sink = (
        "CREATE SINK {} AS SELECT lane, id, name, n, v FROM {} WITH (connector = 'iceberg', "
        "type = 'upsert', database.name = 'out', table.name = '{}', {} "
        "create_table_if_not_exists = 'true', commit_checkpoint_interval = 1);"
    )
    return "\n".join(
        [
            *tables,
            f"CREATE TABLE upserts ({DECLARED}) {with_topic.format(rows)} FORMAT UPSERT ENCODE JSON;",
            sink.format("followed", "overwrite WHERE n < 4", "followed", "partition_by = 'n',"),
            sink.format("followed2", "upserts", "followed2", "format_version = '2',"),
        ]
    )


def expected(history: History) -> dict[str, Content]:
    rows = {f"public.{rule}": model.rows for rule, model in history.models.items()}
    some = history.models["overwrite"].rows
    return {
        **rows,
        "public.upserts": history.upserts.rows,
        "out.followed": {k: row for k, row in some.items() if row[3] is not None and row[3] < 4},
        "out.followed2": history.upserts.rows,
    }


def head(home: Path, name: str) -> int:
    snapshot = lake_table(home, name).current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def test_any_history_ends_in_the_same_rows_as_in_a_dictionary(
    tmp_path: Path,
    spark,  # noqa: F811
    kafka,
    topic: TopicFactory,
    produce: Produce,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    r = seeded()
    changes, rows = topic(PARTITIONS, prefix="changes"), topic(PARTITIONS, prefix="rows")
    history = History(r)
    monkeypatch.setattr(index, "TIER", 2)
    stack = None
    owned = [f"public.{rule}" for rule in RULES] + ["public.upserts"]
    snapshots: dict[str, list[tuple[int, Content]]] = defaultdict(list)
    for epoch in range(6):
        monkeypatch.setattr(keyed, "TOGETHER", 0 if epoch == 2 else 20_000)
        monkeypatch.setattr(index, "IN_DRIVER", 0 if epoch == 3 else 300_000)
        first = r.randrange(LANES // 2)
        lanes = range(LANES) if epoch == 0 else range(first, first + r.randrange(LANES // 2))
        events = history.epoch(lanes, truncate=epoch == 4)
        for partition, some in events.items():
            produce(changes, debezium(some), partition=partition)
            produce(rows, upserts(some), partition=partition)
        if stack is None or r.random() < 0.5:
            if stack is not None:
                stack.close()
            stack = Engine(
                Home.at(tmp_path / "home"), EngineSettings(), application=spark, allow_paths=["/"]
            )
            stack.execute(script(kafka.bootstrap, changes, rows))
        stack.run(threading.Event(), once=True)
        for name, wanted in expected(history).items():
            assert difference(by_pyiceberg(tmp_path / "home", name), wanted) == {}, (epoch, name)
        for name in owned:
            now = dict(expected(history)[name])
            after = head(tmp_path / "home", name)
            table = lake_table_of(stack.spark, name)
            before = snapshots[name][-1] if snapshots[name] else (None, {})
            assert applied(before[1], table, before[0], after) == now, (epoch, name)
            snapshots[name].append((after, now))
        if epoch in (1, 3):
            for name in ("public.overwrite", "public.fill", "out.followed"):
                stack.spark.sql(
                    f"CALL lake.system.rewrite_data_files(table => '{name}', "
                    "options => map('rewrite-all', 'true'))"
                ).collect()
    for name, wanted in expected(history).items():
        assert difference(by_duckdb(tmp_path / "home", name), wanted) == {}, name
    assert stack is not None
    for name in owned:  # over many epochs at once, compactions and the truncation among them
        table = lake_table_of(stack.spark, name)
        for start, end in ((0, 3), (2, 5), (1, 5), (3, 5)):
            (since, before), (until, after) = snapshots[name][start], snapshots[name][end]
            assert difference(applied(before, table, since, until), after) == {}, (name, start, end)
    stack.close()
    assert not [
        n for n in lake(tmp_path / "home").list_tables("dead_letters") if letters(tmp_path, n)
    ]


def letters(root: Path, name: tuple[str, ...]) -> int:
    return lake_table(root / "home", ".".join(name)).scan().to_arrow().num_rows
