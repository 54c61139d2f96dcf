"""A SQL text with its positions: what users wrote, what is parsed, and the way back from one to the other.

`Source.open` takes the text of a file and puts the values of `${NAME}` in where they stand outside string
literals (see `sql.environment`). All offsets in this package are offsets into `Source.text`, the text after
that; `place` and `written` turn them into positions and slices of the original.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from icestream.errors import Place, SqlError
from icestream.sql.environment import PLACEHOLDER, PLAIN_VALUE, lookup

_REGION = re.compile(
    r"""
      (?P<line>--[^\n]*+)
    | (?P<block>/\*)
    | (?P<escaped>(?<![\w$])[eE]'(?:[^'\\]|\\.|'')*+(?P<escaped_end>'?))
    | (?P<string>'(?:[^']|'')*+(?P<string_end>'?))
    | (?P<name>"(?:[^"]|"")*+(?P<name_end>"?))
    | (?P<dollar>(?<![\w$])\$(?:[^\W\d]\w*)?\$)
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = {"line": "comment", "block": "comment", "name": "name"}
_BLOCK_EDGE = re.compile(r"/\*|\*/")


@dataclass(frozen=True)
class Region:
    """A stretch of text that is not plain code: a comment, a literal or a quoted name."""

    kind: str  # comment, string, name
    start: int
    end: int


@dataclass(frozen=True)
class _Expansion:
    """Where a `${NAME}` stood in the original, and where its value stands in the text."""

    start: int
    end: int
    original_start: int
    original_end: int


@dataclass(frozen=True)
class Source:
    """The text of one file or one call, opened for parsing."""

    file: str
    original: str
    text: str
    expansions: tuple[_Expansion, ...] = ()
    line_starts: tuple[int, ...] = field(default=(0,), repr=False)

    @classmethod
    def open(cls, text: str, file: str, env: Mapping[str, str] | None) -> Source:
        """Check that literals and comments end and that variables are set; put those of the code in.

        Without an environment (`None`) nothing is looked up: the text stays as it is.
        """
        original = text.removeprefix("\ufeff")
        starts = (0, *(m.end() for m in re.finditer("\n", original)))
        plain = cls(file, original, original, (), starts)
        regions = list(plain.regions())
        if env is None:
            return plain
        return plain._expand(regions, env)

    def regions(self) -> Iterator[Region]:
        """The comments, literals and quoted names, in order; one that does not end is an error."""
        position = 0
        while found := _REGION.search(self.text, position):
            position = self._end_of(found)
            kind = _KINDS.get(_group(found), "string")
            yield Region(kind, found.start(), position)

    def _end_of(self, found: re.Match[str]) -> int:
        match _group(found):
            case "line":
                return found.end()
            case "block":
                return self._end_of_block(found)
            case "dollar":
                end = self.text.find(found[0], found.end())
                if end < 0:
                    self._unterminated(f"string {found[0]}", found, f"end it with {found[0]}")
                return end + len(found[0])
            case kind:
                if not found[f"{kind}_end"]:
                    quote = '"' if kind == "name" else "'"
                    what = "quoted name" if kind == "name" else "string"
                    self._unterminated(what, found, f"end it with {quote}")
                return found.end()

    def _end_of_block(self, found: re.Match[str]) -> int:
        depth = 0
        for edge in _BLOCK_EDGE.finditer(self.text, found.start()):
            depth += 1 if edge[0] == "/*" else -1
            if not depth:
                return edge.end()
        return self._unterminated("comment", found, "end it with */ (comments nest)")

    def _unterminated(self, what: str, found: re.Match[str], remedy: str) -> int:
        raise SqlError(f"this {what} does not end", place=self.place(found.start()), remedy=remedy)

    def _expand(self, regions: list[Region], env: Mapping[str, str]) -> Source:
        pieces: list[str] = []
        expansions: list[_Expansion] = []
        copied = length = 0
        for found in PLACEHOLDER.finditer(self.original):
            kind = _kind_at(regions, found.start())
            if kind == "comment" or (kind == "string" and found["escape"]):
                continue
            start = found.start("name") - 2
            value = lookup(found["name"], env, self.place(start))
            if kind == "string":
                continue
            if not PLAIN_VALUE.fullmatch(value):
                raise SqlError(
                    f"the value of ${{{found['name']}}} is neither a name nor a number",
                    place=self.place(start),
                    remedy="put it into a string literal: '${" + found["name"] + "}'",
                )
            pieces += [self.original[copied:start], value]
            length += start - copied
            expansions.append(_Expansion(length, length + len(value), start, found.end()))
            length += len(value)
            copied = found.end()
        text = "".join(pieces) + self.original[copied:]
        return Source(self.file, self.original, text, tuple(expansions), self.line_starts)

    def _origin(self, offset: int, *, end: bool = False) -> int:
        shift = 0
        for expansion in self.expansions:
            if offset < expansion.start:
                break
            if offset < expansion.end:
                return expansion.original_end - 1 if end else expansion.original_start
            shift = expansion.original_end - expansion.end
        return offset + shift

    def place(self, offset: int) -> Place:
        """The place, in the original text, of an offset."""
        at = self._origin(offset)
        line = bisect.bisect_right(self.line_starts, at) - 1
        start = self.line_starts[line]
        end = self.line_starts[line + 1] if line + 1 < len(self.line_starts) else None
        text = self.original[start:end].rstrip("\r\n")
        return Place(self.file, line + 1, at - start + 1, text)

    def written(self, start: int, end: int) -> str:
        """The original text between two offsets: `${NAME}` as it was written."""
        if end <= start:
            return ""
        return self.original[self._origin(start) : self._origin(end - 1, end=True) + 1]


def _group(found: re.Match[str]) -> str:
    kinds = ("line", "block", "escaped", "string", "name", "dollar")
    return next(kind for kind in kinds if found[kind] is not None)


def _kind_at(regions: list[Region], offset: int) -> str:
    at = bisect.bisect_right(regions, offset, key=lambda region: region.start) - 1
    return regions[at].kind if at >= 0 and offset < regions[at].end else "code"
