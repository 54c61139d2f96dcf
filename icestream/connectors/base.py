"""What the engine asks of a connector.

A source has one contract: repeatable ranges. `read(start, end)` gives the same rows however often it is called, so
that streaming, replay after a crash, backfill and the bounded run are the same call on different ranges.
Adding a connector is one module with a `SourceConnector` or `SinkConnector`, and one line in `registry`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from icestream.errors import NotSupportedError
from icestream.file_access import NamedFile
from icestream.functions.expressions import Expr
from icestream.lake.position import Offset
from icestream.sql.options import Settings, Spec
from icestream.types import Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from icestream.lake.catalogs import Lake
    from icestream.lake.table import LakeTable

RAW = ("stream", "partition", "offset", "timestamp", "key", "headers", "value")
"""The columns of a raw record: where it was, when, its key and headers, and the payload to decode."""

RAW_SCHEMA = (
    "stream STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, value BINARY"
)


@dataclass(frozen=True)
class Column:
    """A column of an object. `generated` is its expression over the columns that are not generated."""

    name: str
    type: Type
    not_null: bool = False
    generated: Expr | None = None
    default: Expr | None = None
    """What stands there where a statement or a sink gives nothing."""


class Source(ABC):
    """A running source. All methods are called from the driver, one at a time."""

    raw = True
    """Whether `read` gives raw records to decode (RAW columns) or the declared columns themselves."""
    is_local = False
    """Whether `latest` answers at once, because it asks nobody outside."""
    asks_only = False
    """Whether `start` and `reset` ask the world outside and change nothing: they may be called before a statement's turn,
    more than once, and in a thread that is left behind."""
    gives_changes = False
    """Whether `read`, if not raw, also gives the columns of `lake.fold.CHANGE_SCHEMA`."""
    has_large_records = False
    """Whether records may be so large that only few of them fit into memory. Set by the engine, from what it has read."""

    @abstractmethod
    def start(self) -> Offset:
        """Where the declaration says to begin. Called once, when the source is created; the answer is recorded."""

    @abstractmethod
    def latest(self, since: Offset) -> Offset:
        """The end of what is there now, never before `since`. Raises RangeLostError if `since` is gone."""

    def reset(self, since: Offset) -> Offset:
        """The position from which to go on after `latest` raised RangeLostError for `since`: what is lost is skipped.

        Called for ALTER SOURCE … RESET. Raises NotSupportedError where a source cannot skip anything.
        """
        raise NotSupportedError("RESET of a source of this connector")

    @abstractmethod
    def advance(self, since: Offset, end: Offset, limit: int | None) -> Offset:
        """A position in [since, end] at most about `limit` records after `since`. Pure; no I/O."""

    @abstractmethod
    def read(self, start: Offset, end: Offset, columns: Sequence[str]) -> DataFrame:
        """The records of [start, end), with those columns. Repeatable: the same range gives the same rows."""

    @abstractmethod
    def count(self, start: Offset, end: Offset) -> int | None:
        """How many records [start, end) holds, if that is known without reading or because the range has just been
        read. An upper bound is fine."""

    def at_most(self, start: Offset, end: Offset) -> int | None:
        """How many records [start, end) holds at most, about, as far as that is known before reading."""
        return self.count(start, end)

    def leaves_unset(self, start: Offset, end: Offset) -> bool:
        """Whether it is known before reading that changes of the range leave columns unset."""
        return False

    def acknowledge(self, end: Offset) -> None:  # noqa: B027
        """Everything before `end` is durable in every table. Called after the epoch log's commit; may be lost."""

    def tables(self) -> list[LakeTable]:
        """Tables that the source keeps for itself in the lake; the engine tidies them."""
        return []

    def close(self) -> None:  # noqa: B027
        """Release clients and threads."""


class Sink(ABC):
    """A running sink outside Iceberg. Delivery is at least once: an epoch that is repeated is written again."""

    @abstractmethod
    def write(self, frame: DataFrame, epoch: int) -> int | None:
        """Write an epoch's rows; give their number if it is known."""

    def close(self) -> None:  # noqa: B027
        """Release clients."""


@dataclass(frozen=True)
class Context:
    """What a connector needs to run: the session, the lake, and the object's declaration."""

    spark: SparkSession
    lake: Lake
    key: str
    name: str
    settings: Settings
    columns: tuple[Column, ...] = ()
    encode: str | None = None
    encode_settings: Settings | None = None


@dataclass(frozen=True)
class SourceConnector:
    """The declaration of a source connector."""

    name: str
    options: tuple[Spec, ...]
    open: Callable[[Context], Source]
    formats: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """FORMAT → the ENCODEs it takes; empty for connectors that take no FORMAT."""
    default_format: tuple[str, str] | None = None
    includes: Mapping[str, Type] = field(default_factory=dict)
    """INCLUDE column kinds → their types."""
    check: Callable[[Settings], None] | None = None
    """Further checks of the settings among each other, without any I/O."""
    check_columns: Callable[[Settings, Sequence[Column]], None] | None = None
    """Checks of the settings against the columns that the outside fills, without any I/O."""
    named_files: Callable[[Settings], Sequence[NamedFile]] = lambda settings: ()
    """The local files that the settings name: the engine checks that a statement may use them."""


@dataclass(frozen=True)
class SinkConnector:
    """The declaration of a sink connector. `open` is None for Iceberg, whose tables the engine writes itself."""

    name: str
    options: tuple[Spec, ...]
    open: Callable[[Context], Sink] | None = None
    formats: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    check: Callable[[Settings], None] | None = None
    check_columns: Callable[[Settings, Sequence[Column]], None] | None = None
    """Checks of the settings against the columns that are written, without any I/O."""
    named_files: Callable[[Settings], Sequence[NamedFile]] = lambda settings: ()
    """As in `SourceConnector`."""
