"""A cursor for a subscription: DECLARE … SUBSCRIPTION CURSOR FOR name [SINCE … | FULL]."""

from __future__ import annotations

import datetime as dt
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from icestream import interrupts
from icestream.catalog.subscriptions import followed
from icestream.engine import Engine
from icestream.errors import SqlError
from icestream.runtime.subscription import Change, Follower
from icestream.server.backend import Column
from icestream.sql.session_statements import DeclareSubscriptionCursor, SubscriptionStart
from icestream.types import BIGINT, VARCHAR

Reading = Callable[[], AbstractContextManager[None]]


class SubscriptionCursor:
    """The changes that a subscription gives, from where the cursor stands; they never end."""

    def __init__(
        self, statement: DeclareSubscriptionCursor, engine: Engine, reading: Reading
    ) -> None:
        """`reading` is entered while anything is read."""
        self.name = statement.subscription.name
        self.busy = threading.Lock()
        """Held while a FETCH is under way."""
        self._engine = engine
        self._reading = reading
        self._subscription, object = followed(self.name, engine.catalog)
        own = tuple(Column(c.name, c.type) for c in object.columns)
        self.columns = (*own, Column("op", VARCHAR), Column("rw_timestamp", BIGINT))
        self._follower = Follower(object, engine.spark, engine.home.scratch)
        self._waiting = self._follower.changes()
        self._held: list[tuple[int | None, Change]] = []
        """Changes that were read for a FETCH that failed, each with the position before its epoch."""
        with reading():
            if statement.start.kind == "full":
                self._follower.pin()
            else:
                self._follower.at = self._position(statement.start)

    def fetch(self, limit: int | None, timeout: float) -> Sequence[Sequence[object]]:
        """The next changes, as many as there are up to a limit; waits for the first one, if told to."""
        if all(o.key != self._subscription.key for o in self._engine.catalog):
            raise SqlError(f"subscription {self.name} was dropped")
        end = time.monotonic() + timeout
        while True:
            seen = self._epoch()
            found = self._take(limit)
            if found or time.monotonic() >= end:
                return [(*c.values, c.op, c.time) for c in found]
            self._wait(seen, end - time.monotonic())

    def _epoch(self) -> int:
        return self._engine.pipeline.record.epoch

    def _wait(self, seen: int, seconds: float) -> None:
        """Wait for another epoch than the one that was seen."""
        interrupt, advanced = interrupts.current(), self._engine.advanced
        with interrupt.waiting("IPC", "Epoch"), interrupt.on_cancel(self._wake), advanced:
            advanced.wait_for(lambda: interrupt.cancelled or self._epoch() != seen, seconds)
        interrupt.check()

    def _wake(self) -> None:
        with self._engine.advanced:
            self._engine.advanced.notify_all()

    def close(self) -> None:
        """No more changes are wanted."""
        self._waiting.close()

    def _take(self, limit: int | None) -> list[Change]:
        """The next changes. What was read before a failure is kept for the next time, whole epochs of it."""
        follower, held, fresh = self._follower, self._held, False
        with self._reading():
            try:
                while limit is None or len(held) < limit:
                    before = len(held)
                    left = None if limit is None else limit - before
                    for change in itertools.islice(self._waiting, left):
                        held.append((follower.at, change))
                    if len(held) == before:
                        if fresh:
                            break
                        self._waiting, fresh = follower.changes(), True
            except BaseException:
                self._held = [(at, change) for at, change in held if at != follower.at]
                raise
        self._held = []
        return [change for _, change in held]

    def _position(self, start: SubscriptionStart) -> int:
        if start.kind == "now":
            return self._follower.now()
        now = int(time.time() * 1000)
        if start.kind == "begin":
            made = int(self._engine.catalog.stored[self.name].created * 1000) - 1
            oldest = now - int(self._subscription.retention * 1000)
            return self._follower.since(max(made, oldest), or_oldest=True)
        moment = _milliseconds(start.moment)
        if moment > now:
            raise SqlError(f"SINCE {start.moment} is in the future")
        return self._follower.since(moment)


def _milliseconds(moment: int | str) -> int:
    """Milliseconds since 1970: as such, or as a timestamp (UTC if it does not say)."""
    if isinstance(moment, int):
        return moment
    try:
        found = dt.datetime.fromisoformat(moment)
    except ValueError:
        raise SqlError(
            f"SINCE {moment} is no position",
            remedy="now(), begin(), milliseconds since 1970 (a rw_timestamp), or a timestamp in quotes",
        ) from None
    zoned = found if found.tzinfo else found.replace(tzinfo=dt.UTC)
    return int(zoned.timestamp() * 1000)
