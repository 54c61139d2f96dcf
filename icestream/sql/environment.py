"""`${NAME}`: values from the environment, in SQL text and in option values.

In the value of an option `${NAME}` stays as it is written, in the statement and in whatever is stored or
shown; `resolve` gives the value at the moment of use. `$${NAME}` there is the text `${NAME}` itself. All other
string literals and quoted names are data: nothing in them is replaced, and nothing in them has to be set. Outside of
those (a plain name, a number) it is replaced before the text is cut into tokens, and may only stand for letters, digits,
`_`, `.` and `-`. In comments it means nothing. A variable that is not set is an error.

Only a name in braces counts: `${`, `${}` and `${a b}` are ordinary text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from icestream.errors import Place, SqlError, nearest

PLACEHOLDER = re.compile(r"\$(?P<escape>\$?)\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")
PLAIN_VALUE = re.compile(r"[\w.-]+")


def resolve(text: str, env: Mapping[str, str], place: Place | None = None) -> str:
    """The text with every `${NAME}` replaced; an unset one is an error at `place` that names it."""

    def value(found: re.Match[str]) -> str:
        if found["escape"]:
            return found[0][1:]
        return lookup(found["name"], env, place)

    return PLACEHOLDER.sub(value, text)


def lookup(name: str, env: Mapping[str, str], place: Place | None = None) -> str:
    """The value of one variable; the error for an unset one names it and never shows a value."""
    if name not in env:
        guess = nearest(name, env)
        raise SqlError(
            f"environment variable {name} is not set",
            place=place,
            remedy=f"set it, or use ${{{guess}}}" if guess else "set it before running this script",
        )
    return env[name]


def escape_placeholders(text: str) -> str:
    """The text with every `${NAME}` written `$${NAME}`, which stands for itself."""
    return PLACEHOLDER.sub(lambda found: f"${found[0]}", text)


def placeholders(text: str) -> Iterator[re.Match[str]]:
    """All `${NAME}` of a text that stand for a value (not the escaped ones)."""
    return (found for found in PLACEHOLDER.finditer(text) if not found["escape"])


def only_placeholders(text: str) -> bool:
    """Whether a text consists of nothing but `${NAME}`s, and so gives nothing away."""
    return bool(text) and not PLACEHOLDER.sub(lambda m: m[0] if m["escape"] else "", text)
