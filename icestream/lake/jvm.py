"""The narrow door to Iceberg's Java API through Py4J: tables, snapshots, exceptions, the head guard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from py4j.java_gateway import JavaClass, JavaPackage, JVMView
from py4j.protocol import Py4JJavaError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from icestream.errors import JvmLostError
from icestream.fallbacks import FallbackCounter
from icestream.secrecy import mask_secrets

JavaObject = Any

_REMOTE = ("rest", "hive", "glue")
"""Types of catalogs that ask a server when they are initialized."""


class Names:
    """Packages, classes and their static members, each looked up once: every dot is a call to the JVM."""

    def __init__(self, java: JVMView | JavaPackage | JavaClass) -> None:
        self._java = java

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._java, name)
        if isinstance(found, JavaPackage | JavaClass):
            found = Names(found)
        self.__dict__[name] = found
        return found

    def __call__(self, *arguments: object) -> JavaObject:
        """A new object of the class."""
        return self._java(*arguments)


class Jvm:
    """Iceberg as the driver's JVM offers it, for one Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        java = spark._jvm.java
        self._list, self._map = java.util.ArrayList, java.util.HashMap
        self.iceberg = Names(spark._jvm.org.apache.iceberg)
        self._sessions = Names(spark._jvm.org.apache.spark.sql.classic.SparkSession)
        self._catalogs = Names(spark._jvm.org.apache.spark.sql.connector.catalog.Catalogs)
        self._reached: set[str] = set()
        self.fallbacks = FallbackCounter("small change")
        """Why Spark reads or writes small changes instead of the driver itself."""
        ensure_callback_server_started(spark.sparkContext._gateway)

    def load(self, table: str) -> JavaObject:
        """The Iceberg table of that full Spark name (catalog.namespace.table), freshly loaded."""
        self._sessions.setActiveSession(self.spark._jsparkSession)  # catalogs are looked up in it
        self._reach(table.partition(".")[0].strip("`"))
        return self.iceberg.spark.Spark3Util.loadIcebergTable(self.spark._jsparkSession, table)

    def catalog(self, name: str) -> JavaObject:
        """The Iceberg catalog that Spark has under that name."""
        self._sessions.setActiveSession(self.spark._jsparkSession)
        self._reach(name)
        return self.iceberg.spark.Spark3Util.loadIcebergCatalog(self.spark._jsparkSession, name)

    def _reach(self, catalog: str) -> None:
        """Initialize a remote catalog once outside the session before the session does.

        The session holds a lock meanwhile that every query needs, so it must not be the first to find that the server
        does not answer.
        """
        if catalog in self._reached:
            return
        if self.spark.conf.get(f"spark.sql.catalog.{catalog}.type", "") in _REMOTE:
            self._catalogs.load(catalog, self.spark._jsparkSession.sessionState().conf())
        self._reached.add(catalog)

    def texts(self, items: Sequence[str]) -> JavaObject:
        """A String[] of those texts."""
        return self.array(self.spark._jvm.java.lang.String, items)

    def list(self, items: Iterable[object]) -> JavaObject:
        """A java.util.List of those items."""
        made = self._list()
        for item in items:
            made.add(item)
        return made

    def map(self, items: Mapping[str, str]) -> JavaObject:
        """A java.util.Map of those texts."""
        made = self._map()
        for key, value in items.items():
            made.put(key, value)
        return made

    def array(self, kind: JavaObject, items: Sequence[object]) -> JavaObject:
        """A Java array of that class."""
        made = self.spark.sparkContext._gateway.new_array(kind, len(items))
        for index, item in enumerate(items):
            made[index] = item
        return made


OUT_OF_MEMORY = (3, 52)
"""Exit codes of a JVM without memory: its own, and that of `JvmGuard` and Spark."""
_END_REASON = "icestream_end_reason"


def check_jvm(spark: SparkSession) -> None:
    """Raise JvmLostError if the JVM process has ended: killed, by the watchdog, or by itself without memory."""
    code = _exit_code(spark)
    if code is not None:
        reason = vars(spark.sparkContext._gateway).get(_END_REASON)
        if reason is None:
            reason = f"signal {-code}" if code < 0 else f"exit code {code}"
            reason += ": it ran out of memory" if code in OUT_OF_MEMORY else ""
        raise JvmLostError(
            f"Spark's JVM has ended ({reason})",
            remedy="start icestream again: it completes what was interrupted; if it happens again, give it more --memory",
        )


def end_jvm(spark: SparkSession, reason: str) -> None:
    """Kill the JVM process, which is of no use any more. Whoever waits for an answer of it gets an error, and
    `check_jvm` tells the reason."""
    kept = vars(spark.sparkContext._gateway)
    if _exit_code(spark) is None and kept.get("proc") is not None:
        kept[_END_REASON] = reason
        kept["proc"].kill()


def is_jvm_lost(spark: SparkSession) -> bool:
    """Whether the JVM process has ended."""
    return _exit_code(spark) is not None


def _exit_code(spark: SparkSession) -> int | None:
    # Not by getattr: every name that the gateway does not have is one of the JVM's for it.
    process = vars(spark.sparkContext._gateway).get("proc")
    code: int | None = process.poll() if process is not None else None
    return code


def iterate(found: JavaObject) -> Iterator[JavaObject]:
    """The elements of a Java iterable. Python's own iteration over it would end with a Java exception, which is slow."""
    iterator = found.iterator()
    while iterator.hasNext():
        yield iterator.next()


class HeadGuard:
    """Asserts, inside a commit, that the table's head is the snapshot the commit was prepared on.

    Iceberg refreshes a table before its first attempt, so checking beforehand would be a race.
    """

    def __init__(self, expected: int | None) -> None:
        self.expected = expected

    def validate(self, ancestors: JavaObject) -> bool:
        """Called by Iceberg with the ancestry of the snapshot it is about to build on."""
        iterator = ancestors.iterator()
        head = iterator.next().snapshotId() if iterator.hasNext() else None
        return bool(head == self.expected)

    def errorMessage(self) -> str:
        """Called by Iceberg for the exception's text."""
        return f"the head is no longer {self.expected}"

    class Java:
        """Py4J: the Java interface this class implements."""

        implements = ("org.apache.iceberg.SnapshotAncestryValidator",)


def java_class(error: Py4JJavaError) -> str:
    """The simple name of the Java exception's class."""
    return str(error.java_exception.getClass().getSimpleName())


def java_message(error: Py4JJavaError) -> str:
    """One readable line: the deepest cause that says something."""
    cause, best = error.java_exception, ""
    for _ in range(12):
        if cause is None:
            break
        if "jackson" in str(cause.getClass().getName()):
            return (
                "the metadata is not valid JSON"  # Jackson's own message has the text of the file
            )
        text = cause.getMessage()
        best = str(text) if text else best
        cause = cause.getCause()
    return mask_secrets(best.strip().splitlines()[0]) if best.strip() else java_class(error)


def is_missing(error: Exception) -> bool:
    """Whether a failure to load a table says that there is none."""
    text = str(error)
    return any(w in text for w in ("NoSuchTable", "NoSuchNamespace", "TABLE_OR_VIEW_NOT_FOUND"))
