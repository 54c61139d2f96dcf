"""A table of orders and its change log for benchmarks, as Debezium writes it, the same for the same seed.

A row depends only on its id, the number of the change that wrote it (0: it was there from the
start) and the seed. So a history only has to remember one number a row, and the expected table is
computed from those, by none of the contenders.

    python -m benchmarks.changes BOOTSTRAP TOPIC BASE PARTITION PARTITIONS     sends a share of the base
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import run
from sys import executable
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks.events import BLOCK, START, mix
from tests.services.kafka import create_topic, produce

COLUMNS = {
    "id": "BIGINT",
    "customer_id": "BIGINT",
    "quantity": "INT",
    "price": "DOUBLE",
    "status": "VARCHAR",
    "note": "VARCHAR",
    "updated_at": "TIMESTAMPTZ",
}
"""Name and SQL type of every column; the first one is the key."""

UPDATES, INSERTS = 0.80, 0.15
"""Shares of the changes; the rest are deletes."""
STATES = np.array(["new", "paid", "packed", "shipped", "delivered", "returned"])
REVIVALS = 0.1
"""Share of the inserts that bring back a key which an earlier batch deleted."""

Longs = npt.NDArray[np.int64]
ABSENT = -1
DAY = 86_400_000


@dataclass(frozen=True)
class Rows:
    """Columns of rows, given their ids and versions."""

    ids: Longs
    versions: Longs
    noise: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, ids: Longs, versions: Longs, seed: int) -> Self:
        """Rows as the changes of those numbers wrote them."""
        spread = mix(versions.astype(np.uint64) + np.uint64(seed << 40))
        return cls(ids, versions, mix(ids.astype(np.uint64) ^ spread))

    def _number(self, shift: int, below: int) -> Longs:
        return ((self.noise >> np.uint64(shift)) % np.uint64(below)).astype(np.int64)

    def _millis(self) -> Longs:
        since = np.where(self.versions == 0, self.ids % DAY, DAY + self.versions)
        return START.astype(np.int64) + since

    def _notes(self) -> bytes:
        return self.noise.astype(">u8").tobytes().hex().encode()

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        count = len(self.ids)
        ends = pa.array(np.arange(count + 1, dtype=np.int32) * 16).buffers()[1]
        notes = pa.StringArray.from_buffers(count, ends, pa.py_buffer(self._notes()))
        states = pa.DictionaryArray.from_arrays(
            self._number(20, len(STATES)).astype(np.int32), pa.array(STATES.tolist())
        )
        return pa.table(
            {
                "id": self.ids,
                "customer_id": self._number(0, 100_000),
                "quantity": self._number(24, 100).astype(np.int32),
                "price": self._number(32, 100_000) / 100,
                "status": states.cast(pa.string()),
                "note": notes,
                "updated_at": pa.array(self._millis() * 1000).cast(pa.timestamp("us", "UTC")),
            }
        )

    def texts(self) -> list[str]:
        """The rows as JSON objects."""
        notes = self._notes().decode()
        times = np.datetime_as_string(self._millis().astype("datetime64[ms]")).tolist()
        columns = (
            self.ids.tolist(),
            self._number(0, 100_000).tolist(),
            self._number(24, 100).tolist(),
            (self._number(32, 100_000) / 100).tolist(),
            STATES[self._number(20, len(STATES))].tolist(),
            range(0, len(notes), 16),
            times,
        )
        return [
            f'{{"id":{id},"customer_id":{customer},"quantity":{quantity},"price":{price},'
            f'"status":"{status}","note":"{notes[at : at + 16]}","updated_at":"{time}Z"}}'
            for id, customer, quantity, price, status, at, time in zip(*columns, strict=True)
        ]


@dataclass(frozen=True)
class Batch:
    """Changes in order: the version of the row before and after each, ABSENT where there is none."""

    ids: Longs
    before: Longs
    after: Longs
    first: int
    """The number of the first change."""
    seed: int

    def records(self) -> Iterator[tuple[int, bytes, bytes]]:
        """The id, key and value of each change, as Debezium sends them without schemas."""
        before = self._images(self.before)
        after = self._images(self.after)
        for number, (id, old, new) in enumerate(zip(self.ids.tolist(), before, after, strict=True)):
            change = self.first + number
            op = "c" if old == "null" else "d" if new == "null" else "u"
            value = (
                f'{{"before":{old},"after":{new},"op":"{op}",'
                f'"source":{{"table":"orders","lsn":{change}}},"ts_ms":{1785542400000 + change}}}'
            )
            yield id, b'{"id":%d}' % id, value.encode()

    def _images(self, versions: Longs) -> list[str]:
        there = versions != ABSENT
        images = iter(Rows.of(self.ids[there], versions[there], self.seed).texts())
        return [next(images) if each else "null" for each in there.tolist()]

    def last(self) -> tuple[Longs, Longs]:
        """The ids that changed and the version that each is left with."""
        ids, index = np.unique(self.ids[::-1], return_index=True)
        return ids, self.after[::-1][index]

    def upserts(self) -> pa.Table:
        """The rows that the batch leaves behind: what is to be upserted, without the deletes."""
        ids, versions = self.last()
        there = versions != ABSENT
        return Rows.of(ids[there], versions[there], self.seed).arrow()


@dataclass
class History:
    """All rows of the table so far; every batch goes on from there."""

    versions: Longs
    seed: int
    random: np.random.Generator
    changes: int = 0

    @classmethod
    def begin(cls, base: int, seed: int = 1) -> Self:
        """A table with the ids 0 to base − 1."""
        return cls(np.zeros(base, dtype=np.int64), seed, np.random.default_rng(seed))

    def batch(self, count: int) -> Batch:
        """The next changes: updates and deletes of rows that are there, inserts of ones that are not."""
        draw = self.random.random(count)
        updating = draw < UPDATES
        inserting = (draw >= UPDATES) & (draw < UPDATES + INSERTS)
        deleting = draw >= UPDATES + INSERTS
        ids = np.empty(count, dtype=np.int64)
        ids[inserting] = self._absent(int(inserting.sum()))
        ids[deleting] = self._distinct(int(deleting.sum()))
        places = np.flatnonzero(updating)
        dies = np.full(len(self.versions), count)
        dies[ids[deleting]] = np.flatnonzero(deleting)
        while len(places):  # an update of a row that this batch has deleted before is drawn again
            ids[places] = self._present(len(places))
            places = places[dies[ids[places]] < places]
        after = np.where(deleting, ABSENT, self.changes + 1 + np.arange(count))
        batch = Batch(ids, self._before(ids, after), after, self.changes + 1, self.seed)
        self._apply(batch)
        return batch

    def _before(self, ids: Longs, after: Longs) -> Longs:
        """The version of each change's row just before it: of an earlier change in the batch, or stored."""
        self._grow(int(ids.max()) + 1)
        order = np.argsort(ids, kind="stable")
        before = self.versions[ids]
        repeated = np.flatnonzero(ids[order][1:] == ids[order][:-1]) + 1
        before[order[repeated]] = after[order[repeated - 1]]
        return before

    def _apply(self, batch: Batch) -> None:
        ids, versions = batch.last()
        self.versions[ids] = versions
        self.changes += len(batch.ids)

    def _grow(self, size: int) -> None:
        more = size - len(self.versions)
        if more > 0:
            self.versions = np.concatenate([self.versions, np.full(more, ABSENT)])

    def _present(self, count: int) -> Longs:
        """Ids of rows that are there, repeated ones among them."""
        ids = self.random.integers(0, len(self.versions), count)
        while len(gone := np.flatnonzero(self.versions[ids] == ABSENT)):
            ids[gone] = self.random.integers(0, len(self.versions), len(gone))
        return ids

    def _distinct(self, count: int) -> Longs:
        ids = np.unique(self._present(2 * count))
        assert len(ids) >= count, "the table is too small for so many deletes"
        return self.random.permutation(ids)[:count]

    def _absent(self, count: int) -> Longs:
        """Ids of rows that are not there: some of deleted ones, else new ones."""
        gone = np.flatnonzero(self.versions == ABSENT)
        revived = self.random.permutation(gone)[: int(count * REVIVALS)]
        new = np.arange(count - len(revived)) + len(self.versions)
        return self.random.permutation(np.concatenate([revived, new]))

    def upserted(self, batch: Batch) -> History:
        """This state with only what the batch inserts and updates, none of its deletes."""
        other = replace(self, versions=self.versions.copy())
        ids, versions = batch.last()
        there = versions != ABSENT
        other._grow(int(ids.max()) + 1)
        other.versions[ids[there]] = versions[there]
        return other

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int((self.versions != ABSENT).sum())

    def write(self, path: Path) -> Path:
        """The table as a Parquet file, in order of id."""
        there = np.flatnonzero(self.versions != ABSENT)
        with pq.ParquetWriter(path, Rows.of(there[:0], there[:0], 0).arrow().schema) as file:
            for start in range(0, len(there), 20 * BLOCK):
                ids = there[start : start + 20 * BLOCK]
                file.write_table(Rows.of(ids, self.versions[ids], self.seed).arrow())
        return path


# -- Kafka -----------------------------------------------------------------------------------------


def base_records(base: int, seed: int, start: int, step: int) -> Iterator[tuple[bytes, bytes]]:
    """The rows start, start + step, … of the base as Debezium's snapshot reads them, without padding."""
    for first in range(start, base, BLOCK * step):
        ids = np.arange(first, min(first + BLOCK * step, base), step)
        for id, text in zip(ids.tolist(), Rows.of(ids, ids * 0, seed).texts(), strict=True):
            yield b'{"id":%d}' % id, f'{{"before":null,"after":{text},"op":"r"}}'.encode()


def send_base(bootstrap: str, topic: str, base: int, partitions: int, seed: int = 1) -> None:
    """Makes the topic and sends the base, one process a partition. The id decides the partition."""
    create_topic(bootstrap, topic, partitions)

    def share(number: int) -> None:
        words = (bootstrap, topic, base, number, partitions, seed)
        run([executable, "-m", "benchmarks.changes", *map(str, words)], check=True)

    if base:
        with ThreadPoolExecutor(partitions) as pool:
            list(pool.map(share, range(partitions)))


def send(bootstrap: str, topic: str, batch: Batch, partitions: int) -> None:
    """Sends a batch, each key's changes in order."""
    shares: list[list[tuple[bytes, bytes]]] = [[] for _ in range(partitions)]
    for id, key, value in batch.records():
        shares[id % partitions].append((key, value))
    for number, records in enumerate(shares):
        produce(bootstrap, topic, records, partition=number)


def ends(bootstrap: str, topic: str, partitions: int) -> list[int]:
    """How far each partition of the topic is filled. A topic that was just made is waited for."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends", "log_level": 0})

    def end(number: int, attempts: int = 20) -> int:
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)[1])
        except KafkaException:
            if attempts == 0:
                raise
            time.sleep(0.5)
            return end(number, attempts - 1)

    try:
        return [end(number) for number in range(partitions)]
    finally:
        consumer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Send one partition's share of the base.")
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    for name in ("base", "partition", "partitions", "seed"):
        parser.add_argument(name, type=int)
    args = parser.parse_args()
    records = base_records(args.base, args.seed, args.partition, args.partitions)
    produce(args.bootstrap, args.topic, records, partition=args.partition)


if __name__ == "__main__":
    main()
