"""What the sessions of tests have in common: nothing is cancelled, no text is a transaction, COPY and DEALLOCATE are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from icestream.server.backend import Description, Notice, Outcome, StateError
from icestream.sql.copy import copy
from icestream.sql.cursor import Cursor
from icestream.sql.session import deallocate
from icestream.sql.session_statements import CopyTo, Deallocate
from icestream.sql.source import Source
from icestream.sql.statements import Select, Statement
from icestream.sql.tokens import tokenize


class QuietSession:
    """The calls of a session that tests of the protocol have nothing to do for."""

    def finish(self) -> None:
        """See `Session.finish`."""

    def start_text(self) -> None:
        """See `Session.start_text`."""

    def end_text(self) -> tuple[Notice, ...]:
        """See `Session.end_text`."""
        return ()

    def fail(self) -> None:
        """See `Session.fail`."""

    def parse(self, sql: str) -> Sequence[Any]:
        """See `Session.parse`: COPY and DEALLOCATE by the grammar of the engine, all else by `parse_other`."""
        word = sql.split(maxsplit=1)[0].lower() if sql.strip() else ""
        if word not in ("copy", "deallocate"):
            return self.parse_other(sql)
        tokens = tokenize(Source.open(sql, "", None))
        words = tuple(t for t in tokens.tokens if t.text != ";" or t is not tokens.tokens[-1])
        cursor = Cursor(tokens, words, words[-1].end)
        if word == "deallocate":
            return [deallocate(cursor)]
        made = copy(cursor, lambda inner: Statement(inner.start, inner.text))
        text = made.query.text
        if not isinstance(made.query, Select):  # it stands where it stands in the COPY
            text = " " * (made.query.place.column - 1) + text
        inner = self.parse_other(text)
        if len(inner) != 1:
            raise StateError("42601", "COPY takes one query")
        return [replace(made, query=inner[0])]

    def describe(self, statement: Any, parameters: Sequence[Any]) -> Description:
        """See `Session.describe`."""
        if isinstance(statement, CopyTo):
            self.describe_other(statement.query, parameters)
            return Description()
        if isinstance(statement, Deallocate):
            return Description()
        return self.describe_other(statement, parameters)

    def run(
        self, statement: Any, parameters: Sequence[object], description: object = None
    ) -> Outcome:
        """See `Session.run`."""
        if isinstance(statement, CopyTo):
            return replace(self.run_other(statement.query, ()), copy=statement.options)
        if isinstance(statement, Deallocate):
            tag = "DEALLOCATE" if statement.name else "DEALLOCATE ALL"
            return Outcome(tag, forgets=statement.name or "")
        return self.run_other(statement, parameters)

    def parse_other(self, sql: str) -> Sequence[Any]:
        """The statements of a text."""
        raise NotImplementedError

    def describe_other(self, statement: Any, parameters: Sequence[Any]) -> Description:
        """See `Session.describe`."""
        raise NotImplementedError

    def run_other(self, statement: Any, parameters: Sequence[object]) -> Outcome:
        """See `Session.run`."""
        raise NotImplementedError
