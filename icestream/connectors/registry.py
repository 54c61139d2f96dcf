"""All connectors, by name. Adding one is a line here; nothing is imported until it is used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from icestream.connectors.base import SinkConnector, SourceConnector
from icestream.errors import NotSupportedError, Place, SqlError, did_you_mean

SOURCES: Mapping[str, str] = {
    "kafka": "icestream.connectors.kafka:SOURCE",
    "file": "icestream.connectors.files:FILE",
    "posix_fs": "icestream.connectors.files:FILE",
    "s3": "icestream.connectors.files:S3",
    "s3_v2": "icestream.connectors.files:S3",
    "datagen": "icestream.connectors.datagen:SOURCE",
    "iceberg": "icestream.connectors.iceberg:SOURCE",
    "spark": "icestream.connectors.landed:SOURCE",
}
"""Name in SQL → module:attribute."""
OWN: Mapping[str, str] = {"dml": "icestream.connectors.dml:SOURCE"}
"""What fills tables that name no connector."""

SINKS: Mapping[str, str] = {
    "iceberg": "icestream.connectors.iceberg_sink:SINK",
    "kafka": "icestream.connectors.kafka_sink:SINK",
    "print": "icestream.connectors.local_sinks:PRINT",
    "blackhole": "icestream.connectors.local_sinks:BLACKHOLE",
}

LATER_SOURCES = frozenset({
    "postgres-cdc", "mysql-cdc", "mongodb-cdc", "sqlserver-cdc", "pulsar", "kinesis", "nats", "mqtt",
    "google_pubsub", "gcs", "azblob", "nexmark", "webhook",
})  # fmt: skip
LATER_SINKS = frozenset({
    "jdbc", "postgres", "clickhouse", "elasticsearch", "opensearch", "redis", "pulsar", "kinesis",
    "nats", "mqtt", "google_pubsub", "deltalake", "snowflake", "bigquery", "doris", "starrocks",
    "mongodb", "cassandra", "dynamodb", "file", "s3", "gcs", "azblob", "redshift", "sqlserver",
})  # fmt: skip


def source_connector(name: str, place: Place | None = None) -> SourceConnector:
    """The source connector that SQL calls `name`; raises with the nearest known name."""
    known = SOURCES if place is not None else {**SOURCES, **OWN}
    connector = _find(name, known, LATER_SOURCES, "source", place)
    assert isinstance(connector, SourceConnector)
    return connector


def sink_connector(name: str, place: Place | None = None) -> SinkConnector:
    """The sink connector that SQL calls `name`; raises with the nearest known name."""
    connector = _find(name, SINKS, LATER_SINKS, "sink", place)
    assert isinstance(connector, SinkConnector)
    return connector


def _find(
    name: str, known: Mapping[str, str], later: frozenset[str], kind: str, place: Place | None
) -> Any:
    wanted = name.strip().lower()
    if wanted in known:
        module, _, attribute = known[wanted].partition(":")
        return getattr(import_module(module), attribute)
    if wanted in later:
        raise NotSupportedError(f"the {kind} connector {wanted!r}", place=place)
    raise SqlError(
        f"unknown {kind} connector {name!r}",
        place=place,
        remedy=did_you_mean(wanted, [*known, *later]) or "one of " + ", ".join(known),
    )
