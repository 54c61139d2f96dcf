"""The statements of the dialect, as frozen values. The parser makes them; the catalog binds them.

Every statement keeps its `place` and its `text` exactly as written, with `${NAME}` still in it: that text
is what the store keeps and SHOW CREATE prints, so a secret from the environment is never written down.
Option values and string literals hold the *unsubstituted* text too; `sql.environment.resolve` gives the value
at the moment of use. Queries and expressions are sqlglot trees (dialect `risingwave`), whose nodes carry
`meta["start"]` (an offset into `Source.text`) where sqlglot gives it; `Query.place_of(node)` turns that into a place.
Names in them are folded and quoted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from icestream.errors import Place
from icestream.sql.source import Source
from icestream.types import Type


@dataclass(frozen=True)
class Name:
    """[schema.]name as written; `schema` is None where it was not given (then: public)."""

    name: str
    schema: str | None = None
    place: Place | None = None

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


@dataclass(frozen=True)
class Option:
    """One `key = value` of a WITH (…) or ENCODE … (…) list. `secret` names a CREATE SECRET instead of a value."""

    key: str
    value: str
    place: Place
    value_place: Place
    secret: Name | None = None
    secret_as_file: bool = False  # SECRET name AS FILE


Options = Mapping[str, Option]


@dataclass(frozen=True)
class Query:
    """A SELECT (or VALUES, or set operation): its tree, its text, and where the text starts."""

    tree: exp.Expression
    text: str
    place: Place
    source: Source | None = field(default=None, repr=False, compare=False)

    def place_of(self, node: exp.Expression) -> Place:
        """The place of a node of the tree: its own, else that of its leftmost part, else the query's start.

        Where sqlglot has left an argument out, there is no node: the query's start.
        """
        if not isinstance(node, exp.Expression):
            return self.place
        start = node.meta.get("start")
        if start is None:
            starts = (n.meta.get("start") for n in node.walk())
            start = min((s for s in starts if s is not None), default=None)
        if start is None or self.source is None:
            return self.place
        return self.source.place(start)


@dataclass(frozen=True)
class Column:
    """A declared column. `generated` is its AS (expression); `default` its DEFAULT expression."""

    name: str
    type: Type | None
    place: Place
    not_null: bool = False
    primary_key: bool = False
    generated: Query | None = None
    default: Query | None = None


@dataclass(frozen=True)
class Include:
    """INCLUDE key|partition|offset|timestamp|header|payload|file|source|… ['inner'] [type] [AS x]"""

    what: str
    alias: str | None
    place: Place
    inner: str | None = (
        None  # INCLUDE header 'name' …: the one header wanted; of source, the one field
    )
    type: Type | None = None


@dataclass(frozen=True)
class Watermark:
    """WATERMARK FOR column AS expression [WITH TTL]"""

    column: str
    expression: Query
    place: Place
    ttl: bool = False


@dataclass(frozen=True)
class Format:
    """FORMAT … ENCODE … ( options )"""

    format: str  # upper case: PLAIN, UPSERT, DEBEZIUM, …
    encode: str  # upper case: JSON, CSV, BYTES, AVRO, PROTOBUF, NATIVE
    options: Options
    place: Place
    key_encode: str | None = None  # upper case: the KEY ENCODE of a sink


@dataclass(frozen=True)
class Statement:
    """What all statements share: where it stands and how it was written."""

    place: Place
    text: str


@dataclass(frozen=True)
class CreateSource(Statement):
    """CREATE SOURCE [IF NOT EXISTS] name (…) [INCLUDE …] WITH (…) FORMAT … ENCODE …"""

    name: Name
    columns: tuple[Column, ...]
    options: Options
    format: Format | None = None
    includes: tuple[Include, ...] = ()
    watermarks: tuple[Watermark, ...] = ()
    primary_key: tuple[str, ...] = ()
    if_not_exists: bool = False
    wildcard: bool = False  # column list is (*)


OnConflict = Literal["overwrite", "do nothing", "do update if not null"]


@dataclass(frozen=True)
class CreateTable(Statement):
    """CREATE TABLE with or without a connector, FROM a source TABLE '…', AS a query, ENGINE = iceberg."""

    name: Name
    columns: tuple[Column, ...]
    options: Options
    format: Format | None = None
    includes: tuple[Include, ...] = ()
    watermarks: tuple[Watermark, ...] = ()
    primary_key: tuple[str, ...] = ()
    if_not_exists: bool = False
    wildcard: bool = False
    append_only: bool = False
    on_conflict: OnConflict | None = None
    version_columns: tuple[str, ...] = ()
    from_source: Name | None = None
    from_table: str | None = None  # the TABLE '…' of FROM source
    query: Query | None = None
    engine: str | None = None  # lower case: iceberg, hummock


@dataclass(frozen=True)
class CreateView(Statement):
    """CREATE [OR REPLACE] [MATERIALIZED] VIEW name [(columns)] [WITH (…)] AS query [EMIT ON WINDOW CLOSE]"""

    name: Name
    query: Query
    columns: tuple[str, ...] = ()
    materialized: bool = False
    emit_on_window_close: bool = False
    options: Options = field(default_factory=dict)
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True)
class CreateSink(Statement):
    """CREATE SINK name FROM object | AS query  WITH (…) [FORMAT … ENCODE …], or CREATE SINK name INTO table …"""

    name: Name
    options: Options
    from_name: Name | None = None
    query: Query | None = None
    into: Name | None = None
    into_columns: tuple[str, ...] = ()
    format: Format | None = None
    if_not_exists: bool = False
    emit_on_window_close: bool = False


@dataclass(frozen=True)
class CreateConnection(Statement):
    """CREATE CONNECTION name WITH (type = 'iceberg' | 'kafka', …)"""

    name: Name
    options: Options
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateConnector(Statement):
    """CREATE CONNECTOR name WITH (…): a Kafka Connect sink, its configuration as options"""

    name: Name
    options: Options
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateSecret(Statement):
    """CREATE SECRET name WITH (backend = 'meta') AS '…'"""

    name: Name
    options: Options
    value: str
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateIndex(Statement):
    """CREATE INDEX name ON table (columns) …: accepted, remembered as a hint."""

    name: Name
    table: Name
    columns: tuple[Query, ...]
    include: tuple[str, ...] = ()
    distributed_by: tuple[str, ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateSchema(Statement):
    """CREATE SCHEMA name"""

    name: str
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateSubscription(Statement):
    """CREATE SUBSCRIPTION name FROM object WITH (retention = '…')"""

    name: Name
    from_name: Name
    options: Options
    if_not_exists: bool = False


ObjectKind = Literal[
    "source",
    "table",
    "view",
    "materialized view",
    "sink",
    "connection",
    "connector",
    "secret",
    "index",
    "schema",
    "subscription",
]


@dataclass(frozen=True)
class Drop(Statement):
    """DROP kind [IF EXISTS] name [, …] [CASCADE | RESTRICT]"""

    kind: ObjectKind
    names: tuple[Name, ...]
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class Alter(Statement):
    """ALTER kind name action…, with the action in a normal form:

    rename, set schema, swap, owner (new_name); add column, alter column (column); drop column
    (column_name); set, connector (options); format (format); refresh schema; set secret (options,
    value); set parallelism, set source_rate_limit, set … (value, None for DEFAULT); pause, resume.
    """

    kind: ObjectKind
    name: Name
    action: str
    new_name: str | None = None
    column: Column | None = None
    column_name: str | None = None
    options: Options = field(default_factory=dict)
    value: str | None = None
    format: Format | None = None
    lenient: bool = False
    """ADD COLUMN IF NOT EXISTS, DROP COLUMN IF EXISTS"""


@dataclass(frozen=True)
class Show(Statement):
    """SHOW what [FROM name] [LIKE 'pattern'], e.g. what = 'sources', 'tables', 'columns', 'jobs', or a setting's name"""

    what: str
    name: Name | None = None
    like: str | None = None


@dataclass(frozen=True)
class ShowCreate(Statement):
    """SHOW CREATE kind name"""

    kind: ObjectKind
    name: Name


@dataclass(frozen=True)
class Describe(Statement):
    """DESCRIBE name"""

    name: Name


@dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN statement"""

    statement: Statement
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class SetVariable(Statement):
    """SET [LOCAL] name = value | SET name TO value (value None: DEFAULT)"""

    name: str
    value: str | None
    local: bool = False
    is_interval: bool = False
    """SET TIME ZONE INTERVAL 'value'"""
    system: bool = False
    """ALTER SYSTEM SET: for everybody"""


@dataclass(frozen=True)
class Flush(Statement):
    """FLUSH"""


@dataclass(frozen=True)
class Wait(Statement):
    """WAIT"""


@dataclass(frozen=True)
class CancelJobs(Statement):
    """CANCEL JOB[S] number [, …]"""

    ids: tuple[int, ...]


@dataclass(frozen=True)
class Pause(Statement):
    """PAUSE"""


@dataclass(frozen=True)
class Resume(Statement):
    """RESUME"""


@dataclass(frozen=True)
class Insert(Statement):
    """INSERT INTO table [(columns)] query [RETURNING …]"""

    table: Name
    columns: tuple[str, ...]
    query: Query
    returning: tuple[Query, ...] = ()


@dataclass(frozen=True)
class Update(Statement):
    """UPDATE table SET … [WHERE …] [RETURNING …]"""

    table: Name
    assignments: tuple[tuple[str, Query], ...]
    where: Query | None
    returning: tuple[Query, ...] = ()


@dataclass(frozen=True)
class Delete(Statement):
    """DELETE FROM table [WHERE …] [RETURNING …]"""

    table: Name
    where: Query | None
    returning: tuple[Query, ...] = ()


@dataclass(frozen=True)
class Vacuum(Statement):
    """VACUUM [FULL] table"""

    name: Name
    full: bool = False


@dataclass(frozen=True)
class Select(Statement):
    """A query on its own."""

    query: Query
