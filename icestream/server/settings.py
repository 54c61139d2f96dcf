"""What a client may SET and SHOW of its own session."""

from __future__ import annotations

import re
from collections.abc import Mapping

from icestream.errors import SqlError
from icestream.server.backend import (
    VERSION,
    VERSION_NUMBER,
    Column,
    Notice,
    Outcome,
    StateError,
)
from icestream.server.durations import milliseconds
from icestream.server.setting_values import FLUSHES, checked
from icestream.server.transactions import TransactionBlock, read_modes, warn_of_levels
from icestream.types import VARCHAR

KNOWN = {
    "timezone": ("TimeZone", "UTC"),
    "client_encoding": ("client_encoding", "UTF8"),
    "application_name": ("application_name", ""),
    "datestyle": ("DateStyle", "ISO, MDY"),
    "extra_float_digits": ("extra_float_digits", "1"),
    "search_path": ("search_path", "public"),
    "standard_conforming_strings": ("standard_conforming_strings", "on"),
    "statement_timeout": ("statement_timeout", "0"),
    "transaction_isolation": ("transaction_isolation", "read committed"),
    "server_version": ("server_version", VERSION),
    "server_version_num": ("server_version_num", VERSION_NUMBER),
    "session characteristics": ("session characteristics", ""),
    "transaction": ("transaction", ""),
    "names": ("names", "UTF8"),
    "default_transaction_isolation": ("default_transaction_isolation", "read committed"),
    "default_transaction_read_only": ("default_transaction_read_only", "off"),
    "transaction_read_only": ("transaction_read_only", "off"),
    "idle_in_transaction_session_timeout": ("idle_in_transaction_session_timeout", "0"),
    "is_superuser": ("is_superuser", "on"),
    "max_identifier_length": ("max_identifier_length", "63"),
    "rw_implicit_flush": ("rw_implicit_flush", "false"),
    "implicit_flush": ("implicit_flush", "false"),
}
"""Settings of a session, by name: as it is spelt, and what it is."""
LEVEL_SETTINGS = ("transaction_isolation", "default_transaction_isolation")
NEVER_SET = ("role", "session authorization")
"""What RESET takes although there is nothing to set."""
LOCAL = re.compile(r"set\s+local\b", re.I)
CHARACTERISTICS = re.compile(r"as\s+transaction\s+(?P<modes>.*)", re.I | re.S)
TOLD = (
    "timezone", "client_encoding", "application_name", "datestyle", "default_transaction_read_only",
)  # fmt: skip
SET = re.compile(
    r"""set \s+ (?:(?:session|local)\s+(?!characteristics))? (?P<name>time\s+zone|session\s+characteristics|[\w.]+)
    (?:(?:\s*(?:=|\bto\b)\s*|\s+)(?P<value>.*))?""",
    re.I | re.S | re.X,
)

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
            if name.lower() in KNOWN:
                self.take(name, value)
        self._first = dict(self._set)
        """Those of the start-up, which RESET restores."""

    def __getitem__(self, name: str) -> str:
        if name == "transaction_read_only" and self._block is not None:
            return "on" if self._block.read_only else "off"
        return self._local.get(name, self._set.get(name, KNOWN[name][1]))

    def take(self, name: str, value: str) -> None:
        """Set one."""
        self._keep(name.lower(), checked(name.lower(), value))

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
        return {KNOWN[name][0]: self[name] for name in TOLD}

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
        return tuple((KNOWN[name][0], self[name]) for name in KNOWN)

    def show(self, words: str) -> Outcome:
        """SHOW name"""
        return Outcome("SHOW", shown(words), [(self[_shown(words)],)])

    def set(self, words: str, *, in_transaction: bool = False) -> Outcome:
        """SET [LOCAL] name TO value"""
        found = SET.fullmatch(words)
        if found is None or found["value"] is None:
            raise SqlError(f"SET of what, to what? {words}", code="42601")
        name, value = plain(found["name"]), found["value"].strip().strip("'\"")
        if name == "session characteristics":
            return self._set_characteristics(found["value"])
        name = "client_encoding" if name == "names" else name
        if name == "transaction":
            raise SqlError(f"syntax error: {words}", code="42601")
        if value.lower() == "default":
            value = self._first.get(name, KNOWN[name][1])
        given, value = value, checked(name, value)
        notices = _warn_of_level(given) if name in LEVEL_SETTINGS else ()
        local = LOCAL.match(words) is not None
        if local and not in_transaction:
            text = "SET LOCAL can only be used in transaction blocks"
            return Outcome("SET", notices=(Notice(text, "WARNING", "25P01"),))
        self._keep(name, value, local)
        return Outcome("SET", notices=notices)

    def _set_characteristics(self, text: str) -> Outcome:
        """SET SESSION CHARACTERISTICS AS TRANSACTION modes: what later transactions are, unless they say otherwise."""
        found = CHARACTERISTICS.fullmatch(text.strip())
        if found is None:
            raise SqlError(f"syntax error at or near {text!r}", code="42601")
        notices: tuple[Notice, ...] = ()
        for mode in read_modes(found["modes"]):
            if mode["access"]:
                only = mode["access"].lower() == "only"
                self._keep("default_transaction_read_only", "on" if only else "off")
            elif mode["level"]:
                notices = _warn_of_level(mode["level"])
        return Outcome("SET", notices=notices)

    def reset(self, words: str) -> Outcome:
        """RESET name"""
        name = plain(words[5:])
        if name not in (*KNOWN, "all", *NEVER_SET):
            message = f'unrecognized configuration parameter "{name}"'
            raise StateError("42704" if name else "42601", message)
        for each in KNOWN if name == "all" else (name,):
            self._local.pop(each, None)
            self._set.pop(each, None)
            if each in self._first:
                self._set[each] = self._first[each]
        return Outcome("RESET")


def _warn_of_level(level: str) -> tuple[Notice, ...]:
    return warn_of_levels({" ".join(level.lower().split())})


def is_own(words: str) -> bool:
    """Whether a SET or SHOW is about the session."""
    if words[:3].lower() == "set":
        found = SET.fullmatch(words)
        return found is not None and plain(found["name"]) in KNOWN
    return _shown(words) in KNOWN


def shown(words: str) -> tuple[Column, ...]:
    """The columns of a SHOW."""
    return (Column(KNOWN[_shown(words)][0], VARCHAR),)


def _shown(words: str) -> str:
    return plain(words[4:])


def plain(words: str) -> str:
    """A name as it is looked up."""
    name = " ".join(words.split()).lower().strip('"')
    return {"time zone": "timezone", "transaction isolation level": "transaction_isolation"}.get(
        name, name
    )
