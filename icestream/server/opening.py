"""Opening the pipeline when the disk or the catalog does not work yet: failures that may pass are retried for a while."""

from __future__ import annotations

import logging
import re
import sqlite3
import threading
import time
from collections.abc import Callable

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from icestream.errors import ConnectorError, IcestreamError, RangeLostError
from icestream.home_log import log_failure
from icestream.runtime.failures import describe_error, retry_delay

_LOG = logging.getLogger(__name__)

FIRST_WAIT, LONGEST_WAIT = 1.0, 15.0
PATIENCE = 300.0
"""Seconds after the first failure until the start is given up."""
_IO_CODES = ("53100", "58030")
_DAMAGED = re.compile(r"SQLITE_(CORRUPT|NOTADB)|malformed|not a database", re.IGNORECASE)


def open_patiently(
    open: Callable[[], None],
    notice: Callable[[str], None],
    stop: threading.Event,
    patience: float = PATIENCE,
) -> None:
    """Open until that succeeds; each failure is noted. Raises what cannot pass, and the last failure at the end."""
    end: float | None = None
    attempts = 0
    while True:
        try:
            open()
            return
        except Exception as error:
            end = end or time.monotonic() + patience
            wait = min(
                retry_delay(attempts, FIRST_WAIT, LONGEST_WAIT), max(0.0, end - time.monotonic())
            )
            if not can_open_later(error) or not wait:
                raise
            attempts += 1
            log_failure(_LOG, "the start has failed and is tried again")
            notice(
                f"the start has failed: {describe_error(error).message}; trying again in {wait:.1f} s"
            )
            if stop.wait(wait):
                raise


def can_open_later(error: Exception) -> bool:
    """Whether trying again may help: the disk or a catalog fails. A damaged file does not get better by itself."""
    if _DAMAGED.search(str(error)) or isinstance(error, RangeLostError):
        return False
    if isinstance(error, IcestreamError):
        return isinstance(error, ConnectorError) or error.code in _IO_CODES
    return isinstance(error, OSError | sqlite3.OperationalError | Py4JJavaError | PySparkException)
