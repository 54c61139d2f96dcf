"""Rows that must be taken before the time of their statement is over."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from icestream.interrupts import TIMEOUT
from icestream.server.backend import Outcome, StateError

LOOK = 256
"""Rows between two looks at the clock."""


class TimedRows:
    """The rows of a statement, until its time is over."""

    def __init__(self, rows: Iterable[Sequence[object]], deadline: float) -> None:
        """`deadline` is a moment of `time.monotonic`."""
        self._source = rows
        self._rows = iter(rows)
        self._deadline = deadline
        self._taken = 0

    def __iter__(self) -> Iterator[Sequence[object]]:
        return self

    def __next__(self) -> Sequence[object]:
        self._taken += 1
        if self._taken % LOOK == 0 and time.monotonic() > self._deadline:
            raise StateError("57014", TIMEOUT)
        return next(self._rows)

    def close(self) -> None:
        """No more rows are wanted."""
        for part in (self._rows, self._source):
            getattr(part, "close", lambda: None)()


def close_rows(outcome: Outcome) -> None:
    """Close the rows of an outcome that nobody wants."""
    getattr(outcome.rows, "close", lambda: None)()
