"""Queries of a home: which writes they see, and whether they need Spark."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from icestream.catalog.lineage import statement_tables
from icestream.engine.home_resources import HomeResources
from icestream.fallbacks import FallbackCounter
from icestream.runtime.lock import running
from icestream.runtime.writes import Writes

if TYPE_CHECKING:
    import pyarrow as pa

    from icestream.plan.logical import Node
    from icestream.runtime.local import Hold, Local

POLL = 0.05
"""Seconds between looks at the log of a home that another process runs."""


class HomeQueries:
    """Answers queries."""

    def __init__(self, resources: HomeResources, writes: Writes) -> None:
        self._resources = resources
        self._writes = writes

    @cached_property
    def local(self) -> Local:
        """What answers queries without Spark."""
        from icestream.runtime.local import Local

        return Local(self._resources.home, self._resources.settings)

    def rows(self, node: Node) -> pa.Table:
        """All rows of a query at an epoch that holds all writes acknowledged before; Spark is asked only if it has to be."""
        from icestream.runtime.query import collected

        self.see_writes(node)
        rows = self.rows_at_hand(node)
        if rows is not None:
            return rows
        return collected(node, self._resources.catalog, self._resources.spark)

    def rows_at_hand(self, node: Node, hold: Hold = lambda cursor: None) -> pa.Table | None:
        """The same if Spark is not needed; else None. See `Local.rows`."""
        if self._resources.store.settings().get("query_mode", "").lower() == "distributed":
            self.local.fallbacks.count("query_mode is distributed")
            return None
        return self.local.rows(node, hold)

    def see_writes(self, node: Node) -> None:
        """Return when a query sees all writes that were acknowledged before. While the pipeline is paused it does not,
        and says so."""
        from icestream.plan.linear import relations_read

        keys = relations_read(node)
        if self._resources.opened is None and keys:
            self._open_for_writes(keys)
        told = "the pipeline is paused: rows that were written since are not visible before RESUME"
        self._writes.see(keys, paused=lambda: self._resources.notice(told))

    def _open_for_writes(self, keys: Sequence[str]) -> None:
        """A process that only reads: take in what another one has written and not taken in before it ended."""
        from icestream.lake.dml_log import DmlLog

        resources = self._resources
        tables = statement_tables(resources.catalog, keys)
        written = DmlLog(resources.home.dml).newest(tables) if tables else {}
        while written:
            record = self.local.record()
            sources = record.sources if record is not None else {}
            if all(sources.get(k, {}).get("entry", 0) >= n for k, n in written.items()):
                return
            if running(resources.home) is None:
                resources.open_pipeline()
                return
            if resources.store.paused:
                resources.notice(
                    "the pipeline is paused: rows that were written since are not visible"
                )
                return
            time.sleep(POLL)  # the process that runs the home takes it in

    def fallbacks(self) -> list[FallbackCounter]:
        """Why queries went to Spark, if there were any."""
        return [self.local.fallbacks] if "local" in self.__dict__ else []

    def close(self) -> None:
        """Let go of what was opened for queries."""
        if "local" in self.__dict__:
            self.local.close()
