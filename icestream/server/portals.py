"""What a connection holds between messages: prepared statements, and portals, which are running ones."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

from icestream.server import messages
from icestream.server.backend import Column, Description, Outcome, StateError, Statement
from icestream.server.scalars import BINARY, TEXT
from icestream.server.values import codec

_LOG = logging.getLogger(__name__)

Encoder = Callable[[Any], bytes]


@dataclass(frozen=True)
class Prepared:
    """A statement with the types of its parameters; `statement` is None for an empty text."""

    sql: str | None
    """The text that places in its errors refer to."""
    statement: Statement | None
    parameters: tuple[int, ...] = ()
    """The OIDs of its parameters."""
    description: Description = field(default_factory=Description)

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The columns that the client was told."""
        return self.description.columns


@dataclass
class Portal:
    """A statement with values; once it runs, with its outcome and the rows that are left."""

    prepared: Prepared
    values: tuple[object, ...]
    formats: tuple[int, ...]
    outcome: Outcome | None = None
    rows: Iterator[Sequence[object]] = field(default_factory=lambda: iter(()))
    done: bool = False

    def start(self, outcome: Outcome) -> None:
        """The statement ran; its columns must be those that the client was told."""
        self.outcome = outcome
        self.rows = iter(outcome.rows)
        told, found = (_types(c) for c in (self.prepared.columns, outcome.columns))
        if told != found and outcome.copy is None:
            raise StateError("0A000", "cached plan must not change result type")

    def close(self) -> None:
        """No more rows are wanted. What goes wrong now is not the client's concern."""
        for end in (self.rows, self.outcome.rows if self.outcome else None):
            try:
                getattr(end, "close", lambda: None)()
            except Exception:
                _LOG.warning("the rows of a statement could not be closed", exc_info=True)


def _types(columns: Sequence[Column] | None) -> list[int] | None:
    return None if columns is None else [codec(column.type).oid for column in columns]


def spread(formats: Sequence[int], count: int, what: str) -> tuple[int, ...]:
    """The format of each of so many values: none given is text, one is for all."""
    if not set(formats) <= {TEXT, BINARY}:
        raise StateError("22023", "unsupported format code")
    if len(formats) not in (0, 1, count):
        raise StateError(
            "08P01", f"bind message has {len(formats)} {what} formats but {count} {what}s"
        )
    return tuple(formats) if len(formats) == count else (*formats, TEXT)[:1] * count


def describe(columns: Sequence[Column], formats: Sequence[int]) -> bytes:
    """The RowDescription of columns."""
    fields = []
    for column, format in zip(columns, formats, strict=True):
        found = codec(column.type)
        fields.append(messages.Field(column.name, found.oid, found.size, found.modifier, format))
    return messages.row_description(fields)


def encoders(columns: Sequence[Column], formats: Sequence[int], zone: tzinfo) -> list[Encoder]:
    """What makes the bytes of each column's values."""
    pairs = zip(columns, formats, strict=True)
    return [codec(column.type, zone).encoder(format) for column, format in pairs]
