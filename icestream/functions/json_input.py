"""JSON text → the canonical text that jsonb is stored as: the form that `casts.canonical_json` gives for columns."""

from __future__ import annotations

import re
from decimal import Decimal

from icestream.functions.input_errors import TextInputError

_BLANK = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_WORDS = ("true", "false", "null")
_ESCAPES = {
    '"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip
_WRITTEN = {
    '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
}  # fmt: skip
_DEEPEST = 200
_LONGEST_EXPONENT = 9


def parse_json(text: str) -> str:
    """The canonical text: keys sorted, the last one of equal keys, a space after each colon and comma."""
    return _JsonReader(text).read_document()


class _JsonReader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def wrong(self) -> TextInputError:
        return TextInputError("22P02", "invalid input syntax for type json")

    def read_document(self) -> str:
        value = self.read_value(0)
        self.skip_blanks()
        if self.at < len(self.text):
            raise self.wrong()
        return value

    def skip_blanks(self) -> None:
        match = _BLANK.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def take(self, mark: str) -> bool:
        """Step over a mark if it is next."""
        self.skip_blanks()
        found = self.text.startswith(mark, self.at)
        self.at += len(mark) if found else 0
        return found

    def read_value(self, depth: int) -> str:
        if depth > _DEEPEST:
            raise TextInputError("54001", f"JSON is nested deeper than {_DEEPEST} levels")
        if self.take("{"):
            return self.read_object(depth)
        if self.take("["):
            items: list[str] = []
            if not self.take("]"):
                items.append(self.read_value(depth + 1))
                while self.take(","):
                    items.append(self.read_value(depth + 1))
                if not self.take("]"):
                    raise self.wrong()
            return f"[{', '.join(items)}]"
        if self.take('"'):
            return write_string(self.read_string())
        for word in _WORDS:
            if self.take(word):
                return self.end_of_word(word)
        match = _NUMBER.match(self.text, self.at)
        if match is None:
            raise self.wrong()
        self.at = match.end()
        return self.end_of_word(write_number(match[0]))

    def end_of_word(self, value: str) -> str:
        after = self.text[self.at : self.at + 1]
        if after and (after.isalnum() or after in "_$.+-" or after > "\x7f"):
            raise self.wrong()
        return value

    def read_object(self, depth: int) -> str:
        fields: dict[str, str] = {}
        if not self.take("}"):
            while True:
                if not self.take('"'):
                    raise self.wrong()
                key = self.read_string()
                if not self.take(":"):
                    raise self.wrong()
                fields[key] = self.read_value(depth + 1)
                if self.take("}"):
                    break
                if not self.take(","):
                    raise self.wrong()
        keys = sorted(fields, key=lambda k: k.encode("utf-16-be"))
        return "{" + ", ".join(f"{write_string(k)}: {fields[k]}" for k in keys) + "}"

    def read_string(self) -> str:
        """The string after its opening quote."""
        pieces: list[str] = []
        while True:
            match = _PLAIN.match(self.text, self.at)
            assert match is not None
            pieces.append(match[0])
            self.at = match.end() + 1
            mark = self.text[match.end() : self.at]
            if mark == '"':
                return "".join(pieces)
            if mark != "\\":
                raise self.wrong()
            pieces.append(self.read_escape())

    def read_escape(self) -> str:
        letter = self.text[self.at : self.at + 1]
        self.at += 1
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if letter != "u":
            raise self.wrong()
        first = self.read_unit()
        if 0xDC00 <= first < 0xE000:
            raise self.wrong()
        if 0xD800 <= first < 0xDC00:
            if self.text[self.at : self.at + 2] != "\\u":
                raise self.wrong()
            self.at += 2
            second = self.read_unit()
            if not 0xDC00 <= second < 0xE000:
                raise self.wrong()
            return chr(0x10000 + ((first - 0xD800) << 10) + second - 0xDC00)
        if first == 0:
            raise TextInputError("22P05", "unsupported Unicode escape sequence")
        return chr(first)

    def read_unit(self) -> int:
        digits = self.text[self.at : self.at + 4]
        if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
            raise self.wrong()
        self.at += 4
        return int(digits, 16)


def write_string(value: str) -> str:
    """A string in quotes. Only what must be escaped is."""
    escaped = re.sub(
        r'["\\\x00-\x1f]', lambda m: _WRITTEN.get(m[0]) or f"\\u{ord(m[0]):04X}", value
    )
    return f'"{escaped}"'


def write_number(text: str) -> str:
    """All digits of a number, without an exponent and without zeros at the end of its fraction."""
    exponent = text.lower().partition("e")[2]
    if (
        len(exponent.lstrip("+-").lstrip("0")) > _LONGEST_EXPONENT
        or not -16_383 <= int(exponent or 0) <= 131_071
    ):
        raise TextInputError("22003", "value overflows numeric format")
    plain = format(Decimal(text), "f")
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    return "0" if plain == "-0" else plain
