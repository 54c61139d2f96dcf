"""Text → statements. The leading keywords choose the rule; each rule lives in the module of its noun."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from icestream.errors import NotSupportedError, SqlError, nearest
from icestream.sql import alter, change, create, create_other, show
from icestream.sql.collection import pause_collection
from icestream.sql.cursor import Cursor
from icestream.sql.source import Source
from icestream.sql.statements import Explain, Statement
from icestream.sql.tokens import Token, Tokens, tokenize

Rule = Callable[[Cursor], Statement]


def parse(
    text: str, file: str = "<sql>", env: Mapping[str, str] | None = None
) -> tuple[Statement, ...]:
    """All statements of a text, in order; the first thing wrong is a SqlError with its place.

    `env` is where `${NAME}` is looked up; without one, the environment of the process.
    """
    with pause_collection(text):
        source = Source.open(text, file, os.environ if env is None else env)
        tokens = tokenize(source)
        return tuple(
            _statement(Cursor(tokens, statement, end)) for statement, end in _statements(tokens)
        )


def _statements(tokens: Tokens) -> Iterator[tuple[tuple[Token, ...], int]]:
    """The tokens of each statement and where it ends; empty statements are left out."""
    statement: list[Token] = []
    for token in tokens.tokens:
        if token.upper != ";":
            statement.append(token)
        elif statement:
            yield tuple(statement), token.start
            statement = []
    if statement:
        yield tuple(statement), statement[-1].end


def _statement(cursor: Cursor) -> Statement:
    token = cursor.peek()
    if rule := _RULES.get(token.upper):
        return rule(cursor)
    if token.upper in _NOT_YET:
        raise NotSupportedError(token.upper, place=cursor.place())
    guess = nearest(token.text, _RULES) if token.kind == "word" else None
    raise SqlError(
        f"no statement starts with {cursor.found()}",
        place=cursor.place(),
        remedy=f"did you mean {guess}?" if guess else f"statements start with {_STARTS}",
    )


def _create(cursor: Cursor) -> Statement:
    cursor.expect("CREATE")
    or_replace = cursor.accept("OR", "REPLACE")
    token = cursor.peek()
    if token.upper in _CREATE_NOT_YET:
        raise NotSupportedError(f"CREATE {token.upper}", place=cursor.place())
    if or_replace and token.upper not in ("VIEW", "MATERIALIZED"):
        raise NotSupportedError(f"CREATE OR REPLACE {token.upper}", place=cursor.place())
    kind = cursor.word("the kind of an object", (*_CREATE_RULES, "VIEW", "MATERIALIZED"))
    if kind == "MATERIALIZED":
        cursor.expect("VIEW")
    if kind in ("VIEW", "MATERIALIZED"):
        return create.create_view(
            cursor, materialized=kind == "MATERIALIZED", or_replace=or_replace
        )
    return _CREATE_RULES[kind](cursor)


def _explain(cursor: Cursor) -> Explain:
    """EXPLAIN [ANALYZE] [VERBOSE] [(option [value], …)] statement"""
    place, options = cursor.place(cursor.expect("EXPLAIN")), []
    while any(cursor.at(word) for word in ("ANALYZE", "VERBOSE")):
        options.append(cursor.next().text.lower())
    if cursor.at("(") and not any(cursor.at(w, ahead=1) for w in ("SELECT", "WITH", "VALUES", "(")):
        cursor.expect("(")
        while True:
            words = [cursor.identifier("an option of EXPLAIN")]
            while cursor.peek().kind in ("word", "number"):
                words.append(cursor.next().text.lower())
            options.append(" ".join(words))
            if not cursor.accept(","):
                break
        cursor.expect(")")
    if cursor.at("EXPLAIN") or cursor.peek().kind == "end":
        cursor.fail("a statement to explain")
    return Explain(place, cursor.text, _statement(cursor.rest()), tuple(options))


_CREATE_RULES: dict[str, Rule] = {
    "SOURCE": create.create_source,
    "TABLE": create.create_table,
    "SINK": create.create_sink,
    "CONNECTION": create_other.create_connection,
    "CONNECTOR": create_other.create_connector,
    "SECRET": create_other.create_secret,
    "INDEX": create_other.create_index,
    "SCHEMA": create_other.create_schema,
    "SUBSCRIPTION": create_other.create_subscription,
}
_CREATE_NOT_YET = (
    "FUNCTION", "AGGREGATE", "DATABASE", "USER", "ROLE", "TYPE", "SEQUENCE", "EXTENSION",
    "TEMPORARY", "TEMP", "UNIQUE", "TRIGGER", "PROCEDURE",
)  # fmt: skip

_RULES: dict[str, Rule] = {
    "CREATE": _create,
    "ALTER": alter.alter,
    "DROP": alter.drop,
    "SHOW": show.show,
    "DESCRIBE": show.describe,
    "DESC": show.describe,
    "EXPLAIN": _explain,
    "SET": show.set_variable,
    "FLUSH": show.flush,
    "WAIT": show.wait,
    "CANCEL": show.cancel,
    "PAUSE": show.pause,
    "RESUME": show.resume,
    "VACUUM": show.vacuum,
    "INSERT": change.insert,
    "UPDATE": change.update,
    "DELETE": change.delete,
    "SELECT": change.select,
    "VALUES": change.select,
    "WITH": change.select,
    "(": change.select,
}
_NOT_YET = (
    "ABORT", "ANALYZE", "BEGIN", "CALL", "CLOSE", "COMMENT", "COMMIT", "COPY", "DEALLOCATE",
    "DECLARE", "DISCARD", "END", "EXECUTE", "FETCH", "GRANT", "KILL", "MERGE", "PREPARE", "RECOVER",
    "REFRESH", "RESET", "REVOKE", "ROLLBACK", "START", "TRUNCATE", "USE",
)  # fmt: skip
_STARTS = ", ".join(word for word in _RULES if word not in ("(", "DESC"))
