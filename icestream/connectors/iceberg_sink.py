"""The Iceberg sink's declaration: its options, and its partitioning and order as Spark's DDL wants them.

The engine writes the tables itself, stamped and exactly once. An option that would change nothing yet is
refused when it asks for something; none is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from icestream import types as t
from icestream.connectors.base import Column, SinkConnector
from icestream.connectors.iceberg_options import (
    CATALOG_OPTIONS,
    TABLE_OPTIONS,
    check_catalog,
    named_files,
)
from icestream.errors import NotSupportedError, Place, SqlError, did_you_mean
from icestream.sql.options import OptionSpec, Settings
from icestream.types import Type, backtick

Columns = Mapping[str, Type]

OPTIONS: tuple[OptionSpec, ...] = (
    *TABLE_OPTIONS,
    *CATALOG_OPTIONS,
    OptionSpec(
        "type", required=True, choices=("append-only", "upsert"), help="how rows are written"
    ),
    OptionSpec(
        "force_append_only",
        "bool",
        False,
        "of rows that change, write each new version and drop deletes",
    ),
    OptionSpec(
        "primary_key",
        "list",
        help="the key of an upsert sink; without it: that of the table it reads, if the query passes it on",
    ),
    OptionSpec("create_table_if_not_exists", "bool", False, "create the table if it is missing"),
    OptionSpec("partition_by", help="of a table it creates: 'day(ts), bucket(16, id), category'"),
    OptionSpec(
        "order_key", help="of a table it creates: how rows are sorted in files: 'a, b desc'"
    ),
    OptionSpec(
        "format_version",
        default="3",
        choices=("2", "3"),
        help="of a table it creates: 3 marks replaced rows in deletion vectors, 2 in position delete files",
    ),
    OptionSpec(
        "commit_checkpoint_interval", "int", 60, "epochs (of a second) between commits", least=1
    ),
    OptionSpec("commit_retry_num", "int", 8, "attempts of a commit"),
    OptionSpec("is_exactly_once", "bool", True, "it always is; false gives no less"),
    OptionSpec(
        "write_mode",
        default="merge-on-read",
        choices=("merge-on-read", "copy-on-write"),
        help="how rows are replaced",
    ),
    OptionSpec("auto.schema.change", "bool", False, "follow changes of the source's columns"),
    OptionSpec("snapshot", "bool", True, "begin with the rows that are there already"),
    OptionSpec("enable_compaction", "bool", False, "merge the table's small files"),
    OptionSpec("compaction_interval_sec", "int", 3600, "seconds between compactions"),
    OptionSpec(
        "compaction.type",
        default="full",
        choices=("full", "small-files", "files-with-delete"),
        help="which files are merged",
    ),
    OptionSpec("compaction.target_file_size_mb", "int", 1024, "how large merged files become"),
    OptionSpec("compaction.small_files_threshold_mb", "int", 64, "how large a small file may be"),
    OptionSpec(
        "compaction.delete_files_count_threshold", "int", 256, "delete files that ask for a merge"
    ),
    OptionSpec("enable_snapshot_expiration", "bool", False, "expire the table's old snapshots"),
    OptionSpec("snapshot_expiration_max_age_millis", "int", help="how old snapshots may become"),
    OptionSpec("snapshot_expiration_retain_last", "int", help="how many snapshots stay"),
)

NOT_YET = (
    "commit_retry_num", "write_mode", "auto.schema.change", "snapshot", "enable_compaction",
    "compaction_interval_sec", "compaction.type", "compaction.target_file_size_mb",
    "compaction.small_files_threshold_mb", "compaction.delete_files_count_threshold",
    "enable_snapshot_expiration", "snapshot_expiration_max_age_millis",
    "snapshot_expiration_retain_last",
)  # fmt: skip
"""Options whose default is all there is so far."""

_DEFAULTS = {option.name: option.default for option in OPTIONS}


def check(settings: Settings) -> None:
    """Options that need or exclude each other, and those that ask for what is not there yet."""
    check_catalog(settings)
    upsert = settings["type"] == "upsert"
    if upsert and settings.boolean("force_append_only"):
        raise SqlError(
            f"{settings.what}: force_append_only has no meaning for type = 'upsert'",
            place=settings.place("force_append_only"),
            remedy="leave it out, or type = 'append-only'",
        )
    if settings.list("primary_key") and not upsert:
        raise SqlError(
            f"{settings.what}: primary_key has no meaning for type = 'append-only'",
            place=settings.place("primary_key"),
            remedy="leave it out, or type = 'upsert'",
        )
    for name in NOT_YET:
        if settings[name] != _DEFAULTS[name]:
            raise NotSupportedError(
                f"{name} = '{str(settings[name]).lower()}'",
                place=settings.place(name),
                remedy="leave it out",
            )
    for name in ("partition_by", "order_key", "format_version"):
        if settings.given(name) and not settings.boolean("create_table_if_not_exists"):
            raise SqlError(
                f"{settings.what}: {name} is for a table that the sink creates",
                place=settings.place(name),
                remedy="add create_table_if_not_exists = 'true', or leave it out",
            )


def check_columns(settings: Settings, columns: Sequence[Column]) -> None:
    """partition_by and order_key name columns of the sink, with transforms that take them."""
    types = {c.name: c.type for c in columns}
    if (partitions := settings.optional("partition_by")) is not None:
        partition_clause(partitions, types, settings.place("partition_by"))
    if (order := settings.optional("order_key")) is not None:
        order_clause(order, types, settings.place("order_key"))


SINK = SinkConnector(
    "iceberg", OPTIONS, check=check, check_columns=check_columns, named_files=named_files
)

# -- partitioning ------------------------------------------------------------------------------------

_DATES = (t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ)
_HASHED = (
    t.SMALLINT, t.INTEGER, t.BIGINT, t.VARCHAR, t.BYTEA, t.JSONB, t.TIME, *_DATES,
)  # fmt: skip
_CUT = (t.SMALLINT, t.INTEGER, t.BIGINT, t.VARCHAR, t.JSONB, t.BYTEA, t.TIME)
_TRANSFORMS: Mapping[str, tuple[str, tuple[Type, ...]]] = {
    "year": ("years", _DATES),
    "month": ("months", _DATES),
    "day": ("days", _DATES),
    "hour": ("hours", (t.TIMESTAMP, t.TIMESTAMPTZ)),
    "bucket": ("bucket", _HASHED),
    "truncate": ("truncate", _CUT),
    "void": ("void", ()),
}
_PLURALS = {"years": "year", "months": "month", "days": "day", "hours": "hour"}
_CALL = re.compile(r"(\w+)\s*\((.*)\)", re.DOTALL)


def partition_clause(text: str, columns: Columns, place: Place | None = None) -> str:
    """`day(ts), bucket(16, id), category` as the inside of Spark's PARTITIONED BY (…).

    Raises a SqlError for a transform or a column that does not exist, or that do not fit together.
    """
    parts = [part.strip() for part in _split(text)]
    if not all(parts):
        raise SqlError(f"partition_by has an empty part: {text!r}", place=place)
    clauses = [_partition(part, columns, place) for part in parts]
    for part, clause in zip(parts, clauses, strict=True):
        if clauses.count(clause) > 1:
            raise SqlError(f"partition_by has {part} twice", place=place)
    return ", ".join(clauses)


def _partition(part: str, columns: Columns, place: Place | None) -> str:
    call = _CALL.fullmatch(part)
    if call is None:
        name = _column(part, columns, "partition_by", place)
        if isinstance(columns[name], t.ArrayType | t.MapType | t.StructType) or (
            columns[name] == t.INTERVAL
        ):
            raise SqlError(
                f"partition_by: {name} is {columns[name]}, which cannot partition", place=place
            )
        return backtick(name)
    transform = _PLURALS.get(call[1].lower(), call[1].lower())
    if transform not in _TRANSFORMS:
        raise SqlError(
            f"partition_by: unknown transform {call[1]}",
            place=place,
            remedy=did_you_mean(transform, _TRANSFORMS)
            or "year, month, day, hour, bucket(n, c), truncate(n, c) or the column itself",
        )
    if transform == "void":
        raise NotSupportedError("partition_by = 'void(…)'", place=place, remedy="leave it out")
    spark, accepted = _TRANSFORMS[transform]
    arguments = [a.strip() for a in _split(call[2])]
    sized = transform in ("bucket", "truncate")
    if len(arguments) != (2 if sized else 1) or (sized and not _positive(arguments[0])):
        usage = f"{transform}(16, column)" if sized else f"{transform}(column)"
        raise SqlError(f"partition_by: {part} should be {usage}", place=place)
    name = _column(arguments[-1], columns, "partition_by", place)
    type = columns[name]
    if type not in accepted and not (sized and isinstance(type, t.NumericType)):
        raise SqlError(
            f"partition_by: {transform} does not take {name}, which is {type}", place=place
        )
    inside = f"{int(arguments[0])}, {backtick(name)}" if sized else backtick(name)
    return f"{spark}({inside})"


def _positive(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) < 2**31


def order_clause(text: str, columns: Columns, place: Place | None = None) -> str:
    """`a, b desc nulls last` as Spark's WRITE ORDERED BY wants it; NULLs are largest unless said otherwise."""
    parts = []
    for part in _split(text):
        words = part.split()
        modifiers = [w.upper() for w in words[1:]]
        direction = modifiers.pop(0) if modifiers and modifiers[0] in ("ASC", "DESC") else "ASC"
        nulls = ["NULLS", "LAST" if direction == "ASC" else "FIRST"]
        if len(modifiers) == 2 and modifiers[0] == "NULLS" and modifiers[1] in ("FIRST", "LAST"):
            nulls, modifiers = modifiers, []
        if not words or modifiers:
            raise SqlError(
                f"order_key: {part.strip()!r} should be a column [asc | desc] [nulls first | last]",
                place=place,
            )
        name = _column(words[0], columns, "order_key", place)
        parts.append(" ".join([backtick(name), direction, *nulls]))
    return ", ".join(parts)


def _column(text: str, columns: Columns, option: str, place: Place | None) -> str:
    """The column that is meant: a quoted name exactly, another one without regard to case."""
    if len(text) > 2 and text[0] == text[-1] and text[0] in '"`':
        wanted = text[1:-1]
        found = wanted if wanted in columns else None
    else:
        wanted = text
        folded = {name.lower(): name for name in columns}
        found = text if text in columns else folded.get(text.lower())
    if found is None:
        raise SqlError(
            f"{option}: there is no column {wanted!r}",
            place=place,
            remedy=did_you_mean(wanted, columns) or "the columns are " + ", ".join(columns),
        )
    return found


def _split(text: str) -> Sequence[str]:
    """The parts between the commas that are in no parentheses."""
    return re.split(r",(?![^()]*\))", text)
