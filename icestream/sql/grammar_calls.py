"""Calls and types in PostgreSQL's grammar: what stands in the brackets of a function, windows, CASE, and what follows ::."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from icestream.sql.dialect import MORE_UNITS, UNITS
from icestream.sql.grammar_words import LITERALS, NUMBER, STRING, Words

_PLAIN_TYPES = ("INT", "INTEGER", "SMALLINT", "BIGINT", "REAL", "BOOLEAN")
_TEXT_TYPES = ("CHARACTER", "CHAR", "NCHAR", "BIT")
_SIZED_TYPES = ("VARCHAR", "DECIMAL", "DEC", "NUMERIC", "FLOAT")
_TIME_TYPES = ("TIME", "TIMESTAMP")
TYPES = (*_PLAIN_TYPES, *_TEXT_TYPES, *_SIZED_TYPES, *_TIME_TYPES, "NATIONAL", "INTERVAL")
_UNSIZED = frozenset({
    "INT2", "INT4", "INT8", "FLOAT4", "FLOAT8", "BOOL", "TEXT", "BYTEA", "DATE", "JSON", "JSONB", "UUID", "NAME", "OID",
})  # fmt: skip
"""Types that are no key words and take no size."""


class Calls(Words):
    """Functions, aggregates, windows and types. What they are made of is read by those who take this over."""

    def expression(self, level: int = 0, restricted: bool = False) -> None:
        """An operand, or operators with theirs."""
        raise NotImplementedError

    def items(self, end: str, *, default: bool = False) -> None:
        """Expressions up to a closing bracket."""
        raise NotImplementedError

    def order(self) -> None:
        """ORDER BY …"""
        raise NotImplementedError

    def query_in_brackets(self) -> None:
        """(SELECT …)"""
        raise NotImplementedError

    def arguments(self, name: str) -> None:
        """What a function has in its brackets."""
        self.expect("(")
        if self.accept("*"):
            self.expect(")")
        elif not self.accept(")"):
            if not self.accept_one(("ALL", "DISTINCT")) and name == "SESSION":
                self.session_arguments()
            else:
                self.some(self.argument)
                if self.word == "ORDER":
                    self.order()
            self.expect(")")

    def call(self, name: str) -> None:
        """A function's arguments, and what an aggregate may have behind them."""
        self.arguments(name)
        if self.accept("WITHIN", "GROUP"):
            self.expect("(")
            self.order()
            self.expect(")")
        if self.word == "FILTER" and self.following == "(":
            self.at += 2
            self.expect("WHERE")
            self.expression()
            self.expect(")")
        if self.word in ("IGNORE", "RESPECT") and self.following == "NULLS":
            self.at += 2  # the SQL standard's; refused with a message of its own
        if self.accept("OVER"):
            if self.word == "(":
                self.window()
            else:
                self.column_name()

    def session_arguments(self) -> None:
        """relation [PARTITION BY a, …], time, gap: RisingWave's"""
        self.expression()
        if self.accept("PARTITION", "BY"):
            self.expression()
        while self.accept(","):
            self.expression()

    def argument(self) -> None:
        """[name =>] [VARIADIC] value"""
        if self.words[self.at] in LITERALS and self.words[self.at + 1] in (",", ")"):
            self.at += 1
            return
        if self.following in ("=>", ":="):
            self.label()
            self.at += 1
        self.accept("VARIADIC")
        self.expression()

    def window(self) -> None:
        """([name] [PARTITION BY …] [ORDER BY …] [frame])"""
        self.expect("(")
        beginnings = ("PARTITION", "RANGE", "ROWS", "GROUPS", "SESSION")
        if self.is_column_name() and self.word not in beginnings:
            self.at += 1
        if self.accept("PARTITION"):
            self.expect("BY")
            self.some(self.expression)
        if self.word == "ORDER":
            self.order()
        if self.accept("SESSION"):  # RisingWave's
            self.expect("WITH", "GAP")
            self.expression()
        elif self.accept_one(("RANGE", "ROWS", "GROUPS")):
            self.frame()
        self.expect(")")

    def frame(self) -> None:
        """What stands behind ROWS."""
        if self.accept("BETWEEN"):
            self.bound()
            self.expect("AND")
        self.bound()
        if not self.accept("EXCLUDE"):
            return
        if self.accept("CURRENT"):
            self.expect("ROW")
        elif self.accept("NO"):
            self.expect("OTHERS")
        elif not self.accept_one(("GROUP", "TIES")):
            self.fail()

    def bound(self) -> None:
        """An edge of a frame."""
        if self.accept("CURRENT", "ROW"):
            return
        if not self.accept("UNBOUNDED"):
            self.expression()
        if not self.accept_one(("PRECEDING", "FOLLOWING")):
            self.fail()

    def case(self) -> None:
        """CASE [value] WHEN … THEN … [ELSE …] END"""
        if self.word != "WHEN":
            self.expression()
        self.expect("WHEN")
        while True:
            self.expression()
            self.expect("THEN")
            self.expression()
            if not self.accept("WHEN"):
                break
        if self.accept("ELSE"):
            self.expression()
        self.expect("END")

    def cast(self) -> None:
        """CAST(value AS type)"""
        self.expect("(")
        self.expression()
        self.expect("AS")
        self.type()
        self.expect(")")

    def array(self) -> None:
        """ARRAY[…] or ARRAY(query)"""
        if self.word == "(":
            self.query_in_brackets()
        else:
            self.array_items()

    def array_items(self) -> None:
        """[a, b], or arrays of one size in each other"""
        self.expect("[")
        if self.accept("]"):
            return
        if self.word == "[":
            self.some(self.array_items)
            self.expect("]")
        else:
            self.items("]")

    def values(self) -> None:
        """(a, b, …)"""
        self.expect("(")
        self.items(")")

    def pair(self) -> None:
        """(a, b)"""
        self.expect("(")
        self.expression()
        self.expect(",")
        self.expression()
        self.expect(")")

    def extract(self) -> None:
        """EXTRACT(field FROM value)"""
        self.expect("(")
        if not self.accept(STRING):
            self.label()
        self.expect("FROM")
        self.expression()
        self.expect(")")

    def position(self) -> None:
        """POSITION(a IN b)"""
        self.expect("(")
        self.expression(0, restricted=True)
        if not self.accept(","):  # RisingWave's
            self.expect("IN")
        self.expression(0, restricted=True)
        self.expect(")")

    def overlay(self) -> None:
        """OVERLAY(a PLACING b FROM c [FOR d]), or plain arguments"""
        self.expect("(")
        self.argument()
        if self.accept("PLACING"):
            self.expression()
            self.expect("FROM")
            self.expression()
            if self.accept("FOR"):
                self.expression()
        else:
            while self.accept(","):
                self.argument()
        self.expect(")")

    def substring(self) -> None:
        """SUBSTRING(a FROM b FOR c), SUBSTRING(a SIMILAR b ESCAPE c), or plain arguments"""
        self.expect("(")
        self.argument()
        if self.accept("FROM"):
            self.expression()
            if self.accept("FOR"):
                self.expression()
        elif self.accept("FOR"):
            self.expression()
            if self.accept("FROM"):
                self.expression()
        else:
            while self.accept(","):
                self.argument()
        self.expect(")")

    def trim(self) -> None:
        """TRIM([BOTH] [letters FROM] text), or plain arguments"""
        self.expect("(")
        self.accept_one(("BOTH", "LEADING", "TRAILING"))
        if self.accept("FROM"):
            self.items(")")
            return
        self.expression()
        if self.accept("FROM") or self.accept(","):
            self.items(")")
        else:
            self.expect(")")

    rules: ClassVar[dict[str, Callable[[Calls], None]]] = {
        "CASE": case, "CAST": cast, "TRY_CAST": cast, "ARRAY": array, "EXISTS": lambda g: g.query_in_brackets(), "COALESCE": values,
        "GREATEST": values, "LEAST": values, "GROUPING": values, "NULLIF": pair, "EXTRACT": extract,
        "POSITION": position, "OVERLAY": overlay, "SUBSTRING": substring, "TRIM": trim,
    }  # fmt: skip

    # -- types ------------------------------------------------------------------------------------

    def type(self) -> None:
        """A type with any number of []."""
        self.accept("SETOF")
        if self.word == "STRUCT" and self.following.startswith("<"):  # RisingWave's
            self.at += 1
            self.struct()
        elif self.accept("MAP", "("):  # RisingWave's
            self.type()
            self.expect(",")
            self.type()
            self.expect(")")
        else:
            self.simple_type()
        if self.accept("ARRAY"):
            if self.accept("["):
                self.expect(NUMBER, "]")
            return
        while self.accept("["):
            self.accept(NUMBER)
            self.expect("]")

    def struct(self) -> None:
        """<name type, …>"""
        self.expect("<")
        self.some(self.field)
        if self.word == ">>":  # it closes the one around it as well
            self.words[self.at] = ">"
        else:
            self.expect(">")

    def field(self) -> None:
        """name type"""
        self.label()
        self.type()

    def simple_type(self) -> None:
        """A type without []."""
        word = self.word
        if self.accept_one(_PLAIN_TYPES):
            return
        if self.accept_one(_SIZED_TYPES):
            if self.accept("("):
                self.items(")")
        elif word in _TEXT_TYPES or word == "NATIONAL":
            self.at += 1
            if word == "NATIONAL" and not self.accept_one(("CHAR", "CHARACTER")):
                self.fail()
            self.accept("VARYING")
            self.size()
        elif self.accept_one(_TIME_TYPES):
            self.size()
            if self.word in ("WITH", "WITHOUT") and self.following == "TIME":
                self.at += 1
                self.expect("TIME", "ZONE")
        elif self.accept("INTERVAL"):
            if not self.size():
                self.interval_unit()
        elif self.accept("DOUBLE", "PRECISION"):
            return
        else:
            if not self.is_function_name():
                self.fail()
            self.at += 1
            self.dotted()
            if self.word == "(":
                if word in _UNSIZED:
                    self.fail()
                self.at += 1
                self.items(")")

    def size(self) -> bool:
        """(n), if it is there"""
        if not self.accept("("):
            return False
        self.expect(NUMBER, ")")
        return True

    def interval_unit(self) -> None:
        """DAY, DAY TO SECOND, SECOND(3), or nothing"""
        if self.accept_one(MORE_UNITS) or not self.accept_one(UNITS):
            return
        if self.accept("TO") and not self.accept_one(UNITS):
            self.fail()
        if self.words[self.at - 1] == "SECOND":
            self.size()
