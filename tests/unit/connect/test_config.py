from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from icestream.catalog.catalog import Catalog
from icestream.catalog.graph import make_plan
from icestream.catalog.objects import Connector
from icestream.catalog.show import explain_object, show
from icestream.catalog.store import Store
from icestream.config import Home
from icestream.errors import ConfigError, IcestreamError, NotSupportedError, SqlError
from icestream.kafka_connect import keys, script_of
from icestream.kafka_connect.config import ConnectorConfig, Destination, configure
from icestream.sql import parse
from icestream.sql import statements as st
from icestream.sql.options import OptionSpec

DOCS = Path(__file__).parents[3] / "docs" / "kafka-connect.md"
SEED = """{
  "name": "iceberg-sink",
  "config": {
    "connector.class": "io.tabular.iceberg.connect.IcebergSinkConnector",
    "tasks.max": "4",
    "topics": "orders",
    "iceberg.catalog.type": "rest",
    "iceberg.catalog.uri": "https://catalog.example.com",
    "iceberg.tables": "db.orders"
  }
}"""
ENV = {"KAFKA_BOOTSTRAP_SERVERS": "broker:9092"}


def statement(text: str, env: dict[str, str]) -> st.CreateConnector:
    (made,) = parse(script_of(text, "sink.json"), "sink.json", env)
    assert isinstance(made, st.CreateConnector)
    return made


def config(env: dict[str, str] | None = None, **more: str | None) -> ConnectorConfig:
    """The seed's configuration with other keys (`__` stands for a dot), or without those that are None."""
    document = json.loads(SEED)
    document["config"] |= {k.replace("__", "."): v for k, v in more.items()}
    document["config"] = {k: v for k, v in document["config"].items() if v is not None}
    env = ENV if env is None else env
    made = statement(json.dumps(document, indent=2), env)
    return configure(made.options, "connector iceberg-sink", env, None, made.place)


def failure(key: str, value: str = "x", **more: str | None) -> IcestreamError:
    with pytest.raises(IcestreamError) as caught:
        config(**{key: value, **more})
    return caught.value


def test_the_seed_as_printed() -> None:
    made = statement(SEED, ENV)
    found = configure(made.options, "connector iceberg-sink", ENV, None, made.place)
    assert made.name.name == "iceberg-sink"
    assert found.destinations == (Destination("db.orders"),)
    assert found.catalog == {"type": "rest", "uri": "https://catalog.example.com"}
    assert found.kafka["topic"] == "orders"
    assert found.kafka["properties.bootstrap.server"] == "broker:9092"
    assert found.kafka["scan.startup.mode"] == "earliest"
    assert (found.interval, found.schemas, found.auto_create) == (300.0, None, False)


def test_keys_keep_their_place_in_the_file() -> None:
    options = statement(SEED, ENV).options
    for number, line in enumerate(SEED.splitlines(), 1):
        for key in options:
            if line.strip().startswith(f'"{key}"'):
                at = options[key]
                assert (at.place.line, at.place.column) == (number, line.index('"') + 1)
                assert at.value_place.column == line.rindex(': "') + 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"name": "x",\n "config": {"a" 1}}',
            "f.json:2:17: invalid JSON: Expecting ':' delimiter",
        ),
        ("[]", "f.json:1:1: this is not a Kafka Connect configuration: not a JSON object"),
        ('{"config": {}}', "f.json:1:1: the connector has no name"),
        ('{"name": "x", "config": {"a": "1", "a": "2"}}', "f.json:1:36: key a is there twice"),
        ('{"name": "x",\n"config": {\n "a": []}}', "f.json:3:2: the value of a is not a text"),
        ('{"name": "x", "config": {}, "cfg": 1}', "f.json:1:29: unknown key cfg"),
    ],
)
def test_a_file_that_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        script_of(text, "f.json")
    assert str(caught.value).splitlines()[0] == message


def test_both_forms_and_values_of_json() -> None:
    flat = script_of('{"name": "it\'s", "tasks.max": 4, "a": true, "b": "it\'s ${X}"}', "f.json")
    (made,) = parse(flat, "f.json", {"X": "1"})
    assert isinstance(made, st.CreateConnector)
    assert made.name.name == "it's"
    assert {k: o.value for k, o in made.options.items()} == {
        "tasks.max": "4", "a": "true", "b": "it's ${X}",
    }  # fmt: skip


def test_where_kafka_is() -> None:
    with pytest.raises(SqlError, match="does not say where Kafka is") as caught:
        config(env={})
    assert "KAFKA_BOOTSTRAP_SERVERS" in str(caught.value)
    assert "bootstrap.servers" in str(caught.value)
    for key in ("bootstrap.servers", "kafka.bootstrap.servers", "consumer.override.bootstrap.servers"):  # fmt: skip
        found = config(**{key: "other:1"})
        assert found.kafka["properties.bootstrap.server"] == "other:1"


@pytest.mark.parametrize(
    "key",
    [
        "transforms", "transforms.a.type", "predicates.p", "iceberg.tables.cdc-field",
        "iceberg.tables.default-id-columns", "iceberg.table.db.orders.id-columns",
        "iceberg.tables.default-commit-branch", "iceberg.table.db.orders.commit-branch",
        "iceberg.tables.write-props.x", "iceberg.hadoop.fs.s3a.impl", "iceberg.hadoop-conf-dir",
        "errors.deadletterqueue.topic.name", "iceberg.catalog.client.credentials-provider",
        "iceberg.catalog.client.factory", "iceberg.catalog.s3.client-factory-impl",
        "iceberg.catalog.metrics-reporter-impl", "consumer.override.interceptor.classes",
        "consumer.override.metric.reporters", "iceberg.kafka.sasl.client.callback.handler.class",
        "iceberg.tables.auto-create-props.write.location-provider.impl",
        "iceberg.tables.dynamic-enabled", "iceberg.tables.upsert-mode-enabled",
    ],
)  # fmt: skip
def test_what_is_not_supported_is_named(key: str) -> None:
    error = failure(key, "true")
    assert isinstance(error, NotSupportedError)
    assert key in error.message
    assert error.place is not None
    assert (error.place.file, error.place.line) == ("sink.json", 10)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("iceberg.tables.route-feild", "x", "did you mean 'iceberg.tables.route-field'?"),
        ("iceberg.catalog.warehose", "x", "did you mean 'iceberg.catalog.warehouse'?"),
        ("iceberg.table.db.order.route-regex", "x", "iceberg.table.db.orders.route-regex"),
        ("consumer.override.max.pol.records", "1", "consumer.override.max.poll.records"),
        ("value.converter", "io.confluent.connect.avro.AvroConverter", "value.converter accepts"),
        ("key.converter", "x.Y", "key.converter accepts one of"),
        ("connector.class", "x.Y", "connector.class accepts one of"),
        ("iceberg.catalog.type", "nessie", "iceberg.catalog.type accepts one of"),
        ("iceberg.catalog.catalog-impl", "com.evil.Catalog", "catalog-impl accepts one of"),
        ("iceberg.catalog.io-impl", "com.evil.IO", "iceberg.catalog.io-impl accepts one of"),
        ("iceberg.catalog.credential", "${file:/etc/x:y}", "iceberg.catalog.credential: values from"),
        ("iceberg.tables", "orders", "'orders' is not namespace.table"),
        ("iceberg.tables", "db.a,db.a", "db.a is there twice"),
        ("iceberg.tables.default-partition-by", "bucket(id)", "'bucket(id)' is no partition"),
        ("iceberg.tables.default-partition-by", "weeks(id)", "'weeks(id)' is no partition"),
        ("iceberg.tables.route-field", "type", "needs iceberg.table.db.orders.route-regex"),
        ("iceberg.table.db.orders.route-regex", "a", "needs iceberg.tables.route-field"),
        ("topics.regex", "o.*", "needs topics (or topics.regex, not both)"),
        ("iceberg.control.commit.interval-ms", "0", "accepts at least 1"),
        ("consumer.override.sasl.jaas.config", "com.evil.Module required;", "sasl.jaas.config other"),
        ("consumer.override.security.protocol", "SASL_SSL", "needs consumer.override.sasl.mechanism"),
    ],
)  # fmt: skip
def test_what_is_wrong_says_where(key: str, value: str, message: str) -> None:
    error = failure(key, value)
    assert message in str(error)
    assert error.place is not None


def test_a_route_that_is_no_pattern() -> None:
    error = failure(
        "iceberg.table.db.orders.route-regex", "(", **{"iceberg.tables.route-field": "a"}
    )
    assert "route-regex is not a regular expression" in error.message


@pytest.mark.parametrize(
    "pattern", [r"(a)\1", "(?=a)a", "(?<!a)b", "a++", "(?>a)", "a)(b", r"\Qab", "a{5000}", "[a"]
)
def test_a_route_that_could_take_for_ever_is_refused(pattern: str) -> None:
    error = failure(
        "iceberg.table.db.orders.route-regex", pattern, **{"iceberg.tables.route-field": "a"}
    )
    assert "route-regex is not a regular expression that is supported: " in error.message
    assert error.remedy is not None
    assert "RE2" in error.remedy


def test_routes_partitions_and_properties() -> None:
    found = config(
        iceberg__tables="db.a, db.b",
        **{
            "iceberg.tables.route-field": "meta.kind",
            "iceberg.table.db.a.route-regex": "a.*",
            "iceberg.table.db.b.route-regex": "b",
            "iceberg.table.db.b.partition-by": "Bucket(id, 16), truncate(4, name), x",
            "iceberg.tables.default-partition-by": "days(ts)",
            "iceberg.tables.auto-create-props.format-version": "2",
            "iceberg.control.commit-interval-ms": "5000",
            "value.converter.schemas.enable": "false",
            "iceberg.tables.upsert-mode-enabled": "false",
            "consumer.override.auto.offset.reset": "latest",
        },
    )
    assert found.route_field == ("meta", "kind")
    assert found.destinations == (
        Destination("db.a", "a.*", "days(ts)"),
        Destination("db.b", "b", "bucket(16, id), truncate(4, name), x"),
    )
    assert found.properties == {"format-version": "2"}
    assert (found.interval, found.schemas) == (5.0, False)
    assert found.kafka["scan.startup.mode"] == "latest"


def test_logging_in_to_kafka() -> None:
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p\\"${w}";'  # fmt: skip
    found = config(
        env=ENV | {"w": "unused"},
        **{
            "consumer.override.security.protocol": "SASL_SSL",
            "consumer.override.sasl.mechanism": "SCRAM-SHA-512",
            "consumer.override.sasl.jaas.config": jaas.replace("${w}", "$${w}"),
            "iceberg.kafka.security.protocol": "PLAINTEXT",
        },
    ).kafka
    assert found["properties.security.protocol"] == "SASL_SSL"
    assert found["properties.sasl.username"] == "u"
    assert found["properties.sasl.password"] == 'p"${w}'
    assert "p" not in re.findall(r"password=(\S+)", repr(found))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"iceberg.catalog.uri": None}, "needs the option iceberg.catalog.uri"),
        ({"iceberg.catalog.type": None}, "needs the option iceberg.catalog.type"),
        ({"iceberg.catalog.type": "hadoop"}, "needs the option iceberg.catalog.warehouse"),
        ({"iceberg.catalog.type": "hadoop", "iceberg.catalog.warehouse": "s3://b"}, "not atomic"),
        ({"iceberg.catalog.type": "jdbc", "iceberg.catalog.warehouse": "/w"}, "other than SQLite's"),
        ({"iceberg.catalog.type": "glue", "iceberg.catalog.warehouse": "gs://b"}, "gs://"),
        ({"iceberg.catalog.catalog-impl": "org.apache.iceberg.hive.HiveCatalog"}, "not of the type"),
        (
            {"iceberg.catalog.type": None, "iceberg.catalog.uri": None, "iceberg.tables": "public.x"},
            "would be the engine's own",
        ),
    ],
)  # fmt: skip
def test_catalogs_that_cannot_be(more: dict[str, Any], message: str) -> None:
    with pytest.raises(SqlError) as caught:
        config(**more)
    assert message in str(caught.value)


def test_catalogs() -> None:
    assert config(**{"iceberg.catalog.type": None, "iceberg.catalog.uri": None}).catalog is None
    named = config(**{"iceberg.catalog.type": None, "iceberg.catalog.catalog-impl": "org.apache.iceberg.rest.RESTCatalog"})  # fmt: skip
    assert named.catalog == {"type": "rest", "uri": "https://catalog.example.com"}
    assert not named.needs_aws
    glue = config(**{"iceberg.catalog.type": "glue", "iceberg.catalog.uri": None, "iceberg.catalog.warehouse": "s3://b/w", "iceberg.catalog.header.X": "y"})  # fmt: skip
    assert glue.needs_aws
    assert glue.catalog is not None
    assert glue.catalog["io-impl"] == keys.S3_FILE_IO
    assert glue.catalog["header.X"] == "y"


def test_a_connector_is_an_object_like_all_others(tmp_path: Path) -> None:
    document = json.loads(SEED)
    document["config"]["iceberg.catalog.credential"] = "id:hunter2"
    document["config"]["iceberg.tables"] = "db.a,db.b"
    store = Store(Home.at(tmp_path))
    catalog = Catalog(store, ENV)
    change = catalog.examine(statement(json.dumps(document), ENV))
    catalog.learn(change)
    catalog.keep([change.object.name])
    assert "hunter2" not in catalog.stored["iceberg-sink"].text

    again = Catalog(store, ENV)
    again.load()
    connector = again.objects["iceberg-sink"]
    assert isinstance(connector, Connector)
    assert connector.config.catalog is not None
    assert connector.config.catalog["credential"] == "id:hunter2"
    assert not again.examine(statement(json.dumps(document, indent=4), ENV)).difference
    document["config"]["topics"] = "others"
    assert again.examine(statement(json.dumps(document), ENV)).difference

    plan = make_plan(again)
    assert [f.key for f in plan.feeds] == ["iceberg-sink#1"]
    assert [t.key for t in plan.tasks] == ["iceberg-sink#1/db.a", "iceberg-sink#1/db.b"]
    assert {t.interval for t in plan.tasks} == {300.0}
    for text, shown in (
        ("SHOW CONNECTORS", "iceberg-sink"),
        ('SHOW CREATE CONNECTOR "iceberg-sink"', "<hidden>"),
    ):
        (asked,) = parse(text)
        assert isinstance(asked, st.Show | st.ShowCreate)
        assert shown in repr(show(asked, again).rows)
    assert any("db.b" in line for line in explain_object(connector))
    (drop,) = parse('DROP CONNECTOR IF EXISTS "iceberg-sink"')
    assert isinstance(drop, st.Drop)
    assert drop.kind == "connector"


def test_every_key_is_documented() -> None:
    text = DOCS.read_text()
    names = [s.name for s in keys.KEYS if isinstance(s, OptionSpec)]
    names += [
        *keys.OFF_ONLY,
        "iceberg.table.<table>.route-regex",
        "iceberg.table.<table>.partition-by",
    ]
    missing = [
        n for n in names if f"`{n}`" not in text and not n.startswith(keys.CLIENTS)
    ]  # fmt: skip
    assert not missing
    for name in (*keys.CATALOG_KEYS, *keys.CATALOG_CLASSES, *keys.FILE_IOS):
        assert f"`{name}`" in text, name
