"""The pipelines of RisingWave's article on streaming into Iceberg: its SQL as it is printed, Kafka and Glue real.

What differs from the article: the addresses of the servers, and that the customers' changes come through Kafka. After
every epoch the view and the sink's table equal what a few lines of Python make of the same events.
"""

from __future__ import annotations

import json
import random
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from icestream.config import EngineSettings, Home
from icestream.dev.broker import Broker
from icestream.engine import Engine
from icestream.sql import parse
from tests.conftest import Produce, TopicFactory
from tests.duck import plain
from tests.engine import lake_table
from tests.keyed import seeded
from tests.services.aws import CREDENTIALS, REGION, AwsServer
from tests.services.kafka import create_topic
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = [pytest.mark.spark, pytest.mark.services]

SEEDS = Path(__file__).parents[1] / "unit" / "sql" / "data" / "seeds.sql"
ENV = {
    "AWS_ACCESS_KEY": CREDENTIALS["AWS_ACCESS_KEY_ID"],
    "AWS_SECRET_KEY": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    "PG_PASSWORD": "unused",
}
START = datetime(2026, 3, 1, 8, tzinfo=UTC)
Content = dict[tuple[Any, ...], tuple[Any, ...]]


def printed(*names: str) -> str:
    """Statements of the article, by the names of what they create."""
    found = {str(getattr(s, "name", "")): s.text for s in parse(SEEDS.read_text(), str(SEEDS), ENV)}
    return "".join(f"{found[name]};\n" for name in names)


def placed(script: str, kafka: Broker, aws: AwsServer) -> str:
    """A script with the addresses of the tests' servers."""
    aws.bucket("my-data-lake")
    region = f"s3.region = '{REGION}',"
    ends = f"s3.endpoint = '{aws.endpoint}', s3.path.style.access = 'true', glue.endpoint = '{aws.endpoint}',"
    return script.replace("kafka-broker:9092", kafka.bootstrap).replace(region, f"{region} {ends}")


def glue_table(aws: AwsServer, name: str) -> Table:
    properties = {}
    for service in ("glue", "s3"):
        properties[f"{service}.endpoint"] = aws.endpoint
        properties[f"{service}.region"] = REGION
        properties[f"{service}.access-key-id"] = ENV["AWS_ACCESS_KEY"]
        properties[f"{service}.secret-access-key"] = ENV["AWS_SECRET_KEY"]
    return load_catalog("glue", type="glue", **properties).load_table(name)


def content(table: Table, keys: int) -> Content:
    """What a table shows, by its key; a key must be there once."""
    names = [f.name for f in table.schema().fields if not f.name.startswith("_icestream_")]
    read = table.scan(selected_fields=tuple(names)).to_arrow()
    found = [tuple(map(plain, r)) for r in zip(*(read[n].to_pylist() for n in names), strict=True)]
    rows = {row[:keys]: row[keys:] for row in found}
    assert len(rows) == len(found), "a key is there twice"
    return rows


def hour(time: datetime) -> datetime:
    return time.replace(minute=0, second=0, microsecond=0)


class Pipeline:
    """A home that is stopped and taken up again."""

    def __init__(self, home: Path, application: SparkSession, script: str) -> None:
        self.home = home
        self.application = application
        self.script = script
        self.engine = self._start()

    def _start(self) -> Engine:
        engine = Engine(
            Home.at(self.home),
            EngineSettings(),
            env=ENV,
            application=self.application,
            allow_paths=["/"],
        )
        engine.execute(self.script)
        return engine

    def resume(self) -> None:
        self.engine.close()
        self.engine = self._start()

    def epoch(self) -> None:
        self.engine.run(threading.Event(), once=True)


@contextmanager
def running(home: Path, application: SparkSession, script: str) -> Iterator[Pipeline]:
    pipeline = Pipeline(home, application, script)
    try:
        yield pipeline
    finally:
        pipeline.engine.close()


def check(
    pipeline: Pipeline, aws: AwsServer, name: str, keys: int, expected: Content, when: object
) -> None:
    """The view and the sink's table, both read by PyIceberg."""
    wanted = {tuple(map(plain, k)): tuple(map(plain, v)) for k, v in expected.items()}
    assert content(lake_table(pipeline.home, f"public.{name}"), keys) == wanted, (when, "view")
    assert content(glue_table(aws, f"analytics.{name}"), keys) == wanted, (when, "sink")


# -- clickstream -------------------------------------------------------------------------------------


def metrics(clicks: list[dict[str, Any]]) -> Content:
    """hourly_page_metrics"""
    groups = defaultdict(list)
    for click in clicks:
        at = click["event_time"]
        groups[click["page_url"], None if at is None else hour(at)].append(click)

    def distinct(some: list[dict[str, Any]], name: str) -> int:
        return len({c[name] for c in some} - {None})

    return {
        key: (
            len(some),
            distinct(some, "user_id"),
            distinct(some, "session_id"),
            sum(c["action"] == "click" for c in some),
            sum(c["action"] == "scroll" for c in some),
        )
        for key, some in groups.items()
    }


def click(r: random.Random) -> dict[str, Any]:
    return {
        "user_id": r.choice([None, *(f"u{i}" for i in range(9))]),
        "page_url": r.choice([None, "/", "/cart", "/ü"]),
        "action": r.choice([None, "click", "scroll", "view"]),
        "session_id": f"s{r.randrange(20)}",
        "event_time": r.choice([None, *[START + timedelta(minutes=7 * i) for i in range(30)]]),
    }


def message(row: dict[str, Any]) -> tuple[None, str]:
    return None, json.dumps(row, default=lambda v: v.isoformat() if isinstance(v, datetime) else str(v))  # fmt: skip


@pytest.mark.timeout(300)
def test_hourly_page_metrics(
    tmp_path: Path, spark: SparkSession, kafka: Broker, produce: Produce, aws: AwsServer
) -> None:
    r = seeded()
    topic = create_topic(kafka.bootstrap, "web.clickstream", 2)
    script = printed("clickstream_events", "hourly_page_metrics", "clickstream_to_iceberg")
    produce(topic, [message(click(r)) for _ in range(20)])  # before the source is there
    clicks: list[dict[str, Any]] = []
    with running(tmp_path / "home", spark, placed(script, kafka, aws)) as pipeline:
        for epoch, count in enumerate((30, 1, 200, 5)):
            some = [click(r) for _ in range(count)]
            produce(topic, map(message, some))
            clicks += some
            pipeline.epoch()
            check(pipeline, aws, "hourly_page_metrics", 2, metrics(clicks), epoch)
            if epoch == 1:
                pipeline.resume()


# -- orders and customers ------------------------------------------------------------------------------

CDC = printed("customers").partition(") WITH (")[2]


class Shop:
    """Customers that come, change and go; orders that are placed."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.customers: dict[int, dict[str, Any]] = {}
        self.orders: list[dict[str, Any]] = []

    def put(self, id: int, tier: str | None, region: str | None) -> tuple[str, str]:
        """A customer as it is now."""
        before = self.customers.get(id)
        after = {"customer_id": id, "name": f"n{id}", "email": None, "tier": tier, "region": region}
        self.customers[id] = after
        return self._event(id, before, after)

    def remove(self, id: int) -> tuple[str, str]:
        return self._event(id, self.customers.pop(id), None)

    def _event(self, id: int, before: object, after: object) -> tuple[str, str]:
        op = "c" if before is None else "d" if after is None else "u"
        event = {"op": op, "before": before, "after": after, "source": {}, "ts_ms": 1}
        return json.dumps({"customer_id": id}), json.dumps(event)

    def place(self, count: int) -> list[tuple[None, str]]:
        """Some orders, also of customers that are not there."""
        some = [
            {
                "order_id": len(self.orders) + i,
                "customer_id": self.r.choice([None, *range(1, 8)]),
                "product_id": 1,
                "amount": self.r.choice([None, Decimal(self.r.randrange(100_000)) / 100]),
                "order_time": START + timedelta(minutes=self.r.randrange(180)),
            }
            for i in range(count)
        ]
        self.orders += some
        return [message(order) for order in some]

    def by_region(self) -> Content:
        """orders_by_region"""
        groups = defaultdict(list)
        for order in self.orders:
            customer = self.customers.get(order["customer_id"])
            if customer is not None:
                at = hour(order["order_time"])
                groups[customer["region"], customer["tier"], at].append(order)
        return {
            key: (
                len(some),
                sum(a for o in some if (a := o["amount"]) is not None)
                if any(o["amount"] is not None for o in some)
                else None,
                len({o["customer_id"] for o in some}),
            )
            for key, some in groups.items()
        }


@pytest.mark.timeout(300)
def test_orders_by_region(
    tmp_path: Path,
    spark: SparkSession,
    kafka: Broker,
    topic: TopicFactory,
    produce: Produce,
    aws: AwsServer,
) -> None:
    shop = Shop(seeded())
    changes = topic(1, prefix="customers")
    orders = create_topic(kafka.bootstrap, "orders.placed", 2)
    script = printed("customers", "order_events", "orders_by_region", "regional_orders_to_iceberg")
    through_kafka = f"""connector = 'kafka', topic = '{changes}',
      properties.bootstrap.server = 'kafka-broker:9092') FORMAT DEBEZIUM ENCODE JSON;\n"""
    assert CDC in script
    script = placed(script.replace(CDC, through_kafka), kafka, aws)
    steps: list[Callable[[], list[tuple[str, str]]]] = [
        lambda: [shop.put(i, "gold" if i < 3 else None, "eu") for i in range(1, 5)],
        lambda: [],
        lambda: [shop.put(1, "gold", "us"), shop.put(3, "silver", "eu"), shop.put(5, "gold", "eu")],
        lambda: [shop.remove(2), shop.remove(4), shop.put(1, None, None)],
        lambda: [shop.put(4, "gold", "us"), shop.remove(4), shop.put(4, "gold", "asia")],
        lambda: [shop.remove(id) for id in list(shop.customers)],
        lambda: [shop.put(7, "gold", "eu")],
    ]
    with running(tmp_path / "home", spark, script) as pipeline:
        for epoch, step in enumerate(steps):
            produce(changes, step())
            produce(orders, shop.place(0 if epoch in (3, 5) else 12))
            pipeline.epoch()
            check(pipeline, aws, "orders_by_region", 3, shop.by_region(), epoch)
            if epoch == 2:
                pipeline.resume()
