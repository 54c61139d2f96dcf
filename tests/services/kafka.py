"""Kafka clients for tests: make topics, fill them fast, read them back."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

Bytes = str | bytes | None
QUIET = {"log_level": 0}


def create_topic(bootstrap: str, name: str, partitions: int = 1, **config: str) -> str:
    new = NewTopic(name, partitions, replication_factor=1, config=config)
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.create_topics([new])[name].result(30)
    return name


def delete_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.delete_topics([name])[name].result(30)


def add_partitions(bootstrap: str, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.create_partitions([NewPartitions(name, partitions)])[name].result(30)


def delete_records(bootstrap: str, name: str, partition: int, *, before: int) -> None:
    """Removes the first records of a partition, as retention does."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    (future,) = admin.delete_records([TopicPartition(name, partition, before)]).values()
    future.result(30)


def produce(
    bootstrap: str,
    topic: str,
    records: Iterable[tuple[Bytes, Bytes]],
    *,
    partition: int | None = None,
    **config: object,
) -> int:
    """Sends (key, value) pairs, in order within a partition, and returns how many arrived."""
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "message.max.bytes": 8_000_000,
            "queue.buffering.max.messages": 500_000,
            "on_delivery": lambda error, _: failures.append(error) if error else None,
            **QUIET,
            **config,
        }
    )
    where = {} if partition is None else {"partition": partition}
    count = 0
    for key, value in records:
        while True:
            try:
                producer.produce(topic, value, key, **where)
                break
            except BufferError:
                producer.poll(0.1)
        count += 1
        if count % 10_000 == 0:
            producer.poll(0)
    left = producer.flush(60)
    assert not failures, failures[0]
    assert left == 0, f"{left} records were not delivered"
    return count


def consume(bootstrap: str, topic: str) -> list[tuple[int, int, Bytes, Bytes]]:
    """Everything in the topic now: (partition, offset, key, value), committed records only."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader-of-everything",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            **QUIET,
        }
    )
    try:
        known = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in known])
        open_partitions, rows = set(known), []
        while open_partitions:
            for message in consumer.consume(10_000, timeout=1):
                if message.error() is None:
                    rows.append(
                        (message.partition(), message.offset(), message.key(), message.value())
                    )
                elif message.error().name() == "_PARTITION_EOF":
                    open_partitions.discard(message.partition())
                else:
                    raise AssertionError(message.error())
        return sorted(rows, key=lambda row: row[:2])
    finally:
        consumer.close()
