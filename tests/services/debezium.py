"""Debezium's PostgreSQL connector in a Kafka Connect worker, and what a test asks of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import psycopg

from icestream.dev.connect import Worker
from icestream.dev.jars import resolve
from tests.services.kafka import create_topic
from tests.services.postgres import PostgresServer

PULSE = "public.pulse"


class Debezium:
    """A worker that captures tables of one PostgreSQL into one broker; one connector a `capture`."""

    def __init__(self, folder: Path, bootstrap: str, server: PostgresServer) -> None:
        self.bootstrap = bootstrap
        self.server = server
        self.worker = Worker(
            folder,
            bootstrap,
            {"debezium": resolve("debezium")},
            settings={"plugin.discovery": "service_load", "offset.flush.interval.ms": 100},
        )

    def __enter__(self) -> Self:
        self.worker.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.worker.stop()

    @contextmanager
    def capture(
        self,
        table: str,
        *,
        schemas: bool,
        partitions: int = 1,
        settings: Mapping[str, object] | None = None,
    ) -> Iterator[Capture]:
        """Captures `schema.table` while the block runs; the rows that it has now come first."""
        name = f"dbz_{uuid.uuid4().hex[:8]}"
        topic = create_topic(self.bootstrap, f"{name}.{table}", partitions)
        config = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": "127.0.0.1",
            "database.port": self.server.port,
            "database.user": "postgres",
            "database.dbname": "postgres",
            "topic.prefix": name,
            "table.include.list": f"{table},{PULSE}",
            "plugin.name": "pgoutput",
            "slot.name": name,
            "publication.name": name,
            "publication.autocreate.mode": "filtered",
            "poll.interval.ms": 20,
            **_json("key", schemas),
            **_json("value", schemas),
            **(settings or {}),
        }
        with psycopg.connect(self.server.dsn, autocommit=True) as database:
            database.execute(f"CREATE TABLE IF NOT EXISTS {PULSE} (id int PRIMARY KEY, n int)")
            self.worker.create(name, config)
            try:
                yield Capture(self.worker, name, topic, database)
            finally:
                self.worker.delete(name)
                free = f"SELECT NOT active FROM pg_replication_slots WHERE slot_name = '{name}'"
                self.worker.wait(lambda: database.execute(free).fetchone() == (True,), 30)
                database.execute("SELECT pg_drop_replication_slot(%s)", [name])
                database.execute(f"DROP PUBLICATION {name}")


class Capture:
    """One table being captured into `topic`."""

    def __init__(
        self, worker: Worker, name: str, topic: str, database: psycopg.Connection[Any]
    ) -> None:
        self.worker = worker
        self.name = name
        self.topic = topic
        self._database = database

    def catch_up(self, timeout: float = 60) -> None:
        """Returns when the broker has all changes that were committed before the call.

        A row of another captured table is touched until Connect has stored an offset behind this
        moment: it stores none before the broker has everything up to it, in all partitions.
        """
        row = self._database.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()
        assert row is not None
        self.worker.wait(lambda: self._sent(int(row[0])), timeout)

    def _sent(self, position: int) -> bool:
        self._database.execute(
            f"INSERT INTO {PULSE} VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = pulse.n + 1"
        )
        offsets = [each["offset"] for each in self.worker.offsets(self.name)]
        return any("snapshot" not in each and each["lsn"] >= position for each in offsets)


def _json(side: str, schemas: bool) -> dict[str, object]:
    """A connector that names no converter class of its own gets the worker's, with its settings."""
    return {
        f"{side}.converter": "org.apache.kafka.connect.json.JsonConverter",
        f"{side}.converter.schemas.enable": str(schemas).lower(),
    }
