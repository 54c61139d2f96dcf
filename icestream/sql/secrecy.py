"""Hides literals of a SQL text that are secrets: told by the name of the option, or by the shape of a URL."""

from __future__ import annotations

import re

from icestream.secrecy import URL_PASSWORD, is_secret_key
from icestream.sql.environment import only_placeholders

_NO_KEY = re.compile(r"""[^\w."-]""")
_SECRET_BEFORE = re.compile(r"\bSECRET\b[^;]*\bAS\s*$", re.IGNORECASE)
_REACH = 300  # characters before a literal in which its option's name is looked for


def blind(text: str, start: int, end: int) -> str:
    """The literal at [start, end), with stars over what is secret, so that its length stays.

    This guesses from the characters before it, because it must also work where the text has no
    grammar: in the excerpt of an error.
    """
    literal = text[start:end]
    before = text[max(0, start - _REACH) : start].rstrip()
    key = _word_at_end(before.removesuffix("=").rstrip())
    if (key and is_secret_key(key)) or (
        before[-2:].upper() == "AS" and _SECRET_BEFORE.search(before)
    ):
        return re.sub(r"[^\s'$]", "*", literal) if not only_placeholders(literal[1:-1]) else literal
    if "://" not in literal:
        return literal
    return URL_PASSWORD.sub(
        lambda m: m[0] if only_placeholders(m[2]) else m[1] + "*" * len(m[2]), literal
    )


def _word_at_end(text: str) -> str:
    """The name that a text ends with; empty if it ends with something else. Long lists of literals make it hot."""
    if not text or _NO_KEY.match(text[-1]):
        return ""
    return _NO_KEY.split(text)[-1]
