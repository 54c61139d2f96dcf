"""Kafka as a source of repeatable ranges: offsets by partition.

Positions come from Kafka's own admin client in the driver's JVM, so that every `properties.*` means
the same there and in the executors. `kafka_positions` says what an offset holds.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from icestream.connectors import patterns
from icestream.connectors.base import Context, Source, SourceConnector
from icestream.connectors.kafka_options import (
    FEW_RECORDS,
    LONGEST_TIMEOUT,
    OPTIONS,
    answer_timeout,
    check,
    client_properties,
    named_files,
)
from icestream.connectors.kafka_positions import Extent, Partition, Positions
from icestream.errors import ConnectorError, RangeLostError, did_you_mean
from icestream.lake.jvm import java_message, java_names
from icestream.lake.position import Offset
from icestream.types import BIGINT, BYTEA, INTEGER, TIMESTAMPTZ, VARCHAR, array, struct

EARLIEST, LATEST = -2, -1
TOPIC = re.compile(r"[\w.-]+")
OFFSET = re.compile(r"([\w.-]+)-(\d+)=ListOffsetsResultInfo\(offset=(-?\d+)")
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id of topics on brokers before 2.8."""
IDS_HOLD = 1.0
"""Seconds for which the ids of topics are not asked for again."""
SPLIT_ABOVE = 200_000  # records in a range before partitions are split among more tasks than there are partitions


class KafkaSource(Source):
    """One or more topics (or a pattern of them), read in offset ranges."""

    asks_only = True

    def __init__(self, context: Context) -> None:
        self.name = context.name
        self.spark = context.spark
        self.settings = context.settings
        self.properties = client_properties(context.settings)
        self.group = f"{context.settings['group.id.prefix']}-{context.key.replace('#', '-')}"
        self._java = java_names(context.spark)
        self._places: dict[tuple[str, int], Any] = {}
        self._admin: Any = None
        self._ids: dict[str, str] = {}
        self._described_at = -math.inf
        """When the ids of topics were asked for last."""

    # -- positions -------------------------------------------------------------------------------

    def start(self) -> Offset:
        """Where scan.startup.mode says: the earliest kept record, the end, or a point in time."""
        mode = self.settings["scan.startup.mode"]
        millis = self.settings.get("scan.startup.timestamp.millis")
        partitions, ids = self._partitions()
        if millis is not None:
            ends = self._offsets(partitions, LATEST)
            found = self._offsets(partitions, int(millis))
            positions = {p: ends[p] if o < 0 else o for p, o in found.items()}
        else:
            positions = self._offsets(partitions, LATEST if mode == "latest" else EARLIEST)
        return Positions(positions, ids=ids).to_offset()

    def latest(self, since: Offset) -> Offset:
        """The last stable offsets; checks that everything from `since` on is still there."""
        extent, before = self._extent(), Positions.parse(since)
        lost = extent.find_loss(before)
        if lost is not None:
            raise self._lost(lost)
        return extent.end(before).to_offset()

    def reset(self, since: Offset) -> Offset:
        """Partitions that lost records go on at their first record; topics made anew start over."""
        return self._extent().skip_loss(Positions.parse(since)).to_offset()

    def advance(self, since: Offset, end: Offset, limit: int | None) -> Offset:
        """Each partition moves by its share of the limit."""
        return Positions.parse(end).advance(Positions.parse(since), limit).to_offset()

    def count(self, start: Offset, end: Offset) -> int:
        """Offsets in the range: an upper bound where transactions or compaction left gaps."""
        return sum(Positions.parse(end).count_since(Positions.parse(start)).values())

    # -- records ---------------------------------------------------------------------------------

    def read(self, start: Offset, end: Offset, columns: Sequence[str]) -> DataFrame:
        """The records of that range, by Spark's Kafka connector in batch mode. A topic that was created anew since the range
        was recorded has other records at its offsets: RangeLostError."""
        before, after = Positions.parse(start), Positions.parse(end)
        counts = after.count_since(before)
        ends = Positions({p: o for p, o in after.next.items() if counts[p]})
        first = {p: after.start_of(p, before) for p in ends.next}
        assigned = Positions({p: EARLIEST if o is None else o for p, o in first.items()})
        properties, group = self.properties, self.group
        if self.has_large_records:
            # Spark keeps consumers by group, with the properties that the first one had.
            few = min(FEW_RECORDS, int(properties["max.poll.records"]))
            properties, group = properties | {"max.poll.records": str(few)}, f"{group}-large"
        options = {f"kafka.{k}": v for k, v in properties.items()} | {
            "kafka.group.id": group,
            "assign": json.dumps({t: sorted(map(int, ps)) for t, ps in ends.to_offset().items()}),
            "startingOffsets": json.dumps(assigned.to_offset()),
            "endingOffsets": json.dumps(ends.to_offset()),
            "failOnDataLoss": "true",
            "kafkaConsumer.pollTimeoutMs": str(1000 * LONGEST_TIMEOUT),
            "includeHeaders": str("headers" in columns).lower(),
        }
        if not ends.next:
            return self.spark.createDataFrame([], _schema(columns))
        self._check_ids({t: after.ids[t] for t, _ in ends.next if t in after.ids})
        if sum(counts.values()) > SPLIT_ABOVE:
            options["minPartitions"] = str(self.spark.sparkContext.defaultParallelism)
        frame = self.spark.read.format("kafka").options(**options).load()
        return frame.select(*[F.col("topic" if c == "stream" else c).alias(c) for c in columns])

    def _check_ids(self, recorded: Mapping[str, str]) -> None:
        """Compare topic ids with those of the cluster; `latest` has usually just asked for them."""
        if (
            time.monotonic() - self._described_at > IDS_HOLD
            or not recorded.keys() <= self._ids.keys()
        ):
            self._describe(sorted(recorded))
        for topic, id in recorded.items():
            if self._ids.get(topic, id) != id:
                raise self._lost(f"topic {topic} was deleted and created again")

    def _lost(self, loss: str) -> RangeLostError:
        return RangeLostError(
            f"source {self.name}: {loss}; records that were not read are lost",
            object=self.name,
            remedy="ALTER … RESET goes on with what is there; to start over, drop and create it again",
        )

    def acknowledge(self, end: Offset) -> None:
        """Commit the positions to the consumer group, so that Kafka's own lag monitors see this source."""
        positions = self._java.java.util.HashMap()
        committed = self._java.org.apache.kafka.clients.consumer.OffsetAndMetadata
        for (topic, partition), offset in Positions.parse(end).next.items():
            positions.put(self._place(topic, partition), committed(offset))
        self._client().alterConsumerGroupOffsets(self.group, positions)

    def close(self) -> None:
        """Close the admin client."""
        self._drop_client(seconds=2)

    def _drop_client(self, seconds: int = 0) -> None:
        admin, self._admin = self._admin, None
        self._described_at = -math.inf
        if admin is not None:
            admin.close(self._java.java.time.Duration.ofSeconds(seconds))

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
            return future.get(answer_timeout(self.settings), seconds)
        except Py4JJavaError as error:
            raise self._failed(error) from error

    def _extent(self) -> Extent:
        """What the topics hold now."""
        partitions, ids = self._partitions()
        first = self._offsets(partitions, EARLIEST)
        return Extent(first, self._offsets(partitions, LATEST), ids)

    def _partitions(self) -> tuple[list[Partition], dict[str, str]]:
        """All partitions, and the ids of their topics."""
        wanted = self.settings["topic"]
        if wanted is None:
            known = [t for t in self._known() if not t.startswith("__")]
            topics = patterns.matching(self.settings["topic.regex"], known)
        else:
            topics = [t.strip() for t in wanted.split(",") if t.strip()]
        found = self._describe(topics)
        partitions = [(t, p) for t, d in found.items() for p in range(d.partitions().size())]
        return partitions, dict(self._ids)

    def _describe(self, topics: Sequence[str]) -> dict[str, Any]:
        """Kafka's descriptions of topics. Keeps their ids."""
        try:
            described = self._wait(self._client().describeTopics(topics).allTopicNames())
        except ConnectorError as error:
            if "UnknownTopicOrPartition" not in str(error.__cause__):
                raise
            known = self._known()
            for topic in topics:
                if topic not in known:
                    raise ConnectorError(
                        f"source {self.name}: topic {topic!r} does not exist on {self.bootstrap}",
                        object=self.name,
                        remedy=did_you_mean(topic, known) or "create the topic first",
                    ) from None
            raise
        found = {t: described.get(t) for t in topics}
        ids = {t: str(d.topicId().toString()) for t, d in found.items()}
        self._ids = {t: id for t, id in ids.items() if id != NO_ID}
        self._described_at = time.monotonic()
        return found

    def _known(self) -> list[str]:
        """All topics of the cluster."""
        names = self._wait(self._client().listTopics().names())
        return sorted(TOPIC.findall(names.toString()))

    def _offsets(self, partitions: Sequence[Partition], at: int) -> dict[Partition, int]:
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
        self._drop_client()  # the next one looks brokers up anew: they may have moved
        return ConnectorError(
            f"source {self.name}: Kafka at {self.bootstrap} did not answer: {java_message(error)}",
            object=self.name,
            remedy="check properties.bootstrap.server, the network and the credentials",
        )


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
    named_files=named_files,
)
