"""Kafka as a source of repeatable ranges: offsets by partition.

Positions come from Kafka's own admin client in the driver's JVM, so that every `properties.*` means
the same there and in the executors. An offset is {topic: {partition: next offset to read}}.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from icestream.connectors.base import Context, Source, SourceConnector
from icestream.connectors.kafka_options import OPTIONS, check, client_properties
from icestream.errors import ConnectorError, RangeLostError, did_you_mean
from icestream.lake.jvm import Names, java_message
from icestream.lake.stamp import Offset
from icestream.types import BIGINT, BYTEA, INTEGER, TIMESTAMPTZ, VARCHAR, array, struct

EARLIEST, LATEST = -2, -1
TOPIC = re.compile(r"[\w.-]+")
OFFSET = re.compile(r"([\w.-]+)-(\d+)=ListOffsetsResultInfo\(offset=(-?\d+)")
SPLIT_ABOVE = 200_000  # records in a range before partitions are split among more tasks than there are partitions


class KafkaSource(Source):
    """One or more topics (or a pattern of them), read in offset ranges."""

    def __init__(self, context: Context) -> None:
        self.name = context.name
        self.spark = context.spark
        self.settings = context.settings
        self.properties = client_properties(context.settings)
        self.group = f"{context.settings['group.id.prefix']}-{context.key.replace('#', '-')}"
        self._java = Names(context.spark._jvm)
        self._places: dict[tuple[str, int], Any] = {}
        self._admin: Any = None

    # -- positions -------------------------------------------------------------------------------

    def start(self) -> Offset:
        """Where scan.startup.mode says: the earliest kept record, the end, or a point in time."""
        mode = self.settings["scan.startup.mode"]
        millis = self.settings.get("scan.startup.timestamp.millis")
        partitions = self._partitions()
        if millis is not None:
            ends = self._offsets(partitions, LATEST)
            found = self._offsets(partitions, int(millis))
            positions = {p: ends[p] if o < 0 else o for p, o in found.items()}
        else:
            positions = self._offsets(partitions, LATEST if mode == "latest" else EARLIEST)
        return _nested(positions)

    def latest(self, since: Offset) -> Offset:
        """The last stable offsets; checks that everything from `since` on is still there."""
        partitions = self._partitions()
        first = self._offsets(partitions, EARLIEST)
        ends = self._offsets(partitions, LATEST)
        for (topic, partition), start in _flat(since).items():
            low, high = first.get((topic, partition)), ends.get((topic, partition))
            if low is None or high is None:
                lost = f"partition {partition} of topic {topic} is gone"
            elif start < low:
                lost = f"topic {topic}/{partition} was read up to {start}, but begins at {low} now"
            elif start > high:
                lost = f"topic {topic}/{partition} was read up to {start}, but ends at {high} now"
            else:
                continue
            raise RangeLostError(
                f"source {self.name}: {lost}; records were lost or the topic was made anew",
                object=self.name,
                remedy="drop the source and create it again to start over from what is there",
            )
        return _nested({p: max(o, _flat(since).get(p, 0)) for p, o in ends.items()})

    def advance(self, since: Offset, end: Offset, limit: int | None) -> Offset:
        """Each partition moves by its share of the limit."""
        starts, ends = _flat(since), _flat(end)
        ends = {p: max(o, starts.get(p, 0)) for p, o in ends.items()}
        lag = {p: o - starts.get(p, 0) for p, o in ends.items()}
        total = sum(lag.values())
        if limit is None or total <= limit + len(lag):  # shares are rounded up: so is the limit
            return _nested(ends)
        moved = {p: starts.get(p, 0) + (n * limit + total - 1) // total for p, n in lag.items()}
        return _nested({p: min(o, ends[p]) for p, o in moved.items()})

    def count(self, start: Offset, end: Offset) -> int:
        """Offsets in the range: an upper bound where transactions or compaction left gaps."""
        starts = _flat(start)
        return sum(o - starts.get(p, 0) for p, o in _flat(end).items())

    # -- records ---------------------------------------------------------------------------------

    def read(self, start: Offset, end: Offset, columns: Sequence[str]) -> DataFrame:
        """The records of that range, by Spark's Kafka connector in batch mode."""
        starts = _flat(start)
        ends = {p: o for p, o in _flat(end).items() if o > starts.get(p, 0)}
        assigned = {p: starts.get(p, EARLIEST) for p in ends}
        options = {f"kafka.{k}": v for k, v in self.properties.items()} | {
            "kafka.group.id": self.group,
            "assign": json.dumps({t: sorted(map(int, ps)) for t, ps in _nested(ends).items()}),
            "startingOffsets": json.dumps(_nested(assigned)),
            "endingOffsets": json.dumps(_nested(ends)),
            "failOnDataLoss": "true",
            "includeHeaders": str("headers" in columns).lower(),
        }
        if not ends:
            return self.spark.createDataFrame([], _schema(columns))
        if self.count(start, end) > SPLIT_ABOVE:
            options["minPartitions"] = str(self.spark.sparkContext.defaultParallelism)
        frame = self.spark.read.format("kafka").options(**options).load()
        return frame.select(*[F.col("topic" if c == "stream" else c).alias(c) for c in columns])

    def acknowledge(self, end: Offset) -> None:
        """Commit the positions to the consumer group, so that Kafka's own lag monitors see this source."""
        positions = self._java.java.util.HashMap()
        committed = self._java.org.apache.kafka.clients.consumer.OffsetAndMetadata
        for (topic, partition), offset in _flat(end).items():
            positions.put(self._place(topic, partition), committed(offset))
        self._client().alterConsumerGroupOffsets(self.group, positions)

    def close(self) -> None:
        """Close the admin client."""
        if self._admin is not None:
            self._admin.close(self._java.java.time.Duration.ofSeconds(2))
            self._admin = None

    # -- the admin client ------------------------------------------------------------------------

    def _client(self) -> Any:
        if self._admin is None:
            properties = self._java.java.util.Properties()
            for key, value in self.properties.items():
                properties.setProperty(key, value)
            try:
                self._admin = self._java.org.apache.kafka.clients.admin.Admin.create(properties)
            except Py4JJavaError as error:
                raise self._failed(error) from error
        return self._admin

    def _wait(self, future: Any) -> Any:
        seconds = self._java.java.util.concurrent.TimeUnit.SECONDS
        try:
            return future.get(self.settings["properties.timeout"], seconds)
        except Py4JJavaError as error:
            raise self._failed(error) from error

    def _partitions(self) -> list[tuple[str, int]]:
        wanted = self.settings["topic"]
        if wanted is None:
            pattern = re.compile(self.settings["topic.regex"])
            topics = [t for t in self._known() if pattern.fullmatch(t) and not t.startswith("__")]
        else:
            topics = [t.strip() for t in wanted.split(",") if t.strip()]
        try:
            described = self._wait(self._client().describeTopics(topics).allTopicNames())
        except ConnectorError:
            known = self._known()
            for topic in topics:
                if topic not in known:
                    raise ConnectorError(
                        f"source {self.name}: topic {topic!r} does not exist on {self.bootstrap}",
                        object=self.name,
                        remedy=did_you_mean(topic, known) or "create the topic first",
                    ) from None
            raise
        return [(t, p) for t in topics for p in range(described.get(t).partitions().size())]

    def _known(self) -> list[str]:
        """All topics of the cluster."""
        names = self._wait(self._client().listTopics().names())
        return sorted(TOPIC.findall(names.toString()))

    def _offsets(
        self, partitions: Sequence[tuple[str, int]], at: int
    ) -> dict[tuple[str, int], int]:
        """Offsets of the earliest (-2), the end (-1), or the first record at that time (≥ 0; -1 if none)."""
        kafka = self._java.org.apache.kafka
        spec = kafka.clients.admin.OffsetSpec
        wanted = {EARLIEST: spec.earliest, LATEST: spec.latest}.get(
            at, lambda: spec.forTimestamp(at)
        )()
        query = self._java.java.util.HashMap()
        for topic, partition in partitions:
            query.put(self._place(topic, partition), wanted)
        isolation = kafka.common.IsolationLevel.READ_COMMITTED
        if self.properties.get("isolation.level") == "read_uncommitted":
            isolation = kafka.common.IsolationLevel.READ_UNCOMMITTED
        options = kafka.clients.admin.ListOffsetsOptions(isolation)
        answer = self._wait(self._client().listOffsets(query, options).all())
        # One text for all: entry by entry it would be a dozen calls to the JVM for each partition.
        found = {(t, int(p)): int(o) for t, p, o in OFFSET.findall(answer.toString())}
        return {p: found[p] for p in partitions}

    def _place(self, topic: str, partition: int) -> Any:
        """A partition as Kafka's classes know it."""
        at = (topic, partition)
        if at not in self._places:
            self._places[at] = self._java.org.apache.kafka.common.TopicPartition(topic, partition)
        return self._places[at]

    @property
    def bootstrap(self) -> str:
        """The brokers' address, for messages."""
        return self.properties["bootstrap.servers"]

    def _failed(self, error: Py4JJavaError) -> ConnectorError:
        return ConnectorError(
            f"source {self.name}: Kafka at {self.bootstrap} did not answer: {java_message(error)}",
            object=self.name,
            remedy="check properties.bootstrap.server, the network and the credentials",
        )


def _flat(offset: Offset) -> dict[tuple[str, int], int]:
    return {(t, int(p)): o for t, partitions in offset.items() for p, o in partitions.items()}


def _nested(positions: Mapping[tuple[str, int], int]) -> dict[str, dict[str, int]]:
    result: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(positions.items()):
        result.setdefault(topic, {})[str(partition)] = offset
    return result


def _schema(columns: Sequence[str]) -> str:
    from icestream.connectors.base import RAW_SCHEMA

    wanted = [f.strip() for f in re.split(r", (?=\w+ [A-Z])", RAW_SCHEMA)]
    return ", ".join(f for c in columns for f in wanted if f.split()[0] == c)


HEADERS = array(struct(("key", VARCHAR), ("value", BYTEA)))

SOURCE = SourceConnector(
    name="kafka",
    options=OPTIONS,
    open=KafkaSource,
    formats={"PLAIN": ("JSON", "CSV", "BYTES"), "UPSERT": ("JSON",), "DEBEZIUM": ("JSON",)},
    includes={
        "key": BYTEA,
        "partition": INTEGER,
        "offset": BIGINT,
        "timestamp": TIMESTAMPTZ,
        "header": HEADERS,
        "payload": BYTEA,
    },
    check=check,
)
