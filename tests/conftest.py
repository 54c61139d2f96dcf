"""Fixtures that every test may ask for: the real servers, each started once and only if used."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest

from icestream.dev.broker import Broker
from icestream.secrecy import KNOWN
from tests.jvm import choose_quick_compiler
from tests.seeds import draw_seed
from tests.services import kafka as kafka_client
from tests.services.aws import AwsServer
from tests.services.postgres import PostgresServer, postgres
from tests.services.rest_catalog import RestCatalogServer

if TYPE_CHECKING:
    from tests.services.debezium import Debezium

__all__ = ["postgres"]

TopicFactory = Callable[..., str]
Produce = Callable[..., int]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Hypothesis draws from the committed code too, unless its option says otherwise. It has no deadlines: a busy machine is slow."""
    choose_quick_compiler()
    slow = [hypothesis.HealthCheck.too_slow]
    hypothesis.settings.register_profile("tests", deadline=None, suppress_health_check=slow)
    hypothesis.settings.load_profile("tests")
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = draw_seed("hypothesis")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Quick tests first: without a JVM, then Spark, then servers."""

    def cost(item: pytest.Item) -> int:
        return 2 * bool(item.get_closest_marker("services")) + bool(
            item.get_closest_marker("spark")
        )

    items.sort(key=cost)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One Kafka broker for the whole run. Tests that stop or kill a broker start their own."""
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def topic(kafka: Broker) -> TopicFactory:
    """`topic(partitions=1, prefix="t", **config)` makes a topic with a new name and returns it."""

    def make(partitions: int = 1, prefix: str = "t", **config: str) -> str:
        name = f"{prefix}-{uuid.uuid4().hex[:12]}"
        return kafka_client.create_topic(kafka.bootstrap, name, partitions, **config)

    return make


@pytest.fixture
def produce(kafka: Broker) -> Produce:
    """`produce(topic, [(key, value), …])` sends records to the run's broker."""

    def send(
        name: str,
        records: Iterable[tuple[kafka_client.Bytes, kafka_client.Bytes]],
        **options: object,
    ) -> int:
        return kafka_client.produce(kafka.bootstrap, name, records, **options)

    return send


@pytest.fixture(scope="session")
def rest_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalogServer]:
    """One Iceberg REST catalog for the whole run: use a namespace of your own."""
    with RestCatalogServer(tmp_path_factory.mktemp("rest")) as server:
        yield server


@pytest.fixture(scope="session")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AwsServer]:
    """One S3 and Glue server for the whole run: use a bucket and a database of your own."""
    with AwsServer(tmp_path_factory.mktemp("aws")) as server:
        yield server


@pytest.fixture(scope="session")
def debezium(
    tmp_path_factory: pytest.TempPathFactory, kafka: Broker, postgres: PostgresServer
) -> Iterator[Debezium]:
    """Debezium between the run's PostgreSQL and the run's broker: capture a table of your own."""
    from tests.services.debezium import Debezium

    with Debezium(tmp_path_factory.mktemp("debezium"), kafka.bootstrap, postgres) as running:
        yield running


@pytest.fixture(autouse=True)
def know_no_secrets() -> None:
    """No test hides secrets because another one has told them."""
    KNOWN.clear()
