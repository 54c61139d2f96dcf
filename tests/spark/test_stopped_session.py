"""A statement that is left behind when Spark is stopped. It has a process of its own: other tests share a session."""

from __future__ import annotations

import logging
import subprocess
import sys
from threading import Event, Thread

import pytest
from pyspark.sql import SparkSession

from icestream.interrupts import Interrupt, StatementCancelledError
from icestream.runtime.spark_jobs import cancellable

pytestmark = pytest.mark.spark


def leave_a_statement_behind() -> None:
    """Cancel a statement that is still busy when the session is stopped; what is wrong is logged."""
    logging.basicConfig(level=logging.WARNING)
    spark = (
        SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    )
    interrupt, begun, stopped = Interrupt(), Event(), Event()

    def work() -> None:
        try:
            with interrupt.bound(), cancellable(spark):
                begun.set()
                stopped.wait()
                interrupt.check()
        except StatementCancelledError:
            print("cancelled", flush=True)

    thread = Thread(target=work)
    thread.start()
    begun.wait()
    spark.stop()
    interrupt.cancel()
    interrupt.cancel()
    stopped.set()
    thread.join()


def test_a_statement_that_is_left_behind_ends_quietly() -> None:
    script = f"from {__name__} import leave_a_statement_behind as leave; leave()"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "cancelled\n"
    assert "a wait could not be ended" not in done.stderr
    assert "Traceback" not in done.stderr
