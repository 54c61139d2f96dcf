"""What SET can set: the session settings of RisingWave (and PostgreSQL) that scripts write.

Most of them change nothing, so one is accepted only where ignoring it does no harm, and the
answer says so. A setting that asks for something the engine would not do is refused; so is an unknown name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from icestream.errors import NotSupportedError, SqlError, did_you_mean
from icestream.sql.options import Kind, convert
from icestream.sql.statements import SetVariable

HINT = "a hint, which has no effect"
CLIENT = "for clients' sake; has no effect"
FIXED = "it is always so"


@dataclass(frozen=True)
class Variable:
    """One setting: what it is when it is not set, which values are accepted, and what comes of them."""

    name: str
    default: str
    note: str
    """What SET answers: why it changes nothing today."""
    only: tuple[str, ...] = ()
    """The values that are accepted; others would change what the engine does. Empty: all."""
    kind: Kind = "string"


def _later(what: str) -> str:
    return f"takes effect with {what}, not there yet"


_DML = "INSERT, UPDATE and DELETE return when what they did is visible"
_PARALLELISM = (
    "",
    "_for_table",
    "_for_materialized_view",
    "_for_sink",
    "_for_source",
    "_for_index",
)

VARIABLES: Mapping[str, Variable] = {v.name: v for v in (
    Variable("iceberg_engine_connection", "", _later("tables outside the embedded lake")),
    Variable("rw_implicit_flush", "false", _DML, kind="bool"),
    Variable("implicit_flush", "false", _DML, kind="bool"),
    Variable("background_ddl", "false", "a server fills new materialized views in the background", kind="bool"),
    Variable("sink_decouple", "default", _later("queues before sinks")),
    *(Variable(f"streaming_parallelism{of}", "default", HINT) for of in _PARALLELISM),
    Variable("streaming_max_parallelism", "256", HINT, kind="int"),
    Variable("batch_parallelism", "default", HINT),
    Variable("query_mode", "auto", "distributed: Spark answers every query", ("auto", "local", "distributed")),
    Variable("batch_enable_lookup_join", "true", HINT, kind="bool"),
    Variable("batch_enable_sort_agg", "true", HINT, kind="bool"),
    Variable("batch_enable_distributed_dml", "false", HINT, kind="bool"),
    Variable("rw_enable_join_ordering", "true", HINT, kind="bool"),
    Variable("rw_enable_two_phase_agg", "true", HINT, kind="bool"),
    Variable("rw_force_two_phase_agg", "false", HINT, kind="bool"),
    Variable("rw_enable_share_plan", "true", HINT, kind="bool"),
    Variable("rw_force_split_distinct_agg", "false", HINT, kind="bool"),
    Variable("streaming_enable_delta_join", "false", HINT, kind="bool"),
    Variable("rw_streaming_enable_delta_join", "false", HINT, kind="bool"),
    Variable("streaming_enable_bushy_join", "true", HINT, kind="bool"),
    Variable("streaming_enable_unaligned_join", "false", HINT, kind="bool"),
    Variable("streaming_use_arrangement_backfill", "true", HINT, kind="bool"),
    Variable("streaming_use_snapshot_backfill", "false", HINT, kind="bool"),
    Variable("streaming_use_shared_source", "true", HINT, kind="bool"),
    Variable("streaming_over_window_cache_policy", "full", HINT),
    Variable("bypass_cluster_limits", "false", HINT, kind="bool"),
    Variable("synchronize_seqscans", "false", HINT, kind="bool"),
    Variable("application_name", "", CLIENT),
    Variable("client_min_messages", "notice", CLIENT),
    Variable("extra_float_digits", "1", CLIENT, kind="int"),
    Variable("client_encoding", "UTF8", FIXED, ("UTF8", "UTF-8")),
    Variable("timezone", "UTC", FIXED, ("UTC", "Etc/UTC", "GMT", "Z")),
    Variable("datestyle", "ISO, MDY", FIXED, ("ISO", "ISO, MDY")),
    Variable("intervalstyle", "postgres", FIXED, ("postgres",)),
    Variable("bytea_output", "hex", FIXED, ("hex",)),
    Variable("standard_conforming_strings", "on", FIXED, ("on", "true")),
    Variable("search_path", '"$user", public', FIXED, ("public", '"$user", public', "$user, public")),
    Variable("visibility_mode", "checkpoint", FIXED, ("checkpoint", "default")),
    Variable("transaction_isolation", "read committed", FIXED, ("read committed", "read uncommitted")),
    Variable("row_security", "on", FIXED, ("on", "off", "true", "false")),
    Variable("statement_timeout", "0", FIXED, ("0", "0s")),
    Variable("lock_timeout", "0", FIXED, ("0", "0s")),
)}  # fmt: skip
"""Every setting by name."""

INSTEAD: Mapping[str, str] = {
    "source_rate_limit": "it is an option of a source: WITH (…, source_rate_limit = 1000)",
    "backfill_rate_limit": "source_rate_limit, an option of a source, bounds what it gives",
    "sink_rate_limit": "source_rate_limit, an option of a source, bounds what it gives",
    "dml_rate_limit": "INSERT writes to a log at once",
}
"""Settings that promise to go easy on something; ignoring them could do harm."""


def check(statement: SetVariable) -> Variable:
    """The setting that a SET names, if its value may be kept; raises at the statement otherwise."""
    name, value, place = statement.name.lower(), statement.value, statement.place
    if name in INSTEAD:
        raise NotSupportedError(f"SET {name}", place=place, remedy=INSTEAD[name])
    if name not in VARIABLES:
        raise SqlError(
            f"there is no setting {name}",
            place=place,
            remedy=did_you_mean(name, VARIABLES) or "SHOW ALL lists the settings",
        )
    variable = VARIABLES[name]
    if value is None:
        return variable
    try:
        convert(value, variable.kind)
    except ValueError:
        accepted = "true or false" if variable.kind == "bool" else "a whole number"
        raise SqlError(f"{name} accepts {accepted}, not {value!r}", place=place) from None
    if variable.only and value.lower() not in {v.lower() for v in variable.only}:
        raise NotSupportedError(
            f"{name} = '{value}'", place=place, remedy="one of " + ", ".join(variable.only)
        )
    return variable
