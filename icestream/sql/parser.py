"""Text → statements. The leading keywords choose the rule; each rule lives in the module of its noun."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from icestream import interrupts
from icestream.errors import NotSupportedError, SqlError, nearest
from icestream.sql import alter, change, copy, create, create_other, session, show
from icestream.sql.collection import pause_collection
from icestream.sql.cursor import Cursor
from icestream.sql.source import Source
from icestream.sql.statements import Explain, Statement
from icestream.sql.tokens import IsSystemQuery, Token, Tokens, tokenize

Rule = Callable[[Cursor], Statement]


def parse(
    text: str, file: str = "<sql>", env: Mapping[str, str] | None = None
) -> tuple[Statement, ...]:
    """All statements of a text, in order; the first thing wrong is a SqlError with its place.

    `env` is where `${NAME}` is looked up; without one, the environment of the process.
    """
    with pause_collection(text):
        source = Source.open(text, file, os.environ if env is None else env)
        return _parse(tokenize(source))


def parse_client_text(
    text: str, is_system_query: IsSystemQuery = lambda words, text: False
) -> tuple[Statement, ...]:
    """All statements of a text that a client of the server sent.

    They may have parameters ($1). The environment is not theirs: `${NAME}` in options is data, elsewhere it is not set.
    Queries about the system become `SystemQuery`.
    """
    with pause_collection(text):
        source = Source.open(text, "", {}, of_client=True)
        return _parse(tokenize(source, is_system_query))


def split(text: str) -> Iterator[tuple[int, str]]:
    """Where each statement of a text starts, and its text. They are not parsed."""
    source = Source.open(text, "", None)
    for statement, _ in _statements(tokenize(source)):
        yield statement[0].start, source.text[statement[0].start : statement[-1].end]


def _parse(tokens: Tokens) -> tuple[Statement, ...]:
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
    interrupts.check()
    token = cursor.peek()
    rule = _RULES.get(token.upper)
    if rule is None and cursor.source.of_client:
        rule = _SESSION_RULES.get(token.upper)
    if rule is not None:
        if token.upper not in _TAKE_PARAMETERS:
            cursor.refuse_parameters()
        return rule(cursor)
    if token.upper in _NOT_YET or token.upper in _SESSION_RULES:
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


def _alter(cursor: Cursor) -> Statement:
    if cursor.at("ALTER", "SYSTEM"):
        return session.alter_system(cursor)
    return alter.alter(cursor)


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
    "ALTER": _alter,
    "DROP": alter.drop,
    "SHOW": show.show,
    "DESCRIBE": show.describe,
    "DESC": show.describe,
    "EXPLAIN": _explain,
    "SET": session.set_setting,
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
_SESSION_RULES: dict[str, Rule] = {
    "RESET": session.reset,
    "BEGIN": session.begin,
    "START": session.begin,
    "COMMIT": session.commit,
    "END": session.commit,
    "ROLLBACK": session.rollback,
    "ABORT": session.rollback,
    "SAVEPOINT": session.savepoint,
    "RELEASE": session.release,
    "PREPARE": session.prepare,
    "DEALLOCATE": session.deallocate,
    "DISCARD": session.discard,
    "LISTEN": session.listen,
    "UNLISTEN": session.unlisten,
    "DECLARE": lambda cursor: session.declare(cursor, _statement),
    "FETCH": session.fetch,
    "CLOSE": session.close,
    "COPY": lambda cursor: copy.copy(cursor, _statement),
}
"""Statements of a client's session. A script has no session."""
_NOT_YET = (
    "ANALYZE", "CALL", "COMMENT", "EXECUTE", "GRANT", "KILL", "MERGE", "RECOVER", "REFRESH", "REVOKE",
    "TRUNCATE", "USE",
)  # fmt: skip
_QUERIES = ("SELECT", "VALUES", "WITH", "(")
_TAKE_PARAMETERS = (*_QUERIES, "INSERT", "UPDATE", "DELETE", "EXPLAIN", "DECLARE", "COPY")
_STARTS = ", ".join(word for word in _RULES if word not in ("(", "DESC"))
