"""INSERT, UPDATE and DELETE: they write to the log of statements, and the next epoch takes that in."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from icestream.engine.home_resources import HomeResources
from icestream.errors import IcestreamError, SqlError
from icestream.home_log import log_failure
from icestream.result import Result
from icestream.runtime.writes import Writes
from icestream.sql import statements as st

if TYPE_CHECKING:
    from icestream.runtime.transaction import Transaction

_LOG = logging.getLogger(__name__)

SERIALIZATION_FAILURE = "40001"


class HomeWrites:
    """Changes rows of tables."""

    def __init__(self, resources: HomeResources, writes: Writes) -> None:
        self._resources = resources
        self._writes = writes

    def change(
        self, statement: st.Insert | st.Update | st.Delete, transaction: Transaction | None
    ) -> Result:
        """Run a statement that changes rows, in a transaction or as one of its own."""
        from icestream.runtime.dml import Changing
        from icestream.runtime.transaction import Transaction

        resources = self._resources
        log = resources.pipeline.lake.dml

        def run(into: Transaction) -> Result:
            changing = Changing(resources.catalog, resources.spark, log, into, self._writes.see)
            return changing.run(statement)

        if transaction is not None:
            return run(transaction)
        own = Transaction()
        result = run(own)
        if isinstance(statement, st.Insert):
            own.read.clear()  # it is as if it had been run when it began
        try:
            self.commit(own)
        except SqlError as error:
            if error.code != SERIALIZATION_FAILURE:
                raise
            log_failure(_LOG, "a statement runs again: others wrote meanwhile", level=logging.DEBUG)
            # Other sessions wrote meanwhile; now they wait. The turn comes first because `run` may need it.
            with resources.turns, self._writes.lock:
                own = Transaction()
                result = run(own)
                self.commit(own)
        return result

    def commit(self, transaction: Transaction) -> None:
        """Write what a transaction has changed, as one entry of the log: all of it is visible in one epoch, or none."""
        if not transaction.changes:
            return
        pipeline = self._resources.pipeline
        with self._writes.lock:
            transaction.write(self._resources.catalog, pipeline.lake.dml)
        if self.flushes and not self._resources.live:
            self.show_writes()

    @property
    def flushes(self) -> bool:
        """Whether each change waits until it is visible. Sessions of a server see to that themselves."""
        is_on = self._resources.is_on
        return is_on("rw_implicit_flush") or is_on("implicit_flush")

    def show_writes(self) -> None:
        """Make all writes visible that were acknowledged. They are durable, so a failure is only told, also that a successor
        has taken over: the loop of the pipeline ends this process then, and the successor takes them in."""
        try:
            self._writes.see([o.key for o in self._resources.catalog])
        except Exception as error:
            log_failure(_LOG, "rows are written, but not visible yet")
            cause = error.__cause__ or error
            text = cause.message if isinstance(cause, IcestreamError) else str(cause)
            self._resources.notice(
                f"the rows are written, but not visible yet: {text.partition(chr(10))[0]}"
            )
