"""All settings: name, default, scope, type, and what a value means.

SET, RESET, SHOW, SHOW ALL, ALTER SYSTEM, start-up parameters, set_config and pg_settings read this table and no other.
A setting that asks for something the engine would not do is refused; so is an unknown name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from icestream.catalog import setting_values as values
from icestream.errors import NotSupportedError, SqlError, did_you_mean
from icestream.sql.statements import SetVariable

VERSION = "13.14.0"
"""The PostgreSQL that clients are told of, as by RisingWave: they ask nothing newer of the catalogs."""
VERSION_NUMBER = "{}{:02}{:02}".format(*map(int, VERSION.split(".")))

Scope = Literal["session", "system", "ignored", "fixed"]
"""session: each session has its own. system: kept in the home, for everybody. ignored: kept in the home, without effect.
fixed: can only be shown."""
Normalize = Callable[[str, str], str]
"""Name and value as written → the value as it is kept and shown; an error if it cannot be kept to."""

HINT = "a hint, which has no effect"
CLIENT = "for clients' sake; has no effect"
FIXED = "it is always so"
_DML = "INSERT, UPDATE and DELETE return when what they did is visible"


@dataclass(frozen=True)
class SettingSpec:
    """One setting."""

    name: str
    """As it is shown; it is looked up in lower case."""
    default: str
    scope: Scope
    type: values.SettingType = "string"
    note: str = FIXED
    """What comes of setting it."""
    only: tuple[str, ...] = ()
    """The values that the home accepts; others would change what the engine does. Empty: all."""
    normalize: Normalize | None = None
    """Instead of that of the type."""
    is_reported: bool = False
    """Whether clients are told of changes without asking."""

    @property
    def key(self) -> str:
        """The name as it is looked up."""
        return self.name.lower()

    def read(self, value: str) -> str:
        """A value as it is kept and shown."""
        if self.scope == "fixed":
            raise SqlError(f'parameter "{self.name}" cannot be changed', code="55P02")
        return (self.normalize or values.NORMALIZE[self.type])(self.key, value)


def _session(
    name: str,
    default: str,
    type: values.SettingType = "string",
    note: str = FIXED,
    only: tuple[str, ...] = (),
    normalize: Normalize | None = None,
    *,
    reported: bool = False,
) -> SettingSpec:
    return SettingSpec(name, default, "session", type, note, only, normalize, reported)


def _hint(name: str, default: str, type: values.SettingType = "string") -> SettingSpec:
    return SettingSpec(name, default, "ignored", type, HINT)


def _held(name: str, default: str, *only: str) -> SettingSpec:
    return SettingSpec(name, default, "ignored", "string", FIXED, (default, *only))


def _later(what: str) -> str:
    return f"takes effect with {what}, not there yet"


_PARALLELISM = (
    "",
    "_for_table",
    "_for_materialized_view",
    "_for_sink",
    "_for_source",
    "_for_index",
)
_SHOWN = {
    "block_size": "8192", "in_hot_standby": "off",
    "integer_datetimes": "on", "is_superuser": "on", "lc_collate": "C.UTF-8", "lc_ctype": "C.UTF-8",
    "max_identifier_length": "63", "max_index_keys": "32", "role": "none",
    "server_encoding": "UTF8", "server_version": VERSION, "server_version_num": VERSION_NUMBER,
    "session_authorization": "root", "wal_level": "replica",
}  # fmt: skip
_CLIENTS = {
    "client_min_messages": "notice", "default_table_access_method": "heap", "default_tablespace": "", "jit": "off",
    "lc_messages": "C", "synchronous_commit": "on",
}  # fmt: skip

_ALL = (
    _session("TimeZone", "UTC", only=("UTC", "Etc/UTC", "GMT", "Z"), normalize=values.normalize_zone, reported=True),
    _session("client_encoding", "UTF8", only=("UTF8", "UTF-8"), normalize=values.normalize_encoding, reported=True),
    _session("application_name", "", note=CLIENT, reported=True),
    _session("DateStyle", "ISO, MDY", only=("ISO", "ISO, MDY"), normalize=values.normalize_date_style, reported=True),
    _session("extra_float_digits", "1", "integer", CLIENT, normalize=values.normalize_float_digits),
    _session("search_path", '"$user", public', only=("public", '"$user", public', "$user, public")),
    _session("standard_conforming_strings", "on", "boolean", normalize=values.normalize_strings),
    _session("statement_timeout", "0", "duration", only=("0", "0s")),
    _session("idle_in_transaction_session_timeout", "0", "duration", only=("0", "0s")),
    _session("transaction_isolation", "read committed", only=("read committed", "read uncommitted"), normalize=values.normalize_level),
    _session("default_transaction_isolation", "read committed", only=("read committed", "read uncommitted"), normalize=values.normalize_level),
    _session("default_transaction_read_only", "off", "boolean", only=("off",), reported=True),
    _session("transaction_read_only", "off", "boolean", only=("off",)),
    _session("rw_implicit_flush", "false", "boolean", _DML, normalize=values.normalize_true_false),
    _session("implicit_flush", "false", "boolean", _DML, normalize=values.normalize_true_false),
    SettingSpec("query_mode", "auto", "system", "string", "distributed: Spark answers every query", ("auto", "local", "distributed")),
    SettingSpec("background_ddl", "false", "system", "true_false", "a server fills new materialized views in the background"),
    SettingSpec("iceberg_engine_connection", "", "ignored", "string", _later("tables outside the embedded lake")),
    SettingSpec("sink_decouple", "default", "ignored", "string", _later("queues before sinks")),
    *(_hint(f"streaming_parallelism{of}", "default") for of in _PARALLELISM),
    _hint("streaming_max_parallelism", "256", "integer"),
    _hint("batch_parallelism", "default"),
    _hint("batch_enable_lookup_join", "true", "true_false"),
    _hint("batch_enable_sort_agg", "true", "true_false"),
    _hint("batch_enable_distributed_dml", "false", "true_false"),
    _hint("rw_enable_join_ordering", "true", "true_false"),
    _hint("rw_enable_two_phase_agg", "true", "true_false"),
    _hint("rw_force_two_phase_agg", "false", "true_false"),
    _hint("rw_enable_share_plan", "true", "true_false"),
    _hint("rw_force_split_distinct_agg", "false", "true_false"),
    _hint("streaming_enable_delta_join", "false", "true_false"),
    _hint("rw_streaming_enable_delta_join", "false", "true_false"),
    _hint("streaming_enable_bushy_join", "true", "true_false"),
    _hint("streaming_enable_unaligned_join", "false", "true_false"),
    _hint("streaming_use_arrangement_backfill", "true", "true_false"),
    _hint("streaming_use_snapshot_backfill", "false", "true_false"),
    _hint("streaming_use_shared_source", "true", "true_false"),
    _hint("streaming_over_window_cache_policy", "full"),
    _hint("bypass_cluster_limits", "false", "true_false"),
    _hint("synchronize_seqscans", "false", "true_false"),
    *(SettingSpec(name, default, "ignored", "string", CLIENT) for name, default in _CLIENTS.items()),
    SettingSpec("row_security", "on", "ignored", "boolean", FIXED),
    _held("IntervalStyle", "postgres"),
    _held("bytea_output", "hex"),
    _held("visibility_mode", "checkpoint", "default"),
    _held("lock_timeout", "0", "0s"),
    *(SettingSpec(name, default, "fixed") for name, default in _SHOWN.items()),
)  # fmt: skip

SETTINGS: Mapping[str, SettingSpec] = {spec.key: spec for spec in _ALL}
"""Every setting by its name in lower case."""

INSTEAD: Mapping[str, str] = {
    "source_rate_limit": "it is an option of a source: WITH (…, source_rate_limit = 1000)",
    "backfill_rate_limit": "source_rate_limit, an option of a source, bounds what it gives",
    "sink_rate_limit": "source_rate_limit, an option of a source, bounds what it gives",
    "dml_rate_limit": "INSERT writes to a log at once",
}
"""Settings that promise to go easy on something; ignoring them could do harm."""


def is_session_setting(name: str) -> bool:
    """Whether each session has its own value."""
    spec = SETTINGS.get(name)
    return spec is not None and spec.scope == "session"


def read_home_setting(statement: SetVariable) -> tuple[SettingSpec, str | None]:
    """The setting that a SET outside of a session names, and the value that the home keeps (None: the default).

    Raises at the statement if there is no such setting, or its value cannot be kept to.
    """
    name, value, place = statement.name.lower(), statement.value, statement.place
    if name in INSTEAD:
        raise NotSupportedError(f"SET {name}", place=place, remedy=INSTEAD[name])
    if name not in SETTINGS:
        raise SqlError(
            f"there is no setting {name}",
            place=place,
            remedy=did_you_mean(name, SETTINGS) or "SHOW ALL lists the settings",
        )
    spec = SETTINGS[name]
    if value is None:
        return spec, None
    try:
        kept = spec.read(value)
    except SqlError as error:
        error.place = place
        raise
    asked = kept if spec.type == "boolean" else value
    if spec.only and asked.lower() not in {v.lower() for v in spec.only}:
        raise NotSupportedError(
            f"{name} = '{value}'", place=place, remedy="one of " + ", ".join(spec.only)
        )
    return spec, kept


def is_true(name: str, stored: Mapping[str, str]) -> bool:
    """Whether a boolean setting of the home is on. `stored` holds what was set."""
    return values.is_true(name, stored.get(name, SETTINGS[name].default))
