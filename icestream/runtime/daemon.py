"""The process that Spark forks its Python workers from, in local mode: `python -m icestream.runtime.daemon`.

Spark puts its own code on the workers' path as archives, and has every task look for new modules, which reads the
archives' tables of contents again: 0.1 s a task. Here the same packages are installed as folders. What every worker
needs is imported before the fork, once.
"""

from __future__ import annotations

import gc
import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ARCHIVES = ("pyspark.zip", "py4j-", "spark-core_")
QUICKLY: int | None = getattr(socket, "TCP_QUICKACK", None)


def leave_archives() -> None:
    """Take Spark's archives off the path, and forget that they were ever looked into, if it is installed beside them."""
    before = list(sys.path)
    sys.path[:] = [path for path in before if not Path(path).name.startswith(ARCHIVES)]
    sys.path_importer_cache.clear()
    if any(find_spec(name) is None for name in ("pyspark", "py4j")):
        sys.path[:] = before


def at_once(work: Any) -> Any:
    """A worker that acknowledges at once: the JVM holds the rest of a task back until its first piece has arrived."""

    def worker(sock: socket.socket, authenticated: bool) -> Any:
        if QUICKLY is not None:
            sock.setsockopt(socket.IPPROTO_TCP, QUICKLY, 1)
        return work(sock, authenticated)

    return worker


if __name__ == "__main__":
    leave_archives()
    from pyspark import daemon
    from pyspark.sql.pandas import serializers  # noqa: F401

    from icestream.connectors.formats import json  # noqa: F401
    from icestream.lake import keyed  # noqa: F401

    gc.collect()
    gc.freeze()  # what is here stays: no worker has to look at it again after each task
    daemon.worker = at_once(daemon.worker)
    daemon.manager()
