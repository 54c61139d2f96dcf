"""Which options hold secrets, and texts without the secrets in them.

Messages of libraries and servers may repeat an address with its password, or a setting with its value. They pass
`mask_secrets` before anybody sees them: in errors, events, notices, the status and logs. Secrets are told by their values,
which are remembered here once they are resolved, in whatever way they are quoted; and by the words around them, for those
that this process never resolved.
"""

from __future__ import annotations

import difflib
import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from urllib.parse import quote, quote_plus, unquote

HIDDEN = "<hidden>"

SECRET_KEY = (
    r"password|passwd|passphrase|secret|token|credential|jaas|authorization|cookie|[.]header[.]"
    r"|(?:private|access|account|api|sas|sse|keystore)[._-]?key|(?:^|[.])ssl[._-]key$"
)
"""Matches the lower-case name of an option that holds a secret, and of some that do not: see `is_secret_key`."""
_NO_SECRET = re.compile(
    r"[._-](?:name|enabled?|uri|url|endpoint|path|provider|type|location|class|mechanism)$"
)
_PARAMETER = r"sig|signature|key|pwd|pass|auth|sas|code|x-[a-z]+-signature"
"""Parameters of a URL that are secrets, beside those with the name of a secret option."""
URL_PASSWORD = re.compile(
    r"""(?<=://)([^\s:/@"<>]{0,500}:)([^\s/?#"<>]{1,500}(?=@)|[^\s@"<>]{1,500}(?=@))"""
)
"""Up to the last @ of the authority; a password with a slash is none of an authority, and goes to the first @."""
REDACTED = (
    rf"(?i){SECRET_KEY}|{URL_PASSWORD.pattern}|[?&;](?:[\w.-]*(?:{SECRET_KEY})|{_PARAMETER})="
)
"""For Spark, which hides a setting in plans, events and logs if its name or its value matches."""

_SECRET = re.compile(SECRET_KEY)
_SECRET_PARAMETER = re.compile(_PARAMETER)
_PLACEHOLDERS = re.compile(r"(?:\$\{[A-Za-z_][A-Za-z0-9_]*\})+|" + re.escape(HIDDEN) + r"|\*+")
_QUERY = re.compile(r"""(?<=[?&;])([\w.-]+)=([^&\s"'<>]+)""")
_KEY = re.compile(
    r"""(?<![\w.-])(?P<quote>["']?)(?P<key>[\w.-]+)(?P=quote)(?P<sign>[ \t]*(?::=|=>|->|==?|:)[ \t]*)"""
)
_VALUE = re.compile(
    r"""
        "(?:\\.|""|[^"\\])*+"? | '(?:\\.|''|[^'\\])*+'?  # with escapes in any style
      | (?:\$\{\w+\})+ | <hidden>
      | [^\s,&"'][^\s,&]*?(?=[)}\];"'.]{0,8}(?:[\s,&]|\Z))
    """,
    re.VERBOSE | re.DOTALL,
)
_BEARER = re.compile(r"\b(Bearer|Basic)(\s+)([\w.~+/=-]{8,})")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*-----|\Z)", re.DOTALL
)
_SOLE_WORDS = re.compile(r"passw(?:or)?d|passphrase|pwd")
"""Names without a dot that are no prose before a colon."""
_COMPOUND = re.compile(r"\w[._-]\w")
_MORE_WORDS = re.compile(r"[ \t]+\w")
_WORDS = (
    "password", "passwd", "passphrase", "secret", "token", "credential", "credentials", "jaas", "authorization",
)  # fmt: skip


def is_secret_key(key: str) -> bool:
    """Whether an option of that name holds a secret."""
    key = key.lower()
    return bool(_SECRET.search(key)) and not _NO_SECRET.search(key)


def seems_secret_key(key: str) -> bool:
    """Whether somebody may have meant a secret by that name: it is one, or nearly spelt like one."""
    if is_secret_key(key):
        return True
    if _SECRET.search(key.lower()):
        return False
    words = re.split(r"[^a-z0-9]+", key.lower())
    return any(
        len(word) > 3 and difflib.get_close_matches(word, _WORDS, 1, cutoff=0.75) for word in words
    )


# -- by value -----------------------------------------------------------------------------------

SHORTEST = 4
"""Characters of a value that is looked for. Shorter ones are in every text."""
PASSING = 1_000
"""Values of statements that are remembered, beside those of objects that are there."""
_PLAIN_WORDS = frozenset({
    *_WORDS, "true", "false", "null", "none", "user", "admin", "root", "test", "name", "default", "public", "kafka",
    "hidden",
})  # fmt: skip
"""To hide them wherever they stand would only tell what a password is."""
_JAAS_VALUE = re.compile(r'(\w+)\s*=\s*"((?:\\.|[^"\\])*)"', re.DOTALL)
_WORD = re.compile("[A-Za-z]{1,8}")
"""Such a value may be a part of other words: it is hidden where it stands alone."""
_WORD_HERE = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])){}(?![A-Za-z0-9])"
_URL = re.compile(r"[a-z][\w+.-]*(?::[a-z][\w+.-]*)*://\S+", re.IGNORECASE)


class KnownSecrets:
    """The secrets that this process has resolved, in every way in which a text may quote them. Any thread may add."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[str, ...]] = {}
        self._passing: dict[str, tuple[str, ...]] = {}
        self._forms: tuple[str, ...] = ()

    def add(self, value: str, *, keep: bool = False) -> None:
        """Remember a value. One that is not kept makes room for later ones after a while."""
        with self._lock:
            before = value in self._kept or value in self._passing
            forms = self._kept.get(value) or self._passing.pop(value, None) or _forms(value)
            if not forms:
                return
            if keep or value in self._kept:
                self._kept[value] = forms
            else:
                self._passing[value] = forms
                if len(self._passing) > PASSING:
                    self._passing.pop(next(iter(self._passing)))
            if not before:
                known = {
                    f for each in (self._kept, self._passing) for fs in each.values() for f in fs
                }
                self._forms = tuple(sorted(known, key=len, reverse=True))

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._kept, self._passing, self._forms = {}, {}, ()

    def hide(self, text: str, shown: Callable[[str], str] = lambda form: HIDDEN) -> str:
        """The text with something else in place of each value."""
        for form in self._forms:
            if form not in text:
                continue
            if _WORD.fullmatch(form):
                text = re.sub(_WORD_HERE.format(form), shown(form), text)
            else:
                text = text.replace(form, shown(form))
        return text


def _forms(value: str) -> tuple[str, ...]:
    """How texts quote a value: as it is, in SQL, in JSON, in a JAAS line, in Python, in a URL; and line by line."""
    found: set[str] = set()
    for secret in _parts(value):
        lines = [line for line in secret.splitlines() if len(line.strip()) >= 8]
        for one in {secret, secret.strip(), *(lines if len(lines) > 1 else ())}:
            jaas = one.replace("\\", "\\\\").replace('"', '\\"')
            plain = {one, one.replace("'", "''"), jaas, jaas.replace("'", "''")}
            plain |= {one.replace("\\", "\\\\").replace("'", "\\'"), repr(one)[1:-1]}
            for each in plain:
                found |= {each, json.dumps(each)[1:-1], json.dumps(each, ensure_ascii=False)[1:-1]}
            found |= {quote(one, safe=""), quote(one), quote_plus(one), unquote(one)}
    return tuple(
        f for f in found if len(f) >= SHORTEST and f.lower() not in _PLAIN_WORDS and f not in HIDDEN
    )


def _parts(value: str) -> Iterator[str]:
    """What of an option's value is secret: all of it, but for URLs; and the passwords that are a part of it."""
    for found in URL_PASSWORD.finditer(value):
        yield found[2]
    for found in _QUERY.finditer(value):
        if _is_secret_parameter(found[1]):
            yield found[2]
    if _URL.fullmatch(value):
        return
    yield value
    for found in _JAAS_VALUE.finditer(value):
        if is_secret_key(found[1]):
            yield re.sub(r"\\(.)", r"\1", found[2], flags=re.DOTALL)
    yield from re.findall(r"^(?:[^\s:]+:|(?:Bearer|Basic)\s+)(\S{6,})$", value)  # client:secret


KNOWN = KnownSecrets()
remember_secret = KNOWN.add


def hide_known(text: str) -> str:
    """A text with stars over the secrets that are known: its length stays."""
    return KNOWN.hide(text, lambda form: re.sub(r"\S", "*", form))


# -- by the words around it ---------------------------------------------------------------------


def _is_secret_parameter(name: str) -> bool:
    return is_secret_key(name) or bool(_SECRET_PARAMETER.fullmatch(name.lower()))


def without_passwords(text: str, shown: Callable[[str], str] = lambda value: HIDDEN) -> str:
    """A text with the passwords of URLs (scheme://user:password@host), and secrets among their parameters, hidden."""

    def hide(found: re.Match[str]) -> str:
        return found[0] if _PLACEHOLDERS.fullmatch(found[2]) else found[1] + shown(found[2])

    def hide_parameter(found: re.Match[str]) -> str:
        if _PLACEHOLDERS.fullmatch(found[2]) or not _is_secret_parameter(found[1]):
            return found[0]
        return f"{found[1]}={shown(found[2])}"

    if "://" in text:
        text = URL_PASSWORD.sub(hide, text)
    return _QUERY.sub(hide_parameter, text) if "?" in text else text


def mask_secrets(text: str) -> str:
    """A message of any origin without secrets: those that are known, passwords of URLs, values of secret settings
    (name=value, name: value, name -> value), bearer tokens and private keys."""
    text = without_passwords(KNOWN.hide(text))
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEY.sub(HIDDEN, text)
    if any(sign in text for sign in "=:>"):
        text = _without_settings(text)
    return _BEARER.sub(rf"\1\2{HIDDEN}", text)


def _without_settings(text: str) -> str:
    pieces: list[str] = []
    copied = 0
    for found in _KEY.finditer(text):
        if found.start() < copied or not is_secret_key(found["key"]):
            continue
        value = _VALUE.match(text, found.end())
        if value is None or _PLACEHOLDERS.fullmatch(value[0].strip("\"'") or HIDDEN):
            continue
        bare = not found["quote"] and value[0][0] not in "\"'"
        if (
            found["sign"].strip() == ":"
            and bare
            and not _is_setting(found["key"], text, value.end())
        ):
            continue
        pieces += [text[copied : found.end()], HIDDEN]
        copied = value.end()
    return "".join(pieces) + text[copied:]


def _is_setting(key: str, text: str, end: int) -> bool:
    """Whether `key: word` is a setting rather than the beginning of a sentence, by what comes after."""
    named = bool(_SOLE_WORDS.fullmatch(key.lower()) or _COMPOUND.search(key))
    return named and not _MORE_WORDS.match(text, end)


class MaskingFormatter(logging.Formatter):
    """Formats log records, with their tracebacks, without the secrets in them."""

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record."""
        return mask_secrets(super().format(record))
