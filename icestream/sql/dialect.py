"""The RisingWave dialect of sqlglot, with the traps taken out.

sqlglot turns what it does not know into an opaque `Command` with a warning, and cuts whole statements
(SHOW …) into one token. Here both are off: every word is a token, and what cannot be parsed is a
`ParseError` that carries the offset of the offending token.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from sqlglot.dialects.risingwave import RisingWave
from sqlglot.errors import ParseError
from sqlglot.tokens import Token as RawToken

_TEMPLATE_MARKS = ("/*+", "{%", "%}", "{{+", "{{-", "+}}", "-}}", "{#", "#}")


class Dialect(RisingWave):  # type: ignore[misc]
    """RisingWave's tokens and trees; no commands, no template marks."""

    class Tokenizer(RisingWave.Tokenizer):  # type: ignore[misc]
        """Tokens of PostgreSQL, also for statements that sqlglot does not know."""

        COMMANDS: ClassVar[set[Any]] = set()
        KEYWORDS: ClassVar[dict[str, Any]] = {
            word: kind
            for word, kind in RisingWave.Tokenizer.KEYWORDS.items()
            if word not in _TEMPLATE_MARKS
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

        def _parse_as_command(self, start: RawToken) -> NoReturn:
            self.raise_error("Invalid expression / Unexpected token", start)
