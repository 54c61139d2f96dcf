"""BEGIN, COMMIT, SAVEPOINT, SET, RESET, DISCARD, DEALLOCATE, DECLARE, FETCH, CLOSE: statements of a session."""

from __future__ import annotations

from collections.abc import Callable

from icestream.errors import NotSupportedError, SqlError
from icestream.sql.cursor import Cursor
from icestream.sql.dialect import UNITS
from icestream.sql.session_statements import (
    BeginTransaction,
    CloseCursor,
    CommitTransaction,
    Deallocate,
    DeclareCursor,
    DeclareSubscriptionCursor,
    Discard,
    FetchCursor,
    IsolationLevel,
    ReleaseSavepoint,
    ResetSetting,
    RollbackToSavepoint,
    RollbackTransaction,
    Savepoint,
    SetSessionCharacteristics,
    SetTransaction,
    SubscriptionStart,
    TransactionModes,
    Unlisten,
)
from icestream.sql.statements import SetVariable, Statement

_LEVELS: tuple[tuple[tuple[str, ...], IsolationLevel], ...] = (
    (("SERIALIZABLE",), "serializable"),
    (("REPEATABLE", "READ"), "repeatable read"),
    (("READ", "COMMITTED"), "read committed"),
    (("READ", "UNCOMMITTED"), "read uncommitted"),
)
_MODE = "ISOLATION LEVEL …, READ ONLY or READ WRITE"
_POSITION = "now(), begin(), milliseconds since 1970 (a rw_timestamp), or a timestamp in quotes"
_OTHER_DIRECTIONS = ("PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE", "BACKWARD")


# -- transactions ---------------------------------------------------------------------------------


def begin(cursor: Cursor) -> BeginTransaction:
    """BEGIN [WORK | TRANSACTION] [modes] | START TRANSACTION [modes]"""
    if cursor.accept("BEGIN"):
        _skip_block_word(cursor)
        return BeginTransaction(cursor.start, cursor.text, "BEGIN", _modes(cursor, least=0))
    cursor.expect("START", "TRANSACTION")
    return BeginTransaction(cursor.start, cursor.text, "START TRANSACTION", _modes(cursor, least=0))


def commit(cursor: Cursor) -> CommitTransaction:
    """COMMIT | END [WORK | TRANSACTION] [AND NO CHAIN]"""
    cursor.next()
    _skip_block_word(cursor)
    _end_without_chain(cursor)
    return CommitTransaction(cursor.start, cursor.text)


def rollback(cursor: Cursor) -> RollbackTransaction | RollbackToSavepoint:
    """ROLLBACK | ABORT [WORK | TRANSACTION] [AND NO CHAIN] | ROLLBACK … TO [SAVEPOINT] name"""
    word = cursor.next()
    _skip_block_word(cursor)
    if word.upper == "ROLLBACK" and cursor.accept("TO"):
        cursor.accept("SAVEPOINT")
        return RollbackToSavepoint(cursor.start, cursor.text, _last_name(cursor, "a savepoint"))
    _end_without_chain(cursor)
    return RollbackTransaction(cursor.start, cursor.text)


def savepoint(cursor: Cursor) -> Savepoint:
    """SAVEPOINT name"""
    cursor.expect("SAVEPOINT")
    return Savepoint(cursor.start, cursor.text, _last_name(cursor, "a savepoint"))


def release(cursor: Cursor) -> ReleaseSavepoint:
    """RELEASE [SAVEPOINT] name"""
    cursor.expect("RELEASE")
    cursor.accept("SAVEPOINT")
    return ReleaseSavepoint(cursor.start, cursor.text, _last_name(cursor, "a savepoint"))


def prepare(cursor: Cursor) -> Statement:
    """PREPARE TRANSACTION and PREPARE name: neither is there."""
    cursor.expect("PREPARE")
    what = "PREPARE TRANSACTION" if cursor.at("TRANSACTION") else "PREPARE"
    raise NotSupportedError(
        what, place=cursor.start, remedy="clients prepare statements with messages of the protocol"
    )


def _skip_block_word(cursor: Cursor) -> None:
    _ = cursor.accept("WORK") or cursor.accept("TRANSACTION")


def _end_without_chain(cursor: Cursor) -> None:
    if cursor.at("AND", "CHAIN"):
        raise NotSupportedError("AND CHAIN", place=cursor.place())
    if cursor.at("AND"):
        cursor.expect("AND", "NO", "CHAIN")
    cursor.finish()


def _last_name(cursor: Cursor, what: str) -> str:
    name = cursor.identifier(f"the name of {what}")
    cursor.finish()
    return name


def _modes(cursor: Cursor, *, least: int) -> TransactionModes:
    """The modes of BEGIN and SET TRANSACTION. Commas between them may be left out, as in PostgreSQL."""
    level: IsolationLevel | None = None
    read_only: bool | None = None
    count = 0
    while cursor.peek().kind != "end" or count < least:
        if count and cursor.accept(",") and cursor.peek().kind == "end":
            cursor.fail(_MODE)
        if cursor.accept("ISOLATION", "LEVEL"):
            level = _level(cursor)
        elif cursor.accept("READ", "ONLY"):
            read_only = True
        elif cursor.accept("READ", "WRITE"):
            read_only = False
        elif not (cursor.accept("DEFERRABLE") or cursor.accept("NOT", "DEFERRABLE")):
            cursor.fail(_MODE)
        count += 1
    return TransactionModes(level, read_only)


def _level(cursor: Cursor) -> IsolationLevel:
    for words, level in _LEVELS:
        if cursor.accept(*words):
            return level
    cursor.fail("an isolation level")


# -- settings -------------------------------------------------------------------------------------


def set_setting(cursor: Cursor) -> SetVariable | SetTransaction | SetSessionCharacteristics:
    """SET [SESSION | LOCAL] name = | TO value | DEFAULT, and its special forms"""
    cursor.expect("SET")
    local = False
    if not cursor.at("=", ahead=1):
        if cursor.accept("SESSION", "CHARACTERISTICS"):
            cursor.expect("AS", "TRANSACTION")
            modes = _modes(cursor, least=1)
            return SetSessionCharacteristics(cursor.start, cursor.text, modes)
        local = cursor.accept("LOCAL")
        _ = local or cursor.accept("SESSION")
    if cursor.at("TRANSACTION") and not (cursor.at("=", ahead=1) or cursor.at("TO", ahead=1)):
        cursor.expect("TRANSACTION")
        if cursor.at("SNAPSHOT"):
            raise NotSupportedError("SET TRANSACTION SNAPSHOT", place=cursor.place())
        return SetTransaction(cursor.start, cursor.text, _modes(cursor, least=1))
    interval = False
    if cursor.accept("TIME", "ZONE"):
        name = "timezone"
        interval = cursor.accept("INTERVAL")
    elif cursor.at("NAMES") and not (cursor.at("=", ahead=1) or cursor.at("TO", ahead=1)):
        cursor.expect("NAMES")
        name = "client_encoding"
    else:
        name = setting_name(cursor, "the name of a setting")
        if not cursor.accept("="):
            cursor.expect("TO")
    value = None if cursor.accept("DEFAULT") else setting_values(cursor)
    if interval:
        _skip_interval_unit(cursor)
    cursor.finish()
    return SetVariable(cursor.start, cursor.text, name, value, local, interval)


def alter_system(cursor: Cursor) -> SetVariable:
    """ALTER SYSTEM SET name = | TO value | DEFAULT | ALTER SYSTEM RESET name"""
    cursor.expect("ALTER", "SYSTEM")
    value: str | None = None
    if cursor.accept("RESET"):
        name = setting_name(cursor, "the name of a setting")
    else:
        cursor.expect("SET")
        name = setting_name(cursor, "the name of a setting")
        if not cursor.accept("="):
            cursor.expect("TO")
        value = None if cursor.accept("DEFAULT") else setting_values(cursor)
    cursor.finish()
    return SetVariable(cursor.start, cursor.text, name, value, system=True)


def _skip_interval_unit(cursor: Cursor) -> None:
    """HOUR TO MINUTE, which changes nothing of a time."""
    if cursor.peek().upper in UNITS:
        cursor.next()
        if cursor.accept("TO"):
            cursor.word("a unit", UNITS)


def reset(cursor: Cursor) -> ResetSetting:
    """RESET name | ALL | TIME ZONE | TRANSACTION ISOLATION LEVEL | SESSION AUTHORIZATION"""
    cursor.expect("RESET")
    if cursor.accept("ALL"):
        name = "all"
    else:
        name = special_name(cursor) or setting_name(cursor, "the name of a setting")
    cursor.finish()
    return ResetSetting(cursor.start, cursor.text, name)


def special_name(cursor: Cursor) -> str | None:
    """The setting that is named by several words, if one comes next."""
    for words, name in (
        (("TIME", "ZONE"), "timezone"),
        (("TRANSACTION", "ISOLATION", "LEVEL"), "transaction_isolation"),
        (("SESSION", "AUTHORIZATION"), "session_authorization"),
    ):
        if cursor.accept(*words):
            return name
    return None


def setting_name(cursor: Cursor, what: str) -> str:
    """name[.name …]; in lower case, also if it is quoted, as in PostgreSQL"""
    parts = [cursor.identifier(what)]
    while cursor.accept("."):
        parts.append(cursor.identifier(what))
    return ".".join(parts).lower()


def setting_values(cursor: Cursor) -> str:
    """value [, …]"""
    values = [_value(cursor)]
    while cursor.accept(","):
        values.append(_value(cursor))
    return ", ".join(values)


def _value(cursor: Cursor) -> str:
    sign = "-" if cursor.accept("-") else ""
    if not sign:
        cursor.accept("+")
    token = cursor.peek()
    if token.kind == "number":
        return sign + cursor.next().text
    if sign or token.kind not in ("word", "name", "string"):
        cursor.fail("a number" if sign else "a value")
    cursor.next()
    return token.text.lower() if token.kind == "word" else token.text


# -- prepared statements, channels ----------------------------------------------------------------


def discard(cursor: Cursor) -> Discard:
    """DISCARD ALL | PLANS | SEQUENCES | TEMP | TEMPORARY"""
    cursor.expect("DISCARD")
    what = cursor.word("what to discard", ("ALL", "PLANS", "SEQUENCES", "TEMP", "TEMPORARY"))
    cursor.finish()
    return Discard(cursor.start, cursor.text, what)


def deallocate(cursor: Cursor) -> Deallocate:
    """DEALLOCATE [PREPARE] name | ALL"""
    cursor.expect("DEALLOCATE")
    if cursor.peek(1).kind != "end":
        cursor.accept("PREPARE")
    if cursor.accept("ALL"):
        cursor.finish()
        return Deallocate(cursor.start, cursor.text, None)
    return Deallocate(cursor.start, cursor.text, _last_name(cursor, "a prepared statement"))


def listen(cursor: Cursor) -> Statement:
    """LISTEN: there are no notifications."""
    raise NotSupportedError("LISTEN", place=cursor.start)


def unlisten(cursor: Cursor) -> Unlisten:
    """UNLISTEN channel | *: nobody listens, so there is nothing to do."""
    cursor.expect("UNLISTEN")
    if not cursor.accept("*"):
        cursor.identifier("a channel")
    cursor.finish()
    return Unlisten(cursor.start, cursor.text)


# -- cursors --------------------------------------------------------------------------------------


def declare(
    cursor: Cursor, statement: Callable[[Cursor], Statement]
) -> DeclareCursor | DeclareSubscriptionCursor:
    """DECLARE name [options] [SUBSCRIPTION] CURSOR [WITH | WITHOUT HOLD] FOR …; `statement` parses what it is for."""
    cursor.expect("DECLARE")
    name = cursor.identifier("the name of a cursor")
    while any(
        cursor.accept(*words)
        for words in (("BINARY",), ("INSENSITIVE",), ("ASENSITIVE",), ("NO", "SCROLL"), ("SCROLL",))
    ):
        pass
    if cursor.accept("SUBSCRIPTION"):
        cursor.expect("CURSOR", "FOR")
        subscription = cursor.name("the name of a subscription")
        start = _start(cursor)
        cursor.finish()
        return DeclareSubscriptionCursor(cursor.start, cursor.text, name, subscription, start)
    cursor.expect("CURSOR")
    _ = cursor.accept("WITH", "HOLD") or cursor.accept("WITHOUT", "HOLD")
    cursor.expect("FOR")
    if not any(cursor.at(word) for word in ("SELECT", "VALUES", "WITH", "(", "SHOW")):
        cursor.fail("a query")
    return DeclareCursor(cursor.start, cursor.text, name, statement(cursor.rest()))


def _start(cursor: Cursor) -> SubscriptionStart:
    """[FULL | SINCE now() | begin() | milliseconds | 'timestamp']"""
    if cursor.accept("FULL"):
        return SubscriptionStart("full")
    if not cursor.accept("SINCE"):
        return SubscriptionStart("now")
    if cursor.accept("NOW", "(", ")") or cursor.accept("PROCTIME", "(", ")"):
        return SubscriptionStart("now")
    if cursor.accept("BEGIN", "(", ")"):
        return SubscriptionStart("begin")
    if cursor.peek().kind == "number":
        return SubscriptionStart("moment", cursor.integer("milliseconds since 1970"))
    if not cursor.accept("TIMESTAMPTZ") and cursor.accept("TIMESTAMP"):
        cursor.accept("WITH", "TIME", "ZONE")
    if cursor.peek().kind != "string":
        raise SqlError(
            f"SINCE {cursor.found()} is no position",
            place=cursor.place(),
            remedy=_POSITION,
            code="42601",
        )
    return SubscriptionStart("moment", cursor.string("a timestamp"))


def fetch(cursor: Cursor) -> FetchCursor:
    """FETCH [FORWARD] [NEXT | count | ALL] [FROM | IN] name [WITH (timeout = '…')]"""
    cursor.expect("FETCH")
    if cursor.peek().upper in _OTHER_DIRECTIONS and cursor.peek(1).kind != "end":
        raise NotSupportedError(
            f"FETCH {cursor.peek().upper}", place=cursor.place(), remedy="cursors move forward"
        )
    limit: int | None = 1
    if cursor.peek(1).kind != "end":
        cursor.accept("FORWARD")
    if cursor.accept("ALL"):
        limit = None
    elif cursor.peek().kind == "number":
        limit = cursor.integer("a number of rows")
    elif cursor.peek(1).kind != "end":
        cursor.accept("NEXT")
    _ = cursor.accept("FROM") or cursor.accept("IN")
    name = cursor.identifier("the name of a cursor")
    timeout = None
    if cursor.accept("WITH"):
        cursor.expect("(", "TIMEOUT", "=")
        timeout = cursor.string("a duration such as '500ms' or '10s'")
        cursor.expect(")")
    cursor.finish()
    return FetchCursor(cursor.start, cursor.text, name, limit, timeout)


def close(cursor: Cursor) -> CloseCursor:
    """CLOSE name | ALL"""
    cursor.expect("CLOSE")
    if cursor.accept("ALL"):
        cursor.finish()
        return CloseCursor(cursor.start, cursor.text, None)
    return CloseCursor(cursor.start, cursor.text, _last_name(cursor, "a cursor"))
