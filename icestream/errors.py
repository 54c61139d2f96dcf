"""Every exception of the engine, as one small tree.

    EngineError
    ├── IcestreamError            a failure a user can meet: what happened, where, which object, what to do about it
    │   ├── SqlError                  the text is wrong: syntax, unknown names, types, options
    │   │   └── NotSupportedError         the text is right, the capability is not there yet
    │   ├── ConfigError               the machine or the configuration is wrong (Java, jars, home, JSON config)
    │   ├── ConnectorError            the outside world said no (a broker, a bucket, a foreign catalog)
    │   │   └── RangeLostError            a source can no longer repeat a range it once promised
    │   ├── JvmLostError              Spark's JVM has ended; the process must be started again
    │   ├── LakeError                 an Iceberg table is not what the engine recorded
    │   └── FencedError               a newer process took over; this one stops and commits nothing more
    └── SignalError               one part of the engine tells another that it cannot go on; always caught inside

Packages add their own below these. The only exception outside is `interrupts.StatementCancelledError`, which code that
handles failures must not catch. All names end in Error; `tests/unit/test_code_rules.py` enforces it.

An IcestreamError carries its place (file:line:col with the line and a caret), the object it concerns, a
remedy, and the SQLSTATE that PostgreSQL has for it where clients look at that. `str(error)` is the whole message a user sees; it never contains a secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from icestream.secrecy import hide_known, mask_secrets


@dataclass(frozen=True)
class Place:
    """A position in a text: 1-based line and column, and the line itself for the caret."""

    file: str
    line: int
    column: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def excerpt(self) -> str:
        """The line with a caret below the column; empty if the line is unknown."""
        if not self.text:
            return ""
        pad = "".join("\t" if c == "\t" else " " for c in self.text[: self.column - 1])
        return f"  {hide_known(self.text)}\n  {pad}^"


class EngineError(Exception):
    """Base of all exceptions of the engine."""


class SignalError(EngineError):
    """Base of exceptions that are raised and caught inside the engine, and that no user sees."""


class IcestreamError(EngineError):
    """Base of all errors that a user sees: one clear sentence, the place, the object, the remedy."""

    def __init__(
        self,
        message: str,
        *,
        place: Place | None = None,
        object: str | None = None,
        remedy: str | None = None,
        code: str | None = None,
    ) -> None:
        message = mask_secrets(message)
        super().__init__(message)
        self.message = message
        self.place = place
        self.object = object
        self.remedy = remedy and mask_secrets(remedy)
        self.code = code

    def __str__(self) -> str:
        head = f"{self.place}: {self.message}" if self.place else self.message
        parts = [head]
        if self.place and (excerpt := self.place.excerpt()):
            parts.append(excerpt)
        if self.remedy:
            parts.append(f"  hint: {self.remedy}")
        return "\n".join(parts)


class SqlError(IcestreamError):
    """A statement that cannot be understood or bound. Nothing was changed."""


class NotSupportedError(SqlError):
    """A statement that is understood, but whose capability the engine does not have yet."""

    def __init__(self, what: str, *, place: Place | None = None, remedy: str | None = None) -> None:
        super().__init__(f"not supported yet: {what}", place=place, remedy=remedy)


class ConfigError(IcestreamError):
    """The environment or a configuration file is wrong."""


class ConnectorError(IcestreamError):
    """An outside system refused or failed."""


class RangeLostError(ConnectorError):
    """A source cannot repeat a range: data was truncated, expired or purged."""


class JvmLostError(IcestreamError):
    """Spark's JVM has ended. Nothing more can be done in this process; the next start recovers."""


class LakeError(IcestreamError):
    """An Iceberg table is not in the state the engine recorded."""


class FencedError(IcestreamError):
    """A newer incarnation of the pipeline owns its tables."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to a mistyped one, if any is close."""
    candidates = {k.lower(): k for k in known}
    found = difflib.get_close_matches(name.lower(), candidates, n=1, cutoff=0.6)
    return candidates[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A remedy sentence for an unknown name, or None."""
    guess = nearest(name, known)
    return f"did you mean {guess!r}?" if guess else None
