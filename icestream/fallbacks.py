"""Why work went to Spark that could have been done without it: counters by reason.

Whoever decides owns a counter: the engine's DuckDB for queries, the lake for small changes. The status file and the relation
`rw_spark_fallbacks` show the counters since the start of the process; the log has a line for each decision at the level debug.
"""

from __future__ import annotations

import logging
import threading

MOST_REASONS = 200
OTHER = "other reasons"

_LOG = logging.getLogger(__name__)


class FallbackCounter:
    """Counts one kind of work by the reason why Spark did it. Any thread may count."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        """What Spark did: `query`, `small change`."""
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}

    def count(self, reason: str) -> None:
        """Spark does the work this time."""
        _LOG.debug("%s runs on Spark: %s", self.kind, reason)
        with self._lock:
            if reason not in self._counts and len(self._counts) >= MOST_REASONS:
                reason = OTHER
            self._counts[reason] = self._counts.get(reason, 0) + 1

    def counts(self) -> dict[str, int]:
        """How often, by reason; the most frequent first."""
        with self._lock:
            return dict(sorted(self._counts.items(), key=lambda item: -item[1]))
