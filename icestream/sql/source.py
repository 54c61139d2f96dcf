"""A SQL text with its positions: what users wrote, what is parsed, and the way back from one to the other.

`Source.open` takes the text of a file and puts the values of `${NAME}` in where they stand outside literals and
quoted names (see `sql.environment`). All offsets in this package are offsets into `Source.text`, the text after
that; `place` and `written` turn them into positions and slices of the original.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from icestream.errors import Place, SqlError
from icestream.sql.environment import PLACEHOLDER, PLAIN_VALUE, lookup
from icestream.sql.secrecy import Region, blind

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
_NO_TEXT = re.compile("[\\0\\ud800-\\udfff]")
"""What no text has in PostgreSQL: NUL, and halves of letters."""
_BLOCK_EDGE = re.compile(r"/\*|\*/")


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
    shown: str = field(default="", repr=False)  # the original with stars over its secrets
    unset: tuple[tuple[int, str], ...] = ()  # `${NAME}` in literals without a value: place, name
    names: frozenset[str] = field(default=frozenset(), repr=False)  # variables that are set
    of_client: bool = False
    """Whether a client of the server wrote it: it may have parameters, and `${NAME}` in its option values is data."""
    _line_texts: dict[int, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def open(
        cls, text: str, file: str, env: Mapping[str, str] | None, *, of_client: bool = False
    ) -> Source:
        """Check that literals and comments end; put the variables of the code in. Literals stay as they are.

        Without an environment (`None`) nothing is looked up: the text stays as it is.
        """
        original = text.removeprefix("\ufeff")
        starts = (0, *(m.end() for m in re.finditer("\n", original)))
        regions = list(scan(original))
        shown = blind(original, regions)
        plain = cls(file, original, original, (), starts, shown, of_client=of_client)
        if wrong := _NO_TEXT.search(original):
            raise SqlError(
                f'invalid byte sequence for encoding "UTF8": U+{ord(wrong[0]):04X}',
                place=plain.place(wrong.start()),
                code="22021",
            )
        if regions and regions[-1].ending:
            raise SqlError(
                f"this {regions[-1].kind} does not end",
                place=plain.place(regions[-1].start),
                remedy=f"end it with {regions[-1].ending}",
            )
        return plain if env is None else plain._expand(regions, env)

    def _expand(self, regions: list[Region], env: Mapping[str, str]) -> Source:
        pieces: list[str] = []
        expansions: list[_Expansion] = []
        unset: list[tuple[int, str]] = []
        copied = length = 0
        for found in PLACEHOLDER.finditer(self.original):
            kind = _kind_at(regions, found.start())
            start = found.start("name") - 2
            if kind == "string" and not found["escape"] and found["name"] not in env:
                unset.append((start, found["name"]))
            if kind != "code":
                continue
            value = lookup(found["name"], env, self.place(start))
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
        return replace(
            self, text=text, expansions=tuple(expansions), unset=tuple(unset), names=frozenset(env)
        )

    def check_variables(self, start: int, end: int) -> None:
        """Raise if a literal between two offsets names a variable that is not set."""
        if self.of_client:
            return
        first, last = self.span(start, end)
        for at, name in self.unset:
            if first <= at < last:
                lookup(name, dict.fromkeys(self.names, ""), self.place(start + at - first))

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
        return Place(self.file, line + 1, at - self.line_starts[line] + 1, self._line_text(line))

    def _line_text(self, line: int) -> str:
        """A line as errors show it. It is cut out once: all statements of a long line share it."""
        if line not in self._line_texts:
            start = self.line_starts[line]
            end = self.line_starts[line + 1] if line + 1 < len(self.line_starts) else None
            self._line_texts[line] = self.shown[start:end].rstrip("\r\n")
        return self._line_texts[line]

    def written(self, start: int, end: int) -> str:
        """The original text between two offsets: `${NAME}` as it was written."""
        if end <= start:
            return ""
        return self.original[slice(*self.span(start, end))]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where the text between two offsets begins and ends in the original."""
        return self._origin(start), self._origin(end - 1, end=True) + 1


def scan(text: str) -> Iterator[Region]:
    """The comments, literals and quoted names of a text, in order."""
    position = 0
    while found := _REGION.search(text, position):
        region = _region(text, found)
        yield region
        position = region.end


def _region(text: str, found: re.Match[str]) -> Region:
    start = found.start()
    if found["line"] is not None:
        return Region("comment", start, found.end())
    if found["block"] is not None:
        depth = 0
        for edge in _BLOCK_EDGE.finditer(text, start):
            depth += 1 if edge[0] == "/*" else -1
            if not depth:
                return Region("comment", start, edge.end())
        return Region("comment", start, len(text), "*/ (comments nest)")
    if found["dollar"] is not None:
        end = text.find(found[0], found.end())
        if end < 0:
            return Region("string", start, len(text), found[0])
        return Region("string", start, end + len(found[0]))
    kind, quote = ("quoted name", '"') if found["name"] is not None else ("string", "'")
    ended = found["escaped_end"] or found["string_end"] or found["name_end"]
    return Region(kind, start, found.end(), "" if ended else quote)


def _kind_at(regions: list[Region], offset: int) -> str:
    at = bisect.bisect_right(regions, offset, key=lambda region: region.start) - 1
    return regions[at].kind if at >= 0 and offset < regions[at].end else "code"
