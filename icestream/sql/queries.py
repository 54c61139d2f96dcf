"""Queries and expressions: a stretch of tokens → a sqlglot tree with folded names and known places.

Unquoted names are folded to lower case and every name is marked as quoted, so that no later layer has to
know about case. What RisingWave has and sqlglot cannot parse is refused here by name; EMIT ON WINDOW CLOSE
is recognised by the statements that may carry it and is never part of the tree.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.tokens import Token as RawToken
from sqlglot.tokens import TokenType

from icestream.errors import NotSupportedError, SqlError
from icestream.sql.cursor import Cursor
from icestream.sql.dialect import Dialect
from icestream.sql.grammar import check_item, check_query, check_with
from icestream.sql.statements import Query
from icestream.sql.syntax import skipped_argument
from icestream.sql.tokens import Token

_INSERT = ("INSERT", "INTO")
_ANY_QUERY = ((TokenType.SELECT, "SELECT"), (TokenType.NUMBER, "1"))
MAX_PARAMETERS = 65_535
"""A Bind message counts them with 16 bits."""
EMIT = ("EMIT", "ON", "WINDOW", "CLOSE")

_log = logging.getLogger(__name__)
logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it prints what it warns of, secrets and all

_NOT_YET: tuple[tuple[tuple[str, ...], str], ...] = (
    (("AGGREGATE", ":"), "scalar functions as aggregates (aggregate:…)"),
    (("AS", "CHANGELOG", "FROM"), "a change log as a table (WITH … AS CHANGELOG FROM …)"),
)
_BEGINNINGS = {"EMIT", *(pattern[0] for pattern, _ in _NOT_YET)}
_REFUSED: tuple[tuple[type[Any], str], ...] = (
    (exp.DML, "INSERT, UPDATE and DELETE inside a query"),
    (exp.Into, "SELECT INTO"),
    (exp.Lock, "row locks (FOR UPDATE, FOR SHARE)"),
    (exp.Parameter, "parameters ($1)"),
    (exp.TableSample, "TABLESAMPLE"),
    (exp.Placeholder, "parameters (? and :name)"),
)
_CONTINUES = re.compile(r"[ \t\f\v]*(?:--[^\n\r]*)?[\n\r](?:\s|--[^\n\r]*[\n\r])*")
"""What may stand between two string literals that are one."""
_ITEMS = ("string", "number")
_GROUPING = (exp.Group, exp.GroupingSets, exp.Rollup, exp.Cube)
_REQUIRED = re.compile(r"Required keyword: '(\w+)' missing for <class '[\w.]*\.(\w+)'>")


_SIZED = frozenset(
    {
        exp.DataType.Type.DECIMAL, exp.DataType.Type.VARCHAR, exp.DataType.Type.CHAR, exp.DataType.Type.BPCHAR,
        exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ,
    }
)  # fmt: skip
"""Types whose parameters are numbers."""
_PARAMETERS = {exp.DataType.Type.ARRAY: 1, exp.DataType.Type.MAP: 2}
"""Types that need types of elements, and how many. sqlglot reads `ARRAY 1` as a literal of the type ARRAY."""


def query(cursor: Cursor, *stops: tuple[str, ...]) -> Query:
    """The query up to a stop outside brackets, or up to the end."""
    if not any(cursor.at(word) for word in ("SELECT", "VALUES", "WITH", "(")):
        cursor.fail("a query (SELECT, VALUES or WITH)")
    first, last = cursor.stretch(*stops, what="a query")
    tree = _parse(cursor, first, last)
    if isinstance(tree, exp.DML):
        raise NotSupportedError(
            "WITH before UPDATE and DELETE",
            place=cursor.place(first),
            remedy="put the query into the condition: WHERE id IN (SELECT …)",
        )
    if not isinstance(tree, exp.Query | exp.Values):
        raise SqlError("this is not a query", place=cursor.place(first))
    made = _finished(cursor, tree, first, last)
    with _bounded(cursor, first):
        check_query(cursor.all.between(first.start, last.end), cursor.source)
    return made


def with_clause(cursor: Cursor) -> exp.With | None:
    """The WITH clause of an INSERT, if that is what comes next; nothing is consumed otherwise."""
    ahead = cursor.rest()
    ahead.stretch(_INSERT, what="a query")
    if not ahead.at(*_INSERT):
        return None
    first, last = cursor.stretch(_INSERT, what="a query")
    with _bounded(cursor, first):
        check_with(cursor.all.between(first.start, last.end), cursor.source)
    made = _finished(cursor, _parse(cursor, first, last, suffix=_ANY_QUERY), first, last)
    found: exp.With = made.tree.args["with_"]
    return found


def put_before(clause: exp.With, made: Query) -> None:
    """Let a query see the queries of a WITH clause before it; its own come after those."""
    if not isinstance(made.tree, exp.Select | exp.SetOperation):
        raise NotSupportedError(
            "WITH before INSERT … VALUES",
            place=made.place,
            remedy="write INSERT … SELECT",
        )
    own = made.tree.args.get("with_")
    clause.set("expressions", [*clause.expressions, *(own.expressions if own else ())])
    clause.set("recursive", clause.args.get("recursive") or (own and own.args.get("recursive")))
    made.tree.set("with_", clause)


def expression(cursor: Cursor, what: str, *stops: tuple[str, ...], alias: bool = False) -> Query:
    """The expression up to a stop outside brackets; `alias` allows `… AS name` and `*`."""
    first, last = cursor.stretch(*stops, what=what)
    select = _parse(cursor, first, last, prefix=True)
    trees = select.expressions if isinstance(select, exp.Select) else []
    others = [key for key, value in select.args.items() if value and key != "expressions"]
    if len(trees) != 1 or others:
        raise SqlError(f"expected {what}", place=cursor.place(first))
    made = _finished(cursor, trees[0].pop(), first, last)
    if not alias and isinstance(made.tree, exp.Star):
        raise SqlError(f"expected {what}, found *", place=made.place)
    if not alias and isinstance(made.tree, exp.Alias):
        name = made.place_of(made.tree.args["alias"])
        raise SqlError(f"expected {what} without an alias", place=name)
    with _bounded(cursor, first):
        check_item(cursor.all.between(first.start, last.end), cursor.source)
    return made


def expressions(
    cursor: Cursor, what: str, *stops: tuple[str, ...], alias: bool = False
) -> tuple[Query, ...]:
    """Expressions with commas between them."""
    found = [expression(cursor, what, (",",), *stops, alias=alias)]
    while cursor.accept(","):
        found.append(expression(cursor, what, (",",), *stops, alias=alias))
    return tuple(found)


def _parse(
    cursor: Cursor,
    first: Token,
    last: Token,
    *,
    prefix: bool = False,
    suffix: Sequence[tuple[TokenType, str]] = (),
) -> Any:
    _refuse_words(cursor, first, last)
    raw = _join_strings(cursor, cursor.all.raw_between(first.start, last.end))
    if prefix:
        raw = [RawToken(TokenType.SELECT, "SELECT", start=first.start, end=first.start), *raw]
    raw += [RawToken(kind, text, start=last.end, end=last.end) for kind, text in suffix]
    dialect = Dialect()
    try:
        with _bounded(cursor, first):
            trees = dialect.parser(error_level=ErrorLevel.IMMEDIATE).parse(raw, cursor.source.text)
    except ParseError as error:
        _fail(cursor, last, error)
    except SqlError:
        raise
    except Exception as error:
        # sqlglot has no promise about odd input; the user's text is at fault, not the engine.
        _log.debug("sqlglot failed", exc_info=True)
        raise SqlError("this cannot be understood", place=cursor.place(first)) from error
    if len(trees) != 1 or trees[0] is None:
        raise SqlError("this cannot be understood", place=cursor.place(first))
    return trees[0]


@contextmanager
def _bounded(cursor: Cursor, first: Token) -> Iterator[None]:
    """What is nested deeper than the interpreter's stack is refused."""
    try:
        yield
    except RecursionError:
        raise SqlError(
            "the statement is too complex: this is nested too deeply",
            place=cursor.place(first),
            code="54001",
        ) from None


def _join_strings(cursor: Cursor, tokens: Sequence[RawToken]) -> list[RawToken]:
    """String literals with a new line between them are one literal; others beside each other are refused."""
    joined: list[RawToken] = []
    for token in tokens:
        before = joined[-1] if joined else None
        if before is None or {before.token_type, token.token_type} != {TokenType.STRING}:
            joined.append(token)
            continue
        if not _CONTINUES.fullmatch(cursor.source.text, before.end + 1, token.start):
            raise SqlError("unexpected a string", place=cursor.source.place(token.start))
        text = before.text + token.text
        joined[-1] = RawToken(TokenType.STRING, text, start=before.start, end=token.end)
    return joined


def _fail(cursor: Cursor, last: Token, error: ParseError) -> NoReturn:
    details: dict[str, Any] = error.errors[0] if error.errors else {}
    start = details.get("start")
    message = str(details.get("description", error))
    source = cursor.source
    if start is None:
        place, found = source.place(last.end), "the end"
        if cursor.peek().start > last.start:
            place = cursor.place()
            found = cursor.found()
    else:
        place = source.place(start)
        raw = cursor.all.raw_between(start, start + 1)
        found = source.written(start, raw[0].end + 1) if raw else "this"
        found = "a string" if raw and raw[0].token_type == TokenType.STRING else found
    if message.startswith("Expecting "):
        text = f"expected {message.removeprefix('Expecting ')}, found {found}"
    elif required := _REQUIRED.match(message):
        text = f"{required[2].upper()} is incomplete, found {found}"
    else:
        text = f"unexpected {found}"
    raise SqlError(text, place=place) from None


def _refuse_words(cursor: Cursor, first: Token, last: Token) -> None:
    words = cursor.all.between(first.start, last.end)
    for at, token in enumerate(words):
        if token.kind in _ITEMS or token[:2] == ("operator", ","):  # there may be 100,000
            continue
        before = words[at - 1] if at else token
        is_word = token.kind == "word" or not token.text[:1].isascii()
        if is_word and before.kind == "number" and before.end == token.start:
            raise SqlError(f"{token.text} is stuck to a number", place=cursor.place(token))
        if (
            token.kind == "name"
            and before.upper == "&"
            and before.end == token.start
            and cursor.source.text[before.start - 1 : before.start] in ("u", "U")
        ):
            raise NotSupportedError('names with escapes (U&"…")', place=cursor.place(before))
        if token.upper == "|" and before.upper in ("(", ","):
            raise NotSupportedError("lambdas (|x| …)", place=cursor.place(token))
        if token.upper not in _BEGINNINGS:
            continue
        for pattern, what in _NOT_YET:
            if tuple(t.upper for t in words[at : at + len(pattern)]) == pattern:
                raise NotSupportedError(what, place=cursor.place(token))
        if tuple(t.upper for t in words[at : at + 4]) == EMIT:
            raise SqlError(
                "EMIT ON WINDOW CLOSE does not belong here",
                place=cursor.place(token),
                remedy="write it at the end of a CREATE MATERIALIZED VIEW or CREATE SINK … AS",
            )


def _check_type(made: Query, node: exp.DataType) -> None:
    """Raise if a type has not the parameters that it needs."""
    if len(node.expressions) < _PARAMETERS.get(node.this, 0):
        raise SqlError(
            f"type {node.this.value.lower()} needs the types of its elements",
            place=made.place_of(node),
            remedy="integer[] is an array's type, ARRAY[1, 2] an array",
        )
    if node.this in _SIZED:
        for size in node.expressions:
            if not re.fullmatch(r"-?[0-9]{1,9}", size.name):
                raise SqlError(
                    f"type {node.this.value.lower()} takes numbers, not {size.name!r}",
                    place=made.place_of(node),
                )


def _finished(cursor: Cursor, tree: Any, first: Token, last: Token) -> Query:
    made = Query(tree, cursor.written(first, last), cursor.place(first), cursor.source)
    nodes = _nodes(tree)
    for node in nodes:
        if isinstance(node, exp.Identifier):
            if not node.args.get("quoted"):
                node.set("this", node.this.lower())
                node.set("quoted", True)
        elif isinstance(node, exp.Anonymous) and isinstance(node.this, str):
            node.set("this", node.this.lower())
        elif isinstance(node, exp.Command):
            raise SqlError("this cannot be understood", place=made.place_of(node))
        elif isinstance(node, exp.DataType):
            _check_type(made, node)
        elif isinstance(node, exp.In):
            items = node.expressions
            if len(items) == 1 and isinstance(items[0], exp.Values):  # IN (VALUES …)
                node.set("query", exp.Subquery(this=items[0]))
                node.set("expressions", [])
        elif isinstance(node, exp.Parameter) and cursor.source.of_client and node.name.isdigit():
            _check_parameter(made, node)
        else:
            for kind, what in _REFUSED:
                if isinstance(node, kind):
                    raise NotSupportedError(what, place=made.place_of(node))
    for node in nodes:
        if _is_empty_list(node):
            raise SqlError("expected an expression, found )", place=made.place_of(node))
        if (skipped := skipped_argument(node)) is not None:
            word = skipped.rstrip("_").replace("_", " ").upper()
            raise NotSupportedError(
                f"{word} of {type(node).__name__.upper()}", place=made.place_of(node)
            )
    return made


def _check_parameter(made: Query, node: exp.Parameter) -> None:
    digits = node.name
    if len(digits) > 9 or not 1 <= int(digits) <= MAX_PARAMETERS:
        raise SqlError(
            f"there is no parameter ${digits[:20]}", place=made.place_of(node), code="42P02"
        )


def _nodes(tree: exp.Expr) -> list[exp.Expr]:
    """The nodes of a tree but its literals, parents first; what sqlglot's own walk gives, in half the time."""
    found = [tree]
    for node in found:
        for value in node.args.values():
            for part in value if type(value) is list else (value,):
                if isinstance(part, exp.Expr) and type(part) is not exp.Literal:
                    found.append(part)
    return found


def _is_empty_list(node: exp.Expr) -> bool:
    """(), which only a grouping set may be."""
    if isinstance(node, exp.In):
        return not node.expressions and node.args.get("query") is None
    is_empty = isinstance(node, exp.Tuple) and not node.expressions
    return is_empty and not isinstance(node.parent, _GROUPING)
