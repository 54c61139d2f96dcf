"""Kafka as a sink: FORMAT PLAIN ENCODE JSON, one message a row.

Delivery is **at least once**: when the engine stops between writing an epoch's messages and completing the epoch,
they are written again at the next start. A reader that needs each row once tells them apart by the key.
"""

from __future__ import annotations

from collections.abc import Sequence

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from icestream.connectors.base import Column, Context, Sink, SinkConnector
from icestream.connectors.formats.json_out import encode
from icestream.connectors.kafka_options import (
    CONNECTION,
    PRODUCER_PASS_THROUGH,
    check_connection,
    client_properties,
    named_files,
)
from icestream.errors import ConnectorError, SqlError, did_you_mean
from icestream.lake.jvm import java_message
from icestream.sql.options import OptionSpec, PrefixSpec, Settings


class KafkaSink(Sink):
    """Writes each row as a JSON object, with the primary key's columns as the message's key."""

    def __init__(self, context: Context) -> None:
        self.name = context.name
        self.topic = context.settings.string("topic")
        properties = client_properties(context.settings, PRODUCER_PASS_THROUGH)
        self.options = {f"kafka.{k}": v for k, v in properties.items()} | {"topic": self.topic}
        self.columns = [(c.name, c.type) for c in context.columns]
        types = dict(self.columns)
        self.key = [(name, types[name]) for name in context.settings.list("primary_key")]

    def write(self, frame: DataFrame, epoch: int) -> None:
        """Send the rows and wait until the brokers have them all."""
        key = encode(self.key) if self.key else F.lit(None).cast("string")
        messages = frame.select(key.alias("key"), encode(self.columns).alias("value"))
        try:
            messages.write.format("kafka").options(**self.options).save()
        except (Py4JJavaError, PySparkException) as error:
            text = (
                java_message(error)
                if isinstance(error, Py4JJavaError)
                else str(error).splitlines()[0]
            )
            raise ConnectorError(
                f"sink {self.name}: could not write to topic {self.topic} "
                f"on {self.options['kafka.bootstrap.servers']}: {text}",
                object=self.name,
                remedy="check properties.bootstrap.server, the topic and the credentials; "
                "the epoch is repeated at the next start",
            ) from error


def check_columns(settings: Settings, columns: Sequence[Column]) -> None:
    """primary_key names columns of the sink."""
    names = [c.name for c in columns]
    for name in settings.list("primary_key"):
        if name not in names:
            raise SqlError(
                f"{settings.what}: primary_key names {name!r}, which is no column",
                place=settings.place("primary_key"),
                remedy=did_you_mean(name, names) or "the columns are " + ", ".join(names),
            )


SINK = SinkConnector(
    name="kafka",
    options=(
        *CONNECTION,
        OptionSpec("topic", required=True, help="the topic to write to"),
        OptionSpec(
            "type", default="append-only", choices=("append-only",), help="how rows are written"
        ),
        OptionSpec(
            "force_append_only", "bool", False, "write inserts and drop updates and deletes"
        ),
        OptionSpec("primary_key", "list", help="the columns of the message's key"),
        PrefixSpec("properties.", "other producer properties", PRODUCER_PASS_THROUGH),
    ),
    open=KafkaSink,
    formats={"PLAIN": ("JSON",)},
    check=check_connection,
    check_columns=check_columns,
    named_files=named_files,
)
