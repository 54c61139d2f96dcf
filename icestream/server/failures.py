"""An error or notice → the fields a client is told: SQLSTATE, message, position in its text, hint."""

from __future__ import annotations

import logging
import re

from icestream import errors
from icestream.secrecy import mask_secrets
from icestream.server import messages
from icestream.server.backend import Notice

_LOG = logging.getLogger(__name__)

_STATES: tuple[tuple[type[Exception], str, str], ...] = (
    # the error, what its message says, the SQLSTATE
    (errors.NotSupportedError, "", "0A000"),
    (errors.SqlError, r"column .*does not exist|there is no column|has no column", "42703"),
    (errors.SqlError, r"(function|operator|aggregate)\b.* does not exist", "42883"),
    (errors.SqlError, r"schema .*does not exist", "3F000"),
    (errors.SqlError, r"type .*does not exist|unknown type|no setting|unrecognized conf", "42704"),
    (errors.SqlError, r"does not exist|there is no(thing called)? |missing FROM-clause", "42P01"),
    (errors.SqlError, r"\bexists\b|already has a table", "42P07"),
    (errors.SqlError, r"is needed by", "2BP01"),
    (errors.SqlError, r"column .*\btwice", "42701"),
    (errors.SqlError, r"is ambiguous", "42702"),
    (errors.SqlError, r"is not unique", "42725"),
    (errors.SqlError, r"is an? .*, not an? ", "42809"),
    (errors.SqlError, r"GROUP BY|aggregate", "42803"),
    (errors.SqlError, r"types .*cannot be matched|cannot cast", "42804"),
    (errors.SqlError, "", "42601"),
    (errors.ConfigError, "", "F0000"),
    (errors.RangeLostError, "", "58030"),
    (errors.ConnectorError, "", "58000"),
    (errors.LakeError, "", "XX001"),
    (errors.FencedError, "", "57P01"),
    (errors.IcestreamError, "", "XX000"),
    (RecursionError, "", "54001"),
)


def code_of(error: Exception) -> str:
    """The SQLSTATE of an error."""
    code = getattr(error, "code", None)
    if isinstance(code, str):
        return code
    text = str(error.args[0]) if error.args else ""
    for kind, pattern, code in _STATES:
        if isinstance(error, kind) and re.search(pattern, text):
            return code
    return "XX000"


def response(error: Exception, sql: str | None = None, *, fatal: bool = False) -> bytes:
    """The ErrorResponse; `sql` is the text that the error's place is in.

    What is not one of our errors is a mistake of ours: it goes to the log, and its text not to the client.
    """
    severity = "FATAL" if fatal else "ERROR"
    fields = [("S", severity), ("V", severity), ("C", code_of(error))]
    if isinstance(error, RecursionError):
        fields.append(("M", "the statement is too complex: it is nested too deeply"))
        return messages.error_response(fields)
    if not isinstance(error, errors.IcestreamError):
        _LOG.error("internal error", exc_info=error)
        fields.append(("M", f"internal error: {type(error).__name__}"))
        fields.append(("H", "the log of the server has the rest"))
        return messages.error_response(fields)
    fields.append(("M", error.message))
    if detail := getattr(error, "detail", None):
        fields.append(("D", mask_secrets(detail)))
    if error.remedy:
        fields.append(("H", error.remedy))
    if error.place and sql is not None and (position := _position(error.place, sql)):
        fields.append(("P", str(position)))
    return messages.error_response(fields)


def notice(notice: Notice) -> bytes:
    """The NoticeResponse."""
    severity = notice.severity
    fields = [("S", severity), ("V", severity), ("C", notice.code), ("M", notice.message)]
    if notice.hint:
        fields.append(("H", notice.hint))
    return messages.notice_response([(k, mask_secrets(text)) for k, text in fields])


def _position(place: errors.Place, sql: str) -> int | None:
    """The number, from 1, of the character at a place of a text; None if it is a place of another one."""
    lines = sql.split("\n")
    if not 1 <= place.line <= len(lines):
        return None
    line = lines[place.line - 1]
    if place.text and len(place.text) != len(line.rstrip("\r")):  # secrets in it are starred out
        return None
    return sum(len(line) + 1 for line in lines[: place.line - 1]) + min(place.column, len(line) + 1)
