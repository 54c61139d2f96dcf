"""The objects a home knows: what statements become once their names, types and options are bound.

An object is a frozen value made from its statement alone, so that the same text always gives the same
object; the store keeps the text, and objects are built anew at every start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from icestream.connectors.base import Column
from icestream.errors import IcestreamError
from icestream.functions.expressions import Expr
from icestream.identity import ObjectKey
from icestream.kafka_connect.config import ConnectorConfig
from icestream.lake.fold import Upsert
from icestream.plan.cut import LAYOUT
from icestream.plan.logical import Node
from icestream.plan.stages import Stage
from icestream.sql.options import Settings
from icestream.sql.statements import Include, Options
from icestream.types import BIGINT, BYTEA, INTEGER, TIMESTAMPTZ, VARCHAR, Type

DEAD_LETTERS = "dead_letters"
"""The schema in which every source has a table of the records that it could not take in."""

DEAD_LETTER_COLUMNS: tuple[tuple[str, Type], ...] = (
    ("stream", VARCHAR),
    ("partition", INTEGER),
    ("offset", BIGINT),
    ("timestamp", TIMESTAMPTZ),
    ("key", BYTEA),
    ("payload", BYTEA),
    ("reason", VARCHAR),
)


@dataclass(frozen=True)
class Altered:
    """What ALTER has made of an object, beside its text."""

    born: str | None = None
    """The name it was created with, if it has another one now."""
    added: Mapping[str, int] = field(default_factory=dict)
    """Columns that came later, with the id of the first object that may see them."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What SET says of it while it runs: parallelism, source_rate_limit, paused."""
    redefined: int = 0
    """The id that its text took when it replaced another one: it sees the columns that an object of that id sees."""
    layout: int = LAYOUT
    """By which rules its query was cut into stages when it was made: they have tables, so it keeps them."""


NEVER_ALTERED = Altered()


@dataclass(frozen=True)
class Object:
    """What all objects share. `key` names it for ever (the name at birth, #id), also after a rename."""

    id: int
    name: str
    text: str = field(repr=False)
    """The statement, which may hold secrets."""
    columns: tuple[Column, ...]
    depends: tuple[str, ...]
    """Keys of the objects it reads or names."""
    altered: Altered = field(default=NEVER_ALTERED, kw_only=True)

    kind = "object"
    schema = "public"

    @property
    def key(self) -> ObjectKey:
        """The identity used in the epoch log and in table properties."""
        return ObjectKey.of(self.altered.born or self.name, self.id)


@dataclass(frozen=True)
class Ingest:
    """How rows come in from outside: the connector, its settings, the format."""

    connector: str
    settings: Settings
    format: str | None
    encode: str | None
    encode_settings: Settings | None
    includes: tuple[Include, ...]

    def name_of(self, include: Include) -> str:
        """The column an INCLUDE makes: its alias, or the name RisingWave gives it."""
        inner = f"_{include.inner}" if include.inner is not None else ""
        return include.alias or f"_rw_{self.connector}_{include.what}{inner}"


@dataclass(frozen=True)
class Watermark:
    """WATERMARK FOR column AS expr: a row whose column is less than the greatest `expr` of the rows before is late."""

    column: str
    expr: Expr


@dataclass(frozen=True)
class Source(Object):
    """CREATE SOURCE: a stream that is read, not stored."""

    ingest: Ingest
    watermark: Watermark | None = None
    late_rows: str = "drop"
    """drop or keep: what is done with rows that come late."""
    kind = "source"


@dataclass(frozen=True)
class Table(Object):
    """CREATE TABLE: a stream that is stored."""

    ingest: Ingest
    upsert: Upsert | None = None
    """Set for a table with a primary key."""
    append_only: bool = False
    """Declared APPEND ONLY: with a key, the first row of each stays."""
    watermark: Watermark | None = None
    late_rows: str = "drop"
    """As in `Source`."""
    kind = "table"

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns that tell its rows apart; none if rows may be alike."""
        return self.upsert.key if self.upsert is not None and self.upsert.keyed else ()

    @property
    def changing(self) -> bool:
        """Whether rows that are there may be replaced or deleted, so that its deltas take rows back."""
        return self.upsert is not None and not self.append_only


@dataclass(frozen=True)
class View(Object):
    """CREATE VIEW: a name for a query."""

    query: Node
    kind = "view"


@dataclass(frozen=True)
class MaterializedView(Object):
    """CREATE MATERIALIZED VIEW: a query whose result is stored and kept up to date."""

    query: Node
    emit_on_window_close: bool = False
    """EMIT ON WINDOW CLOSE: a row is there once it is final."""
    stages: tuple[Stage, ...] = field(default=(), repr=False, compare=False)
    """The tables that keep it up to date, its own last."""
    kind = "materialized view"

    @property
    def changing(self) -> bool:
        """Whether rows that are there may be replaced or deleted."""
        return not self.stages[-1].grows


@dataclass(frozen=True)
class Sink(Object):
    """CREATE SINK: rows of an object or a query, delivered outside."""

    connector: str
    settings: Settings
    query: Node
    upsert: Upsert | None = None
    """Set for an Iceberg sink of type upsert."""
    drops_deletes: bool = False
    """force_append_only over rows that change: new rows and new versions are written, what goes is dropped."""
    emit_on_window_close: bool = False
    """As in `MaterializedView`."""
    stages: tuple[Stage, ...] = field(default=(), repr=False, compare=False)
    """Tables that keep its query up to date, where the new rows alone do not tell; `query` reads the last one then."""
    into: Table | None = None
    """The table of this home that takes its rows in."""
    kind = "sink"


@dataclass(frozen=True)
class Connector(Object):
    """CREATE CONNECTOR: a Kafka Connect sink; records of topics, written to tables as its configuration says."""

    ingest: Ingest
    config: ConnectorConfig
    kind = "connector"


@dataclass(frozen=True)
class Connection(Object):
    """CREATE CONNECTION: options that sources and sinks can share."""

    settings: Settings
    options: Options = field(repr=False)
    kind = "connection"


@dataclass(frozen=True)
class Secret(Object):
    """CREATE SECRET: a value kept outside the store."""

    kind = "secret"


@dataclass(frozen=True)
class Index(Object):
    """CREATE INDEX: a hint, remembered."""

    kind = "index"


@dataclass(frozen=True)
class Subscription(Object):
    """CREATE SUBSCRIPTION: the changes of a table or materialized view can be read for as long as it says."""

    retention: float
    """Seconds."""
    kind = "subscription"


@dataclass(frozen=True)
class Broken(Object):
    """An object of the store that cannot be built now: a `${NAME}` is not set, say. It can be shown and dropped;
    whatever needs it raises `error`."""

    error: IcestreamError
    kind: str = "object"


def hidden_table(object: Object, relation: str) -> str:
    """The name of the table of a stage that is not the object's own."""
    number = relation.removeprefix(f"{object.key}/").replace("/", "_")
    return f"{object.altered.born or object.name}_{object.id}_{number}"
