"""A generator of web events for the demo: Spark writes them to Kafka, a batch a second."""

from __future__ import annotations

import threading
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

PAGES = (
    "home",
    "pricing",
    "docs/start",
    "docs/sql",
    "blog/iceberg",
    "blog/spark",
    "cart",
    "checkout",
)
ACTIONS = ("view", "view", "view", "click", "click", "scroll", "heartbeat")
POISON_EVERY = 997
"""One record in this many is not JSON, as in real life."""


class Clickstream:
    """Web events on a topic, at a rate, until stopped."""

    interval = 1.0
    """Seconds between the beginnings of two batches."""

    def __init__(self, spark: SparkSession, bootstrap: str, topic: str, rate: int) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.topic = topic
        self.rate = rate
        self.sent = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clickstream", daemon=True)

    def send(self, count: int) -> None:
        """Write the next `count` events."""
        frame = events(self.spark, self.sent, count)
        writer = frame.write.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        writer.option("topic", self.topic).save()
        self.sent += count

    def start(self) -> None:
        """Send a batch every second from a thread: as many events as the clock says are due."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the batch at hand."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        began, first = time.monotonic(), self.sent
        batch = 1
        while not self._stop.wait(max(0.0, began + batch * self.interval - time.monotonic())):
            passed = time.monotonic() - began
            batch = int(passed / self.interval) + 1
            if (due := first + int(passed * self.rate) - self.sent) > 0:
                self.send(due)


def events(spark: SparkSession, first: int, count: int) -> DataFrame:
    """Kafka records of events number `first` to `first + count`; a pure function of the numbers but for the time."""

    def pick(values: tuple[str, ...], salt: int) -> F.Column:
        index = F.pmod(F.xxhash64(F.col("id"), F.lit(salt)), F.lit(len(values))).cast("int") + 1
        return F.element_at(F.array(*map(F.lit, values)), index)

    user = F.pmod(F.xxhash64(F.col("id"), F.lit(3)), F.lit(500))
    event = F.struct(
        F.format_string("user-%03d", user).alias("user_id"),
        F.concat(F.lit("https://shop.example/"), pick(PAGES, 1)).alias("page_url"),
        pick(ACTIONS, 2).alias("action"),
        F.format_string("s-%03d-%d", user, F.unix_timestamp() % 600).alias("session_id"),
        F.date_format(F.current_timestamp(), "yyyy-MM-dd'T'HH:mm:ss.SSSX").alias("event_time"),
    )
    broken = F.pmod(F.col("id"), F.lit(POISON_EVERY)) == POISON_EVERY - 1
    value = F.when(broken, F.lit("{not json")).otherwise(F.to_json(event))
    key = F.format_string("user-%03d", user)
    return spark.range(first, first + count, 1, 2).select(key.alias("key"), value.alias("value"))
