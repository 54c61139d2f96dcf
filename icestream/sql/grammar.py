"""PostgreSQL's grammar of queries over the words of a text: where a text leaves it, if it does.

sqlglot makes the trees, but takes the syntax of thirty databases and forgets some of what it takes: a comma too many,
a join without a condition, a second LIMIT. Its trees cannot show that. So each text is read once more here, by the rules of
PostgreSQL's gram.y; nothing is built. What RisingWave has on top is marked with its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import ClassVar, NoReturn

from icestream import interrupts
from icestream.errors import NotSupportedError, SqlError
from icestream.sql.dialect import MORE_UNITS, UNITS
from icestream.sql.keywords import (
    COLUMN_NAMES,
    FUNCTION_NAMES,
    NO_BARE_LABELS,
    OPERATORS,
    RESERVED,
)
from icestream.sql.source import Source
from icestream.sql.tokens import Token

STRING, NUMBER, NAME, END = "'", "0", '"', ""
"""What stands for a literal, a quoted name and the end. Words stand for themselves, in upper case."""
_OPERATOR = re.compile(r"[-+*/<>=~!@#%^&|`?]+")
_RESERVED = frozenset(word.upper() for word in RESERVED)
_LITERALS = (STRING, NUMBER)
_QUERIES = ("SELECT", "VALUES", "WITH", "TABLE")
_GOES_ON = ("UNION", "INTERSECT", "EXCEPT", "ORDER", "LIMIT", "OFFSET", "FETCH", "FOR")
_SIDES = ("LEFT", "RIGHT", "FULL")
_JOINS = ("JOIN", "CROSS", "NATURAL", "INNER", *_SIDES)
_VERSIONS = ("SYSTEM_TIME", "SYSTEM_VERSION", "VERSION", "TIMESTAMP")
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
_PLAIN_TYPES = ("INT", "INTEGER", "SMALLINT", "BIGINT", "REAL", "BOOLEAN")
_TEXT_TYPES = ("CHARACTER", "CHAR", "NCHAR", "BIT")
_SIZED_TYPES = ("VARCHAR", "DECIMAL", "DEC", "NUMERIC", "FLOAT")
_TIME_TYPES = ("TIME", "TIMESTAMP")
_TYPES = (*_PLAIN_TYPES, *_TEXT_TYPES, *_SIZED_TYPES, *_TIME_TYPES, "NATIONAL", "INTERVAL")
_UNSIZED = frozenset({
    "INT2", "INT4", "INT8", "FLOAT4", "FLOAT8", "BOOL", "TEXT", "BYTEA", "DATE", "JSON", "JSONB", "UUID", "NAME", "OID",
})  # fmt: skip
"""Types that are no key words and take no size."""
_NOW = ("CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP")
_VALUES = (
    "NULL", "TRUE", "FALSE", "CURRENT_DATE", "CURRENT_ROLE", "CURRENT_USER", "SESSION_USER", "USER", "CURRENT_CATALOG",
)  # fmt: skip


class _Unexpected(Exception):
    """The text leaves the grammar at this word."""

    def __init__(self, at: int) -> None:
        self.at = at


class _NotYet(_Unexpected):
    """What PostgreSQL's grammar has and the engine has not."""

    def __init__(self, at: int, what: str) -> None:
        super().__init__(at)
        self.what = what


def check_query(tokens: Sequence[Token], source: Source) -> None:
    """Raise unless the tokens are a query."""
    _check(tokens, source, Grammar.query_alone)


def check_item(tokens: Sequence[Token], source: Source) -> None:
    """Raise unless the tokens are an expression, with or without a name, or a star."""
    _check(tokens, source, Grammar.target)


def _check(tokens: Sequence[Token], source: Source, rule: Callable[[Grammar], None]) -> None:
    words, places = _words(tokens, source)
    grammar = Grammar(words)
    try:
        rule(grammar)
        grammar.expect(END)
    except _NotYet as known:
        raise NotSupportedError(known.what, place=source.place(places[known.at][0])) from None
    except _Unexpected as wrong:
        at, end = places[min(wrong.at, len(places) - 1)]
        found = source.written(at, end) or "the end of the statement"
        if words[wrong.at] == STRING:
            found = "a string"  # it may be a secret
        raise SqlError(
            f"syntax error: unexpected {found}", place=source.place(at), code="42601"
        ) from None


def _words(tokens: Sequence[Token], source: Source) -> tuple[list[str], list[tuple[int, int]]]:
    """What stands for each word, cut as PostgreSQL cuts, and where it stands."""
    words: list[str] = []
    places: list[tuple[int, int]] = []
    until = 0
    for token in tokens:
        if token.start < until:
            continue  # a part of the operator before
        end = token.end
        match token.kind:
            case "word":
                word = token.text.upper()
            case "name":
                word = NAME
            case "string":
                word = STRING
            case "number":
                word = NUMBER
            case _:
                found = _OPERATOR.match(source.text, token.start)
                if found:
                    word = _operator(found[0])
                    end = token.start + len(word)
                    if word not in OPERATORS:
                        place = source.place(token.start)
                        raise SqlError(
                            f"operator does not exist: {word}", place=place, code="42883"
                        )
                elif STRING in token.text:  # X'…', B'…', U&'…'
                    word = STRING
                else:  # any letter that is not ASCII's may be in a name
                    word = token.text if token.text.isascii() else NAME
        until = end
        if word == STRING and token.kind == "string" and words and words[-1] == STRING:
            places[-1] = (places[-1][0], end)  # on the next line: one literal
            continue
        words.append(word)
        places.append((token.start, end))
    last = tokens[-1].end if tokens else 0
    return [*words, END], [*places, (last, last)]


def _operator(text: str) -> str:
    """PostgreSQL's longest operator of a text: comments begin none, and few end in a sign."""
    for mark in ("--", "/*"):
        text = text.split(mark)[0] or text
    if not any(letter in "~!@#%^&|`?" for letter in text):
        while len(text) > 1 and text[-1] in "+-":
            text = text[:-1]
    return text


class Grammar:
    """Moves over words by PostgreSQL's rules, or raises where none of them fits."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.at = 0

    # -- words ------------------------------------------------------------------------------------

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
        raise _Unexpected(self.at if at is None else at)

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

    # -- queries ----------------------------------------------------------------------------------

    def query_alone(self) -> None:
        """A statement: brackets around it, or not."""
        self.query()

    def query(self) -> None:
        """[WITH …] SELECT … [UNION …] [ORDER BY …] [LIMIT …]"""
        if self.accept("WITH"):
            self.accept("RECURSIVE")
            self.some(self.with_query)
        self.query_operand()
        self.query_rest()

    def query_in_brackets(self) -> None:
        """(SELECT …), in any number of brackets."""
        start = self.at
        if self.word != "(" or self.brackets() != "query":
            self.fail(start)

    def with_query(self) -> None:
        """name [(columns)] AS (query)"""
        self.column_name()
        if self.word == "(":
            self.names()
        self.expect("AS")
        if not self.accept("NOT", "MATERIALIZED"):
            self.accept("MATERIALIZED")
        self.query_in_brackets()

    def query_operand(self) -> None:
        """What UNION takes on each side."""
        if self.word == "(":
            self.query_in_brackets()
        elif self.accept("VALUES"):
            self.some(self.value_row)
        elif self.accept("TABLE"):
            self.accept("ONLY")
            self.qualified_name()
        else:
            self.expect("SELECT")
            self.select()

    def query_rest(self) -> None:
        """What may follow the first operand: others, ORDER BY, LIMIT and OFFSET in any order."""
        while self.accept_one(("UNION", "INTERSECT", "EXCEPT")):
            self.accept_one(("ALL", "DISTINCT"))
            self.query_operand()
        if self.word == "ORDER":
            self.order()
        limit = offset = False
        while True:
            if not limit and self.accept("LIMIT"):
                limit = True
                if not self.accept("ALL"):
                    self.expression()
            elif not limit and self.accept("FETCH"):
                limit = True
                self.fetch()
            elif not offset and self.accept("OFFSET"):
                offset = True
                self.expression()
                self.accept_one(("ROW", "ROWS"))
            else:
                return

    def fetch(self) -> None:
        """FETCH FIRST [n] ROWS ONLY"""
        if not self.accept_one(("FIRST", "NEXT")):
            self.fail()
        if self.word not in ("ROW", "ROWS"):
            if self.accept_one(("+", "-")):
                self.expect(NUMBER)
            else:
                self.primary()
        if not self.accept_one(("ROW", "ROWS")):
            self.fail()
        if not self.accept("ONLY"):
            self.expect("WITH", "TIES")

    def value_row(self) -> None:
        """(a, b, …), where INSERT may have DEFAULT"""
        self.expect("(")
        self.list(")", default=True)

    def select(self) -> None:
        """The clauses of one SELECT, in PostgreSQL's order."""
        if self.accept("DISTINCT"):
            if self.accept("ON"):
                self.expect("(")
                self.list(")")
            self.some(self.target)
        else:
            self.accept("ALL")
            if self.word not in (END, ")", "FROM", "WHERE", "GROUP", "HAVING", *_GOES_ON):
                self.some(self.target)
        if self.accept("FROM"):
            self.some(self.from_item)
        if self.accept("WHERE"):
            self.expression()
        if self.accept("GROUP", "BY"):
            self.accept_one(("ALL", "DISTINCT"))
            self.some(self.group_item)
        if self.accept("HAVING"):
            self.expression()
        if self.accept("WINDOW"):
            self.some(self.named_window)

    def target(self) -> None:
        """An item of SELECT."""
        if self.accept("*"):
            if (
                self.word == "EXCEPT" and self.following == "("
            ):  # RisingWave's; else a set operation
                start = self.at
                self.at += 2
                if self.word in (*_QUERIES, "("):
                    self.at = start
                else:
                    self.list(")")
            return
        self.expression()
        if self.accept("AS"):
            self.label()
        elif self.word == NAME or (self.is_word() and self.word not in NO_BARE_LABELS):
            self.at += 1

    def group_item(self) -> None:
        """An expression, (), or grouping sets of them."""
        if self.accept("(", ")"):
            return
        if self.word in ("CUBE", "ROLLUP") and self.following == "(":
            self.at += 2
            self.list(")")
        elif self.accept("GROUPING", "SETS"):
            self.expect("(")
            self.some(self.group_item)
            self.expect(")")
        else:
            self.expression()

    def order(self) -> None:
        """ORDER BY …"""
        self.expect("ORDER", "BY")
        self.some(self.order_item)

    def order_item(self) -> None:
        """An expression and its direction."""
        self.expression()
        if self.accept("USING"):
            self.at += 1
        else:
            self.accept_one(("ASC", "DESC"))
        if self.accept("NULLS") and not self.accept_one(("FIRST", "LAST")):
            self.fail()

    def named_window(self) -> None:
        """name AS (…)"""
        self.column_name()
        self.expect("AS")
        self.window()

    # -- relations --------------------------------------------------------------------------------

    def from_item(self) -> None:
        """A relation and what is joined to it."""
        self.relation()
        while self.is_join():
            self.join()

    def is_join(self) -> bool:
        """Whether the next word begins a join. ASOF is RisingWave's."""
        if self.word == "ASOF":
            return self.following in ("JOIN", "INNER", *_SIDES)
        return self.word in _JOINS

    def join(self) -> None:
        """One join; the relation before it has been read."""
        if self.accept("CROSS"):
            self.expect("JOIN")
            self.relation()
            return
        natural = self.accept("NATURAL")
        if not natural:
            self.accept("ASOF")
        if self.accept_one(_SIDES):
            self.accept("OUTER")
        else:
            self.accept("INNER")
        self.expect("JOIN")
        self.relation()
        if natural:
            return
        while self.is_join():  # a JOIN b JOIN c ON … ON …
            self.join()
        if self.accept("USING"):
            self.names()
            if self.accept("AS"):
                self.column_name()
        else:
            self.expect("ON")
            self.expression()

    def relation(self) -> None:
        """A relation with its alias."""
        if self.accept("LATERAL"):
            if self.word == "(":
                self.query_in_brackets()
                self.alias()
            else:
                self.table_function()
        elif self.word == "(":
            self.relation_in_brackets()
            self.alias()
        elif self.accept("ONLY"):
            if self.accept("("):
                self.qualified_name()
                self.expect(")")
            else:
                self.qualified_name()
            self.alias()
        elif self.accept("ROWS", "FROM"):
            self.expect("(")
            self.some(self.table_function)
            self.expect(")")
            self.alias()
        else:
            self.table()

    def relation_in_brackets(self) -> str:
        """(query) or (joins); says which."""
        self.expect("(")
        if self.word in _QUERIES:
            self.query()
            self.expect(")")
            return "query"
        joined = False
        if self.word == "(":
            if self.relation_in_brackets() == "query":
                if self.word == ")" or self.word in _GOES_ON:
                    self.query_rest()
                    self.expect(")")
                    return "query"
            else:
                joined = True
            self.alias()
        else:
            self.relation()
        if not joined and not self.is_join():
            self.fail()
        while self.is_join():
            self.join()
        self.expect(")")
        return "joins"

    def table(self) -> None:
        """A table, or a function that gives rows."""
        start = self.at
        if self.is_function_name():
            self.at += 1
            self.dotted()
            if self.word == "(":
                self.at = start
                self.table_function()
                return
        self.at = start
        self.qualified_name()
        self.accept("*")
        self.version()
        self.alias()
        self.version()

    def version(self) -> None:
        """FOR SYSTEM_TIME AS OF …, which is RisingWave's"""
        if self.word != "FOR" or self.following not in _VERSIONS:
            return
        self.at += 2
        if self.accept("BETWEEN"):  # refused by the planner, as is AS OF without a moment
            self.expression(0, restricted=True)
            self.expect("AND")
        else:
            self.expect("AS", "OF")
        if self.word != END:
            self.expression()
            self.accept_one(UNITS)

    def table_function(self) -> None:
        """function(…) [WITH ORDINALITY] [alias]"""
        start = self.at
        if self.is_function_name() and self.following in ("(", "."):
            self.at += 1
            self.dotted()
            self.arguments(self.words[start])
        elif self.word in self.rules and self.following == "(":
            self.primary()
        else:
            self.fail()
        self.accept("WITH", "ORDINALITY")
        self.alias()

    def qualified_name(self) -> None:
        """[database.][schema.]name"""
        self.column_name()
        self.dotted()

    def dotted(self) -> None:
        """.name.name"""
        while self.word == "." and self.following != "*":
            self.at += 1
            self.label()

    def alias(self) -> None:
        """[AS] name [(columns)], or nothing"""
        if self.accept("AS"):
            self.column_name()
        elif self.is_column_name() and not self.is_join():
            self.at += 1
        else:
            return
        if self.word == "(":
            self.names()

    # -- expressions ------------------------------------------------------------------------------

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
            if self.word in _QUERIES:
                self.query()
                self.expect(")")
            else:
                self.list(")")
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

    def list(self, end: str, *, default: bool = False) -> None:
        """Expressions up to a closing bracket."""
        words = self.words
        while True:
            at = self.at
            if words[at] in _LITERALS and words[at + 1] in (",", end):
                self.at += 1  # lists may have 100,000 of them
            elif default and words[at] == "DEFAULT":
                raise _NotYet(at, "DEFAULT as a value")
            else:
                self.expression()
            if words[self.at] != ",":
                break
            self.at += 1
        self.expect(end)

    def brackets(self) -> str:
        """What stands in brackets: a query, a row, or an expression."""
        self.expect("(")
        if self.word in _QUERIES:
            self.query()
            self.expect(")")
            return "query"
        if self.word == "(":
            kind = self.brackets()
            if kind == "query" and (self.word == ")" or self.word in _GOES_ON):
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
            self.list(")")
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
        if word in _LITERALS:
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
                self.list(")")
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
        elif word in _TYPES:
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

    def is_function_name(self) -> bool:
        """Whether a function may be named so."""
        word = self.word
        if word == NAME:
            return True
        return self.is_word() and word not in _RESERVED and word not in COLUMN_NAMES

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

    # -- functions --------------------------------------------------------------------------------

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
        if self.words[self.at] in _LITERALS and self.words[self.at + 1] in (",", ")"):
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
            self.list("]")

    def values(self) -> None:
        """(a, b, …)"""
        self.expect("(")
        self.list(")")

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
            self.list(")")
            return
        self.expression()
        if self.accept("FROM") or self.accept(","):
            self.list(")")
        else:
            self.expect(")")

    rules: ClassVar[dict[str, Callable[[Grammar], None]]] = {
        "CASE": case, "CAST": cast, "TRY_CAST": cast, "ARRAY": array, "EXISTS": query_in_brackets, "COALESCE": values,
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
                self.list(")")
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
                self.list(")")

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
