"""Kafka Connect sink configurations as they are, run through the command line, counted by PyIceberg."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestamptzType

from tests.engine import MEMORY, icestream, lake_table, status
from tests.services import kafka as kafka_client

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.timeout(600)]

SEED = """
{
  "name": "iceberg-sink",
  "config": {
    "connector.class": "io.tabular.iceberg.connect.IcebergSinkConnector",
    "tasks.max": "4",
    "topics": "orders",
    "iceberg.catalog.type": "rest",
    "iceberg.catalog.uri": "https://catalog.example.com",
    "iceberg.tables": "db.orders"
  }
}
"""
CLASS = "org.apache.iceberg.connect.IcebergSinkConnector"


def configuration(folder: Path, name: str, **config: str) -> Path:
    """A configuration file; `__` in a key stands for a dot, `_` for a dash."""
    keys = {k.replace("__", ".").replace("_", "-"): v for k, v in config.items()}
    path = folder / f"{name}.json"
    path.write_text(
        json.dumps({"name": name, "config": {"connector.class": CLASS, **keys}}, indent=2)
    )
    return path


def run(home: Path, *files: Path, **env: str) -> Any:
    return icestream("run", *files, "--once", "--home", home, "--memory", MEMORY, env=env)


def rows(table: Table) -> list[dict[str, Any]]:
    return list(table.scan().to_arrow().to_pylist())


def types(table: Table) -> dict[str, str]:
    return {f.name: str(f.field_type) for f in table.schema().fields}


def records(*values: Any) -> list[tuple[None, Any]]:
    return [(None, v if v is None or isinstance(v, str | bytes) else json.dumps(v)) for v in values]


def test_the_seeds_configuration_into_a_rest_catalog(
    tmp_path, kafka, produce, rest_catalog
) -> None:
    catalog = RestCatalog("rest", uri=rest_catalog.uri)
    catalog.create_namespace("db")
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "customer", StringType()),
        NestedField(3, "amount", DoubleType()),
        NestedField(4, "at", TimestamptzType()),
        NestedField(5, "note", StringType()),
    )
    catalog.create_table("db.orders", schema)
    kafka_client.create_topic(kafka.bootstrap, "orders", 3)
    file = tmp_path / "sink.json"
    file.write_text(SEED.strip().replace("https://catalog.example.com", rest_catalog.uri))
    home = tmp_path / "home"
    env = {"KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap}

    def order(number: int) -> dict[str, Any]:
        return {"id": number, "customer": f"c{number % 7}", "amount": number / 4, "at": 1_700_000_000_000, "new": 1}  # fmt: skip

    poison = ["{bad", '{"id": "x"}', "{}", "[1]", {"id": 1, "amount": "much"}, b"\xff{}", None]
    produce("orders", records(*map(order, range(5_000)), *poison, *map(order, range(5_000, 6_000))))
    planned = icestream("plan", file, "--home", home, env=env)
    assert "+ create connector iceberg-sink" in planned.stdout, planned.stderr
    done = run(home, file, **env)
    assert done.returncode == 0, done.stderr
    produce("orders", records(*map(order, range(6_000, 7_000))))
    done = run(home, file, **env)
    assert done.returncode == 0, done.stderr
    assert "unchanged" in done.stdout + done.stderr

    found = rows(catalog.load_table("db.orders"))
    assert sorted(r["id"] for r in found) == list(range(7_000))
    assert found[0]["at"] == dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)
    assert set(found[0]) == {"id", "customer", "amount", "at", "note"}
    letters = rows(lake_table(home, "dead_letters.iceberg-sink"))
    assert len(letters) == 6  # the tombstone is none
    assert {bytes(r["payload"])[:4] for r in letters} >= {b"{bad", b"[1]", b"\xff{}"}
    assert "id: 'x' is not a valid bigint" in {r["reason"] for r in letters}
    sources = status(home)["sources"]
    assert isinstance(sources, list)
    assert sources[0]["dead_letters"] == 6

    file.write_text(file.read_text().replace("iceberg-sink", "second-sink"))
    refused = run(home, file, **env)
    assert refused.returncode != 0
    assert "db.orders would be written by iceberg-sink and by second-sink" in refused.stderr


def test_tables_are_created_and_grow_with_the_records(tmp_path, kafka, topic, produce) -> None:
    plain, carried = topic(partitions=2), topic()
    common = {
        "bootstrap__servers": kafka.bootstrap,
        "iceberg__tables__auto-create-enabled": "true",
        "iceberg__tables__evolve-schema-enabled": "true",
    }
    schemaless = configuration(
        tmp_path, "schemaless", topics=plain, iceberg__tables="raw.events",
        value__converter="org.apache.kafka.connect.json.JsonConverter",
        value__converter__schemas__enable="false",
        iceberg__tables__default_partition_by="kind, bucket(id, 4)", **common,
    )  # fmt: skip
    warehouse = tmp_path / "warehouse"
    with_schema = configuration(
        tmp_path, "with-schema", **{"topics.regex": f"{carried[:-1]}.*"},
        iceberg__catalog="shop", iceberg__catalog__type="jdbc",
        iceberg__catalog__uri=f"jdbc:sqlite:{tmp_path}/shop.db",
        iceberg__catalog__warehouse=warehouse.as_uri(), iceberg__tables="shop.orders",
        iceberg__table__shop__orders__partition_by="day(at)",
        **{"iceberg.tables.auto-create-props.write.format.default": "parquet"}, **common,
    )  # fmt: skip
    home = tmp_path / "home"

    def event(number: int, **more: Any) -> dict[str, Any]:
        return {"id": number, "kind": "a" if number % 2 else "b", "size": 5, "none": None, **more}

    def order(number: int, id: str = "int32", **more: Any) -> dict[str, Any]:
        logical = "org.apache.kafka.connect.data."
        amount = {"type": "bytes", "name": logical + "Decimal", "parameters": {"scale": "2"}}
        at = {"type": "int64", "name": logical + "Timestamp"}
        fields = [("id", {"type": id}), ("amount", amount), ("at", at)]
        fields += [(name, {"type": "string", "optional": True}) for name in more]
        schema = {"type": "struct", "fields": [{"field": n, **f} for n, f in fields]}
        payload = {"id": number, "amount": "BNI=", "at": 86_400_000 * (number % 3), **more}
        return {"schema": schema, "payload": payload}

    produce(plain, records(*map(event, range(1_000)), "{bad", {"id": "poison"}, None))
    produce(carried, records(*map(order, range(500))))
    done = run(home, schemaless, with_schema)
    assert done.returncode == 0, done.stderr
    events = lake_table(home, "raw.events")
    assert types(events) == {"id": "long", "kind": "string", "size": "long"}
    assert [str(f.transform) for f in events.spec().fields] == ["identity", "bucket[4]"]
    shop = SqlCatalog("shop", uri=f"sqlite:///{tmp_path}/shop.db", warehouse=warehouse.as_uri())
    orders = shop.load_table("shop.orders")
    assert types(orders) == {"id": "int", "amount": "decimal(38, 2)", "at": "timestamptz"}
    assert all(f.required for f in orders.schema().fields)
    assert [str(f.transform) for f in orders.spec().fields] == ["day"]

    nested = {"geo": {"lat": 1.5}, "tags": ["x"], "size": 2.0}
    produce(plain, records(*(event(n, **nested) for n in range(1_000, 1_500))))
    produce(carried, records(order(2**40, "int64", coupon="c")))
    done = run(home, schemaless, with_schema)
    assert done.returncode == 0, done.stderr
    events = lake_table(home, "raw.events")
    assert list(types(events)) == ["id", "kind", "size", "geo", "tags"]
    assert types(events)["tags"] == "list<string>"
    found = rows(events)
    assert sorted(r["id"] for r in found) == list(range(1_500))
    assert [r["geo"] for r in found if r["id"] == 1_400] == [{"lat": 1.5}]
    orders = shop.load_table("shop.orders")
    assert types(orders)["id"] == "long"
    assert types(orders)["coupon"] == "string"
    assert sorted(r["id"] for r in rows(orders)) == [*range(500), 2**40]
    assert {str(r["amount"]) for r in rows(orders)} == {"12.34"}
    letters = rows(lake_table(home, "dead_letters.schemaless"))
    assert sorted(bytes(r["payload"]) for r in letters) == [b'{"id": "poison"}', b"{bad"]


def test_routes_survive_crashes_at_the_worst_moments(tmp_path, kafka, topic, produce) -> None:
    name = topic(partitions=2)
    file = configuration(
        tmp_path, "routed", topics=name, bootstrap__servers=kafka.bootstrap,
        iceberg__tables="web.clicks, web.orders", iceberg__tables__route_field="meta.kind",
        iceberg__table__web__clicks__route_regex="click.*",
        iceberg__table__web__orders__route_regex="order",
        iceberg__tables__auto_create_enabled="true",
    )  # fmt: skip
    home = tmp_path / "home"

    def event(number: int) -> dict[str, Any]:
        kind = ("click", "click-2", "order", "other")[number % 4]
        return {"n": number, "meta": {"kind": kind}, "v": "x"}

    produce(name, records(*map(event, range(4_000)), '{"meta": 5'))
    for fault in ("files-written@1", "first-table-committed", "tables-committed"):
        killed = run(home, file, ICESTREAM_FAULT=fault)
        assert killed.returncode == -9, killed.stderr
    done = run(home, file)
    assert done.returncode == 0, done.stderr
    clicks, orders = (rows(lake_table(home, f"web.{t}")) for t in ("clicks", "orders"))
    assert sorted(r["n"] for r in clicks) == [n for n in range(4_000) if n % 4 < 2]
    assert sorted(r["n"] for r in orders) == [n for n in range(4_000) if n % 4 == 2]
    assert len(rows(lake_table(home, "dead_letters.routed"))) == 1
