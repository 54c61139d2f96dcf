"""The run-time parameters that clients ask for, and what they are unless the model says otherwise."""

from __future__ import annotations

from icestream.server.relations.model import Model, Setting

_USUAL = {
    "application_name": "", "block_size": "8192", "bytea_output": "hex", "client_encoding": "UTF8",
    "client_min_messages": "notice", "DateStyle": "ISO, MDY", "default_table_access_method": "heap",
    "default_tablespace": "", "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off", "extra_float_digits": "1", "idle_in_transaction_session_timeout": "0",
    "in_hot_standby": "off", "integer_datetimes": "on", "IntervalStyle": "postgres", "is_superuser": "on",
    "jit": "off", "lc_collate": "C.UTF-8", "lc_ctype": "C.UTF-8", "lc_messages": "C", "lock_timeout": "0",
    "max_identifier_length": "63", "max_index_keys": "32", "role": "none", "row_security": "on",
    "search_path": '"$user", public', "server_encoding": "UTF8", "server_version": "15.0",
    "server_version_num": "150000", "session_authorization": "root", "standard_conforming_strings": "on",
    "statement_timeout": "0", "synchronous_commit": "on", "TimeZone": "UTC", "transaction_isolation": "read committed",
    "transaction_read_only": "off", "wal_level": "replica",
}  # fmt: skip


def settings(model: Model) -> list[Setting]:
    """All settings by name: the model's, and the usual ones that it leaves out."""
    own = {setting.name.lower(): setting for setting in model.settings}
    usual = {name.lower(): Setting(name, value) for name, value in _USUAL.items()}
    return [setting for _, setting in sorted((usual | own).items())]
