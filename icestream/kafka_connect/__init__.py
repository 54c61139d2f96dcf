"""Kafka Connect's Iceberg sink on this engine: its configuration, its reading of JSON, its rules for schemas.

`script_of` turns a configuration file into CREATE CONNECTOR; `connect.config` checks its keys; `connect.records` and
`connect.inference` do with a record what the sink does. No Spark here: `runtime.destinations` runs it.
"""

from icestream.kafka_connect.script import script_of

__all__ = ["script_of"]
