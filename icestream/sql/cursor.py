"""A cursor over the tokens of one statement: what the recursive-descent grammar is written with.

Every `expect…` either consumes and returns what was asked for, or raises a SqlError that says what was
expected, what was found, and where.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NoReturn

from icestream import interrupts
from icestream.errors import NotSupportedError, Place, SqlError, did_you_mean
from icestream.secrecy import seems_secret_key
from icestream.sql.environment import escape_placeholders
from icestream.sql.keywords import RESERVED
from icestream.sql.masking import escape_variables
from icestream.sql.source import Source
from icestream.sql.statements import Name
from icestream.sql.tokens import Token, Tokens

_MAX_DIGITS = 18
_OPENING = {"(", "["}
_CLOSING = {")", "]"}


def is_list_start(words: Sequence[str], at: int) -> bool:
    """Whether the bracket at that index begins a list of options."""
    before = words[at - 1] if at else ""
    return before in ("WITH", "SET") or (at > 1 and words[at - 2] == "ENCODE")


class Cursor:
    """Moves over the tokens of one statement, from the first to the end token.

    `start` and `text` are the place and the text of the whole statement.
    """

    def __init__(self, tokens: Tokens, statement: tuple[Token, ...], end: int) -> None:
        self.all = tokens
        self._tokens = statement
        self._end = Token("end", "", end, end)
        self._index = 0
        self.start = self.place()
        self.text = self.written(statement[0], statement[-1]) if statement else ""
        if self.source.of_client and "${" in self.text and self.at_definition():
            self.text = escape_variables(self.text)

    def is_system_query(self) -> bool:
        """Whether the statement is a query about the system."""
        words = {t.text.lower() for t in self._tokens if t.kind in ("word", "name")}
        return self.all.is_system_query(words, self.text)

    def at_definition(self) -> bool:
        """Whether the statement has options: CREATE or ALTER."""
        return self.at("CREATE") or self.at("ALTER")

    def rest(self) -> Cursor:
        """A cursor of its own over what is left: the statement after EXPLAIN."""
        return Cursor(self.all, self._tokens[self._index :], self._end.start)

    def part(self, first: Token, last: Token) -> Cursor:
        """A cursor of its own over the tokens from one to another: the query in the brackets of COPY."""
        return Cursor(self.all, self.all.between(first.start, last.end), last.end)

    @property
    def source(self) -> Source:
        """The text under the cursor."""
        return self.all.source

    def peek(self, ahead: int = 0) -> Token:
        """The next token, or one further on; past the last one: the end token."""
        at = self._index + ahead
        return self._tokens[at] if 0 <= at < len(self._tokens) else self._end

    def next(self) -> Token:
        """Consume one token."""
        token = self.peek()
        self._index += 1
        return token

    @property
    def last(self) -> Token:
        """The token consumed last (the next one, at the start)."""
        return self.peek(-1) if self._index else self.peek()

    def place(self, token: Token | None = None) -> Place:
        """The place of a token; without one, of the next."""
        return self.source.place((token or self.peek()).start)

    def written(self, first: Token, last: Token) -> str:
        """The text from one token to another, as it was written."""
        return self.source.written(first.start, last.end)

    def since(self, first: Token) -> str:
        """The text from a token to the one consumed last."""
        return self.written(first, self.last)

    # keywords and operators

    def at(self, *words: str, ahead: int = 0) -> bool:
        """Whether these words (upper case) or operators come next, one after the other."""
        return all(self.peek(ahead + i).upper == word for i, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Consume the words if they come next."""
        if not self.at(*words):
            return False
        self._index += len(words)
        return True

    def expect(self, *words: str) -> Token:
        """Consume the words or fail; gives the first."""
        first = self.peek()
        for word in words:
            if not self.accept(word):
                self.fail(word)
        return first

    # names and literals

    def identifier(self, what: str) -> str:
        """A name: folded to lower case unless it is quoted."""
        token = self.peek()
        if token.kind == "word" and token.text.lower() in RESERVED:
            self.fail(what, remedy=f'{token.text} is a reserved word: write "{token.text.lower()}"')
        if token.kind == "name" and not token.text:
            raise SqlError("a quoted name cannot be empty", place=self.place())
        if token.kind not in ("word", "name"):
            self.fail(what)
        self.next()
        return token.text if token.kind == "name" else token.text.lower()

    def name(self, what: str) -> Name:
        """[schema.]name"""
        place = self.place()
        parts = [self.identifier(what)]
        while self.accept("."):
            parts.append(self.identifier(what))
        if len(parts) > 2:
            raise NotSupportedError(
                f"the database in {'.'.join(parts)}", place=place, remedy="write schema.name"
            )
        return Name(parts[-1], parts[0] if len(parts) == 2 else None, place)

    def identifiers(self, what: str) -> tuple[str, ...]:
        """(a, b, …)"""
        self.expect("(")
        found = [self.identifier(what)]
        while self.accept(","):
            found.append(self.identifier(what))
        self.expect(")")
        return tuple(found)

    def string(self, what: str) -> str:
        """A string literal, as written."""
        if self.peek().kind != "string":
            self.fail(what)
        return self.next().text

    def variable_string(self, what: str) -> str:
        """A string literal in which `${NAME}` has a meaning: it is still in it, but it is set.

        A client's is data: it is written `$${NAME}`, as in the text of the statement.
        """
        token = self.peek()
        if token.kind == "string":
            self.source.check_variables(token.start, token.end)
        text = self.string(what)
        return escape_placeholders(text) if self.source.of_client else text

    def integer(self, what: str) -> int:
        """A whole number."""
        if self.peek().kind != "number" or not self.peek().text.isdigit():
            self.fail(what)
        if len(self.peek().text) > _MAX_DIGITS:
            self.fail(f"{what} of at most {_MAX_DIGITS} digits")
        return int(self.next().text)

    def word(self, what: str, known: Iterable[str]) -> str:
        """One of the known words (upper case), or an error with the nearest."""
        known = tuple(known)
        token = self.peek()
        if token.upper not in known:
            remedy = did_you_mean(token.text, known) if token.kind == "word" else None
            self.fail(what, remedy=remedy or f"one of {', '.join(known)}")
        self.next()
        return token.upper

    # stretches of tokens

    def stretch(self, *stops: tuple[str, ...], what: str) -> tuple[Token, Token]:
        """Consume up to the first stop outside brackets, an unmatched bracket, or the end."""
        first = self.peek()
        depth = 0
        tokens = self._tokens
        while self._index < len(tokens):
            interrupts.check()
            token = tokens[self._index]
            if (token.text == "," and depth) or token.kind in ("string", "number"):
                self._index += 1  # neither a stop nor a bracket: lists may have 100,000 of them
                continue
            upper = token.upper
            if upper in _OPENING:
                depth += 1
            elif upper in _CLOSING:
                if not depth:
                    break
                depth -= 1
            elif not depth and any(self.at(*stop) for stop in stops):
                break
            if upper != "IS" or not self.accept("IS", "NOT", "NULL"):  # NOT NULL may be a stop
                self._index += 1
        if self.peek() is first:
            self.fail(what)
        return first, self.last

    # failures

    def found(self) -> str:
        """The next token as an error names it."""
        token = self.peek()
        if token.kind == "string" or "'" in token.text:
            return "a string"  # it may be a secret
        if token.kind in ("word", "name", "number") and self._may_be_secret():
            return f"a {token.kind}"
        return self.written(token, token) if token.kind != "end" else "the end of the statement"

    def _may_be_secret(self) -> bool:
        """Whether the next token stands where a secret does: behind the name of one, or of an option that holds one."""
        before = self._tokens[: self._index]
        words = [t.upper for t in before]
        if words[:1] in (["CREATE"], ["ALTER"]) and "SECRET" in words[1:4]:
            return words.index("SECRET") + 1 < len(words)
        opened = max((i for i, w in enumerate(words) if w in ("(", ",")), default=-1)
        key = ""
        for token in before[opened + 1 :]:
            if token.upper in ("=", ":=", ":", "=>", "->"):
                break
            key += token.text
        in_list = any(is_list_start(words, i) for i, w in enumerate(words) if w == "(")
        return in_list and bool(key) and seems_secret_key(key)

    def fail(self, expected: str, *, remedy: str | None = None) -> NoReturn:
        """Raise: expected …, found …"""
        raise SqlError(
            f"expected {expected}, found {self.found()}",
            place=self.place(),
            remedy=remedy,
            code="42601",
        )

    def refuse_parameters(self) -> None:
        """Fail at the first parameter of a statement that takes none, as in PostgreSQL."""
        if not self.source.of_client or "$" not in self.source.text:
            return
        for token, after in pairwise(self._tokens):
            if token.upper == "$" and after.kind == "number":
                raise SqlError(
                    "there is no parameter $1",
                    place=self.place(token),
                    code="42P02",
                    remedy=f"write the value into the text: {self._tokens[0].upper} takes no parameters",
                )

    def finish(self, expected: str = "the end of the statement") -> None:
        """Fail unless everything was consumed."""
        if self.peek().kind != "end":
            self.fail(expected)
