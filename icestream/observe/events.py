"""What happened, newest last: a bounded list in memory that the engine and its pipeline add to."""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from icestream.secrecy import mask_secrets

KEPT = 1_000

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Event:
    """Something that happened; `info` holds no secrets."""

    type: str
    """In RisingWave's words where it has some: META_NODE_START, RECOVERY, COLLECT_BARRIER_FAIL, …"""
    info: Mapping[str, object]
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def as_dict(self) -> dict[str, object]:
        """Its `info` under the type's name, written recovery, collectBarrierFail."""
        first, *rest = self.type.lower().split("_")
        return {first + "".join(map(str.title, rest)): dict(self.info)}


class Events:
    """The newest events; any thread may add."""

    def __init__(self) -> None:
        self._kept: deque[Event] = deque(maxlen=KEPT)

    def add(self, type: str, **info: object) -> None:
        """Something has just happened."""
        shown = {k: mask_secrets(v) if isinstance(v, str) else v for k, v in info.items()}
        self._kept.append(Event(type, shown))
        _LOG.debug("event %s: %s", type, shown)

    def newest(self) -> list[Event]:
        """Those that are kept, the oldest first."""
        return list(self._kept)
