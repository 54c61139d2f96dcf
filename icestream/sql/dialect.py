"""The RisingWave dialect of sqlglot, with the traps taken out.

sqlglot turns what it does not know into an opaque `Command` with a warning, and cuts whole statements
(SHOW …) into one token. Here both are off: every word is a token, and what cannot be parsed is a
`ParseError` that carries the offset of the offending token. Session windows are added, in both
forms, and FOR SYSTEM_VERSION AS OF.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot.dialects.risingwave import RisingWave
from sqlglot.errors import ParseError
from sqlglot.tokens import Token as RawToken
from sqlglot.tokens import TokenType

from icestream import interrupts

UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR")
MORE_UNITS = ("WEEK", "MILLISECOND", "MICROSECOND", *(f"{unit}S" for unit in ("WEEK", *UNITS)))
"""Names for PostgreSQL; here they are units of INTERVAL '1', as what is written means."""
_TEMPLATE_MARKS = ("/*+", "{%", "%}", "{{+", "{{-", "+}}", "-}}", "{#", "#}")


_OPERATORS: dict[Any, type[exp.Expr]] = {
    TokenType.AMP: exp.BitwiseAnd, TokenType.PIPE: exp.BitwiseOr, TokenType.HASH: exp.BitwiseXor,
    TokenType.DPIPE: exp.DPipe, TokenType.AT_GT: exp.ArrayContainsAll,
    TokenType.LT_AT: exp.ArrayContainedBy, TokenType.DAMP: exp.ArrayOverlaps,
    TokenType.RLIKE: exp.RegexpLike, TokenType.IRLIKE: exp.RegexpILike,
    TokenType.LIKE: exp.Like, TokenType.ILIKE: exp.ILike, TokenType.CARET_AT: exp.StartsWith,
    TokenType.QMARK_AMP: exp.JSONBContainsAllTopKeys,
    TokenType.QMARK_PIPE: exp.JSONBContainsAnyTopKeys, TokenType.HASH_DASH: exp.JSONBDeleteAtPath,
}  # fmt: skip
"""Binary operators without a place of their own in PostgreSQL's grammar; also ~~ and ~~*, which are LIKE and ILIKE."""
_PREFIX: dict[Any, type[exp.Expr]] = {
    TokenType.TILDE: exp.BitwiseNot, TokenType.RLIKE: exp.BitwiseNot,
    TokenType.PIPE_SLASH: exp.Sqrt, TokenType.DPIPE_SLASH: exp.Cbrt,
}  # fmt: skip
_LITERALS = frozenset({TokenType.NUMBER, TokenType.STRING})
_CONSTANTS = frozenset({TokenType.STRING, TokenType.NULL})
_TYPES: dict[Any, Any] = {
    TokenType[name]: exp.DataType.Type[name]
    for name in (
        "BOOLEAN", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "TEXT", "VARCHAR", "VARBINARY", "DATE",
        "TIME", "TIMESTAMP", "TIMESTAMPTZ", "JSONB",
    )
}  # fmt: skip
"""Types that are one token, if no parameters follow."""
_DATES = frozenset({TokenType.DATE, TokenType.TIMESTAMP, TokenType.TIMESTAMPTZ})
_ITEM_ENDS = frozenset({TokenType.COMMA, TokenType.R_PAREN, TokenType.R_BRACKET})


def _prefix_operator(node: type[exp.Expr]) -> Callable[[Any], Any]:
    """~1 + 1 is ~(1 + 1)."""
    return lambda parser: parser.expression(node(this=parser._parse_term()))


def _parse_not(parser: Any) -> Any:
    if parser._prev.text == "!":
        parser.raise_error("Invalid expression / Unexpected token", parser._prev)
    return parser.expression(exp.Not(this=parser._parse_equality()))


class Dialect(RisingWave):  # type: ignore[misc]
    """RisingWave's tokens and trees; no commands, no template marks. Subscripts of arrays stay as written."""

    INDEX_OFFSET = 0

    class Tokenizer(RisingWave.Tokenizer):  # type: ignore[misc]
        """Tokens of PostgreSQL, also for statements that sqlglot does not know."""

        COMMANDS: ClassVar[set[Any]] = set()
        KEYWORDS: ClassVar[dict[str, Any]] = {
            word: kind
            for word, kind in RisingWave.Tokenizer.KEYWORDS.items()
            if word not in (*_TEMPLATE_MARKS, "SESSION")
        }

    class Parser(RisingWave.Parser):  # type: ignore[misc]
        """Trees of queries and expressions; every failure is raised at once, with its offset."""

        def raise_error(self, message: str, token: Any = None) -> NoReturn:
            """Raise a ParseError whose `start` is the token's offset, or None for the end of input."""
            at = token or self._curr
            start = at.start if at else None
            raise ParseError(message, [{"description": message, "start": start}])

        # PostgreSQL has one level for all operators without a place of their own in its grammar: below + and -, above
        # LIKE, from left to right. sqlglot puts some of them beside LIKE, and binds prefix operators as tightly as a sign.
        # All comparisons are one level.
        EQUALITY: ClassVar[dict[Any, Any]] = {}
        COMPARISON: ClassVar[dict[Any, Any]] = {
            **RisingWave.Parser.COMPARISON,
            TokenType.EQ: exp.EQ,
            TokenType.NEQ: exp.NEQ,
        }
        UNARY_PARSERS: ClassVar[dict[Any, Any]] = {
            **RisingWave.Parser.UNARY_PARSERS,
            **{kind: _prefix_operator(node) for kind, node in _PREFIX.items()},
            TokenType.NOT: _parse_not,
        }

        def _parse_disjunction(self) -> Any:
            """A constant that is all of a list's item is taken as it is: lists may have 100,000 of them."""
            kind, next = self._curr.token_type, self._next and self._next.token_type
            if next in _ITEM_ENDS:
                if kind in _LITERALS:
                    interrupts.check()
                    return self._parse_primary()
            elif next == TokenType.DCOLON:
                if kind in _CONSTANTS and self._has_type(2, 1):
                    return self._parse_constant_cast(0, 2)
            elif kind == TokenType.DASH:
                if next == TokenType.NUMBER and self._kind(2) in _ITEM_ENDS:
                    self._advance()
                    return exp.Neg(this=self._parse_primary())
            elif kind == TokenType.PARAMETER:
                if next == TokenType.NUMBER and self._kind(2) in _ITEM_ENDS:
                    self._advance()
                    return self._parse_parameter()
            elif kind in _DATES:
                if next == TokenType.STRING and self._kind(2) in _ITEM_ENDS:
                    return self._parse_constant_cast(1, 0)
            elif (
                next == TokenType.L_PAREN
                and self._kind(2) in _CONSTANTS
                and self._kind(3) == TokenType.ALIAS
                and self._curr.text.upper() == "CAST"
                and kind == TokenType.VAR
                and self._kind(5) == TokenType.R_PAREN
                and self._has_type(4, 2)
            ):
                return self._parse_constant_cast(2, 4)
            return super()._parse_disjunction()

        def _parse_parameter(self) -> Any:
            """The number of a parameter; its sign was read before."""
            interrupts.check()
            if self._prev.text != "$":
                return super()._parse_parameter()
            start = self._prev.start
            made = exp.Parameter(this=self._parse_primary())
            made.meta["start"] = start
            return made

        def _kind(self, ahead: int) -> Any:
            at = self._index + ahead
            return self._tokens[at].token_type if at < len(self._tokens) else None

        def _has_type(self, ahead: int, length: int) -> bool:
            """Whether a type stands there, and the item ends so many tokens after it."""
            return self._kind(ahead) in _TYPES and self._kind(ahead + length) in _ITEM_ENDS

        def _parse_constant_cast(self, constant: int, type: int) -> Any:
            """DATE '…', '…'::type or CAST('…' AS type): how far ahead the constant and the type stand."""
            interrupts.check()
            end = self._index + {0: 2, 2: 3, 4: 6}[type]
            to = exp.DataType(this=_TYPES[self._kind(type)])
            self._advance(constant)
            made = exp.Cast(this=self._parse_primary(), to=to)
            self._advance(end - self._index)
            return made

        def _parse_bitwise(self) -> Any:
            """Operands of the level above, joined by any operators of this level."""
            interrupts.check()  # every operand of a text comes by here
            this = self._parse_term()
            return this if isinstance(this, exp.Any) else self._parse_operators(this)

        def _parse_operators(self, this: Any) -> Any:
            while (made := self._parse_operator(this)) is not None:
                this = made
            return this

        def _build_predicate(self, *args: Any, **options: Any) -> Any:
            """x = ANY (a) || b is (x = ANY (a)) || b: the brackets are all that ANY takes."""
            made = super()._build_predicate(*args, **options)
            return self._parse_operators(made) if isinstance(made.expression, exp.Any) else made

        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            **RisingWave.Parser.NO_PAREN_FUNCTION_PARSERS,
            "ANY": lambda parser: parser.expression(exp.Any(this=parser._parse_primary())),
        }

        def _parse_operator(self, this: Any) -> Any:
            start = self._index
            if self._match_pair(TokenType.LT, TokenType.LT):
                return self._joined(exp.BitwiseLeftShift, this)
            if self._match_pair(TokenType.GT, TokenType.GT):
                return self._joined(exp.BitwiseRightShift, this)
            if self._match_set(self.JSON_OPERATORS):
                return self.JSON_OPERATORS[self._prev.token_type](self, this, self._parse_term())
            negated = self._curr.text == "!" and self._match(TokenType.NOT)
            node = _OPERATORS.get(self._curr.token_type)
            if node is None or self._curr.text.isalpha():
                self._retreat(start)
                return None
            self._advance()
            made = self._joined(node, this)
            return self.expression(exp.Not(this=made)) if negated else made

        def _joined(self, node: type[exp.Expr], this: Any) -> Any:
            return self.expression(node(this=this, expression=self._parse_term()))

        def _parse_types(self, *args: Any, **kwargs: Any) -> Any:
            """ARRAY[…] is a value: sqlglot would read all of it as a type first."""
            if self._curr.token_type == TokenType.ARRAY and self._next.text == "[":
                return None
            return super()._parse_types(*args, **kwargs)

        def _parse_interval(self, *args: Any, **kwargs: Any) -> Any:
            """INTERVAL '1 day 02:03' [unit [TO unit]], the text kept whole; without a text it is a name."""
            start = self._index
            if not self._match(TokenType.INTERVAL):
                return None
            digits = self._parse_size()
            if not self._match(TokenType.STRING, advance=False):
                self._retreat(start)
                return None
            text = exp.Literal.string(self._curr.text)
            text.meta["start"] = self._curr.start
            self._advance()
            unit = self._parse_interval_unit()
            if not unit and self._match_texts(MORE_UNITS):
                unit = exp.var(self._prev.text.upper())
                return self.expression(exp.Interval(this=text, unit=unit))
            if unit and self._match_text_seq("TO"):
                last = self._parse_interval_unit() or self.raise_error("Expecting a unit")
                unit = exp.IntervalSpan(this=unit, expression=last)
            if unit and self._prev.text.upper() == "SECOND":
                digits = digits or self._parse_size()
            made = self.expression(exp.Interval(this=text, unit=unit))
            if digits is None:
                return made
            size = exp.DataTypeParam(this=digits)
            kind = exp.DataType(this=exp.DataType.Type.INTERVAL, expressions=[size])
            return self.expression(exp.Cast(this=made, to=kind))

        def _parse_interval_unit(self) -> Any:
            return exp.var(self._prev.text.upper()) if self._match_texts(UNITS) else None

        def _parse_size(self) -> Any:
            """(n), or None"""
            start = self._index
            if self._match(TokenType.L_PAREN) and self._match(TokenType.NUMBER):
                size = exp.Literal.number(self._prev.text)
                if self._match(TokenType.R_PAREN):
                    return size
            self._retreat(start)
            return None

        VERSION_PHRASES: ClassVar[dict[tuple[str, ...], str]] = {
            **RisingWave.Parser.VERSION_PHRASES,
            ("FOR", "SYSTEM_VERSION"): "VERSION",
        }

        def _parse_version(self) -> Any:
            """Take the unit of `now() - '10' SECOND` along, as if INTERVAL stood before it."""
            made = super()._parse_version()
            moment = made and made.args.get("expression")
            if isinstance(moment, exp.Sub) and moment.expression.is_string:
                unit = self._match_texts(UNITS) and exp.var(self._prev.text.upper())
                moment.set("expression", exp.Interval(this=moment.expression, unit=unit or None))
            return made

        def _parse_partition_and_order(self) -> Any:
            """Take SESSION WITH GAP … along: an argument `session` of the ORDER BY before it."""
            partition, order = super()._parse_partition_and_order()
            start = self._curr
            if self._match_text_seq("SESSION", "WITH", "GAP"):
                if order is None:
                    self.raise_error("Expecting ORDER BY", start)
                order.set(
                    "session", self._parse_disjunction() or self.raise_error("Expecting a gap")
                )
            return partition, order

        def _parse_session(self) -> Any:
            """SESSION(relation [PARTITION BY …], time, gap): all but the last two are what it is partitioned by."""
            name = self._tokens[self._index - 2]
            relation = self._parse_disjunction()
            given = self._parse_partition_by()
            made = exp.Anonymous(this="session", partition_by=given[:-2])
            if given:
                if len(given) < 3:
                    self.raise_error("Expecting a time column and a gap")
                given = given[-2:]
            elif self._match(TokenType.COMMA):
                given = self._parse_csv(self._parse_disjunction)
            made.set("expressions", [relation, *given])
            made.meta["start"] = name.start
            return made

        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            **RisingWave.Parser.FUNCTION_PARSERS,
            "SESSION": _parse_session,
        }

        def _parse_as_command(self, start: RawToken) -> NoReturn:
            self.raise_error("Invalid expression / Unexpected token", start)
