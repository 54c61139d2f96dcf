"""The text of a statement without the secrets in it: what SHOW CREATE, logs and pages print.

Plain values of secret options are printed as '<hidden>', however they are written; `${NAME}` and SECRET references are no secrets
and stay as written. Unlike the excerpt of an error (`sql.secrecy`), this knows the grammar: only
option lists and the value of a CREATE SECRET are looked at, never a query.
"""

from __future__ import annotations

import re
from itertools import pairwise

from icestream.secrecy import HIDDEN, is_secret_key, without_passwords
from icestream.sql.environment import (
    escape_placeholders,
    only_placeholders,
    placeholders,
    resolve,
)
from icestream.sql.source import Source
from icestream.sql.statements import Statement
from icestream.sql.tokens import Token, tokenize

_MAY_HAVE_OPTIONS = re.compile("with|set|encode|secret", re.IGNORECASE)
"""A text without these words has no secrets, and need not be split into tokens."""


def mask(statement: Statement) -> str:
    """The statement's text without plain secrets; `${NAME}` and SECRET references stay as written."""
    return mask_text(statement.text)


def mask_text(text: str) -> str:
    """As `mask`, of the text of one statement."""
    if not _MAY_HAVE_OPTIONS.search(text):
        return text
    tokens = tokenize(Source.open(text, "", None)).tokens
    pieces: list[str] = []
    copied = 0
    for key, value in _values(tokens):
        start, end = value[0].start, value[-1].end
        pieces += [text[copied:start], _shown(key, value, text[start:end])]
        copied = end
    return "".join(pieces) + text[copied:]


def conceal(text: str, prefix: str) -> tuple[str, dict[str, str]]:
    """The statement's text with `${prefix_1}` … in place of its plain secrets, and the values by those names."""
    if not _MAY_HAVE_OPTIONS.search(text):
        return text, {}
    tokens = tokenize(Source.open(text, "", None)).tokens
    pieces: list[str] = []
    values: dict[str, str] = {}
    copied = 0
    for key, value in _values(tokens):
        start, end = value[0].start, value[-1].end
        meant = _meaning(value, text[start:end])
        if _is_reference(value) or only_placeholders(meant):
            continue
        if not is_secret_key(key) and without_passwords(meant) == meant:
            continue
        pieces += [text[copied:start], _named(meant, prefix, values)]
        copied = end
    return "".join(pieces) + text[copied:], values


def _meaning(value: list[Token], written: str) -> str:
    """The text that the grammar of options takes for a value: a literal, or words and numbers as they stand."""
    if len(value) == 1 and value[0].kind == "string":
        return value[0].text
    if only_placeholders(written):
        return written
    return "".join(t.text.lower() if t.kind == "word" else t.text for t in value)


def _is_reference(value: list[Token]) -> bool:
    """SECRET name [AS FILE]"""
    return value[0].upper == "SECRET" and len(value) > 1


def _named(text: str, prefix: str, values: dict[str, str]) -> str:
    """A literal with names for the plain parts of a text, which are added to the values. `${NAME}` stays."""
    literal, copied = "", 0
    ends = [*((m.start(), m.end(), m[0]) for m in placeholders(text)), (len(text), len(text), "")]
    for start, end, variable in ends:
        if plain := text[copied:start]:
            name = f"{prefix}_{len(values) + 1}"
            values[name] = resolve(plain, {})
            literal += f"${{{name}}}"
        literal += variable
        copied = end
    return f"'{literal}'"


def escape_variables(text: str) -> str:
    """The text of one statement whose option values are data: `${NAME}` in them is written `$${NAME}`."""
    tokens = tokenize(Source.open(text, "", None)).tokens
    pieces: list[str] = []
    copied = 0
    for token in (t for _, value in _values(tokens) for t in value if t.kind == "string"):
        literal = escape_placeholders(text[token.start : token.end])
        pieces += [text[copied : token.start], literal]
        copied = token.end
    return "".join(pieces) + text[copied:]


def _shown(key: str, value: list[Token], written: str) -> str:
    if _is_reference(value) or only_placeholders(_meaning(value, written)):
        return written
    return f"'{HIDDEN}'" if is_secret_key(key) else without_passwords(written)


def _values(tokens: tuple[Token, ...]) -> list[tuple[str, list[Token]]]:
    """The values in option lists, each with its key; the text of a secret has the key "secret"."""
    found: list[tuple[str, list[Token]]] = []
    kinds = [(t.upper, u.upper) for t, u in pairwise(tokens)]
    of_secret = ("CREATE", "SECRET") in kinds or ("ALTER", "SECRET") in kinds
    inside, key, value = False, "", None
    for at, token in enumerate(tokens):
        before = tokens[at - 1].upper if at else ""
        encode = tokens[at - 2].upper if at > 1 else ""
        if token.upper == "(" and (before in ("WITH", "SET") or encode == "ENCODE"):
            inside, key, value = True, "", None
        elif not inside:
            if of_secret and before == "AS" and token.kind == "string":
                found.append(("secret", [token]))
        elif token.upper in (",", ")"):
            inside, key, value = token.upper == ",", "", None
        elif value is not None:
            value.append(token)
        elif before == "=":
            value = [token]
            found.append((key, value))
        elif token.upper != "=":
            key += token.text
    return found
