"""Runs one command and measures its whole process tree: wall and CPU seconds.

    python -m benchmarks.measure REPORT.json COMMAND…

A process of its own, for two reasons: as the subreaper it inherits every descendant whose parent
does not wait for it (Spark's JVM, a Connect worker), and nothing else, such as the broker, is
ever its child. So the CPU time of waited-for children is exactly the contender's.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
PATIENCE = 60


def measure(command: list[str]) -> dict[str, float]:
    """Runs the command to its end, and then waits for what it left behind."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become a subreaper")
    begin = time.monotonic()
    status = subprocess.run(command, check=False).returncode
    wall = time.monotonic() - begin
    _reap(time.monotonic() + PATIENCE)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "status": status,
        "wall": wall,
        "cpu": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / 1024,
    }


def _reap(deadline: float) -> None:
    """Waits for adopted processes; one that does not end in time is an error of the contender."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            if time.monotonic() > deadline:
                raise TimeoutError("a process of the contender goes on after its end")
            time.sleep(0.05)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(measure(sys.argv[2:])))
