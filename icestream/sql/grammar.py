"""PostgreSQL's grammar of queries over the words of a text: where a text leaves it, if it does.

sqlglot makes the trees, but takes the syntax of thirty databases and forgets some of what it takes: a comma too many,
a join without a condition, a second LIMIT. Its trees cannot show that. So each text is read once more here, by the rules of
PostgreSQL's gram.y; nothing is built. What RisingWave has on top is marked with its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from icestream.errors import SqlError
from icestream.sql.dialect import UNITS
from icestream.sql.grammar_expressions import Expressions
from icestream.sql.grammar_words import (
    END,
    GOES_ON,
    NAME,
    NUMBER,
    QUERIES,
    STRING,
    GrammarError,
)
from icestream.sql.keywords import NO_BARE_LABELS, OPERATORS
from icestream.sql.source import Source
from icestream.sql.tokens import Token

_OPERATOR = re.compile(r"[-+*/<>=~!@#%^&|`?]+")
_SIDES = ("LEFT", "RIGHT", "FULL")
_JOINS = ("JOIN", "CROSS", "NATURAL", "INNER", *_SIDES)
_VERSIONS = ("SYSTEM_TIME", "SYSTEM_VERSION", "VERSION", "TIMESTAMP")


def check_query(tokens: Sequence[Token], source: Source) -> None:
    """Raise unless the tokens are a query."""
    _check(tokens, source, Grammar.query_alone)


def check_with(tokens: Sequence[Token], source: Source) -> None:
    """Raise unless the tokens are a WITH clause."""
    _check(tokens, source, Grammar.with_clause)


def check_item(tokens: Sequence[Token], source: Source) -> None:
    """Raise unless the tokens are an expression, with or without a name, or a star."""
    _check(tokens, source, Grammar.target)


def _check(tokens: Sequence[Token], source: Source, rule: Callable[[Grammar], None]) -> None:
    words, places = _words(tokens, source)
    grammar = Grammar(words)
    try:
        rule(grammar)
        grammar.expect(END)
    except GrammarError as wrong:
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


class Grammar(Expressions):
    """Moves over queries by PostgreSQL's rules, or raises where none of them fits."""

    def query_alone(self) -> None:
        """A statement: brackets around it, or not."""
        self.query()

    def query(self) -> None:
        """[WITH …] SELECT … [UNION …] [ORDER BY …] [LIMIT …]"""
        if self.word == "WITH":
            self.with_clause()
        self.query_operand()
        self.query_rest()

    def with_clause(self) -> None:
        """WITH [RECURSIVE] name AS (query), …"""
        self.expect("WITH")
        self.accept("RECURSIVE")
        self.some(self.with_query)

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
        self.items(")", default=True)

    def select(self) -> None:
        """The clauses of one SELECT, in PostgreSQL's order."""
        if self.accept("DISTINCT"):
            if self.accept("ON"):
                self.expect("(")
                self.items(")")
            self.some(self.target)
        else:
            self.accept("ALL")
            if self.word not in (END, ")", "FROM", "WHERE", "GROUP", "HAVING", *GOES_ON):
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
                if self.word in (*QUERIES, "("):
                    self.at = start
                else:
                    self.items(")")
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
            self.items(")")
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
        if self.word in QUERIES:
            self.query()
            self.expect(")")
            return "query"
        joined = False
        if self.word == "(":
            if self.relation_in_brackets() == "query":
                if self.word == ")" or self.word in GOES_ON:
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
