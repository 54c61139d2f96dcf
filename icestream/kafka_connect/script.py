"""A Kafka Connect configuration file (JSON) → the text of one CREATE CONNECTOR statement.

Every key stands in the statement where it stands in the file, same line and (where there is room) same column, so that
an error found later points into the user's own file.
"""

from __future__ import annotations

import bisect
import json
import re
from dataclasses import dataclass
from typing import Any, NoReturn

from icestream.errors import ConfigError, Place, did_you_mean
from icestream.secrecy import seems_secret_key

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_TOP = ("name", "config", "tasks", "type")
"""What Connect's REST interface gives and takes; tasks and type are its answer's and mean nothing here."""


@dataclass(frozen=True)
class _Entry:
    """One key of the configuration, its value as text, and where the key stands."""

    key: str
    value: str
    start: int


def script_of(text: str, file: str) -> str:
    """CREATE CONNECTOR for `{"name": …, "config": {…}}`, or for the configuration alone with its `name` in it."""
    return _Reader(text.removeprefix("\ufeff"), file).script()


class _Reader:
    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.lines = [0, *(m.end() for m in re.finditer("\n", text))]

    def script(self) -> str:
        document = self._parse()
        if not isinstance(document, dict):
            self._fail("this is not a Kafka Connect configuration: not a JSON object", 0)
        if isinstance(document.get("config"), dict):
            for key in document:
                if key not in _TOP:
                    remedy = did_you_mean(key, _TOP) or 'there are "name" and "config"'
                    self._fail(f"unknown key {key}", self._keys(1)[key], remedy)
            entries = self._entries(document["config"], 2)
            named = document.get("name", document["config"].get("name"))
        else:
            entries, named = self._entries(document, 1), document.get("name")
        if not isinstance(named, str) or not named:
            self._fail("the connector has no name", 0, 'add "name": "…"')
        return self._written(named, [e for e in entries if e.key != "name"])

    def _parse(self) -> Any:
        try:
            return json.loads(self.text, object_pairs_hook=self._distinct)
        except json.JSONDecodeError as error:
            self._fail(f"invalid JSON: {error.msg}", error.pos)
        except RecursionError:
            self._fail("invalid JSON: nested too deeply", 0)

    def _distinct(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                self._fail(f"key {key} is there twice", self.text.rfind(json.dumps(key)))
            found[key] = value
        return found

    def _entries(self, config: dict[str, Any], depth: int) -> list[_Entry]:
        places = self._keys(depth)
        entries = []
        for key, value in config.items():
            if isinstance(value, bool):
                value = str(value).lower()
            if not isinstance(value, str | int | float):
                self._fail(f"the value of {key} is not a text", places.get(key, 0))
            entries.append(_Entry(key, str(value), places.get(key, 0)))
        return sorted(entries, key=lambda e: e.start)

    def _keys(self, depth: int) -> dict[str, int]:
        """Where the keys of the objects at that depth stand; of those inside "config" for depth 2."""
        found: dict[str, int] = {}
        level, tokens = 0, list(_TOKEN.finditer(self.text))
        outer = ""
        for token, following in zip(tokens, [*tokens[1:], None], strict=True):
            if token[0] in "{[":
                level += 1
            elif token[0] in "}]":
                level -= 1
            elif following is not None and following[0] == ":" and token[0].startswith('"'):
                key = json.loads(token[0])
                outer = key if level == 1 else outer
                if level == depth and (depth == 1 or outer == "config"):
                    found[key] = token.start()
        return found

    def _written(self, name: str, entries: list[_Entry]) -> str:
        text = f"CREATE CONNECTOR {_quoted(name)} WITH ("
        for number, entry in enumerate(entries):
            line, column = self._position(entry.start)
            text += "\n" * (line - 1 - text.count("\n"))
            room = column - 1 - len(text.rpartition("\n")[2])
            text += " " * max(room, 1)
            literal = "'" + entry.value.replace("'", "''") + "'"
            text += f"{_quoted(entry.key)}= {literal}" + ("," if number + 1 < len(entries) else "")
        return text + "\n)"

    def _position(self, offset: int) -> tuple[int, int]:
        line = bisect.bisect_right(self.lines, offset)
        return line, offset - self.lines[line - 1] + 1

    def _fail(self, message: str, offset: int, remedy: str | None = None) -> NoReturn:
        line, column = self._position(max(offset, 0))
        shown = self.text[self.lines[line - 1] :].partition("\n")[0].rstrip("\r")
        secret = any(seems_secret_key(word) for word in re.findall(r'"([^"]*)"', shown))
        place = Place(self.file, line, column, "" if secret else shown)
        raise ConfigError(message, place=place, remedy=remedy)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
