"""The Spark session of an engine: settings that the dialect relies on, jars, and the JVM's noise in a log file."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from icestream.config import EngineSettings, Home
from icestream.dev import jars
from icestream.dev.java import find_java
from icestream.errors import ConfigError
from icestream.file_access import FileAccess
from icestream.lake.access import access_conf, landing_folder
from icestream.lake.catalogs import embedded
from icestream.runtime import classes, java_library
from icestream.runtime.jvm_output import JvmOutput, MaskedFile, capture, mask_crash_reports
from icestream.runtime.jvm_watchdog import install_guard
from icestream.runtime.spark_functions import register_functions
from icestream.secrecy import HIDDEN, REDACTED, URL_PASSWORD

# What a statement does wrong is told to whoever gave it; these tell it again, with a page of Java.
for _name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"

DIALECT = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    # The last value of a key counts in an object, as in PostgreSQL.
    "spark.sql.variant.allowDuplicateKeys": "true",
    # Else `${env:HOME}` in a name or a comment is replaced by Spark.
    "spark.sql.variable.substitute": "false",
}

FIXED = {
    "spark.redaction.regex": REDACTED,
    "spark.sql.redaction.options.regex": f"{REDACTED}|url",
    "spark.sql.redaction.string.regex": URL_PASSWORD.pattern,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A limit in bytes makes Spark measure a batch after every row: two thirds of the executors' time. Epochs that read large
    # records have one (FOR_LARGE_RECORDS).
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647b",
    # Large results go to a file as they come.
    "spark.driver.maxResultSize": "0",
    "spark.sql.catalogImplementation": "in-memory",
    # A backfill and the queries of clients run beside the pipeline, not before it.
    "spark.scheduler.mode": "FAIR",
    # Else every column that is named costs five calls to the JVM, to tell where in Python that was.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # A task without memory fails its query, not the JVM; JvmGuard ends a JVM that has lost a thread by it.
    "spark.executor.killOnFatalError.depth": "0",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:-UsePerfData -XX:-CreateCoredumpOnCrash -Dderby.system.home=/dev/null",
}

FOR_LARGE_RECORDS = {
    "spark.sql.execution.arrow.maxBytesPerBatch": "64m",
    # Compression of kept rows would hold every value of a column in memory, to find out whether there are few.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}
"""Settings while large records are read."""

IN_LOGS = (
    (r"(://[^\s:/@]*:)[^\s/?#<>]+@", f"$1{HIDDEN}@"),
    (r"(://[^\s:/@]*:)[^\s@<>]+@", f"$1{HIDDEN}@"),
    (r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*", HIDDEN),
    (
        r"(?i)((?:password|passwd|passphrase|secret|token|credential|jaas|signature|[?&]sig"
        r"|(?:private|access|account|api)[._-]?key)[\w.-]*[\"']?\s?(?:=|:|->)\s?)"
        r"(?:\"(?:\\.|[^\"])*\"?|'(?:''|[^'])*'?|[^\s,&]+)",
        f"$1{HIDDEN}",
    ),
)
"""What the JVM's log hides, and how: by the words around it, in messages of several lines too. `jvm_output` hides the secrets
that are known by their values. Brackets in braces must be balanced, for log4j's own syntax."""

LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_OUT
appender.out.layout.type = PatternLayout
appender.out.layout.charset = UTF-8
appender.out.layout.pattern = %d{{ISO8601}} %p %c{{1}}: {masked}
appender.out.layout.alwaysWriteExceptions = false
"""


def start(
    home: Home,
    settings: EngineSettings,
    groups: Iterable[str] = (),
    progress: Callable[[str], None] | None = None,
    record: Path | None = None,
    access: FileAccess | None = None,
) -> SparkSession:
    """Start the session of a home. `groups` names jar groups beyond the engine's own, such as `aws`.

    `record` asks for a class archive to be written there when the JVM ends.
    """
    java = find_java()
    paths = list(jars.resolve("engine", progress))
    for group in dict.fromkeys(groups):
        paths += jars.resolve(group, progress)
    if java_library.JAR.exists():
        paths.append(java_library.JAR)
    elif progress is not None:
        progress(f"{java_library.JAR.name} is missing: a power failure may damage the tables")
    home.prepare()
    os.environ.setdefault("JAVA_HOME", str(java.executable.resolve().parent.parent))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = (
        DIALECT
        | FIXED
        | {"spark.sql.extensions": EXTENSIONS}
        | embedded(home).spark_conf()
        | access_conf(access)
        | _place(settings, paths)
    )
    if access is not None:
        conf |= _file_guard(home, access)
    conf["spark.local.dir"] = conf["spark.sql.warehouse.dir"] = str(home.scratch)
    mask_crash_reports(home.logs)
    report = str(home.logs).replace("%", "%%") + "/jvm-crash-%p.log"
    log = f' -Dlog4j2.configurationFile={_log_file(home).as_uri()} "-XX:ErrorFile={report}"'
    conf["spark.driver.extraJavaOptions"] += log + classes.options(classes.archive(), record)
    builder = SparkSession.builder.appName("icestream")
    for key, value in conf.items():
        builder = builder.config(key, value)
    errors = home.logs / "jvm.err"
    out = JvmOutput(MaskedFile(home.logs / "jvm.log"))
    err = JvmOutput(MaskedFile(errors), at_end=lambda: mask_crash_reports(home.logs))
    try:
        with capture(out, err):
            session: SparkSession = builder.getOrCreate()
    except PySparkRuntimeError as error:
        err.wait(5)
        raise ConfigError(
            f"Spark did not start: {error.getMessage()}",
            remedy=f"icestream doctor looks at the machine; the JVM's words are in {errors}",
        ) from error
    install_guard(session)
    register_functions(session)
    return session


def warm(spark: SparkSession) -> threading.Thread:
    """Start Python workers with what decoding imports, while the driver is still busy with tables and positions."""

    def passing(batches: Iterator[Any]) -> Iterator[Any]:
        from icestream.connectors.formats import json  # noqa: F401
        from icestream.lake import keyed  # noqa: F401

        return batches

    def job() -> None:
        workers = spark.range(0, 64, 1, spark.sparkContext.defaultParallelism)
        workers.mapInArrow(passing, "id BIGINT").write.format("noop").mode("append").save()

    thread = threading.Thread(target=job, name="warm", daemon=True)
    thread.start()
    return thread


def adopt(spark: SparkSession, home: Home, access: FileAccess | None = None) -> SparkSession:
    """A session of its own on a Spark application that runs already; its jars and resources are the caller's."""
    home.prepare()
    session: SparkSession = spark.newSession()
    for key, value in (DIALECT | embedded(home).spark_conf() | access_conf(access)).items():
        session.conf.set(key, value)
    register_functions(session)
    return session


@contextmanager
def changed_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings that hold for a while."""
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.set(name, str(old))


def _place(settings: EngineSettings, paths: list[Path]) -> dict[str, str]:
    """Where Spark runs. Locally the jars are simply on the class path; a cluster gets them shipped."""
    conf = {"spark.master": settings.master, "spark.driver.memory": settings.driver_memory}
    if settings.master.startswith("local"):
        cores = _local_cores(settings.master)
        return conf | {
            "spark.driver.extraClassPath": os.pathsep.join(map(str, paths)),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(cores),
            "spark.python.worker.reuse": "true",
            "spark.python.daemon.module": "icestream.runtime.daemon",
            "spark.hadoop.fs.file.impl": _file_system(paths),
        }
    return conf | {
        "spark.jars": ",".join(map(str, paths)),
        "spark.hadoop.fs.file.impl": _file_system(paths),
    }


def _file_system(paths: list[Path]) -> str:
    """The class for local files: it syncs what it has written. Hadoop's own does not, and starts a process (chmod) for
    every file that is made."""
    bare = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
    return java_library.FILE_SYSTEM if java_library.JAR in paths else bare


def _file_guard(home: Home, access: FileAccess) -> dict[str, str]:
    """Settings of the class for local files: which it opens, for whatever reason Spark asks for them.

    In the home that is what Spark itself reads and writes there: tables, landing checkpoints, logged changes.
    """
    folders = (home.warehouse, home.dml, home.scratch, landing_folder(home.root))
    return {
        "spark.hadoop.icestream.access.home": str(access.home),
        "spark.hadoop.icestream.access.in-home": "\n".join(
            str(folder.relative_to(home.root)) for folder in folders
        ),
        "spark.hadoop.icestream.access.allowed": "\n".join(map(str, access.allowed)),
    }


def _local_cores(master: str) -> int:
    inner = master.removeprefix("local").strip("[]").split(",")[0]
    if not inner:
        return 1
    return (os.cpu_count() or 1) if inner == "*" else int(inner)


def _log_file(home: Home) -> Path:
    path = home.scratch / "log4j2.properties"
    masked = "%m%n%ex"
    for pattern, shown in IN_LOGS:
        masked = f"%replace{{{masked}}}{{{pattern}}}{{{shown}}}"
    escaped = masked.replace("\\", "\\\\")
    path.write_text(LOG4J.format(masked=escaped))
    return path
