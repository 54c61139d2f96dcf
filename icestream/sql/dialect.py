"""The RisingWave dialect of sqlglot, with the traps taken out.

sqlglot turns what it does not know into an opaque `Command` with a warning, and cuts whole statements
(SHOW …) into one token. Here both are off: every word is a token, and what cannot be parsed is a
`ParseError` that carries the offset of the offending token. Session windows are added, in both
forms, and FOR SYSTEM_VERSION AS OF.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot.dialects.risingwave import RisingWave
from sqlglot.errors import ParseError
from sqlglot.tokens import Token as RawToken
from sqlglot.tokens import TokenType

_UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR")
_TEMPLATE_MARKS = ("/*+", "{%", "%}", "{{+", "{{-", "+}}", "-}}", "{#", "#}")


class Dialect(RisingWave):  # type: ignore[misc]
    """RisingWave's tokens and trees; no commands, no template marks."""

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

        def _parse_interval_span(self, this: Any, *args: Any, **kwargs: Any) -> Any:
            """Keep the text of an interval literal whole: `interval '1 day 02:03:04'` is more than a day."""
            before, whole = self._index, this.copy()
            made = super()._parse_interval_span(this, *args, **kwargs)
            if self._index == before and whole.is_string:
                made.set("this", whole)
                made.set("unit", None)
            return made

        VERSION_PHRASES: ClassVar[dict[tuple[str, ...], str]] = {
            **RisingWave.Parser.VERSION_PHRASES,
            ("FOR", "SYSTEM_VERSION"): "VERSION",
        }

        def _parse_version(self) -> Any:
            """Take the unit of `now() - '10' SECOND` along, as if INTERVAL stood before it."""
            made = super()._parse_version()
            moment = made and made.args.get("expression")
            if isinstance(moment, exp.Sub) and moment.expression.is_string:
                unit = self._match_texts(_UNITS) and exp.var(self._prev.text.upper())
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
