"""The epoch log: one small Iceberg table whose newest snapshot's summary is the newest complete record."""

from __future__ import annotations

from icestream.lake.catalogs import LAKE, SYSTEM, Lake
from icestream.lake.stamp import RECORD, Record, Stamp
from icestream.lake.table import LakeTable


class EpochLog:
    """Reads and extends the log of one pipeline. Its commit is what completes an epoch."""

    def __init__(self, table: LakeTable) -> None:
        self.table = table
        self.head: int | None = None

    @classmethod
    def of(cls, lake: Lake) -> EpochLog:
        """The log of the home whose lake it is."""
        return cls(lake.table(LAKE, SYSTEM, "epochs", owned=True))

    def newest(self) -> Record | None:
        """The newest record, as the catalog has it now; remembers the head that the next commit must find."""
        for index, snapshot in enumerate(self.table.ancestry()):
            if index == 0:
                self.head = snapshot.id
            if text := snapshot.summary.get(RECORD):
                return Record.from_json(text)
        return None

    def commit(self, record: Record) -> None:
        """Make that record the newest, guarded by the head last seen."""
        stamp = Stamp(record.pipeline, record.incarnation, record.plan, record.epoch, record.time)
        self.head = self.table.append([], stamp, self.head, {RECORD: record.to_json()})
