"""A JVM without memory, and what it writes. Each test has a process of its own: the JVM of other tests is shared."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from icestream.config import EngineSettings, Home
from icestream.errors import JvmLostError
from icestream.lake.jvm import check_jvm
from icestream.runtime import session
from icestream.runtime.jvm_watchdog import JvmWatchdog, find_symptom
from icestream.secrecy import remember_secret

pytestmark = pytest.mark.spark

CANARY = "Kettle7 of the Grey Heron"
"""A secret that no pattern finds: no word around it says that it is one."""


def start(home: str) -> SparkSession:
    return session.start(Home.at(Path(home)), EngineSettings(master="local[2]", driver_memory="1g"))


def run_apart(function: str, home: Path, timeout: float = 180) -> str:
    """Run a function of this module in another process; what it prints."""
    script = f"import sys; from {__name__} import {function} as run; run(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", script, str(home)],
        capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def await_end(spark: SparkSession) -> None:
    """Print how the JVM has ended."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            check_jvm(spark)
        except JvmLostError as error:
            print(error.message, flush=True)
            os._exit(0)  # without a JVM Spark's own clean-up takes long
        time.sleep(0.1)
    os._exit(1)


def exhaust_a_task(home: str) -> None:
    spark = start(home)
    huge = "SELECT length(repeat(CAST(id AS STRING), 1000000000)) FROM range(10, 12)"
    try:
        spark.sql(huge).collect()
    except Exception as error:
        print("OutOfMemoryError" in str(error), flush=True)
    print(spark.range(1000).selectExpr("sum(id)").collect()[0][0], find_symptom(spark), flush=True)
    spark.stop()


def test_a_query_without_memory_fails_and_the_jvm_goes_on(tmp_path: Path) -> None:
    assert run_apart("exhaust_a_task", tmp_path / "home") == "True\n499500 None\n"


def refuse_threads(home: str) -> None:
    """Limit the JVM's address space, and ask for one thread after the other: each Python thread is one in the JVM."""
    spark = start(home)
    jvm = spark.sparkContext._gateway.proc.pid
    size = int(Path(f"/proc/{jvm}/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    subprocess.run(["prlimit", f"--pid={jvm}", f"--as={size}:"], check=True)
    executors = spark._jvm.java.util.concurrent.Executors
    try:
        for _ in range(100):  # a pool's threads, and one that asks in vain for another
            executors.newSingleThreadScheduledExecutor().scheduleAtFixedRate(
                spark._jvm.java.lang.Thread(), 0, 1, spark._jvm.java.util.concurrent.TimeUnit.DAYS
            )
    except Py4JError:
        pass  # this one was told; nobody is told of the next
    JvmWatchdog(spark, period=0.2, patience=30)
    await_end(spark)


def test_a_jvm_that_has_lost_a_thread_for_lack_of_memory_ends(tmp_path: Path) -> None:
    said = run_apart("refuse_threads", tmp_path / "home")
    assert said == "Spark's JVM has ended (exit code 52: it ran out of memory)\n"
    errors = (tmp_path / "home" / "logs" / "jvm.err").read_text()
    assert "a thread has ended for lack of memory, so this JVM ends: " in errors


def lose_a_job(home: str) -> None:
    """Stop the thread that schedules jobs; a job waits for it for ever."""
    spark = start(home)
    assert find_symptom(spark) is None
    spark.sparkContext._jsc.sc().dagScheduler().eventProcessLoop().stop()
    JvmWatchdog(spark, period=0.2, patience=3)
    try:
        spark.range(10).selectExpr("sum(id)").collect()
    except Exception:
        await_end(spark)


def test_a_job_that_nobody_works_on_ends_the_jvm(tmp_path: Path) -> None:
    said = run_apart("lose_a_job", tmp_path / "home")
    expected = "no thread has worked on a job that somebody waits for for 3 s"
    assert said == f"Spark's JVM has ended ({expected})\n"


def work_for_long(home: str) -> None:
    """Jobs with long tasks, a broadcast and several stages, under a watchdog without patience."""
    spark = start(home)
    JvmWatchdog(spark, period=0.1, patience=3)
    slow = spark.sparkContext.parallelize([1], 1).map(lambda x: (time.sleep(8), x)[1])
    print(slow.collect())
    spark.range(3_000_000).createOrReplaceTempView("t")
    joined = "SELECT count(*) FROM t a JOIN t b ON a.id = b.id * 2 JOIN range(9) c ON c.id = a.id"
    print(spark.sql(joined).collect()[0][0])
    check_jvm(spark)


def test_a_job_that_takes_long_is_left_alone(tmp_path: Path) -> None:
    assert run_apart("work_for_long", tmp_path / "home") == "[1]\n5\n"


def tell_a_secret(home: str) -> None:
    remember_secret(CANARY)
    spark = start(home)
    jvm = spark._jvm
    log = jvm.org.apache.logging.log4j.LogManager.getLogger("canary")
    log.warn(f"the log has {CANARY} in it")
    log.error("an exception", jvm.java.lang.RuntimeException(f"about {CANARY}\nand {CANARY}"))
    for stream in (jvm.java.lang.System.err, jvm.java.lang.System.out):
        stream.println(f"printed {CANARY} there")
    spark.stop()
    print("done")


def test_what_the_jvm_writes_hides_secrets_by_their_values(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert run_apart("tell_a_secret", home) == "done\n"
    log, errors = ((home / "logs" / name).read_text() for name in ("jvm.log", "jvm.err"))
    assert "WARN canary: the log has <hidden> in it" in log
    assert "RuntimeException: about <hidden>\nand <hidden>" in log
    assert "printed <hidden> there" in log
    assert "printed <hidden> there" in errors
    for path in home.rglob("*"):
        assert not path.is_file() or CANARY.encode() not in path.read_bytes(), path
