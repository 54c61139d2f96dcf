"""Text → tokens: sqlglot's tokenizer, with what the grammar of statements needs on top.

A `Token` is one word, name, string, number or operator with its offsets. Next to them the raw tokens of
sqlglot are kept, from which `sql.queries` makes trees: same text, same offsets.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from sqlglot.errors import TokenError
from sqlglot.tokens import Token as RawToken
from sqlglot.tokens import TokenType

from icestream import interrupts
from icestream.errors import SqlError
from icestream.sql.dialect import Dialect
from icestream.sql.source import Source, scan

Kind = Literal["word", "name", "string", "number", "operator", "end"]

_ESCAPE = re.compile(
    rb"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-7]{1,3})|(.))", re.DOTALL
)
_KINDS: dict[Any, Kind] = {
    TokenType.STRING: "string",
    TokenType.IDENTIFIER: "name",
    TokenType.NUMBER: "number",
    **dict.fromkeys((TokenType.COMMA, TokenType.L_PAREN, TokenType.R_PAREN), "operator"),
}
"""Tokens of sqlglot that are one of ours."""
_PARAMETER = re.compile(r"(?<![\w$])\$(?P<number>[0-9]+)")
_ESCAPED = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}


class Token(NamedTuple):
    """A word (unquoted), name (quoted), string, number or operator, or the end of a statement.

    A tuple: a text may have a million of them, and a frozen dataclass takes three times as long to make.
    """

    kind: Kind
    text: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        """The text as keywords and operators are compared; nothing for names and literals."""
        return self.text.upper() if self.kind in ("word", "operator") else ""


IsSystemQuery = Callable[[Collection[str], str], bool]
"""Whether a query with these words and this text is about the system: the server answers it, in another dialect."""


@dataclass(frozen=True)
class Tokens:
    """The tokens of a source, both ours and sqlglot's."""

    source: Source
    tokens: tuple[Token, ...]
    raw: tuple[Any, ...] = field(repr=False)
    is_system_query: IsSystemQuery = field(default=lambda words, text: False, repr=False)

    def between(self, start: int, end: int) -> tuple[Token, ...]:
        """The tokens that lie in [start, end)."""
        first = bisect.bisect_left(self.tokens, start, key=lambda token: token.start)
        last = bisect.bisect_left(self.tokens, end, key=lambda token: token.start)
        return self.tokens[first:last]

    def raw_between(self, start: int, end: int) -> list[Any]:
        """sqlglot's tokens that lie in [start, end)."""
        first = bisect.bisect_left(self.raw, start, key=lambda raw: raw.start)
        last = bisect.bisect_left(self.raw, end, key=lambda raw: raw.start)
        return list(self.raw[first:last])


def tokenize(source: Source, is_system_query: IsSystemQuery = lambda words, text: False) -> Tokens:
    """All tokens of a source."""
    parameters = _parameters(source.text)
    try:
        raw = Dialect().tokenize(_with_parameter_names(source.text, parameters))
    except TokenError as error:
        # Literals and comments are known to end here; what is left are marks of template languages.
        place = source.place(error.end or 0)
        # Its own message quotes the text, with the secrets in it.
        raise SqlError("this text cannot be cut into words", place=place) from None
    _check(raw, source)
    if parameters:
        raw = [part for token in raw for part in _parameter_tokens(token, source, parameters)]
    plain = tuple(_plain(token, source) for token in raw)
    tokens = tuple(token for one in plain for token in _split(one, source))
    return Tokens(source, tokens, plain, is_system_query)


def _parameters(text: str) -> dict[int, int]:
    """Where the parameters of a text ($1) start and end, outside of comments, literals and quoted names."""
    if "$" not in text:
        return {}
    ends: dict[int, int] = {}
    start = 0
    for region in (*scan(text), None):
        for mark in _PARAMETER.finditer(text, start, region.start if region else len(text)):
            interrupts.check()
            ends[mark.start()] = mark.end()
        start = region.end if region else start
    return ends


def _with_parameter_names(text: str, parameters: Collection[int]) -> str:
    """The text with `p1` for `$1`: sqlglot reads `$1,$` as the start of a literal."""
    pieces: list[str] = []
    copied = 0
    for start in parameters:
        pieces += [text[copied:start], "p"]
        copied = start + 1
    return "".join(pieces) + text[copied:]


def _parameter_tokens(token: Any, source: Source, parameters: dict[int, int]) -> list[Any]:
    """The sign and the number of a parameter; other tokens as they are."""
    end = parameters.get(token.start)
    if end is None:
        return [token]
    if token.end + 1 != end:
        raise SqlError(
            "trailing junk after parameter", place=source.place(token.start), code="42601"
        )
    start = token.start
    return [
        RawToken(TokenType.PARAMETER, "$", start=start, end=start),
        RawToken(TokenType.NUMBER, source.text[start + 1 : end], start=start + 1, end=end - 1),
    ]


def _check(raw: list[Any], source: Source) -> None:
    """Nothing but space and our comments lies between tokens: sqlglot knows more comments than we do."""
    text = source.text
    if "--" in text or "/*" in text:
        blanked = list(text)
        for region in scan(text):
            if region.kind == "comment":
                blanked[region.start : region.end] = " " * (region.end - region.start)
        text = "".join(blanked)
    end = 0
    for token in raw:
        skipped = text[end : token.start]
        if skipped.strip():
            wrong = source.place(end + len(skipped) - len(skipped.lstrip()))
            raise SqlError("this text cannot be cut into words", place=wrong)
        end = token.end + 1


def _plain(token: Any, source: Source) -> Any:
    """Every kind of quoting gives the same string token; comments do not reach the tree."""
    token.comments = []
    kind = token.token_type
    if kind == TokenType.HEREDOC_STRING:
        return RawToken(TokenType.STRING, token.text, token.line, token.col, token.start, token.end)
    if kind == TokenType.BYTE_STRING and source.text[token.start] in "eE":
        value = _unescape(source, token.start, token.end)
        return RawToken(TokenType.STRING, value, token.line, token.col, token.start, token.end)
    return token


def _unescape(source: Source, start: int, end: int) -> str:
    """The text of E'…'. \\x and octal numbers are bytes, which may be parts of a letter."""
    place = source.place(start)
    half = 0  # the first of a surrogate pair, which the second must follow at once

    def value(found: re.Match[bytes]) -> bytes:
        byte, short, long, octal, letter = found.groups()
        if half and not (short or long):
            raise SqlError("invalid Unicode surrogate pair", place=place, code="42601")
        if code := short or long:
            return letter_of(int(code, 16), found)
        if letter in (b"u", b"U"):
            raise SqlError(
                "invalid Unicode escape",
                place=place,
                remedy="Unicode escapes must be \\uXXXX or \\UXXXXXXXX",
                code="22025",
            )
        if byte or octal:
            return bytes([int(byte, 16) if byte else int(octal, 8) & 255])
        return _ESCAPED.get(letter, letter)

    def letter_of(number: int, found: re.Match[bytes]) -> bytes:
        nonlocal half
        if half:
            first, half = half, 0
            if 0xDC00 <= number < 0xE000:
                return chr(0x10000 + (first - 0xD800) * 0x400 + number - 0xDC00).encode()
        elif 0xD800 <= number < 0xDC00 and _ESCAPE.match(body, found.end()):
            half = number
            return b""
        elif number <= 0x10FFFF and not 0xD800 <= number < 0xE000:
            return chr(number).encode()
        if number > 0x10FFFF:
            raise SqlError("invalid Unicode escape value", place=place, code="42601")
        raise SqlError("invalid Unicode surrogate pair", place=place, code="42601")

    body = source.text[start + 2 : end].replace("''", "'").encode()
    made = _ESCAPE.sub(value, body)
    if half:
        raise SqlError("invalid Unicode surrogate pair", place=place, code="42601")
    try:
        text = made.decode()
    except UnicodeDecodeError as error:
        wrong = made[error.start]
        raise SqlError(
            f'invalid byte sequence for encoding "UTF8": 0x{wrong:02x}', place=place, code="22021"
        ) from None
    if "\0" in text:
        message = 'invalid byte sequence for encoding "UTF8": 0x00'
        raise SqlError(message, place=place, code="22021")
    return text


def _split(raw: Any, source: Source) -> list[Token]:
    """Our tokens of one of sqlglot's: PRIMARY KEY is two words, >> closes two structs."""
    interrupts.check()
    start, end = raw.start, raw.end + 1
    written = source.text[start:end]
    if kind := _KINDS.get(raw.token_type):
        return [Token(kind, written if kind == "number" else raw.text, start, end)]
    if "'" in written:  # X'…', B'…', U&'…': literals that only queries may hold
        return [Token("operator", written, start, end)]
    if written == ">>":
        return [Token("operator", ">", start, start + 1), Token("operator", ">", start + 1, end)]
    if not (written[0].isalpha() or written[0] == "_"):
        return [Token("operator", written, start, end)]
    return [
        Token("word", word[0], start + word.start(), start + word.end())
        for word in re.finditer(r"\S+", written)
    ]
