"""Views are made, replaced and dropped while a topic is filled without pause, and the server is killed again and again.

What a kill leaves of a statement that was under way is up to the moment; but afterwards every view that there is holds
what its own text, as the server tells it, gives in DuckDB over everything that was sent.

`LIVE_DDL=30,5` asks for that many statements and kills.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Producer

from icestream.dev.broker import Broker
from icestream.dev.duck import open_duckdb
from tests.conftest import TopicFactory
from tests.engine import MEMORY, start
from tests.services.kafka import consume

pytestmark = [pytest.mark.spark, pytest.mark.services]

STATEMENTS, KILLS = map(int, os.environ.get("LIVE_DDL", "9,2").split(","))
RATE = 5_000
TICK = 0.05
IDS, REGIONS = 5_000, 8

TABLES = """
CREATE TABLE orders (id BIGINT, region INT, amount INT, PRIMARY KEY (id)) WITH (
  connector = 'kafka', topic = '{topic}', properties.bootstrap.server = '{bootstrap}'
) FORMAT UPSERT ENCODE JSON;
CREATE SOURCE changes (id BIGINT, region INT, amount INT) WITH (
  connector = 'kafka', topic = '{topic}', properties.bootstrap.server = '{bootstrap}'
) FORMAT PLAIN ENCODE JSON;
CREATE TABLE regions (region INT PRIMARY KEY, name VARCHAR);
"""
VIEWS = {
    "sums": "SELECT region, count(*) AS n, sum(amount) AS total FROM orders WHERE amount > {x} GROUP BY region",
    "named": "SELECT o.id, r.name, o.amount + {x} AS amount FROM orders o JOIN regions r ON o.region = r.region WHERE o.amount > 900",
    "first": "SELECT region, id, amount FROM (SELECT *, row_number() OVER (PARTITION BY region ORDER BY amount DESC, id) AS place FROM orders) AS placed WHERE place <= 3 + {x}",
    "told": "SELECT region, count(*) AS n, max(amount) AS most FROM changes WHERE amount % 100 <> {x} GROUP BY region",
    "different": "SELECT DISTINCT amount % (100 + {x}) AS rest FROM orders",
}


class Feeding(threading.Thread):
    """Sends changes of orders at a steady rate until it is stopped; one in ten deletes."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0})
        self.topic = topic
        self.random = random.Random(7)
        self.sent = 0
        self.stopping = threading.Event()

    def run(self) -> None:
        began = time.monotonic()
        while not self.stopping.wait(TICK):
            while self.sent < RATE * (time.monotonic() - began):
                self._send()
            self.producer.poll(0)
        self.producer.flush(60)

    def _send(self) -> None:
        id, draw = self.random.randrange(IDS), self.random.random()
        row = {"id": id, "region": self.random.randrange(REGIONS), "amount": self.random.randrange(1000)}  # fmt: skip
        value = None if draw < 0.1 else json.dumps(row)
        self.producer.produce(self.topic, value, json.dumps({"id": id}))
        self.sent += 1

    def stop(self) -> None:
        self.stopping.set()
        self.join()


class Server:
    """`icestream serve` as a process, which can be killed."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.process: subprocess.Popen[str] | None = None
        self.url = ""

    def begin(self) -> None:
        self.process = start("serve", "--home", self.home, "--port", "0", "--memory", MEMORY)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("ready"):
                words = line.split()
                self.url = (
                    f"host=127.0.0.1 port={words[words.index('-p') + 1]} user=root dbname=dev"
                )
                threading.Thread(target=self.process.stdout.read, daemon=True).start()
                return
        raise AssertionError(f"the server did not start: {self.process.communicate()[1]}")

    def kill(self) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(60) == 0

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self.url, autocommit=True)


@contextmanager
def fed(kafka: Broker, topic: str) -> Iterator[Feeding]:
    feeding = Feeding(kafka.bootstrap, topic)
    feeding.start()
    try:
        yield feeding
    finally:
        feeding.stop()


def statement(chosen: random.Random, there: set[str]) -> str:
    """The next thing to do: make a view, replace one, or drop one."""
    name = chosen.choice(sorted(VIEWS))
    query = VIEWS[name].format(x=chosen.randrange(1, 50))
    if name in there and chosen.random() < 0.35:
        return f"DROP MATERIALIZED VIEW {name}"
    return f"CREATE OR REPLACE MATERIALIZED VIEW {name} AS {query}"


def views(client: psycopg.Connection) -> set[str]:
    return {name for (name,) in client.execute("SHOW MATERIALIZED VIEWS")}


def test_views_come_and_go_while_rows_come_in_and_the_server_is_killed(
    tmp_path: Path, kafka: Broker, topic: TopicFactory
) -> None:
    name = topic(2)
    chosen = random.Random(11)
    server = Server(tmp_path / "home")
    server.begin()
    with fed(kafka, name) as feeding:
        with server.connect() as client:
            for text in TABLES.format(topic=name, bootstrap=kafka.bootstrap).split(";")[:-1]:
                client.execute(text)
            rows = ", ".join(f"({r}, 'region {r}')" for r in range(REGIONS - 1))
            client.execute(f"INSERT INTO regions VALUES {rows}")
            there: set[str] = set()
            kills = {(i + 1) * STATEMENTS // (KILLS + 1) for i in range(KILLS)}
            for number in range(STATEMENTS):
                with server.connect() as client:
                    there = views(client)
                    text = statement(chosen, there)
                    if number not in kills:
                        client.execute(text)
                        continue
                under_way = threading.Thread(target=run_and_fail, args=(server.url, text))
                under_way.start()
                under_way.join(chosen.uniform(0.1, 3))
                server.kill()
                under_way.join()
                server.begin()
        feeding.stop()
        assert feeding.sent > 10_000
    with server.connect() as client:
        client.execute("FLUSH")
        check(client, kafka, name)
    server.stop()


def run_and_fail(url: str, text: str) -> None:
    with suppress(psycopg.Error), psycopg.connect(url, autocommit=True) as client:
        client.execute(text)


def check(client: psycopg.Connection, kafka: Broker, topic: str) -> None:
    """All views that there are, against DuckDB over what is in the topic."""
    duck = open_duckdb()
    duck.execute("CREATE TABLE changes (place BIGINT, id BIGINT, region INT, amount INT)")
    values = [
        (offset, json.loads(key)["id"], value and json.loads(value))
        for _, offset, key, value in consume(kafka.bootstrap, topic)
    ]
    folded = {id: row for _, id, row in sorted(values, key=lambda v: v[0])}
    told = [(v["id"], v["region"], v["amount"]) for _, _, v in values if v]
    left = [(v["id"], v["region"], v["amount"]) for v in folded.values() if v]
    for table, rows in (("changes", told), ("orders", left)):
        columns = list(zip(*rows, strict=True))
        data = {n: c for n, c in zip(("id", "region", "amount"), columns, strict=True)}
        duck.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT unnest(?) AS id, unnest(?)::INT AS region, unnest(?)::INT AS amount", [list(data[c]) for c in data])  # fmt: skip
    duck.execute("CREATE TABLE regions (region INT, name VARCHAR)")
    duck.executemany("INSERT INTO regions VALUES (?, ?)", [(r, f"region {r}") for r in range(REGIONS - 1)])  # fmt: skip
    assert client.execute("SELECT count(*) FROM orders").fetchone() == (len(left),)
    found = views(client)
    assert found
    for view in sorted(found):
        ((_, text),) = client.execute(f"SHOW CREATE MATERIALIZED VIEW {view}").fetchall()
        query = text.partition(" AS ")[2]
        columns = ", ".join(
            c.name for c in client.execute(f"SELECT * FROM {view} LIMIT 0").description
        )
        got = sorted(client.execute(f"SELECT {columns} FROM {view}").fetchall())
        wanted = sorted(duck.execute(f"SELECT {columns} FROM ({query})").fetchall())
        assert got == wanted, view
