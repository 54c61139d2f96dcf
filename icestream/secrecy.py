"""Which options hold secrets, and texts without the secrets in them.

Messages of libraries and servers may repeat an address with its password, or a setting with its value. They pass
`mask_secrets` before anybody sees them: in errors, events, notices, the status and logs.
"""

from __future__ import annotations

import logging
import re

HIDDEN = "<hidden>"

SECRET_KEY = (
    r"password|passwd|passphrase|secret|token|credential|jaas|authorization|cookie|[.]header[.]"
    r"|(?:private|access|account|api|sas|sse|keystore)[._-]?key|(?:^|[.])ssl[._-]key$"
)
"""Matches the lower-case name of an option that holds a secret, and of some that do not: see `is_secret_key`."""
_NO_SECRET = re.compile(
    r"[._-](?:name|enabled?|uri|url|endpoint|path|provider|type|location|class|mechanism)$"
)
URL_PASSWORD = re.compile(r"(?<=://)([^\s:/@']*:)([^\s@']+)(?=@)")
REDACTED = rf"(?i){SECRET_KEY}|://[^\s:/@']*:[^\s@']+@"
"""For Spark, which hides a setting in plans, events and logs if its name or its value matches."""

_SECRET = re.compile(SECRET_KEY)
_PLACEHOLDERS = re.compile(r"(?:\$\{[A-Za-z_][A-Za-z0-9_]*\})+|" + re.escape(HIDDEN) + r"|\*+")
_ASSIGNED = re.compile(r"""([\w.-]+)=("[^"]*"|'[^']*'|[^\s,;&'"(){}\[\]]+)""")
_BEARER = re.compile(r"\b(Bearer|Basic)(\s+)([\w.~+/=-]{8,})")


def is_secret_key(key: str) -> bool:
    """Whether an option of that name holds a secret."""
    key = key.lower()
    return bool(_SECRET.search(key)) and not _NO_SECRET.search(key)


def without_passwords(text: str) -> str:
    """A text with the passwords of URLs (scheme://user:password@host) hidden."""

    def hide(found: re.Match[str]) -> str:
        return found[0] if _PLACEHOLDERS.fullmatch(found[2]) else found[1] + HIDDEN

    return URL_PASSWORD.sub(hide, text) if "://" in text else text


def mask_secrets(text: str) -> str:
    """A message of any origin with passwords of URLs, values of secret settings (name=value) and bearer tokens hidden."""

    def hide(found: re.Match[str]) -> str:
        value = found[2].strip("\"'")
        if not value or not is_secret_key(found[1]) or _PLACEHOLDERS.fullmatch(value):
            return found[0]
        return f"{found[1]}={HIDDEN}"

    text = without_passwords(text)
    if "=" in text:
        text = _ASSIGNED.sub(hide, text)
    return _BEARER.sub(rf"\1\2{HIDDEN}", text)


class MaskingFormatter(logging.Formatter):
    """Formats log records, with their tracebacks, without the secrets in them."""

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record."""
        return mask_secrets(super().format(record))
