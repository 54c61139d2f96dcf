"""The words of a text, as PostgreSQL cuts them, and how the grammar moves over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from icestream.errors import SignalError
from icestream.sql.keywords import COLUMN_NAMES, FUNCTION_NAMES, RESERVED

STRING, NUMBER, NAME, END = "'", "0", '"', ""
"""What stands for a literal, a quoted name and the end. Words stand for themselves, in upper case."""
LITERALS = (STRING, NUMBER)
QUERIES = ("SELECT", "VALUES", "WITH", "TABLE")
GOES_ON = ("UNION", "INTERSECT", "EXCEPT", "ORDER", "LIMIT", "OFFSET", "FETCH", "FOR")
_RESERVED = frozenset(word.upper() for word in RESERVED)


class GrammarError(SignalError):
    """The text leaves the grammar at this word."""

    def __init__(self, at: int) -> None:
        self.at = at


class Words:
    """Moves over words, or raises where the next is not what a rule asks for."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.at = 0

    @property
    def word(self) -> str:
        """The next word."""
        return self.words[self.at]

    @property
    def following(self) -> str:
        """The word after the next."""
        return self.words[self.at + 1] if self.at + 1 < len(self.words) else END

    def fail(self, at: int | None = None) -> NoReturn:
        """No rule fits here."""
        raise GrammarError(self.at if at is None else at)

    def accept(self, *words: str) -> bool:
        """Go past these words if they come next."""
        end = self.at + len(words)
        if self.words[self.at : end] != list(words):
            return False
        self.at = end
        return True

    def accept_one(self, words: Sequence[str]) -> bool:
        """Go past one of these words."""
        if self.word not in words:
            return False
        self.at += 1
        return True

    def expect(self, *words: str) -> None:
        """Go past these words or fail at the first that differs."""
        for word in words:
            if self.words[self.at] != word:
                self.fail()
            if word != END:
                self.at += 1

    def is_word(self) -> bool:
        """Whether the next is a key word or a name without quotes."""
        return self.word[:1].isidentifier()

    def column_name(self) -> None:
        """The name of a column, relation or window."""
        if not self.is_column_name():
            self.fail()
        self.at += 1

    def is_column_name(self) -> bool:
        """Whether a column or relation may be named so."""
        word = self.word
        if word == NAME:
            return True
        return self.is_word() and word not in _RESERVED and word not in FUNCTION_NAMES

    def label(self) -> None:
        """Any word."""
        if self.word != NAME and not self.is_word():
            self.fail()
        self.at += 1

    def names(self) -> None:
        """(a, b, …)"""
        self.expect("(")
        self.some(self.column_name)
        self.expect(")")

    def some(self, rule: Callable[[], object]) -> None:
        """One or more, with commas between them."""
        rule()
        while self.accept(","):
            rule()

    def is_function_name(self) -> bool:
        """Whether a function may be named so."""
        word = self.word
        if word == NAME:
            return True
        return self.is_word() and word not in _RESERVED and word not in COLUMN_NAMES

    def qualified_name(self) -> None:
        """[database.][schema.]name"""
        self.column_name()
        self.dotted()

    def dotted(self) -> None:
        """.name.name"""
        while self.word == "." and self.following != "*":
            self.at += 1
            self.label()
