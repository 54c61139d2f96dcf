"""What a client may SET and SHOW of its own session."""

from __future__ import annotations

from collections.abc import Mapping

from icestream.catalog.setting_registry import SETTINGS, is_session_setting
from icestream.catalog.setting_values import milliseconds, offset_of
from icestream.server.backend import Column, Notice, Outcome, StateError
from icestream.server.transactions import TransactionBlock, warn_of_level
from icestream.sql.session_statements import TransactionModes
from icestream.sql.statements import SetVariable
from icestream.types import VARCHAR

LEVEL_SETTINGS = ("transaction_isolation", "default_transaction_isolation")
FLUSHES = ("rw_implicit_flush", "implicit_flush")
"""Settings by which each change waits until it is visible."""
RESETTABLE = ("all", "role", "session_authorization")
"""What RESET takes besides the settings of a session."""

Saved = tuple[dict[str, str], dict[str, str]]
"""Settings of the session, and those of its transaction."""


class Settings:
    """The settings of one session; those that nobody set are as for everybody."""

    def __init__(self, given: Mapping[str, str], block: TransactionBlock | None = None) -> None:
        self._block = block
        self._set: dict[str, str] = {}
        self._local: dict[str, str] = {}
        """Those of SET LOCAL, until the transaction ends."""
        for name, value in given.items():
            if is_session_setting(name.lower()):
                self.take(name, value)
        self._first = dict(self._set)
        """Those of the start-up, which RESET restores."""

    def __getitem__(self, name: str) -> str:
        if name == "transaction_read_only" and self._block is not None:
            return "on" if self._block.read_only else "off"
        return self._local.get(name, self._set.get(name, SETTINGS[name].default))

    def take(self, name: str, value: str) -> None:
        """Set one."""
        spec = SETTINGS.get(name.lower())
        if spec is None and "." in name:  # of an extension or of the client itself
            self._keep(name.lower(), value)
            return
        if spec is None:
            raise StateError("42704", f'unrecognized configuration parameter "{name}"')
        self._keep(spec.key, spec.read(value))

    def _keep(self, name: str, value: str, local: bool = False) -> None:
        if name == "transaction_read_only":
            if self._block is not None:
                self._block.set_read_only(value == "on")
        elif local:
            self._local[name] = value
        else:
            self._local.pop(name, None)
            self._set[name] = value

    @property
    def statement_timeout(self) -> float | None:
        """Seconds that a statement may take; None: any."""
        text = self["statement_timeout"]
        found = 0 if text == "0" else milliseconds("statement_timeout", text)
        return found / 1000 if found else None

    def save(self) -> Saved:
        """What is set now."""
        return dict(self._set), dict(self._local)

    def restore(self, saved: Saved) -> None:
        """Undo what was set since."""
        self._set, self._local = map(dict, saved)

    def end_transaction(self) -> None:
        """Forget what was set for the transaction alone."""
        self._local.clear()

    @property
    def told(self) -> Mapping[str, str]:
        """Those that a client is told without asking."""
        return {spec.name: self[spec.key] for spec in SETTINGS.values() if spec.is_reported}

    @property
    def flushes(self) -> bool:
        """Whether each change waits until it is visible."""
        return any(self[name] == "true" for name in FLUSHES)

    @property
    def reads_only(self) -> bool:
        """Whether transactions refuse changes, unless they say otherwise."""
        return self["default_transaction_read_only"] == "on"

    @property
    def all(self) -> tuple[tuple[str, str], ...]:
        """Every one, as it is spelt."""
        own = (spec for spec in SETTINGS.values() if spec.scope == "session")
        return tuple((spec.name, self[spec.key]) for spec in own)

    def show(self, name: str) -> Outcome:
        """SHOW name"""
        return Outcome("SHOW", shown(name), [(self[name],)])

    def set(self, statement: SetVariable, *, in_transaction: bool = False) -> Outcome:
        """SET [LOCAL] name TO value"""
        name, value = statement.name, statement.value
        if value is None:
            value = self._first.get(name, SETTINGS[name].default)
        elif statement.is_interval:
            value = offset_of(value)
        else:
            value = SETTINGS[name].read(value)
        level = (statement.value or "").lower() if name in LEVEL_SETTINGS else None
        if statement.local and not in_transaction:
            text = "SET LOCAL can only be used in transaction blocks"
            return Outcome("SET", notices=(Notice(text, "WARNING", "25P01"),))
        self._keep(name, value, statement.local)
        return Outcome("SET", notices=warn_of_level(level))

    def set_characteristics(self, modes: TransactionModes) -> Outcome:
        """SET SESSION CHARACTERISTICS AS TRANSACTION modes: what later transactions are, unless they say otherwise."""
        if modes.read_only is not None:
            self._keep("default_transaction_read_only", "on" if modes.read_only else "off")
        return Outcome("SET", notices=warn_of_level(modes.level))

    def reset(self, name: str) -> Outcome:
        """RESET name"""
        if name not in RESETTABLE and not is_session_setting(name):
            raise StateError("42704", f'unrecognized configuration parameter "{name}"')
        for each in SETTINGS if name == "all" else (name,):
            self._local.pop(each, None)
            self._set.pop(each, None)
            if each in self._first:
                self._set[each] = self._first[each]
        return Outcome("RESET")


def shown(name: str) -> tuple[Column, ...]:
    """The columns of SHOW name."""
    return (Column(SETTINGS[name].name, VARCHAR),)
