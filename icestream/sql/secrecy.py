"""Which literals of a SQL text are secrets: told by the name of the option, or by the shape of a URL."""

from __future__ import annotations

import re

from icestream.sql.environment import only_placeholders

HIDDEN = "<hidden>"

_SECRET_KEY = re.compile(
    r"password|passwd|passphrase|secret|token|credential|jaas"
    r"|(?:private|access|account|api|sas|keystore)[._-]?key|^ssl[._-]key$"
)
_NO_SECRET = re.compile(
    r"[._-](?:name|enabled?|uri|url|endpoint|path|provider|type|location|class|mechanism)$"
)
_URL_PASSWORD = re.compile(r"(?<=://)([^\s:/@']*:)([^\s@']+)(?=@)")
_KEY_BEFORE = re.compile(r"""([\w."-]++)\s*=?\s*$""")
_SECRET_BEFORE = re.compile(r"\bSECRET\b[^;]*\bAS\s*$", re.IGNORECASE)
_REACH = 300  # characters before a literal in which its option's name is looked for


def is_secret_key(key: str) -> bool:
    """Whether an option of that name holds a secret."""
    key = key.lower()
    return bool(_SECRET_KEY.search(key)) and not _NO_SECRET.search(key)


def without_passwords(text: str) -> str:
    """A text with the passwords of URLs (scheme://user:password@host) hidden."""

    def hide(found: re.Match[str]) -> str:
        return found[0] if only_placeholders(found[2]) else found[1] + HIDDEN

    return _URL_PASSWORD.sub(hide, text)


def blind(text: str, start: int, end: int) -> str:
    """The literal at [start, end), with stars over what is secret, so that its length stays.

    This guesses from the characters before it, because it must also work where the text has no
    grammar: in the excerpt of an error.
    """
    literal = text[start:end]
    before = text[max(0, start - _REACH) : start]
    key = _KEY_BEFORE.search(before)
    if (key and is_secret_key(key[1])) or _SECRET_BEFORE.search(before):
        return re.sub(r"[^\s'$]", "*", literal) if not only_placeholders(literal[1:-1]) else literal
    return _URL_PASSWORD.sub(
        lambda m: m[0] if only_placeholders(m[2]) else m[1] + "*" * len(m[2]), literal
    )
