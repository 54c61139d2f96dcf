"""Hides what is secret in a SQL text that may be wrong: in the excerpt of an error, in the list of running statements.

There is no grammar to go by. In a list of options everything behind the name of a secret is hidden, up to the next comma or
bracket; elsewhere the literal behind such a name; in CREATE and ALTER SECRET all behind the secret's name; and in
every literal the passwords of URLs. Stars stand over it, so that the length of the text stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from icestream.secrecy import is_secret_key, seems_secret_key, without_passwords
from icestream.sql.environment import only_placeholders

_NO_KEY = re.compile(r"""[^\w."-]""")
_REACH = 300  # characters before a literal in which its option's name is looked for
_PREFIX = re.compile(r"(?:\b[enbx]|\bu&)$", re.IGNORECASE)  # of a literal: N'…', U&'…'
_PREFIXES = "eEnNbBxX&"
_LIST = re.compile(r"\b(?:WITH|SET|CONNECTOR)\s*\(|\bENCODE\s+\w+\s*\(", re.IGNORECASE)
_WORD = r"""(?:"(?:[^"]|"")*"|(?!AS\b|WITH\b)[^\W\d]\w*)"""
_SECRET = re.compile(
    r"\b(?:CREATE|ALTER)\b(?:\s+\w+){0,4}?\s+SECRET\b(?:\s+IF\s+(?:NOT\s+)?EXISTS\b)?\s*"
    rf"(?:{_WORD}(?:\s*[.]\s*{_WORD})*)?",
    re.IGNORECASE,
)
_SECRET_BEFORE = re.compile(r"\bSECRET\b[^;]*\bAS\b[^;]*$", re.IGNORECASE)
_KEPT = re.compile(r"\b(?:WITH|AS|backend)\b", re.IGNORECASE)
_WRITTEN = re.compile(r"[^\s()=]+")
_NAME = re.compile(r"""\s*(?:"[^"]*"|[\w.-]+)""")
_MARK = re.compile(r"[(),;\[\]]")
_OPERATOR = re.compile(r":=|=>|->|=|:")
_REFERENCE = re.compile(r"""SECRET\s+[\w."]+(?:\s+AS\s+FILE)?\s*""", re.IGNORECASE)
_SPECIAL = re.compile(r"\b(?:WITH|SET|CONNECTOR|ENCODE|SECRET)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Region:
    """A stretch of text that is not plain code: a comment, a literal or a quoted name."""

    kind: str  # comment, string, quoted name
    start: int
    end: int
    ending: str = ""  # what is missing, if it does not end


def blind(text: str, regions: Iterable[Region]) -> str:
    """The text with stars over what is secret in it."""
    regions = list(regions)
    code = _blanked(text, (r for r in regions if r.kind == "comment"))
    hidden: list[tuple[int, int]] = []
    if _SPECIAL.search(text):
        bare = _blanked(code, (r for r in regions if r.kind != "comment"))
        hidden = [*_of_secrets(code, bare), *_of_options(code, bare)]
    pieces: list[str] = []
    copied = 0
    for region in regions:
        if region.kind == "string":
            pieces += [text[copied : region.start], _literal(text, code, region)]
            copied = region.end
    shown = "".join(pieces) + text[copied:]
    if not hidden:
        return shown
    characters = list(shown)
    for start, end in hidden:
        characters[start:end] = _starred(shown[start:end])
    return "".join(characters)


def _blanked(text: str, regions: Iterable[Region]) -> str:
    """The text with spaces in place of those stretches."""
    pieces: list[str] = []
    copied = 0
    for region in regions:
        pieces += [text[copied : region.start], " " * (region.end - region.start)]
        copied = region.end
    return "".join(pieces) + text[copied:] if pieces else text


def _starred(text: str) -> str:
    return re.sub(r"[^\s'$]", "*", text)


def _literal(text: str, code: str, region: Region) -> str:
    """A literal, with stars over what is secret, by the characters before it."""
    literal = text[region.start : region.end]
    key = _key_before(code, region.start)
    if key and (is_secret_key(key) or (key.upper() == "AS" and _is_of_secret(code, region.start))):
        return literal if only_placeholders(literal[1:-1]) else _starred(literal)
    return without_passwords(literal, lambda value: "*" * len(value))


def _is_of_secret(code: str, at: int) -> bool:
    """Whether a literal behind AS is the value of a secret, though CREATE may be mistyped."""
    return bool(_SECRET_BEFORE.search(code, max(0, at - _REACH), at))


def _key_before(code: str, at: int) -> str:
    """The name that a literal there is for; empty if something else stands before it. Long lists of literals make it hot."""
    before = code[max(0, at - _REACH) : at].rstrip()
    if not before or before[-1] in ",(":
        return ""
    if before[-1] in _PREFIXES:
        before = before[:-3] + _PREFIX.sub("", before[-3:]).rstrip()
    before = before.rstrip("=:>-").rstrip()
    if not before or _NO_KEY.match(before[-1]):
        return ""
    return _NO_KEY.split(before.rsplit(None, 1)[-1])[-1].replace('"', "")


def _of_secrets(code: str, bare: str) -> Iterator[tuple[int, int]]:
    """All behind the name in CREATE SECRET and ALTER SECRET, but for words that everybody writes there."""
    end = 0
    for found in _SECRET.finditer(code):
        if found.start() < end or bare[found.start()].isspace():
            continue  # in the one before, or in a literal
        end = bare.find(";", found.end())
        at, end = found.end(), len(code) if end < 0 else end
        while at < end:
            kept = _KEPT.search(bare, at, end)
            stop = kept.start() if kept else end
            for word in _WRITTEN.finditer(code, at, stop):
                plain = word[0].strip("'")
                if plain.lower() != "meta" and not only_placeholders(plain):
                    yield word.span()
            at = kept.end() if kept else end


def _of_options(code: str, bare: str) -> Iterator[tuple[int, int]]:
    """The values of secret options in lists."""
    start = 0
    for found in _LIST.finditer(bare):
        if found.start() < start:
            continue  # in the one before
        depth, start = 1, found.end()
        for mark in _MARK.finditer(bare, start):
            yield from _of_option(code, bare, start, mark.start())
            start = mark.end()
            depth += {"(": 1, ")": -1}.get(mark[0], 0)
            if not depth or mark[0] == ";":
                break
        else:
            yield from _of_option(code, bare, start, len(code))
            return


def _of_option(code: str, bare: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The value of one `key = value`, if it is secret; with another sign or none, too."""
    operator = _OPERATOR.search(bare, start, end)
    if operator is not None:
        key, at = code[start : operator.start()], operator.end()
    else:
        name = _NAME.match(code, start, end)
        key, at = (name[0], name.end()) if name else ("", end)
    if not seems_secret_key(re.sub(r"""["'\s]""", "", key)):
        return
    value = code[at:end].strip()
    if not _REFERENCE.fullmatch(value) and not only_placeholders(value.strip("'")):
        yield at, end
