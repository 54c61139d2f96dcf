"""Variables in SQL: `$name`, `${name}` and `${name:default}`; a backslash takes the meaning from \\ $ { } and :."""

from __future__ import annotations

import re
from collections.abc import Mapping

from icestream.errors import SignalError

_SPECIAL = "\\${}:"
_NAME = re.compile(r"[A-Za-z0-9_]+")


class SubstitutionError(SignalError):
    """A text that cannot be substituted: an unknown variable, a stray `$` or backslash."""


def substitute(text: str, variables: Mapping[str, str]) -> str:
    """The text with the values of its variables. A default, which may have variables itself, stands in for a missing one."""
    value, _ = _until(text, 0, variables, closed=False)
    return value


def _until(text: str, at: int, variables: Mapping[str, str], *, closed: bool) -> tuple[str, int]:
    """Substitute from a position to the end or, if `closed`, to the brace; gives the position there."""
    made: list[str] = []
    while at < len(text):
        char = text[at]
        if char == "\\":
            if text[at + 1 : at + 2] not in tuple(_SPECIAL):
                raise SubstitutionError(
                    f"a backslash in front of {text[at + 1 : at + 2]!r}: write \\\\"
                )
            made.append(text[at + 1])
            at += 2
        elif char == "$":
            value, at = _variable(text, at + 1, variables)
            made.append(value)
        elif char == "}" and closed:
            return "".join(made), at
        else:
            made.append(char)
            at += 1
    if closed:
        raise SubstitutionError("${ without its }")
    return "".join(made), at


def _variable(text: str, at: int, variables: Mapping[str, str]) -> tuple[str, int]:
    """The value of the variable whose `$` stands before a position, and the position after it."""
    braced = text[at : at + 1] == "{"
    found = _NAME.match(text, at + braced)
    if found is None:
        raise SubstitutionError("$ without a name: write \\$")
    name, at = found[0], found.end()
    default: str | None = None
    if braced:
        if text[at : at + 1] == ":":
            default, at = _until(text, at + 1, variables, closed=True)
        if text[at : at + 1] != "}":
            raise SubstitutionError(f"${{{name} without its }}")
        at += 1
    value = variables.get(name, default)
    if value is None:
        raise SubstitutionError(
            f"no variable {name} and no default: let, or the environment, gives one"
        )
    return value, at
