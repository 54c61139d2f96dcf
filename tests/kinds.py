"""Kinds of columns, and the parts that the texts of random queries are made of.

A text may say something in two ways (`either`): what DuckDB does not know, or means otherwise, is written for it in
other words. `ours` and `theirs` give the two texts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from icestream import types as t
from icestream.types import Type

# What may be done with a column. LONG is a bigint of small values, BIG one of large ones; WIDE, MEAN and LIST are
# results that are shown, compared or stored, but not computed with.
INT, LONG, BIG, NUM, DBL, STR, BOOL, TS = "int", "long", "big", "num", "dbl", "str", "bool", "ts"
WIDE, MEAN, LIST = "wide", "mean", "list"
TYPES: dict[str, Type] = {
    INT: t.INTEGER, LONG: t.BIGINT, BIG: t.BIGINT, NUM: t.NUMERIC, DBL: t.DOUBLE,
    STR: t.VARCHAR, BOOL: t.BOOLEAN, TS: t.TIMESTAMP,
}  # fmt: skip
SIMPLE = (*TYPES, WIDE)
ORDERED = tuple(k for k in SIMPLE if k != BOOL)


@dataclass(frozen=True)
class Column:
    """A column: its name and kind."""

    name: str
    kind: str

    @property
    def type(self) -> Type:
        """Its SQL type."""
        return TYPES[self.kind]


@dataclass(frozen=True)
class Col:
    """A column that an expression may use: how it is written there, and its kind."""

    text: str
    kind: str


@dataclass(frozen=True)
class Rel:
    """A SELECT, and the columns that it gives. `open`: those whose value is a choice among ties."""

    text: str
    columns: tuple[Column, ...]
    open: tuple[str, ...] = ()


@dataclass
class From:
    """A FROM clause, and the columns in it."""

    text: str
    cols: list[Col]


_EITHER = re.compile("\x01([^\x01\x02\x03]*)\x02([^\x01\x02\x03]*)\x03")


def either(ours: str, theirs: str) -> str:
    """A part of a text that is said in two ways."""
    return f"\x01{ours}\x02{theirs}\x03"


def ours(text: str) -> str:
    """The text as the engine reads it."""
    return _resolve(text, r"\1")


def theirs(text: str) -> str:
    """The text as DuckDB reads it."""
    return _resolve(text, r"\2")


def _resolve(text: str, which: str) -> str:
    while True:
        changed = _EITHER.sub(which, text)  # the innermost first
        if changed == text:
            return text
        text = changed
