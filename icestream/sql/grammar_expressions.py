"""Expressions in PostgreSQL's grammar: operators as tightly as they bind, and their operands."""

from __future__ import annotations

from icestream import interrupts
from icestream.sql.grammar_calls import TYPES, Calls
from icestream.sql.grammar_words import GOES_ON, LITERALS, NAME, NUMBER, QUERIES, STRING
from icestream.sql.keywords import OPERATORS

_TESTS = (
    "NOT", "NULL", "TRUE", "FALSE", "UNKNOWN", "DISTINCT", "DOCUMENT", "NORMALIZED", "NFC", "NFD", "NFKC", "NFKD",
)  # fmt: skip
_MATCHES = ("LIKE", "ILIKE", "SIMILAR", "IN", "BETWEEN")
_OR, _AND, _NOT, _IS, _COMPARISON, _LIKE, _OP, _ADD, _MUL, _POWER, _AT, _COLLATE, _SIGN, _CAST = (
    range(1, 15)
)
_LEVELS = {
    "OR": _OR, "AND": _AND, "IS": _IS, "ISNULL": _IS, "NOTNULL": _IS,
    **dict.fromkeys(("<", ">", "=", "<=", ">=", "<>", "!="), _COMPARISON),
    **dict.fromkeys(_MATCHES, _LIKE), "+": _ADD, "-": _ADD, "*": _MUL, "/": _MUL, "%": _MUL, "^": _POWER,
    "COLLATE": _COLLATE, "::": _CAST,
}  # fmt: skip
_RESTRICTED = (_COMPARISON, _OP, _ADD, _MUL, _POWER, _CAST)
"""The operators that a lower bound of BETWEEN may have outside brackets."""
_NOW = ("CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP")
_VALUES = (
    "NULL", "TRUE", "FALSE", "CURRENT_DATE", "CURRENT_ROLE", "CURRENT_USER", "SESSION_USER", "USER", "CURRENT_CATALOG",
)  # fmt: skip


class Expressions(Calls):
    """Moves over expressions. Queries in them are read by who takes this over."""

    def query(self) -> None:
        """A query without brackets around it."""
        raise NotImplementedError

    def query_rest(self) -> None:
        """What may follow a query's first operand."""
        raise NotImplementedError

    def expression(self, level: int = 0, restricted: bool = False) -> None:
        """Operands and operators that bind at least as tightly as a level.

        `restricted` is gram.y's b_expr: no AND, OR, NOT, LIKE, IN, BETWEEN and no IS NULL outside brackets.
        """
        interrupts.check()
        word = self.word
        if word in ("+", "-"):
            self.at += 1
            self.expression(_SIGN, restricted)
        elif word == "NOT" and not restricted:
            self.at += 1
            self.expression(_NOT)
        elif word in OPERATORS and self.level() == _OP:
            self.at += 1
            self.expression(_OP + 1, restricted)
        else:
            self.overlaps(self.primary())
        self.operators(level, restricted)

    def overlaps(self, kind: str) -> None:
        """(a, b) OVERLAPS (c, d)"""
        if kind == "row" and self.accept("OVERLAPS") and self.primary() != "row":
            self.fail()

    def level(self) -> int | None:
        """How tightly the next word binds its operands; None for what is no operator."""
        word = self.word
        if word == "NOT":
            return _LIKE if self.following in _MATCHES else None
        if word == "IS":  # else a label
            return _IS if self.following in _TESTS else None
        if word == "AT":
            return _AT if self.following == "TIME" else None
        if word == "OPERATOR":
            return _OP if self.following == "(" else None
        return _LEVELS.get(word) or (_OP if word in OPERATORS and word != "=>" else None)

    def operators(self, least: int, restricted: bool) -> None:
        """All operators that follow an operand, with their other operands."""
        while (level := self.level()) is not None and level >= least:
            distinct = level == _IS and "DISTINCT" in self.words[self.at + 1 : self.at + 3]
            if restricted and level not in _RESTRICTED and not distinct:
                return
            if level == _CAST:
                self.at += 1
                self.type()
            elif level == _COLLATE:
                self.at += 1
                self.qualified_name()
            elif level == _AT:
                self.expect("AT", "TIME", "ZONE")
                self.expression(level + 1)
            elif level == _IS:
                self.test(restricted)
            elif level == _LIKE:
                self.match()
            else:
                self.binary(level, restricted)

    def binary(self, level: int, restricted: bool) -> None:
        """An operator with a right operand, or with ANY and ALL of many."""
        if self.accept("OPERATOR"):
            self.expect("(")
            while self.following == ".":
                self.label()
                self.at += 1
            if self.word not in OPERATORS:
                self.fail()
            self.at += 1
            self.expect(")")
        else:
            self.at += 1
        if level > _AND and self.quantified():
            return
        self.expression(level + 1, restricted)
        if level == _COMPARISON:
            self.no_more(level)

    def no_more(self, level: int) -> None:
        """Operators of this level do not follow each other: 1 < 2 = true."""
        if self.level() == level:
            self.fail()

    def quantified(self) -> bool:
        """ANY (…), SOME (…) or ALL (…)"""
        if not self.accept_one(("ANY", "SOME", "ALL")):
            return False
        start = self.at
        if self.word != "(" or self.brackets() == "row":
            self.fail(start)
        return True

    def test(self, restricted: bool) -> None:
        """IS …, ISNULL, NOTNULL"""
        if self.accept_one(("ISNULL", "NOTNULL")):
            return
        self.expect("IS")
        self.accept("NOT")
        if self.accept("DISTINCT"):
            self.expect("FROM")
            self.expression(_IS + 1, restricted)
            self.no_more(_IS)
        elif not self.accept_one(("NULL", "TRUE", "FALSE", "UNKNOWN", "NORMALIZED", "DOCUMENT")):
            self.accept_one(("NFC", "NFD", "NFKC", "NFKD"))
            self.expect("NORMALIZED")

    def match(self) -> None:
        """[NOT] LIKE, IN, BETWEEN …"""
        self.accept("NOT")
        if self.accept("IN"):
            self.expect("(")
            if self.word in QUERIES:
                self.query()
                self.expect(")")
            else:
                self.items(")")
            return
        if self.accept("BETWEEN"):
            self.accept_one(("SYMMETRIC", "ASYMMETRIC"))
            self.expression(0, restricted=True)
            self.expect("AND")
            self.expression(_LIKE + 1)
        else:
            similar = self.accept("SIMILAR")
            if similar:
                self.expect("TO")
            else:
                self.at += 1
            if not similar and self.quantified():
                return
            self.expression(_LIKE + 1)
            if self.accept("ESCAPE"):
                self.expression(_LIKE + 1)
        self.no_more(_LIKE)

    def items(self, end: str, *, default: bool = False) -> None:
        """Expressions up to a closing bracket."""
        words = self.words
        while True:
            at = self.at
            if words[at] in LITERALS and words[at + 1] in (",", end):
                self.at += 1  # lists may have 100,000 of them
            elif words[at] == "-" and words[at + 1] == NUMBER and words[at + 2] in (",", end):
                self.at += 2
            elif default and words[at] == "DEFAULT":
                self.at += 1
            else:
                self.expression()
            if words[self.at] != ",":
                break
            self.at += 1
        self.expect(end)

    def brackets(self) -> str:
        """What stands in brackets: a query, a row, or an expression."""
        self.expect("(")
        if self.word in QUERIES:
            self.query()
            self.expect(")")
            return "query"
        if self.word == "(":
            kind = self.brackets()
            if kind == "query" and (self.word == ")" or self.word in GOES_ON):
                self.query_rest()
                self.expect(")")
                return "query"
            if kind != "row":
                self.subscripts()
            self.overlaps(kind)
            self.operators(0, restricted=False)
        else:
            self.expression()
        if self.accept(","):
            self.items(")")
            return "row"
        self.expect(")")
        return "expression"

    def subscripts(self) -> None:
        """.field, .*, [index] and [from:to], any number of them"""
        while True:
            if self.accept("."):
                if not self.accept("*"):
                    self.label()
            elif self.accept("["):
                if self.word != ":":
                    self.expression()
                if self.accept(":") and self.word != "]":
                    self.expression()
                self.expect("]")
            else:
                return

    def primary(self) -> str:
        """An operand: says whether it is a row, a query or something else."""
        word = self.word
        if word in LITERALS:
            self.at += 1
        elif word == "(":
            kind = self.brackets()
            if kind != "row":
                self.subscripts()
            return kind
        elif word == "$":
            self.at += 1
            self.expect(NUMBER)
            self.subscripts()
        elif word == NAME:
            self.named()
        elif word == "ROW" and self.following == "(":
            self.at += 2
            if not self.accept(")"):
                self.items(")")
            return "row"
        elif rule := self.rules.get(word):
            if self.following == "(" or word in ("CASE", "ARRAY"):
                self.at += 1
                rule(self)
                if word != "CASE":
                    self.bracketed_subscripts()
            else:
                self.named()
        elif word in _VALUES:
            self.at += 1
        elif word in _NOW:
            self.at += 1
            if self.accept("("):
                self.accept(NUMBER)
                self.expect(")")
        elif word == "CURRENT_SCHEMA" and self.following != "(":
            self.at += 1
        elif word in TYPES:
            self.typed_literal()
        else:
            self.named()
        return "expression"

    def typed_literal(self) -> None:
        """INTERVAL '1' DAY, TIMESTAMP WITH TIME ZONE '…'; without a literal it is a column."""
        start = self.at
        if self.accept("INTERVAL"):
            self.size()
            if self.accept(STRING):
                self.interval_unit()
                return
        else:
            self.simple_type()
            if self.accept(STRING):
                return
        if self.at > start + 1:
            self.fail()
        self.at = start
        self.named()

    def named(self) -> None:
        """A column, a function's call, or a literal of a type that is named."""
        start = self.at
        function, column = self.is_function_name(), self.is_column_name()
        if not function and not column:
            self.fail()
        self.at += 1
        if self.word == "." and self.following != "*":
            if not column:
                self.fail(start)
            self.dotted()
            function = True
        if function and self.word == "(":
            self.call(self.words[start])
            if not self.accept(STRING):
                self.bracketed_subscripts()
        elif function and self.word == STRING:
            self.at += 1
        elif not column:
            self.fail()
        else:
            self.subscripts()

    def bracketed_subscripts(self) -> None:
        """f(x)[1], which is RisingWave's"""
        if self.word == "[":
            self.subscripts()
