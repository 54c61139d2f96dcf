"""The local files that an object's statement names, and the check that it may use them."""

from __future__ import annotations

from collections.abc import Iterator

from icestream.catalog.objects import Connection, Connector, Object, Sink, Source, Table
from icestream.connectors import iceberg_options, kafka_options
from icestream.connectors.registry import sink_connector, source_connector
from icestream.file_access import FileAccess, NamedFile, local_path
from icestream.kafka_connect.config import ConnectorConfig


def check_files(object: Object, access: FileAccess) -> None:
    """Raise unless the statement of this object may use every file that it names."""
    for file in _named_files(object):
        access.check(file, f"{object.kind} {object.name}")


def _named_files(object: Object) -> Iterator[NamedFile]:
    match object:
        case Connector():
            yield from _of_connector(object.config)
        case Source(ingest=ingest) | Table(ingest=ingest) if ingest is not None:
            yield from source_connector(ingest.connector).named_files(ingest.settings)
        case Sink() if object.into is None:
            yield from sink_connector(object.connector).named_files(object.settings)
        case Connection():
            yield from iceberg_options.named_files(object.settings)


def _of_connector(config: ConnectorConfig) -> Iterator[NamedFile]:
    yield from kafka_options.named_files(config.kafka)
    warehouse, uri = "iceberg.catalog.warehouse", "iceberg.catalog.uri"
    if config.catalog is not None:
        places = dict.fromkeys((warehouse, uri))
        tables = [destination.parts for destination in config.destinations]
        yield from iceberg_options.catalog_files(config.catalog, warehouse, uri, places, tables)
    for name, value in config.properties.items():
        # write.data.path and the like: where a table that the connector creates keeps its files
        if name.lower().endswith("path") and (path := local_path(value)) is not None:
            yield NamedFile(f"iceberg.tables.auto-create-props.{name}", path)
