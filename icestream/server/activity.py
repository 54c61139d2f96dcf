"""What a session is doing, as pg_stat_activity and SHOW PROCESSLIST tell it."""

from __future__ import annotations

from datetime import UTC, datetime

from icestream.errors import IcestreamError
from icestream.interrupts import Interrupt
from icestream.secrecy import hide_known
from icestream.server.backend import Client, Transaction
from icestream.server.relations import model as system
from icestream.sql.masking import mask_text
from icestream.sql.source import Source

LONGEST = 1024
"""Characters of a query that are shown, as in PostgreSQL."""
STATES = {"I": "idle", "T": "idle in transaction", "E": "idle in transaction (aborted)"}
CLIENT_READ = ("Client", "ClientRead")


class SessionActivity:
    """The newest statement of a session: kept as it came, masked when somebody asks."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.began = self.changed = _now()
        self._query = ""
        self._started: datetime | None = None
        self._active = False
        self._transaction_began: datetime | None = None
        self.interrupt: Interrupt | None = None

    def start(self, query: str, interrupt: Interrupt) -> None:
        """A statement begins."""
        self.interrupt = interrupt
        self._query = query
        self._started = self.changed = _now()
        self._active = True

    def finish(self, transaction: Transaction) -> None:
        """The client has its answer."""
        if self._active:
            self._active = False
            self.changed = _now()
        self.interrupt = None
        if transaction == "I":
            self._transaction_began = None
        elif self._transaction_began is None:
            self._transaction_began = self._started

    def show(self, application: str, transaction: Transaction) -> system.Activity:
        """As the relation has it."""
        active, interrupt = self._active, self.interrupt
        wait = (interrupt.wait if interrupt else None) if active else CLIENT_READ
        return system.Activity(
            self.client.process,
            self.client.user,
            self.client.database,
            application,
            self.client.address or None,
            self.began,
            state="active" if active else STATES[transaction],
            query=shown_query(self._query),
            transaction_started=self._transaction_began or (self._started if active else None),
            query_started=self._started,
            changed=self.changed,
            wait_type=wait[0] if wait else None,
            wait_event=wait[1] if wait else None,
        )


def shown_query(text: str) -> str:
    """A client's text without secrets, whether it is right or not. Of one that cannot be read the first word is shown."""
    words = text.strip()
    try:
        masked = mask_text(words)
        shown = Source.open(masked, "", None).shown
    except IcestreamError:
        return f"{words.split(maxsplit=1)[0][:20]} …" if words else ""
    return hide_known(shown)[:LONGEST]


def _now() -> datetime:
    return datetime.now(UTC)
