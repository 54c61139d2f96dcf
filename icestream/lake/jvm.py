"""The only module that talks to the JVM of Spark through Py4J.

`Jvm` offers Iceberg's Java API: tables, snapshots, exceptions, the head guard. The functions below it offer what PySpark does
not: sessions, functions and accumulators of our own jar, job groups, the process itself. `java_types` has protocols for
the objects of Java that others get from here. `tests/unit/test_code_rules.py` allows PySpark's private attributes
in this module alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from subprocess import Popen
from typing import Any, cast

from py4j.java_gateway import JavaClass, JavaPackage, JVMView
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from icestream.errors import JvmLostError
from icestream.fallbacks import FallbackCounter
from icestream.lake.java_types import (
    ArrowServer,
    FailureCounts,
    FileStatus,
    JavaObject,
    JavaTable,
    MemoryGuard,
    RegexJobs,
    SystemProperties,
)
from icestream.secrecy import mask_secrets

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

    def load(self, table: str) -> JavaTable:
        """The Iceberg table of that full Spark name (catalog.namespace.table), freshly loaded."""
        self._sessions.setActiveSession(self.spark._jsparkSession)  # catalogs are looked up in it
        self._reach(table.partition(".")[0].strip("`"))
        found = self.iceberg.spark.Spark3Util.loadIcebergTable(self.spark._jsparkSession, table)
        return cast(JavaTable, found)

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


# -- sessions ----------------------------------------------------------------------------------


def java_names(spark: SparkSession) -> Names:
    """All packages of the JVM: for a library that has no other door, such as Kafka's clients."""
    return Names(spark._jvm)


def system_properties(spark: SparkSession) -> SystemProperties:
    """The system properties of the driver's JVM."""
    return cast(SystemProperties, spark._jvm.java.lang.System)


def clone_session(spark: SparkSession) -> SparkSession:
    """A session with the same settings and temporary views of its own."""
    return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())


def drop_temp_views(spark: SparkSession, names: Iterable[str]) -> None:
    """Drop temporary views. `spark.catalog.dropTempView` also forgets the kept rows of a frame that was persisted."""
    catalog = spark._jsparkSession.sessionState().catalog()
    for name in names:
        catalog.dropTempView(name)


def set_application_setting(spark: SparkSession, key: str, value: str) -> None:
    """Set a value that every session of the application begins with."""
    spark.sparkContext._jsc.sc().conf().set(key, value)


def has_synced_files(spark: SparkSession) -> bool:
    """Whether local files are durable once Spark has closed them (see `runtime.java_library`)."""
    context = spark.sparkContext
    local = context._jvm.org.apache.hadoop.fs.FileSystem.getLocal(
        context._jsc.hadoopConfiguration()
    )
    return str(local.getClass().getSimpleName()) == "SyncedLocalFileSystem"


def list_files(spark: SparkSession, pattern: str) -> Sequence[FileStatus]:
    """The files that a Hadoop path pattern names."""
    path = spark._jvm.org.apache.hadoop.fs.Path(pattern)
    system = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    return cast(Sequence[FileStatus], system.globStatus(path) or ())


def columns_ddl(frame: DataFrame) -> str:
    """The columns of a frame as Spark's SQL declares them."""
    types = frame.sparkSession._jvm.org.apache.spark.sql.types.DataType
    return str(types.fromJson(frame.schema.json()).toDDL())


def collect_as_arrow(frame: DataFrame) -> tuple[int, str, ArrowServer]:
    """Run a frame and send its batches to a socket as tasks end: the port, the secret to be let in, the sender."""
    port, secret, server = frame._jdf.collectAsArrowToPython()
    return port, secret, server


# -- the engine's own jar ------------------------------------------------------------------------


def has_jar(spark: SparkSession) -> bool:
    """Whether the engine's jar is on the class path."""
    return isinstance(spark.sparkContext._jvm.icestream.KeepRunning, JavaClass)


def register_function(spark: SparkSession, name: str, kind: str, type: str, *given: object) -> None:
    """Give a session a function: an object of that class of the jar, which gives values of that type of Spark's."""
    java = spark.sparkContext._jvm
    types = java.org.apache.spark.sql.types.DataTypes
    function = getattr(java.icestream, kind)(*given)
    spark._jsparkSession.udf().register(name, function, getattr(types, type))


def register_patterns(spark: SparkSession) -> None:
    """Give a session the functions of Regex.java."""
    spark.sparkContext._jvm.icestream.Regex.register(spark._jsparkSession)


def register_failure_counts(spark: SparkSession) -> FailureCounts:
    """A new accumulator of failed expressions."""
    counts = spark.sparkContext._jvm.icestream.FailureCounts()
    spark.sparkContext._jsc.sc().register(counts, "failed expressions")
    return cast(FailureCounts, counts)


def memory_guard(spark: SparkSession) -> MemoryGuard | None:
    """The guard of JvmGuard.java; None without the jar."""
    return cast(MemoryGuard, spark.sparkContext._jvm.icestream.JvmGuard) if has_jar(spark) else None


# -- jobs ------------------------------------------------------------------------------------------


def is_stopped(spark: SparkSession) -> bool:
    """Whether the Spark application was stopped by Spark itself. Asks the JVM."""
    return bool(spark.sparkContext._jsc.sc().isStopped())


class JobGroup:
    """The jobs of one statement, which can be cancelled together."""

    def __init__(self, spark: SparkSession, name: str, *, has_patterns: bool) -> None:
        """`has_patterns`: whether the session has the functions of Regex.java."""
        self.name = name
        self._context = spark.sparkContext
        self._regex: RegexJobs | None = None
        if has_patterns:
            self._regex = self._context._jvm.icestream.Regex

    @property
    def is_open(self) -> bool:
        """Whether there can be jobs: a context that was stopped has none."""
        return self._context._jsc is not None

    def cancel(self) -> None:
        """End its jobs, also those that begin later."""
        if (running := self._context._jsc) is not None:
            if self._regex is not None:
                self._regex.cancel(self.name)
            running.sc().cancelJobGroupAndFutureJobs(self.name)

    def forget(self) -> None:
        """It was cancelled and has ended."""
        if self._regex is not None:
            self._regex.forget(self.name)


# -- the process -----------------------------------------------------------------------------------


def jvm_process() -> Popen[bytes]:
    """The process of the JVM that this process has started."""
    assert SparkContext._gateway is not None
    return cast("Popen[bytes]", SparkContext._gateway.proc)


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


# -- objects of Java -------------------------------------------------------------------------------


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
