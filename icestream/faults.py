"""Named fault points, for the recovery tests: the places where a crash would hurt most.

`ICESTREAM_FAULT=point` kills the whole process group (SIGKILL) when the code first reaches that point;
`point@3` on the third time; `point:stop` stops the process (SIGSTOP), as a long pause of the machine would.
Without the variable a fault point costs one dictionary look-up.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

POINTS = (
    "dml-written",
    "dml-logged",
    "ranges-chosen",
    "runs-written",
    "index-covered",
    "files-written",
    "vectors-written",
    "delta-read",
    "commit-sent",
    "first-table-committed",
    "tables-committed",
    "log-committed",
    "view-exchanged",
    "recovering",
    "recovery-fenced",
    "alter-stored",
    "table-renamed",
    "columns-changed",
)

_reached: Counter[str] = Counter()


def reach(point: str) -> None:
    """Tell that the code is at this point; does not return if the environment asks for a fault here."""
    wanted = os.environ.get("ICESTREAM_FAULT")
    if not wanted:
        return
    name, _, action = wanted.partition(":")
    name, _, times = name.partition("@")
    if name != point:
        return
    _reached[point] += 1
    if _reached[point] != int(times or 1):
        return
    if action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        os.killpg(os.getpgrp(), signal.SIGKILL)
