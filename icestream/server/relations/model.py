"""What the system relations show: one frozen value, read from the engine before a query over them runs.

Nothing here knows the engine. Texts come masked: a definition, a comment or an event never holds a secret's value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from icestream.types import Type

KINDS = (
    "table",
    "materialized view",
    "source",
    "sink",
    "view",
    "index",
    "subscription",
    "connection",
    "secret",
)
"""What an `Object` can be."""


@dataclass(frozen=True)
class Column:
    """A column that a query can see."""

    name: str
    type: Type
    nullable: bool = True
    default: str | None = None
    """The SQL of its default or generation expression."""
    generated: bool = False
    comment: str | None = None


@dataclass(frozen=True)
class Object:
    """One object of a database. `oid` is 16384 or more, never used twice, and stays for the object's life."""

    oid: int
    name: str
    kind: str
    schema: str = "public"
    columns: tuple[Column, ...] = ()
    """Of an index: the columns of its key."""
    primary_key: tuple[str, ...] = ()
    definition: str = ""
    """The statement that made it; of a view as well, `query` has its query alone."""
    query: str = ""
    owner: str = "root"
    comment: str | None = None
    on: int | None = None
    """Of an index: the OID of what it indexes."""
    include: tuple[str, ...] = ()
    """Of an index: the names of further columns that it holds."""
    connector: str | None = None
    format: str | None = None
    encode: str | None = None
    connection: int | None = None
    append_only: bool = False
    created: datetime | None = None
    rows: int | None = None
    """How many rows it has, if that is known without looking."""
    bytes: int = 0


@dataclass(frozen=True)
class Schema:
    """A schema of the database."""

    oid: int
    name: str
    owner: str = "root"


@dataclass(frozen=True)
class Database:
    """A database that a client can name."""

    oid: int
    name: str
    owner: str = "root"


@dataclass(frozen=True)
class User:
    """Somebody who can log in."""

    oid: int
    name: str
    super: bool = True


@dataclass(frozen=True)
class Setting:
    """A run-time parameter, with its value outside any session."""

    name: str
    value: str
    description: str = ""
    type: str = "string"


@dataclass(frozen=True)
class Function:
    """A function that queries can call; `kind` is function, aggregate or window."""

    oid: int
    name: str
    arguments: tuple[Type, ...]
    result: Type
    kind: str = "function"


@dataclass(frozen=True)
class Job:
    """A statement that runs in the background."""

    id: int
    statement: str
    progress: str
    started: datetime
    background: bool = True


@dataclass(frozen=True)
class Snapshot:
    """One snapshot of an object's Iceberg table."""

    object: int
    id: int
    sequence: int
    at: datetime
    manifest_list: str = ""
    summary: str = "{}"
    """JSON."""


@dataclass(frozen=True)
class File:
    """One file of the newest snapshot of an object's Iceberg table."""

    object: int
    path: str
    content: str
    """Data, PositionDeletes or EqualityDeletes."""
    format: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class Event:
    """An entry of the log of events; `info` is JSON."""

    id: str
    at: datetime
    type: str
    info: str = "{}"


@dataclass(frozen=True)
class Fallback:
    """How often Spark did something that could have been done without it, and why."""

    kind: str
    reason: str
    count: int


@dataclass(frozen=True)
class Activity:
    """A connection and what it is doing."""

    pid: int
    user: str
    database: str
    application: str = ""
    client: str | None = None
    started: datetime | None = None
    state: str = "idle"
    query: str = ""
    transaction_started: datetime | None = None
    query_started: datetime | None = None
    changed: datetime | None = None
    wait_type: str | None = None
    wait_event: str | None = None


@dataclass(frozen=True)
class Model:
    """All of it. Equal models give equal answers; parts that did not change may be the same values as before."""

    objects: tuple[Object, ...] = ()
    depends: tuple[tuple[int, int], ...] = ()
    """(reader, what it reads)"""
    schemas: tuple[Schema, ...] = (Schema(2200, "public"),)
    databases: tuple[Database, ...] = (Database(5, "dev"),)
    users: tuple[User, ...] = (User(10, "root"),)
    settings: tuple[Setting, ...] = ()
    functions: tuple[Function, ...] = ()
    jobs: tuple[Job, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    files: tuple[File, ...] = ()
    events: tuple[Event, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    activity: tuple[Activity, ...] = ()


@dataclass(frozen=True)
class Session:
    """Who asks: what current_user, current_schema() and current_setting() mean."""

    user: str = "root"
    database: str = "dev"
    search_path: tuple[str, ...] = ("public",)
    pid: int = 1
    settings: tuple[tuple[str, str], ...] = field(default=())
    """What this session has set, over the model's settings."""
