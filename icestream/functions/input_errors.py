"""Errors of text input, with the SQLSTATE and the message that PostgreSQL has for them."""

from __future__ import annotations

from icestream.errors import SignalError


class TextInputError(SignalError, ValueError):
    """A text that is no value of the type, or a constant that a function refuses. `code` is the SQLSTATE, `remedy` says what to write instead."""

    def __init__(self, code: str, message: str, remedy: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.remedy = remedy


def syntax_error(type_name: str, text: str, code: str = "22P02") -> TextInputError:
    """invalid input syntax for type integer: "x" """
    return TextInputError(code, f'invalid input syntax for type {type_name}: "{text}"')
